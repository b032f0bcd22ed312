package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

// bench is a cluster with a recorder.
type bench struct {
	t     *testing.T
	api   client.WithWatch
	clock *testclock.FakeClock
	*Recorder
	// writes counts the requests that write, and broken is what they fail with.
	writes int
	broken error
	// managers are the field managers of the objects that are read.
	managers []metav1.ManagedFieldsEntry
}

func newBench(t *testing.T, b Bounds) *bench {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, antreav1beta1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	out := &bench{t: t, clock: testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	write := func(do func() error) error {
		out.writes++
		if out.broken != nil {
			return out.broken
		}
		return do()
	}
	out.api = fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&v1alpha1.PolicyRevision{}, &v1alpha1.ClusterPolicyRevision{}).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				// The fake knows no field selectors without an index.
				name := ""
				opts = slices.DeleteFunc(slices.Clone(opts), func(o client.ListOption) bool {
					f, ok := o.(client.MatchingFields)
					name += f["metadata.name"]
					return ok
				})
				err := c.List(ctx, l, opts...)
				if items, ok := l.(*unstructured.UnstructuredList); ok {
					items.Items = slices.DeleteFunc(items.Items, func(o unstructured.Unstructured) bool { return o.GetName() != name })
					for i := range items.Items {
						items.Items[i].SetManagedFields(out.managers)
					}
				}
				return err
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return write(func() error { return c.Create(ctx, o, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return write(func() error { return c.Delete(ctx, o, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
		}).Build()
	out.restart(b)
	return out
}

// restart begins with a recorder that knows nothing.
func (b *bench) restart(bounds Bounds) {
	b.Recorder = New(Options{Client: b.api, Reader: b.api, Clock: b.clock, Log: logr.Discard(), Bounds: bounds, Authors: NewAuthors()})
}

// run lets the recorder work for so long.
func (b *bench) run(d time.Duration) {
	b.t.Helper()
	for end := b.clock.Now().Add(d); ; {
		wait, err := b.work(b.t.Context())
		if err != nil {
			wait = max(wait, retry)
		}
		now := b.clock.Now()
		if !now.Before(end) {
			return
		}
		b.clock.SetTime(now.Add(max(min(wait, end.Sub(now)), time.Millisecond)))
	}
}

// revisions are all that there are, as NAMESPACE/NAME: CHANGE PHASE.
func (b *bench) revisions() []string {
	b.t.Helper()
	var out []string
	var own v1alpha1.PolicyRevisionList
	var cluster v1alpha1.ClusterPolicyRevisionList
	if err := errors.Join(b.api.List(b.t.Context(), &own), b.api.List(b.t.Context(), &cluster)); err != nil {
		b.t.Fatal(err)
	}
	for _, r := range own.Items {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s/%s: %s %s", r.Namespace, r.Name, r.Spec.Change, r.Status.Phase)))
	}
	for _, r := range cluster.Items {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s", r.Name, r.Spec.Change, r.Status.Phase)))
	}
	slices.Sort(out)
	return out
}

func (b *bench) want(what string, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	if got := b.revisions(); !slices.Equal(got, want) {
		b.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (b *bench) revision(ns, name string) *v1alpha1.PolicyRevision {
	b.t.Helper()
	var out v1alpha1.PolicyRevision
	if err := b.api.Get(b.t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &out); err != nil {
		b.t.Fatal(err)
	}
	return &out
}

// policyAt is a policy with a priority.
func policyAt(ns, name string, generation int64, priority float64) *antreav1beta1.NetworkPolicy {
	return &antreav1beta1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-" + ns + "-" + name), Generation: generation},
		Spec:       antreav1beta1.NetworkPolicySpec{Priority: priority},
	}
}

func realized(p *antreav1beta1.NetworkPolicy, phase antreav1beta1.NetworkPolicyPhase) *antreav1beta1.NetworkPolicy {
	p = p.DeepCopy()
	p.Status = antreav1beta1.NetworkPolicyStatus{Phase: phase, ObservedGeneration: p.Generation, VMs: "2/2"}
	return p
}

// TestOneRevisionPerChange: every version is recorded once, whatever comes twice, and its content
// is what it was.
func TestOneRevisionPerChange(t *testing.T) {
	b := newBench(t, DefaultBounds())
	b.Changed(policyAt("shop", "old", 1, 1))
	b.Synced()
	b.run(time.Second)
	first := policyAt("shop", "p", 1, 5)
	first.Labels = map[string]string{"team": "shop"}
	first.Annotations = map[string]string{"nephele.io/on-refusal": "keep", "somebody.else/secret": "x"}
	b.Changed(first)
	b.run(time.Second)
	second := policyAt("shop", "p", 2, 7)
	second.Annotations = first.Annotations
	for range 3 {
		b.Changed(second)
		b.run(time.Second)
	}
	staged := second.DeepCopy()
	staged.Annotations = map[string]string{"nephele.io/stage": "plan"}
	b.Changed(staged)
	other := staged.DeepCopy()
	other.Annotations["somebody.else/secret"] = "y"
	b.Changed(other)
	b.run(time.Second)
	b.want("recorded", "shop/annp-old-1: Found", "shop/annp-p-1: Created", "shop/annp-p-2: Changed", "shop/annp-p-3: Changed")

	o, err := Content(&b.revision("shop", "annp-p-1").Spec)
	if err != nil {
		t.Fatal(err)
	}
	priority, _, _ := unstructuredNumber(o.Object, "spec", "priority")
	if priority != 5 || o.GetLabels()["team"] != "shop" || !maps.Equal(o.GetAnnotations(), map[string]string{"nephele.io/on-refusal": "keep"}) {
		t.Errorf("the content is %v", o.Object)
	}

	b.Deleted(other)
	b.Deleted(other)
	b.run(time.Second)
	again := policyAt("shop", "p", 1, 5)
	again.UID = "another"
	b.Changed(again)
	b.run(time.Second)
	b.want("made again", "shop/annp-old-1: Found", "shop/annp-p-1: Created", "shop/annp-p-2: Changed", "shop/annp-p-3: Changed", "shop/annp-p-4: Deleted",
		"shop/annp-p-5: Created")
	if _, err := Content(&b.revision("shop", "annp-p-4").Spec); err == nil || !strings.Contains(err.Error(), "take the one before") {
		t.Errorf("the content of a deletion: %v", err)
	}
}

func unstructuredNumber(o map[string]any, path ...string) (float64, bool, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return 0, false, err
	}
	var at any
	if err := json.Unmarshal(raw, &at); err != nil {
		return 0, false, err
	}
	for _, p := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return 0, false, nil
		}
		at = m[p]
	}
	n, ok := at.(float64)
	return n, ok, nil
}

// TestRestart: a process that begins anew makes no revision of what is as it was, one of what has
// changed in between, and one of what is gone.
func TestRestart(t *testing.T) {
	b := newBench(t, DefaultBounds())
	for _, name := range []string{"same", "changed", "gone"} {
		b.Changed(policyAt("shop", name, 1, 5))
	}
	b.Synced()
	b.run(time.Second)
	for range 3 {
		b.restart(DefaultBounds())
		b.Changed(policyAt("shop", "same", 1, 5))
		b.run(time.Second)
		b.Changed(policyAt("shop", "changed", 2, 9))
		b.Synced()
		b.run(time.Second)
	}
	b.want("after three restarts", "shop/annp-same-1: Found", "shop/annp-changed-1: Found", "shop/annp-changed-2: Changed", "shop/annp-gone-1: Found", "shop/annp-gone-2: Deleted")
}

// TestTwoRecorders: a second process, as after a lease that was lost unnoticed, neither doubles a
// revision nor fails.
func TestTwoRecorders(t *testing.T) {
	b := newBench(t, DefaultBounds())
	b.Synced()
	b.run(time.Second)
	other := New(b.Options)
	other.Synced()
	if _, err := other.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Recorder{b.Recorder, other, b.Recorder, other} {
		r.Changed(policyAt("shop", "p", 1, 5))
		if _, err := r.work(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other.Changed(policyAt("shop", "p", 2, 6))
	if _, err := other.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Changed(policyAt("shop", "p", 3, 7))
	b.run(time.Second)
	b.want("by two", "shop/annp-p-1: Created", "shop/annp-p-2: Changed", "shop/annp-p-3: Changed")
}

// TestResult: the last revision says what became of it, also after a restart; the ones before stay
// as they were.
func TestResult(t *testing.T) {
	b := newBench(t, DefaultBounds())
	b.Synced()
	first := policyAt("shop", "p", 1, 5)
	b.Changed(first)
	b.Called("vms/prod", "AntreaNetworkPolicy shop/p", "AuthorizeSecurityGroupIngress", "") // before it is recorded
	b.run(time.Second)
	b.Changed(realized(first, "Realizing"))
	b.Changed(realized(first, "Realized"))
	b.Called("vms/prod", "AntreaNetworkPolicy shop/p", "ModifyNetworkInterfaceAttribute", "")
	b.Called("vms/prod", "AntreaNetworkPolicy shop/p", "ModifyNetworkInterfaceAttribute", "")
	b.Called("vms/prod", "AntreaNetworkPolicy shop/p", "CreateTags", "denied: no\nsuch right")
	b.run(10 * time.Second)
	b.want("realized", "shop/annp-p-1: Created Realized")
	got := b.revision("shop", "annp-p-1").Status
	if len(got.Accounts) != 1 || !maps.Equal(got.Accounts[0].Calls, map[string]int64{"AuthorizeSecurityGroupIngress": 1, "ModifyNetworkInterfaceAttribute": 2}) ||
		got.Accounts[0].Failed != 1 || got.Accounts[0].LastError != "CreateTags: denied: no such right" || got.VMs != "2/2" {
		t.Errorf("status %+v", got)
	}
	b.restart(DefaultBounds())
	b.Changed(realized(first, "Realized"))
	b.Synced()
	b.run(10 * time.Second)
	counted := func() int64 {
		return b.revision("shop", "annp-p-1").Status.Accounts[0].Calls["ModifyNetworkInterfaceAttribute"]
	}
	for range 20 { // a large change is not written call by call
		b.Called("vms/prod", "AntreaNetworkPolicy shop/p", "ModifyNetworkInterfaceAttribute", "")
		b.run(time.Second)
	}
	if n := counted(); n != 2 {
		t.Errorf("after 20 s of calls %d are counted, want the earlier ones", n)
	}
	b.run(20 * time.Second)
	if n := counted(); n != 22 {
		t.Errorf("after a restart %d calls are counted, want 22", n)
	}
	b.Called("vms/prod", "AntreaNetworkPolicy shop/p", "ModifyNetworkInterfaceAttribute", "")
	b.Called("vms/prod", "AntreaNetworkPolicy shop/p", "CreateTags", "denied") // which somebody waits for
	b.run(5 * time.Second)
	if n := counted(); n != 23 {
		t.Errorf("after a failure %d calls are counted, want 23", n)
	}
	second := realized(first, "Realized") // the status is still about the former generation
	second.Generation, second.Spec.Priority = 2, 6
	b.Changed(second)
	b.run(10 * time.Second)
	b.want("changed", "shop/annp-p-1: Created Realized", "shop/annp-p-2: Changed")
	b.Changed(realized(second, "Failed"))
	b.run(10 * time.Second)
	b.want("refused", "shop/annp-p-1: Created Realized", "shop/annp-p-2: Changed Failed")
}

// TestStorm: 100 changes a second for a minute, of one policy and of many, do not make what is kept
// grow without bound, nor what is written; the last version is there in the end.
func TestStorm(t *testing.T) {
	for _, n := range []int{1, 200} {
		b := newBench(t, Bounds{PerObject: 20, Total: 600, Bytes: 10 << 20})
		b.Synced()
		b.run(time.Second)
		for i := range 6000 {
			b.Changed(policyAt("shop", fmt.Sprint("p", i%n), int64(i), float64(i)))
			b.run(10 * time.Millisecond)
		}
		if b.writes > 61*writesPerSecond+writesAtOnce {
			t.Errorf("%d policies: %d writes in a minute", n, b.writes)
		}
		b.run(3 * time.Minute)
		if got := len(b.revisions()); got > min(n*20, 600) || got < n {
			t.Errorf("%d policies: %d revisions are kept", n, got)
		}
		if n == 1 && b.writes > 12 {
			t.Errorf("one policy: %d writes", b.writes)
		}
		l := b.index.lines["uid-shop-p0"]
		last := b.revision("shop", l.entries[len(l.entries)-1].key.Name)
		if want := float64(6000 - n); !strings.Contains(last.Spec.Content, fmt.Sprintf(`"priority":%v`, want)) || last.Spec.Merged == 0 {
			t.Errorf("%d policies: the last revision is %s, want priority %v", n, last.Spec.Content, want)
		}
	}
}

// TestNobodyPushesOutOthers: a user that changes much in a namespace loses its own history, and
// others lose neither theirs nor their turn.
func TestNobodyPushesOutOthers(t *testing.T) {
	b := newBench(t, Bounds{PerObject: 20, Total: 100, Bytes: 10 << 20})
	b.Synced()
	b.run(time.Second)
	for i := range 5 {
		b.Changed(policyAt("quiet", "p", int64(i+1), float64(i)))
		b.run(time.Second)
	}
	for i := range 3000 {
		o := policyAt("loud", fmt.Sprint("p", i), 1, 5)
		b.Changed(o)
		if i%2 == 0 {
			b.Deleted(o)
		}
	}
	b.clock.Step(pause)
	b.Changed(policyAt("quiet", "p", 6, 99))
	b.run(2 * time.Second)
	if last := b.revision("quiet", "annp-p-6"); !strings.Contains(last.Spec.Content, "99") {
		t.Errorf("the quiet one waits for the loud one")
	}
	b.run(10 * time.Minute)
	quiet, loud := 0, 0
	for _, r := range b.revisions() {
		if strings.HasPrefix(r, "quiet/") {
			quiet++
		} else {
			loud++
		}
	}
	if quiet != 6 || loud > 94 {
		t.Errorf("%d revisions of the quiet namespace and %d of the loud one", quiet, loud)
	}
}

// TestBytes: large contents are compressed, and what is kept is bounded in bytes as well; one that
// is too large is told, not kept.
func TestBytes(t *testing.T) {
	b := newBench(t, Bounds{PerObject: 20, Total: 1000, Bytes: 64 << 10})
	b.Synced()
	large := func(n int, cidr func(i int) string) *antreav1beta1.ClusterGroup {
		o := &antreav1beta1.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: "big", UID: "big", Generation: int64(n)}}
		for i := range n {
			o.Spec.IPBlocks = append(o.Spec.IPBlocks, antreav1beta1.IPBlock{CIDR: cidr(i)})
		}
		return o
	}
	b.Changed(large(1000, func(i int) string { return fmt.Sprintf("10.%d.%d.0/24", i/256, i%256) }))
	b.run(time.Second)
	var r v1alpha1.ClusterPolicyRevision
	if err := b.api.Get(t.Context(), client.ObjectKey{Name: "cg-big-1"}, &r); err != nil {
		t.Fatal(err)
	}
	if o, err := Content(&r.Spec); err != nil || r.Spec.Content != "" || len(r.Spec.Compressed) > 11<<10 || !strings.Contains(fmt.Sprint(o.Object), "10.3.231.0/24") {
		t.Errorf("content of %d bytes in %d: %v", r.Spec.Size, len(r.Spec.Compressed), err)
	}
	for i := range 100 {
		b.Changed(policyAt("shop", fmt.Sprint("p", i), 1, 5))
	}
	b.run(time.Minute)
	if b.index.size > 64<<10 || len(b.revisions()) != b.index.all {
		t.Errorf("%d bytes are kept in %d revisions, and the index has %d", b.index.size, len(b.revisions()), b.index.all)
	}
	huge := policyAt("shop", "huge", 1, 5)
	huge.Annotations = map[string]string{}
	for i := range 40000 {
		huge.Annotations[fmt.Sprintf("nephele.io/%d-%x", i, i*i*2654435761)] = fmt.Sprint(i * 7919 * 104729)
	}
	b.Changed(huge)
	b.run(time.Minute)
	got := b.revision("shop", "annp-huge-1")
	if _, err := Content(&got.Spec); err == nil || !strings.Contains(err.Error(), "too many") || got.Spec.Size == 0 {
		t.Errorf("the content of %d bytes: %v", got.Spec.Size, err)
	}
}

// TestAuthors: the author of a change is the user that admission saw make just this version, and
// else the manager of the object as long as that is it.
func TestAuthors(t *testing.T) {
	b := newBench(t, DefaultBounds())
	b.Synced()
	asJSON := func(o client.Object) []byte {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	mine := policyAt("shop", "p", 1, 5)
	mine.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-client-side-apply", Time: &metav1.Time{Time: b.clock.Now()}}}
	b.Authors.Admitted("crd.antrea.io", "networkpolicies", asJSON(mine), "alice")
	refused := policyAt("shop", "p", 1, 6) // admitted here, and refused by somebody else
	b.Authors.Admitted("crd.antrea.io", "networkpolicies", asJSON(refused), "mallory")
	b.Changed(policyAt("shop", "p", 1, 5))
	b.run(time.Second)
	if a := b.revision("shop", "annp-p-1").Spec.Author; a.User != "alice" || a.Manager != "kubectl-client-side-apply" {
		t.Errorf("author %+v", a)
	}
	b.Authors.Deleted("crd.antrea.io", "networkpolicies", asJSON(mine), "carol")
	b.Deleted(policyAt("shop", "p", 1, 5))
	b.run(time.Second)
	if r := b.revision("shop", "annp-p-2").Spec; r.Author.User != "carol" || r.Change != v1alpha1.RevisionDeleted {
		t.Errorf("deleted by %+v", r.Author)
	}
	k8s := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "k", UID: "k", Generation: 1}}
	b.managers = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Time: &metav1.Time{Time: b.clock.Now().Add(-time.Hour)}},
		{Manager: "helm", Time: &metav1.Time{Time: b.clock.Now()}},
		{Manager: "nephele", Subresource: "status", Time: &metav1.Time{Time: b.clock.Now().Add(time.Hour)}},
	}
	if err := b.api.Create(t.Context(), k8s.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	b.Changed(k8s)
	b.run(time.Second)
	if a := b.revision("shop", "netpol-k-1").Spec.Author; a.User != "" || a.Manager != "helm" {
		t.Errorf("author %+v", a)
	}
	for i := range 100 * maxAuthors {
		o := policyAt(fmt.Sprint("ns", i%5), "p", 1, float64(i))
		b.Authors.Admitted("crd.antrea.io", "networkpolicies", asJSON(o), strings.Repeat("x", 1<<16))
	}
	b.Authors.Admitted("crd.antrea.io", "networkpolicies", []byte("{"), "nobody")
	if got := b.Authors.String(); got != "642 authors in 6 namespaces" && got != "643 authors in 6 namespaces" {
		t.Errorf("remembered: %s", got)
	}
}

