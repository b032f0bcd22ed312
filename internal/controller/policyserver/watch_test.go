package policyserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// policyServer is a policy server with one policy, that is there while gone is open.
type policyServer struct{ gone chan chan struct{} }

func newPolicyServer() *policyServer {
	s := &policyServer{make(chan chan struct{}, 1)}
	s.gone <- make(chan struct{})
	return s
}

// leave ends all watches and refuses new ones, until back.
func (s *policyServer) leave() {
	now := <-s.gone
	close(now)
	s.gone <- now
}

func (s *policyServer) back() {
	<-s.gone
	s.gone <- make(chan struct{})
}

func (s *policyServer) Watch(_ context.Context, r enforcer.Resource, _ string) (enforcer.Stream, error) {
	now := <-s.gone
	s.gone <- now
	select {
	case <-now:
		return nil, errors.New("connection refused")
	default:
	}
	w := &policyStream{gone: now}
	switch r {
	case enforcer.NetworkPolicies:
		w.left = []watch.Event{{Type: watch.Added, Object: &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "u"},
			SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "shop", Name: "computed", UID: "u"}}},
			{Type: watch.Bookmark, Object: &v1beta2.NetworkPolicy{}}}
	case enforcer.AddressGroups:
		w.left = []watch.Event{{Type: watch.Bookmark, Object: &v1beta2.AddressGroup{}}}
	case enforcer.AppliedToGroups:
		w.left = []watch.Event{{Type: watch.Bookmark, Object: &v1beta2.AppliedToGroup{}}}
	}
	return w, nil
}

type policyStream struct {
	left []watch.Event
	gone chan struct{}
}

func (w *policyStream) Next(ctx context.Context) (watch.Event, error) {
	if len(w.left) > 0 {
		next := w.left[0]
		w.left = w.left[1:]
		return next, nil
	}
	select {
	case <-w.gone:
		return watch.Event{}, errors.New("connection refused")
	case <-ctx.Done():
		return watch.Event{}, ctx.Err()
	}
}

func (*policyStream) Stop() {}

// TestPolicyServerIsAway: accounts and policies say that the Antrea Controller is away, and not
// that it was when it is back. A short break of a watch is nothing to be told, and policies that it
// is not about are left alone.
func TestPolicyServerIsAway(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(cloudv1.AddToScheme(scheme), antreav1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "prod"}}
	policy := func(name string, generation int64, phase antreav1beta1.NetworkPolicyPhase) *antreav1beta1.NetworkPolicy {
		return &antreav1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: generation},
			Status: antreav1beta1.NetworkPolicyStatus{Phase: phase, ObservedGeneration: 1}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(account, &antreav1beta1.NetworkPolicy{}, &antreav1beta1.ClusterNetworkPolicy{}).
		WithObjects(account, policy("computed", 1, antreav1beta1.NetworkPolicyRealized), policy("elsewhere", 1, antreav1beta1.NetworkPolicyRealized),
			policy("changed", 2, antreav1beta1.NetworkPolicyRealized)).Build()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	told := events.NewFakeRecorder(10)
	f := &Watch{Client: c, Policies: func() (client.Client, error) { return c, nil }, Events: told, Clock: clk, Log: logr.Discard()}
	server := newPolicyServer()
	m := enforcer.Follower{Source: server, Clock: clk, Told: f.Mirror, Log: logr.Discard()}.Mirror("cloud/vms/prod", nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() { m.Run(ctx); ended <- struct{}{} }()
	go func() { _ = f.Start(ctx); ended <- struct{}{} }()
	defer func() { stop(); <-ended; <-ended }()

	says := func() (account string, policies string) {
		var a cloudv1.CloudProviderAccount
		var list antreav1beta1.NetworkPolicyList
		if err := errors.Join(c.Get(ctx, client.ObjectKey{Namespace: "vms", Name: "prod"}, &a), c.List(ctx, &list)); err != nil {
			t.Fatal(err)
		}
		if cond := meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionPoliciesReceived); cond != nil {
			account = string(cond.Status) + " " + cond.Reason
		}
		for _, p := range list.Items {
			for _, cond := range p.Status.Conditions {
				if cond.Type == antreav1beta1.NetworkPolicyConditionReceived && strings.Contains(cond.Message, "account vms/prod") &&
					strings.HasPrefix(p.Status.Message, shortAway) {
					policies += p.Name + " "
				}
			}
		}
		return account, policies
	}
	until := func(what, wantAccount, wantPolicies string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; clk.Step(time.Second) {
			account, policies := says()
			if account == wantAccount && policies == wantPolicies {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the account says %q, and the policies %q", what, account, policies)
			}
			time.Sleep(time.Millisecond)
		}
	}
	until("there", "True OK", "")
	server.leave()
	server.back()
	until("a short break", "True OK", "")
	server.leave()
	until("away", "False PolicyServerAway", "changed computed ")
	if event := <-told.Events; !strings.Contains(event, "PolicyServerAway") || !strings.Contains(event, "connection refused") {
		t.Errorf("the event is %s", event)
	}
	server.back()
	until("back", "True OK", "")
	if event := <-told.Events; !strings.Contains(event, "PolicyServerBack") {
		t.Errorf("the event is %s", event)
	}
	select {
	case event := <-told.Events:
		t.Errorf("one more event: %s", event)
	default:
	}
}
