package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// full is one VM with a policy of so many rules as its group can hold.
func full(rules int) *estate {
	e := small()
	e.Limits.RulesPerGroup = rules
	p := &e.History[0].Policies[0]
	p.Rules = nil
	for i := range rules {
		p.Rules = append(p.Rules, ruleSpec{
			Action: "Allow", Blocks: []blockSpec{{CIDR: fmt.Sprintf("198.51.100.%d/32", 2*i)}},
			Services: []serviceSpec{{Protocol: "TCP", From: int32(1000 + 10*i), To: int32(1000 + 10*i), Type: -1}},
		})
	}
	return e
}

// In a group that is full, rules are edited in place: no interface moves, no group comes.
func TestFullGroupIsEditedInPlace(t *testing.T) {
	const rules = 60
	for name, edit := range map[string]struct {
		change         func(r *ruleSpec)
		changed        int
		replaced, adds int
	}{
		"range grows":     {func(r *ruleSpec) { r.Services[0].To += 5 }, 1, 1, 0},
		"port":            {func(r *ruleSpec) { r.Services[0].From++; r.Services[0].To++ }, 1, 1, 0},
		"all ranges grow": {func(r *ruleSpec) { r.Services[0].To += 5 }, rules, rules, 0},
		"address grows":   {func(r *ruleSpec) { r.Blocks[0].CIDR = r.Blocks[0].CIDR[:len(r.Blocks[0].CIDR)-1] + "1" }, 1, 1, 0},
		"other address":   {func(r *ruleSpec) { r.Blocks[0].CIDR = "203.0.113.9/32" }, 1, 1, 0},
	} {
		e := full(rules)
		f := e.cloud()
		settle(t, e, f, nil)
		group := f.nic(nicID(0)).GroupIDs
		for i := range edit.changed {
			edit.change(&e.History[0].Policies[0].Rules[i])
		}
		res := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer())
		if s := res.Plan.Summary(); int(s.RulesReplaced) != edit.replaced || int(s.RulesAdded) != edit.adds || int(s.RulesRemoved) != edit.adds || s.Steps-s.Tagged != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		if res := settle(t, e, f, nil); len(res.Refusals) > 0 || !slices.Equal(f.nic(nicID(0)).GroupIDs, group) {
			t.Errorf("%s: %v instead of %v, %v", name, f.nic(nicID(0)).GroupIDs, group, res.Refusals)
		}
	}
}

// TestOutgrownGroupIsReplaced: where the group is full, and no rule can become another where it is,
// the VM goes to another group by one edit. So it is where sixty addresses with one range of ports
// become anybody with sixty ports of it, for each old rule says a part of what each new one says;
// and where rules change that have neither the peer nor the ports in common with what they become.
func TestOutgrownGroupIsReplaced(t *testing.T) {
	for name, edit := range map[string]func(i int, r *ruleSpec){
		"ports in place of addresses": func(i int, r *ruleSpec) {
			r.Blocks[0].CIDR = "0.0.0.0/0"
			r.Services[0].From, r.Services[0].To = int32(1000+2*i), int32(1000+2*i)
		},
		"both change": func(i int, r *ruleSpec) {
			r.Blocks[0].CIDR = fmt.Sprintf("198.51.100.%d/31", 2*i)
			r.Services[0].To = 2005
		},
	} {
		e := full(60)
		rules := e.History[0].Policies[0].Rules
		for i := range rules {
			rules[i].Services[0].From, rules[i].Services[0].To = 1000, 1999
		}
		f := e.cloud()
		settle(t, e, f, nil)
		group := f.nic(nicID(0)).GroupIDs
		for i := range rules {
			edit(i, &rules[i])
		}
		res := settle(t, e, f, nil)
		if is := f.nic(nicID(0)).GroupIDs; len(res.Refusals) > 0 || len(is) != 1 || slices.Equal(is, group) || f.group(group[0]) != nil {
			t.Errorf("%s: %v, was %v; %+v", name, is, group, res.Refusals)
		}
	}
}

// Where an edit takes one rule apart, one part takes its place and the other comes before; the
// other way round one goes after.
func TestRulesAreTakenApartInPlace(t *testing.T) {
	const rules = 12
	e := full(rules - 1)
	e.Limits.RulesPerGroup = rules
	whole, apart := []serviceSpec{{Protocol: "TCP", From: 80, To: 443, Type: -1}}, []serviceSpec{
		{Protocol: "TCP", From: 80, To: 80, Type: -1}, {Protocol: "TCP", From: 443, To: 443, Type: -1}}
	rule := &e.History[0].Policies[0].Rules[0]
	rule.Services = whole
	f := e.cloud()
	settle(t, e, f, nil)
	for _, services := range [][]serviceSpec{apart, whole} {
		rule.Services = services
		res := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer())
		if s := res.Plan.Summary(); s.RulesReplaced != 1 || s.RulesAdded+s.RulesRemoved != 1 || s.Steps-s.Tagged != 2 {
			t.Errorf("%d parts: %+v", len(services), s)
		}
		settle(t, e, f, nil)
	}
}

