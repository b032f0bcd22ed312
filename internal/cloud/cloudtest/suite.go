package cloudtest

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Run checks an adapter. open makes a World with its own simulated cloud and cleans up when t ends.
func Run(t *testing.T, open func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"Observe shows a consistent whole", observeWhole},
		{"Networks are those that Observe shows", networks},
		{"Observe is all or an error", observeAllOrError},
		{"Limits are positive", limits},
		{"CreateGroup", createGroup},
		{"CreateGroup does not take over foreign groups", createForeign},
		{"AddRules and RemoveRules", rules},
		{"Rules of every kind survive the round trip", roundTrip},
		{"Rules are replaced in place", replaceRules},
		{"SetInterfaceGroups", setInterfaceGroups},
		{"Tag and Untag", tags},
		{"Many objects are tagged by one op", manyTags},
		{"DeleteGroup", deleteGroup},
		{"Wrong ops are refused without a call", wrongOps},
		{"Just created objects are waited for", eventualConsistency},
		{"Lost answers", lostAnswers},
		{"Short disturbances are bridged", bridged},
		{"Long disturbances are classified", classified},
		{"An ended context ends the call", endedContext},
		{"Concurrent calls", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&bench{T: t, World: open(t), ctx: t.Context()})
		})
	}
}

// networks is about adapters that can read networks alone.
func networks(b *bench) {
	lister, able := b.Provider.(cloud.NetworkLister)
	if !able {
		return
	}
	s := b.observe()
	if len(s.Networks) == 0 {
		b.Fatal("the world of the test has no network")
	}
	tag := map[string]string{cloud.TagInstance: "abc 7 15s"}
	if _, err := b.Provider.Apply(b.ctx, b.Scope, cloud.Op{Kind: cloud.OpTag, Target: s.Networks[0].ID, Tags: tag}); err != nil {
		b.Fatal(err)
	}
	got, err := lister.Networks(b.ctx, b.Scope)
	if err != nil {
		b.Fatal(err)
	}
	if want := b.observe().Networks; !reflect.DeepEqual(got, want) || got[0].Tags[cloud.TagInstance] != tag[cloud.TagInstance] {
		b.Errorf("networks %v, want %v", got, want)
	}
}

func observeWhole(b *bench) {
	s := b.observe()
	if s.Scope != b.Scope || s.OwnerID == "" || s.ObservedAt.IsZero() {
		b.Errorf("scope %v, owner %q, time %v", s.Scope, s.OwnerID, s.ObservedAt)
	}
	networks, groups, nics := map[string]bool{}, map[string]bool{}, map[string]cloud.Interface{}
	for _, n := range s.Networks {
		networks[n.ID] = true
	}
	for _, g := range s.Groups {
		groups[g.ID] = true
		if !networks[g.NetworkID] {
			b.Errorf("group %s is in the unknown network %q", g.ID, g.NetworkID)
		}
		if !slices.IsSortedFunc(g.Rules, cloud.Rule.Compare) {
			b.Errorf("the rules of %s are not sorted", g.ID)
		}
		for _, r := range g.Rules {
			if r.Match != cloud.NewMatch(r.Match.Protocol, r.Match.From, r.Match.To) {
				b.Errorf("the rule %q of %s is not canonical", r, g.ID)
			}
		}
	}
	for _, n := range s.Interfaces {
		nics[n.ID] = n
		for _, g := range n.GroupIDs {
			if !groups[g] {
				b.Errorf("interface %s holds the unknown group %s", n.ID, g)
			}
		}
	}
	for _, vm := range s.VMs {
		for _, id := range vm.Interfaces {
			if nics[id].VMID != vm.ID {
				b.Errorf("VM %s has the interface %s, which says %q", vm.ID, id, nics[id].VMID)
			}
		}
	}
	if !networks[b.Network] || !networks[b.Other] || len(s.VMs) < 2 {
		b.Errorf("%d networks and %d VMs", len(s.Networks), len(s.VMs))
	}
	if !slices.IsSortedFunc(s.Interfaces, func(x, y cloud.Interface) int { return compare(x.ID, y.ID) }) ||
		!slices.IsSortedFunc(s.VMs, func(x, y cloud.VM) int { return compare(x.ID, y.ID) }) ||
		!slices.IsSortedFunc(s.Groups, func(x, y cloud.Group) int { return compare(x.ID, y.ID) }) {
		b.Error("a list is not sorted by ID")
	}
}

