package fqdn

// Patterns are the names in force.
func (n *Names) Patterns() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for name := range n.patterns {
		out = append(out, name)
	}
	return out
}
