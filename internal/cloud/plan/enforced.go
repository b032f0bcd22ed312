package plan

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// A policy that does not fit any more stays in force as it was last realized; one that never was in force is left out. Which of the two it is cannot
// be told from rules: the members of groups and the policies may have changed since they were written. So the group of a class names, in its
// tags, the policies that are in force on the interfaces that hold it. A new group gets them with its creation; a group in use costs a call
// only if its class comes under other policies.

const (
	// shortUID is the length of the name of a policy in a tag: the beginning of the hash of its UID.
	shortUID = 8
	// policiesPerTag is how many names a tag value holds.
	policiesPerTag = (formerTagSize - 1) / shortUID
	// enforcedTags bounds the tags for it. Of a class under more policies nothing is remembered, and then all of them count as in force.
	enforcedTags = 16
)

// shortened is the name of a policy in a tag.
func shortened(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return base64.URLEncoding.EncodeToString(sum[:shortUID/4*3])
}

// enforcement is what is remembered of the policies that are in force; nil if nothing is known.
type enforcement map[string]bool

// enforcementOf reads it from the tags of a group of ours. What is not whole says nothing.
func enforcementOf(tags map[string]string) enforcement {
	out := enforcement{}
	value, ok := tags[cloud.TagPolicies]
	for i := 1; ok; i++ {
		if len(value)%shortUID != 0 {
			return nil
		}
		for part := range slices.Chunk([]byte(value), shortUID) {
			out[string(part)] = true
		}
		if value, ok = tags[numbered(cloud.TagPolicies, i)]; !ok {
			return out
		}
	}
	return nil
}

// tags are those that remember it.
func (e enforcement) tags() map[string]string {
	out := map[string]string{}
	if e == nil || len(e) > enforcedTags*policiesPerTag {
		return out
	}
	out[cloud.TagPolicies] = ""
	i := 0
	for part := range slices.Chunk(sortedKeys(e), policiesPerTag) {
		value := ""
		for _, name := range part {
			value += name
		}
		out[numbered(cloud.TagPolicies, i)] = value
		i++
	}
	return out
}

// inForce reports whether a policy is in force on the VM, maybe in an earlier form.
func (s *region) inForce(vm *machine, p *policy) bool {
	return slices.ContainsFunc(vm.nics, func(n *iface) bool {
		e, any := s.enforcedOn(n)
		return any && (e == nil || e[shortened(p.ref.UID)])
	})
}

// enforcedOn returns what is in force on an interface. It is false if the interface is not under control, or has but joined its new groups, so that
// its own ones still decide.
func (s *region) enforcedOn(n *iface) (out enforcement, any bool) {
	if !n.taken() || n.alien != "" || n.unproven == "" && len(without(n.recorded, n.foreign)) == 0 {
		return nil, false
	}
	for _, id := range n.ours {
		g := s.groups[id]
		if g.Tags[cloud.TagKind] != cloud.KindClass {
			continue
		}
		e := enforcementOf(g.Tags)
		if e == nil {
			return nil, true
		}
		if out == nil {
			out = enforcement{}
		}
		maps.Copy(out, e)
	}
	return out, out != nil
}

// enforced is what will be in force on the interfaces of a class when the plan is done. What only waits is not in force yet.
func (s *regionState) enforced(c *class) enforcement {
	if c.state != Guarded {
		return nil
	}
	return s.enforcedBy(c.nics[0])
}

// enforcedBy is what will be in force on an interface of a class.
func (s *regionState) enforcedBy(n *nic) enforcement {
	before, any := s.enforcedOn(n.iface)
	if !any {
		before = enforcement{}
	}
	if s.frozen[n] != "" {
		return before
	}
	waits := s.restrict[n] != [2]bool{}
	if waits && before == nil {
		return nil
	}
	out := enforcement{}
	if n.vm != nil {
		for _, r := range n.vm.effective {
			if r.verdict == grant {
				continue
			}
			if name := shortened(r.policy.ref.UID); !waits || before[name] {
				out[name] = true
			}
		}
	}
	return out
}
