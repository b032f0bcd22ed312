package realize

import (
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// until waits for a condition.
func (l *lab) until(what string, condition func() bool) {
	l.Helper()
	if !eventually(condition) {
		r, _ := l.realizer.Report(labAccount)
		l.Fatalf("never: %s; report: waiting %q, error %v, result %+v", what, r.Waiting, r.Err, r.Result)
	}
}

// waitsFor waits until the worker waits for something.
func (l *lab) waitsFor(what string) {
	l.Helper()
	l.until("waiting for "+what, func() bool {
		r, _ := l.realizer.Report(labAccount)
		return strings.Contains(r.Waiting, what)
	})
}

// gated withholds the events of one kind while the gate is locked.
type gated struct {
	enforcer.Source
	resource enforcer.Resource
	gate     *sync.RWMutex
}

type gatedStream struct {
	enforcer.Stream
	gate *sync.RWMutex
}

func (g gated) Watch(ctx context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	s, err := g.Source.Watch(ctx, r, key)
	if err != nil || r != g.resource {
		return s, err
	}
	return &gatedStream{s, g.gate}, nil
}

func (s *gatedStream) Next(ctx context.Context) (watch.Event, error) {
	ev, err := s.Stream.Next(ctx)
	s.gate.RLock()
	defer s.gate.RUnlock()
	return ev, err
}

func TestNothingBeforeTheFirstBookmark(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	calls := l.count()
	l.engine.PutPolicy(webIn())
	l.start()
	l.waitsFor("waiting for the computed")
	l.accounts.observe(t.Context())
	if n := calls(); n > 0 {
		t.Errorf("%d calls before anything was computed", n)
	}
	l.publish()
	l.settle()
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Error(d)
	}
}

// TestNothingWhileGroupsAreMissing: a policy comes before the groups that it names, and later moves
// to others, which come late too.
func TestNothingWhileGroupsAreMissing(t *testing.T) {
	t.Parallel()
	moved := webIn()
	moved.Generation = 2
	moved.AppliedTo = applied("db")
	moved.Ingress[1].Peers = from("web")
	for resource, message := range map[enforcer.Resource]string{
		enforcer.AddressGroups: "names address group", enforcer.AppliedToGroups: "no applied-to group of policy",
	} {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			gate := &sync.RWMutex{}
			l.options.Follower.Source = gated{l.options.Follower.Source, resource, gate}
			l.publish()
			l.start()
			l.settle()
			for _, p := range []policy.Policy{webIn(), moved} {
				gate.Lock()
				calls := l.count()
				l.engine.PutPolicy(p)
				l.publish()
				l.waitsFor(message)
				made := calls()
				gate.Unlock()
				if made > 0 {
					t.Errorf("generation %d: %d calls without the groups", p.Generation, made)
				}
				l.settle()
				if d := compare(l.actual(), l.wanted()); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// everywhere applies to a VM of each region.
func everywhere() policy.Policy {
	p := webIn()
	p.AppliedTo = applied("web", "far")
	return p
}

func TestOneRegionIsDown(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{regions: []string{home, away}})
	before := l.holdings()
	l.publish()
	l.start()
	l.settle()
	id := l.fault(ec2.Fault{Region: away, Action: "DescribeInstances", Code: "Unavailable", Times: -1})
	l.engine.PutPolicy(everywhere())
	l.publish()
	l.until("the other region is enforced", func() bool {
		want := l.wanted()
		for p := range want {
			if p.from == "far-1" || p.to == "far-1" {
				delete(want, p)
			}
		}
		r, _ := l.realizer.Report(labAccount)
		return compare(l.actual(), want) == "" && r.Result.Plan.Empty() && len(r.Result.Policies) == 1
	})
	r, _ := l.realizer.Report(labAccount)
	if p := r.Result.Policies[0]; len(p.Realized) != 2 || len(p.Failed) != 1 || !strings.Contains(p.Failed[0].Message, away+" cannot be read") {
		t.Errorf("status %+v, want 2 realized and the unread VM failed", p)
	}
	l.server.Faults().Remove(id)
	l.settle()
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Errorf("with both regions: %s", d)
	}
	if r, _ := l.realizer.Report(labAccount); len(r.Result.Policies[0].Failed) != 0 || len(r.Result.Policies[0].Realized) != 3 {
		t.Errorf("status %+v, want 3 realized", r.Result.Policies[0])
	}

	// While a region is down the account is not given back.
	id = l.fault(ec2.Fault{Region: away, Action: "DescribeInstances", Code: "Unavailable", Times: -1})
	held := l.holdings()
	l.accounts.change(func(a *Account) { a.Releasing = true })
	l.until("the failure shows", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Err != nil && cloud.ClassOf(r.Err) == cloud.Unavailable
	})
	if d := gocmp.Diff(held, l.holdings()); d != "" || l.realizer.Released(labAccount) {
		t.Errorf("released %t with a region down (-before +after):\n%s", l.realizer.Released(labAccount), d)
	}
	l.server.Faults().Remove(id)
	l.until("released", func() bool { return l.realizer.Released(labAccount) })
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("something is left (-before +after):\n%s", d)
	}
}