func compare(x, y string) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func observeAllOrError(b *bench) {
	for _, call := range b.Reads {
		b.Disturb(call, Refused, -1)
		s, err := b.Provider.Observe(b.ctx, b.Scope)
		if s != nil || err == nil {
			b.Errorf("without %s: snapshot %v, error %v", call, s != nil, err)
		}
		var classified *cloud.Error
		if err != nil && (!errors.As(err, &classified) || classified.Class != cloud.Auth || classified.Call != call) {
			b.Errorf("without %s: error %v; want class Auth of that call", call, err)
		}
		b.Calm()
	}
	b.observe()
}

func limits(b *bench) {
	l, err := b.Provider.Limits(b.ctx, b.Scope)
	if err != nil || l.RulesPerGroup <= 0 || l.GroupsPerInterface <= 0 || l.GroupsPerRegion <= 0 || l.TagsPerResource <= 0 {
		b.Errorf("%+v, %v", l, err)
	}
}

func createGroup(b *bench) {
	id := b.create("web")
	g := b.mustGroup(id)
	if !g.OwnedBy("test") || g.NetworkID != b.Network || g.Description != "made by a test" {
		b.Errorf("created %+v", g)
	}
	for key, want := range b.ownership() {
		if g.Tags[key] != want {
			b.Errorf("tag %s is %q; want %q", key, g.Tags[key], want)
		}
	}
	b.wantRules(id)
	if again := b.create("web"); again != id {
		b.Errorf("created again: %s; want %s", again, id)
	}
	// What was filled since is not emptied by a repetition.
	all := rule(cloud.Egress, cloud.NewMatch(cloud.AnyProtocol, -1, -1), netip.MustParsePrefix("0.0.0.0/0"))
	all.Description = "policy x"
	b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{all}})
	b.create("web")
	b.wantRules(id, all)
}

func createForeign(b *bench) {
	id := b.CreateForeign(cloud.NamePrefix + "web")
	before := b.mustGroup(id)
	b.refused(b.createOp("web"), cloud.Conflict)
	if after := b.mustGroup(id); !sameRules(after.Rules, before.Rules) || len(after.Tags) != len(before.Tags) {
		b.Errorf("the foreign group changed: %+v", after)
	}
}

func rule(d cloud.Direction, m cloud.Match, p netip.Prefix) cloud.Rule {
	return cloud.Rule{Direction: d, Match: m, Peer: cloud.Peer{CIDR: p}}
}

func ports(from, to int) cloud.Rule {
	return rule(cloud.Ingress, cloud.NewMatch(cloud.TCP, from, to), netip.MustParsePrefix("192.0.2.0/24"))
}

func rules(b *bench) {
	id := b.create("web")
	add := func(rs ...cloud.Rule) { b.Helper(); b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: rs}) }
	remove := func(rs ...cloud.Rule) {
		b.Helper()
		b.apply(cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: rs})
	}
	out := rule(cloud.Egress, cloud.NewMatch(cloud.UDP, 53, 53), netip.MustParsePrefix("198.51.100.7/32"))

	add(ports(80, 80), ports(443, 443), out)
	b.wantRules(id, ports(80, 80), ports(443, 443), out)
	add(ports(80, 80), ports(443, 443), out)
	add(ports(80, 80), ports(8080, 8090), ports(8080, 8090)) // one there, one new, given twice
	b.wantRules(id, ports(80, 80), ports(443, 443), ports(8080, 8090), out)
	described := ports(80, 80)
	described.Description = "another word for it"
	add(described)

	remove(ports(80, 80), out)
	b.wantRules(id, ports(443, 443), ports(8080, 8090))
	remove(ports(80, 80), out)
	remove(ports(80, 80), ports(443, 443)) // one gone, one there
	b.wantRules(id, ports(8080, 8090))
	add()
	remove()
	b.wantRules(id, ports(8080, 8090))

	b.apply(cloud.Op{Kind: cloud.OpDeleteGroup, Target: id})
	remove(ports(8080, 8090))
	b.refused(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{ports(1, 1)}}, cloud.NotFound)
}

