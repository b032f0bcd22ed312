package controlplane

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestHistoryIsWrittenByTheController: a user with every right in a namespace can neither make,
// change nor remove what its history says; the recorder can; it goes with its namespace.
func TestHistoryIsWrittenByTheController(t *testing.T) {
	admin := guarded(t)
	ns := newNamespace(t, "history")
	name := "owner@" + ns
	owner := user(t, name)
	give(t, name, ns, "*", "*", "*")
	revision := func(name string) *unstructured.Unstructured {
		o := fromYAML(t, `
apiVersion: nephele.io/v1alpha1
kind: PolicyRevision
metadata: {namespace: %s, name: %s}
spec:
  object: {group: crd.antrea.io, version: v1beta1, kind: NetworkPolicy, namespace: %s, name: p, uid: u}
  number: 1
  change: Created
  generation: 1
  size: 2
  content: "{}"
`, ns, name, ns)
		mustNot(t, unstructured.SetNestedField(o.Object, time.Now().UTC().Format(time.RFC3339), "spec", "time"))
		return o
	}
	const policy, how = "nephele-history", "only the controller writes and deletes the history"
	mustDo(t, "the controller writes", func(ctx context.Context) error { return admin.Create(ctx, revision("annp-p-1")) })
	mustRefuse(t, "create", policy, dryRun(owner, revision("annp-p-2")), how)
	mustRefuse(t, "a result", policy, func(ctx context.Context) error {
		return owner.Status().Patch(ctx, revision("annp-p-1"), merge(`{"status":{"phase":"Realized","vms":"9/9"}}`), client.DryRunAll)
	}, how)
	mustRefuse(t, "an annotation", policy, func(ctx context.Context) error {
		return owner.Patch(ctx, revision("annp-p-1"), merge(`{"metadata":{"annotations":{"a":"b"}}}`), client.DryRunAll)
	}, how)
	mustRefuse(t, "delete", policy, func(ctx context.Context) error { return owner.Delete(ctx, revision("annp-p-1"), client.DryRunAll) }, how)
	mustRefuse(t, "delete all", policy, func(ctx context.Context) error {
		all := &unstructured.Unstructured{}
		all.SetAPIVersion("nephele.io/v1alpha1")
		all.SetKind("PolicyRevision")
		return owner.DeleteAllOf(ctx, all, client.InNamespace(ns))
	}, how)
	give(t, name, ns, "nephele.io", "clusterpolicyrevisions", "record")
	mustRefuse(t, "with the verb in the namespace only", policy, dryRun(owner, revision("annp-p-2")), how)
	recorder := "recorder@" + ns
	give(t, recorder, "", "nephele.io", "clusterpolicyrevisions", "record")
	give(t, recorder, "", "nephele.io", "policyrevisions", "create")
	give(t, recorder, "", "nephele.io", "policyrevisions", "delete")
	mustDo(t, "the recorder writes", func(ctx context.Context) error { return user(t, recorder).Create(ctx, revision("annp-p-2")) })
	mustDo(t, "and deletes", func(ctx context.Context) error { return user(t, recorder).Delete(ctx, revision("annp-p-2")) })
	err := admin.Patch(t.Context(), revision("annp-p-1"), merge(`{"spec":{"author":{"user":"bob"}}}`))
	if err == nil || !strings.Contains(err.Error(), "the past does not change") {
		t.Errorf("the administrator rewrites a revision: %v", err)
	}
	whole := fromYAML(t, `{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, ns)
	mustNot(t, admin.Delete(t.Context(), whole))
	eventually(t, "the namespace goes", func(ctx context.Context) error {
		return gone(admin.Get(ctx, client.ObjectKeyFromObject(whole), whole))
	})
}
