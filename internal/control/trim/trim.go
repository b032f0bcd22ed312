package trim

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/convert"
)

// Trimmer makes objects smaller before informers keep them: most of the memory of a cluster of
// 100,000 Pods is for fields that this process never reads, and for the same few labels over and
// over. It is safe for concurrent use; use NewTrimmer.
type Trimmer struct {
	mu sync.Mutex
	// labels holds the labels seen, by content; texts the names that many objects have; specs the
	// specs of policies seen, by their encoding.
	labels map[string]map[string]string
	texts  map[string]string
	specs  map[string]networkingv1.NetworkPolicySpec
	// keys and content are used again for each map.
	keys    []string
	content []byte
}

const (
	// maxShared is the number of contents that a Trimmer remembers before it begins anew, maxSpecs
	// that of the specs of policies, and maxSpecBytes how large one may be.
	maxShared = 1 << 16
	// maxLabelBytes and maxTextBytes are how long what is remembered may be: somebody may make Pods
	// with a megabyte of labels and delete them, again and again.
	maxLabelBytes = 1 << 10
	maxTextBytes  = 256
	maxSpecs      = 1 << 12
	maxSpecBytes  = 1 << 10
	// manyRules is how many rules of a direction a Kubernetes NetworkPolicy may have before equal
	// ones are left out: an empty rule is two bytes where it is stored and some hundred here, and
	// only kube-apiserver bounds their number.
	manyRules = 1000
)

// NewTrimmer returns a Trimmer.
func NewTrimmer() *Trimmer {
	return &Trimmer{labels: map[string]map[string]string{}, texts: map[string]string{}, specs: map[string]networkingv1.NetworkPolicySpec{}}
}