func replaceRules(b *bench) {
	id := b.create("web")
	replace := func(old, now []cloud.Rule) cloud.Op {
		return cloud.Op{Kind: cloud.OpReplaceRules, Target: id, Replaced: old, Rules: now}
	}
	list := func(rs ...cloud.Rule) []cloud.Rule { return rs }
	out := rule(cloud.Egress, cloud.NewMatch(cloud.UDP, 53, 53), netip.MustParsePrefix("198.51.100.7/32"))
	v6 := rule(cloud.Ingress, cloud.NewMatch(cloud.AnyProtocol, 0, 0), netip.MustParsePrefix("2001:db8::/48"))
	own := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.ICMP, 8, -1), Peer: cloud.Peer{GroupID: id}}
	if !b.holds(own.Match) {
		own.Match = cloud.NewMatch(cloud.ICMP, -1, -1)
	}
	b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: list(ports(80, 80), ports(443, 443), out, v6, own)})

	// Both directions, every kind of peer, other ports, protocols and addresses, all at once.
	out2, v62, own2 := out, v6, own
	out2.Peer.CIDR, v62.Match, own2.Match = netip.MustParsePrefix("198.51.100.0/24"), cloud.NewMatch(cloud.TCP, 22, 22), cloud.NewMatch(50, -1, -1)
	all := replace(list(ports(80, 80), out, v6, own), list(ports(80, 90), out2, v62, own2))
	for i := range all.Rules {
		all.Rules[i].Description = "now another"
	}
	b.apply(all)
	b.wantRules(id, ports(80, 90), ports(443, 443), out2, v62, own2)
	for _, r := range b.mustGroup(id).Rules {
		if want := map[bool]string{true: "now another"}[!r.Same(ports(443, 443))]; r.Description != want {
			b.Errorf("the description of %s is %q, want %q", r, r.Description, want)
		}
	}
	b.apply(all)
	b.wantRules(id, ports(80, 90), ports(443, 443), out2, v62, own2)

	// A rule in its own place gets its description.
	told := ports(443, 443)
	told.Description = "told"
	for range 2 {
		b.apply(replace(list(ports(443, 443)), list(told)))
		b.wantRules(id, ports(80, 90), ports(443, 443), out2, v62, own2)
		for _, r := range b.mustGroup(id).Rules {
			if want := map[bool]string{true: "now another", false: "told"}[!r.Same(told)]; r.Description != want {
				b.Errorf("the description of %s is %q, want %q", r, r.Description, want)
			}
		}
	}

	b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: list(ports(80, 80))})
	b.apply(replace(list(ports(80, 80)), list(ports(80, 90))))                   // both there: the old one goes
	b.refused(replace(list(ports(80, 80)), list(ports(81, 81))), cloud.Conflict) // neither there
	b.wantRules(id, ports(80, 90), ports(443, 443), out2, v62, own2)
	b.refused(replace(list(ports(80, 90), ports(443, 443)), list(ports(443, 443), ports(444, 444))), cloud.Terminal) // a chain
	b.refused(replace(list(ports(443, 443)), list(ports(1, 1), ports(2, 2))), cloud.Terminal)
	b.refused(replace(list(ports(443, 443)), list(out)), cloud.Terminal)
	b.refused(replace(list(ports(443, 443)), list(v6)), cloud.Terminal)
	b.refused(replace(list(ports(443, 443)), list(ports(2, 1))), cloud.Terminal)
	b.apply(cloud.Op{Kind: cloud.OpDeleteGroup, Target: id})
	if _, err := b.Provider.Apply(b.ctx, b.Scope, replace(list(ports(443, 443)), list(ports(1, 1)))); cloud.ClassOf(err) != cloud.Conflict && cloud.ClassOf(err) != cloud.NotFound {
		b.Errorf("rules of a group that is gone: %v", err)
	}
}

