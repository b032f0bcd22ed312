package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestLabels: what is created has names that people understand, by the calls that create it. They
// are never read: whatever becomes of them, and whatever they said in former versions, costs no
// call.
func TestLabels(t *testing.T) {
	e := small()
	f := e.cloud()
	in := func(i *plan.Input) {
		i.Policies[0].Rules[0].Name = "from web <1>"
		i.Failsafe = []plan.FailsafeFlow{{Direction: cloud.Ingress, Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
	}
	computed := func() *plan.Result {
		input := e.input(e.History[0], f.clone())
		in(&input)
		return plan.Compute(input, e.lowerer())
	}
	for _, s := range computed().Plan.Steps {
		if s.Op.Kind == cloud.OpCreateGroup && s.Op.Group.Tags[cloud.TagName] != "nephele: vms/p0" {
			t.Errorf("a group is created with the tags %v", s.Op.Group.Tags)
		}
	}
	settle(t, e, f, in)
	held := f.group(f.nic(nicID(0)).GroupIDs[0])
	said := map[string]string{}
	for _, r := range held.Rules {
		said[r.Key().String()] = r.Description
	}
	account := e.input(e.History[0], f.clone()).Account
	for rule, want := range map[string]string{
		"ingress tcp 80 from " + f.nic(nicID(1)).GroupIDs[1]: "nephele: vms/p0 from web _1_",
		"ingress all from 192.0.2.0/24":                      "nephele: failsafe flows of the account " + account,
		"egress all to 0.0.0.0/0":                            "nephele: what its own groups allow",
	} {
		if said[rule] != want {
			t.Errorf("%q is described as %q, want %q: %v", rule, said[rule], want, said)
		}
	}
	// A description of ours stays, also one of a policy that is another now, or of a former
	// version; so does the tag, whatever it says.
	for i, text := range []string{"nephele: gone/long-ago x +3", "managed by Nephele", "nephele"} {
		for k := range held.Rules {
			held.Rules[k].Description = text
		}
		if i == 1 {
			delete(held.Tags, cloud.TagName)
		} else {
			held.Tags[cloud.TagName] = text
		}
		if res := computed(); !res.Plan.Empty() || len(res.Drift) > 0 {
			t.Errorf("%q: steps %v, drift %v", text, res.Plan.Steps, res.Drift)
		}
	}
}

// TestLabelsCostNothing: a policy that comes or goes and changes no rule of a class does not
// rewrite what its sixty rules say of themselves.
func TestLabelsCostNothing(t *testing.T) {
	e := small()
	p := &e.History[0].Policies[0]
	for i := range 50 {
		r := p.Rules[0]
		r.Services = []serviceSpec{{Protocol: "TCP", From: int32(1000 + 2*i), To: int32(1000 + 2*i), Type: -1}}
		p.Rules = append(p.Rules, r)
	}
	f := e.cloud()
	settle(t, e, f, nil)
	before := slices.Clone(f.group(f.nic(nicID(0)).GroupIDs[0]).Rules)
	// The same rules in a policy that goes first, and then only there.
	for _, policies := range [][]policySpec{{{Tier: 100, Priority: 1, Applied: []int{0}, Rules: p.Rules}, *p}, {{Tier: 100, Priority: 1, Applied: []int{0}, Rules: p.Rules}}} {
		e.History[0].Policies = policies
		for _, s := range plan.Compute(e.input(e.History[0], f.clone()), e.lowerer()).Plan.Steps {
			if s.Op.Kind != cloud.OpTag && s.Op.Kind != cloud.OpUntag || strings.Contains(strings.Join(keysOfTags(s.Op.Tags), " "), cloud.TagName+" ") {
				t.Errorf("%d policies: %s", len(policies), s.Op)
			}
		}
		settle(t, e, f, nil)
		if after := f.group(f.nic(nicID(0)).GroupIDs[0]).Rules; !slices.Equal(before, after) {
			t.Errorf("the rules are %v, were %v", after, before)
		}
	}
}

func keysOfTags(tags map[string]string) (out []string) {
	for k := range tags {
		out = append(out, k+" ")
	}
	return out
}
