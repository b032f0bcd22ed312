// Package scale measures how long changes take that only the cloud's rate limits bound. Everything
// is the real thing (engine, store, mirror, realizer, planner, AWS adapter with its limiter, wire
// format) but for time and the network: tests run in a bubble of virtual time, in which the
// simulator throttles by the buckets that EC2 documents and every call takes as long as it is told
// to, so that hours pass in seconds and figures do not depend on the machine.
package scale

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/pace"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	namespace = "vms"
	account   = namespace + "/fleet"
	region    = "eu-west-1"
	cluster   = "11111111-2222-3333-4444-555555555555"
)

// fleet is one account with many VMs, an engine with policies, and a realizer between the two.
type fleet struct {
	*testing.T
	engine   *compute.Engine
	store    *watchstore.Store
	provider cloud.Provider
	lowerer  plan.Lowerer
	region   string
	accounts *accounts
	calls    *calls
	realizer *realize.Realizer
	names    []string
	vms      map[string]policy.Entity
}

// newFleet builds an account of n VMs in so many roles; the label role says which. Every VM has a
// group for its role.
func newFleet(t *testing.T, n, roles int, latency time.Duration) *fleet {
	t.Helper()
	w, err := world.New(estatetest.Fleet(t, region, n, roles), world.Options{Clock: time.Now, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{T: t, region: region, engine: compute.New(compute.Options{}), store: watchstore.New(watchstore.Options{}), vms: map[string]policy.Entity{}}
	f.calls = &calls{latency: latency, count: map[string]int{}, handler: ec2.NewHandler(ec2.Config{
		World: w, Clock: time.Now, WallClock: time.Now, Throttle: ec2.NewThrottle(time.Now, 1), OnCall: func(_ context.Context, c ec2.Call) error { f.calls.saw(c); return nil },
	})}
	limiter := pace.New(pace.Options{Now: time.Now, After: time.After, Rate: aws.Documented})
	f.lowerer = lower.AWS{}
	f.provider, err = aws.New(aws.Config{
		Credential: cloudv1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret},
		Region:     region, Endpoint: "http://ec2.test", Client: f.calls,
		Admit: func(ctx context.Context, owner, region, action string) (func(cloud.Class), error) {
			return limiter.Admit(ctx, pace.Key{Account: owner, Region: region, Action: action})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.load()
	return f
}

// load reads the account, and makes entities of its VMs.
func (f *fleet) load() {
	f.Helper()
	f.accounts = &accounts{region: f.region, again: make(chan struct{}, 1), account: realize.Account{
		Key: account, EnforcerKey: cloud.EnforcerKey(namespace, "fleet"), Provider: f.provider, Regions: []string{f.region},
		Snapshots: map[string]*cloud.Snapshot{}, Entities: map[plan.EntityRef]plan.VMRef{},
	}}
	f.engine.PutNamespace(policy.Namespace{Name: namespace})
	snap, err := f.provider.Observe(f.Context(), cloud.Scope{Account: account, Region: f.region})
	if err != nil {
		f.Fatal(err)
	}
	f.accounts.account.Snapshots[f.region] = snap
	nics := map[string]*cloud.Interface{}
	for i := range snap.Interfaces {
		nics[snap.Interfaces[i].VMID] = &snap.Interfaces[i]
	}
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		role, _, _ := strings.Cut(vm.Name, "-")
		f.accounts.account.Entities[plan.EntityRef{Namespace: namespace, Name: vm.Name}] = plan.VMRef{Region: f.region, ID: vm.ID}
		f.names = append(f.names, vm.Name)
		f.vms[vm.Name] = policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: namespace, Name: vm.Name}, Labels: map[string]string{"role": role},
			Addresses: []netip.Addr{nics[vm.ID].PrivateIPs[0]}, Host: f.accounts.account.EnforcerKey,
		}
		f.engine.PutEntity(f.vms[vm.Name])
	}
}

// start runs the realizer and the observer until the test ends.
func (f *fleet) start() {
	f.Helper()
	r, err := realize.New(realize.Options{
		ClusterID: cluster, Follower: enforcer.Follower{Source: source{f.store}, Clock: clock.RealClock{}},
		Accounts: f.accounts, Lowerer: f.lowerer, Sink: discard{}, Clock: clock.RealClock{}, Log: logr.Discard(), Settle: 100 * time.Millisecond,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.realizer = r
	ctx, cancel := context.WithCancel(f.Context())
	var loops sync.WaitGroup
	loops.Go(func() { f.accounts.run(ctx, f.provider) })
	loops.Go(func() {
		if err := r.Start(ctx); err != nil {
			f.Error(err)
		}
	})
	f.Cleanup(func() { cancel(); loops.Wait() })
	f.publish()
	f.settle(time.Hour)
	f.calls.reset()
}

// publish commits what was put into the engine.
func (f *fleet) publish() { f.store.Publish(convert.Delta(f.engine.Commit())) }

// settle waits until the cloud is as the policies want it, and returns how long that took.
func (f *fleet) settle(patience time.Duration) time.Duration {
	f.Helper()
	start := time.Now()
	for time.Since(start) < patience {
		r, ok := f.realizer.Report(account)
		if ok && r.Err == nil && r.Result != nil && r.Result.Plan.Empty() && r.RealizedAt.After(start) {
			return r.RealizedAt.Sub(start)
		}
		time.Sleep(10 * time.Millisecond)
	}
	r, _ := f.realizer.Report(account)
	f.Fatalf("not settled after %s: %+v", patience, r)
	return 0
}

// source lets the mirror watch the store.
type source struct{ store *watchstore.Store }

func (s source) Watch(_ context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	return s.store.Watch(watchstore.Resource(r), key)
}

type discard struct{}

func (discard) Publish(context.Context, status.Report) {}

// accounts is the one account, observed anew when somebody asks for it, as the inventory does.
type accounts struct {
	region string
	again  chan struct{}

	mu      sync.Mutex
	account realize.Account
	changed func(string)
	// touched are what to read again; whole asks for everything instead.
	touched []string
	whole   bool
	// handed counts what Observed has brought.
	handed int
}

func (a *accounts) Keys() []string { return []string{account} }

func (a *accounts) Account(key string) (realize.Account, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.account
	out.Snapshots = maps.Clone(out.Snapshots)
	return out, key == account
}

func (a *accounts) ask(ids []string) {
	a.mu.Lock()
	a.touched, a.whole = append(a.touched, ids...), a.whole || ids == nil
	a.account.Pending = map[string]bool{a.region: true}
	a.mu.Unlock()
	select {
	case a.again <- struct{}{}:
	default:
	}
}

func (a *accounts) Observed(_ string, _ cloud.Provider, snapshots []*cloud.Snapshot) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whole || len(a.touched) > 0 {
		return false
	}
	a.handed++
	a.account.Snapshots, a.account.Pending = map[string]*cloud.Snapshot{a.region: snapshots[0]}, nil
	return true
}

func (a *accounts) Touched(_ string, ids map[string][]string) { a.ask(ids[a.region]) }

func (a *accounts) Subscribe(changed func(string)) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = changed
	return func() {}
}

func (a *accounts) Trigger(string) { a.ask(nil) }

// read reads what was asked for.
func (a *accounts) read(ctx context.Context, p cloud.Provider) (*cloud.Snapshot, error) {
	a.mu.Lock()
	last, ids, whole := a.account.Snapshots[a.region], a.touched, a.whole
	a.touched, a.whole = nil, false
	a.mu.Unlock()
	if r, able := p.(cloud.Refresher); able && !whole && last != nil {
		return r.Refresh(ctx, last, ids)
	}
	return p.Observe(ctx, cloud.Scope{Account: account, Region: a.region})
}

func (a *accounts) run(ctx context.Context, p cloud.Provider) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.again:
		}
		a.mu.Lock()
		handed := a.handed
		a.mu.Unlock()
		s, err := a.read(ctx, p)
		a.mu.Lock()
		if err != nil || a.handed != handed { // what was handed over meanwhile is not in it
			a.mu.Unlock()
			a.Trigger(account)
			continue
		}
		a.account.Snapshots = map[string]*cloud.Snapshot{a.region: s}
		if len(a.touched) == 0 && !a.whole {
			a.account.Pending = nil
		}
		changed := a.changed
		a.mu.Unlock()
		changed(account)
	}
}

