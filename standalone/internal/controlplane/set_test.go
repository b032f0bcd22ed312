package controlplane

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// TestCopiesOfTheHub: a user with the right to write policies can neither make, change nor remove
// what is from the hub of the set, nor make it look as if it were his own.
func TestCopiesOfTheHub(t *testing.T) {
	admin := guarded(t)
	ns := newNamespace(t, "copies")
	name := "author@" + ns
	author := person(t, name, "", "nephele-policy-author")
	object := func(kind, name string, copied bool) *unstructured.Unstructured {
		o := fromYAML(t, `
apiVersion: crd.antrea.io/v1beta1
kind: %s
metadata: {namespace: %s, name: %s}
spec: {podSelector: {}}`, kind, ns, name)
		if kind != "Group" {
			o.Object["spec"] = fromYAML(t, `{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{name: r, action: Drop}]}`).Object
		}
		if copied {
			o.SetLabels(map[string]string{"set.nephele.io/from-hub": "true"})
			o.SetAnnotations(map[string]string{"set.nephele.io/source": "u"})
		}
		return o
	}
	const policy, how = "nephele-set", "this is from the hub of the set"
	for _, kind := range []string{"NetworkPolicy", "Group"} {
		// The API server has to find the kinds first that its policies look at.
		mustDo(t, kind+" of the hub", func(ctx context.Context) error { return admin.Create(ctx, object(kind, "hub-x", true)) })
		mustDo(t, kind+" of his own", func(ctx context.Context) error { return author.Create(ctx, object(kind, "own", false)) })
		mustRefuse(t, kind+": create", policy, dryRun(author, object(kind, "hub-y", true)), how)
		patch := func(name, text string) func(context.Context) error {
			return func(ctx context.Context) error {
				return author.Patch(ctx, object(kind, name, false), merge("%s", text), client.DryRunAll)
			}
		}
		mustRefuse(t, kind+": unlabel", policy, patch("hub-x", `{"metadata":{"labels":null}}`), how)
		mustRefuse(t, kind+": label as false", policy, patch("hub-x", `{"metadata":{"labels":{"set.nephele.io/from-hub":"false"}}}`), how)
		mustRefuse(t, kind+": another source", policy, patch("hub-x", `{"metadata":{"annotations":{"set.nephele.io/source":"v"}}}`), how)
		mustRefuse(t, kind+": label his own", policy, patch("own", `{"metadata":{"labels":{"set.nephele.io/from-hub":"true"}}}`), how)
		mustRefuse(t, kind+": delete", policy, func(ctx context.Context) error {
			return author.Delete(ctx, object(kind, "hub-x", true), client.DryRunAll)
		}, how)
		for way, write := range ways {
			mustRefuse(t, kind+": "+way, policy, func(ctx context.Context) error {
				o := object(kind, "hub-x", true)
				mustNot(t, unstructured.SetNestedStringMap(o.Object, map[string]string{"a": "b"}, "metadata", "annotations"))
				if kind != "Group" {
					mustNot(t, unstructured.SetNestedField(o.Object, int64(7), "spec", "priority"))
				} else {
					mustNot(t, unstructured.SetNestedField(o.Object, "x", "spec", "podSelector", "matchLabels", "app"))
				}
				return write(ctx, author, o)
			}, how)
		}
		mustDo(t, kind+": his own goes", func(ctx context.Context) error { return author.Delete(ctx, object(kind, "own", false)) })
	}
	mustRefuse(t, "delete all", policy, func(ctx context.Context) error {
		return author.DeleteAllOf(ctx, &v1beta1.NetworkPolicy{}, client.InNamespace(ns))
	}, how)
	mustDo(t, "the status is told", func(ctx context.Context) error {
		return admin.Status().Patch(ctx, object("NetworkPolicy", "hub-x", true), merge(`{"status":{"phase":"Realized"}}`))
	})
	give(t, name, "", "set.nephele.io", "memberships", "write", "hub")
	mustDo(t, "a user with the right to write the Membership removes it", func(ctx context.Context) error { return author.Delete(ctx, object("NetworkPolicy", "hub-x", true)) })
}
