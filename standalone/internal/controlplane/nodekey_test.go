package controlplane

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestKeysOfNodes: an agent tells the key of WireGuard of its own Node and changes nothing else of
// it, and nobody else tells one, whatever his rights.
func TestKeysOfNodes(t *testing.T) {
	admin := acting(t, nil)
	manifest, err := os.ReadFile("../../../config/nodes/encryption.yaml")
	mustNot(t, err)
	mustNot(t, server(t).Apply(t.Context(), fstest.MapFS{"encryption.yaml": {Data: manifest}}))
	for _, name := range []string{"own", "other"} {
		mustNot(t, admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": "v"}, Annotations: map[string]string{"a": "v"}}}))
	}
	t.Cleanup(func() { // the server is others', too
		for _, name := range []string{"own", "other", "bare"} {
			if err := admin.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Error(err)
			}
		}
	})
	as := func(name, node string, groups ...string) client.Client {
		return acting(t, func(c *rest.Config) {
			actingAs(c, name)
			c.Impersonate.Groups = append(groups, "system:authenticated")
			if node != "" {
				c.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
			}
		})
	}
	agent, unbound := as("system:serviceaccount:kube-system:nephele-node-agent", "own"), as("system:serviceaccount:kube-system:nephele-node-agent", "")
	patch := func(c client.Client, node, text string) func(context.Context) error {
		return func(ctx context.Context) error {
			return c.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}
	key := func(value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, cloudv1.AnnotationWireGuardKey, value)
	}
	const policy, own, only = "nephele-node-key", "by its own agent only", "changes nothing of its Node but"
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		if err := admin.Patch(ctx, n, client.RawPatch(types.MergePatchType, []byte(key(`"k"`))), client.DryRunAll); !refusedBy(err, policy) {
			return fmt.Errorf("a key by an administrator: %w", err)
		}
		return nil
	})
	mustRefuse(t, "the key of another Node", policy, patch(agent, "other", key(`"k"`)), own)
	mustRefuse(t, "a key by an agent whose token is bound to no Node", policy, patch(unbound, "own", key(`"k"`)), own)
	mustRefuse(t, "a key by an administrator", policy, patch(admin, "own", key(`"k"`)), own)
	mustRefuse(t, "a Node that comes with a key", policy, func(ctx context.Context) error {
		return admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "third", Annotations: map[string]string{cloudv1.AnnotationWireGuardKey: "k"}}})
	}, own)
	mustDo(t, "the key of the own Node", patch(agent, "own", key(`"k"`)))
	identity := fmt.Sprintf(`{"metadata":{"annotations":{%q:"i"}}}`, cloudv1.AnnotationIPsecIdentity)
	mustRefuse(t, "the identity of another Node", policy, patch(agent, "other", identity), own)
	mustRefuse(t, "an identity by an administrator", policy, patch(admin, "own", identity), own)
	mustDo(t, "the identity of the own Node", patch(agent, "own", identity))
	for what, text := range map[string]string{
		"a label": `{"metadata":{"labels":{"l":"w"}}}`, "no label": `{"metadata":{"labels":{"l":null}}}`, "an annotation": `{"metadata":{"annotations":{"a":"w"}}}`,
		"one more annotation": `{"metadata":{"annotations":{"b":""}}}`, "no annotation": `{"metadata":{"annotations":{"a":null}}}`,
		"a taint": `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`, "a finalizer": `{"metadata":{"finalizers":["nephele.io/x"]}}`,
		"another key and a label": fmt.Sprintf(`{"metadata":{"labels":{"l":"w"},"annotations":{%q:"other"}}}`, cloudv1.AnnotationWireGuardKey),
	} {
		mustRefuse(t, what+" of the own Node", policy, patch(agent, "own", text), only)
	}
	mustRefuse(t, "that another Node is cordoned", policy, patch(agent, "other", `{"spec":{"unschedulable":true}}`), own)
	mustDo(t, "a Node without annotations comes", func(ctx context.Context) error {
		return admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})
	})
	mustDo(t, "it gets a key", patch(as("system:serviceaccount:kube-system:nephele-node-agent", "bare"), "bare", key(`"k"`)))
	give(t, "system:node:bare", "", "", "nodes", "patch")
	mustDo(t, "its kubelet, which may write it, changes its key and a label", patch(as("system:node:bare", "", "system:nodes"), "bare",
		fmt.Sprintf(`{"metadata":{"labels":{"l":"w"},"annotations":{%q:"other"}}}`, cloudv1.AnnotationWireGuardKey)))
	mustDo(t, "a label of a Node, by an administrator", patch(admin, "own", `{"metadata":{"labels":{"l":"w"}}}`))
	mustRefuse(t, "that an administrator takes the key back", policy, patch(admin, "own", key("null")), own)
	mustDo(t, "that the agent takes the key back", patch(agent, "own", key("null")))
}
