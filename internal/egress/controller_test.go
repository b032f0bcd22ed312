package egress

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// TestController gives an Egress an address, says which Node has it, and writes nothing twice.
func TestController(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pool, wanted := poolOf("p", 2, v1beta1.IPRange{CIDR: "192.0.2.0/30"}), egressOf("e", 1, v1beta1.EgressSpec{ExternalIPPool: "p"})
	refused := egressOf("f", 1, v1beta1.EgressSpec{ExternalIPPool: "none"})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1beta1.Egress{}, &v1beta1.ExternalIPPool{}).WithObjects(&pool, &wanted, &refused, node).
		WithInterceptorFuncs(interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
				writes++
				return c.Update(ctx, o, options...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
				writes++
				return c.SubResource(sub).Update(ctx, o, options...)
			},
		}).Build()
	x := &Controller{Client: c, Reader: c, Namespace: "kube-system", Clock: testingclock.NewFakeClock(time.Unix(1000, 0)), Log: logr.Discard()}
	look := func(want int) (*v1beta1.Egress, *v1beta1.ExternalIPPool) {
		t.Helper()
		writes = 0
		if err := x.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if writes != want {
			t.Errorf("%d writes, want %d", writes, want)
		}
		var e v1beta1.Egress
		var p v1beta1.ExternalIPPool
		if err := c.Get(t.Context(), client.ObjectKey{Name: "e"}, &e); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "p"}, &p); err != nil {
			t.Fatal(err)
		}
		return &e, &p
	}
	e, p := look(4) // spec and status, the status of the one that is refused, and the pool
	if e.Spec.EgressIP != "192.0.2.2" || !e.Status.Has(v1beta1.IPAllocated) || e.Status.Has(v1beta1.IPAssigned) || p.Status.Usage != (v1beta1.ExternalIPPoolUsage{Total: 2, Used: 1}) {
		t.Errorf("%+v %+v %+v", e.Spec, e.Status, p.Status)
	}
	var f v1beta1.Egress
	if err := c.Get(t.Context(), client.ObjectKey{Name: "f"}, &f); err != nil || f.Spec.EgressIP != "" || len(f.Status.Conditions) != 2 || !strings.HasSuffix(f.Status.Conditions[0].Message, "there is no ExternalIPPool none") {
		t.Errorf("%+v %v", f.Status, err)
	}
	look(0)
	holder := "n"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nephele-egress-192.0.2.2", Labels: map[string]string{labelAddress: "192.0.2.2"}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	if err := c.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if e, _ := look(1); e.Status.EgressNode != "n" || e.Status.EgressIP != "192.0.2.2" || !e.Status.Has(v1beta1.IPAssigned) {
		t.Errorf("%+v", e.Status)
	}
	look(0)
}
