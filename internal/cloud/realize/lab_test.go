package realize

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	labNamespace = "vms"
	labAccount   = labNamespace + "/shop"
	labCluster   = "11111111-2222-3333-4444-555555555555"
	home, away   = "eu-west-1", "us-east-1"
	homeVPC      = "vpc-00000001"
	patience     = 20 * time.Second
)

// warp is a clock on which waiting takes no time: it jumps ahead by what is waited for. It also moves at every look, so that
// what happens later has a later time.
type warp struct {
	*clocktesting.FakeClock
}

func newWarp() warp { return warp{clocktesting.NewFakeClock(time.Now())} }

func (w warp) Now() time.Time {
	w.Step(time.Microsecond)
	return w.FakeClock.Now()
}

func (w warp) Since(t time.Time) time.Duration { return w.Now().Sub(t) }

func (w warp) After(d time.Duration) <-chan time.Time {
	w.Step(d)
	c := make(chan time.Time, 1)
	c <- w.FakeClock.Now()
	return c
}

func (w warp) sleep(ctx context.Context, d time.Duration) error {
	w.Step(d)
	return ctx.Err()
}

// lab is a simulated account, an engine with policies, and a realizer between the two.
type lab struct {
	*testing.T
	server   *sim.Server
	account  string
	engine   *policy.Engine
	store    *watchstore.Store
	accounts *labAccounts
	sink     *reports
	options  Options
	realizer *Realizer
	vms      map[string]labVM // by name
	native   map[probe][2]bool
	probes   []probe
	since    time.Time // of the last publish
	stop     context.CancelFunc
	done     chan struct{}
}

// labVM is what the tests know of a VM.
type labVM struct {
	nic, id, region string
	addr            netip.Addr
	labels          map[string]string
}

// storeSource lets the realizer watch the store, as the command wires them.
type storeSource struct{ store *watchstore.Store }

func (s storeSource) Watch(r Resource, key string) (Stream, error) {
	return s.store.Watch(watchstore.Resource(r), key)
}

// reports keeps what a realizer publishes.
type reports struct {
	next Sink

	mu  sync.Mutex
	all []Report
}

func (s *reports) Publish(ctx context.Context, r Report) {
	s.mu.Lock()
	s.all = append(s.all, r)
	s.mu.Unlock()
	if s.next != nil {
		s.next.Publish(ctx, r)
	}
}

func (s *reports) list() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// labAccounts is the inventory of one account: it observes when it is asked to.
type labAccounts struct {
	// reading is true while it calls the cloud for itself.
	reading  atomic.Bool
	triggers atomic.Int32

	mu      sync.Mutex
	account Account
	gone    bool
	subs    map[int]func(string)
	next    int
}

func (a *labAccounts) Keys() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return nil
	}
	return []string{a.account.Key}
}

func (a *labAccounts) Account(key string) (Account, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.account
	out.Snapshots, out.Entities = maps.Clone(out.Snapshots), maps.Clone(out.Entities)
	return out, key == out.Key && !a.gone
}

func (a *labAccounts) Subscribe(changed func(string)) (cancel func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	id := a.next
	a.subs[id] = changed
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.subs, id)
	}
}

// Trigger observes at once; that makes the order of calls the same in every run.
func (a *labAccounts) Trigger(string) {
	a.triggers.Add(1)
	a.observe(context.Background())
}

// observe reads all regions; one that cannot be read keeps its snapshot, as the inventory does it.
func (a *labAccounts) observe(ctx context.Context) {
	a.reading.Store(true)
	a.mu.Lock()
	provider, regions := a.account.Provider, a.account.Regions
	a.mu.Unlock()
	snaps := map[string]*cloud.Snapshot{}
	for _, r := range regions {
		if s, err := provider.Observe(ctx, cloud.Scope{Account: labAccount, Region: r}); err == nil {
			snaps[r] = s
		}
	}
	a.reading.Store(false)
	a.change(func(acct *Account) { maps.Copy(acct.Snapshots, snaps) })
}

// change edits the account and tells.
func (a *labAccounts) change(edit func(*Account)) {
	a.mu.Lock()
	next := a.account
	next.Snapshots, next.Entities = maps.Clone(next.Snapshots), maps.Clone(next.Entities)
	edit(&next)
	a.account = next
	subs := slices.Collect(maps.Values(a.subs))
	a.mu.Unlock()
	for _, f := range subs {
		f(labAccount)
	}
}

