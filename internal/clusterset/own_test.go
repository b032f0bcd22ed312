package clusterset_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/member/certificate"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/policy"
)

// own is a policy of a member itself, in no Namespace: from Pods with app=APP of all clusters.
func own(name, app string) *v1beta1.ClusterNetworkPolicy {
	p := fromWeb(name, app)
	p.Annotations = nil
	p.Spec.Tier = "application"
	return p
}

// amend changes a Cluster.
func (s *set) amend(name string, change func(*setv1alpha1.ClusterSpec)) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // the hub writes the status
		c := s.cluster(name)
		change(&c.Spec)
		return s.hub.Update(s.Context(), c)
	}))
}

// podIn makes a Pod in a Namespace of a member.
func (s *set) podIn(name, namespace, app, ip string) *corev1.Pod {
	s.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Labels: map[string]string{"app": app}}, Status: corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}}
	p.Spec.NodeName = "n"
	s.must(s.sides[name].Create(s.Context(), p))
	return p
}

// notes are what is told of the groups that a member's own policies name, sorted.
func (k *knows) told() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, n := range k.notes {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// says waits until exactly this is told of the groups that a member's own policies name: each text
// is a part of one note, and empty for none.
func (s *set) says(name string, want ...string) {
	s.Helper()
	s.until(fmt.Sprintf("%s says %q", name, want), func() (bool, any) {
		got := s.sides[name].told()
		return slices.EqualFunc(got, want, func(g, w string) bool { return w == "" && g == "" || w != "" && strings.Contains(g, w) }), fmt.Sprintf("%q", got)
	})
}

// promptly waits until something is so, while no time goes by for hub and members.
func (s *set) promptly(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s: not after two minutes", what)
		}
	}
}