// Of the rules of a group that are to go one has to go before a VM moves, by which it would be let
// in, and another one after, without which it would be cut off.
func TestRulesGoBeforeAndAfterAMove(t *testing.T) {
	e := small()
	allow := func(address int, port int32) ruleSpec {
		return ruleSpec{Action: "Allow", Address: []int{address}, Services: []serviceSpec{{Protocol: "TCP", From: port, To: port, Type: -1}}}
	}
	set := &e.History[0]
	set.Address, set.Applied[0] = [][]int{{1}, {0, 1}}, []int{2}
	set.Policies[0].Rules = []ruleSpec{allow(0, 80), allow(1, 443), allow(0, 8080)}
	f := e.cloud()
	settle(t, e, f, nil)
	set.Address[0], set.Policies[0].Rules = []int{0, 1}, set.Policies[0].Rules[1:]
	if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
		t.Errorf("%+v", res.Refusals)
	}
	for port, want := range map[int]bool{80: false, 443: true, 8080: true} {
		if got := admits(f, 2, "10.0.0.10", nicID(0), port); got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
}

// Rules are not replaced where that takes more calls than it saves.
func TestReplacingSavesCalls(t *testing.T) {
	e := full(20)
	e.Limits.RulesPerGroup = 60
	f := e.cloud()
	settle(t, e, f, nil)
	rules := e.History[0].Policies[0].Rules
	rules[0].Services[0].From, rules[0].Services[0].To = 9, 9
	rules[1].Blocks, rules[1].Services = []blockSpec{{CIDR: "2001:db8::/64"}}, []serviceSpec{{Protocol: "UDP", From: 9, To: 9, Type: -1}}
	res := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer())
	if s := res.Plan.Summary(); s.RulesReplaced != 0 || s.RulesAdded != 2 || s.RulesRemoved != 2 || s.Steps-s.Tagged != 2 {
		t.Errorf("%+v: %v", s, res.Plan.Steps)
	}
}

// edited adds small edits of its rules to a policy set.
func (e *estate) edited(r *rand.Rand, from policySet) policySet {
	out := from.clone()
	for i := range out.Policies {
		out.Policies[i].Rules = slices.Clone(out.Policies[i].Rules)
		for k := range out.Policies[i].Rules {
			if r.IntN(3) > 0 {
				out.Policies[i].Rules[k].edit(r)
			}
		}
	}
	return out
}

// edit changes ports and blocks of a rule, but not how many there are.
func (s *ruleSpec) edit(r *rand.Rand) {
	s.Services = slices.Clone(s.Services)
	for i := range s.Services {
		v := &s.Services[i]
		if v.Protocol != "TCP" && v.Protocol != "UDP" || r.IntN(2) == 0 {
			continue
		}
		switch r.IntN(3) {
		case 0:
			v.From += pick(r, []int32{1, 3, 100})
			v.To = max(v.To, v.From)
		case 1:
			v.From, v.To = max(v.From, 1), v.To+pick(r, []int32{1, 2, 400})
		default:
			v.From, v.To = v.From+7, v.To+7
		}
	}
	s.Blocks = slices.Clone(s.Blocks)
	for i := range s.Blocks {
		b := &s.Blocks[i]
		if p := netip.MustParsePrefix(b.CIDR); len(b.Except) == 0 && p.Bits() > 1 && r.IntN(2) == 0 {
			b.CIDR = netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked().String()
		}
	}
}

// crammed sets the quota to what the fullest group needs for a policy set, and not lower than what
// disturb may need. It reports whether the set can be realized with that.
func (e *estate) crammed(set policySet) bool {
	f := e.cloud()
	for range 8 {
		p := plan.Compute(e.input(set, f.clone()), e.lowerer()).Plan
		if p.Empty() {
			break
		}
		for _, s := range p.Steps {
			if f.apply(s.Network, s.Op) != nil {
				return false
			}
		}
	}
	for n := 12; n < e.Limits.RulesPerGroup; n++ {
		f.limits.RulesPerGroup = n
		if !slices.ContainsFunc(f.snap.Groups, func(g cloud.Group) bool { return f.quota(&g) != nil }) {
			e.Limits.RulesPerGroup = n
			return true
		}
	}
	return true
}