func roundTrip(b *bench) {
	id, peer := b.create("web"), b.create("peer")
	anywhere4, anywhere6 := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")
	var all []cloud.Rule
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		for _, m := range []cloud.Match{
			cloud.NewMatch(cloud.TCP, 0, 65535), cloud.NewMatch(cloud.TCP, 22, 22), cloud.NewMatch(cloud.UDP, 1000, 2000),
			cloud.NewMatch(cloud.ICMP, -1, -1), cloud.NewMatch(cloud.ICMP, 8, -1), cloud.NewMatch(cloud.ICMP, 3, 4),
			cloud.NewMatch(cloud.SCTP, 5, 6), cloud.NewMatch(50, -1, -1), cloud.NewMatch(cloud.AnyProtocol, 1, 2),
		} {
			all = append(all, rule(d, m, anywhere4), cloud.Rule{Direction: d, Match: m, Peer: cloud.Peer{GroupID: peer}})
		}
		all = append(all,
			rule(d, cloud.NewMatch(cloud.TCP, 443, 443), anywhere6),
			rule(d, cloud.NewMatch(cloud.TCP, 443, 443), netip.MustParsePrefix("2001:db8::/48")),
			rule(d, cloud.NewMatch(cloud.ICMPv6, 128, 0), anywhere6),
			rule(d, cloud.NewMatch(cloud.ICMPv6, -1, -1), anywhere6),
			cloud.Rule{Direction: d, Match: cloud.NewMatch(cloud.TCP, 1, 1), Peer: cloud.Peer{GroupID: id}})
		if b.ListOfPrefixes != "" {
			all = append(all, cloud.Rule{Direction: d, Match: cloud.NewMatch(cloud.TCP, 2, 2), Peer: cloud.Peer{PrefixListID: b.ListOfPrefixes}})
		}
	}
	for _, r := range all {
		if !b.holds(r.Match) {
			b.refused(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{r}}, cloud.Terminal)
		}
	}
	all = slices.DeleteFunc(all, func(r cloud.Rule) bool { return !b.holds(r.Match) })
	for i := range all {
		all[i].Description = fmt.Sprintf("policy %d: \"quoted\", <odd> and ünicode", i)
	}
	op := cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: all}
	b.apply(op)
	b.wantRules(id, all...)
	b.apply(op)
	if b.ListOfPrefixes != "" && !slices.ContainsFunc(b.observe().PrefixLists, func(l cloud.PrefixList) bool {
		return l.ID == b.ListOfPrefixes && (len(l.Entries) > 0 || l.OwnerID == cloud.CloudOwned)
	}) {
		b.Errorf("the prefix list %s that a rule refers to is not in the snapshot", b.ListOfPrefixes)
	}
	b.apply(cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: all})
	b.wantRules(id)
}

func setInterfaceGroups(b *bench) {
	n := b.anyNIC()
	id := b.create("web")
	set := func(ids ...string) {
		b.Helper()
		b.apply(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: ids})
		slices.Sort(ids)
		if have := b.nic(n.ID).GroupIDs; !slices.Equal(have, ids) {
			b.Errorf("the interface holds %v; want %v", have, ids)
		}
	}
	set(id)
	set(id)
	set(append([]string{id}, n.GroupIDs...)...)
	set(n.GroupIDs...)
	b.apply(cloud.Op{Kind: cloud.OpDeleteGroup, Target: id})
	b.refused(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: []string{id}}, cloud.NotFound)
	if have := b.nic(n.ID).GroupIDs; !slices.Equal(have, n.GroupIDs) {
		b.Errorf("a refused op left %v; want %v", have, n.GroupIDs)
	}
}

