package plan_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Interfaces with the same former groups are tagged together when they are taken over, and untagged
// together when they are given back; each in an earlier stage than its edit, or a later one, but
// not much: no more than two batches of edits lie between.
func TestTagsAreWrittenTogether(t *testing.T) {
	const vms, batch = 1000, 50
	in, f := bigInput(vms, byRole)
	taken := plan.Compute(in, lower.AWS{}).Plan
	checkTags(t, taken.Steps, cloud.OpTag, vms, batch)
	settleBig(t, &in, f)
	in.Policies = nil
	given := plan.Compute(in, lower.AWS{}).Plan
	checkTags(t, given.Steps, cloud.OpUntag, vms, batch)
	settleBig(t, &in, &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits})
	for _, n := range in.Regions[0].Snapshot.Interfaces {
		if len(n.Tags) > 0 {
			t.Fatalf("%s keeps the tags %v", n.ID, n.Tags)
		}
	}
}

func checkTags(t *testing.T, steps []plan.Step, kind cloud.OpKind, vms, batch int) {
	t.Helper()
	type moment struct{ stage, edits int }
	tagged, edited := map[string]moment{}, map[string]moment{}
	calls, edits := 0, 0
	for _, s := range steps {
		at := moment{s.Stage, edits}
		switch {
		case s.Op.Kind == cloud.OpSetInterfaceGroups:
			edited[s.Op.Target] = at
			edits++
		case s.Op.Kind == kind && s.Op.Target != s.Network:
			calls++
			if n := len(s.Op.Subjects()); n > batch {
				t.Errorf("%d interfaces in one call", n)
			}
			for _, id := range s.Op.Subjects() {
				tagged[id] = at
			}
		}
	}
	if len(tagged) != vms || len(edited) != vms || calls > vms/batch {
		t.Errorf("%d tagged in %d calls, %d edited", len(tagged), calls, len(edited))
	}
	for id, e := range edited {
		first, then := tagged[id], e
		if kind == cloud.OpUntag {
			first, then = e, tagged[id]
		}
		if first.stage >= then.stage || then.edits-first.edits > 2*batch {
			t.Fatalf("%s: %+v before %+v", id, first, then)
		}
	}
}

// A wave tags those interfaces only that it edits.
func TestWaveTagsWhatItEdits(t *testing.T) {
	in, f := bigInput(200, byRole)
	for waves := 0; ; waves++ {
		p := plan.Compute(in, lower.AWS{}).Plan
		if p.Empty() {
			if waves > 25 {
				t.Errorf("%d waves of 10 for 200 VMs", waves)
			}
			return
		}
		wave, _ := p.Wave(10, func(_, nic string) string { return nic })
		f = f.clone()
		var tagged, edited []string
		for _, s := range wave.Steps {
			switch s.Op.Kind {
			case cloud.OpTag:
				if s.Op.Target != s.Network {
					tagged = append(tagged, s.Op.Subjects()...)
				}
			case cloud.OpSetInterfaceGroups:
				edited = append(edited, s.Op.Target)
			}
			if err := f.apply(s.Network, s.Op); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(tagged)
		slices.Sort(edited)
		if !slices.Equal(tagged, edited) || len(edited) > 10 {
			t.Fatalf("wave %d tags %v and edits %v", waves, tagged, edited)
		}
		in.Regions[0].Snapshot = f.snap
	}
}

// byHand is an account in which somebody does something to VMs that are under control. All VMs
// belong to the default group, and all but the first one are selected.
type byHand struct {
	*estate
	t      *testing.T
	cloud  *fakeCloud
	before *fakeCloud
}

func newByHand(t *testing.T, vms int, groups ...[]cloud.Rule) *byHand {
	e := &estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}},
		Limits:   cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50},
	}
	for i, rules := range groups {
		e.Groups = append(e.Groups, groupSpec{Default: i == 0, Rules: rules})
	}
	for i := range vms {
		e.NICs = append(e.NICs, nicSpec{VM: i, IPs: []string{fmt.Sprintf("10.0.0.%d", 5+i)}, Groups: []int{0}})
		e.VMs = append(e.VMs, vmSpec{Selected: i > 0})
	}
	f := e.cloud()
	return &byHand{e, t, f, f.clone()}
}

// edit gives a group other rules.
func (h *byHand) edit(group int, rules ...cloud.Rule) {
	h.t.Helper()
	if err := h.editNative(h.cloud, group, rules); err != nil {
		h.t.Fatal(err)
	}
}

// put puts a VM into one more group.
func (h *byHand) put(vm, group int) {
	n := h.cloud.nic(nicID(vm))
	n.GroupIDs = append(n.GroupIDs, groupID(group))
}

// givenBack checks that all is as it was before once no policy applies.
func (h *byHand) givenBack() {
	h.t.Helper()
	h.History = []policySet{{}}
	res := settle(h.t, h.estate, h.cloud, nil)
	if word, _ := wordOf(res); word != "" {
		res = settle(h.t, h.estate, h.cloud, func(in *plan.Input) { in.Force = word })
	}
	if len(res.Refusals) > 0 || !reflect.DeepEqual(leftOver(h.cloud), leftOver(h.before)) {
		h.t.Errorf("%v\n%s", res.Refusals, diffLeftOver(h.cloud, h.before))
	}
}