// TestRegionsFailApart: a region in which nothing can be changed does not keep the others from
// being changed.
func TestRegionsFailApart(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{regions: []string{home, away}})
	l.publish()
	l.start()
	l.fault(ec2.Fault{Region: home, Action: "CreateSecurityGroup", Code: "SecurityGroupLimitExceeded", Times: -1})
	l.engine.PutPolicy(everywhere())
	l.publish()
	l.until("the other region is enforced, and the failure shows", func() bool {
		v := l.ask(probe{"203.0.113.7", "far-1", 443})
		r, _ := l.realizer.Report(labAccount)
		return v.Allowed && r.Err != nil && cloud.ClassOf(r.Err) == cloud.Quota && strings.HasPrefix(r.Err.Error(), home)
	})
}

func TestAccountIsGivenBack(t *testing.T) {
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	if l.realizer.Released(labAccount) {
		t.Error("released while in use")
	}
	l.fault(ec2.Fault{Action: "DeleteSecurityGroup", Code: "DependencyViolation", Times: 3})
	l.accounts.change(func(a *Account) { a.Releasing = true })
	l.until("released", func() bool { return l.realizer.Released(labAccount) })
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("released with something left (-before +after):\n%s", d)
	}
	l.accounts.remove()
	l.until("the worker ends", func() bool { return l.realizer.worker(labAccount) == nil })
	if l.realizer.Released(labAccount) {
		t.Error("the release outlives the account; another one of this name would be let go at once")
	}
	for _, r := range enforcer.Resources() {
		l.until("the watches end", func() bool { return l.store.Watchers(watchstore.Resource(r)) == 0 })
	}
	l.halt()
	var stacks strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	for _, g := range strings.Split(stacks.String(), "\n\n") {
		if strings.Contains(g, "realize.(*worker)") || strings.Contains(g, "enforcer.(*Mirror)") || strings.Contains(g, "realize.(*Realizer)") {
			t.Errorf("a goroutine is left:\n%s", g)
		}
	}
}

// TestAccountCannotBeGivenBack: somebody's own rule refers to our group, so that it cannot be
// deleted.
func TestAccountCannotBeGivenBack(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	l := newLab(t, labConfig{clock: clk})
	before := l.holdings()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	ours, port := l.held("web-1")[0], int32(7)
	rules, err := l.region(home).Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: l.groupNamed("db"), Permissions: []aws.Permission{{
		Protocol: "tcp", FromPort: &port, ToPort: &port, Groups: []aws.GroupRef{{GroupID: ours}}}}})
	if err != nil {
		t.Fatal(err)
	}
	l.accounts.change(func(a *Account) { a.Releasing = true })
	l.until("the reason shows", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), ours+": it is no longer needed, but cannot be deleted while the group "+l.groupNamed("db")) && clk.HasWaiters()
	})
	if l.realizer.Released(labAccount) {
		t.Error("released with a group of ours left")
	}
	if _, err := l.region(home).Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: l.groupNamed("db"), RuleIDs: []string{rules[0].ID}}); err != nil {
		t.Fatal(err)
	}
	l.accounts.observe(t.Context())
	l.until("released", func() bool { clk.Step(firstPause); return l.realizer.Released(labAccount) })
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("something is left (-before +after):\n%s", d)
	}
}

func TestForeignClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	if err := l.region(home).CreateTags([]string{homeVPC}, []aws.Tag{{Key: cloud.TagClaim, Value: "another-cluster"}}); err != nil {
		t.Fatal(err)
	}
	before := l.holdings()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.until("refused", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Result != nil && len(r.Result.Refusals) > 0
	})
	r, _ := l.realizer.Report(labAccount)
	if p := r.Result.Policies[0]; len(p.Failed) != 2 || !strings.Contains(p.Failed[0].Message, "claimed by the controller another-cluster") {
		t.Errorf("status %+v, want both VMs failed, naming the other controller", p)
	}
	if d := gocmp.Diff(before, l.holdings()); d != "" || l.mutations() > 0 {
		t.Errorf("%d mutating calls (-before +after):\n%s", l.mutations(), d)
	}
}

// meddler adds a rule to one of our groups after every operation.
type meddler struct {
	cloud.Provider
	l *lab

	mu      sync.Mutex
	stopped bool
	plans   int
}

func (m *meddler) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	if !m.l.accounts.reading.Load() {
		m.mu.Lock()
		m.plans++
		m.mu.Unlock()
	}
	return m.Provider.Observe(ctx, s)
}

func (m *meddler) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	id, err := m.Provider.Apply(ctx, s, op)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped {
		m.l.addRuleByHand(int32(1000 + m.plans))
	}
	return id, err
}

func (m *meddler) observed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plans
}

// roundsAtFirst bounds the rounds that arriving computed objects lead to: one for each kind, and
// one for the account.
const roundsAtFirst = 4

// showSnapshots lets the worker see that many new snapshots, one after the other.
func (l *lab) showSnapshots(n int) {
	l.Helper()
	w := l.realizer.worker(labAccount)
	for range n {
		l.accounts.observe(l.Context())
		l.until("the snapshot is noticed", func() bool { return len(w.signals.touched) == 0 })
	}
}

func TestRestlessCloudIsGivenPauses(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	l := newLab(t, labConfig{clock: clk})
	m := &meddler{Provider: l.accounts.account.Provider, l: l}
	l.accounts.account.Provider = m
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.until("the worker pauses, and says why", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return clk.HasWaiters() && r.Err != nil && strings.Contains(r.Err.Error(), "still not as planned")
	})
	l.showSnapshots(5 * roundsAtFirst)
	if n := m.observed(); n > maxPlans*roundsAtFirst {
		t.Errorf("%d observations though it should pause, want at most %d", n, maxPlans*roundsAtFirst)
	}
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	l.until("it goes on after the pause", func() bool { clk.Step(firstPause); return l.unsettled() == "" })
}

// TestFailureIsGivenPauses: calls that fail for good are repeated after pauses only, or when the
// account is given other credentials.
func TestFailureIsGivenPauses(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	l := newLab(t, labConfig{clock: clk})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.server.Faults().Add(ec2.Fault{Action: "CreateSecurityGroup", Code: "UnauthorizedOperation", Times: -1})
	calls := func() int { return l.server.Journal().Counts()["CreateSecurityGroup"] }
	l.start()
	l.until("the worker pauses, and says why", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return clk.HasWaiters() && cloud.ClassOf(r.Err) == cloud.Auth
	})
	l.showSnapshots(5 * roundsAtFirst)
	n := calls()
	if n > roundsAtFirst {
		t.Errorf("%d calls before the first pause is over, want at most %d", n, roundsAtFirst)
	}
	l.until("it is repeated after the pause", func() bool { clk.Step(firstPause); return calls() > n })
	l.server.Faults().Clear()
	l.accounts.change(func(a *Account) { a.Provider = &meddler{Provider: a.Provider, l: l, stopped: true} })
	l.settle()
}
