package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/kinds"
)

// handInformers are informers that the test feeds by hand, by Go type.
type handInformers map[string]*handInformer

type handInformer struct {
	*controllertest.FakeInformer
	store toolscache.Store
}

// GetStore implements toolscache.SharedInformer, which the fake panics at.
func (i *handInformer) GetStore() toolscache.Store { return i.store }

func (h handInformers) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	name := fmt.Sprintf("%T", o)
	if h[name] == nil {
		h[name] = &handInformer{controllertest.NewFakeInformer(), toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}
	}
	return h[name], nil
}

// count is what the policy controller has heard.
type count uint64

func (c *count) Heard() uint64 { return uint64(*c) }

// testReviews are reviews over objects that a test holds.
type testReviews struct {
	*reviews
	informers handInformers
	computed  count
	api       client.Client
	clock     *clocktesting.FakeClock
	t         *testing.T
}

func newTestReviews(t *testing.T) *testReviews {
	t.Helper()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	r := &testReviews{
		informers: handInformers{}, api: fake.NewClientBuilder().WithScheme(scheme).Build(), t: t,
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	proc := &process{clouds: inventory.New(inventory.Options{})}
	r.reviews, err = newReviews(t.Context(), r.informers, r.api, r.api, &r.computed, "c", func() error { return nil }, r.clock, proc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask returns as of when a question is answered.
func (r *testReviews) ask() time.Time {
	r.t.Helper()
	q := &analysis.ReachReview{Spec: analysis.ReachReviewSpec{To: "192.0.2.1"}}
	if err := r.Review(r.t.Context(), q, apiserver.Sight{All: true}); err != nil {
		r.t.Fatal(err)
	}
	return q.Status.Seen.AsOf.Time
}

// TestAnswersNoticeEveryKind: a change of any kind that answers are made from, and of nothing else,
// makes the next answer a new one.
func TestAnswersNoticeEveryKind(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.Of(kinds.Explained) {
		t.Run(k.Kind+"."+k.Group, func(t *testing.T) {
			t.Parallel()
			r := newTestReviews(t)
			first := r.ask()
			r.clock.Step(reviewAge + time.Second)
			if at := r.ask(); !at.Equal(first) {
				t.Fatalf("the answer is of %s though nothing has changed since %s", at, first)
			}
			object := k.New()
			object.SetName("x")
			object.SetNamespace("n")
			if k.Is(kinds.Computed) {
				r.computed++ // see TestComputedKinds of the policy controller
			} else if informer := r.informers[fmt.Sprintf("%T", object)]; informer == nil {
				t.Fatal("nobody listens to the informer")
			} else {
				informer.Add(object)
			}
			if at := r.ask(); !at.After(first) {
				t.Errorf("the answer is still that of %s", at)
			}
		})
	}
}

// TestAnswersHoldEveryKind: what is listed of a kind is part of the objects that answers are made
// from.
func TestAnswersHoldEveryKind(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.Of(kinds.Explained) {
		if k.Kind == "Pod" {
			continue // out of the store of the informer, trimmed
		}
		r, object := newTestReviews(t), k.New()
		object.SetName("x")
		if k.Namespaced {
			object.SetNamespace("n")
		}
		if err := r.api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		in, err := r.objects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !in.Remove(k, object.GetNamespace(), "x") {
			t.Errorf("%s (%s) is not among the objects that answers are made from", k.Kind, k.Group)
		}
	}
}

// TestAnswersAge: however quiet it is, no answer is older than a minute, because releases end by
// the clock alone.
func TestAnswersAge(t *testing.T) {
	t.Parallel()
	r := newTestReviews(t)
	first := r.ask()
	r.clock.Step(reviewMost - time.Second)
	if at := r.ask(); !at.Equal(first) {
		t.Errorf("worked out anew at %s though nothing has changed", at)
	}
	r.clock.Step(time.Second)
	if at := r.ask(); !at.After(first) {
		t.Errorf("the answer is still that of %s", at)
	}
}

// TestHiddenChangesTellNothing: a caller that may not see everything gets the same bytes whether or
// not something has changed that it may not see, and whether or not others have asked meanwhile.
func TestHiddenChangesTellNothing(t *testing.T) {
	t.Parallel()
	shop := apiserver.Sight{Namespace: func(n string) bool { return n == "shop" }}
	told := func(hidden bool) string {
		r := newTestReviews(t)
		until := r.clock.Now().Add(20 * time.Second).Format(time.RFC3339)
		own := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a",
			Annotations: map[string]string{cloudv1.AnnotationBreakGlass: "fire", cloudv1.AnnotationBreakGlassUntil: until}}}
		if err := r.api.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		var out []any
		ask := func() {
			for _, q := range []runtime.Object{
				&analysis.FlowReview{Spec: analysis.FlowReviewSpec{From: "192.0.2.1", To: "192.0.2.2", Protocol: "TCP", Port: "80"}},
				&analysis.ReachReview{Spec: analysis.ReachReviewSpec{To: "any"}}, &analysis.EffectiveRules{}, &analysis.PlanReview{Spec: analysis.PlanReviewSpec{Map: true}},
			} {
				if err := r.Review(t.Context(), q, shop); err != nil {
					t.Fatalf("%T: %v", q, err)
				}
				out = append(out, q)
			}
		}
		ask()
		for range 6 {
			r.clock.Step(7 * time.Second)
			if hidden {
				r.computed++
				r.informers["*v1beta1.AntreaAgentInfo"].Add(&antreav1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "host"}})
				r.ask()
			}
			r.clock.Step(time.Second)
			ask()
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one, two := told(false), told(true)
	for at := range min(len(one), len(two)) {
		if one[at] != two[at] {
			t.Fatalf("%s\n%s", one[max(0, at-200):min(len(one), at+200)], two[max(0, at-200):min(len(two), at+200)])
		}
	}
	if len(one) != len(two) || !strings.Contains(one, "2026-01-01T00:00:46.000000Z") {
		t.Errorf("%d bytes and %d: %.300s", len(one), len(two), one)
	}
}

// TestSignsOfLife: that an agent is still there is no news, and all else that it says is.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	info := func(change func(*antreav1beta1.AntreaAgentInfo)) client.Object {
		i := &antreav1beta1.AntreaAgentInfo{
			ObjectMeta: metav1.ObjectMeta{Name: "h", UID: "u", Labels: map[string]string{}, Annotations: map[string]string{}}, Version: "v1",
			AgentConditions: []antreav1beta1.AgentCondition{{Type: antreav1beta1.AgentHealthy, Status: "True"}},
		}
		change(i)
		return i
	}
	for what, c := range map[string]struct {
		change func(*antreav1beta1.AntreaAgentInfo)
		news   bool
	}{
		"a heartbeat": {func(i *antreav1beta1.AntreaAgentInfo) {
			i.ResourceVersion, i.AgentConditions[0].LastHeartbeatTime = "2", metav1.NewTime(time.Unix(5, 0))
		}, false},
		"it is ill":       {func(i *antreav1beta1.AntreaAgentInfo) { i.AgentConditions[0].Status = "False" }, true},
		"another agent":   {func(i *antreav1beta1.AntreaAgentInfo) { i.Labels[cloudv1.LabelAllowIsolates] = "true" }, true},
		"other filters":   {func(i *antreav1beta1.AntreaAgentInfo) { i.Annotations[cloudv1.AnnotationForeignFilters] = "x" }, true},
		"another version": {func(i *antreav1beta1.AntreaAgentInfo) { i.Version = "v2" }, true},
		"another host":    {func(i *antreav1beta1.AntreaAgentInfo) { i.NodeRef.Name = "other" }, true},
	} {
		r := newTestReviews(t)
		before := r.changes()
		r.informers[fmt.Sprintf("%T", &antreav1beta1.AntreaAgentInfo{})].Update(info(func(*antreav1beta1.AntreaAgentInfo) {}), info(c.change))
		if news := r.changes() != before; news != c.news {
			t.Errorf("%s: news is %v, want %v", what, news, c.news)
		}
	}
}

