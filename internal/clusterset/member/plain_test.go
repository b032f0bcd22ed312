package member

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/member/copies"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
)

// foreign is a member whose policies an Antrea Controller computes.
type foreign struct {
	*Member
	t *testing.T
	// refuses, if set, refuses writes; order is what was written, in order.
	refuses func(o client.Object) error
	order   []string
}

func newForeign(t *testing.T, objects ...client.Object) *foreign {
	f := &foreign{t: t}
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), networkingv1.AddToScheme(s), v1alpha2.AddToScheme(s), v1beta1.AddToScheme(s), setv1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	write := func(o client.Object, do func() error) error {
		if f.refuses != nil {
			if err := f.refuses(o); err != nil {
				return err
			}
		}
		f.order = append(f.order, o.GetName())
		return do()
	}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithObjects(&setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return write(o, func() error { return c.Create(ctx, o, opts...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				return write(o, func() error { return c.Update(ctx, o, opts...) })
			},
		}).Build()
	f.begin(c)
	return f
}

// begin begins a process of the member.
func (f *foreign) begin(c client.Client) {
	f.Member = New(Options{Client: c, Live: c, Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), Log: logr.Discard(), Random: func() float64 { return 0 }})
	f.sent = map[string]map[string]bool{}
	f.state.membership = &setv1alpha1.Membership{Spec: setv1alpha1.MembershipSpec{Cluster: "west"}}
	f.relabel(map[string]string{"env": "prod"})
}