// TestEditedWorlds checks the random accounts of TestWorlds where the rules of policies are edited
// while groups are full.
func TestEditedWorlds(t *testing.T) {
	t.Parallel()
	worlds := worldsOneIn(4)
	st := checkWorlds(t, worlds, func(e *estate) {
		r := rand.New(rand.NewPCG(uint64(len(e.NICs)), uint64(len(fmt.Sprint(*e)))))
		first := e.History[0]
		e.crammed(first)
		e.History = []policySet{first, e.edited(r, first)}
		e.History = append(e.History, e.edited(r, e.History[1]))
	})
	if worlds >= 20 && st.Replaced == 0 || worlds >= 100 && st.Full == 0 {
		t.Errorf("%d rules were replaced, %d of them in full groups: these worlds show nothing", st.Replaced, st.Full)
	}
}

// swapped is an account of VMs of which the first half may send to the second. Then some of each
// half change places, the last of the first and the first of the second, while the priority of the
// policy changes.
func swapped(each, places int) (e *estate, before, after policySet) {
	out := cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}}
	e = &estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}}, Groups: []groupSpec{{Default: true, Rules: []cloud.Rule{out}}, {}},
		Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 500, TagsPerResource: 50},
	}
	var peers, applied, newPeers, newApplied []int
	for i := range 2 * each {
		e.NICs = append(e.NICs, nicSpec{VM: i, IPs: []string{fmt.Sprintf("10.0.0.%d", 5+i)}, Groups: []int{0}})
		e.VMs = append(e.VMs, vmSpec{Selected: true})
		first := i < each
		moves := first && i >= each-places || !first && i < each+places
		if first {
			peers = append(peers, i)
		} else {
			applied = append(applied, i)
		}
		if first != moves {
			newPeers = append(newPeers, i)
		} else {
			newApplied = append(newApplied, i)
		}
	}
	set := func(peers, applied []int, priority float64) policySet {
		return policySet{Address: [][]int{peers}, Applied: [][]int{applied}, Policies: []policySpec{
			{Tier: 250, Priority: priority, Applied: []int{0}, Rules: []ruleSpec{{Action: "Allow", Address: []int{0}}}},
		}}
	}
	return e, set(peers, applied, 2), set(newPeers, newApplied, 3)
}

// TestClassesKeepTheirGroups: where as many interfaces of a class hold either of two groups, it
// goes on with the one that was made for it, and nothing has to wait for a word.
func TestClassesKeepTheirGroups(t *testing.T) {
	e, before, after := swapped(2, 1)
	f := e.cloud()
	for _, set := range []policySet{before, after} {
		e.History = []policySet{set}
		if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
			t.Error(res.Refusals)
		}
	}
}

// TestClassesSwapGroups: of six VMs three are guarded and admit the others, and then two of each
// three change places. Each class goes on with the group of the other one, and no order of that is
// clean. It waits for a word, which the hash of another plan is not, and then nothing opens on the
// way.
func TestClassesSwapGroups(t *testing.T) {
	e, before, after := swapped(3, 2)
	f := e.cloud()
	e.History = []policySet{before}
	if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
		t.Error(res.Refusals)
	}
	e.History = []policySet{after}
	word, nics := wordOf(settle(t, e, f, nil))
	if word == "" || len(nics) == 0 {
		t.Fatal("nothing waits for a word")
	}
	wrong := settle(t, e, f, func(in *plan.Input) { in.Force = "0123456789abcdef" })
	i := slices.IndexFunc(wrong.Refusals, func(r plan.Refusal) bool { return r.Why.Is(reason.WaitsForWord) })
	if i < 0 || !strings.Contains(wrong.Refusals[i].Message, `"0123456789abcdef", which is of another plan`) || !strings.Contains(wrong.Refusals[i].Message, word) {
		t.Errorf("%+v", wrong.Refusals)
	}
	forced := func(in *plan.Input) { in.Force, in.ForcedBy = word, "kubectl-annotate" }
	in := e.input(e.History[0], f.clone())
	forced(&in)
	for _, s := range plan.Compute(in, e.lowerer()).Plan.Steps {
		if err := f.apply(s.Network, s.Op); err != nil {
			t.Fatal(err)
		}
		for nic := range 5 { // none admits the last, ever
			if admits(f, nic, "10.0.0.10", nicID(5), 80) {
				t.Errorf("%s opens what neither version allows", s.Op)
			}
		}
		if !strings.HasSuffix(s.Op.Reason, "forced by the annotation nephele.io/force="+word+", set by kubectl-annotate") {
			t.Errorf("the record does not name the policy: %q", s.Op.Reason)
		}
	}
	if res := settle(t, e, f, forced); len(res.Refusals) > 0 {
		t.Error(res.Refusals)
	}
	for nic, ok := range map[int]bool{0: true, 3: true, 4: true, 1: false, 2: false} {
		if got := admits(f, 5, fmt.Sprintf("10.0.0.%d", 5+nic), nicID(nic), 80); got != ok {
			t.Errorf("from %d: %v", nic, got)
		}
	}
}

