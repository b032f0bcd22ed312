package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	adminv1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	adminv2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// servedKinds is a Discovery over what the test says.
type servedKinds struct {
	mu        sync.Mutex
	resources map[string][]string
	broken    bool
}

// serve sets what is served.
func (s *servedKinds) serve(resources map[string][]string, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources, s.broken = resources, broken
}

func (s *servedKinds) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, errors.New("the server is starting")
	}
	names, ok := s.resources[version]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, n := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: n})
	}
	return list, nil
}

func (w *testWorld) namespaceWithPod() {
	w.put(decode[corev1.Namespace](w.t, `metadata: {name: app, labels: {team: a}}`))
	w.put(decode[corev1.Pod](w.t, `
metadata: {namespace: app, name: web, labels: {role: web}}
spec: {nodeName: n1, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 10.0.0.1}]}`))
}

func clusterPolicy(t *testing.T, generation int64, action string) *adminv2.ClusterNetworkPolicy {
	return decode[adminv2.ClusterNetworkPolicy](t, fmt.Sprintf(`
metadata: {name: guard, uid: uid-guard, generation: %d}
spec:
  tier: Admin
  priority: 5
  subject: {namespaces: {matchLabels: {team: a}}}
  ingress: [{name: r, action: %s, from: [{namespaces: {}}]}]`, generation, action))
}

