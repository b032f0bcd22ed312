package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	oregon    = "us-west-2"
	ireland   = "eu-west-1"
	vpc1      = "vpc-b390fad5"
	vm1       = "i-075dc46a9bc347264"
	goodCreds = `{"accessKeyId":"` + estate.DefaultAccessKeyID + `","accessKeySecret":"` + estate.DefaultSecret + `"}`
)

var accountKey = types.NamespacedName{Namespace: "clouds", Name: "acc"}

// lab is an inventory between a simulated cloud and an API server's stand-in, with a clock of its
// own.
type lab struct {
	*testing.T
	server *sim.Server
	api    client.Client
	inv    *Inventory
	events *events
	opens  int
	// refuse, if set, is asked before the API server's stand-in creates an object.
	refuse func(client.Object) error
	// listing, if set, is called before the API server's stand-in lists objects.
	listing func(client.ObjectList)
	// gate holds up the observation of a region until it is closed.
	gate map[string]chan struct{}
	// begun, if set, is told of each observation that comes to a gate.
	begun chan struct{}
	// direct lets the inventory see all that the provider can do.
	direct bool

	mu     sync.Mutex
	now    time.Time
	writes []string
}

// events keeps what was recorded.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := "?"
	if o, ok := about.(client.Object); ok {
		name = o.GetName()
	}
	e.all = append(e.all, fmt.Sprintf("%s %s %s: %s", name, kind, reason, fmt.Sprintf(note, args...)))
}

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.all
	e.all = nil
	return out
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabWith(t, sim.Options{})
}

// newLabWith is newLab with a simulator of one's own.
func newLabWith(t *testing.T, o sim.Options) *lab {
	t.Helper()
	state := o.State
	var err error
	if state.Accounts == nil {
		if state, _, err = estate.HybridCloud(); err != nil {
			t.Fatal(err)
		}
	}
	state.Accounts[0].Regions = append(state.Accounts[0].Regions, ireland)
	state.Regions = append(state.Regions, simaws.RegionState{Account: state.Accounts[0].ID, Name: ireland})
	l := &lab{T: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), events: &events{}}
	if l.server, err = sim.Start(t.Context(), with(o, state, l.clock)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.server.Close(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, v1alpha1.AddToScheme, antreav1alpha1.AddToScheme, antreav1alpha2.AddToScheme, antreav1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, o := range Indexed() {
		builder.WithIndex(o, FieldAccount, AccountOf)
	}
	l.api = builder.WithStatusSubresource(&v1alpha1.CloudProviderAccount{},
		&v1alpha1.CloudEntitySelector{}, &v1alpha1.VirtualMachine{}, &v1alpha1.Vpc{}, &v1alpha1.CloudNativeService{}, &v1alpha1.NetworkInterface{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(
			ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption,
		) error {
			if l.refuse != nil {
				if err := l.refuse(o); err != nil {
					return err
				}
			}
			l.write("create", o)
			return c.Create(ctx, o, opts...)
		}, List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if l.listing != nil {
				l.listing(into)
			}
			return c.List(ctx, into, opts...)
		}, Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			l.write("patch", o)
			return c.Patch(ctx, o, p, opts...)
		}, Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			l.write("delete", o)
			return c.Delete(ctx, o, opts...)
		}, SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			l.write("patch "+sub, o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}, SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			l.write("update "+sub, o)
			return c.SubResource(sub).Update(ctx, o, opts...)
		}}).Build()
	l.restart(nil)
	return l
}

func with(o sim.Options, state simaws.State, clock func() time.Time) sim.Options {
	o.State, o.Clock, o.Seed = state, clock, 1
	return o
}

// write notes a call that changes something in the API server's stand-in.
func (l *lab) write(how string, o client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, fmt.Sprintf("%s %s/%s", how, o.GetNamespace(), o.GetName()))
}

// takeWrites returns what was written since it was last called, without what is written about the
// account itself, sorted.
func (l *lab) takeWrites() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.DeleteFunc(l.writes, func(w string) bool { return strings.HasSuffix(w, " clouds/acc") })
	l.writes = nil
	slices.Sort(out)
	return out
}

func (l *lab) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *lab) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// restart replaces the inventory by one that remembers nothing.
func (l *lab) restart(releaser Releaser) {
	l.inv = New(Options{
		Client: l.api, Secrets: l.api, Events: l.events, Releaser: releaser, Now: l.clock,
		Clouds: map[v1alpha1.CloudProvider]accountspec.Open{v1alpha1.CloudProviderAWS: func(c accountspec.Config) (cloud.Provider, error) {
			l.mu.Lock()
			l.opens++
			l.mu.Unlock()
			cred, err := aws.ParseCredential(c.Secret, c.SecretKey, c.SecretValue)
			if err != nil {
				return nil, err
			}
			cfg := aws.Config{Credential: cred, Region: c.Regions[0], Endpoint: c.Endpoint, Owner: c.Owner, Now: l.clock,
				MaxAttempts: 1, MaxBackoff: time.Millisecond, Sleep: shortSleep}
			for _, q := range c.Queues {
				cfg.Queues = append(cfg.Queues, aws.Queue{URL: q.URL, Region: q.Region})
			}
			p, err := aws.New(cfg)
			if l.direct {
				return p, err
			}
			return gated{p, l}, err
		}},
	})
}

func (l *lab) region(name string) *world.Region {
	l.Helper()
	r, err := l.server.World().Region(l.server.World().Accounts()[0].ID, name)
	if err != nil {
		l.Fatal(err)
	}
	return r
}

func (l *lab) create(objects ...client.Object) {
	l.Helper()
	for _, o := range objects {
		if err := l.api.Create(l.Context(), o); err != nil {
			l.Fatal(err)
		}
	}
}