// TestSchemeOfKinds: the scheme knows every kind of the table, and no stored kind of ours that the
// table does not have.
func TestSchemeOfKinds(t *testing.T) {
	t.Parallel()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds.All() {
		for _, o := range []runtime.Object{k.New(), k.NewList()} {
			if got, _, err := scheme.ObjectKinds(o); err != nil || got[0].GroupVersion() != k.GroupVersion() || got[0].Kind != k.Kind && got[0].Kind != k.Kind+"List" {
				t.Errorf("%T is %v, want %s: %v", o, got, k.GroupVersionKind, err)
			}
		}
	}
	for gvk := range scheme.AllKnownTypes() {
		switch gvk.Group {
		case cloudv1.GroupVersion().Group, antreav1beta1.GroupVersion().Group, "nephele.io", "policy.networking.k8s.io":
		default:
			continue
		}
		one, _ := scheme.New(gvk)
		_, stored := one.(client.Object)
		if _, known := kinds.Find(gvk.Group, gvk.Kind); stored && !known {
			t.Errorf("%s is in the scheme and not in the table of internal/kinds", gvk)
		}
	}
}

// TestLongTexts: no text of a question but manifests is longer than names and selectors are, for
// selectors are held against every workload.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	r := newTestReviews(t)
	all := apiserver.Sight{All: true, Cluster: true, Namespace: func(string) bool { return true }, May: func(_, _, _, _, _ string) bool { return true }}
	n := 0
	for _, q := range []runtime.Object{&analysis.FlowReview{}, &analysis.ReachReview{}, &analysis.EffectiveRules{}, &analysis.PlanReview{}} {
		spec := reflect.ValueOf(q).Elem().FieldByName("Spec")
		for f, v := range spec.Fields() {
			if f.Type.Kind() != reflect.String || f.Name == "Manifests" {
				continue
			}
			n++
			field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			v.SetString(strings.Repeat("!a,", mostText))
			err := r.Review(t.Context(), q, all)
			var wrong apiserver.WrongQuestion
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "spec."+field+": ") || len(err.Error()) > 200 {
				t.Errorf("%T: %s: %v", q, field, err)
			}
			v.SetString("")
		}
	}
	if n < 13 {
		t.Errorf("only %d texts", n)
	}
}

