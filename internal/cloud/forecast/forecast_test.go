package forecast

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

func rule(d cloud.Direction, m cloud.Match, peer string) cloud.Rule {
	r := cloud.Rule{Direction: d, Match: m}
	if p, err := netip.ParsePrefix(peer); err == nil {
		r.Peer.CIDR = p
	} else if strings.HasPrefix(peer, "pl-") {
		r.Peer.PrefixListID = peer
	} else {
		r.Peer.GroupID = peer
	}
	return r
}

var (
	all  = cloud.NewMatch(cloud.AnyProtocol, -1, -1)
	ssh  = cloud.NewMatch(cloud.TCP, 22, 22)
	web  = cloud.NewMatch(cloud.TCP, 80, 443)
	ping = cloud.NewMatch(cloud.ICMP, 8, 0)
)

// small is a network with two web servers and a database.
func small() *cloud.Snapshot {
	nic := func(id, addr string, groups ...string) cloud.Interface {
		return cloud.Interface{ID: "eni-" + id, VMID: "i-" + id, NetworkID: "vpc", PrivateIPs: []netip.Addr{netip.MustParseAddr(addr)}, GroupIDs: groups}
	}
	return &cloud.Snapshot{
		Scope:      cloud.Scope{Account: "ns/a", Region: "r"},
		OwnerID:    "1",
		Networks:   []cloud.Network{{ID: "vpc"}},
		VMs:        []cloud.VM{{ID: "i-1", Name: "web-1"}, {ID: "i-2", Name: "web-2"}, {ID: "i-3", Name: "db"}},
		Interfaces: []cloud.Interface{nic("1", "10.0.0.11", "sg-web"), nic("2", "10.0.0.12", "sg-web"), nic("3", "10.0.0.20", "sg-db")},
		Groups: []cloud.Group{
			{ID: "sg-db", Name: "db", NetworkID: "vpc", Rules: []cloud.Rule{rule(cloud.Ingress, all, "sg-web"), rule(cloud.Egress, all, "0.0.0.0/0")}},
			{ID: "sg-web", Name: "web", NetworkID: "vpc", Rules: []cloud.Rule{rule(cloud.Ingress, web, "0.0.0.0/0"), rule(cloud.Egress, all, "0.0.0.0/0")}},
		},
		PrefixLists: []cloud.PrefixList{{ID: "pl-1", MaxEntries: 20, Entries: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
	}
}

func step(kind cloud.OpKind, target string, rules ...cloud.Rule) plan.Step {
	return plan.Step{Scope: cloud.Scope{Account: "ns/a", Region: "r"}, Network: "vpc", Op: cloud.Op{Kind: kind, Target: target, Rules: rules}}
}

func TestReachInWords(t *testing.T) {
	created := step(cloud.OpCreateGroup, "")
	created.Op.Group = cloud.GroupSpec{NetworkID: "vpc", Name: "new"}
	fill := step(cloud.OpAddRules, "", rule(cloud.Ingress, cloud.NewMatch(cloud.TCP, 5432, 5432), "sg-web"), rule(cloud.Egress, all, "0.0.0.0/0"))
	fill.Op.Group = created.Op.Group
	attach := step(cloud.OpSetInterfaceGroups, "eni-3")
	attach.Op.GroupNames = []string{"new"}
	shrunk := step(cloud.OpReplaceRules, "sg-web", rule(cloud.Ingress, cloud.NewMatch(cloud.TCP, 100, 443), "0.0.0.0/0"))
	shrunk.Op.Replaced = []cloud.Rule{rule(cloud.Ingress, web, "0.0.0.0/0")}
	for name, c := range map[string]struct {
		steps []plan.Step
		want  string
	}{
		"nothing": {},
		"a part of a range goes in place": {
			[]plan.Step{shrunk},
			"- tcp 80-99 from the rest of 0.0.0.0/0 to web-1, web-2; - tcp 80-99 from db, web-1, web-2 to web-1, web-2",
		},
		"a port from everywhere": {
			[]plan.Step{step(cloud.OpAddRules, "sg-web", rule(cloud.Ingress, ssh, "0.0.0.0/0"))},
			"+ tcp 22 from the rest of 0.0.0.0/0 to web-1, web-2; + tcp 22 from db, web-1, web-2 to web-1, web-2",
		},
		"a part of a range goes": {
			[]plan.Step{
				step(cloud.OpRemoveRules, "sg-web", rule(cloud.Ingress, web, "0.0.0.0/0")),
				step(cloud.OpAddRules, "sg-web", rule(cloud.Ingress, cloud.NewMatch(cloud.TCP, 100, 443), "0.0.0.0/0")),
			},
			"- tcp 80-99 from the rest of 0.0.0.0/0 to web-1, web-2; - tcp 80-99 from db, web-1, web-2 to web-1, web-2",
		},
		"another group": {
			[]plan.Step{created, fill, attach},
			"- everything but tcp 5432 from web-1, web-2 to db",
		},
		"two ends change": {
			[]plan.Step{
				step(cloud.OpRemoveRules, "sg-web", rule(cloud.Egress, all, "0.0.0.0/0")),
				step(cloud.OpAddRules, "sg-web", rule(cloud.Egress, all, "10.0.0.0/24")),
				step(cloud.OpAddRules, "sg-db", rule(cloud.Ingress, ping, "198.51.100.0/24")),
			},
			"+ icmp type 8 code 0 from 198.51.100.0/24 to db; - everything from web-1, web-2 to " +
				strings.Join(texts(addrset.OfPrefixes(netip.MustParsePrefix("0.0.0.0/0")).Minus(addrset.OfPrefixes(netip.MustParsePrefix("10.0.0.0/24")))), ", "),
		},
		"a prefix list, and one that is not known": {
			[]plan.Step{step(cloud.OpAddRules, "sg-db", rule(cloud.Ingress, ssh, "pl-1"), rule(cloud.Ingress, ssh, "pl-2"))},
			"+ tcp 22 from 192.0.2.0/24 to db; + tcp 22 from the members of pl-2 to db",
		},
	} {
		before := small()
		after, err := Apply(before, c.steps)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, x := range Reach(before, after) {
			sign := "- "
			if x.Opens {
				sign = "+ "
			}
			from, to := x.From.String(), x.To.String()
			if len(x.To.Addresses) > named+1 {
				to = strings.Join(texts(addrset.OfPrefixes(x.To.Addresses...)), ", ")
			}
			got = append(got, sign+x.Packets.Text+" from "+from+" to "+to)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, text, c.want)
		}
	}
}

// No flow goes from an IPv4 address to an IPv6 address, so nothing of that kind closes.
func TestReachKeepsFamiliesApart(t *testing.T) {
	before := small()
	for i := range before.Interfaces {
		n := &before.Interfaces[i]
		n.PrivateIPs = append(n.PrivateIPs, netip.MustParseAddr("2001:db8::"+n.VMID[2:]))
	}
	before.Groups[0].Rules = []cloud.Rule{rule(cloud.Ingress, cloud.NewMatch(cloud.ICMPv6, -1, -1), "::/0"), rule(cloud.Ingress, ssh, "::/0")}
	before.Groups[1].Rules = []cloud.Rule{rule(cloud.Egress, all, "0.0.0.0/0"), rule(cloud.Egress, all, "::/0")}
	after, err := Apply(before, []plan.Step{step(cloud.OpRemoveRules, "sg-web", rule(cloud.Egress, all, "0.0.0.0/0"))})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range Reach(before, after) {
		if len(x.To.VMs) > 0 {
			t.Errorf("%s from %s to %s: nothing closes between them", x.Packets.Text, x.From, x.To)
		}
	}
}

func texts(s addrset.Set) []string {
	var out []string
	for _, p := range s.Prefixes() {
		out = append(out, p.String())
	}
	return out
}

func TestApplyRefusesWhatDoesNotFit(t *testing.T) {
	missing := step(cloud.OpSetInterfaceGroups, "eni-3")
	missing.Op.GroupNames = []string{"nobody"}
	replaced := step(cloud.OpReplaceRules, "sg-web", rule(cloud.Ingress, web, "10.0.0.0/24"))
	replaced.Op.Replaced = []cloud.Rule{rule(cloud.Ingress, ssh, "0.0.0.0/0")}
	for name, s := range map[string]plan.Step{
		"a rule that is not there is replaced":     replaced,
		"rules in a group that is not there":       step(cloud.OpAddRules, "sg-x", rule(cloud.Ingress, ssh, "0.0.0.0/0")),
		"an interface that is not there":           step(cloud.OpSetInterfaceGroups, "eni-x"),
		"a group that is not there":                missing,
		"tags of something that is not there":      step(cloud.OpTag, "vpc-x"),
		"a rule that refers to a group by name":    step(cloud.OpAddRules, "sg-db", cloud.Rule{Peer: cloud.Peer{GroupName: "nobody"}}),
		"an operation that nobody has heard about": step("Explode", "sg-db"),
	} {
		if _, err := Apply(small(), []plan.Step{s}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestStanding: where nothing is to be done, the fullest group of ours and the interface with most
// groups beside one of ours are told.
func TestStanding(t *testing.T) {
	limits := cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500}
	now := small()
	groups := Quota{Region: "r", Name: "security groups", Before: len(now.Groups), After: len(now.Groups), Limit: 2500}
	if got := Standing(now, limits, lower.AWS{}); len(got) != 1 || got[0] != groups {
		t.Errorf("where nothing is ours: %+v", got)
	}
	for i := range now.Groups {
		if g := &now.Groups[i]; g.ID == "sg-db" {
			g.Tags = map[string]string{cloud.TagAccount: "shop/cloud"}
			g.Rules = []cloud.Rule{rule(cloud.Ingress, ssh, "192.0.2.0/24"), rule(cloud.Ingress, ssh, "198.51.100.0/24"), rule(cloud.Egress, ssh, "192.0.2.0/24")}
		} else {
			g.Rules = []cloud.Rule{rule(cloud.Ingress, ssh, "192.0.2.0/24"), rule(cloud.Ingress, ssh, "198.51.100.0/24"), rule(cloud.Ingress, ssh, "203.0.113.0/24")}
		}
	}
	now.Interfaces[0].GroupIDs = []string{"sg-db"}
	want := []Quota{groups,
		{Region: "r", Name: "rules of a group, per direction and family", Before: 2, After: 2, Limit: 60, Where: "db, ingress IPv4"},
		{Region: "r", Name: "groups of an interface", Before: 1, After: 1, Limit: 5, Where: now.Interfaces[0].ID},
	}
	if got := Standing(now, limits, lower.AWS{}); !slices.Equal(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
}

func TestQuotas(t *testing.T) {
	before := small()
	after, err := Apply(before, []plan.Step{
		step(cloud.OpAddRules, "sg-db", rule(cloud.Ingress, ssh, "pl-1"), rule(cloud.Ingress, ssh, "192.0.2.0/24"), rule(cloud.Ingress, ssh, "2001:db8::/32")),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := Quotas(before, after, cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500}, lower.AWS{})
	want := []Quota{
		{Region: "r", Name: "security groups", Before: 2, After: 2, Limit: 2500},
		// The reference counts in both families, the list with all that it may hold.
		{Region: "r", Name: "rules of a group, per direction and family", Before: 1, After: 22, Limit: 60, Where: "db, ingress IPv4"},
	}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}
