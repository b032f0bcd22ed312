package stats

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/stats/v1alpha1"
)

// MulticastGroups returns the groups that Pods have joined anywhere, sorted by address, as text.
func (b *Book) MulticastGroups() []v1alpha1.MulticastGroup {
	b.mu.RLock()
	defer b.mu.RUnlock()
	pods := map[string][]v1alpha1.PodReference{}
	for _, groups := range b.multicast {
		for _, g := range groups {
			list := pods[g.Group]
			for _, p := range g.Pods {
				list = append(list, v1alpha1.PodReference(p))
			}
			pods[g.Group] = list
		}
	}
	out := make([]v1alpha1.MulticastGroup, 0, len(pods))
	for _, address := range slices.Sorted(maps.Keys(pods)) {
		list := pods[address]
		slices.SortFunc(list, func(x, y v1alpha1.PodReference) int {
			return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
		})
		out = append(out, v1alpha1.MulticastGroup{ObjectMeta: metav1.ObjectMeta{Name: address}, Group: address, Pods: slices.Compact(list)})
	}
	return out
}

// PutLatency takes what a Node measured. It does not keep the value. It may fail with ErrFull.
func (b *Book) PutLatency(s *v1alpha1.NodeLatencyStats) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	former := b.latency[s.Name]
	if err := b.room(targets(former), targets(s)); err != nil {
		return err
	}
	// Of its metadata nothing but the name is the Node's to say.
	s = s.DeepCopy()
	s.ObjectMeta = metav1.ObjectMeta{Name: s.Name, CreationTimestamp: metav1.NewTime(b.clock.Now()).Rfc3339Copy()}
	if former != nil {
		s.CreationTimestamp = former.CreationTimestamp
	}
	b.latency[s.Name] = s
	return nil
}

// Latency returns what a Node measured last; false if it has not.
func (b *Book) Latency(node string) (*v1alpha1.NodeLatencyStats, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s, ok := b.latency[node]
	return s.DeepCopy(), ok
}

// Latencies returns what all Nodes measured last, sorted by name.
func (b *Book) Latencies() []v1alpha1.NodeLatencyStats {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]v1alpha1.NodeLatencyStats, 0, len(b.latency))
	for _, node := range slices.Sorted(maps.Keys(b.latency)) {
		out = append(out, *b.latency[node].DeepCopy())
	}
	return out
}

// ForgetLatency forgets what a Node measured; false if there is nothing.
func (b *Book) ForgetLatency(node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	former, ok := b.latency[node]
	b.stated -= targets(former)
	delete(b.latency, node)
	return ok
}

// ForgetNode forgets what a Node that is gone has said about itself. What it has counted for
// policies stays.
func (b *Book) ForgetNode(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stated -= pods(b.multicast[node]) + targets(b.latency[node])
	delete(b.multicast, node)
	delete(b.latency, node)
}
