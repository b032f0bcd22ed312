package control

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/control/convert"
)

// Trimmer makes objects smaller before informers keep them: most of what a cluster of 100,000 Pods
// costs in memory is what nobody here reads, and the same few labels over and over. It is safe for
// concurrent use; use NewTrimmer.
type Trimmer struct {
	mu sync.Mutex
	// labels are those seen, by content; texts are names that many objects have.
	labels map[string]map[string]string
	texts  map[string]string
	// keys and content are used again for each map.
	keys    []string
	content []byte
}

// maxShared is the number of contents that a Trimmer remembers before it begins anew.
const maxShared = 1 << 16

// NewTrimmer returns a Trimmer.
func NewTrimmer() *Trimmer {
	return &Trimmer{labels: map[string]map[string]string{}, texts: map[string]string{}}
}

// Trim takes away who manages which fields and the images of Nodes; of a Pod it leaves a
// convert.TrimmedPod. Equal labels become the same map, and of VirtualMachines and
// ExternalEntities equal texts the same text. It is a transformation for informers
// (cache.Options.DefaultTransform): a cache with it cannot be asked for Pods, and no map of labels
// may be modified.
func (t *Trimmer) Trim(object any) (any, error) {
	if o, ok := object.(client.Object); ok && len(o.GetManagedFields()) > 0 {
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
	case *networkingv1.NetworkPolicy:
		t.trimMeta(&o.ObjectMeta)
		t.trimSelector(&o.Spec.PodSelector)
		for i := range o.Spec.Ingress {
			t.trimPeers(o.Spec.Ingress[i].From)
		}
		for i := range o.Spec.Egress {
			t.trimPeers(o.Spec.Egress[i].To)
		}
	}
	return object, nil
}

func (t *Trimmer) trimMeta(m *metav1.ObjectMeta) {
	m.Namespace, m.Labels = t.text(m.Namespace), t.shared(m.Labels)
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
	return out
}

// text returns the one copy of a text that there is to be.
func (t *Trimmer) text(s string) string {
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
	if known, ok := t.labels[string(t.content)]; ok {
		return known
	}
	if len(t.labels) >= maxShared {
		clear(t.labels)
	}
	t.labels[string(t.content)] = labels
	return labels
}
