package plan

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// atom is a set of interfaces that are alike now and shall be alike in the end: same groups held, same groups wanted.
type atom struct {
	network          *network
	nics             []*nic
	current, target  []string // group keys, sorted
	leaving, joining []string
	private          Set
	now, want        [2]half
}

// addrs are all addresses of the interfaces, public ones included.
func (a *atom) addrs() Set {
	var out Set
	for _, n := range a.nics {
		out = out.Union(n.all)
	}
	return out
}

// moves reports whether the interfaces have to be edited.
func (a *atom) moves() bool { return len(a.leaving)+len(a.joining) > 0 }

// holds reports whether the interfaces hold the group now.
func (a *atom) holds(key string) bool { return slices.Contains(a.current, key) }

// keeps reports whether the interfaces hold the group now and in the end.
func (a *atom) keeps(key string) bool {
	return slices.Contains(a.current, key) && slices.Contains(a.target, key)
}

// may reports whether each of the interfaces may be allowed the addresses for the service at some moment of the change: it was
// allowed before, or it will be.
func (a *atom) may(d cloud.Direction, s Service, addrs Set) bool {
	i := indexOf(d)
	return addrs.Empty() || a.want[i].allows(a.now[i], s, addrs)
}

// formAtoms collects the interfaces that are guarded or that move.
func (s *regionState) formAtoms() {
	s.atoms = nil
	byKey := map[string]*atom{}
	for _, n := range s.nics {
		if n.state != Guarded && slices.Equal(n.GroupIDs, n.target) {
			continue
		}
		key := n.network.ID + "|" + strings.Join(n.GroupIDs, " ") + "|" + strings.Join(n.target, " ")
		if n.state != Guarded {
			key += "|" + strings.Join(n.former, " ")
		}
		a := byKey[key]
		if a == nil {
			a = &atom{network: n.network, current: n.GroupIDs, target: n.target, now: s.actual(n.GroupIDs, n.network)}
			a.leaving, a.joining = without(a.current, a.target), without(a.target, a.current)
			if n.state == Guarded {
				a.want = n.class.want
			} else {
				a.want = s.wanted(n)
			}
			byKey[key] = a
			s.atoms = append(s.atoms, a)
		}
		a.nics = append(a.nics, n)
	}
	for _, a := range s.atoms {
		a.private = addrsOf(a.nics, a.network)
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

// settle makes the design of the region. Every attempt decides everything from scratch; what an attempt finds impossible or unsafe
// is ruled out for the following ones, which are therefore finitely many.
func (s *regionState) settle() {
	for {
		s.decideStates()
		s.formClasses()
		s.matchGroups()
		s.setTargets()
		if s.lowerClasses() {
			continue
		}
		s.setTargets()
		s.formAtoms()
		if s.checkEdits() {
			continue
		}
		if s.scheduleMoves() {
			continue
		}
		return
	}
}
