package selectors

import "github.com/nephele-io/nephele/internal/policy"

// Terms are what a selecting peer or appliedTo says, compiled. Exactly one of pod, external, node
// and remote may be set.
type Terms struct {
	// Namespace pins the selection to one Namespace; it is ignored if namespaces is set.
	Namespace  string
	Namespaces *Selector
	Pod        *Selector
	External   *Selector
	Node       *Selector
	Remote     *Selector
}

// Normalized returns the text that identifies the selection, from which its group's name is made.
func (t *Terms) Normalized() string { return string(t.AppendNormalized(nil)) }

// AppendNormalized appends the normalized text: its parts in alphabetical order.
func (t *Terms) AppendNormalized(out []byte) []byte {
	begin := len(out)
	put := func(prefix, text string) {
		if len(out) > begin {
			out = append(out, " And "...)
		}
		out = append(append(out, prefix...), text...)
	}
	if t.External != nil {
		put("eeSelector=", t.External.Text)
	}
	if t.Namespaces == nil && t.Namespace != "" {
		put("namespace=", t.Namespace)
	}
	if t.Namespaces != nil {
		put("namespaceSelector=", t.Namespaces.Text)
	}
	if t.Node != nil {
		put("nodeSelector=", t.Node.Text)
	}
	if t.Pod != nil && t.External == nil {
		put("podSelector=", t.Pod.Text)
	}
	if t.Remote != nil {
		put("remoteGroup=", t.Remote.Text)
	}
	return out
}

// Target returns what kind of entities the terms select and by which labels; a nil selector selects
// all of the kind.
func (t *Terms) Target() (policy.EntityKind, *Selector) {
	switch {
	case t.External != nil:
		return policy.KindExternalEntity, t.External
	case t.Node != nil:
		return policy.KindNode, t.Node
	case t.Remote != nil:
		return policy.KindRemote, t.Remote
	}
	return policy.KindPod, t.Pod
}
