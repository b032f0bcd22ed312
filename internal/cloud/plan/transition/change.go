package transition

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Change is what is observed and what is wanted.
type Change struct {
	// From is what was observed, To the same region as it shall be: groups of ours come and go there, with their rules, and
	// interfaces hold others. Groups to be created have IDs that begin with model.PlannedGroupID. Nothing else differs.
	From, To *cloud.Snapshot
	Limits   cloud.Limits
	// Ours reports whether a group is ours to change.
	Ours func(*cloud.Group) bool
	// Fits reports whether one group can hold the rules.
	Fits func([]cloud.Rule) bool
	// Relabels is set if the policies are unchanged, so that nothing but memberships differs: see Conflicts.
	Relabels bool
	// First are the keys of tags of networks that are written before anything else is done; all others when all is done.
	First []string
	// Urgent are interfaces that wait for nobody.
	Urgent map[string]bool
	// Stop is asked now and then; a panic in it ends the computation.
	Stop func()
}

// cohort is a set of interfaces that are alike: they hold the same groups now and in the end. They move together.
type cohort struct {
	network    string
	interfaces []*cloud.Interface
	from, to   []string // groups, sorted
	addrs      addrset.Set
	all        addrset.Set // public addresses included
	// now and then are what it allows before and after, ingress and egress.
	now, then [2]flow.Permit
	// both is what it allows before and after; see lo.
	both  [2]flow.Permit
	known [2]bool

	// at are the groups that it holds at this point of the plan, and next those that it may hold already, if it moves in the
	// present batch.
	at, next []string
}

var directions = [2]cloud.Direction{cloud.Ingress, cloud.Egress}

func indexOf(d cloud.Direction) int {
	if d == cloud.Ingress {
		return 0
	}
	return 1
}

// lo is what must stay allowed in a direction all the time.
func (c *cohort) lo(i int) flow.Permit {
	if !c.known[i] {
		c.both[i], c.known[i] = c.now[i].Intersect(c.then[i]), true
	}
	return c.both[i]
}

// moves reports whether its groups change.
func (c *cohort) moves() bool { return !slices.Equal(c.from, c.to) }

// others are addresses without those of the cohort's only interface: what it sends to itself passes no group.
func (c *cohort) others(addrs addrset.Set) addrset.Set {
	if len(c.interfaces) == 1 {
		return addrs.Minus(c.addrs)
	}
	return addrs
}

// survey is what a change is about, indexed.
type survey struct {
	Change
	from, to *model.View
	cohorts  []*cohort // sorted by network, groups before and groups after
	permits  [2]map[string][2]flow.Permit
}

func newSurvey(c Change) *survey {
	s := &survey{Change: c, from: model.NewView(c.From), to: model.NewView(c.To), permits: [2]map[string][2]flow.Permit{{}, {}}}
	wanted := make(map[string][]string, len(c.To.Interfaces))
	for i := range c.To.Interfaces {
		wanted[c.To.Interfaces[i].ID] = c.To.Interfaces[i].GroupIDs
	}
	byKey := map[string]*cohort{}
	private, all := map[*cohort][]netip.Addr{}, map[*cohort][]netip.Addr{}
	for i := range c.From.Interfaces {
		n := &c.From.Interfaces[i]
		key := n.NetworkID + "|" + strings.Join(n.GroupIDs, " ") + "|" + strings.Join(wanted[n.ID], " ")
		k := byKey[key]
		if k == nil {
			k = &cohort{network: n.NetworkID, from: slices.Sorted(slices.Values(n.GroupIDs)), to: slices.Sorted(slices.Values(wanted[n.ID]))}
			k.at = k.from
			byKey[key] = k
			s.cohorts = append(s.cohorts, k)
		}
		k.interfaces = append(k.interfaces, n)
		private[k] = append(private[k], n.PrivateIPs...)
		all[k] = append(append(all[k], n.PrivateIPs...), n.PublicIPs...)
	}
	for _, k := range s.cohorts {
		k.addrs, k.all = addrset.Of(private[k]...), addrset.Of(all[k]...)
		k.now, k.then = s.permit(0, s.from, k.from, k.network), s.permit(1, s.to, k.to, k.network)
	}
	slices.SortFunc(s.cohorts, func(a, b *cohort) int {
		return cmp.Or(strings.Compare(a.network, b.network), slices.Compare(a.from, b.from), slices.Compare(a.to, b.to))
	})
	return s
}

// permit is what the holders of groups allow in a snapshot.
func (s *survey) permit(kind int, v *model.View, groups []string, network string) (out [2]flow.Permit) {
	key := network + "|" + strings.Join(groups, " ")
	if p, ok := s.permits[kind][key]; ok {
		return p
	}
	s.stop()
	for i, d := range directions {
		out[i] = model.Permit(v.Rules(groups, d), func(p cloud.Peer) (addrset.Set, bool) { return v.Addresses(p, network) })
	}
	s.permits[kind][key] = out
	return out
}

func (s *survey) stop() {
	if s.Stop != nil {
		s.Stop()
	}
}
