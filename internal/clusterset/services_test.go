package clusterset_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

// toDB is a policy of the hub for all: to Service shop/db of all clusters that export it.
func toDB(name string, action v1beta1.RuleAction) *v1beta1.ClusterNetworkPolicy {
	p := fromWeb(name, "")
	p.Spec.Ingress = nil
	p.Spec.Egress = []v1beta1.Rule{{Action: action, ToServices: []v1beta1.PeerService{{Namespace: "shop", Name: "db", Scope: v1beta1.ScopeClusterSet}}}}
	return p
}

// service makes Service shop/db in a member: Pods with app=db, who serve it at port 15432.
func (s *set) service(name string) *corev1.Service {
	s.Helper()
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	o.Spec.Selector = map[string]string{"app": "db"}
	o.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 5432, TargetPort: intstr.FromInt32(15432)}}
	s.must(s.sides[name].Create(s.Context(), o))
	return o
}

func export(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("multicluster.x-k8s.io/v1beta1")
	o.SetKind("ServiceExport")
	o.SetNamespace("shop")
	o.SetName(name)
	return o
}

// reaches waits until these are the addresses and ports that serve shop/db in the groups that a
// member has of it.
func (s *set) reaches(name string, want ...string) {
	s.Helper()
	port := peers.PortOf(policy.NamespacedName{Namespace: "shop", Name: "db"})
	s.until(fmt.Sprintf("%s reaches %v", name, want), func() (bool, any) {
		var got []string
		k := s.sides[name].knows
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, e := range k.entities {
			for _, p := range e.Ports {
				if p.Name == port && len(e.Labels) > 0 {
					got = append(got, fmt.Sprintf("%s %s %d", e.Name, p.Protocol, p.Port))
				}
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want), got
	})
}

// TestServices: a Service that a member exports is whoever serves it there, for policies of the hub
// in all members and for own ones where it is visible; over the absence of the hub, restarts, and
// until it is exported no more.
func TestServices(t *testing.T) {
	s := newSet(t, "east", "west")
	east, west := s.sides["east"], s.sides["west"]
	s.pod("east", "db-0", "db", "10.1.0.5")
	s.pod("east", "web", "web", "10.1.0.6")
	s.pod("west", "db-0", "db", "10.2.0.5")
	service := s.service("east")
	s.service("west") // which is not exported
	s.must(s.hub.Create(t.Context(), toDB("p", v1beta1.RuleActionAllow)))
	s.until("west has the policy", func() (bool, any) {
		return west.Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &v1beta1.ClusterNetworkPolicy{}) == nil, nil
	})
	s.reaches("west")
	s.must(east.Create(t.Context(), export("db")))
	s.reaches("west", "10.1.0.5 TCP 15432")
	s.reaches("east", "10.1.0.5 TCP 15432")

	// A load balancer is believed where the Cluster names it.
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}, {Hostname: "db.example.com"}}
	s.must(east.Status().Update(t.Context(), service))
	s.until("it is refused", func() (bool, any) {
		found := meta.FindStatusCondition(s.cluster("east").Status.Conditions, setv1alpha1.ClusterClaimsRefused)
		return found != nil && strings.Contains(found.Message, "exported Service shop/db, its load balancers: 203.0.113.7 is not among its spec.addresses.pods, nodes and loadBalancers"), found
	})
	s.reaches("west", "10.1.0.5 TCP 15432")
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.Addresses.LoadBalancers = []string{"203.0.113.0/28"} })
	s.reaches("west", "10.1.0.5 TCP 15432", "203.0.113.7 TCP 5432")

	// While the hub is away, a new Pod counts where it is, and nobody goes by a restart.
	s.kill()
	s.pod("east", "db-1", "db", "10.1.0.7")
	s.reaches("east", "10.1.0.5 TCP 15432", "10.1.0.7 TCP 15432", "203.0.113.7 TCP 5432")
	for m, n := range map[*side]int32{east: 3, west: 2} {
		s.until("it is on record", func() (bool, any) {
			var all setv1alpha1.RemoteGroupList
			s.must(m.List(t.Context(), &all))
			return len(all.Items) == 1 && all.Items[0].Members == n, all.Items
		})
	}
	for _, m := range []*side{east, west} {
		s.boot(m)
	}
	s.reaches("east", "10.1.0.5 TCP 15432", "10.1.0.7 TCP 15432", "203.0.113.7 TCP 5432")
	s.reaches("west", "10.1.0.5 TCP 15432", "203.0.113.7 TCP 5432")
	east.watch()
	s.run()
	s.reaches("west", "10.1.0.5 TCP 15432", "10.1.0.7 TCP 15432", "203.0.113.7 TCP 5432")
	if shrunk := east.shrunk(); len(shrunk) > 0 {
		t.Error(shrunk)
	}

	// Own policies of others mean it where it is visible.
	mine := toDB("mine", v1beta1.RuleActionDrop)
	mine.Annotations, mine.Spec.Tier = nil, "application"
	s.must(s.hub.Delete(t.Context(), &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}))
	s.reaches("west")
	s.must(west.Create(t.Context(), mine))
	s.says("west", "")
	s.reaches("west")
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.VisibleNamespaces = []string{"shop"} })
	s.reaches("west", "10.1.0.5 TCP 15432", "10.1.0.7 TCP 15432", "203.0.113.7 TCP 5432")
	s.must(west.Create(t.Context(), export("db")))
	s.reaches("west", "10.1.0.5 TCP 15432", "10.1.0.7 TCP 15432", "10.2.0.5 TCP 15432", "203.0.113.7 TCP 5432")
	s.must(east.Delete(t.Context(), export("db")))
	s.reaches("west", "10.2.0.5 TCP 15432")
}

