package controlplane

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// settleLimit bounds how long AwaitPolicies waits: the API server renews what it knows of kinds by
// itself within half a minute.
const settleLimit = 40 * time.Second

// AwaitPolicies waits until the API server decides about policies. Just after a start its admission
// policies refuse all of them for a moment, until they have found the kind of their parameters. It
// asks by a policy that is not stored; any other answer ends the wait.
func (cp *ControlPlane) AwaitPolicies(ctx context.Context) error {
	client, err := dynamic.NewForConfig(cp.RestConfig())
	if err != nil {
		return err
	}
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "crd.antrea.io/v1beta1", "kind": "NetworkPolicy", "metadata": map[string]any{"generateName": "nephele-probe-"},
		"spec": map[string]any{"priority": int64(1), "appliedTo": []any{map[string]any{"podSelector": map[string]any{}}}},
	}}
	policies := client.Resource(schema.GroupVersionResource{Group: "crd.antrea.io", Version: "v1beta1", Resource: "networkpolicies"}).Namespace("default")
	limit := time.NewTimer(settleLimit)
	defer limit.Stop()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		_, err := policies.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "failed to configure policy") {
			return ctx.Err()
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