func (a *labAccounts) remove() {
	a.mu.Lock()
	a.gone = true
	subs := slices.Collect(maps.Values(a.subs))
	a.mu.Unlock()
	for _, f := range subs {
		f(labAccount)
	}
}

// labConfig is what tests choose.
type labConfig struct {
	regions []string // default: home alone
	clock   clock.Clock
	next    Sink // gets the reports too
	cluster string
	visible time.Duration // how long the cloud hides what it created
}

func newLab(t *testing.T, cfg labConfig) *lab {
	t.Helper()
	if cfg.regions == nil {
		cfg.regions = []string{home}
	}
	w := newWarp()
	if cfg.clock == nil {
		cfg.clock = w
	}
	state, _, err := estate.Load("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.Start(t.Context(), sim.Options{State: state, Seed: 1, Clock: w.Now, VisibilityDelay: cfg.visible})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &lab{T: t, server: server, account: server.World().Accounts()[0].ID, engine: policy.New(policy.Options{}),
		store: watchstore.New(watchstore.Options{}), sink: &reports{next: cfg.next}, vms: map[string]labVM{}}
	provider, err := aws.New(aws.Config{
		Credential: cloudv1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret},
		Region:     home, Endpoint: server.URL(), Now: w.Now, Sleep: w.sleep, MaxAttempts: 1, MaxBackoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.accounts = &labAccounts{subs: map[int]func(string){}, account: Account{
		Key: labAccount, EnforcerKey: cloud.EnforcerKey(labNamespace, "shop"), Provider: provider, Regions: cfg.regions,
		Snapshots: map[string]*cloud.Snapshot{}, Entities: map[plan.EntityRef]plan.VMRef{},
	}}
	l.findVMs(cfg.regions)
	l.probes = l.allProbes()
	l.native = map[probe][2]bool{}
	for _, p := range l.probes {
		v := l.ask(p)
		l.native[p] = [2]bool{v.Egress.Allowed, v.Ingress.Allowed}
	}
	l.options = Options{ClusterID: cmp.Or(cfg.cluster, labCluster), Source: storeSource{l.store}, Accounts: l.accounts, Lowerer: lower.AWS{},
		Sink: l.sink, Clock: cfg.clock, Log: logr.Discard()}
	return l
}

// findVMs makes every VM of the estate an entity, labelled by the part of its name before the dash.
func (l *lab) findVMs(regions []string) {
	l.Helper()
	for _, name := range regions {
		instances, err := l.region(name).Instances()
		if err != nil {
			l.Fatal(err)
		}
		for _, i := range instances {
			vm := i.Tags["Name"]
			role, _, _ := strings.Cut(vm, "-")
			nic := i.Primary()
			l.vms[vm] = labVM{nic: nic.ID, id: i.ID, region: name, addr: nic.PrimaryIP().Addr, labels: map[string]string{"role": role}}
			l.accounts.account.Entities[plan.EntityRef{Namespace: labNamespace, Name: vm}] = plan.VMRef{Region: name, ID: i.ID}
			l.putEntity(vm)
		}
	}
}

func (l *lab) putEntity(name string) {
	vm := l.vms[name]
	l.engine.PutEntity(policy.Entity{EntityRef: entityRef(name), Labels: vm.labels, Addresses: []netip.Addr{vm.addr},
		Host: l.accounts.account.EnforcerKey})
}

func entityRef(name string) policy.EntityRef {
	return policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: labNamespace, Name: name}
}

func (l *lab) region(name string) *world.Region {
	l.Helper()
	r, err := l.server.World().Region(l.account, name)
	if err != nil {
		l.Fatal(err)
	}
	return r
}

// start observes the account once and runs a new realizer until the test ends or halt is called.
func (l *lab) start() {
	l.Helper()
	l.accounts.observe(l.Context())
	r, err := New(l.options)
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.Context())
	l.realizer, l.stop, l.done = r, cancel, make(chan struct{})
	done := l.done
	go func() {
		defer close(done)
		if err := r.Start(ctx); err != nil {
			l.Error(err)
		}
	}()
	l.Cleanup(l.halt)
}

func (l *lab) halt() {
	l.stop()
	<-l.done
}

// publish commits what was put into the engine.
func (l *lab) publish() { l.publishDelta(l.engine.Commit()) }

