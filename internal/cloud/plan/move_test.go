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

// TestPutBackByHand: somebody puts a VM under control back into its own group, which admits less by
// now, and then no policy applies any more. The VM can leave our group only after two others, which
// it admits by that group, and one of these may not send more before the VM admits less. So the
// rules of our group are narrowed first.
func TestPutBackByHand(t *testing.T) {
	rule := func(d cloud.Direction, protocol, from, to int, peer cloud.Peer) cloud.Rule {
		return cloud.Rule{Direction: d, Match: cloud.NewMatch(protocol, from, to), Peer: peer}
	}
	out := rule(cloud.Egress, cloud.AnyProtocol, -1, -1, cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")})
	admits := func(from, to int) cloud.Rule {
		return rule(cloud.Ingress, cloud.TCP, from, to, cloud.Peer{GroupID: groupID(0)})
	}
	e := &estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}}, Groups: []groupSpec{{Default: true, Rules: []cloud.Rule{out}}},
		Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50},
	}
	const stranger, first, second, put = 0, 1, 2, 3
	for i := range 4 {
		e.NICs = append(e.NICs, nicSpec{VM: i, IPs: []string{fmt.Sprintf("10.0.0.%d", 5+i)}, Groups: []int{0}})
		e.VMs = append(e.VMs, vmSpec{Selected: i != stranger})
	}
	sends := func(applied int, services ...serviceSpec) policySpec {
		return policySpec{K8s: true, Applied: []int{applied}, Rules: []ruleSpec{{
			Out: true, Action: "Allow", Blocks: []blockSpec{{CIDR: "10.0.0.0/24"}}, Services: services,
		}}}
	}
	port := func(port int32) serviceSpec { return serviceSpec{Protocol: "TCP", From: port, To: port, Type: -1} }
	f := e.cloud()
	before := f.clone()
	apply := func(policies ...policySpec) *plan.Result {
		e.History = []policySet{{Applied: [][]int{{first, second, put}, {first}, {put}}, Policies: policies}}
		return settle(t, e, f, nil)
	}
	edit := func(rules ...cloud.Rule) {
		if err := e.editNative(f, 0, rules); err != nil {
			t.Fatal(err)
		}
	}
	apply(sends(0))
	edit(out, admits(0, 65535))
	apply(sends(1, port(443)), sends(2, port(444)))
	edit(out, admits(22, 22), admits(80, 443))
	n := f.nic(nicID(put))
	n.GroupIDs = append(n.GroupIDs, groupID(0))
	if res := apply(); len(res.Refusals) > 0 || !reflect.DeepEqual(leftOver(f), leftOver(before)) {
		t.Errorf("%v\n%s", res.Refusals, diffLeftOver(f, before))
	}
}