// cpa is the account and its Secret.
func (l *lab) cpa(regions ...string) *v1alpha1.CloudProviderAccount {
	if len(regions) == 0 {
		regions = []string{oregon}
	}
	return &v1alpha1.CloudProviderAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: accountKey.Namespace, Name: accountKey.Name, Generation: 1},
		Spec: v1alpha1.CloudProviderAccountSpec{AWSConfig: &v1alpha1.CloudProviderAccountAWSConfig{
			SecretRef: &v1alpha1.SecretReference{Name: "aws", Namespace: accountKey.Namespace, Key: "credentials"},
			Region:    regions, Endpoint: l.server.URL(),
		}},
	}
}

func (l *lab) secret(value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: accountKey.Namespace, Name: "aws"},
		Data: map[string][]byte{"credentials": []byte(value)}}
}

func (l *lab) ces(namespace, name string, entries ...v1alpha1.VirtualMachineSelector) *v1alpha1.CloudEntitySelector {
	return &v1alpha1.CloudEntitySelector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1},
		Spec: v1alpha1.CloudEntitySelectorSpec{
			AccountName: accountKey.Name, AccountNamespace: accountKey.Namespace, VMSelector: entries,
		},
	}
}

func wholeVPC(id string) v1alpha1.VirtualMachineSelector {
	return v1alpha1.VirtualMachineSelector{VpcMatch: &v1alpha1.EntityMatch{MatchID: id}}
}

// reconcile runs one pass and returns when the next is due.
func (l *lab) reconcile() time.Duration {
	l.Helper()
	result, err := l.inv.Reconcile(l.Context(), reconcile.Request{NamespacedName: accountKey})
	if err != nil {
		l.Fatal(err)
	}
	return result.RequeueAfter
}

// names lists the objects of a kind, "namespace/name", sorted.
func names[T any, L interface {
	*T
	client.ObjectList
}](l *lab) []string {
	l.Helper()
	list := L(new(T))
	if err := l.api.List(l.Context(), list); err != nil {
		l.Fatal(err)
	}
	out := []string{}
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		a, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		out = append(out, a.GetNamespace()+"/"+a.GetName())
		return nil
	}); err != nil {
		l.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func (l *lab) vms() []string      { return names[v1alpha1.VirtualMachineList](l) }
func (l *lab) vpcs() []string     { return names[v1alpha1.VpcList](l) }
func (l *lab) entities() []string { return names[antreav1alpha2.ExternalEntityList](l) }
func (l *lab) nodes() []string    { return names[antreav1alpha1.ExternalNodeList](l) }

func get[T client.Object](l *lab, o T, namespace, name string) T {
	l.Helper()
	if err := l.api.Get(l.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o); err != nil {
		l.Fatalf("%v; events %v", err, l.events.take())
	}
	return o
}

func (l *lab) account() *v1alpha1.CloudProviderAccount {
	l.Helper()
	return get(l, &v1alpha1.CloudProviderAccount{}, accountKey.Namespace, accountKey.Name)
}

// condition returns "status reason" of a condition; "" if it is not there.
func condition(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// wantAccount checks the conditions of the account and that its error says something, or nothing.
func (l *lab) wantAccount(ready, credentials, reachable, errorText string) {
	l.Helper()
	st := l.account().Status
	for kind, want := range map[string]string{
		v1alpha1.ConditionReady: ready, v1alpha1.ConditionCredentialsValid: credentials, v1alpha1.ConditionReachable: reachable,
	} {
		if got := condition(st.Conditions, kind); got != want {
			l.Errorf("%s is %q; want %q: %s", kind, got, want, st.Error)
		}
	}
	if (errorText == "") != (st.Error == "") || !strings.Contains(st.Error, errorText) {
		l.Errorf("status.error is %q; want %q in it", st.Error, errorText)
	}
}

func (l *lab) wantEvents(want ...string) {
	l.Helper()
	got := l.events.take()
	ok := len(got) == len(want)
	for i := range got {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		l.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (l *lab) want(what string, got []string, want ...string) {
	l.Helper()
	if !slices.Equal(got, want) {
		l.Errorf("%s %v; want %v", what, got, want)
	}
}

// retag changes a tag of a VM in the cloud.
func (l *lab) retag(value string) {
	l.Helper()
	if err := l.region(oregon).CreateTags([]string{vm1}, []simaws.Tag{{Key: "n", Value: value}}); err != nil {
		l.Fatal(err)
	}
}

// calls counts the calls of an action so far.
func (l *lab) calls(action string) int {
	n := 0
	for _, c := range l.server.Journal().Calls(0) {
		if c.Action == action {
			n++
		}
	}
	return n
}

// releaser releases when told to.
type releaser struct {
	mu       sync.Mutex
	released bool
}

func (r *releaser) Released(string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.released
}

func (r *releaser) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = true
}

func (l *lab) update(o client.Object) {
	l.Helper()
	if err := l.api.Update(l.Context(), o); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) delete(o client.Object) {
	l.Helper()
	if err := l.api.Delete(context.WithoutCancel(l.Context()), o); err != nil {
		l.Fatal(err)
	}
}

// shortSleep lets the adapter wait for a moment instead of for minutes.
func shortSleep(ctx context.Context, _ time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(time.Millisecond):
	}
	return ctx.Err()
}

func request(key types.NamespacedName) reconcile.Request {
	return reconcile.Request{NamespacedName: key}
}

// gated is a provider whose observations wait for the lab's gates.
type gated struct {
	cloud.Provider
	lab *lab
}

func (g gated) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	if gate := g.lab.gate[s.Region]; gate != nil {
		if g.lab.begun != nil {
			g.lab.begun <- struct{}{}
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return g.Provider.Observe(ctx, s)
}
