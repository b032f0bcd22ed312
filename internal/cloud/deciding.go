package cloud

// Deciding returns the groups of an interface whose rules decide about it. These are all of them,
// unless one is a view of a foreign group: a view decides alone, and the other groups are only
// names by which rules elsewhere reference the interface.
func Deciding(held []string, group func(id string) *Group) []string {
	for _, id := range held {
		if g := group(id); g != nil && g.View {
			return []string{id}
		}
	}
	return held
}
