package intent

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// confirmed returns what somebody who may say so says that the interface had. It counts only if all
// of it can be given back.
func (s *Region) confirmed(n *NIC) (groups []string, problem *reason.Reason) {
	for _, id := range s.Account.In.Confirmed[n.ID] {
		g := s.Groups[id]
		if g == nil {
			g = s.viewFor(n, id)
		}
		switch {
		case g == nil:
			return nil, reason.Why(reason.ConfirmedGone, id)
		case g.NetworkID != n.NetworkID:
			return nil, reason.Why(reason.ConfirmedAbroad, id)
		case s.Ours(g):
			return nil, reason.Why(reason.ConfirmedOurs, id)
		}
		groups = append(groups, g.ID)
	}
	return groups, nil
}

// viewFor is what a group means to an interface, where it means something else to each; nil if that
// is not known.
func (s *Region) viewFor(n *NIC, id string) *cloud.Group {
	for i := range s.Snap.Groups {
		if g := &s.Snap.Groups[i]; g.View && g.Holder == n.ID && g.Shows == id {
			return g
		}
	}
	return nil
}
