package report

import (
	"fmt"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
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
		if got := (Brake{Percent: c.percent, Interfaces: c.interfaces}).Holds(c.n, c.of); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func refs(from, to int) (out []InterfaceRef) {
	for i := from; i < to; i++ {
		out = append(out, InterfaceRef{VM: intent.VMRef{Region: "eu-west-1", ID: fmt.Sprintf("i-%03d", i)}, ID: fmt.Sprintf("eni-%03d", i), Name: fmt.Sprintf("web-%03d", i)})
	}
	return out
}

// TestWeigh: what is given back is weighed against what is under control, and what is taken against
// all that there is. Each waits for itself, and with what is taken waits what is refused.
func TestWeigh(t *testing.T) {
	half := &Brake{Percent: 50, Interfaces: 20}
	for name, c := range map[string]struct {
		brake             *Brake
		p                 *Protection
		released, guarded int
		vms               int
	}{
		"off":              {nil, &Protection{All: refs(0, 100), Then: refs(0, 100)}, 0, 0, 0},
		"unknown":          {half, nil, 0, 0, 0},
		"nothing":          {half, &Protection{All: refs(0, 100), Now: refs(0, 80), Then: refs(0, 80)}, 0, 0, 0},
		"first import":     {half, &Protection{All: refs(0, 100), Then: refs(0, 60), Refused: refs(60, 70)}, 0, 60, 70},
		"half":             {half, &Protection{All: refs(0, 100), Then: refs(0, 50)}, 0, 0, 0},
		"all of a few":     {half, &Protection{All: refs(0, 100), Now: refs(0, 30)}, 30, 0, 30},
		"too few":          {half, &Protection{All: refs(0, 100), Now: refs(0, 19)}, 0, 0, 0},
		"released and few": {half, &Protection{All: refs(0, 100), Now: refs(0, 30), Then: refs(28, 40)}, 28, 0, 28},
		"both":             {half, &Protection{All: refs(0, 100), Now: refs(0, 30), Then: refs(30, 100)}, 30, 70, 100},
	} {
		w := c.p.Weigh(c.brake, "vms/shop")
		if w == nil {
			w = &Waiting{}
		}
		if len(w.Released) != c.released || len(w.Guarded) != c.guarded || len(w.VMs()) != c.vms {
			t.Errorf("%s: %d released, %d guarded, %d VMs", name, len(w.Released), len(w.Guarded), len(w.VMs()))
		}
	}
}
