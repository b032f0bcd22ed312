package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// TestBrakeHolds: more than the share, and at least so many.
func TestBrakeHolds(t *testing.T) {
	for _, c := range []struct {
		percent, interfaces, n, of int
		want                       bool
	}{
		{50, 20, 20, 39, true}, {50, 20, 20, 40, false}, {50, 20, 19, 19, false}, {50, 20, 21, 40, true},
		{100, 0, 1000, 1000, false}, {0, 0, 1, 1000, true}, {0, 0, 0, 1000, false}, {0, 0, 0, 0, false}, {0, 20, 20, 1000, true}, {99, 1, 1, 1, true},
	} {
		if got := (plan.Brake{Percent: c.percent, Interfaces: c.interfaces}).Holds(c.n, c.of); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func refs(from, to int) (out []plan.InterfaceRef) {
	for i := from; i < to; i++ {
		out = append(out, plan.InterfaceRef{VM: plan.VMRef{Region: "eu-west-1", ID: fmt.Sprintf("i-%03d", i)}, ID: fmt.Sprintf("eni-%03d", i), Name: fmt.Sprintf("web-%03d", i)})
	}
	return out
}

// TestWeigh: what is given back is weighed against what is under control, and what is taken against
// all that there is. Each waits for itself, and with what is taken waits what is refused.
func TestWeigh(t *testing.T) {
	half := &plan.Brake{Percent: 50, Interfaces: 20}
	for name, c := range map[string]struct {
		brake             *plan.Brake
		p                 *plan.Protection
		released, guarded int
		vms               int
	}{
		"off":              {nil, &plan.Protection{All: refs(0, 100), Then: refs(0, 100)}, 0, 0, 0},
		"unknown":          {half, nil, 0, 0, 0},
		"nothing":          {half, &plan.Protection{All: refs(0, 100), Now: refs(0, 80), Then: refs(0, 80)}, 0, 0, 0},
		"first import":     {half, &plan.Protection{All: refs(0, 100), Then: refs(0, 60), Refused: refs(60, 70)}, 0, 60, 70},
		"half":             {half, &plan.Protection{All: refs(0, 100), Then: refs(0, 50)}, 0, 0, 0},
		"all of a few":     {half, &plan.Protection{All: refs(0, 100), Now: refs(0, 30)}, 30, 0, 30},
		"too few":          {half, &plan.Protection{All: refs(0, 100), Now: refs(0, 19)}, 0, 0, 0},
		"released and few": {half, &plan.Protection{All: refs(0, 100), Now: refs(0, 30), Then: refs(28, 40)}, 28, 0, 28},
		"both":             {half, &plan.Protection{All: refs(0, 100), Now: refs(0, 30), Then: refs(30, 100)}, 30, 70, 100},
	} {
		w := c.p.Weigh(c.brake, "vms/shop")
		if w == nil {
			w = &plan.Waiting{}
		}
		if len(w.Released) != c.released || len(w.Guarded) != c.guarded || len(w.VMs()) != c.vms {
			t.Errorf("%s: %d released, %d guarded, %d VMs", name, len(w.Released), len(w.Guarded), len(w.VMs()))
		}
	}
}

// TestWaitingSaysHow: the message has the numbers, some names, the command, and is friendly to
// somebody who begins. An event holds the command.
func TestWaitingSaysHow(t *testing.T) {
	first := (&plan.Protection{All: refs(0, 120), Then: refs(0, 100)}).Weigh(&plan.Brake{Percent: 50, Interfaces: 20}, "vms/shop")
	later := (&plan.Protection{All: refs(0, 120), Now: refs(0, 30), Then: refs(30, 120)}).Weigh(&plan.Brake{Percent: 50, Interfaces: 20}, "vms/shop")
	for _, c := range []struct {
		*plan.Waiting
		want []string
	}{
		{first, []string{"100 of the 120 interfaces of VMs would newly come under control", "Nothing is wrong", "It is about web-000 in eu-west-1, web-001 in eu-west-1", "and 97 more (nephele plan --all names all)"}},
		{later, []string{"30 of the 30 interfaces under control would be given back", "90 of the 120", "and 27 more", "and 87 more"}},
	} {
		text := render.WaitingFor(c.Waiting)
		for _, want := range append(c.want, "50 %", "20 interfaces", "kubectl annotate cloudprovideraccount shop -n vms nephele.io/confirm="+c.Hash+" --overwrite") {
			if i := strings.Index(text, want); i < 0 || strings.HasPrefix(want, "kubectl") && i+len(want) > 1000 {
				t.Errorf("%q is missing, or late, in %q", want, text)
			}
		}
	}
	if strings.Contains(render.WaitingFor(later), "Nothing is wrong") || first.Hash == later.Hash {
		t.Errorf("%s\n%s", render.WaitingFor(first), render.WaitingFor(later))
	}
}
