package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// listKind is the owner of a prefix list, and how much a reference to it counts.
type listKind struct {
	Cloud  bool
	Weight int
}

// listed are blocks that prefix lists hold: of the networks, of Pods, and of nobody here.
var listed = [2][]string{
	{"10.0.0.0/28", "10.0.0.6/32", "10.1.0.8/29", "203.0.113.0/24", "198.51.100.9/32", "52.218.0.0/17"},
	{"2001:db8::/64", "2001:db8:ffff::7/128", "2600:9000::/28"},
}

// enlist has native rules of the estate name prefix lists of its account and of the cloud, and
// policies take something out of them.
func (e *estate) enlist(r *rand.Rand) {
	if e.Limits.RulesPerGroup < 60 {
		e.Limits.RulesPerGroup = 30
	}
	e.Lists, e.ListKinds = nil, nil
	for range 1 + r.IntN(3) {
		kind := listKind{Weight: pick(r, []int{3, 6, 10})}
		if r.IntN(2) == 0 {
			kind = listKind{Cloud: true, Weight: pick(r, []int{1, 2})}
		}
		e.Lists, e.ListKinds = append(e.Lists, randomBlocks(r, listed[r.IntN(4)/3])), append(e.ListKinds, kind)
	}
	for i := range e.Groups {
		g := &e.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(rule cloud.Rule) bool { return rule.Peer.PrefixListID != "" })
		for range r.IntN(3) {
			rule := cloud.Rule{Direction: pick(r, []cloud.Direction{cloud.Ingress, cloud.Egress}), Match: randomMatch(r)}
			rule.Peer.PrefixListID = fmt.Sprintf("#%d", r.IntN(len(e.Lists)))
			if !slices.ContainsFunc(g.Rules, rule.Same) {
				g.Rules = append(g.Rules, rule)
			}
		}
	}
	for i := range e.History {
		for k := range e.History[i].Policies {
			e.takeFromLists(r, &e.History[i].Policies[k])
		}
	}
}

// takeFromLists makes rules of a policy take blocks of lists out of what other rules allow.
func (e *estate) takeFromLists(r *rand.Rand, p *policySpec) {
	for i := range p.Rules {
		if rule := &p.Rules[i]; !p.K8s && r.IntN(2) == 0 {
			rule.Action = pick(r, []v1beta2.RuleAction{v1beta2.RuleActionDrop, v1beta2.RuleActionDrop, rule.Action})
			rule.Blocks = append(rule.Blocks, blockSpec{CIDR: pick(r, slices.Concat(listed[:]...))})
		}
	}
}

// randomBlocks are one to three of the blocks.
func randomBlocks(r *rand.Rand, of []string) []string {
	out := []string{pick(r, of), pick(r, of), pick(r, of)}[:1+r.IntN(3)]
	slices.Sort(out)
	return slices.Compact(out)
}

// listOf is a prefix list of the estate as the cloud shows it.
func (e *estate) listOf(i int, owner string) cloud.PrefixList {
	out := cloud.PrefixList{ID: listID(i), Name: listID(i), OwnerID: owner, MaxEntries: 4}
	if i < len(e.ListKinds) {
		out.MaxEntries = e.ListKinds[i].Weight
		if e.ListKinds[i].Cloud {
			out.OwnerID = cloud.CloudOwned
		}
	}
	for _, entry := range e.Lists[i] {
		out.Entries = append(out.Entries, netip.MustParsePrefix(entry))
	}
	return out
}