// TestTooMuchWork: an answer that costs too much ends, says what to narrow, and so does one that
// nobody waits for; what others ask next is answered.
func TestTooMuchWork(t *testing.T) {
	t.Parallel()
	r := newTestReviews(t)
	for i := range 50 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i))}, Status: corev1.PodStatus{PodIP: fmt.Sprint("10.0.0.", i), PodIPs: []corev1.PodIP{{IP: fmt.Sprint("10.0.0.", i)}}}}
		if err := r.pods.Add(convert.TrimPod(pod)); err != nil {
			t.Fatal(err)
		}
	}
	all := apiserver.Sight{All: true, Cluster: true, Namespace: func(string) bool { return true }, May: func(_, _, _, _, _ string) bool { return true }}
	questions := map[string]runtime.Object{
		"name one machine": &analysis.ReachReview{Spec: analysis.ReachReviewSpec{To: "any"}}, "narrow it with from and to": &analysis.ReachReview{Spec: analysis.ReachReviewSpec{Grouped: true}},
		"ask with of": &analysis.EffectiveRules{}, "leave out the map": &analysis.PlanReview{Spec: analysis.PlanReviewSpec{Map: true}},
	}
	r.work = 1
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for says, q := range questions {
		err := r.Review(t.Context(), q.DeepCopyObject(), all)
		var wrong apiserver.WrongQuestion
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), says) {
			t.Errorf("%T: %v, want it to say %q", q, err, says)
		}
	}
	r.work = reviewWork
	for _, q := range questions {
		if err := r.Review(t.Context(), q, all); err != nil {
			t.Errorf("%T: %v", q, err)
		}
	}
	if err := r.Review(gone, &analysis.PlanReview{Spec: analysis.PlanReviewSpec{Map: true}}, all); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
}