// nativeRule is a rule of a group of others.
func nativeRule(d cloud.Direction, m cloud.Match, peer cloud.Peer) cloud.Rule {
	return cloud.Rule{Direction: d, Match: m, Peer: peer}
}

// TestPutBackByHand: somebody puts a VM under control back into its own group, which admits less by
// now, and then no policy applies any more. The VM can leave our group only after two others, which
// it admits by that group, and one of these may not send more before the VM admits less. So the
// rules of our group are narrowed first.
func TestPutBackByHand(t *testing.T) {
	out := nativeRule(cloud.Egress, cloud.NewMatch(cloud.AnyProtocol, -1, -1), cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")})
	admits := func(from, to int) cloud.Rule {
		return nativeRule(cloud.Ingress, cloud.NewMatch(cloud.TCP, from, to), cloud.Peer{GroupID: groupID(0)})
	}
	const first, second, put = 1, 2, 3
	h := newByHand(t, 4, []cloud.Rule{out})
	sends := func(applied int, services ...serviceSpec) policySpec {
		return policySpec{K8s: true, Applied: []int{applied}, Rules: []ruleSpec{{
			Out: true, Action: "Allow", Blocks: []blockSpec{{CIDR: "10.0.0.0/24"}}, Services: services,
		}}}
	}
	port := func(port int32) serviceSpec { return serviceSpec{Protocol: "TCP", From: port, To: port, Type: -1} }
	apply := func(policies ...policySpec) {
		h.History = []policySet{{Applied: [][]int{{first, second, put}, {first}, {put}}, Policies: policies}}
		settle(t, h.estate, h.cloud, nil)
	}
	apply(sends(0))
	h.edit(0, out, admits(0, 65535))
	apply(sends(1, port(443)), sends(2, port(444)))
	h.edit(0, out, admits(22, 22), admits(80, 443))
	h.put(put, 0)
	h.givenBack()
}

// TestPutElsewhereByHand: somebody puts a VM under control into a group that admits another one by
// its address what the own groups of the VM admit of it by a group, and something else by that
// group. When no policy applies any more, the other one cannot join its own group before the VM has
// left that one, and until then nothing admits it. So a rule of ours does meanwhile.
func TestPutElsewhereByHand(t *testing.T) {
	all := cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}
	out := nativeRule(cloud.Egress, cloud.NewMatch(cloud.AnyProtocol, -1, -1), all)
	own := cloud.Peer{GroupID: groupID(0)}
	const other, put = 1, 2
	h := newByHand(t, 3, []cloud.Rule{out},
		[]cloud.Rule{nativeRule(cloud.Ingress, cloud.NewMatch(cloud.TCP, 0, 65535), cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.6/32")}),
			nativeRule(cloud.Ingress, cloud.NewMatch(47, -1, -1), own)})
	h.History = []policySet{{Applied: [][]int{{other, put}}, Policies: []policySpec{{K8s: true, Applied: []int{0}, Rules: []ruleSpec{{
		Action: "Allow", Services: []serviceSpec{{Protocol: "TCP", From: 22, To: 22, Type: -1}}, Blocks: []blockSpec{{CIDR: "192.0.2.0/24"}},
	}}}}}}
	settle(t, h.estate, h.cloud, nil)
	h.edit(0, out, nativeRule(cloud.Ingress, cloud.NewMatch(cloud.TCP, 80, 443), own))
	h.put(put, 1)
	h.givenBack()
}

// TestPutTogetherByHand: somebody puts two VMs under control into a group that their own group
// admits, and that lets them reach what their own group does. When no policy applies any more, none
// can go back before the other one has left that group, and nothing else lets them reach that until
// then. So a rule of ours does meanwhile, for a block that they belong to themselves, or for a list
// that nobody can read.
func TestPutTogetherByHand(t *testing.T) {
	for name, peer := range map[string]cloud.Peer{
		"block": {CIDR: netip.MustParsePrefix("0.0.0.0/0")},
		"list":  {PrefixListID: "#0"},
	} {
		t.Run(name, func(t *testing.T) {
			out := nativeRule(cloud.Egress, cloud.NewMatch(cloud.TCP, 443, 443), peer)
			const first, second = 1, 2
			h := newByHand(t, 3, nil, nil)
			h.Lists, h.ListKinds = [][]string{{"52.218.0.0/17"}}, []listKind{{Cloud: true, Weight: 1}}
			h.cloud.snap.PrefixLists = []cloud.PrefixList{h.listOf(0, h.cloud.snap.OwnerID)}
			h.cloud.snap.PrefixLists[0].Entries = nil
			h.edit(0, out)
			h.edit(1, out)
			h.History = []policySet{{Applied: [][]int{{first, second}}, Policies: []policySpec{{K8s: true, Applied: []int{0}, Rules: []ruleSpec{{
				Out: true, Action: "Allow", Services: []serviceSpec{{Protocol: "TCP", From: 22, To: 22, Type: -1}}, Blocks: []blockSpec{{CIDR: "192.0.2.0/24"}},
			}}}}}}
			settle(t, h.estate, h.cloud, nil)
			h.edit(0, out, nativeRule(cloud.Ingress, cloud.NewMatch(cloud.TCP, 80, 443), cloud.Peer{GroupID: "#1"}))
			h.put(first, 1)
			h.put(second, 1)
			h.givenBack()
		})
	}
}
