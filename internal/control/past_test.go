package control

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	adminv2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// toldHistory is a History that keeps what it is told.
type toldHistory struct{ told []string }

func (h *toldHistory) Changed(o client.Object) {
	h.told = append(h.told, fmt.Sprintf("changed %T %s %d", o, o.GetName(), o.GetGeneration()))
}
func (h *toldHistory) Deleted(o client.Object) {
	h.told = append(h.told, fmt.Sprintf("deleted %T %s", o, o.GetName()))
}
func (h *toldHistory) Synced() { h.told = append(h.told, "synced") }

// TestHistoryIsTold: of what people write to say what is allowed, of every kind, and of nothing
// else.
func TestHistoryIsTold(t *testing.T) {
	w := newTestWorld(t)
	h := &toldHistory{}
	w.Options.History = h
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "vms", Name: name, UID: "u", Generation: 1}
	}
	cluster := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, UID: "u", Generation: 1}
	}
	p := &v1beta1.NetworkPolicy{ObjectMeta: meta("a")}
	w.put(p)
	w.put(&v1beta1.ClusterNetworkPolicy{ObjectMeta: cluster("b")})
	w.put(&v1beta1.Group{ObjectMeta: meta("c")})
	w.put(&v1beta1.ClusterGroup{ObjectMeta: cluster("d")})
	w.put(&v1beta1.Tier{ObjectMeta: cluster("e")})
	w.put(&networkingv1.NetworkPolicy{ObjectMeta: meta("f")})
	w.put(&adminv2.ClusterNetworkPolicy{ObjectMeta: cluster("g")})
	w.put(&corev1.Pod{ObjectMeta: meta("pod")})
	w.put(vm(t, "vm", "db", "cloud-a"))
	w.put(&corev1.Namespace{ObjectMeta: cluster("ns")})
	again := &v1beta1.NetworkPolicy{ObjectMeta: meta("a")}
	again.Generation = 2
	w.put(again)
	w.remove(again)
	want := []string{
		"changed *v1beta1.NetworkPolicy a 1", "changed *v1beta1.ClusterNetworkPolicy b 1", "changed *v1beta1.Group c 1", "changed *v1beta1.ClusterGroup d 1",
		"changed *v1beta1.Tier e 1", "changed *v1.NetworkPolicy f 1", "changed *v1alpha2.ClusterNetworkPolicy g 1", "changed *v1beta1.NetworkPolicy a 2",
		"deleted *v1beta1.NetworkPolicy a",
	}
	if !slices.Equal(h.told, want) {
		t.Errorf("told %q\nwant %q", h.told, want)
	}
}