func (w *testWorld) wantConditions(step string, want ...string) {
	w.t.Helper()
	p := get(w, &adminv2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"}})
	var got []string
	for _, c := range p.Status.Conditions {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s=%s %s %d: %s", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message)))
		if c.LastTransitionTime.IsZero() {
			w.t.Errorf("%s: %s has no time", step, c.Type)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

func TestUpstreamPolicyConditions(t *testing.T) {
	w := newTestWorld(t)
	w.namespaceWithPod()
	w.put(clusterPolicy(t, 1, "Deny"))
	w.settle()
	w.wantConditions("created", "Realizable=True Computed 1:", "Realized=False Realizing 1: 0 of 1 enforcers have realized generation 1")
	w.report("uid-guard", "n1", 1, "no memory")
	w.wantConditions("failed", "Realizable=True Computed 1:",
		`Realized=False Failed 1: 0 of 1 enforcers have realized generation 1; Failed Nodes count 1: "n1":"no memory"`)
	w.report("uid-guard", "n1", 1, "")
	w.wantConditions("realized", "Realizable=True Computed 1:", "Realized=True Realized 1: 1 of 1 enforcers have realized generation 1")

	odd := clusterPolicy(t, 2, "Accept")
	odd.Spec.Ingress[0].From = append(odd.Spec.Ingress[0].From, adminv2.ClusterNetworkPolicyIngressPeer{})
	w.put(odd)
	w.settle()
	w.wantConditions("written for a later version",
		`Realizable=True Computed 2: spec.ingress[0].from[1]: got nothing that is understood, want namespaces or pods; the rule allows nothing for it`,
		"Realized=False Realizing 2: 0 of 1 enforcers have realized generation 2")
	wrong := clusterPolicy(t, 3, "Deny")
	wrong.Spec.Subject.Namespaces.MatchLabels["team"] = "no such value!"
	w.put(wrong)
	w.settle()
	w.wantConditions("invalid",
		`Realizable=False NetworkPolicyInvalid 3: spec.subject.namespaces.matchLabels[team]: invalid value "no such value!": want `+labelValueRule,
		"Realized=False Failed 3: this generation cannot be computed: see the condition Realizable")
	w.put(clusterPolicy(t, 4, "Deny"))
	w.report("uid-guard", "n1", 4, "")
	w.wantConditions("recovered", "Realizable=True Computed 4:", "Realized=True Realized 4: 1 of 1 enforcers have realized generation 4")
	w.Differ(map[types.UID]Differing{"uid-guard": {"Leaks", "it passes"}})
	w.settle()
	w.wantConditions("traffic differs", "Realizable=True Computed 4:", "Realized=True Realized 4: 1 of 1 enforcers have realized generation 4", "TrafficAgrees=False Leaks 4: it passes")
	w.put(get(w, &adminv2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"}}))
	w.Differ(nil)
	w.settle()
	w.wantConditions("traffic agrees", "Realizable=True Computed 4:", "Realized=True Realized 4: 1 of 1 enforcers have realized generation 4")
}

// labelValueRule is what the engine says about label values.
const labelValueRule = "a label value: empty, or at most 63 letters, digits, '-', '_', '.', beginning and ending with a letter or digit"

func TestUpstreamKindsComeAndGo(t *testing.T) {
	w := newTestWorld(t)
	served := &servedKinds{broken: true, resources: map[string][]string{"policy.networking.k8s.io/v1alpha1": {"adminnetworkpolicies"}}}
	w.Options.Discovery = served
	look := func(want int) {
		t.Helper()
		started, err := w.upstream.look(t.Context())
		if (err != nil) != served.broken || len(started) != want {
			t.Errorf("look starts %d watches, want %d (%v)", len(started), want, err)
		}
	}
	informers := w.Options.Informers.(*handInformers)
	admin := decode[adminv1.AdminNetworkPolicy](t, `
metadata: {name: a, uid: uid-a, generation: 1}
spec: {priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{nodes: {}}]}]}`)
	policies := func(want int) {
		t.Helper()
		w.settle()
		if got := len(w.engine.Listing().Policies); got != want {
			t.Errorf("%d policies are computed, want %d", got, want)
		}
	}
	look(0)
	served.broken = false
	look(1)
	look(0)
	informer := informers.of(admin)
	informer.Add(admin)
	policies(1)

	// A server that starts may not know for a moment what it has.
	served.broken = true
	for range 2 * missesUntilGone {
		look(0)
	}
	served.broken = false
	served.resources = nil
	for range missesUntilGone - 1 {
		look(0)
	}
	policies(1)
	look(0)
	policies(0)
	informer.Add(admin)
	policies(0)
	if w.upstream.lastSeen("uid-a") != nil {
		t.Error("a policy that is gone is held")
	}

	served.resources = map[string][]string{
		"policy.networking.k8s.io/v1alpha1": {"adminnetworkpolicies", "baselineadminnetworkpolicies"},
		"policy.networking.k8s.io/v1alpha2": {"clusternetworkpolicies"},
	}
	look(3)
	if again := informers.of(admin); again == informer {
		t.Error("the old informer was not removed")
	}
	informers.of(admin).Add(admin)
	informers.of(&adminv2.ClusterNetworkPolicy{}).Add(clusterPolicy(t, 1, "Deny"))
	policies(2)
	informers.of(admin).Delete(admin)
	policies(1)
}

// The running loop waits until it knows what is served, and notices what comes and goes.
func TestLoopFollowsUpstreamKinds(t *testing.T) {
	s := testScheme(t)
	api := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&adminv2.ClusterNetworkPolicy{}).Build()
	informers := &handInformers{scheme: s, informers: map[string]*controllertest.FakeInformer{}, held: map[string]bool{}}
	served, clock := &servedKinds{broken: true}, clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	watching := make(chan struct{})
	logger := funcr.New(func(_, args string) {
		if strings.Contains(args, "Computing policies of this kind as well") {
			close(watching)
		}
	}, funcr.Options{})
	c, err := New(Options{Informers: informers, Client: api, Discovery: served, Recorder: &recordedEvents{}, Clock: clock, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	published := func(what string, want int) {
		t.Helper()
		eventually(t, what, func() bool {
			clock.Step(discoverEvery)
			objects, _, err := c.Store().List(watchstore.NetworkPolicies, "")
			return err == nil && len(objects) == want
		})
	}
	clock.Step(discoverEvery)
	if _, _, err := c.Store().List(watchstore.NetworkPolicies, ""); err == nil {
		t.Error("something is published before it is known what is served")
	}
	served.serve(nil, false)
	published("the first publication without the kinds", 0)
	served.serve(map[string][]string{"policy.networking.k8s.io/v1alpha2": {"clusternetworkpolicies"}}, false)
	guard := clusterPolicy(t, 1, "Deny")
	if err := api.Create(ctx, guard.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the informer of the kind", func() bool {
		clock.Step(discoverEvery)
		select {
		case <-watching:
			return true
		default:
			return false
		}
	})
	informers.of(guard).Add(guard)
	published("the policy", 1)
	eventually(t, "its conditions", func() bool {
		p := &adminv2.ClusterNetworkPolicy{}
		return api.Get(ctx, client.ObjectKeyFromObject(guard), p) == nil && len(p.Status.Conditions) == 2
	})
	served.serve(nil, false)
	published("the removal of the kind", 0)
}
