package intent

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// InForce reports whether a policy is in force on the VM, maybe in an earlier form.
func (s *Region) InForce(vm *VM, p *Policy) bool {
	return slices.ContainsFunc(vm.NICs, func(n *NIC) bool {
		e, any := s.EnforcedOn(n)
		return any && (e == nil || e[record.Shortened(p.Ref.UID)])
	})
}

// EnforcedOn returns what is in force on an interface. It is false if the interface is not under
// control, or has but joined its new groups, so that its own ones still decide.
func (s *Region) EnforcedOn(n *NIC) (out record.Enforcement, any bool) {
	if !n.Taken() || n.Alien != nil || n.Record.Unproven == nil && !n.lacks() {
		return nil, false
	}
	for _, id := range n.Groups.Ours {
		g := s.Groups[id]
		if g.Tags[cloud.TagKind] != cloud.KindClass {
			continue
		}
		e := record.EnforcementOf(g.Tags)
		if e == nil {
			return nil, true
		}
		if out == nil {
			out = record.Enforcement{}
		}
		maps.Copy(out, e)
	}
	return out, out != nil
}