// TestPeerWithoutRoomIsNarrowerLater: a database is to let in another VM, which must give something
// up before, and in between it would need more rules than fit. So it stays as it is for a while,
// and still admits a web server that it shall not admit any more. What that one may send to it
// becomes wider in the end. It waits, too: else the two would talk meanwhile, which neither set of
// policies allows.
func TestPeerWithoutRoomIsNarrowerLater(t *testing.T) {
	out := cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}}
	e := &estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}}, Groups: []groupSpec{{Default: true, Rules: []cloud.Rule{out}}},
		Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 500, TagsPerResource: 50},
	}
	for i := range 5 {
		e.NICs = append(e.NICs, nicSpec{VM: i, IPs: []string{fmt.Sprintf("10.0.0.%d", 5+i)}, Groups: []int{0}})
		e.VMs = append(e.VMs, vmSpec{Selected: true})
	}
	const database, moved, other, web1, web2 = 0, 1, 2, 3, 4
	tcp := func(from, to int32) serviceSpec {
		return serviceSpec{Protocol: v1beta2.ProtocolTCP, From: from, To: to}
	}
	var blocks []blockSpec
	for i := range 149 {
		blocks = append(blocks, blockSpec{CIDR: fmt.Sprintf("192.0.%d.%d/32", 2+i/100, 2*(i%100)+1)}) // no two in one block
	}
	policyOn := func(applied int, rules ...ruleSpec) policySpec {
		return policySpec{K8s: true, Applied: []int{applied}, Rules: rules}
	}
	allow := func(out bool, peers int, services ...serviceSpec) ruleSpec {
		return ruleSpec{Out: out, Action: v1beta2.RuleActionAllow, Address: []int{peers}, Services: services}
	}
	set := func(web, rest []int, listed []serviceSpec, more ...policySpec) policySet {
		return policySet{
			Address: [][]int{web, {database}, {other}}, Applied: [][]int{web, {database}, {other}, rest},
			Policies: append(more, policyOn(0, allow(true, 1, tcp(443, 443))),
				policyOn(1, allow(false, 0, tcp(5432, 5432)), ruleSpec{Action: v1beta2.RuleActionAllow, Blocks: blocks, Services: listed})),
		}
	}
	f := e.cloud()
	e.History = []policySet{set([]int{moved, web1, web2}, nil, []serviceSpec{tcp(100, 200), tcp(300, 400)}, policyOn(2, allow(true, 1, tcp(9999, 9999))))}
	if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
		t.Fatal(res.Refusals)
	}
	next := set([]int{web1, web2}, []int{moved}, []serviceSpec{tcp(150, 350), tcp(380, 500)}, policyOn(1, allow(false, 2, tcp(9999, 9999))),
		policyOn(2, allow(true, 1, tcp(8888, 8888))), policyOn(3, allow(true, 1, tcp(5432, 5432))))
	e.History = []policySet{next}
	for range 8 {
		res := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer())
		if res.Plan.Empty() {
			return
		}
		for _, s := range res.Plan.Steps {
			if err := f.apply(s.Network, s.Op); err != nil {
				t.Fatalf("%s: %v", s.Op, err)
			}
			sends := f.prober().half(nicID(moved), cloud.Egress, remote{netip.MustParseAddr("10.0.0.5"), nicID(database)}, packet{cloud.TCP, 5432})
			if sends && admits(f, database, "10.0.0.6", nicID(moved), 5432) {
				t.Fatalf("after %s the web server reaches the database", s.Op)
			}
		}
	}
	t.Error("no end")
}

// TestSpilledGroupsAreUsedAgain: the groups in which the rules of a class have spilled go on being
// used if the process dies before an interface holds them.
func TestSpilledGroupsAreUsedAgain(t *testing.T) {
	e := full(125)
	e.Limits.RulesPerGroup = 60
	f := e.cloud()
	created := 0
	for _, s := range plan.Compute(e.input(e.History[0], f.clone()), e.lowerer()).Plan.Steps {
		if s.Op.Kind == cloud.OpSetInterfaceGroups {
			break
		}
		if s.Op.Kind == cloud.OpCreateGroup {
			created++
		}
		if err := f.apply(s.Network, s.Op); err != nil {
			t.Fatal(err)
		}
	}
	if s := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer()).Plan.Summary(); created < 3 || s.GroupsCreated+s.GroupsDeleted+s.RulesAdded > 0 {
		t.Errorf("%d groups were created, and then %+v", created, s)
	}
}
