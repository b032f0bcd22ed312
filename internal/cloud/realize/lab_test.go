package realize

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register/registertest"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	labNamespace = "vms"
	labAccount   = labNamespace + "/shop"
	labCluster   = "11111111-2222-3333-4444-555555555555"
	home, away   = "eu-west-1", "us-east-1"
	homeVPC      = "vpc-00000001"
	// patience is for machines that are busy with other things: waiting in vain shows a mistake,
	// however long it takes.
	patience = 3 * time.Minute
)

// warp is a clock on which waiting takes no time: it jumps ahead by what is waited for. It also
// moves at every look, so that what happens later has a later time.
type warp struct {
	*clocktesting.FakeClock
	tick func() // called while it moves, unless it is nil
}

func newWarp() warp { return warp{clocktesting.NewFakeClock(time.Now()), nil} }

func (w warp) Now() time.Time {
	w.Step(time.Microsecond)
	return w.FakeClock.Now()
}

func (w warp) Since(t time.Time) time.Duration { return w.Now().Sub(t) }

func (w warp) After(d time.Duration) <-chan time.Time {
	if w.tick != nil {
		for range 7 {
			w.Step(d / 8)
			w.tick()
		}
		d -= 7 * (d / 8)
		defer w.tick()
	}
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
	engine   *compute.Engine
	store    *watchstore.Store
	accounts *labAccounts
	sink     *reports
	options  Options
	realizer *Realizer
	// passing is held while time passes and while an event happens; onTick, if set, is called
	// then.
	passing sync.Mutex
	onTick  func()
	// marksPermitted is set if the account has the documented rights.
	marksPermitted bool
	vms            map[string]labVM // by name
	native         map[probe][2]bool
	probes         []probe
	since          time.Time            // of the last publish
	modes          map[string]plan.Mode // of VMs that are not simply enforced, for what is wanted
	deleted        bool                 // whether the account is
	stop           context.CancelFunc
	done           chan struct{}
	// audit is the record of changes.
	audit *auditor
	// cluster is where the key of records is; nil means that records are not signed.
	cluster client.Client
	// instances counts the instances with a record, of labConfig.book.
	book      *registertest.Notebook
	instances int
	// newProvider makes a provider as other credentials of the same account do.
	newProvider func() cloud.Provider
}

// labVM is what the tests know of a VM.
type labVM struct {
	nic, id, region string
	addr, addr6     netip.Addr
	labels          map[string]string
	// of is the native service of which this is a further interface; empty for what has a name
	// of its own.
	of string
}

// storeSource lets the realizer watch the store, as the command wires them.
type storeSource struct{ store *watchstore.Store }

func (s storeSource) Watch(_ context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	return s.store.Watch(watchstore.Resource(r), key)
}

// reports keeps what a realizer publishes.
type reports struct {
	next Sink

	mu  sync.Mutex
	all []status.Report
}

func (s *reports) Publish(ctx context.Context, r status.Report) {
	s.mu.Lock()
	s.all = append(s.all, r)
	s.mu.Unlock()
	if s.next != nil {
		s.next.Publish(ctx, r)
	}
}

