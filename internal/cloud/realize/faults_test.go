package realize

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// brittle is AWS with a mistake: it panics on rules about a port.
type brittle struct {
	lower.AWS
	port int
}

// Lower implements plan.Lowerer.
func (b brittle) Lower(t flow.Traffic) []cloud.Rule {
	out := b.AWS.Lower(t)
	for _, r := range out {
		if r.Match.Protocol == cloud.TCP && r.Match.From == b.port && r.Match.To == b.port {
			panic("a rule about an odd port")
		}
	}
	return out
}

// panicking panics at the next call of each kind that is armed.
type panicking struct {
	cloud.Provider
	cloud.Refresher
	apply, observe, limits, refresh atomic.Int32
}

func armed(n *atomic.Int32) {
	if n.Add(-1) >= 0 {
		panic("the adapter fails")
	}
}

func (p *panicking) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	armed(&p.apply)
	return p.Provider.Apply(ctx, s, op)
}

func (p *panicking) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	armed(&p.observe)
	return p.Provider.Observe(ctx, s)
}

func (p *panicking) Limits(ctx context.Context, s cloud.Scope) (cloud.Limits, error) {
	armed(&p.limits)
	return p.Provider.Limits(ctx, s)
}

func (p *panicking) Refresh(ctx context.Context, s *cloud.Snapshot, ids []string) (*cloud.Snapshot, error) {
	armed(&p.refresh)
	return p.Refresher.Refresh(ctx, s, ids)
}

// panickingSink panics at the first reports.
type panickingSink struct {
	Sink
	left atomic.Int32
}

func (s *panickingSink) Publish(ctx context.Context, r status.Report) {
	s.Sink.Publish(ctx, r)
	armed(&s.left)
}

// TestPolicyThatThePlannerCannotCopeWith: it is refused, with words that say why; the others are
// enforced, later ones too; and when it goes nothing is left of it, without a restart.
func TestPolicyThatThePlannerCannotCopeWith(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.options.Lowerer, l.options.Metrics = brittle{port: 6666}, NewMetrics()
	l.publish()
	l.start()
	odd := clusterPolicy("odd", 1, 5)
	odd.AppliedTo = applied("web")
	odd.Ingress = webIn().Ingress
	odd.Ingress[0].Ports = ports(6666)
	l.engine.PutPolicy(odd)
	l.engine.PutPolicy(webIn())
	l.publish()
	l.settle()
	r, _ := l.realizer.Report(labAccount)
	i := slices.IndexFunc(r.Result.Policies, func(p plan.PolicyStatus) bool { return p.Name == "odd" })
	if p := r.Result.Policies[i]; len(p.Failed) != 3 && len(p.Failed) == 0 || !strings.Contains(p.Failed[0].Message, "a fault of Nephele, please report it; what was enforced stays as it is: a rule about an odd port") {
		t.Errorf("%+v", p)
	}
	if i := slices.IndexFunc(r.Result.Policies, func(p plan.PolicyStatus) bool { return p.Name == "web-in" }); len(r.Result.Policies[i].Realized) == 0 {
		t.Errorf("the other policy is not realized: %+v", r.Result.Policies[i])
	}
	if n := testutil.ToFloat64(l.options.Metrics.faults.WithLabelValues(labAccount, "plan")); n != 1 {
		t.Errorf("counted %v times, want once for all rounds", n)
	}
	l.engine.DeletePolicy(odd.UID)
	l.publish()
	l.settle()
	if r, _ := l.realizer.Report(labAccount); len(r.Result.Refusals) > 0 || r.Err != nil {
		t.Errorf("%+v, %v", r.Result.Refusals, r.Err)
	}
}

// TestPanicsOfOthers: whatever panics once below a round, the account comes to be as wanted.
func TestPanicsOfOthers(t *testing.T) {
	t.Parallel()
	for name, arm := range map[string]func(*panicking, *panickingSink){
		"apply": func(p *panicking, _ *panickingSink) { p.apply.Store(1) }, "apply, often": func(p *panicking, _ *panickingSink) { p.apply.Store(3) },
		"observe": func(p *panicking, _ *panickingSink) { p.observe.Store(1) }, "limits": func(p *panicking, _ *panickingSink) { p.limits.Store(2) },
		"refresh": func(p *panicking, _ *panickingSink) { p.refresh.Store(1) }, "status": func(_ *panicking, s *panickingSink) { s.left.Store(3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			whole := l.accounts.account.Provider
			p := &panicking{Provider: whole, Refresher: whole.(cloud.Refresher)}
			s := &panickingSink{Sink: l.sink}
			l.accounts.account.Provider, l.options.Sink = p, s
			l.publish()
			l.start()
			arm(p, s)
			l.engine.PutPolicy(webIn())
			l.publish()
			l.settle()
			if r, _ := l.realizer.Report(labAccount); r.Err != nil || len(r.Result.Refusals) > 0 || len(r.Result.Policies) != 1 || len(r.Result.Policies[0].Realized) == 0 {
				t.Errorf("%v, %+v", r.Err, r.Result)
			}
		})
	}
}