// TestOwnPolicies: a member's own policy means workloads of other clusters as far as these let them
// be seen, also while the hub is away, and no more than that.
func TestOwnPolicies(t *testing.T) {
	s := newSet(t, "east", "west")
	west := s.sides["west"]
	s.must(s.sides["east"].Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}))
	s.podIn("east", "shop", "web", "10.1.0.5")
	s.podIn("east", "secret", "web", "10.1.0.6")
	s.must(s.sides["east"].Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.1.1"}}}}))
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.Addresses.Nodes = []string{"192.168.1.0/24"} })
	mine := own("mine", "web")
	s.must(west.Create(t.Context(), mine))
	s.says("west", "")
	s.knowsAll("west") // nothing is visible
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.VisibleNamespaces = []string{"shop"} })
	s.knowsAll("west", "10.1.0.5")

	// A policy of the hub with the same peer means more, and that of the member does not.
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.knowsAll("west", "10.1.0.5", "10.1.0.6")
	for id, who := range west.groups() {
		if want := map[bool][]string{true: {"10.1.0.5"}, false: {"10.1.0.5", "10.1.0.6"}}[peers.Own(id)]; !slices.Equal(who, want) {
			t.Errorf("%s: %v, want %v", id, who, want)
		}
	}
	s.must(s.hub.Delete(t.Context(), &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}))
	s.knowsAll("west", "10.1.0.5")

	// Nodes are visible with all Namespaces alone.
	nodes := own("nodes", "")
	nodes.Spec.Ingress[0].From[0] = v1beta1.NetworkPolicyPeer{NodeSelector: &metav1.LabelSelector{}, Scope: v1beta1.ScopeClusterSet}
	s.must(west.Create(t.Context(), nodes))
	s.says("west", "", "")
	s.knowsAll("west", "10.1.0.5")
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.VisibleNamespaces = []string{"*"} })
	s.knowsAll("west", "10.1.0.5", "10.1.0.6", "192.168.1.1")
	s.must(west.Delete(t.Context(), nodes))
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.VisibleNamespaces = []string{"sho*"} })
	s.knowsAll("west", "10.1.0.5")

	// In a Namespace the same name is meant; a direction and an action are groups of their own.
	inside := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "secret", Name: "mine"}, Spec: *mine.Spec.DeepCopy()}
	s.must(west.Create(t.Context(), inside))
	s.says("west", "", "")
	s.knowsAll("west", "10.1.0.5")
	s.until("two groups are asked for", func() (bool, any) { c := s.cluster("west"); return c.Status.Selectors == 2, c.Status })

	// What the hub answers is on record at once: no time goes by here.
	s.podIn("east", "shop", "quick", "10.1.0.8")
	s.until("the hub knows three Pods and a Node", func() (bool, any) { c := s.cluster("east"); return c.Status.Entities == 4, c.Status })
	s.must(west.Create(t.Context(), own("quick", "quick")))
	s.promptly("it is on record", func() bool {
		var all setv1alpha1.RemoteGroupList
		s.must(west.List(t.Context(), &all))
		return slices.ContainsFunc(all.Items, func(g setv1alpha1.RemoteGroup) bool {
			return g.Members == 1 && slices.Equal(west.groups()[g.Name], []string{"10.1.0.8"})
		})
	})
	s.boot(west)
	s.until("it is there in a process that begins anew", func() (bool, any) { got := west.all(); return slices.Contains(got, "10.1.0.8"), got })
	s.must(west.Delete(t.Context(), own("quick", "quick")))
	s.knowsAll("west", "10.1.0.5")

	// The hub away: it stays, also in a process that begins anew, and what was gone meanwhile goes
	// when the hub is back.
	s.until("the group is on record, and no other", func() (bool, any) {
		var all setv1alpha1.RemoteGroupList
		s.must(west.List(t.Context(), &all))
		members, own := int32(0), false
		for _, g := range all.Items {
			// That of the policy quick has a member, too, until its record is removed.
			members, own = members+g.Members, own || g.Members == 1 && slices.Equal(west.groups()[g.Name], []string{"10.1.0.5"})
		}
		return own && members == 1, all.Items
	})
	s.kill()
	s.boot(west)
	s.knowsAll("west", "10.1.0.5")
	s.must(s.sides["east"].Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}))
	s.pod("east", "web-2", "web", "10.1.0.7")
	late := own("late", "api")
	s.must(west.Create(t.Context(), late))
	s.until("nothing is known of what was not asked", func() (bool, any) {
		got := west.told()
		return slices.ContainsFunc(got, func(n string) bool { return strings.Contains(n, "has not answered yet") }), got
	})
	if got := west.all(); !slices.Equal(got, []string{"10.1.0.5"}) {
		t.Errorf("%v while the hub is away", got)
	}
	s.run()
	s.knowsAll("west", "10.1.0.7")
	s.says("west", "", "", "")
	// A policy that is gone is asked for no more.
	s.must(west.Delete(t.Context(), mine))
	s.knowsAll("west")
	s.until("its record is gone", func() (bool, any) {
		var all setv1alpha1.RemoteGroupList
		s.must(west.List(t.Context(), &all))
		return len(all.Items) == 2, all.Items
	})
}

