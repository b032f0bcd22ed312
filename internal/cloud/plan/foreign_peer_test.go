package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// ingressPeers are the peers of the ingress rules of an interface's groups.
func ingressPeers(f *fakeCloud, nic int) (out []cloud.Peer) {
	for _, id := range groupsOf(f, nic) {
		for _, r := range f.group(id).Rules {
			if r.Direction == cloud.Ingress {
				out = append(out, r.Peer)
			}
		}
	}
	return out
}

// TestGuardedPeerIsNamedByOurGroup: an interface that holds a group of ours is named by it in the
// rules of others, as a VM is: its addresses may change without an edit. One that does not is named
// by its addresses.
func TestGuardedPeerIsNamedByOurGroup(t *testing.T) {
	e := withInterfaces()
	set := &e.History[0]
	set.Applied, set.Address = [][]int{{0}, {1}}, [][]int{{1}, {0}}
	second := set.Policies[0]
	second.Applied, second.Rules = []int{1}, slices.Clone(second.Rules)
	second.Rules[0].Address, second.Rules[0].Services = []int{1}, []serviceSpec{{Protocol: "TCP", From: 443, To: 443, Type: -1}}
	set.Policies = append(set.Policies, second)
	f := e.cloud()
	change := func(guarded bool) func(*plan.Input) {
		return func(in *plan.Input) {
			keep := *in.AppliedToGroups[0]
			apart(in, 3, 3)
			of := *in.AppliedToGroups[1]
			of.GroupMembers = nil
			if guarded {
				of.GroupMembers = in.AppliedToGroups[0].GroupMembers
			}
			in.AppliedToGroups = []*v1beta2.AppliedToGroup{&keep, &of}
		}
	}
	settle(t, e, f, change(true))
	ours := groupsOf(f, 3)
	if peers := ingressPeers(f, 0); len(peers) != 1 || len(ours) != 1 || peers[0].GroupID != ours[0] {
		t.Fatalf("it holds %v, and is named by %+v", ours, peers)
	}
	at := slices.IndexFunc(f.snap.Interfaces, func(n cloud.Interface) bool { return n.ID == nicID(3) })
	f.snap.Interfaces[at].PrivateIPs = []netip.Addr{netip.MustParseAddr("10.0.0.33")}
	in := e.input(e.History[0], f.clone())
	change(true)(&in)
	if p := plan.Compute(in, e.lowerer()).Plan; !p.Empty() {
		t.Errorf("another address takes %v", p.Steps)
	}
	settle(t, e, f, change(false))
	if peers := ingressPeers(f, 0); len(peers) != 1 || peers[0].CIDR != netip.MustParsePrefix("10.0.0.33/32") {
		t.Errorf("it is named by %+v", peers)
	}
}

// TestForeignGroupIsNoPeer: what a policy lets in is never named by a group that somebody else may
// give to others, not even where the subject's own groups name that group and all of its holders
// are let in at present.
func TestForeignGroupIsNoPeer(t *testing.T) {
	e := small()
	e.Groups[1].Rules = append(e.Groups[1].Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{GroupID: "#2"}})
	f := e.cloud()
	foreign := groupsOf(f, 1)[0]
	res := settle(t, e, f, nil)
	if len(res.Policies[0].Realized) != 1 {
		t.Fatalf("%+v", res.Policies)
	}
	for _, p := range ingressPeers(f, 0) {
		if p.GroupID == foreign {
			t.Errorf("the peer is named by %s, which is not ours; it holds %v", foreign, groupsOf(f, 1))
		}
	}
}