func (l *lab) publishDelta(d *policy.Delta) {
	l.since = l.options.Clock.Now()
	l.store.Publish(convert.Delta(d))
}

// probe is a flow that is looked at. An end that is no VM is an address.
type probe struct {
	from, to string
	port     uint16
}

func (p probe) String() string { return fmt.Sprintf("%s -> %s:%d", p.from, p.to, p.port) }

func (l *lab) allProbes() []probe {
	ends := append(slices.Sorted(maps.Keys(l.vms)), "198.51.100.7", "203.0.113.7")
	var out []probe
	for _, from := range ends {
		for _, to := range ends {
			if from == to || l.vms[from].nic == "" && l.vms[to].nic == "" || l.vms[from].region != l.vms[to].region &&
				l.vms[from].nic != "" && l.vms[to].nic != "" {
				continue
			}
			for _, port := range []uint16{22, 80, 443, 5432, 8080, 9100} {
				out = append(out, probe{from, to, port})
			}
		}
	}
	return out
}

func (l *lab) end(name string) world.End {
	if vm, ok := l.vms[name]; ok {
		return world.End{NIC: vm.nic}
	}
	return world.End{Addr: netip.MustParseAddr(name)}
}

// ask returns the simulator's verdict.
func (l *lab) ask(p probe) world.Verdict {
	v, err := l.server.World().Allowed(world.Flow{Src: l.end(p.from), Dst: l.end(p.to), Protocol: 6, Port: int(p.port)})
	if err != nil {
		l.Errorf("%s: %v", p, err)
	}
	return v
}

func (l *lab) endpoint(name string) policy.Endpoint {
	if vm, ok := l.vms[name]; ok {
		return policy.Endpoint{EntityRef: entityRef(name), Addr: vm.addr, Semantics: policy.VMSemantics}
	}
	return policy.Endpoint{Addr: netip.MustParseAddr(name)}
}

// verdicts says of every probe whether it passes.
type verdicts map[probe]bool

// wanted is what the policies in the engine mean, by its own evaluator and the verdicts of the groups that the VMs had at first.
func (l *lab) wanted() verdicts {
	e := policy.NewEvaluator(l.engine.Listing())
	out := verdicts{}
	for _, p := range l.probes {
		v := e.Evaluate(policy.Flow{Source: l.endpoint(p.from), Destination: l.endpoint(p.to), Protocol: policy.TCP, Port: p.port})
		out[p] = passes(v.Egress, l.native[p][0]) && passes(v.Ingress, l.native[p][1])
	}
	return out
}

func passes(d policy.Decision, native bool) bool {
	return d.Outcome == policy.OutcomeAllow || d.Outcome == policy.OutcomeNative && native
}

// actual is what the simulator says.
func (l *lab) actual() verdicts {
	out := verdicts{}
	for _, p := range l.probes {
		out[p] = l.ask(p).Allowed
	}
	return out
}

// settle waits until the realizer has seen everything that was published and says that the account is as wanted.
func (l *lab) settle() {
	l.Helper()
	what := ""
	if !eventually(func() bool { what = l.unsettled(); return what == "" }) {
		l.Fatalf("not settled: %s", what)
	}
}

// unsettled says what the realizer has not done yet.
func (l *lab) unsettled() string {
	w := l.realizer.worker(labAccount)
	if w == nil {
		return "there is no worker"
	}
	mirrored, _, err := w.mirror.current()
	if err != nil {
		return err.Error()
	}
	r, _ := l.realizer.Report(labAccount)
	switch {
	case r.Result == nil:
		return "no plan yet; " + r.Waiting
	case r.Err != nil:
		return r.Err.Error()
	case r.RealizedAt.Before(l.since):
		return "nothing was realized since the last change"
	case !r.Result.Plan.Empty():
		return "the plan is not empty:\n" + printed(r.Result.Plan)
	}
	if d := gocmp.Diff(l.published(), mirrored, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion")); d != "" {
		return "the mirror is behind: " + d
	}
	// What was planned last must be what is mirrored now, on what the cloud is now: plan once more.
	acct, _ := l.accounts.Account(labAccount)
	in := plan.Input{ClusterID: l.options.ClusterID, Account: labAccount, Policies: mirrored.Policies, AddressGroups: mirrored.AddressGroups,
		AppliedToGroups: mirrored.AppliedToGroups, Entities: acct.Entities, Realized: nil}
	for _, region := range sortedKeys(acct.Snapshots) {
		limits, err := acct.Provider.Limits(l.Context(), acct.Snapshots[region].Scope)
		if err != nil {
			return err.Error()
		}
		in.Regions = append(in.Regions, plan.Region{Snapshot: acct.Snapshots[region], Limits: limits})
	}
	if res := plan.Compute(in, lower.AWS{}); !res.Plan.Empty() {
		return "the snapshots are not as planned:\n" + printed(res.Plan)
	}
	return ""
}

