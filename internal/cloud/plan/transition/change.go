package transition

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Change is what is observed and what is wanted.
type Change struct {
	// From is what was observed, To the same region as it shall be: groups of ours come and go
	// there, with their rules, and interfaces hold others. Groups to be created have IDs that begin
	// with model.PlannedGroupID. Nothing else differs.
	From, To *cloud.Snapshot
	// End is what further changes lead to, if To is a state in between; else nil. What is allowed
	// now, and in either of them, is not cut by this change.
	End    *cloud.Snapshot
	Limits cloud.Limits
	// Ours reports whether a group is ours to change.
	Ours func(*cloud.Group) bool
	// Extended reports whether a group is somebody else's in which some rules are ours; To has
	// the ones that shall be there, and its other rules are as in From. Nil means that there is no
	// such group.
	Extended func(*cloud.Group) bool
	// Fits reports whether one group can hold the rules.
	Fits func([]cloud.Rule) bool
	// Relabels is set if the policies are unchanged, so that nothing but memberships differs: see
	// Conflicts.
	Relabels bool
	// Stable are groups that stand for the same interfaces' memberships before and after.
	Stable map[string]bool
	// Apart are interfaces that cannot move by one edit, so that nothing happens at once with their
	// moves; see Order.Apart.
	Apart map[string]bool
	// Leaving are interfaces that are given back, and Still those to which nothing is done,
	// whatever their peers do: an interface that leaves does not wait for them.
	Leaving, Still map[string]bool
	// Beyond are interfaces that nobody can hold back: nothing is done to them.
	Beyond map[string]bool
	// First reports whether tags are written with what is done first: one of a network, by its key,
	// or all of a group. All others are written when all is done.
	First func(key string, g *cloud.Group) bool
	// Mark is the key of the tag of networks that says what they are like when all is done. Where
	// it changes it is removed in the first stage, and written when all is done, each by a call of
	// its own.
	Mark string
	// Joint begins the keys of tags whose values are read together: what goes of them is emptied by
	// the call that writes the others, before it is removed.
	Joint string
	// Described reports whether a description is one that rules of ours have. Where the cloud keeps
	// descriptions, others are put right: a rule that has one of ours keeps it, whatever it says.
	// Nil means that no description is looked at.
	Described func(string) bool
	// Batch is how many objects one call tags; 0 is a default.
	Batch int
	// Stay are interfaces whose groups stay as they are: whatever they allow now they also allow in
	// the end, so no interface leaves a group that their rules reference.
	Stay map[string]bool
	// Kept are interfaces that are to allow what they allow now, and whose rules are written anew
	// for it when others change their groups. Only what they allow tells what that is.
	Kept map[string]bool
	// Pausing are interfaces with which nobody misses a flow on the way, with groups that they
	// leave before anything else is done: those that somebody has put them into by hand.
	Pausing map[string][]string
	// Urgent are interfaces that wait for nobody.
	Urgent map[string]bool
	// Stop is asked now and then; a panic in it ends the computation.
	Stop func()
}

// cohort is a set of interfaces that are alike: they hold the same groups now and in the end. They
// move together.
type cohort struct {
	network    string
	interfaces []*cloud.Interface
	// from, to and atLast are the groups that it holds before and after, and after all further
	// changes, sorted.
	from, to, atLast []string
	addrs            addrset.Set
	all              addrset.Set // public addresses included
	// now and then are what it allows before and after, ingress and egress, last what it allows
	// after all further changes, and end what it allows then or at last: with less room in between,
	// policies may be tightened in another way.
	now, then, last, end [2]flow.Permit
	// least and most are what it must and what it may allow on the way.
	least, most [2]flow.Permit
	// kept is set if it never allows again what it has lost on the way; see Change.Kept.
	kept bool
	// drifted are the groups that somebody has put it into; see Change.Pausing.
	drifted []string
	// pausing is set if nobody misses a flow with it on the way; see Change.Pausing.
	pausing bool
	// free is set if it goes from stable groups to other stable ones while nothing but memberships
	// differs.
	free bool
	// atomic is set if its groups have to change by one edit: somebody else's permits change by the
	// same one.
	atomic bool

	// at are the groups that it holds at this point of the plan, and next those that it may hold
	// already, if it moves in the present batch.
	at, next []string
}

// may reports whether a cohort may be allowed the addresses for a service at this point of the
// plan. One that has to move by one edit has what it had until then, and what it shall have from
// then on.
func (c *cohort) may(i int, service flow.Service, addrs addrset.Set, groups []string) bool {
	switch {
	case c.atomic && slices.Equal(groups, c.from):
		return c.now[i].Allows(service, addrs)
	case c.atomic && slices.Equal(groups, c.to):
		return c.then[i].Allows(service, addrs)
	}
	return c.most[i].Allows(service, addrs)
}

// moves reports whether its groups change.
func (c *cohort) moves() bool { return !slices.Equal(c.from, c.to) }

// apart reports whether the cohort cannot move by one edit.
func (c *Change) apart(k *cohort) bool {
	return len(k.drifted) > 0 || slices.ContainsFunc(k.interfaces, func(n *cloud.Interface) bool { return c.Apart[n.ID] })
}

// others are addresses without the cohort's only interface: what it sends to itself passes no
// group.
func (c *cohort) others(addrs addrset.Set) addrset.Set {
	if len(c.interfaces) == 1 {
		return addrs.Minus(c.addrs)
	}
	return addrs
}

func (c *Change) stop() {
	if c.Stop != nil {
		c.Stop()
	}
}

// hold gives the cohort its interfaces.
func (c *cohort) hold(interfaces []*cloud.Interface) {
	var public []netip.Addr
	for _, n := range interfaces {
		public = append(public, n.PublicIPs...)
	}
	c.interfaces, c.addrs = interfaces, model.Private(interfaces...)
	c.all = c.addrs.Union(addrset.Of(public...))
}

// distinct are groups sorted, each of them once.
func distinct(groups []string) []string { return slices.Compact(slices.Sorted(slices.Values(groups))) }
