package intent

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// readRecord finds out what the interface had before it was taken over. A record that is not
// trusted is ignored; then the former groups are unknown, unless they are remembered or an
// authorized user has confirmed them.
func (s *Region) readRecord(n *NIC) {
	seal, held := s.Account.In.Seal, len(n.Groups.Ours) > 0
	r := &n.Record
	r.Groups = record.Former(n.Interface)
	proven, current := seal.Check(s.Snap.Region, n.Interface)
	believed := seal.Believes(s.Snap.Region, n.Interface) && (seal == nil || proven || held)
	known, remembered := s.remembered[n.ID]
	if remembered && held && n.Alien == nil && (!slices.Equal(known, r.Groups) || known != nil && !believed) {
		r.Groups, r.Forged = known, true
	}
	if proven || r.Forged && r.Exists() {
		r.Unproven = nil // it is remembered, or was read before
	}
	switch {
	case r.Unproven != nil:
		r.Groups = []string{}
	case n.Alien != nil || r.Forged:
	case believed:
		r.Unsigned, r.Outdated = seal != nil && !proven, proven && !current
	case !held || len(n.Groups.Foreign) > 0:
		// What it holds without ours is what it had, unless we have left it so ourselves. With
		// groups of its own beside ours, as those have that rules only refer to, it needs none.
		r.Groups, r.Forged = nil, r.Exists()
	default:
		s.confirm(n)
	}
	n.Groups.Former = n.Groups.Foreign
	if r.Exists() && n.Alien == nil {
		n.Groups.Former = r.Groups
	}
}

// confirm uses what an authorized user has confirmed in place of an interface's record, which is
// not trusted.
func (s *Region) confirm(n *NIC) {
	r := &n.Record
	groups, problem := s.confirmed(n)
	switch {
	case len(groups) > 0:
		r.Groups, r.Forged = groups, true
		return
	case !r.Exists():
		r.Unproven = reason.Why(reason.RecordGone, n.ID).From(problem)
	default:
		r.Unproven = reason.Why(reason.RecordUnsigned, n.ID).From(problem)
	}
	r.Groups = []string{}
}

// SignatureSize is how many tags more an interface has when its record is signed.
func (s *Region) SignatureSize(n *NIC) int {
	if _, signed := n.Tags[cloud.TagSignature]; s.Account.In.Seal == nil || signed {
		return 0
	}
	return 1
}

// RecordSize is how many tags more an interface has when its groups are recorded.
func (s *Region) RecordSize(n *NIC) int {
	return len(record.FormerTags(n.Groups.Former)) + s.SignatureSize(n)
}

// confirmed returns the former groups of the interface that an authorized user has confirmed. It
// counts only if all of it can be given back.
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
