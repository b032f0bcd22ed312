package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// batch is how many interfaces are tagged by one call, if records are not signed. Clouds take more, but the tags are to be written not long before the interfaces
// are edited and removed not long after.
const batch = 50

// leg is a part of the way of interfaces from their old groups to the new ones: interfaces of one atom, which get the same groups in one
// stage.
type leg struct {
	nics   []*nic
	keys   []string // of the groups
	reason string
	// last is set if the groups are those that the interfaces shall have in the end.
	last bool
}

// legs returns the parts of the way in their order: first those that only join, then those that move in one step, then those that only
// leave.
func (e *emitter) legs() (out []leg) {
	direct := map[*atom]bool{}
	for _, a := range e.directed {
		direct[a] = true
	}
	add := func(a *atom, keys []string, reason string) {
		slices.Sort(keys)
		for nics := range slices.Chunk(a.nics, e.load()) {
			out = append(out, leg{nics, keys, reason, slices.Equal(keys, a.target)})
		}
	}
	for _, a := range e.atoms {
		if !direct[a] && len(a.joining) > 0 {
			reason := "join"
			if len(a.leaving) > 0 {
				reason = "join the new groups before leaving the old ones"
			}
			add(a, append(slices.Clone(a.current), a.joining...), reason)
		}
	}
	for _, a := range e.directed {
		add(a, a.target, "")
	}
	for _, a := range e.atoms {
		if !direct[a] && len(a.leaving) > 0 {
			add(a, a.target, "leave the old groups")
		}
	}
	return out
}

// move sets the groups of the interfaces, and writes or removes the tags that remember their former ones: many by one call, those of the
// next interfaces while the present ones move, so that the rate of neither kind of call waits for the other.
func (e *emitter) move() {
	marks := &marking{emitter: e, done: map[mark]bool{}}
	legs := e.legs()
	var trains [][]leg // of interfaces that are tagged together
	for at := 0; at < len(legs); {
		n, end := 0, at
		for end < len(legs) && (end == at || n+len(legs[end].nics) <= e.load()) {
			n += len(legs[end].nics)
			end++
		}
		trains = append(trains, legs[at:end])
		at = end
	}
	if len(trains) > 0 {
		e.next()
		marks.record(trains[0])
	}
	var arrived []leg
	for i, train := range trains {
		for k, l := range train {
			e.next()
			if k == 0 && i+1 < len(trains) {
				marks.record(trains[i+1])
			}
			if k == 0 {
				marks.forget(arrived)
			}
			e.set(l)
		}
		arrived = train
	}
	e.next()
	marks.forget(arrived)
	rest := leg{nics: e.nics, last: true}
	marks.record([]leg{rest})
	marks.forget([]leg{rest})
}

// set gives the interfaces their groups. They do not wait for one another.
func (e *emitter) set(l leg) {
	for _, n := range l.nics {
		if e.freed[n.ID] {
			continue
		}
		op := cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, Reason: l.reason}
		for _, key := range l.keys {
			if name, ok := strings.CutPrefix(key, "+"); ok {
				op.GroupNames = append(op.GroupNames, name)
			} else {
				op.GroupIDs = append(op.GroupIDs, key)
			}
		}
		if l.reason == "" {
			op.Reason = e.purpose(n)
		}
		e.add(n.NetworkID, op)
		e.because(e.policiesOf(n.class))
	}
}

func (e *emitter) purpose(n *nic) string {
	switch {
	case n.state == Guarded && len(n.ours) == 0 && e.native(n):
		return "take over with the rules of its own groups, because these refer to groups that others give up"
	case n.state == Guarded && len(n.ours) == 0:
		return "take over"
	case n.state == Guarded:
		return "change class"
	case len(n.ours) > 0 && n.state == Untouched:
		return "give back"
	default:
		return ""
	}
}

// marking writes the tags by which interfaces remember their former groups.
type marking struct {
	*emitter
	done map[mark]bool
}

// mark says that tags of an interface were dealt with in one way: written, or removed.
type mark struct {
	on   *nic
	kind cloud.OpKind
}

