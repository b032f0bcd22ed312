package policy

// terms are what a selecting peer or appliedTo says, compiled. Exactly one of pod, external, node
// and remote may be set.
type terms struct {
	// namespace pins the selection to one Namespace; it is ignored if namespaces is set.
	namespace  string
	namespaces *selector
	pod        *selector
	external   *selector
	node       *selector
	remote     *selector
}

// normalized returns the text that identifies the selection, from which its group's name is made.
func (t *terms) normalized() string { return string(t.appendNormalized(nil)) }

// appendNormalized appends the normalized text: its parts in alphabetical order.
func (t *terms) appendNormalized(out []byte) []byte {
	begin := len(out)
	put := func(prefix, text string) {
		if len(out) > begin {
			out = append(out, " And "...)
		}
		out = append(append(out, prefix...), text...)
	}
	if t.external != nil {
		put("eeSelector=", t.external.text)
	}
	if t.namespaces == nil && t.namespace != "" {
		put("namespace=", t.namespace)
	}
	if t.namespaces != nil {
		put("namespaceSelector=", t.namespaces.text)
	}
	if t.node != nil {
		put("nodeSelector=", t.node.text)
	}
	if t.pod != nil && t.external == nil {
		put("podSelector=", t.pod.text)
	}
	if t.remote != nil {
		put("remoteGroup=", t.remote.text)
	}
	return out
}

// target returns what kind of entities the terms select and by which labels; a nil selector selects
// all of the kind.
func (t *terms) target() (EntityKind, *selector) {
	switch {
	case t.external != nil:
		return KindExternalEntity, t.external
	case t.node != nil:
		return KindNode, t.node
	case t.remote != nil:
		return KindRemote, t.remote
	}
	return KindPod, t.pod
}