func printed(p plan.Plan) string {
	var b strings.Builder
	if err := p.Print(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

// published is what the store has for the account.
func (l *lab) published() computed {
	l.Helper()
	return computed{listed[*v1beta2.NetworkPolicy](l, NetworkPolicies),
		listed[*v1beta2.AddressGroup](l, AddressGroups), listed[*v1beta2.AppliedToGroup](l, AppliedToGroups)}
}

func listed[T any](l *lab, r Resource) []T {
	l.Helper()
	out := []T{}
	objects, _, err := l.store.List(watchstore.Resource(r), l.accounts.account.EnforcerKey)
	if err != nil {
		l.Fatal(err)
	}
	for _, o := range objects {
		out = append(out, o.(T))
	}
	return out
}

// eventually polls until the condition holds; false if patience runs out.
func eventually(condition func() bool) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if condition() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// compare reports how the verdicts differ.
func compare(got, want verdicts) string {
	var out []string
	for p, w := range want {
		if got[p] != w {
			out = append(out, fmt.Sprintf("%s: passes = %t, want %t", p, got[p], w))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// holdings is what of the cloud may not be changed for good: the groups with their rules, and groups and tags of interfaces and VPCs.
type holdings struct {
	Groups map[string][]string
	NICs   map[string][]string
	Tags   map[string]world.Tags
}

func (l *lab) holdings() holdings {
	l.Helper()
	h := holdings{map[string][]string{}, map[string][]string{}, map[string]world.Tags{}}
	for _, info := range l.server.World().Regions(l.account) {
		r := l.region(info.Name)
		groups, err := r.SecurityGroups()
		nics, err2 := r.NetworkInterfaces()
		vpcs, err3 := r.VPCs()
		if err := cmp.Or(err, err2, err3); err != nil {
			l.Fatal(err)
		}
		for _, g := range groups {
			h.Groups[g.ID] = []string{g.Name}
			for _, rule := range g.Rules {
				h.Groups[g.ID] = append(h.Groups[g.ID], rule.String())
			}
			h.tags(g.ID, g.Tags)
		}
		for _, n := range nics {
			for _, g := range n.Groups {
				h.NICs[n.ID] = append(h.NICs[n.ID], g.ID)
			}
			slices.Sort(h.NICs[n.ID])
			h.tags(n.ID, n.Tags)
		}
		for _, v := range vpcs {
			h.tags(v.ID, v.Tags)
		}
	}
	return h
}

func (h holdings) tags(id string, tags world.Tags) {
	if len(tags) > 0 {
		h.Tags[id] = tags
	}
}

// fault disturbs calls of the realizer, not those of the inventory.
func (l *lab) fault(f ec2.Fault) int {
	f.Match = func(ec2.Call) bool { return !l.accounts.reading.Load() }
	f.Action = cmp.Or(f.Action, "*")
	return l.server.Faults().Add(f)
}

// mutations counts the calls of the journal that change something.
func (l *lab) mutations() int {
	n := 0
	for _, c := range l.server.Journal().Calls(0) {
		if mutating(c) {
			n++
		}
	}
	return n
}

func mutating(c ec2.Call) bool {
	return !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get")
}

// count returns a function that tells how many calls the realizer has made since.
func (l *lab) count() func() int {
	var n atomic.Int32
	l.server.Faults().Add(ec2.Fault{Action: "*", Times: -1, Match: func(ec2.Call) bool {
		if !l.accounts.reading.Load() {
			n.Add(1)
		}
		return false
	}})
	return func() int { return int(n.Load()) }
}

// close ends everything before the test ends.
func (l *lab) close() {
	if l.stop != nil {
		l.halt()
	}
	if err := l.server.Close(); err != nil {
		l.Error(err)
	}
}