// calls is the network between adapter and simulator: it takes time and counts.
type calls struct {
	handler http.Handler
	latency time.Duration

	mu      sync.Mutex
	count   map[string]int
	refused int
}

// Do answers one request after the latency.
func (c *calls) Do(r *http.Request) (*http.Response, error) {
	if c.latency > 0 {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(c.latency):
		}
	}
	r = r.Clone(r.Context())
	r.RequestURI = r.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.Host = cmp.Or(r.Host, r.URL.Host); r.Host == "" {
		return nil, errors.New("a request without a host")
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func (c *calls) saw(call ec2.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.Code == "RequestLimitExceeded" {
		c.refused++
		return
	}
	c.count[call.Action]++
}

func (c *calls) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count, c.refused = map[string]int{}, 0
}

// total counts the calls of one action, or of all that change something if action is empty.
// Throttled ones do not count.
func (c *calls) total(action string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if action != "" {
		return c.count[action]
	}
	n := 0
	for a, k := range c.count {
		if !strings.HasPrefix(a, "Describe") && !strings.HasPrefix(a, "Get") {
			n += k
		}
	}
	return n
}

// describing counts the calls that only read.
func (c *calls) describing() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for a, k := range c.count {
		if strings.HasPrefix(a, "Describe") || strings.HasPrefix(a, "Get") {
			n += k
		}
	}
	return n
}

func (c *calls) throttled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
