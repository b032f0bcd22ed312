package model_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/model/modeltest"
)

var limits = cloud.Limits{RulesPerGroup: 2, GroupsPerInterface: 2, GroupsPerRegion: 3, TagsPerResource: 50}

func block(d cloud.Direction, port int, cidr string) cloud.Rule {
	return cloud.Rule{Direction: d, Match: cloud.NewMatch(cloud.TCP, port, port), Peer: cloud.Peer{CIDR: netip.MustParsePrefix(cidr)}}
}

func from(port int, group string) cloud.Rule {
	return cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, port, port), Peer: cloud.Peer{GroupID: group}}
}

// region has two networks that are peered, a third that is not, and an interface in each.
func region() *cloud.Snapshot {
	s := &cloud.Snapshot{Scope: cloud.Scope{Account: "a/b", Region: "r"}, OwnerID: "1"}
	for i := range 3 {
		net := fmt.Sprintf("vpc-%d", i)
		s.Networks = append(s.Networks, cloud.Network{ID: net})
		s.Interfaces = append(s.Interfaces, cloud.Interface{
			ID: fmt.Sprintf("eni-%d", i), NetworkID: net, GroupIDs: []string{fmt.Sprintf("sg-%d", i)},
			PrivateIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i), 0, 1})},
		})
	}
	s.Groups = []cloud.Group{
		{ID: "sg-0", Name: "web", NetworkID: "vpc-0", Rules: []cloud.Rule{block(cloud.Ingress, 80, "192.0.2.0/24")}},
		{ID: "sg-1", Name: "db", NetworkID: "vpc-1"},
	}
	s.Peerings = []cloud.Peering{{ID: "pcx", A: cloud.PeeringEnd{NetworkID: "vpc-0", Region: "r"}, B: cloud.PeeringEnd{NetworkID: "vpc-1", Region: "r"}}}
	s.PrefixLists = []cloud.PrefixList{
		{ID: "pl-1", OwnerID: "1", MaxEntries: 5, Entries: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}},
		{ID: "pl-2", OwnerID: cloud.CloudOwned},
	}
	return s
}

// TestApplyIsIdempotentAndShares: every kind of operation has its effect, has it once, and leaves
// the first snapshot alone.
func TestApplyIsIdempotentAndShares(t *testing.T) {
	s, untouched := region(), region()
	m := model.New(s)
	ops := []cloud.Op{
		{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: "vpc-0", Name: "ours", Tags: map[string]string{"k": "v"}}},
		{Kind: cloud.OpAddRules, Group: cloud.GroupSpec{NetworkID: "vpc-0", Name: "ours"}, Rules: []cloud.Rule{from(22, "sg-1"), {Direction: cloud.Egress,
			Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{GroupName: "ours"}}}},
		{Kind: cloud.OpReplaceRules, Group: cloud.GroupSpec{NetworkID: "vpc-0", Name: "ours"}, Rules: []cloud.Rule{from(23, "sg-1")}, Replaced: []cloud.Rule{from(22, "sg-1")}},
		{Kind: cloud.OpRemoveRules, Target: "sg-0", Rules: []cloud.Rule{block(cloud.Ingress, 80, "192.0.2.0/24")}},
		{Kind: cloud.OpSetInterfaceGroups, Target: "eni-0", GroupIDs: []string{"sg-0"}, GroupNames: []string{"ours"}},
		{Kind: cloud.OpTag, Target: "eni-0", Others: []string{"vpc-0", "sg-0"}, Tags: map[string]string{"a": "1", "b": "2"}},
		{Kind: cloud.OpUntag, Target: "eni-0", Tags: map[string]string{"a": "1"}},
		{Kind: cloud.OpDeleteGroup, Target: "sg-1"},
	}
	for _, op := range ops {
		for range 2 {
			if err := m.Apply("vpc-0", op); err != nil {
				t.Fatalf("%s: %v", op, err)
			}
		}
	}
	if !reflect.DeepEqual(s, untouched) {
		t.Error("the first snapshot is another one now")
	}
	got := m.Snapshot()
	if !slices.IsSortedFunc(got.Groups, func(a, b cloud.Group) int { return slices.Compare([]string{a.ID}, []string{b.ID}) }) {
		t.Errorf("groups are not sorted: %v", got.Groups)
	}
	id := model.PlannedGroupID + "vpc-0/ours"
	ours := m.Group(id)
	if ours == nil || len(ours.Rules) != 2 || ours.Rules[1].Match.From != 23 || ours.Rules[0].Peer.GroupID != id || ours.Tags["k"] != "v" {
		t.Fatalf("the group that was created: %+v", ours)
	}
	n := m.Interface("eni-0")
	if !slices.Equal(n.GroupIDs, []string{id, "sg-0"}) || !reflect.DeepEqual(n.Tags, map[string]string{"b": "2"}) {
		t.Errorf("the interface: %+v", n)
	}
	if m.Group("sg-1") != nil || len(m.Group("sg-0").Rules) != 0 || m.Network("vpc-0").Tags["a"] != "1" {
		t.Error("what is deleted, removed or tagged is not")
	}
}

