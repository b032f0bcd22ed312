package controlplane

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// TestEgressOfNodes: an agent writes Leases of Egresses only, for its own Node; and who may do
// everything in a Namespace makes no Egress.
func TestEgressOfNodes(t *testing.T) {
	admin := guarded(t)
	manifest, err := os.ReadFile("../../../config/nodes/egress.yaml")
	mustNot(t, err)
	mustNot(t, server(t).Apply(t.Context(), fstest.MapFS{"egress.yaml": {Data: manifest}}))
	as := func(node string) client.Client {
		return acting(t, func(c *rest.Config) {
			actingAs(c, "system:serviceaccount:kube-system:nephele-node-agent")
			c.Impersonate.Groups = []string{"system:authenticated"}
			if node != "" {
				c.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
			}
		})
	}
	own, other, unbound := as("own"), as("other"), as("")
	lease := func(name, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	const address, alive, policy = "nephele-egress-192.0.2.1", "nephele-egress-node-1", "nephele-egress"
	t.Cleanup(func() { // the server is others', too
		for _, name := range []string{address, alive, "lock-of-others"} {
			_ = admin.Delete(context.Background(), lease(name, ""))
		}
	})
	create := func(c client.Client, name, holder string, options ...client.CreateOption) func(context.Context) error {
		return func(ctx context.Context) error { return c.Create(ctx, lease(name, holder), options...) }
	}
	update := func(c client.Client, name, holder string) func(context.Context) error {
		return func(ctx context.Context) error {
			var now coordinationv1.Lease
			if err := admin.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: name}, &now); err != nil {
				return err
			}
			now.Spec.HolderIdentity = &holder
			return c.Update(ctx, &now)
		}
	}
	mustNot(t, admin.Create(t.Context(), lease("lock-of-others", "x")))
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		if err := create(own, "other-lock", "own", client.DryRunAll)(ctx); !refusedBy(err, policy) {
			return fmt.Errorf("another Lease by an agent: %w", err)
		}
		return nil
	})
	const only, forOwn, itself = "Leases of Egresses only", "for its own Node", "its own Node only that it lives"
	mustRefuse(t, "the lock of others", policy, update(own, "lock-of-others", "own"), only)
	mustRefuse(t, "an address, with a token that is bound to no Node", policy, create(unbound, address, "own"), only)
	mustRefuse(t, "an address for another Node", policy, create(own, address, "other"), forOwn)
	mustDo(t, "that an agent takes an address", create(own, address, "own"))
	mustRefuse(t, "that another one gives it up", policy, update(other, address, ""), forOwn)
	mustDo(t, "that another one takes it", update(other, address, "other"))
	mustDo(t, "that this one gives it up", update(other, address, ""))
	mustDo(t, "that an agent says that its Node lives", create(own, alive, "own"))
	mustRefuse(t, "that another one says so", policy, update(other, alive, "other"), itself)
	mustRefuse(t, "that it says that nobody lives", policy, update(own, alive, ""), itself)
	mustDo(t, "the locks of others, by others", update(admin, "lock-of-others", "y"))

	give(t, "namespace-admin", "default", "*", "*", "*")
	tenant := acting(t, func(c *rest.Config) { actingAs(c, "namespace-admin") })
	e := &v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: "of-a-tenant"}, Spec: v1beta1.EgressSpec{
		AppliedTo: v1beta1.EgressAppliedTo{NamespaceSelector: &metav1.LabelSelector{}}, EgressIP: "192.0.2.1",
	}}
	if err := tenant.Create(t.Context(), e.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("a user with all rights in one Namespace makes an Egress: %v", err)
	}
	mustNot(t, admin.Create(t.Context(), e))
	mustNot(t, admin.Delete(t.Context(), e))
}
