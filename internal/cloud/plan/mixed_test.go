package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// estateExtras is what only some estates have.
type estateExtras struct {
	// Split puts every other network into a second region.
	Split bool
	// Pods are the addresses of members that are no machines; the default is outsiders.
	Pods []string
	// Claimed are networks that another controller has claimed.
	Claimed []int
	// Safe are failsafe flows.
	Safe []safeSpec
	// ListKinds are of what kind Lists are, if they are not all simply of the account.
	ListKinds []listKind
	// Abroad are networks of another account.
	Abroad []abroadSpec
	// Crowded leaves the region hardly any room for groups.
	Crowded bool
	// Sealed has records of former groups signed.
	Sealed bool
	// Follows are groups whose owner lets rules be added for dependents of other groups.
	Follows []int
	// Meddled has somebody change groups and put interfaces into them much more often.
	Meddled bool `json:",omitempty"`
}

// safeSpec is a failsafe flow on a TCP port.
type safeSpec struct {
	Out  bool
	Port int
	CIDR string
}

const otherRegion = "us-east-1"

// region is where a network is.
func (e *estate) region(net int) string {
	if e.Split && net%2 == 1 {
		return otherRegion
	}
	return testRegion
}

func (e *estate) regionOfVM(vm int) string {
	for _, n := range e.NICs {
		if n.VM == vm {
			return e.region(n.Net)
		}
	}
	return testRegion
}

// views is the cloud as it is observed: a snapshot of each region.
func (e *estate) views(f *fakeCloud) []plan.Region {
	if !e.Split {
		return []plan.Region{{Snapshot: f.snap, Limits: f.limits}}
	}
	in := map[string]string{}
	for i := range e.Networks {
		in[netID(i)] = e.region(i)
	}
	var out []plan.Region
	for _, region := range []string{testRegion, otherRegion} {
		s := &cloud.Snapshot{Scope: cloud.Scope{Account: testAccount, Region: region}, OwnerID: f.snap.OwnerID, PrefixLists: f.snap.PrefixLists}
		for _, p := range f.snap.Peerings {
			if p.A.Region == region || p.B.Region == region {
				s.Peerings = append(s.Peerings, p)
			}
		}
		elsewhere := func(network string) bool { return in[network] != region }
		s.Networks = slices.DeleteFunc(slices.Clone(f.snap.Networks), func(n cloud.Network) bool { return elsewhere(n.ID) })
		s.Interfaces = slices.DeleteFunc(slices.Clone(f.snap.Interfaces), func(n cloud.Interface) bool { return elsewhere(n.NetworkID) })
		s.Groups = slices.DeleteFunc(slices.Clone(f.snap.Groups), func(g cloud.Group) bool { return elsewhere(g.NetworkID) })
		for i := range e.VMs {
			for _, vm := range f.snap.VMs {
				if vm.ID == e.subject(i) && e.regionOfVM(i) == region {
					s.VMs = append(s.VMs, vm)
				}
			}
		}
		out = append(out, plan.Region{Snapshot: s, Limits: f.limits})
	}
	return out
}

func (e *estate) outside() []string {
	if e.Pods != nil {
		return e.Pods
	}
	return outsiders
}

func (e *estate) claimTags(net int) map[string]string {
	if slices.Contains(e.Claimed, net) {
		return map[string]string{cloud.TagClaim: "another"}
	}
	return nil
}

func (e *estate) failsafe() []plan.FailsafeFlow {
	var out []plan.FailsafeFlow
	for _, s := range e.Safe {
		f := plan.FailsafeFlow{Direction: cloud.Ingress, Services: []flow.Service{{Protocol: cloud.TCP, From: uint16(s.Port), To: uint16(s.Port)}},
			Peers: []netip.Prefix{netip.MustParsePrefix(s.CIDR)}}
		if s.Out {
			f.Direction = cloud.Egress
		}
		out = append(out, f)
	}
	return out
}

// failsafeAllows reports whether a failsafe flow of a VM with policies matches.
func (v *naive) failsafeAllows(vm int, d cloud.Direction, r remote, k packet) bool {
	in, _ := v.rules(vm, cloud.Ingress)
	out, _ := v.rules(vm, cloud.Egress)
	if len(in)+len(out) == 0 {
		return false
	}
	return slices.ContainsFunc(v.Safe, func(s safeSpec) bool {
		return s.Out == (d == cloud.Egress) && k == packet{cloud.TCP, s.Port} && netip.MustParsePrefix(s.CIDR).Contains(r.addr)
	})
}

// mix gives an estate some of the extras.
func (e *estate) mix(r *rand.Rand) {
	if r.IntN(2) == 0 {
		e.Split = true
		for i := range e.Groups {
			e.Groups[i].Rules = slices.DeleteFunc(e.Groups[i].Rules, func(rule cloud.Rule) bool { return e.refersAcross(i, rule) })
		}
	}
	if r.IntN(2) == 0 {
		e.Pods = []string{"10.0.0.200", "10.1.0.201", "2001:db8::99", "203.0.113.7"}
	}
	if r.IntN(4) == 0 {
		e.Claimed = []int{r.IntN(len(e.Networks))}
	}
	for range r.IntN(3) {
		e.Safe = append(e.Safe, safeSpec{r.IntN(2) == 0, pick(r, []int{22, 80, 443}), pick(r, []string{"203.0.113.0/24", "10.0.0.4/31", "0.0.0.0/0", "2001:db8::/32"})})
	}
}

// refersAcross reports whether a rule of a group refers to a group of another region.
func (e *estate) refersAcross(group int, rule cloud.Rule) bool {
	for k, g := range e.Groups {
		if rule.Peer.GroupID == fmt.Sprintf("#%d", k) && e.region(g.Net) != e.region(e.Groups[group].Net) {
			return true
		}
	}
	return false
}

// TestMixedWorlds is TestWorlds with two regions, Pods whose addresses lie in the networks,
// networks of another controller, and failsafe flows, in any combination.
func TestMixedWorlds(t *testing.T) {
	t.Parallel()
	seed := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	n := uint64(0)
	checkWorlds(t, worldsOneIn(2), func(e *estate) {
		e.mix(rand.New(rand.NewPCG(seed+n, 33)))
		n++
	})
}