func TestApplyNeedsItsObjects(t *testing.T) {
	for _, op := range []cloud.Op{
		{Kind: cloud.OpAddRules, Target: "sg-9"},
		{Kind: cloud.OpAddRules, Target: "sg-0", Rules: []cloud.Rule{{Peer: cloud.Peer{GroupName: "new"}}}},
		{Kind: cloud.OpReplaceRules, Target: "sg-0", Rules: []cloud.Rule{from(1, "sg-1")}, Replaced: []cloud.Rule{from(2, "sg-1")}},
		{Kind: cloud.OpSetInterfaceGroups, Target: "eni-9"},
		{Kind: cloud.OpSetInterfaceGroups, Target: "eni-0", GroupNames: []string{"new"}},
		{Kind: cloud.OpTag, Target: "x"},
	} {
		if err := model.New(region()).Apply("vpc-0", op); !errors.Is(err, model.ErrMissing) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err := model.New(region()).Apply("vpc-0", cloud.Op{Kind: "Dance"}); err == nil {
		t.Error("an unknown kind is taken")
	}
}

// TestRefuses: each of these is refused, and the one beside it, which differs in one point, is not.
func TestRefuses(t *testing.T) {
	add := func(target string, rules ...cloud.Rule) cloud.Op {
		return cloud.Op{Kind: cloud.OpAddRules, Target: target, Rules: rules}
	}
	set := func(target string, groups ...string) cloud.Op {
		return cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: target, GroupIDs: groups}
	}
	create := func(name string) cloud.Op {
		return cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: "vpc-0", Name: name}}
	}
	present := block(cloud.Ingress, 80, "192.0.2.0/24")
	list := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{PrefixListID: "pl-1"}}
	for name, c := range map[string]struct{ bad, good cloud.Op }{
		"a name that is taken":           {create("WEB"), create("web2")},
		"a rule that is there":           {add("sg-0", present), add("sg-0", block(cloud.Ingress, 81, "192.0.2.0/24"))},
		"a rule that is not":             {cloud.Op{Kind: cloud.OpRemoveRules, Target: "sg-1", Rules: []cloud.Rule{present}}, cloud.Op{Kind: cloud.OpRemoveRules, Target: "sg-0", Rules: []cloud.Rule{present}}},
		"more rules than fit":            {add("sg-1", from(1, "sg-1"), from(2, "sg-1"), from(3, "sg-1")), add("sg-1", from(1, "sg-1"), from(2, "sg-1"))},
		"a list counts by its size":      {add("sg-1", list), add("sg-1", from(1, "sg-1"))},
		"a group out of reach":           {add("sg-0", from(1, "sg-9")), add("sg-0", from(1, "sg-1"))},
		"host bits":                      {add("sg-0", block(cloud.Egress, 1, "10.0.0.1/24")), add("sg-0", block(cloud.Egress, 1, "10.0.0.1/32"))},
		"an address becomes a group":     {cloud.Op{Kind: cloud.OpReplaceRules, Target: "sg-0", Rules: []cloud.Rule{from(80, "sg-1")}, Replaced: []cloud.Rule{present}}, cloud.Op{Kind: cloud.OpReplaceRules, Target: "sg-0", Rules: []cloud.Rule{block(cloud.Ingress, 80, "10.0.0.0/8")}, Replaced: []cloud.Rule{present}}},
		"no group at all":                {set("eni-0"), set("eni-0", "sg-0")},
		"a group of another network":     {set("eni-0", "sg-1"), set("eni-1", "sg-1")},
		"an interface of a service":      {set("eni-2", "sg-0"), set("eni-0", "sg-0")},
		"a group that is held":           {cloud.Op{Kind: cloud.OpDeleteGroup, Target: "sg-0"}, cloud.Op{Kind: cloud.OpDeleteGroup, Target: "sg-3"}},
		"a value that is too long":       {cloud.Op{Kind: cloud.OpTag, Target: "eni-0", Tags: map[string]string{"k": string(make([]byte, 256))}}, cloud.Op{Kind: cloud.OpTag, Target: "eni-0", Tags: map[string]string{"k": "v"}}},
		"a group that another refers to": {cloud.Op{Kind: cloud.OpDeleteGroup, Target: "sg-4"}, cloud.Op{Kind: cloud.OpDeleteGroup, Target: "sg-3"}},
	} {
		m := func() *model.Model {
			s := region()
			s.Interfaces[2].Managed = true
			return model.New(s)
		}()
		if err := modeltest.Refuses(m, "vpc-0", c.good, limits); err != nil {
			t.Errorf("%s: the good one is refused: %v", name, err)
		}
		if name == "a group that another refers to" {
			s := region()
			s.Groups = append(
				s.Groups,
				cloud.Group{ID: "sg-4", NetworkID: "vpc-0", Name: "x"},
				cloud.Group{ID: "sg-5", NetworkID: "vpc-0", Name: "y", Rules: []cloud.Rule{from(1, "sg-4")}},
			)
			m = model.New(s)
		}
		if err := modeltest.Refuses(m, "vpc-0", c.bad, limits); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	full := region()
	full.Groups = append(full.Groups, cloud.Group{ID: "sg-3", NetworkID: "vpc-0", Name: "third"})
	if modeltest.Refuses(model.New(full), "vpc-0", create("fourth"), limits) == nil {
		t.Error("a group too many is not refused")
	}
}

