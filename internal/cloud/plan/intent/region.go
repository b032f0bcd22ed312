package intent

import (
	"slices"
	"strings"
	"unicode"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Region is one region, indexed, with the caches of one computation.
type Region struct {
	Account *Account
	// Snap is the region as its owners mean it, and Whole the same with the rules that we have
	// added to their groups, TwinsNow.
	Snap, Whole *cloud.Snapshot
	TwinsNow    map[string][]cloud.Rule
	Limits      cloud.Limits
	// remembered is Observed.Former.
	remembered map[string][]string

	Networks map[string]*Network
	Groups   map[string]*cloud.Group
	Lists    map[string]*cloud.PrefixList
	NICs     []*NIC // sorted by ID
	Order    []*VM  // selected VMs, sorted by ID
	vms      map[string]*VM

	// OfUnread are the interfaces of services that cannot be read, so that nobody knows which
	// groups they natively belong to.
	OfUnread []*NIC
	ByFormer map[string][]*NIC // native group -> interfaces that natively belong to it
	ByHeld   map[string][]*NIC // group -> interfaces that hold it now
	Pinned   map[string]bool   // groups of ours that must not be changed; see pin
	Noted    map[string][]Note // by object

	// What was worked out: the addresses of the peers of rules, of address groups, of those that
	// hold a group now or natively belong to it, of all interfaces and of services, as they are
	// seen from a network, and the addresses of prefix lists.
	peers                Once[peerOf, addrset.Set]
	groups, held, former Once[viewed, addrset.Set]
	all, services        Once[*Network, addrset.Set]
	entries              Once[*cloud.PrefixList, addrset.Set]
	// What interfaces with the same groups allow now, what those shall allow that Decided does not
	// tell apart, and NativeMeaning.
	actual   Once[viewed, [2]flow.Permit]
	decided  Once[string, [2]flow.Permit]
	meanings Once[meaningOf, string]
}

// peerOf is the peer of a rule as it is seen from a network.
type peerOf struct {
	rule *rule
	view *Network
}

// viewed is what has a name, or an ID, as it is seen from a network.
type viewed struct {
	name string
	view *Network
}

// VM is a selected VM.
type VM struct {
	Ref      VMRef
	Observed *cloud.VM
	NICs     []*NIC
	Applied  []*Bound  // rules that apply, in the order of evaluation
	Policies []*Policy // the policies of the rules, in the order of evaluation
	Groups   []string  // address groups that it is a member of, sorted
	// Problems are the policies that cannot be expressed for this VM, with the reason.
	Problems map[*Policy]*reason.Reason
}

// Owned reports whether the group is ours to change: of this controller and this account, and not
// pinned.
func (s *Region) Owned(g *cloud.Group) bool { return s.Ours(g) && !s.Pinned[g.ID] }

// Ours reports whether the group belongs to this controller and this account.
func (s *Region) Ours(g *cloud.Group) bool {
	return g != nil && g.OwnedBy(s.Account.In.ClusterID) && g.Tags[cloud.TagAccount] == s.Account.In.Account
}

// Folded returns a name in a form that is the same for names that differ in case only.
func Folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// Note adds a remark about an object.
func (s *Region) Note(object string, why *reason.Reason) {
	for _, n := range s.Noted[object] {
		if n.Why.Same(why) {
			return
		}
	}
	s.Noted[object] = append(slices.Clip(s.Noted[object]), Note{Region: s.Snap.Region, Object: object, Why: why})
}