// TestServicesNeedNewer: a hub of the former version hears nothing of Services, and a policy that
// names some is not taken from it; a hub of this version sends such a policy as a kind that members
// of the former one do not know.
func TestServicesNeedNewer(t *testing.T) {
	s := newSet(t, "east", "west")
	east := s.sides["east"]
	s.pod("east", "db-0", "db", "10.1.0.5")
	s.service("east")
	s.must(east.Create(t.Context(), export("db")))
	p := toDB("p", v1beta1.RuleActionDrop)
	s.must(s.hub.Create(t.Context(), p))
	s.reaches("east", "10.1.0.5 TCP 15432")
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	_, told := s.asksAs("west", &wire.Hello{Version: wire.VersionServices - 1, Oldest: wire.Oldest, Epoch: "old"})
	for _, d := range untilSync(told) {
		for _, p := range d.Policies {
			if p.Kind != "ClusterNetworkPolicy.crd.antrea.io+services" {
				t.Errorf("an old member is sent a %s", p.Kind)
			}
		}
	}

	s.kill()
	changed := p.DeepCopy()
	changed.Name, changed.UID, changed.Generation, changed.Annotations = "other", "u", 1, nil
	changed.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("ClusterNetworkPolicy"))
	raw, err := json.Marshal(changed)
	s.must(err)
	heard := make(chan *wire.Up, 1000)
	s.mu.Lock()
	s.serves = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = wire.Write(w, &wire.Down{Welcome: &wire.Welcome{Version: wire.VersionServices - 1, Epoch: "old", Cluster: "east"}})
		_ = wire.Write(w, &wire.Down{Policies: []wire.Policy{{UID: "u", Generation: 1, Kind: "ClusterNetworkPolicy.crd.antrea.io", Object: raw}}})
		_ = wire.Write(w, &wire.Down{Sync: &wire.Sync{Policies: []string{"u", string(p.UID)}}})
		_ = http.NewResponseController(w).Flush()
		for in := wire.NewReader(r.Body); ; {
			u := &wire.Up{}
			if in.Read(u) != nil {
				return
			}
			heard <- u
		}
	})
	s.mu.Unlock()
	var all bytes.Buffer
	s.until("the member says that it needs a newer hub", func() (bool, any) {
		for len(heard) > 0 {
			s.must(wire.Write(&all, <-heard))
		}
		return strings.Contains(all.String(), setv1alpha1.ReasonVersion) && strings.Contains(all.String(), "upgrade the hub"), all.String()
	})
	if text := all.String(); !strings.Contains(text, `"db-0"`) || strings.Contains(text, `"k":"s"`) {
		t.Errorf("an old hub is told %s", text)
	}
	if err := east.Get(t.Context(), client.ObjectKey{Name: "hub-other"}, &v1beta1.ClusterNetworkPolicy{}); err == nil {
		t.Error("the policy is there")
	}
}