// TestView: references mean the interfaces that hold the group, in the network and over an active
// peering, and no others.
func TestView(t *testing.T) {
	s := region()
	s.Groups[0].Rules = append(s.Groups[0].Rules, from(5432, "sg-1"), cloud.Rule{
		Direction: cloud.Ingress,
		Match:     cloud.NewMatch(cloud.TCP, 443, 443),
		Peer: cloud.Peer{
			PrefixListID: "pl-2",
		},
	}, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.ICMP, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("::/0")}})
	v := model.NewView(s)
	rules := v.Rules([]string{"sg-0", "sg-gone"}, cloud.Ingress)
	if len(rules) != 4 || len(v.Rules([]string{"sg-0"}, cloud.Egress)) != 0 {
		t.Fatalf("rules %v", rules)
	}
	at := func(network string, protocol, port int) (addrset.Set, []cloud.Peer) {
		return v.Allowed(rules, network, flow.Service{Protocol: protocol, From: uint16(port), To: uint16(port)})
	}
	if got, _ := at("vpc-0", cloud.TCP, 5432); !got.Equal(addrset.Of(netip.MustParseAddr("10.1.0.1"))) {
		t.Errorf("over the peering: %v", got.Prefixes())
	}
	if got, _ := at("vpc-2", cloud.TCP, 5432); !got.Empty() {
		t.Errorf("without a peering: %v", got.Prefixes())
	}
	if got, opaque := at("vpc-0", cloud.TCP, 443); !got.Empty() || len(opaque) != 1 || opaque[0].PrefixListID != "pl-2" {
		t.Errorf("a list that cannot be read: %v, %v", got.Prefixes(), opaque)
	}
	if got, _ := at("vpc-0", cloud.ICMP, 0); !got.Empty() {
		t.Errorf("ICMP has no IPv6 addresses: %v", got.Prefixes())
	}
	if n, where := modeltest.Fullest(v, []cloud.Rule{from(1, "sg-1"), block(cloud.Ingress, 1, "::/0"), block(cloud.Egress, 1, "::/0")}); n != 2 || where != "ingress IPv6" {
		t.Errorf("%d %s", n, where)
	}
}
