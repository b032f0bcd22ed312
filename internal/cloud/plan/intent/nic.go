package intent

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// NIC is a network interface.
type NIC struct {
	*cloud.Interface
	Network *Network
	Private addrset.Set // addresses that group references cover
	Groups  Groups
	Record  Record
	// Alien says why it cannot be controlled at all; nil if it can.
	Alien *reason.Reason
	// Blocked is what the cloud says why it refuses to change it; empty if it does not. Under
	// control it stays as it is, else it is alien.
	Blocked string
	// Released says why it must not hold anything of ours in the end; nil if it may.
	Released *reason.Reason
}

// Elsewhere is why it cannot be controlled as far as another controller or account is the reason;
// nil if none is.
func (n *NIC) Elsewhere() *reason.Reason {
	if n.Alien == nil || n.Alien.Code != reason.HeldElsewhere {
		return nil
	}
	return n.Alien
}

// Groups are the groups of an interface, sorted out.
type Groups struct {
	// Ours and Foreign are the groups that it holds now.
	Ours, Foreign []string
	// Former are its native groups: what its owner wants it to hold.
	Former []string
}

// Record is what an interface under control remembers of its own groups.
type Record struct {
	// Groups is the content of the former-groups tag; nil without tag.
	Groups []string
	// Forged is set if the tag says something else than Groups, which is what is remembered or was
	// confirmed.
	Forged bool
	// Unsigned is set if the tag is believed although it is not signed, and Unproven says why it is
	// not believed, and nothing else is known.
	Unsigned bool
	Unproven *reason.Reason
	// Outdated is set if a former key has signed the tag.
	Outdated bool
}

// Taken reports whether the interface is under our control now.
func (n *NIC) Taken() bool { return len(n.Groups.Ours) > 0 && n.Record.Exists() }

// Refused says that the cloud refuses to change the interface.
func (n *NIC) Refused() *reason.Reason {
	return reason.Why(reason.CloudRefuses, n.ID).Quoting(n.Blocked)
}

// Exists reports whether there is one, be it proven or not.
func (r *Record) Exists() bool { return r.Groups != nil }

// Stale reports whether it is believed and to be signed anew.
func (r *Record) Stale() bool { return r.Unsigned || r.Outdated }

// lacks reports whether the interface does not hold all of the groups that its record names.
func (n *NIC) lacks() bool {
	return slices.ContainsFunc(n.Record.Groups, func(id string) bool { return !slices.Contains(n.Groups.Foreign, id) })
}

// Controlled reports whether the interface is under our control, though somebody may have put it
// into other groups. One that holds its own groups, with or without ours, is not: it may be half
// way to us, or back.
func (n *NIC) Controlled() bool {
	if n.Taken() {
		return n.lacks()
	}
	return n.Record.Exists() && n.Alien == nil && !slices.Equal(n.Record.Groups, n.Groups.Foreign)
}

// HalfBack reports whether the interface has its own groups again, and still others that somebody
// has put it into while it was under control: giving it back is not done.
func (n *NIC) HalfBack() bool { return len(n.Groups.Ours) == 0 && n.Controlled() && !n.lacks() }

// PutInto are the groups of others that somebody has put an interface into while it was under
// control. Groups of ours that have lost their tags do not count.
func (s *Region) PutInto(n *NIC) (groups []string) {
	if !n.Record.Exists() || n.Alien != nil || n.Record.Unproven != nil {
		return nil
	}
	for _, id := range n.Groups.Foreign {
		if !slices.Contains(n.Record.Groups, id) && !s.LostTags(s.Groups[id]) {
			groups = append(groups, id)
		}
	}
	return groups
}

// LostTags reports whether a group that is not ours seems to have been: it has our kind of name,
// and nobody else's tags.
func (s *Region) LostTags(g *cloud.Group) bool {
	if g == nil || s.Ours(g) {
		return false
	}
	by := g.Tags[cloud.TagCluster]
	return strings.HasPrefix(g.Name, cloud.NamePrefix) && (by == "" || by == s.Account.In.ClusterID)
}
