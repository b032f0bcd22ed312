package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

func tierOf(name string, priority int32) *v1beta1.Tier {
	return &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.TierSpec{Priority: priority}}
}

// TestTiersNeedAGrant: whose policies come before the teams' policies needs a grant where the tiers
// are made; a tier that is there keeps what it says.
func TestTiersNeedAGrant(t *testing.T) {
	w := newTestWorld(t)
	old := tierOf(v1beta1.TierNetworkOps, 150)
	if err := w.api.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, all are there
		if err := w.keepTiers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var list v1beta1.TierList
	if err := w.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var needed []string
	for i := range list.Items {
		if list.Items[i].Labels["nephele.io/use"] == "required" {
			needed = append(needed, list.Items[i].Name)
		}
	}
	if want := []string{"emergency", "securityops"}; !slices.Equal(needed, want) {
		t.Errorf("a grant is needed for %v, want %v", needed, want)
	}
}

// TestKeepTiers: system tiers come back with their priorities, whichever of them cannot be written
// at first, and tiers that have one priority are told.
func TestKeepTiers(t *testing.T) {
	s := testScheme(t)
	refused := true
	api := fake.NewClientBuilder().WithScheme(s).WithObjects(tierOf("platform", 3), tierOf("aaa", 7), tierOf("bbb", 7), tierOf("other", 50)).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if refused && o.GetName() == v1beta1.TierEmergency {
					return errors.New("no webhook answers")
				}
				return c.Create(ctx, o, opts...)
			},
		}).Build()
	events := &recordedEvents{}
	c, err := New(Options{
		Informers: &handInformers{scheme: s, informers: map[string]*controllertest.FakeInformer{}}, Client: api,
		Recorder: events, Clock: clocktesting.NewFakeClock(metav1.Now().Time), Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.tasks.ShutDown()
	if err := c.keepTiers(t.Context()); err == nil || !strings.Contains(err.Error(), "emergency: no webhook answers") {
		t.Errorf("error %v", err)
	}
	var tiers v1beta1.TierList
	if err := api.List(t.Context(), &tiers); err != nil || len(tiers.Items) != 3+5 {
		t.Errorf("%d tiers (%v), want all but the one that is refused", len(tiers.Items), err)
	}
	refused = false
	events.list = nil
	if err := c.keepTiers(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range systemTiers() {
		var got v1beta1.Tier
		if err := api.Get(
			t.Context(),
			client.ObjectKeyFromObject(want),
			&got,
		); err != nil || got.Spec != want.Spec && got.Name != "platform" ||
			got.Spec.Priority != want.Spec.Priority {
			t.Errorf("%s: %+v (%v)", want.Name, got.Spec, err)
		}
	}
	want := []string{
		"Warning TierPriorityTaken: Tier aaa has the same priority, 7: their policies are compared as if they were in one tier",
		"Warning TierPriorityTaken: Tier emergency has the same priority, 50: their policies are compared as if they were in one tier",
	}
	if !slices.Equal(events.list, want) {
		t.Errorf("events %q, want %q", events.list, want)
	}
}
