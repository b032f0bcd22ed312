package guard

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// everything is a cloud that can say all.
type everything struct{}

func (everything) Unsupported(flow.Service) string { return "" }

// shop are three VMs with a security group each: a policy lets app reach web, and nobody says
// anything of db.
func shop() intent.Input {
	s := &cloud.Snapshot{Scope: cloud.Scope{Account: "shop", Region: "here"}, OwnerID: "us", Networks: []cloud.Network{{ID: "vpc", OwnerID: "us"}}}
	in := intent.Input{ClusterID: "cluster", Account: "shop", Entities: map[intent.EntityRef]intent.VMRef{}, Modes: map[intent.VMRef]intent.Mode{}}
	for i, name := range []string{"web", "app", "db"} {
		s.Groups = append(s.Groups, cloud.Group{ID: "sg-" + name, Name: name, NetworkID: "vpc", OwnerID: "us"})
		s.VMs = append(s.VMs, cloud.VM{ID: name, NetworkID: "vpc", Interfaces: []string{"eni-" + name}})
		s.Interfaces = append(s.Interfaces, cloud.Interface{
			ID: "eni-" + name, VMID: name, NetworkID: "vpc", OwnerID: "us", GroupIDs: []string{"sg-" + name},
			PrivateIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)})},
		})
		in.Entities[intent.EntityRef{Namespace: "shop", Name: name}] = intent.VMRef{Region: "here", ID: name}
		in.Modes[intent.VMRef{Region: "here", ID: name}] = intent.Enforce
	}
	member := func(name string, ip byte) v1beta2.GroupMember {
		return v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "shop", Name: name}, IPs: []v1beta2.IPAddress{{10, 0, 0, ip}}}
	}
	to, from := &v1beta2.AppliedToGroup{GroupMembers: []v1beta2.GroupMember{member("web", 10)}}, &v1beta2.AddressGroup{GroupMembers: []v1beta2.GroupMember{member("app", 11)}}
	to.Name, from.Name = "to", "from"
	tier, priority, allow := int32(250), 5.0, v1beta2.RuleActionAllow
	p := &v1beta2.NetworkPolicy{
		TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"to"},
		SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "shop", Name: "p", UID: "uid"},
		Rules:     []v1beta2.NetworkPolicyRule{{Direction: v1beta2.DirectionIn, Action: &allow, From: v1beta2.NetworkPolicyPeer{AddressGroups: []string{"from"}}}},
	}
	p.Name, p.UID = "uid", types.UID("uid")
	in.Policies, in.AppliedToGroups, in.AddressGroups = []*v1beta2.NetworkPolicy{p}, []*v1beta2.AppliedToGroup{to}, []*v1beta2.AddressGroup{from}
	in.Regions = []intent.Observed{{Snapshot: s, Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50}}}
	return in
}

// TestDecideStates: what becomes of the three interfaces, one reason after the other.
func TestDecideStates(t *testing.T) {
	web, app := intent.VMRef{Region: "here", ID: "web"}, intent.VMRef{Region: "here", ID: "app"}
	names := func(group, peer string) func(*intent.Input) {
		return func(in *intent.Input) {
			for i := range in.Regions[0].Snapshot.Groups {
				if g := &in.Regions[0].Snapshot.Groups[i]; g.ID == group {
					g.Rules = append(g.Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 22, 22), Peer: cloud.Peer{GroupID: peer}})
				}
			}
		}
	}
	for _, c := range []struct {
		name          string
		change        func(*intent.Input)
		web, app, db  InterfaceState
		refused, held bool // of web: not taken over, or stays as it is
	}{
		{"a policy guards web, and app has a group by which it is named", func(*intent.Input) {}, Guarded, Member, Untouched, false, false},
		{"nothing is said", func(in *intent.Input) { in.Policies = nil }, Untouched, Untouched, Untouched, false, false},
		{"web is only planned", func(in *intent.Input) { in.Modes[web] = intent.Planned }, Untouched, Untouched, Untouched, false, false},
		{"web is released", func(in *intent.Input) { in.Modes[web] = intent.Released }, Untouched, Untouched, Untouched, false, false},
		{"app is released: it is named by address", func(in *intent.Input) { in.Modes[app] = intent.Released }, Guarded, Untouched, Untouched, false, false},
		{"app has no slot for one more group", func(in *intent.Input) { in.Regions[0].Limits.GroupsPerInterface = 1 }, Guarded, Untouched, Untouched, false, false},
		{"db depends on web: its own rules guard it, too", names("sg-db", "sg-web"), Guarded, Member, Guarded, false, false},
		{"nobody selected db, which depends on web", func(in *intent.Input) {
			names("sg-db", "sg-web")(in)
			delete(in.Entities, intent.EntityRef{Namespace: "shop", Name: "db"})
		}, Untouched, Untouched, Untouched, true, false},
		{"the same, and the account says to cut", func(in *intent.Input) {
			names("sg-db", "sg-web")(in)
			delete(in.Entities, intent.EntityRef{Namespace: "shop", Name: "db"})
			in.Dependents.Default = intent.CutDependents
		}, Guarded, Member, Untouched, false, false},
		{"rules of another account name the group of web", func(in *intent.Input) {
			in.Regions[0].Snapshot.References = []cloud.Reference{{GroupID: "sg-web", NetworkID: "theirs", OwnerID: "they", PeeringID: "pcx"}}
		}, Untouched, Untouched, Untouched, true, false},
		{"there is no room for the tags of web", func(in *intent.Input) { in.Regions[0].Limits.TagsPerResource = 0 }, Untouched, Untouched, Untouched, false, false},
	} {
		in := shop()
		c.change(&in)
		s := NewStates(intent.New(in, everything{}, nil).Regions[0])
		s.DecideStates()
		is := map[string]*NIC{}
		for _, n := range s.NICs {
			is[n.ID] = n
		}
		if is["eni-web"].State != c.web || is["eni-app"].State != c.app || is["eni-db"].State != c.db {
			t.Errorf("%s: web %s, app %s, db %s", c.name, is["eni-web"].State, is["eni-app"].State, is["eni-db"].State)
		}
		if n := is["eni-web"]; (n.Refusal() != nil) != c.refused || (n.Frozen() != nil) != c.held {
			t.Errorf("%s: refused %v, frozen %v", c.name, n.Refusal(), n.Frozen())
		}
	}
}

// TestLeaveOut: what is ruled out remains through attempts, until all is begun anew.
func TestLeaveOut(t *testing.T) {
	in := shop()
	s := NewStates(intent.New(in, everything{}, nil).Regions[0])
	why := reason.Why(reason.RulesShort)
	web := s.Order[slices.IndexFunc(s.Order, func(vm *VM) bool { return vm.Ref.ID == "web" })]
	if len(web.Policies) != 1 {
		t.Fatalf("%d policies", len(web.Policies))
	}
	s.LeaveOut(web, web.Policies[0], why)
	s.DecideStates()
	if n := web.NICs[0]; web.Left(web.Policies[0]) != why || web.KeepsAny() || n.State != Untouched || n.Frozen() != nil {
		t.Errorf("never in force: left %v, keeps %v, %s, frozen %v", web.Left(web.Policies[0]), web.KeepsAny(), n.State, n.Frozen())
	}
	s.NoRoom(web.NICs, why)
	if s.DecideStates(); web.NICs[0].State != Untouched || web.NICs[0].Refusal() == nil {
		t.Errorf("no room: %s", web.NICs[0].State)
	}
	if s.Begin(); web.NICs[0].Refusal() != nil {
		t.Error("a new beginning remembers a refusal")
	}
}
