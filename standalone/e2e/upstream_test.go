package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/internal/tier"
)

// upstreamObjects are policies of the upstream kinds.
func upstreamObjects(t *testing.T) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, text := range []string{
		"{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 1, " +
			"subject: {namespaces: {}}, egress: [{name: names, action: Accept, to: [{domainNames: [example.com]}]}, {action: Deny, to: [{networks: [192.0.2.0/24]}]}]}}",
		"{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: guard}, spec: {priority: 1, " +
			"subject: {namespaces: {}}, ingress: [{action: Pass, from: [{namespaces: {}}], ports: [{namedPort: http}]}]}}",
		"{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}, spec: {" +
			"subject: {pods: {namespaceSelector: {}, podSelector: {}}}, egress: [{action: Deny, to: [{nodes: {}}]}]}}",
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

// realized returns why the conditions of a policy do not say that it is realized, or that it
// applies to nothing; "" if they do.
func (c *cluster) realized(ctx context.Context, policy *unstructured.Unstructured) string {
	u := policy.DeepCopy()
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return err.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	text := fmt.Sprint(u.GetKind(), conditions)
	if len(conditions) == 2 && strings.Contains(text, "type:Realized") && (strings.Contains(text, "reason:Realized status:True") || strings.Contains(text, "reason:Idle status:True")) {
		return ""
	}
	return text
}

// The upstream kinds come with "nephele up". Their definitions may go and come back while it runs;
// other policies do not notice.
func TestUpstreamKinds(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestLoopFollowsUpstreamKinds and TestUpstreamKindsComeAndGo (internal/control)")
	c := newCluster(t)
	for _, o := range upstreamObjects(t) {
		if err := c.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	all := func(what string) {
		t.Helper()
		for _, o := range upstreamObjects(t) {
			eventually(t, what, func(ctx context.Context) (bool, string) {
				why := c.realized(ctx, o)
				return why == "", why
			})
		}
	}
	all("conditions of policies of kinds that were there from the beginning")

	const name = "clusternetworkpolicies.policy.networking.k8s.io"
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName(name)
	if err := c.client.Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	logged := func(what, text string) {
		t.Helper()
		eventually(t, what, func(context.Context) (bool, string) {
			return strings.Count(c.log(t), text) == 1, "it is not in the log"
		})
	}
	logged("noticing that a kind is gone", "Not computing policies of this kind any more")

	// The others go on.
	other := upstreamObjects(t)[1]
	edit(t, c.client, other, func() {
		if err := unstructured.SetNestedField(other.Object, int64(2), "spec", "priority"); err != nil {
			t.Fatal(err)
		}
	})
	eventually(t, "a change of a policy of another kind", func(ctx context.Context) (bool, string) {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
			return false, err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(other.Object, "status", "conditions")
		text := fmt.Sprint(conditions)
		return strings.Count(text, "observedGeneration:2") == 2, text
	})

	reinstalled := time.Now()
	c.install(t, name)
	guard := upstreamObjects(t)[0]
	eventually(t, "creating a policy of the kind that is back", func(ctx context.Context) (bool, string) {
		if err := c.client.Create(ctx, guard); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	created := time.Since(reinstalled).Round(10 * time.Millisecond)
	all("conditions of policies after the kind is back")
	t.Logf("the kind was installed again; its policy is created after %s and realized after %s", created, time.Since(reinstalled).Round(10*time.Millisecond))
}

// install creates the definition with a name.
func (c *cluster) install(t *testing.T, name string) {
	t.Helper()
	manifests, err := crd.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(m.YAML, &u.Object); err != nil {
			t.Fatal(err)
		}
		if u.GetName() == name {
			eventually(t, "installing "+name, func(ctx context.Context) (bool, string) {
				u.SetResourceVersion("")
				u.SetUID("")
				u.SetCreationTimestamp(metav1.Time{})
				if err := c.client.Create(ctx, u); err != nil {
					return false, err.Error()
				}
				return true, ""
			})
		}
	}
}

// log returns the log of the controller.
func (c *cluster) log(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, "logs", "controller.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