// Trim takes away which client manages which fields, except of accounts, whose annotations are
// attributed by them, and the images of Nodes; of a Pod it leaves a convert.TrimmedPod. Equal
// labels become the same map, equal specs of Kubernetes NetworkPolicies have the same parts, and of
// VirtualMachines and ExternalEntities equal texts become the same text. It is a transformation for
// informers (cache.Options.DefaultTransform): a cache with it cannot be asked for Pods, and neither
// a map of labels nor a part of such a spec may be modified. Of a great many rules of such a policy
// the first of equal ones is left, which allows the same.
func (t *Trimmer) Trim(object any) (any, error) {
	_, account := object.(*cloudv1.CloudProviderAccount)
	if o, ok := object.(client.Object); ok && !account && len(o.GetManagedFields()) > 0 {
		o.SetManagedFields(nil)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch o := object.(type) {
	case *corev1.Pod:
		return t.trimPod(o), nil
	case *corev1.Node:
		o.Status.Images = nil
	case *cloudv1.VirtualMachine:
		t.shareVM(o)
	case *v1alpha2.ExternalEntity:
		t.shareEntity(o)
	case *corev1.Namespace:
		t.trimNamespace(o)
	case *networkingv1.NetworkPolicy:
		o.Namespace, o.Labels = t.text(o.Namespace), t.shared(o.Labels)
		t.trimSpec(&o.Spec)
		t.packMeta(&o.ObjectMeta)
	}
	return object, nil
}

// packMeta makes what only this object is called one text.
func (t *Trimmer) packMeta(m *metav1.ObjectMeta) {
	t.pack(&m.Name, (*string)(&m.UID), &m.ResourceVersion)
}

// pack makes texts the parts of one, which costs the garbage collector one visit instead of many.
// They should come and go together: one that is kept keeps all.
func (t *Trimmer) pack(texts ...*string) {
	t.content = t.content[:0]
	for _, s := range texts {
		t.content = append(t.content, *s...)
	}
	rest := string(t.content)
	for _, s := range texts {
		n := len(*s)
		*s, rest = rest[:n], rest[n:]
	}
}

// trimNamespace makes the labels use the keys of others, and the name: the API server gives every
// Namespace a label with it.
func (t *Trimmer) trimNamespace(n *corev1.Namespace) {
	t.packMeta(&n.ObjectMeta)
	if len(n.Labels) == 0 {
		return
	}
	labels := make(map[string]string, len(n.Labels))
	for k, v := range n.Labels {
		if v == n.Name {
			v = n.Name
		} else {
			v = t.text(v)
		}
		labels[t.text(k)] = v
	}
	n.Labels = labels
}

// trimSpec gives a policy the parts of an equal spec that has been seen: in most clusters most
// policies are one of a few, again and again.
func (t *Trimmer) trimSpec(spec *networkingv1.NetworkPolicySpec) {
	size := spec.Size()
	shared := size <= maxSpecBytes
	if shared {
		t.content = slices.Grow(t.content[:0], size)[:size]
		if _, err := spec.MarshalToSizedBuffer(t.content); err != nil {
			shared = false
		} else if known, ok := t.specs[string(t.content)]; ok {
			*spec = known
			return
		}
	}
	var key string
	if shared {
		key = string(t.content) // the rest uses the place again
	}
	spec.Ingress = distinct(spec.Ingress, (*networkingv1.NetworkPolicyIngressRule).Marshal)
	spec.Egress = distinct(spec.Egress, (*networkingv1.NetworkPolicyEgressRule).Marshal)
	t.trimSelector(&spec.PodSelector)
	for i := range spec.Ingress {
		t.trimPeers(spec.Ingress[i].From)
	}
	for i := range spec.Egress {
		t.trimPeers(spec.Egress[i].To)
	}
	if !shared {
		return
	}
	if len(t.specs) >= maxSpecs {
		clear(t.specs)
	}
	t.specs[key] = *spec
}

// distinct leaves out rules that are as an earlier one, if there are more than manyRules.
func distinct[R any](rules []R, encode func(*R) ([]byte, error)) []R {
	if len(rules) <= manyRules {
		return rules
	}
	var out []R
	known := map[string]bool{}
	for i := range rules {
		text, err := encode(&rules[i])
		if err != nil {
			return rules
		}
		if !known[string(text)] {
			known[string(text)] = true
			out = append(out, rules[i])
		}
	}
	return out
}

func (t *Trimmer) trimPeers(peers []networkingv1.NetworkPolicyPeer) {
	for i := range peers {
		t.trimSelector(peers[i].PodSelector)
		t.trimSelector(peers[i].NamespaceSelector)
	}
}

func (t *Trimmer) trimSelector(s *metav1.LabelSelector) {
	if s != nil {
		s.MatchLabels = t.shared(s.MatchLabels)
	}
}

func (t *Trimmer) trimPod(p *corev1.Pod) *convert.TrimmedPod {
	out := convert.TrimPod(p)
	out.Namespace, out.Labels = t.text(out.Namespace), t.shared(out.Labels)
	out.Node, out.ServiceAccount = t.text(out.Node), t.text(out.ServiceAccount)
	t.pack(&out.Name, &out.ResourceVersion, &out.IP, &out.UID)
	return out
}

// text returns the one copy of a text that there is to be.
func (t *Trimmer) text(s string) string {
	if len(s) > maxTextBytes {
		return s
	}
	if known, ok := t.texts[s]; ok {
		return known
	}
	if len(t.texts) >= maxShared {
		clear(t.texts)
	}
	t.texts[s] = s
	return s
}

// shared returns the one map of labels with this content that there is to be.
func (t *Trimmer) shared(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return labels
	}
	t.keys = t.keys[:0]
	for k := range labels {
		t.keys = append(t.keys, k)
	}
	slices.Sort(t.keys)
	t.content = t.content[:0]
	for _, k := range t.keys {
		t.content = append(append(append(append(t.content, k...), 0), labels[k]...), 0)
	}
	if len(t.content) > maxLabelBytes {
		return labels
	}
	if known, ok := t.labels[string(t.content)]; ok {
		return known
	}
	if len(t.labels) >= maxShared {
		clear(t.labels)
	}
	t.labels[string(t.content)] = labels
	return labels
}
