package plan_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestNamedPortAmongTheNumbers: a rule that names a port by its number and by its name applies like
// one that says it once; a name that the VM does not have is still told.
func TestNamedPortAmongTheNumbers(t *testing.T) {
	refused := func(has string) []plan.Refusal {
		e := small()
		in := e.input(e.History[0], e.cloud())
		tcp := v1beta2.ProtocolTCP
		number, name := intstr.FromInt32(80), intstr.FromString("http")
		p := in.Policies[0].DeepCopy()
		for i := range p.Rules {
			p.Rules[i].Services = []v1beta2.Service{{Protocol: &tcp, Port: &number}, {Protocol: &tcp, Port: &name}}
		}
		in.Policies = slices.Clone(in.Policies)
		in.Policies[0] = p
		for i, g := range in.AppliedToGroups {
			g = g.DeepCopy()
			for k := range g.GroupMembers {
				g.GroupMembers[k].Ports = []v1beta2.NamedPort{{Name: has, Port: 80, Protocol: tcp}}
			}
			in.AppliedToGroups[i] = g
		}
		return plan.Compute(in, lower.AWS{}).Refusals
	}
	if got := refused("http"); len(got) > 0 {
		t.Errorf("refused: %+v", got)
	}
	if got := refused("metrics"); len(got) == 0 {
		t.Error("a port that the VM does not have is not told")
	}
}
