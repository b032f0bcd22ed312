package compute_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/control/trim"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// held is an object as an informer holds it, with what tells the kind of informer.
type held struct {
	kind   reflect.Type
	object any
}

// decoded returns the objects of a world as informers hold them: each decoded from its own bytes,
// so that no two share anything, and with what nobody reads taken away.
func decoded(s *policytest.Scale) []held {
	out := make([]held, len(s.Objects))
	trimmer := trim.NewTrimmer()
	for i, o := range s.Objects {
		out[i] = trimmed(trimmer, apiObject(o, i))
	}
	return out
}

func trimmed(t *trim.Trimmer, o client.Object) held {
	left, err := t.Trim(o)
	if err != nil {
		panic(err)
	}
	return held{reflect.TypeOf(o), left}
}

func apiObject(o policytest.Object, serial int) client.Object {
	var out client.Object
	switch o := o.(type) {
	case policy.Namespace:
		// The API server labels every Namespace with its name.
		labels := map[string]string{corev1.LabelMetadataName: o.Name}
		maps.Copy(labels, o.Labels)
		out = remade(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: labels}}, &corev1.Namespace{}, serial)
	case policy.Entity:
		if o.Kind == policy.KindPod {
			out = remade(apiPod(o), &corev1.Pod{}, serial)
		} else {
			x := &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: o.Labels}}
			x.Spec.ExternalNode = o.Host
			for _, a := range o.Addresses {
				x.Spec.Endpoints = append(x.Spec.Endpoints, v1alpha2.Endpoint{IP: a.String()})
			}
			out = remade(x, &v1alpha2.ExternalEntity{}, serial)
		}
	case policy.Policy:
		if o.Kind == policy.KubernetesNetworkPolicy {
			out = remade(apiKubernetesPolicy(o), &networkingv1.NetworkPolicy{}, serial)
		} else {
			out = remade(apiAntreaPolicy(o), &v1beta1.NetworkPolicy{}, serial)
		}
	default:
		panic(fmt.Sprintf("no API object for %T", o))
	}
	return out
}

// remade encodes one object and decodes it into another one.
func remade(from, to client.Object, serial int) client.Object {
	from.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", serial)))
	from.SetResourceVersion(fmt.Sprint(serial))
	from.SetCreationTimestamp(metav1.Unix(1_700_000_000, 0))
	if from.GetGeneration() == 0 {
		from.SetGeneration(1)
	}
	var err error
	if wire, ok := from.(interface{ Marshal() ([]byte, error) }); ok {
		var b []byte
		if b, err = wire.Marshal(); err == nil {
			err = to.(interface{ Unmarshal([]byte) error }).Unmarshal(b)
		}
	} else {
		var b []byte
		if b, err = json.Marshal(from); err == nil {
			err = json.Unmarshal(b, to)
		}
	}
	if err != nil {
		panic(err)
	}
	return to
}

func apiPod(o policy.Entity) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: o.Labels},
		Spec: corev1.PodSpec{
			NodeName: o.Host, ServiceAccountName: "default",
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, a := range o.Addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
		p.Status.PodIP = p.Status.PodIPs[0].IP
	}
	return p
}

func apiSelector(s *policy.Selector) *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: s.MatchLabels}
}

func apiKubernetesPolicy(o policy.Policy) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Generation: o.Generation}}
	p.Spec.PodSelector = *apiSelector(o.AppliedTo[0].PodSelector)
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	for _, r := range o.Ingress {
		var rule networkingv1.NetworkPolicyIngressRule
		for _, peer := range r.Peers {
			rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{
				PodSelector: apiSelector(peer.PodSelector), NamespaceSelector: apiSelector(peer.NamespaceSelector),
			})
		}
		p.Spec.Ingress = append(p.Spec.Ingress, rule)
	}
	return p
}

func apiAntreaPolicy(o policy.Policy) *v1beta1.NetworkPolicy {
	p := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Generation: o.Generation}}
	p.Spec.Priority = o.Priority
	p.Spec.AppliedTo = []v1beta1.AppliedTo{{ExternalEntitySelector: apiSelector(o.AppliedTo[0].ExternalEntitySelector)}}
	for _, r := range o.Ingress {
		rule := v1beta1.Rule{Action: v1beta1.RuleAction(r.Action), Name: r.Name}
		for _, peer := range r.Peers {
			rule.From = append(rule.From, v1beta1.NetworkPolicyPeer{ExternalEntitySelector: apiSelector(peer.ExternalEntitySelector)})
		}
		p.Spec.Ingress = append(p.Spec.Ingress, rule)
	}
	return p
}

// keysOf are the enforcer keys of a world.
func keysOf(s *policytest.Scale) []string {
	seen := map[string]struct{}{}
	var out []string
	for _, o := range s.Objects {
		if e, ok := o.(policy.Entity); ok {
			if _, ok := seen[e.Host]; !ok {
				seen[e.Host] = struct{}{}
				out = append(out, e.Host)
			}
		}
	}
	slices.Sort(out)
	return out
}
