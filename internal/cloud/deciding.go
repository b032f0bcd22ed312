package cloud

// Deciding returns, of the groups that an interface holds, those whose rules decide about it. That
// is all of them, but for a view of somebody else's group: where an interface has one, it decides
// alone, and others are held as a name by which rules elsewhere mean the interface.
func Deciding(held []string, group func(id string) *Group) []string {
	for _, id := range held {
		if g := group(id); g != nil && g.View {
			return []string{id}
		}
	}
	return held
}