// record writes the former groups of interfaces that are about to be taken over on them, and signs what is believed without being signed.
func (m *marking) record(legs []leg) {
	tagged := m.each(legs, cloud.OpTag, "remember its groups", func(n *nic) map[string]string {
		if n.state != Guarded || n.unproven != "" || n.recorded != nil && !n.forged {
			return nil
		}
		return recordTags(n)
	})
	m.sign(tagged)
	if m.in.Seal == nil {
		return
	}
	m.sign(m.each(legs, cloud.OpTag, "sign what it remembers", func(n *nic) map[string]string {
		if n.state != Guarded || !n.unsigned || n.alien != "" || n.network.foreign != "" || len(n.Tags)+m.signatureSize(n) > m.limits.TagsPerResource {
			return nil
		}
		return map[string]string{cloud.TagSignature: ""}
	}))
}

// recordTags are the tags that record the former groups of the interface. What looks like more of the record than there is becomes empty.
func recordTags(n *nic) map[string]string {
	tags := formerTags(n.former)
	for i := len(tags); ; i++ {
		key := formerTagKey(i)
		if _, ok := n.Tags[key]; !ok {
			return tags
		}
		tags[key] = ""
	}
}

// sign adds the signature to steps that record the groups of interfaces.
func (m *marking) sign(tagged map[int][]*nic) {
	if m.in.Seal == nil {
		return
	}
	for i, nics := range tagged {
		op := &m.steps[i].Op
		op.Tags = maps.Clone(op.Tags)
		op.Tags[cloud.TagSignature] = m.in.Seal.sign(m.snap.Region, nics)
	}
}

// forget removes the record of former groups from interfaces that have them back, or that nobody wants
// to be under control any more.
func (m *marking) forget(legs []leg) {
	legs = slices.DeleteFunc(slices.Clone(legs), func(l leg) bool { return !l.last })
	m.each(legs, cloud.OpUntag, "its groups are restored", func(n *nic) map[string]string {
		signature, signed := n.Tags[cloud.TagSignature]
		first := 0
		switch {
		case n.alien != "", n.network.foreign != "", n.unproven != "", m.disputed(n):
			return nil
		case n.forged && n.state == Guarded:
			first = len(formerTags(n.former)) // where the record ends
		case n.forged:
		case n.state == Guarded, n.recorded == nil && (!signed || m.in.Seal == nil):
			return nil
		}
		tags := map[string]string{}
		for i := first; ; i++ {
			key := formerTagKey(i)
			if _, ok := n.Tags[key]; !ok {
				break
			}
			tags[key] = n.Tags[key]
		}
		if signed && n.state != Guarded {
			tags[cloud.TagSignature] = signature
		}
		return tags
	})
}

// disputed reports whether somebody has put an interface under control into other groups, which cannot
// be put right at present. The record is all that tells what are its own.
func (s *regionState) disputed(n *nic) bool {
	wanted := s.refused[n] != "" || n.vm != nil && len(n.vm.policies) > 0
	return n.state != Guarded && len(n.ours) == 0 && n.controlled() && s.mode(n) == Enforce && wanted
}

// each tags the interfaces that need it, those with the same tags in one network together. It returns who is tagged by which step.
func (m *marking) each(legs []leg, kind cloud.OpKind, reason string, tagsOf func(*nic) map[string]string) map[int][]*nic {
	tagged := map[int][]*nic{}
	at := map[string]int{} // the step for interfaces with these tags
	for _, l := range legs {
		for _, n := range l.nics {
			if m.done[mark{n, kind}] {
				continue
			}
			tags := tagsOf(n)
			if len(tags) == 0 {
				continue
			}
			m.done[mark{n, kind}] = true
			key := n.NetworkID
			for _, k := range sortedKeys(tags) {
				key += "|" + k + "=" + tags[k]
			}
			if i, ok := at[key]; ok && len(tagged[i]) < m.load() {
				op := &m.steps[i].Op
				op.Others = append(op.Others, n.ID)
				m.dirty[n.ID] = true
				tagged[i] = append(tagged[i], n)
				continue
			}
			at[key] = len(m.steps)
			tagged[len(m.steps)] = []*nic{n}
			m.add(n.NetworkID, cloud.Op{Kind: kind, Target: n.ID, Tags: tags, Reason: reason})
		}
	}
	return tagged
}