func (s *reports) list() []status.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// labConfig is what tests choose.
type labConfig struct {
	regions []string // default: home alone
	clock   clock.Clock
	next    Sink // gets the reports too
	cluster string
	visible time.Duration // how long the cloud hides what it created
	// effects is how long edits take to come into force, and propagation how long the realizer
	// waits for that.
	effects     effect.Delay
	propagation time.Duration
	// onCall sees every call that the cloud has carried out, before its answer leaves.
	onCall func(ec2.Call)
	// throttle makes the cloud throttle as EC2 does, and pageSize is that of listings; 0 means
	// the largest.
	throttle bool
	pageSize int32
	// maxPerWave is that of the account.
	maxPerWave int
	state      *simaws.State // an account without known VMs, instead of the shop
	estate     string        // a file with known VMs, instead of the shop
	failsafe   []plan.FailsafeFlow
	// groupsPerInterface is the account's quota; 0 means the default.
	groupsPerInterface int
	// groupsPerRegion is the quota of groups that is counted with; nil means the default. The
	// cloud's own is the default.
	groupsPerRegion func() int
	// follows are groups with the tag cloud.TagFollow, by name, and stay are VMs that nobody
	// selects.
	follows, stay []string
	// policy is that of the account's credentials; nil means the documented rights.
	policy *iam.Policy
	// services are the native services that somebody selects, by name; if there are any, or if
	// served is set, the provider shows all.
	services []string
	served   bool
	// apart are VMs that nobody selects, whose interfaces somebody selects in their place.
	apart []string
	// book, if set, is the record of the cluster's instances; every start is that of another
	// one then.
	book *registertest.Notebook
}

