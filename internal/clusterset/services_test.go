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
	discoveryv1 "k8s.io/api/discovery/v1"
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

// service makes Service shop/db in a member: Pods with app=db, which serve it at port 15432.
func (s *set) service(name string) *corev1.Service {
	s.Helper()
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	o.Spec.Selector = map[string]string{"app": "db"}
	o.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 5432, TargetPort: intstr.FromInt32(15432)}}
	s.must(s.sides[name].Create(s.Context(), o))
	return o
}

// hosted makes a Pod in the network of its Node.
func (s *set) hosted(name, pod, ip string) *corev1.Pod {
	s.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod, Labels: map[string]string{"app": "db"}}, Status: corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}}
	p.Spec.NodeName, p.Spec.HostNetwork = "n", true
	s.must(s.sides[name].Create(s.Context(), p))
	return p
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

// TestServices: a Service that a member exports is its endpoints there, for policies of the hub in
// all members and for own ones where it is visible; over the absence of the hub, restarts, and
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

	// A Pod in the network of its Node serves by the Node's address, and is no peer by itself.
	hosted := s.hosted("east", "db-h", "192.168.1.1")
	s.until("its address is refused", func() (bool, any) {
		found := meta.FindStatusCondition(s.cluster("east").Status.Conditions, setv1alpha1.ClusterClaimsRefused)
		return found != nil && strings.Contains(found.Message, "192.168.1.1 is not among"), found
	})
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.Addresses.Nodes = []string{"192.168.1.0/24"} })
	s.reaches("west", "10.1.0.5 TCP 15432", "192.168.1.1 TCP 15432")
	s.reaches("east", "10.1.0.5 TCP 15432", "192.168.1.1 TCP 15432")
	s.must(east.Delete(t.Context(), hosted))
	s.reaches("west", "10.1.0.5 TCP 15432")
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.Addresses.Nodes = nil })

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

// TestWrittenEndpoints: an exported Service without selector is the endpoints that somebody has
// written into EndpointSlices, as far as their addresses are the cluster's and they are ready.
func TestWrittenEndpoints(t *testing.T) {
	s := newSet(t, "east", "west")
	east := s.sides["east"]
	service := s.service("east")
	service.Spec.Selector = nil
	s.must(east.Update(t.Context(), service))
	s.pod("east", "db-0", "db", "10.1.0.5")
	s.must(s.hub.Create(t.Context(), toDB("p", v1beta1.RuleActionAllow)))
	s.must(east.Create(t.Context(), export("db")))
	slice := func(name, service string, port int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		o := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}}, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints}
		o.Ports = []discoveryv1.EndpointPort{{Port: &port}, {}}
		s.must(east.Create(t.Context(), o))
		return o
	}
	no := false
	one := slice("a", "db", 15432, discoveryv1.Endpoint{Addresses: []string{"10.1.0.9"}}, discoveryv1.Endpoint{Addresses: []string{"10.1.0.10"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}})
	slice("b", "other", 15432, discoveryv1.Endpoint{Addresses: []string{"10.1.0.11"}})
	s.reaches("west", "10.1.0.9 TCP 15432")
	s.reaches("east", "10.1.0.9 TCP 15432")
	slice("c", "db", 15433, discoveryv1.Endpoint{Addresses: []string{"10.1.0.9", "db.example.com"}}, discoveryv1.Endpoint{Addresses: []string{"198.51.100.7"}})
	s.until("what is elsewhere is refused", func() (bool, any) {
		found := meta.FindStatusCondition(s.cluster("east").Status.Conditions, setv1alpha1.ClusterClaimsRefused)
		return found != nil && strings.Contains(found.Message, "exported Service shop/db, in an EndpointSlice: 198.51.100.7: 198.51.100.7 is not among"), found
	})
	s.reaches("west", "10.1.0.9 TCP 15432", "10.1.0.9 TCP 15433")
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.Addresses.Machines = []string{"198.51.100.0/28"} })
	s.reaches("west", "10.1.0.9 TCP 15432", "10.1.0.9 TCP 15433", "198.51.100.7 TCP 15433")
	s.must(east.Delete(t.Context(), one))
	s.reaches("west", "10.1.0.9 TCP 15433", "198.51.100.7 TCP 15433")
	service.Spec.Selector = map[string]string{"app": "db"} // then the EndpointSlices of the controller count, and the Pods are known
	s.must(east.Update(t.Context(), service))
	s.reaches("west", "10.1.0.5 TCP 15432")
	s.must(east.Delete(t.Context(), export("db")))
	s.reaches("west")
}

// TestExportsAreValid: a ServiceExport says whether there is a Service that can be exported, and a
// condition that another program has written stays.
func TestExportsAreValid(t *testing.T) {
	s := newSet(t, "east")
	east := s.sides["east"]
	s.is("east", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	s.must(east.Create(t.Context(), export("db")))
	conditions := func(name string) []any {
		o := export(name)
		s.must(east.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, o))
		list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		s.must(err)
		return list
	}
	valid := func(want string) {
		t.Helper()
		s.until("it is "+want, func() (bool, any) {
			var got []string
			for _, c := range conditions("db") {
				got = append(got, fmt.Sprintf("%v %v %v", c.(map[string]any)["type"], c.(map[string]any)["status"], c.(map[string]any)["reason"]))
			}
			return strings.Join(got, ", ") == want, got
		})
	}
	valid("Valid False NoService")
	service := s.service("east")
	valid("Valid True Valid")
	service.Spec.Type = corev1.ServiceTypeExternalName
	s.must(east.Update(t.Context(), service))
	valid("Valid False InvalidServiceType")
	s.must(east.Delete(t.Context(), service))
	valid("Valid False NoService")

	other := export("api")
	s.must(unstructured.SetNestedSlice(other.Object, []any{map[string]any{"type": "Valid", "status": "True", "reason": "Valid", "message": "exported", "lastTransitionTime": "2026-01-01T00:00:00Z"}}, "status", "conditions"))
	s.must(east.Create(t.Context(), other))
	s.must(east.Status().Update(t.Context(), other))
	s.service("east") // something that happens later
	valid("Valid True Valid")
	if all := conditions("api"); len(all) != 1 || all[0].(map[string]any)["message"] != "exported" {
		t.Errorf("%v", all)
	}
}
