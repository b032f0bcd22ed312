package roster

// Nodes is how many Nodes the Index remembers.
func (b *Index) Nodes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.nodes)
}
