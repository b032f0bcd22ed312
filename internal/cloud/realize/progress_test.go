package realize

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
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

// TestGroupsWithTheReport: who writes that policies are realized brings the groups of interfaces in
// the same write, but never an older reading than the object shows; and says until when there is
// something to come.
func TestGroupsWithTheReport(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	vm := d.vm()
	vm.Status.Region, vm.Status.LastSeen = home, &at
	vm.Status.NetworkInterfaces = []cloudv1.AttachedInterface{{Name: "eni-1", SecurityGroupIds: []string{"sg-own"}}}
	if err := d.client.Status().Update(t.Context(), &vm); err != nil {
		t.Fatal(err)
	}
	seen := func(after time.Duration, group string) map[string]*cloud.Snapshot {
		return map[string]*cloud.Snapshot{home: {Scope: cloud.Scope{Account: labAccount, Region: home}, ObservedAt: at.Add(after),
			Interfaces: []cloud.Interface{{ID: "eni-0", GroupIDs: []string{"sg-other"}}, {ID: "eni-1", GroupIDs: []string{group}}}}}
	}
	for _, c := range []struct {
		name     string
		after    time.Duration
		group    string
		underway bool
		want     string
	}{
		{"an older reading", -time.Minute, "sg-former", true, "sg-own"},
		{"a younger one, and more to come", time.Minute, "sg-ours", true, "sg-ours"},
		{"the one before again", 30 * time.Second, "sg-own", false, "sg-ours"},
		{"the last one", 2 * time.Minute, "sg-last", false, "sg-last"},
	} {
		r := reportOf(nil, nil, onVM("a", 1, true, ""))
		r.Seen, r.Underway = seen(c.after, c.group), c.underway
		delete(r.Entities, plan.EntityRef{Namespace: labNamespace, Name: cloudv1.EntityNamePrefix + "gone"})
		d.write(r)
		if got := d.vm().Status.NetworkInterfaces[0].SecurityGroupIds; len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: the object shows %v, want %s", c.name, got, c.want)
		}
		if !eventually(func() bool { return d.writer.Owes(labAccount) == c.underway }) {
			t.Errorf("%s: something is owed: %v, want %v", c.name, !c.underway, c.underway)
		}
	}
}
