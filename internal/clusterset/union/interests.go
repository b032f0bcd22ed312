package union

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// What members ask for: the groups that their own policies name. Equal groups of several members
// are computed once.

// ask takes over that a member asks for a group. What is asked for is kept though it is refused, so
// that the member is told, but not more than twice as much as it may ask for. judgeInterests is to
// follow.
func (u *Union) ask(c *cluster, in *wire.Interest) error {
	i := c.interests[in.Group]
	if i == nil {
		if len(c.interests) >= 2*c.bounds.Selectors+100 {
			return fmt.Errorf("a peer of its own policies: more than %d of them", c.bounds.Selectors)
		}
		if len(in.Group) > 63 || !peers.Own(in.Group) {
			return errors.New("a peer of its own policies that is none")
		}
		g, err := peers.OfInterest(in)
		i = &interest{Interest: Interest{Group: g, Refused: setv1alpha1.ReasonTooMany}}
		switch {
		case errors.Is(err, peers.ErrNewer):
			i.Refused, i.Message = setv1alpha1.ReasonVersion, err.Error()
		case err != nil:
			i.Refused, i.Message = setv1alpha1.ReasonRefused, err.Error()
		}
		i.Group.ID = in.Group
		c.interests[in.Group] = i
	}
	i.listing, i.Has = c.listing, in.Has
	return nil
}

// judgeInterests grants a member as much of what it asks for as it may have. What it has stays
// before what it has not.
func (u *Union) judgeInterests(c *cluster) {
	for _, id := range slices.Sorted(maps.Keys(c.interests)) {
		if i := c.interests[id]; i.Refused == "" && c.granted > c.bounds.Selectors {
			u.revoke(c, i)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.interests)) {
		i := c.interests[id]
		if i.Refused != setv1alpha1.ReasonTooMany {
			continue
		}
		if c.granted >= c.bounds.Selectors {
			i.Message = fmt.Sprintf("the policies of this cluster have more than the %d peers of other clusters that spec.limits.selectors of its Cluster allows", c.bounds.Selectors)
			continue
		}
		i.Refused, i.Message = "", ""
		c.granted++
		if u.asked[id]++; u.asked[id] == 1 {
			u.Want(i.Group)
		}
	}
}

// revoke takes back that a group is granted.
func (u *Union) revoke(c *cluster, i *interest) {
	i.Refused = setv1alpha1.ReasonTooMany
	c.granted--
	if u.asked[i.Group.ID]--; u.asked[i.Group.ID] == 0 {
		delete(u.asked, i.Group.ID)
		u.Unwant(i.Group.ID)
	}
}

func (u *Union) forgetInterest(c *cluster, id string) {
	i := c.interests[id]
	if i == nil {
		return
	}
	if i.Refused == "" {
		u.revoke(c, i)
	}
	delete(c.interests, id)
}

// Interests returns what a member asks for, sorted by the ids of the groups.
func (u *Union) Interests(name string) []Interest {
	c := u.clusters[name]
	if c == nil {
		return nil
	}
	out := make([]Interest, 0, len(c.interests))
	for _, id := range slices.Sorted(maps.Keys(c.interests)) {
		out = append(out, c.interests[id].Interest)
	}
	return out
}