// TestAuthorOfCalls: the author of the version of a policy that is in force is known before that
// version is recorded, after it, and after a restart; nobody is taken for its author.
func TestAuthorOfCalls(t *testing.T) {
	b := newBench(t, DefaultBounds())
	b.Synced()
	const policy = "AntreaNetworkPolicy shop/p"
	want := func(what, user string) {
		t.Helper()
		if got := b.Author(policy); got != user {
			t.Errorf("%s: %q, want %q", what, got, user)
		}
	}
	admit := func(priority float64, user string) *antreav1beta1.NetworkPolicy {
		p := policyAt("shop", "p", int64(priority), priority)
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		b.Authors.Admitted("crd.antrea.io", "networkpolicies", raw, user)
		return p
	}
	want("no such policy", "")
	b.Changed(admit(1, "alice"))
	want("not recorded yet", "alice")
	b.run(time.Minute)
	want("recorded", "alice")
	admit(2, "mallory") // and refused by somebody else
	want("another one was refused", "alice")
	b.Changed(admit(3, "bob"))
	want("changed", "bob")
	b.run(time.Minute)
	b.restart(DefaultBounds())
	b.Changed(policyAt("shop", "p", 3, 3))
	b.Synced()
	b.run(time.Minute)
	want("after a restart", "bob")
	b.Changed(policyAt("shop", "p", 4, 4))
	want("changed by nobody that admission saw", "")
	raw, err := json.Marshal(policyAt("shop", "p", 4, 4))
	if err != nil {
		t.Fatal(err)
	}
	b.Authors.Deleted("crd.antrea.io", "networkpolicies", raw, "carol")
	b.Deleted(policyAt("shop", "p", 4, 4))
	want("deleted", "carol")
}