// TestOwnPoliciesNotes: what an own policy cannot mean is told in a sentence, and nothing is meant
// instead.
func TestOwnPoliciesNotes(t *testing.T) {
	s := newSet(t, "east", "west")
	west := s.sides["west"]
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.VisibleNamespaces = []string{"*"} })
	s.podIn("east", "shop", "web", "10.1.0.5")
	nowhere := own("nowhere", "web")
	nowhere.Spec.Ingress[0].From[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{setv1alpha1.LabelClusterName: "south"}}
	s.must(west.Create(t.Context(), nowhere))
	s.says("west", "NoSuchCluster: a peer names the cluster south, and the set has no such Cluster")
	s.join("south", "10.3.0.0/16")
	s.says("west", "")
	s.must(west.Delete(t.Context(), nowhere))

	// Hidden Pods: not meant where that allows, and told of where it drops; egress meets them.
	s.must(west.Create(t.Context(), own("allows", "web")))
	s.knowsAll("west", "10.1.0.5")
	s.amend("east", func(c *setv1alpha1.ClusterSpec) {
		c.SeenAs = []setv1alpha1.SeenAs{{To: "10.2.0.0/16", As: setv1alpha1.SeenNode}}
	})
	s.says("west", "IdentityHidden: Pods that cannot be told from others are left out")
	s.knowsAll("west")
	drops := own("drops", "web")
	drops.Spec.Ingress[0].Action = v1beta1.RuleActionDrop
	s.must(west.Create(t.Context(), drops))
	s.says("west", "IdentityHidden: Pods that cannot be told", "IdentityHidden: a rule does not meet Pods that it means")
	s.knowsAll("west", "10.1.0.5")
	s.must(west.Delete(t.Context(), drops))
	egress := own("egress", "web")
	egress.Spec.Egress, egress.Spec.Ingress = []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, To: egress.Spec.Ingress[0].From}}, nil
	s.must(west.Create(t.Context(), egress))
	s.says("west", "", "IdentityHidden")
	s.knowsAll("west", "10.1.0.5")
	s.must(west.Delete(t.Context(), egress))
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.SeenAs = nil })
	s.says("west", "")
	s.knowsAll("west", "10.1.0.5")

	// As many as may be: the first stays, and the second comes when the bound lets it.
	one := int32(1)
	s.amend("west", func(c *setv1alpha1.ClusterSpec) { c.Limits.Selectors = &one })
	s.must(west.Create(t.Context(), own("second", "api")))
	s.pod("east", "api", "api", "10.1.0.6")
	s.says("west", "", "TooManySelectors")
	s.knowsAll("west", "10.1.0.5")
	none := int32(0)
	s.amend("west", func(c *setv1alpha1.ClusterSpec) { c.Limits.Selectors = &none })
	s.says("west", "TooManySelectors", "TooManySelectors")
	s.knowsAll("west") // the allowed member goes, when no cluster keeps it current
	s.amend("west", func(c *setv1alpha1.ClusterSpec) { c.Limits.Selectors = nil })
	s.knowsAll("west", "10.1.0.5", "10.1.0.6")
	s.says("west", "", "")

	// A hub that does not know of it.
	s.kill()
	s.mu.Lock()
	s.serves = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = wire.Write(w, &wire.Down{Welcome: &wire.Welcome{Version: 1, Epoch: "old", Cluster: "west"}})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s.mu.Unlock()
	s.must(west.Create(t.Context(), own("third", "third")))
	s.until("it is told that the hub is old", func() (bool, any) {
		got := west.told()
		return slices.ContainsFunc(got, func(n string) bool { return strings.Contains(n, "upgrade it") }), got
	})
	s.server.CloseClientConnections()
}

