package plan

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// atom is a set of interfaces that are alike now and shall be alike in the end: same groups held, same groups wanted.
type atom struct {
	network          *network
	nics             []*nic
	current, target  []string // group keys, sorted
	leaving, joining []string
	private          addrset.Set
	now, want        [2]flow.Permit
	// bystander is true if the interfaces stay as they are, but others join or leave groups that their rules refer to.
	bystander bool
}

// addrs are all addresses of the interfaces, public ones included.
func (a *atom) addrs() addrset.Set {
	sets := make([]addrset.Set, len(a.nics))
	for i, n := range a.nics {
		sets[i] = n.all
	}
	return addrset.Union(sets...)
}

// holds reports whether the interfaces hold the group now.
func (a *atom) holds(key string) bool { return slices.Contains(a.current, key) }

// keeps reports whether the interfaces hold the group now and in the end.
func (a *atom) keeps(key string) bool {
	return slices.Contains(a.current, key) && slices.Contains(a.target, key)
}

// may reports whether each of the interfaces may be allowed the addresses for the service at some moment of the change: it was
// allowed before, or it will be. What an interface sends to itself passes no security group, so that a single one need not be allowed it.
func (a *atom) may(d cloud.Direction, s flow.Service, addrs addrset.Set) bool {
	i := indexOf(d)
	if len(a.nics) == 1 {
		addrs = addrs.Minus(a.private)
	}
	return addrs.Empty() || a.want[i].Allows(a.now[i], s, addrs)
}

// formAtoms collects the interfaces that hold or shall hold groups of ours.
func (s *regionState) formAtoms() {
	s.atoms = nil
	byKey := map[string]*atom{}
	for _, n := range s.nics {
		if n.state == Untouched && slices.Equal(n.GroupIDs, n.target) {
			continue
		}
		key := n.network.ID + "|" + strings.Join(n.GroupIDs, " ") + "|" + strings.Join(n.target, " ")
		if n.state != Guarded {
			key += "|" + string(n.state) + "|" + strings.Join(n.former, " ")
		}
		a := byKey[key]
		if a == nil {
			a = &atom{network: n.network, current: n.GroupIDs, target: n.target, now: s.actual(n.GroupIDs, n.network)}
			a.leaving, a.joining = without(a.current, a.target), without(a.target, a.current)
			if n.state == Guarded {
				a.want = n.class.want
			} else {
				a.want = s.nativeThen(a.target, n.network)
			}
			byKey[key] = a
			s.atoms = append(s.atoms, a)
		}
		a.nics = append(a.nics, n)
	}
	s.addBystanders()
	for _, a := range s.atoms {
		a.private = addrsOf(a.nics, a.network)
	}
}

// nativeThen is what interfaces that are not guarded will allow: what their native groups give when everybody holds what he shall.
func (s *regionState) nativeThen(target []string, view *network) (out [2]flow.Permit) {
	native := slices.DeleteFunc(slices.Clone(target), func(key string) bool { return s.byKey[key] != nil })
	for i, d := range directions {
		out[i] = s.evaluateThen(s.groupRules(native, d), view)
	}
	return out
}

// addBystanders adds the interfaces that are left alone but whose rules come to mean something else.
func (s *regionState) addBystanders() {
	changed := map[string]bool{}
	for _, a := range s.atoms {
		for _, key := range a.leaving {
			changed[key] = true
		}
		for _, key := range a.joining {
			changed[key] = true
		}
	}
	byKey := map[string]*atom{} // nil for those that nothing changes for
	for _, n := range s.nics {
		if n.state != Untouched || !slices.Equal(n.GroupIDs, n.target) {
			continue
		}
		key := n.network.ID + "|" + strings.Join(n.GroupIDs, " ")
		a, known := byKey[key]
		if !known {
			rules := s.rulesOf(n.GroupIDs)
			if slices.ContainsFunc(rules, func(r cloud.Rule) bool { return changed[r.Peer.GroupID] }) {
				a = &atom{network: n.network, current: n.GroupIDs, target: n.target, bystander: true, now: s.actual(n.GroupIDs, n.network)}
				a.want = s.nativeThen(a.target, n.network)
				s.atoms = append(s.atoms, a)
			}
			byKey[key] = a
		}
		if a != nil {
			a.nics = append(a.nics, n)
		}
	}
}

// without returns the elements of a that are not in b.
func without[T comparable](a, b []T) []T {
	var out []T
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// attemptEffort is what an attempt takes besides what is counted where it is done.
func (s *regionState) attemptEffort() int {
	units := 8*len(s.nics) + len(s.snap.Groups)
	for _, vm := range s.order {
		units += len(vm.applied)
	}
	return units
}

// settle makes the design of the region. Every attempt decides everything from scratch; what an attempt finds impossible or unsafe
// is ruled out for the following ones. Refusals stay for good, so there are finitely many; what was ruled out for the sake of a safe
// change is forgotten after each of them, because the change is another one then.
func (s *regionState) settle() {
	for refused := true; ; {
		s.mayStop()
		s.in.effort.spend(s.attemptEffort())
		if refused {
			s.banned, s.unfit, s.hold = map[string]map[string]bool{}, map[string]map[string]bool{}, map[*nic]bool{}
		}
		s.decideStates()
		s.formClasses()
		s.matchGroups()
		s.setTargets()
		if refused = s.lowerClasses() || s.crowded(); refused {
			continue
		}
		s.setTargets()
		if s.designs {
			return
		}
		s.formAtoms()
		if s.checkEdits() {
			continue
		}
		if refused = s.scheduleMoves(); !refused {
			return
		}
	}
}
