package peers

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/seed"
)

// TestHidden: the Pods of a cluster are hidden from another exactly if there is an address of it
// for which the longest entry says so. The oracle asks for every address.
func TestHidden(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 1))
	prefix := func(shortest int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(64))}), shortest+r.IntN(33-shortest)).Masked()
	}
	hidden := 0
	for range 3000 {
		source, viewer := &setv1alpha1.Cluster{}, &setv1alpha1.Cluster{}
		source.Name, source.Spec.Addresses.Pods = "east", []string{"10.9.0.0/16"}
		var all []netip.Prefix
		for range r.IntN(5) {
			to := prefix(24)
			as := []setv1alpha1.Seen{setv1alpha1.SeenRoutable, setv1alpha1.SeenNode, setv1alpha1.SeenEgress}[r.IntN(3)]
			known := false
			for _, p := range all {
				known = known || p == to
			}
			if !known { // the API has each once
				all = append(all, to)
				source.Spec.SeenAs = append(source.Spec.SeenAs, setv1alpha1.SeenAs{To: to.String(), As: as})
			}
		}
		place := prefix(26)
		viewer.Spec.Addresses.Pods = []string{place.String()}
		want := false
		for a := place.Addr(); place.Contains(a); a = a.Next() {
			longest, as := -1, setv1alpha1.SeenRoutable
			for i, p := range all {
				if p.Contains(a) && p.Bits() > longest {
					longest, as = p.Bits(), source.Spec.SeenAs[i].As
				}
			}
			want = want || as != setv1alpha1.SeenRoutable
		}
		if s, got := Hidden(source, viewer); got != want {
			t.Fatalf("%v from %s: %v, want %t", source.Spec.SeenAs, place, s, want)
		}
		if want {
			hidden++
		}
	}
	if hidden < 300 {
		t.Errorf("only %d are hidden", hidden)
	}
}

// TestOtherFamily: an entry of a family that the Pods have not hides nothing.
func TestOtherFamily(t *testing.T) {
	source, viewer := &setv1alpha1.Cluster{}, &setv1alpha1.Cluster{}
	source.Spec.Addresses.Pods = []string{"fd00:1::/64"}
	source.Spec.SeenAs = []setv1alpha1.SeenAs{{To: "0.0.0.0/0", As: setv1alpha1.SeenNode}}
	if s, hidden := Hidden(source, viewer); hidden {
		t.Error(s)
	}
	source.Spec.Addresses.Pods = append(source.Spec.Addresses.Pods, "10.1.0.0/16")
	if _, hidden := Hidden(source, viewer); !hidden {
		t.Error("from a cluster that may be anywhere they are seen as their Nodes")
	}
}

// TestAdmits: which rules are about packets from Pods of a cluster, as far as it is chosen.
func TestAdmits(t *testing.T) {
	east := &setv1alpha1.Cluster{}
	east.Name, east.Labels = "east", map[string]string{"env": "prod"}
	spaces := func(key, operator string, values ...string) policy.Peer {
		return policy.Peer{Scope: ScopeClusterSet, PodSelector: &policy.Selector{}, NamespaceSelector: &policy.Selector{MatchExpressions: []policy.Requirement{{Key: key, Operator: operator, Values: values}}}}
	}
	for name, c := range map[string]struct {
		peer policy.Peer
		want bool
	}{
		"Pods":                {policy.Peer{Scope: ScopeClusterSet, PodSelector: &policy.Selector{}}, true},
		"an account":          {policy.Peer{Scope: ScopeClusterSet, ServiceAccount: &policy.NamespacedName{Namespace: "a", Name: "b"}}, true},
		"whole Namespaces":    {policy.Peer{Scope: ScopeClusterSet, NamespaceSelector: &policy.Selector{}}, true},
		"local ones":          {policy.Peer{PodSelector: &policy.Selector{}}, false},
		"Nodes":               {policy.Peer{Scope: ScopeClusterSet, NodeSelector: &policy.Selector{}}, false},
		"machines":            {policy.Peer{Scope: ScopeClusterSet, ExternalEntitySelector: &policy.Selector{}}, false},
		"this cluster":        {spaces(setv1alpha1.LabelClusterName, "In", "east", "west"), true},
		"another":             {spaces(setv1alpha1.LabelClusterName, "In", "west"), false},
		"all but this":        {spaces(setv1alpha1.LabelClusterName, "NotIn", "east"), false},
		"its label":           {spaces("set.nephele.io/env", "In", "prod"), true},
		"another label":       {spaces("set.nephele.io/env", "In", "test"), false},
		"a label it has not":  {spaces("set.nephele.io/zone", "Exists"), false},
		"without that label":  {spaces("set.nephele.io/zone", "DoesNotExist"), true},
		"a Namespace's label": {spaces("team", "In", "a"), true},
	} {
		for _, action := range []policy.Action{policy.Allow, policy.Drop, policy.Reject, policy.Pass} {
			p := &policy.Policy{Ingress: []policy.Rule{{Action: action, Peers: []policy.Peer{c.peer}}}, Egress: []policy.Rule{{Action: action, Peers: []policy.Peer{{Scope: ScopeClusterSet, PodSelector: &policy.Selector{}}}}}}
			allows, other := Admits(p, east)
			if allows != (c.want && action == policy.Allow) || other != (c.want && action != policy.Allow) {
				t.Errorf("%s", fmt.Sprint(name, action, allows, other))
			}
		}
	}
}