// asks is a member that somebody has taken over: it says by hand what it wants. What the hub tells
// it comes out of the returned channel.
func (s *set) asks(name string) (tell func(any) error, told <-chan *wire.Down) {
	s.Helper()
	s.is(name, setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	return s.asksAs(name, &wire.Hello{Version: wire.Version, Oldest: wire.Oldest, Epoch: "taken over"})
}

// asksAs does so with another hello.
func (s *set) asksAs(name string, hello *wire.Hello) (tell func(any) error, told <-chan *wire.Down) {
	s.Helper()
	var secret corev1.Secret
	s.must(s.sides[name].Get(s.Context(), client.ObjectKey{Namespace: "kube-system", Name: certificate.CredentialsName}, &secret))
	s.sides[name].stop()
	s.sides[name].stop = func() {}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	s.must(err)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	body, up := io.Pipe()
	s.Cleanup(func() { _ = up.Close(); transport.CloseIdleConnections() })
	response, err := (&http.Client{Transport: transport}).Post(s.server.URL+credential.FeedPath, "", body)
	s.must(err)
	out := make(chan *wire.Down, 1000)
	go func() {
		defer close(out)
		in := wire.NewReader(response.Body)
		for {
			d := &wire.Down{}
			if in.Read(d) != nil {
				return
			}
			out <- d
		}
	}()
	tell = func(u any) error { return wire.Write(up, u) }
	s.must(tell(&wire.Up{Hello: hello}))
	return tell, out
}

// TestAskingForEverything: a member that somebody has taken over learns by what it asks for no more
// than addresses in the Namespaces that others show, as many as may be, and holds up nobody.
func TestAskingForEverything(t *testing.T) {
	s := newSet(t, "east", "west", "north")
	s.amend("east", func(c *setv1alpha1.ClusterSpec) { c.VisibleNamespaces = []string{"shop"} })
	few := int32(4)
	s.amend("west", func(c *setv1alpha1.ClusterSpec) { c.Limits.Selectors = &few })
	s.must(s.sides["east"].Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}))
	s.podIn("east", "shop", "web", "10.1.0.5")
	s.podIn("east", "secret", "key", "10.1.0.6")
	s.until("east is known", func() (bool, any) { c := s.cluster("east"); return c.Status.Entities == 2, c.Status })
	tell, told := s.asks("west")
	all := &policy.Selector{}
	id := func(p policy.Policy) []wire.Interest { return peers.Interests(&p) }
	everything := func(peer policy.Peer, namespace string) wire.Interest {
		peer.Scope = peers.ScopeClusterSet
		return id(policy.Policy{Namespace: namespace, Ingress: []policy.Rule{{Action: policy.Allow, Peers: []policy.Peer{peer}}}})[0]
	}
	visible := &policy.Selector{MatchExpressions: []policy.Requirement{{Key: peers.VisibleLabel, Operator: "DoesNotExist"}}}
	ask := []wire.Interest{
		everything(policy.Peer{PodSelector: all, NamespaceSelector: all}, ""),
		everything(policy.Peer{PodSelector: all}, ""),
		everything(policy.Peer{PodSelector: all}, "secret"),
		everything(policy.Peer{PodSelector: all, NamespaceSelector: visible}, ""),
		everything(policy.Peer{NodeSelector: all}, ""),
		everything(policy.Peer{ServiceAccount: &policy.NamespacedName{Namespace: "secret", Name: "default"}}, ""),
	}
	forged := ask[0]
	forged.Pods = nil // an id of something else
	forged.Group = "gb" + strings.Repeat("0", 32)
	hubs := ask[0]
	hubs.Group = "ga" + hubs.Group[2:] // that of a policy of the hub
	service := ask[1]
	service.Group = "gb" + strings.Repeat("1", 32)
	service.Pods = &wire.Selector{Labels: map[string]string{"internal.antrea.io/service-account": "default"}}
	s.must(tell(&wire.Up{Whole: true, Listed: true, Interests: append(ask, forged, hubs, service)}))
	got, reasons := map[string]bool{}, map[string]int{}
	for answers := 0; answers < len(ask)+2; {
		d := <-told
		for _, p := range d.Parts {
			for _, a := range p.Add {
				got[a] = true
			}
		}
		for _, a := range d.Told {
			answers++
			reasons[a.Reason]++
		}
	}
	if len(got) != 1 || !got["10.1.0.5"] {
		t.Errorf("it has learnt %v", got)
	}
	if want := map[string]int{"": 4, setv1alpha1.ReasonTooMany: 2, setv1alpha1.ReasonVersion: 1, setv1alpha1.ReasonRefused: 1}; fmt.Sprint(reasons) != fmt.Sprint(want) {
		t.Errorf("it was told %v, want %v", reasons, want)
	}
	s.is("west", setv1alpha1.ClusterClaimsRefused, metav1.ConditionTrue) // what is no interest at all

	// As fast as it can, without an end: others are served meanwhile.
	var cut sync.WaitGroup
	cut.Go(func() {
		for range told { // until the stream ends
		}
	})
	cut.Go(func() {
		for i := 0; ; i++ {
			s := &policy.Selector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}
			x := everything(policy.Peer{PodSelector: s}, "")
			if tell(&wire.Up{GoneInterests: []string{x.Group}, Interests: []wire.Interest{x}}) != nil {
				return
			}
		}
	})
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.knowsAll("north", "10.1.0.5")
	s.must(s.hub.Delete(t.Context(), s.cluster("west")))
	s.until("its Cluster is gone", func() (bool, any) { _, known := s.now.Silent()["west"]; return !known, "" })
	cut.Wait()
}