// editLists has the owners of some lists change what is in them.
func (e *estate) editLists(f *fakeCloud, r *rand.Rand) error {
	lists := slices.Clone(e.Lists)
	e.Lists = lists
	for i, kind := range e.ListKinds {
		if r.IntN(2) == 0 || kind.Cloud && f.mirror != nil {
			continue // the simulator lets nobody change a list of the cloud
		}
		family := 0
		if netip.MustParsePrefix(lists[i][0]).Addr().Is6() {
			family = 1
		}
		before := lists[i]
		lists[i] = randomBlocks(r, listed[family])
		f.snap.PrefixLists = slices.Clone(f.snap.PrefixLists)
		f.snap.PrefixLists[i] = e.listOf(i, f.snap.OwnerID)
		if f.mirror != nil {
			if err := f.mirror.editList(listID(i), before, lists[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mirror) editList(id string, before, after []string) error {
	found, err := m.region.Lists().PrefixLists(id)
	if err != nil {
		return err
	}
	version := found[0].Version()
	in := aws.ModifyPrefixListInput{PrefixListID: id, CurrentVersion: &version}
	for _, s := range before {
		if !slices.Contains(after, s) {
			in.Remove = append(in.Remove, s)
		}
	}
	for _, s := range after {
		if !slices.Contains(before, s) {
			in.Add = append(in.Add, aws.EntrySpec{CIDR: s})
		}
	}
	if len(in.Add)+len(in.Remove) == 0 {
		return nil
	}
	_, err = m.region.Lists().ModifyPrefixList(in)
	return err
}

// listBounds are the blocks that lists hold or may come to hold.
func (e *estate) listBounds() []string {
	if len(e.ListKinds) == 0 {
		return nil
	}
	return slices.Concat(listed[:]...)
}

// TestListWorlds is TestWorlds with native rules that name prefix lists, of the account and of the
// cloud, from which policies take something out, and which their owners change.
func TestListWorlds(t *testing.T) {
	t.Parallel()
	next := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	st := checkWorlds(t, worldsOneIn(3), func(e *estate) {
		e.enlist(rand.New(rand.NewPCG(next, 41)))
		next++
	})
	if st.Phases > 50 && (st.Listed == 0 || st.Spelled == 0) {
		t.Errorf("%+v", st)
	}
}

// lists counts the guarded interfaces of which a group of ours names a list that a group of their
// own names, and the guarded interfaces of which no group of ours does.
func (p *phase) lists(f *fakeCloud) {
	for i, n := range p.NICs {
		nic := f.nic(nicID(i))
		if nic.Tags[cloud.TagFormer] == "" {
			continue
		}
		var own, ours []string
		for _, g := range n.Groups {
			for _, r := range f.group(groupID(g)).Rules {
				own = append(own, r.Peer.PrefixListID)
			}
		}
		for _, g := range nic.GroupIDs {
			for _, r := range f.group(g).Rules {
				ours = append(ours, r.Peer.PrefixListID)
			}
		}
		for _, id := range own {
			switch {
			case id == "":
			case slices.Contains(ours, id):
				p.st.Listed++
			default:
				p.st.Spelled++
			}
		}
	}
}

// listEstate is a VM whose own group admits a list of the cloud, with two blocks, and lets it reach
// everybody.
func listEstate(weight int) *estate {
	e := small()
	e.Lists, e.ListKinds = [][]string{{"52.218.0.0/17", "203.0.113.0/24"}}, []listKind{{Cloud: true, Weight: weight}}
	e.Groups[1].Rules = append(e.Groups[1].Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 443, 443), Peer: cloud.Peer{PrefixListID: "#0"}})
	return e
}

func ourRules(f *fakeCloud, nic int) (out []string) {
	for _, r := range f.prober().rules[nicID(nic)] {
		if r.Direction == cloud.Ingress {
			out = append(out, r.Match.String()+" "+r.Peer.String())
		}
	}
	slices.Sort(out)
	return out
}

// A list of the cloud is named as it is where nothing is taken out of it, and by its entries where
// something is.
func TestListsOfTheCloud(t *testing.T) {
	for _, c := range []struct {
		drop string
		want []string
	}{
		{"198.51.100.0/24", []string{"tcp 443 pl-00000000"}},
		{"203.0.113.128/25", []string{"tcp 443 203.0.113.0/25", "tcp 443 52.218.0.0/17"}},
		{"203.0.113.0/24", []string{"tcp 443 52.218.0.0/17"}},
	} {
		e := listEstate(1)
		e.History[0].Policies[0].Rules[0] = ruleSpec{Action: v1beta2.RuleActionDrop, Blocks: []blockSpec{{CIDR: c.drop}}}
		f := e.cloud()
		if res := settle(t, e, f, nil); len(res.Refusals)+len(res.Notes) > 0 {
			t.Errorf("drop %s: %v %v", c.drop, res.Refusals, res.Notes)
		}
		if got := ourRules(f, 0); !slices.Contains(c.want, got[len(got)-1]) || !slices.Equal(slices.DeleteFunc(got, isSSH), c.want) {
			t.Errorf("drop %s: %q", c.drop, got)
		}
	}
}

func isSSH(rule string) bool { return rule[:6] == "tcp 22" }

// A list that counts for more rules than there is room for is named by its entries, and one that
// nobody can read only as it is.
func TestListsThatDoNotFitAsTheyAre(t *testing.T) {
	e := listEstate(70)
	e.History[0].Policies[0].Rules[0] = ruleSpec{Action: v1beta2.RuleActionDrop, Blocks: []blockSpec{{CIDR: "198.51.100.0/24"}}}
	f := e.cloud()
	if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
		t.Errorf("%v", res.Refusals)
	}
	if got, want := slices.DeleteFunc(ourRules(f, 0), isSSH), []string{"tcp 443 203.0.113.0/24", "tcp 443 52.218.0.0/17"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	e = listEstate(1)
	e.History[0].Policies[0].Rules[0] = ruleSpec{Out: true, Action: v1beta2.RuleActionDrop, Blocks: []blockSpec{{CIDR: "198.51.100.0/24"}}}
	f = e.cloud()
	f.snap.PrefixLists[0].Entries = nil
	settle(t, e, f, nil)
	if got := ourRules(f, 0); !slices.Contains(got, "tcp 443 pl-00000000") {
		t.Errorf("%q", got)
	}
}

// What the owner of a list changes takes effect without an edit where the list is named as it is,
// and by one edit where it is not.
func TestListsChange(t *testing.T) {
	for drop, edits := range map[string]bool{"198.51.100.0/24": false, "203.0.113.128/25": true} {
		e := listEstate(1)
		e.ListKinds[0] = listKind{Weight: 5}
		e.History[0].Policies[0].Rules[0] = ruleSpec{Action: v1beta2.RuleActionDrop, Blocks: []blockSpec{{CIDR: drop}}}
		f := e.cloud()
		settle(t, e, f, nil)
		e.Lists[0] = append(e.Lists[0], "192.0.2.0/24")
		f.snap.PrefixLists = []cloud.PrefixList{e.listOf(0, f.snap.OwnerID)}
		res := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer())
		if res.Plan.Empty() == edits {
			t.Errorf("drop %s: %v", drop, res.Plan.Steps)
		}
		settle(t, e, f, nil)
		if !admits(f, 0, "192.0.2.1", "", 443) {
			t.Errorf("drop %s: what was added to the list is not admitted", drop)
		}
		if admits(f, 0, "203.0.113.200", "", 443) == edits {
			t.Errorf("drop %s: %q", drop, ourRules(f, 0))
		}
	}
}