func tags(b *bench) {
	n := b.anyNIC()
	for _, target := range []string{n.ID, b.Network, b.create("web")} {
		tag := func(kind cloud.OpKind, t map[string]string) {
			b.Helper()
			b.apply(cloud.Op{Kind: kind, Target: target, Tags: t})
		}
		before := len(b.tagsOf(target))
		tag(cloud.OpTag, map[string]string{"nephele.io/a": "1", "nephele.io/b": ""})
		tag(cloud.OpTag, map[string]string{"nephele.io/a": "2 3"})
		tag(cloud.OpTag, nil)
		if have := b.tagsOf(target); have["nephele.io/a"] != "2 3" || len(have) != before+2 {
			b.Errorf("%s has the tags %v", target, have)
		}
		tag(cloud.OpUntag, nil)
		tag(cloud.OpUntag, map[string]string{"nephele.io/a": "whatever", "nephele.io/never": ""})
		tag(cloud.OpUntag, map[string]string{"nephele.io/a": ""})
		if have := b.tagsOf(target); len(have) != before+1 {
			b.Errorf("%s has the tags %v", target, have)
		}
	}
}

// manyTags tags several objects by one op. One that is not there does not keep the others from it.
func manyTags(b *bench) {
	first, second, third := b.create("first"), b.create("second"), b.create("third")
	op := cloud.Op{Kind: cloud.OpTag, Target: first, Others: []string{second, third}, Tags: map[string]string{"nephele.io/a": "1"}}
	want := func(value string, ids ...string) {
		b.Helper()
		for _, id := range ids {
			if have := b.tagsOf(id)["nephele.io/a"]; have != value {
				b.Errorf("%s: the tag is %q, want %q", id, have, value)
			}
		}
	}
	b.apply(op)
	b.apply(op)
	want("1", first, second, third)
	b.apply(cloud.Op{Kind: cloud.OpDeleteGroup, Target: second})
	op.Tags = map[string]string{"nephele.io/a": "2"}
	b.refused(op, cloud.NotFound)
	want("2", first, third)
	op.Kind = cloud.OpUntag
	b.apply(op)
	b.apply(op)
	want("", first, third)
}

func (b *bench) tagsOf(id string) map[string]string {
	b.Helper()
	s := b.observe()
	for _, n := range s.Interfaces {
		if n.ID == id {
			return n.Tags
		}
	}
	for _, n := range s.Networks {
		if n.ID == id {
			return n.Tags
		}
	}
	return b.mustGroup(id).Tags
}

func deleteGroup(b *bench) {
	n := b.anyNIC()
	id, user := b.create("web"), b.create("user")
	drop := cloud.Op{Kind: cloud.OpDeleteGroup, Target: id}
	b.apply(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: []string{id}})
	b.refused(drop, cloud.Conflict)
	b.apply(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: n.GroupIDs})
	reference := []cloud.Rule{{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 1), Peer: cloud.Peer{GroupID: id}}}
	b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: user, Rules: reference})
	b.refused(drop, cloud.Conflict)
	b.apply(cloud.Op{Kind: cloud.OpRemoveRules, Target: user, Rules: reference})
	b.apply(drop)
	if b.group(id) != nil {
		b.Error("the group is still there")
	}
	b.apply(drop)
}

func wrongOps(b *bench) {
	n := b.anyNIC()
	id := b.create("web")
	for _, op := range []cloud.Op{
		{Kind: "Paint", Target: id},
		{Kind: cloud.OpAddRules, Group: cloud.GroupSpec{NetworkID: b.Network, Name: "unborn"}, Rules: []cloud.Rule{ports(1, 1)}},
		{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{ports(2, 1)}},
		{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 1)}}},
		{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{
			{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 1), Peer: cloud.Peer{GroupName: "unborn"}}}},
		{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{{Match: cloud.NewMatch(cloud.TCP, 1, 1),
			Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")}}}},
		{Kind: cloud.OpSetInterfaceGroups, Target: n.ID},
		{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: n.GroupIDs, GroupNames: []string{"unborn"}},
		{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: b.Network}},
	} {
		b.refused(op, cloud.Terminal)
	}
	b.wantRules(id)
}