// scopedPolicy means workloads of several clusters, here only if this is a cluster of production.
const scopedPolicy = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"ClusterNetworkPolicy","metadata":{"name":"p"},"spec":{"priority":5,"appliedTo":[{"podSelector":{}}],
"ingress":[{"name":"r","action":"Drop","from":[{"podSelector":{"matchLabels":{"app":"web"}},"namespaceSelector":{"matchLabels":{"set.nephele.io/env":"prod"}},"scope":"ClusterSet"}]}]}}`

// remoteGroup is the group that it names.
func remoteGroup(t *testing.T) string {
	t.Helper()
	o, _, err := copies.Decode(received("ClusterNetworkPolicy.crd.antrea.io", scopedPolicy))
	if err != nil {
		t.Fatal(err)
	}
	p := convert.ClusterNetworkPolicy(o.(*v1beta1.ClusterNetworkPolicy))
	return peers.Groups(&p)[0].ID
}

// hears takes over a record of the hub, and lets all be written.
func (f *foreign) hears(d *wire.Down) (again bool) {
	f.t.Helper()
	if err := f.receive(d); err != nil {
		f.t.Fatal(err)
	}
	again, _ = f.writeAll(f.t.Context())
	return again
}

func (f *foreign) entitiesNow() []v1alpha2.ExternalEntity {
	f.t.Helper()
	var list v1alpha2.ExternalEntityList
	if err := f.Client.List(f.t.Context(), &list, client.InNamespace(plain.Namespace)); err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

func (f *foreign) addresses() string {
	var all []string
	for _, o := range f.entitiesNow() {
		for _, e := range o.Spec.Endpoints {
			all = append(all, e.IP)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestForeign: a member whose policies an Antrea Controller computes has a policy of the hub as one
// without scope, and the members of its peers in other clusters as ExternalEntities, which are
// there before the policy. An edit is undone, what the hub takes back goes, and other Namespaces of
// that name are not touched.
func TestForeign(t *testing.T) {
	f, g := newForeign(t), remoteGroup(t)
	p := received("ClusterNetworkPolicy.crd.antrea.io", scopedPolicy)
	p.Groups = []string{g}
	part := wire.Part{Group: g, Cluster: "east", Add: []string{"10.1.0.5", "10.1.0.6;http/TCP=80"}}
	if f.hears(&wire.Down{Parts: []wire.Part{part}, Policies: []wire.Policy{*p}, Sync: &wire.Sync{Policies: []string{"u"}}}) {
		t.Error("something is to be tried again", f.ledger.Refused())
	}
	var written v1beta1.ClusterNetworkPolicy
	if err := f.Client.Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &written); err != nil {
		t.Fatal(err)
	}
	from := written.Spec.Ingress[0].From
	if len(from) != 2 || from[0].Scope != "" || len(from[0].NamespaceSelector.MatchLabels) != 0 || from[1].Group != plain.GroupPrefix+g {
		t.Errorf("%+v", from)
	}
	if f.addresses() != "10.1.0.5 10.1.0.6" || len(f.entitiesNow()) != 2 {
		t.Errorf("%+v", f.entitiesNow())
	}
	if last := f.order[len(f.order)-1]; last != "hub-p" || f.order[0] != plain.Namespace {
		t.Errorf("written in the order %v", f.order)
	}

	one := f.entitiesNow()[0]
	one.Spec.Endpoints = append(one.Spec.Endpoints, v1alpha2.Endpoint{IP: "192.0.2.1"})
	if err := f.Client.Update(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	f.hear(&one, false)
	forged := &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: plain.Namespace, Name: "mine", Labels: map[string]string{plain.LabelOf(g): "", setv1alpha1.LabelFromHub: "true"}}}
	if err := f.Client.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	f.hear(forged, false)
	f.writeAll(t.Context())
	if f.addresses() != "10.1.0.5 10.1.0.6" || len(f.entitiesNow()) != 2 {
		t.Errorf("an edit stays: %+v", f.entitiesNow())
	}
	if u := f.feed.Next(); u != nil && len(u.Entities) > 0 {
		t.Errorf("the hub is told of its own: %+v", u)
	}

	f.relabel(map[string]string{"env": "test"})
	f.writeAll(t.Context())
	if err := f.Client.Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &written); err != nil || len(written.Spec.Ingress[0].From[0].NamespaceSelector.MatchExpressions) != 2 {
		t.Errorf("not written anew with other labels: %+v %v", written.Spec.Ingress[0].From, err)
	}
	f.hears(&wire.Down{GonePolicies: []string{"u"}})
	f.writeAll(t.Context())
	var groups v1beta1.ClusterGroupList
	if err := f.Client.List(t.Context(), &groups); err != nil || len(groups.Items) > 0 || len(f.entitiesNow()) > 0 ||
		client.IgnoreNotFound(f.Client.Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &written)) != nil {
		t.Errorf("left: %v %v %v", groups.Items, f.entitiesNow(), err)
	}
}

// TestForeignKeeps: what there is stays until the hub has told all, also with a record that is
// older than what was written. While the members of its peers cannot be written, a new policy
// waits.
func TestForeignKeeps(t *testing.T) {
	g := remoteGroup(t)
	p := received("ClusterNetworkPolicy.crd.antrea.io", scopedPolicy)
	p.Groups = []string{g}
	f := newForeign(t)
	f.hears(&wire.Down{Parts: []wire.Part{{Group: g, Cluster: "east", Add: []string{"10.1.0.5", "10.1.0.7"}}}, Policies: []wire.Policy{*p}, Sync: &wire.Sync{Policies: []string{"u"}}})

	next := &foreign{t: t}
	next.begin(f.Client)
	if err := next.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := next.receive(&wire.Down{Parts: []wire.Part{{Group: g, Cluster: "east", Whole: true, Add: []string{"10.1.0.8"}}}, Policies: []wire.Policy{*p}}); err != nil {
		t.Fatal(err)
	}
	next.writeAll(t.Context())
	if got := next.addresses(); got != "10.1.0.5 10.1.0.7 10.1.0.8" {
		t.Errorf("before the hub has told all: %s", got)
	}
	next.hears(&wire.Down{Sync: &wire.Sync{Policies: []string{"u"}}})
	if got := next.addresses(); got != "10.1.0.8" {
		t.Errorf("when it has: %s", got)
	}

	for name, f := range map[string]*foreign{
		"a refused write": newForeign(t), "a Namespace of others": newForeign(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plain.Namespace}}),
	} {
		if name == "a refused write" {
			f.refuses = func(o client.Object) error {
				if plain.Is(o) {
					return errors.New("no")
				}
				return nil
			}
		}
		again := f.hears(&wire.Down{Parts: []wire.Part{{Group: g, Cluster: "east", Add: []string{"10.1.0.5"}}}, Policies: []wire.Policy{*p}, Sync: &wire.Sync{Policies: []string{"u"}}})
		err := f.Client.Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &v1beta1.ClusterNetworkPolicy{})
		if !again || err == nil || len(f.ledger.Refused()) != 1 {
			t.Errorf("%s: written without its peers: %t %v %+v", name, again, err, f.ledger.Refused())
		}
		if f.addresses() != "" {
			t.Errorf("%s: %s", name, f.addresses())
		}
		f.refuses = nil
	}
}

// TestForeignOneIsRefused: an ExternalEntity that cannot be written does not keep another one from
// being written, and nothing goes meanwhile.
func TestForeignOneIsRefused(t *testing.T) {
	g := remoteGroup(t)
	p := received("ClusterNetworkPolicy.crd.antrea.io", scopedPolicy)
	p.Groups = []string{g}
	for _, ports := range []int{0, 1} {
		f := newForeign(t)
		f.hears(&wire.Down{Parts: []wire.Part{{Group: g, Cluster: "east", Add: []string{"10.1.0.4"}}}, Policies: []wire.Policy{*p}, Sync: &wire.Sync{Policies: []string{"u"}}})
		f.refuses = func(o client.Object) error {
			if e, is := o.(*v1alpha2.ExternalEntity); is && len(e.Spec.Ports) == ports {
				return errors.New("no")
			}
			return nil
		}
		again := f.hears(&wire.Down{Parts: []wire.Part{{Group: g, Cluster: "east", Add: []string{"10.1.0.5", "10.1.0.6;http/TCP=80"}, Remove: []string{"10.1.0.4"}}}})
		if want := []string{"10.1.0.4 10.1.0.6", "10.1.0.4 10.1.0.5"}[ports]; !again || f.addresses() != want {
			t.Errorf("without the groups of %d ports: %t %s, want %s", ports, again, f.addresses(), want)
		}
		f.refuses = nil
		if f.writeAll(t.Context()); f.addresses() != "10.1.0.5 10.1.0.6" {
			t.Errorf("in the end: %s", f.addresses())
		}
	}
}

// TestNativeTakesOver: a member that computes its policies itself removes what it had for an Antrea
// Controller, and nothing of others.
func TestNativeTakesOver(t *testing.T) {
	label := map[string]string{setv1alpha1.LabelFromHub: "true"}
	m := testMember(t, &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: plain.Namespace, Name: "r-1", Labels: label}},
		&v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: plain.Namespace, Name: "own"}}, &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own", Labels: label}})
	m.ledger.Synced(nil)
	if _, err := m.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left v1alpha2.ExternalEntityList
	if err := m.Client.List(t.Context(), &left); err != nil || len(left.Items) != 2 || left.Items[0].Name != "own" || left.Items[1].Name != "own" {
		t.Errorf("%+v %v", left.Items, err)
	}
}