// TestFailures: what cannot be written is written later, once, and without the versions in between
// piling up.
func TestFailures(t *testing.T) {
	b := newBench(t, DefaultBounds())
	b.Synced()
	b.run(time.Second)
	b.broken = errors.New("no")
	for i := range 1000 {
		b.Changed(policyAt("shop", "p", int64(i+1), float64(i+1)))
	}
	b.run(time.Minute)
	if n := len(b.subjects["uid-shop-p"].versions); n > maxVersions {
		t.Errorf("%d versions wait", n)
	}
	b.broken = nil
	b.run(3 * time.Minute)
	got := b.revisions()
	if len(got) == 0 || len(got) > maxVersions {
		t.Fatalf("recorded: %v", got)
	}
	if l := b.revision("shop", fmt.Sprintf("annp-p-%d", len(got))); !strings.Contains(l.Spec.Content, `"priority":1000`) {
		t.Errorf("the last version is %s", l.Spec.Content)
	}
}

// BenchmarkTold measures what others pay: a policy that has changed, as informers tell, and one
// that is admitted.
func BenchmarkTold(b *testing.B) {
	p := policyAt("shop", "p", 1, 5)
	for i := range 20 {
		p.Spec.Ingress = append(p.Spec.Ingress, antreav1beta1.Rule{Name: fmt.Sprint("r", i)})
	}
	raw, err := json.Marshal(p)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Changed", func(b *testing.B) {
		r := New(Options{Clock: testclock.NewFakeClock(time.Now()), Bounds: DefaultBounds()})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			next := *p
			next.Generation = int64(i)
			r.Changed(&next)
		}
	})
	b.Run("Admitted", func(b *testing.B) {
		a := NewAuthors()
		b.ReportAllocs()
		for b.Loop() {
			a.Admitted("crd.antrea.io", "networkpolicies", raw, "alice")
		}
	})
}
