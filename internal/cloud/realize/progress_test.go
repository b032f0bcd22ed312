package realize

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
)

// halfway does something between the first and the second edit of an interface.
type halfway struct {
	cloud.Provider
	edits, made atomic.Int32
	do          func()
}

func (h *halfway) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	if op.Kind != cloud.OpSetInterfaceGroups {
		return h.Provider.Apply(ctx, s, op)
	}
	if h.edits.Add(1) == 2 {
		h.do()
	}
	id, err := h.Provider.Apply(ctx, s, op)
	if err == nil {
		h.made.Add(1)
	}
	return id, err
}

// TestProgress: while a plan is carried out, VMs that are seen to be done are reported as that,
// with the groups that they hold, and no others.
func TestProgress(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	clk := l.options.Clock
	meanwhile := &halfway{Provider: l.accounts.account.Provider}
	l.accounts.account.Provider = meanwhile
	var early, whole atomic.Int32
	meanwhile.do = func() {
		if !eventually(func() bool { return meanwhile.made.Load() > 0 }) {
			t.Error("no interface is edited before another")
		}
		<-clk.After(time.Minute)
		l.accounts.observe(t.Context())
		if !eventually(func() bool {
			for _, r := range l.sink.list() {
				if !r.Underway || r.Result.Plan.Empty() {
					continue
				}
				realized := 0
				for _, vm := range r.Result.VMs {
					if isRealized(vm) {
						realized++
					}
				}
				early.Store(int32(realized))
				whole.Store(int32(len(r.Result.VMs)))
				if realized > 0 {
					for _, s := range r.Seen {
						held := 0
						for _, n := range s.Interfaces {
							if plan.Former(&n) != nil {
								held++
							}
						}
						if held == 0 {
							t.Error("the snapshot of the report shows no interface that is guarded")
						}
					}
					return true
				}
			}
			return false
		}) {
			t.Error("nothing is reported while the plan is carried out")
		}
	}
	plain := clusterPolicy("plain", 1, 2)
	plain.AppliedTo = applied("web", "db", "ops")
	plain.Ingress = append(plain.Ingress, policy.Rule{Action: policy.Allow, Peers: block("203.0.113.0/24"), Ports: ports(80)})
	l.engine.PutPolicy(plain)
	l.publish()
	l.start()
	l.settle()
	if n := meanwhile.edits.Load(); n < 2 {
		t.Fatalf("%d edits of interfaces, want several", n)
	}
	if early.Load() < 1 || early.Load() >= whole.Load() {
		t.Errorf("%d of %d VMs are reported as realized halfway", early.Load(), whole.Load())
	}
	last := l.sink.list()
	if r := last[len(last)-1]; r.Underway || !r.Result.Plan.Empty() {
		t.Errorf("the last report is underway (%v), its plan has %d steps", r.Underway, len(r.Result.Plan.Steps))
	}
}
