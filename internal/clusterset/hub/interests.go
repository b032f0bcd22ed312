package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/union"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

const (
	// mostAskedMembers is how many members all groups have together that a member has asked for.
	mostAskedMembers = 10 * mostMembers
	// mostClaimedMembers bounds the groups that a member says it has and that this hub, perhaps
	// begun anew, has not given it: they may have grown meanwhile, but nobody has proven that.
	mostClaimedMembers = 4 * mostAskedMembers
	// interestsPerSecond is how many groups a member may ask for: each is computed over all
	// clusters and sent as a whole. A member that asks for more waits.
	interestsPerSecond, interestsAtOnce = 50, 2000
	// listingAsInterests is how many of them the end of a listing counts as: the hub then goes
	// through all that the member has claimed.
	listingAsInterests = 10
)

// pace waits until a member may ask for what it asks for, and end a listing.
func (h *Hub) pace(ctx context.Context, cluster string, up *wire.Up) error {
	n := paceOf(up)
	if n == 0 {
		return nil
	}
	h.mu.Lock()
	m := h.clusters[cluster]
	h.mu.Unlock()
	for ; m != nil && n > 0; n -= interestsAtOnce {
		if err := m.interests.WaitN(ctx, min(n, interestsAtOnce)); err != nil {
			return err
		}
	}
	return nil
}

// paceOf is how many groups that are asked for a record counts as. One that is given up counts,
// too: the hub goes through all that are left.
func paceOf(up *wire.Up) int {
	n := len(up.Interests) + len(up.GoneInterests)
	if up.Listed {
		n += listingAsInterests
	}
	return n
}

// grant answers what a member has asked for its own policies. The caller holds the lock.
func (h *Hub) grant(m *member) {
	all := h.union.Interests(m.cluster.Name)
	if len(all)+len(m.asked) == 0 {
		return
	}
	asked, members, claimed := make(map[string]wire.Told, len(all)), 0, 0
	m.hidden, m.broad = nil, false
	for _, i := range all { // what the member has stays before what is new
		was, told := m.asked[i.Group.ID]
		given, size := told && !was.Refused, h.union.Size(i.Group.ID)
		if given || i.Has {
			members += size
		}
		if given && i.Has { // it may be given because it was claimed
			claimed += size
		}
	}
	for n := range all {
		i := &all[n]
		id, size := i.Group.ID, h.union.Size(i.Group.ID)
		t := wire.Told{Group: id, Reason: i.Refused, Message: i.Message, Refused: i.Refused != ""}
		was, told := m.asked[id]
		given := told && !was.Refused
		switch message := tooBroad(given, i.Has, size, members, claimed); {
		case t.Refused:
		case message != "":
			t.Refused, t.Reason, t.Message, m.broad = true, setv1alpha1.ReasonPeerTooBroad, message, true
		default:
			switch {
			case given:
			case i.Has:
				claimed += size
			default:
				members += size
			}
			if missing := peers.Missing(&i.Group.Peer, func(name string) bool { return h.clusters[name] != nil }); missing != nil {
				t.Reason, t.Message = setv1alpha1.ReasonNoCluster, peers.MissingWords(missing)
			}
			h.hide(m, i, &t)
		}
		t.Message = wire.OneLine(t.Message, 512)
		asked[id] = t
	}
	m.asked = asked
}

// tooBroad says why a group of so many members is refused; "" if it is not. given tells that this
// hub has sent the group to the cluster, claims that the cluster says a former hub has. members
// counts the members of the cluster's other groups, claimed the members of groups that it claims.
func tooBroad(given, claims bool, size, members, claimed int) string {
	switch {
	case given:
		return ""
	case claims:
		if claimed+size > mostClaimedMembers {
			return fmt.Sprintf("the policies of this cluster mean more than %d workloads of other clusters", mostClaimedMembers)
		}
		return ""
	case size > mostMembers:
		return fmt.Sprintf("more than %d workloads of other clusters: name fewer, or their networks as ipBlock", mostMembers)
	case members+size > mostAskedMembers:
		return fmt.Sprintf("the policies of this cluster mean more than %d workloads of other clusters", mostAskedMembers)
	}
	return ""
}

// hide finds the clusters whose Pods the member does not see by their own addresses: an own policy
// that allows does not mean them, and any other does not meet them. The caller holds the lock.
func (h *Hub) hide(m *member, i *union.Interest, t *wire.Told) {
	for _, name := range slices.Sorted(maps.Keys(h.clusters)) {
		source := h.clusters[name]
		if source == m || len(source.cluster.Spec.SeenAs) == 0 || !peers.MayMeanPods(&i.Group, source.cluster) {
			continue
		}
		as, hidden := peers.Hidden(source.cluster, m.cluster)
		if !hidden {
			continue
		}
		t.Reason, t.Message = setv1alpha1.ReasonIdentityHidden, "a rule does not meet Pods that it means: "+peers.HiddenWords(name, m.cluster.Name, as)
		if !peers.Allows(i.Group.ID) {
			continue
		}
		t.Message = "Pods that cannot be told from others are left out: " + peers.HiddenWords(name, m.cluster.Name, as)
		if m.hidden == nil {
			m.hidden = map[string]map[string]bool{}
		}
		if m.hidden[i.Group.ID] == nil {
			m.hidden[i.Group.ID] = map[string]bool{}
		}
		m.hidden[i.Group.ID][name] = true
	}
}