func newLab(t *testing.T, cfg labConfig) *lab {
	t.Helper()
	if cfg.regions == nil {
		cfg.regions = []string{home}
	}
	if cfg.served = cfg.served || len(cfg.services) > 0; cfg.served {
		cfg.estate, cfg.policy = cmp.Or(cfg.estate, "testdata/served.yaml"), cmp.Or(cfg.policy, rightsOverServices(t))
	}
	var l *lab
	w := newWarp()
	if cfg.effects.Bound > 0 {
		w.tick = func() {
			l.passing.Lock()
			defer l.passing.Unlock()
			if l.onTick != nil {
				l.onTick()
			}
		}
	}
	pause := time.Duration(0)
	if cfg.clock == nil {
		cfg.clock, pause = w, time.Second
	}
	state, _, err := estate.Load(cmp.Or(cfg.estate, "testdata/shop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.state != nil {
		state = *cfg.state
	}
	state.Accounts[0].Quotas.GroupsPerInterface = cfg.groupsPerInterface
	for i := range state.Credentials {
		if state.Credentials[i].Policy = cfg.policy; cfg.policy == nil {
			state.Credentials[i].Policy = documentedRights(t)
		}
	}
	server, err := sim.Start(t.Context(), sim.Options{State: state, Seed: 1, Clock: w.Now, VisibilityDelay: cfg.visible, Throttle: cfg.throttle,
		OnCall: func(_ context.Context, c ec2.Call) error {
			if cfg.onCall != nil {
				cfg.onCall(c)
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	l = &lab{T: t, server: server, account: server.World().Accounts()[0].ID, engine: compute.New(compute.Options{}),
		store: watchstore.New(watchstore.Options{}), sink: &reports{next: cfg.next}, audit: &auditor{}, vms: map[string]labVM{}, book: cfg.book,
		marksPermitted: cfg.policy == nil || cfg.served}
	if err := server.World().SetEffects(cfg.effects); err != nil {
		t.Fatal(err)
	}
	l.newProvider = func() cloud.Provider {
		provider, err := aws.New(aws.Config{
			Credential: cloudv1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret},
			Region:     cfg.regions[0], Endpoint: server.URL(), Now: w.Now, Sleep: w.sleep, MaxAttempts: 1, MaxBackoff: time.Millisecond, Audit: l.audit,
			PageSize: cfg.pageSize,
			Limits: func(string) cloud.Limits {
				out := cloud.Limits{GroupsPerInterface: cfg.groupsPerInterface}
				if cfg.groupsPerRegion != nil {
					out.GroupsPerRegion = cfg.groupsPerRegion()
				}
				return out
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.served {
			return provider.Show(cloud.ServiceKinds())
		}
		return provider
	}
	l.accounts = &labAccounts{subs: map[int]func(string){}, account: Account{
		Key: labAccount, EnforcerKey: cloud.EnforcerKey(labNamespace, "shop"), Provider: l.newProvider(), Regions: cfg.regions,
		Snapshots: map[string]*cloud.Snapshot{}, Entities: map[plan.EntityRef]plan.VMRef{}, MaxPerWave: cfg.maxPerWave, Failsafe: cfg.failsafe,
	}}
	if cfg.served {
		l.findServices(cfg.services)
	}
	if cfg.state == nil {
		l.findVMs(cfg.regions)
		l.probes = l.allProbes()
	}
	for _, name := range cfg.follows {
		l.tag(l.groupNamed(name), simaws.Tags{cloud.TagFollow: ""})
		l.accounts.account.Dependents.Default = plan.FollowDependents
	}
	for _, vm := range cfg.stay {
		delete(l.accounts.account.Entities, plan.EntityRef{Namespace: labNamespace, Name: vm})
		l.engine.DeleteEntity(entityRef(vm))
	}
	for _, name := range cfg.apart {
		ref, vm := plan.EntityRef{Namespace: labNamespace, Name: name}, l.vms[name]
		delete(l.accounts.account.Entities, ref)
		vm.id = vm.nic
		l.vms[name] = vm
		if l.accounts.account.Services == nil {
			l.accounts.account.Services = map[plan.EntityRef]plan.VMRef{}
		}
		l.accounts.account.Services[ref] = plan.VMRef{Region: vm.region, ID: vm.nic}
	}
	l.native = map[probe][2]bool{}
	for _, p := range l.probes {
		v := l.ask(p)
		l.native[p] = [2]bool{v.Egress.Allowed, v.Ingress.Allowed}
	}
	l.cluster = labObjects(t)
	l.options = Options{
		ClusterID:  cmp.Or(cfg.cluster, labCluster),
		Follower:   enforcer.Follower{Source: storeSource{l.store}, Clock: cfg.clock},
		Accounts:   l.accounts,
		Lowerer:    lower.AWS{},
		Sink:       l.sink,
		Clock:      cfg.clock,
		Log:        logr.Discard(),
		ClaimPause: pause,
	}
	return l
}

// labObjects is an API server with the account.
func labObjects(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, cloudv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "shop"}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(account).Build()
}

// documentedRights is the IAM policy that users are told to give: whatever is tested here has to do
// with it.
func documentedRights(t *testing.T) *iam.Policy {
	t.Helper()
	document, err := os.ReadFile("../../../config/aws/enforce.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := iam.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return p
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
			known := labVM{nic: nic.ID, id: i.ID, region: name, addr: nic.PrimaryIP().Addr, labels: map[string]string{"role": role}}
			if len(nic.IPv6) > 0 {
				known.addr6 = nic.IPv6[0]
			}
			l.vms[vm] = known
			l.accounts.account.Entities[plan.EntityRef{Namespace: labNamespace, Name: vm}] = plan.VMRef{Region: name, ID: i.ID}
			l.putEntity(vm)
		}
	}
}

func (l *lab) putEntity(name string) {
	vm := l.vms[name]
	addresses := []netip.Addr{vm.addr}
	if vm.addr6.IsValid() {
		addresses = append(addresses, vm.addr6)
	}
	l.engine.PutEntity(policy.Entity{EntityRef: entityRef(name), Labels: vm.labels, Addresses: addresses,
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
	l.options.Records = nil
	if l.cluster != nil {
		l.options.Records = recordkey.New(recordkey.Options{Client: l.cluster, Namespace: "kube-system", ClusterID: l.options.ClusterID,
			Random: rand.Reader, Clock: l.options.Clock, Log: l.options.Log})
	}
	if l.book != nil {
		l.instances++
		l.options.ClaimPause = labPause
		l.options.Instance = &instance.Process{Epoch: fmt.Sprintf("lab%d", l.instances), Heartbeat: labHeartbeat, Register: l.book}
	}
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

// key is that of the account.
func (l *lab) key() string { return l.accounts.account.Key }

// publish commits what was put into the engine.
func (l *lab) publish() { l.publishDelta(l.engine.Commit()) }

func (l *lab) publishDelta(d *policy.Delta) {
	changes := convert.Delta(d)
	if !changes.Empty() { // what was changed besides may be realized already, and nothing would be after this
		l.since = l.options.Clock.Now()
	}
	l.store.Publish(changes)
}

// settle waits until the realizer has seen everything that was published and says that the account
// is as wanted.
func (l *lab) settle() {
	l.Helper()
	what := ""
	if !eventually(func() bool { what = l.unsettled(); return what == "" }) {
		l.Fatalf("not settled: %s", what)
	}
}

// unsettled says what the realizer has not done yet.
func (l *lab) unsettled() string {
	w := l.realizer.worker(l.key())
	if w == nil {
		return "there is no worker"
	}
	if l.deleted {
		if !l.realizer.Released(l.key()) {
			return "the account is not given back"
		}
		return ""
	}
	r, _ := l.realizer.Report(l.key())
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
	if refused := w.unmarkable.all(); len(refused) > 0 && l.marksPermitted {
		return fmt.Sprintf("a mark is refused, and will be tried again: %v", refused)
	}
	mirrored, _, err := w.mirror.Current()
	if err != nil {
		return err.Error()
	}
	if d := gocmp.Diff(l.published(), mirrored, wholeGroups, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion")); d != "" {
		return "the mirror is behind: " + d
	}
	// What was planned last must be what is mirrored now, on what the cloud is now: plan once
	// more.
	acct, _ := l.accounts.Account(l.key())
	in := acct.PlanInput(l.options.ClusterID, mirrored, nil)
	in.Unmarked = networks(w.unmarkable.active(l.options.Clock.Now()))
	if l.options.Records != nil {
		if in.Seal, err = l.options.Records.Seal(l.Context(), l.key()); err != nil {
			return err.Error()
		}
	}
	for _, region := range slices.Sorted(maps.Keys(acct.Snapshots)) {
		if id := behind(acct.Snapshots[region]); id != "" {
			return "written to and not read since: " + id
		}
		limits, err := acct.Provider.Limits(l.Context(), acct.Snapshots[region].Scope)
		if err != nil {
			return err.Error()
		}
		in.Regions = append(in.Regions, plan.Region{Snapshot: acct.Snapshots[region].Joined(), Limits: limits})
	}
	if res := plan.Compute(in, l.options.Lowerer); !res.Plan.Empty() {
		return "the snapshots are not as planned:\n" + printed(res.Plan)
	}
	// All of it may have happened since the report was read.
	if r, _ := l.realizer.Report(l.key()); r.Result == nil {
		return "the worker has ended meanwhile"
	} else if !r.Result.Plan.Empty() {
		return "a plan was made meanwhile:\n" + printed(r.Result.Plan)
	}
	return ""
}

func printed(p plan.Plan) string {
	var b strings.Builder
	if err := render.Print(&b, render.Describe(p), false); err != nil {
		return err.Error()
	}
	return b.String()
}

// wholeGroups compares address groups by what was computed.
var wholeGroups = gocmp.Transformer("object", (*enforcer.AddressGroup).Object)

// published is what the store has for the account.
func (l *lab) published() enforcer.Computed {
	l.Helper()
	return enforcer.Computed{Policies: listed[*v1beta2.NetworkPolicy](l, enforcer.NetworkPolicies),
		AddressGroups:   enforcer.NewAddressGroups(listed[*v1beta2.AddressGroup](l, enforcer.AddressGroups)),
		AppliedToGroups: listed[*v1beta2.AppliedToGroup](l, enforcer.AppliedToGroups)}
}

func listed[T any](l *lab, r enforcer.Resource) []T {
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

// close ends everything before the test ends.
func (l *lab) close() {
	if l.stop != nil {
		l.halt()
	}
	if err := l.server.Close(); err != nil {
		l.Error(err)
	}
}
