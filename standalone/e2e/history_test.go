package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	nephelev1alpha1 "github.com/nephele-io/nephele/api/nephele/v1alpha1"
	"github.com/nephele-io/nephele/internal/tier"
)

// revision is what the test looks at of the output of nephele history -o json.
type revision struct {
	Name string `json:"name"`
	Spec struct {
		Change string `json:"change"`
		Author struct {
			User string `json:"user"`
		} `json:"author"`
	} `json:"spec"`
}

// as returns a client that acts as a user.
func (c *cluster) as(user string) client.Client {
	c.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		c.t.Fatal(err)
	}
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	s := testScheme(c.t)
	if err := nephelev1alpha1.AddToScheme(s); err != nil {
		c.t.Fatal(err)
	}
	out, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// TestHistory: every change of a policy is there with its author, also one made while the process
// was killed, and none twice; a tenant reads the history of his namespace and no other, and forges
// nothing; what was comes back on demand.
func TestHistory(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestRestart and TestAuthors (internal/history), TestHistoryIsWrittenByTheController (controlplane), TestHistoryApply (historycmd)")
	c := newCluster(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for _, ns := range []string{"shop", "other"} {
		must(c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}
	must(c.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "alice"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-policy-author"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
	}))
	policy := func(ns string, priority float64) *v1beta1.NetworkPolicy {
		p := decodePolicies(t, policiesYAML)[0].DeepCopyObject().(*v1beta1.NetworkPolicy)
		p.Namespace, p.Name, p.Spec.Priority = ns, "p", priority
		return p
	}
	alice := c.as("alice")
	eventually(t, "the rights of alice are there", func(ctx context.Context) (bool, string) {
		err := alice.Create(ctx, policy("shop", 5))
		return err == nil, fmt.Sprint(err)
	})
	must(c.client.Create(ctx, policy("other", 5)))
	change := func(by client.Client, priority float64) {
		t.Helper()
		must(by.Patch(ctx, policy("shop", 0), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"priority":%v}}`, priority))))
	}
	wanted := func(what string, want ...string) {
		t.Helper()
		eventuallyTold(t, what, func(context.Context) (bool, string) {
			out, err := c.nephele("history", "shop/p", "-o", "json")
			if err != nil {
				return false, err.Error() + out
			}
			var got []string
			var all []revision
			if err := json.Unmarshal([]byte(out), &all); err != nil {
				return false, err.Error()
			}
			for _, r := range all {
				got = append(got, fmt.Sprintf("%s %s %s", r.Name, r.Spec.Change, r.Spec.Author.User))
			}
			slices.Reverse(got)
			return slices.Equal(got, want), strings.Join(got, "\n")
		})
	}
	wanted("the policy is recorded", "shop/annp-p-1 Created alice")
	change(c.client, 7)
	want := []string{"shop/annp-p-1 Created alice", "shop/annp-p-2 Changed nephele-admin"}
	wanted("the change is recorded", want...)

	if out, err := c.nephele("history", "apply", "shop/annp-p-1", "--yes", "--without-plan"); err != nil {
		t.Fatal(err, out)
	}
	want = append(want, "shop/annp-p-3 Changed nephele-admin")
	wanted("it is applied again", want...)
	var now v1beta1.NetworkPolicy
	must(c.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "p"}, &now))
	if now.Spec.Priority != 5 {
		t.Errorf("priority %v", now.Spec.Priority)
	}

	// A tenant.
	var list nephelev1alpha1.PolicyRevisionList
	must(alice.List(ctx, &list, client.InNamespace("shop")))
	if len(list.Items) != 3 {
		t.Errorf("alice sees %d revisions", len(list.Items))
	}
	if err := alice.List(ctx, &list, client.InNamespace("other")); !apierrors.IsForbidden(err) {
		t.Errorf("alice lists the history of others: %v", err)
	}
	if err := alice.List(ctx, &nephelev1alpha1.ClusterPolicyRevisionList{}); !apierrors.IsForbidden(err) {
		t.Errorf("alice lists the history of the cluster: %v", err)
	}
	must(alice.List(ctx, &list, client.InNamespace("shop")))
	forged := list.Items[0].DeepCopy()
	forged.ResourceVersion, forged.Name = "", "annp-p-9"
	if err := alice.Create(ctx, forged); !apierrors.IsForbidden(err) {
		t.Errorf("alice forges a revision: %v", err)
	}
	if err := alice.Delete(ctx, &list.Items[0]); !apierrors.IsForbidden(err) {
		t.Errorf("alice deletes a revision: %v", err)
	}
	admin := c.as("nobody-else")
	if err := admin.Get(ctx, client.ObjectKeyFromObject(&list.Items[0]), &nephelev1alpha1.PolicyRevision{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody reads a revision: %v", err)
	}
	rewritten := list.Items[0].DeepCopy()
	rewritten.Spec.Author.User = "bob"
	full, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	must(err)
	s := testScheme(t)
	must(nephelev1alpha1.AddToScheme(s))
	all, err := client.New(full, client.Options{Scheme: s})
	must(err)
	if err := all.Update(ctx, rewritten); err == nil || !strings.Contains(err.Error(), "the past does not change") {
		t.Errorf("the administrator rewrites a revision: %v", err)
	}

	// A process that is killed, and one that was away.
	c.kill()
	c.start()
	c.waitReady()
	change(alice, 9)
	want = append(want, "shop/annp-p-4 Changed alice")
	wanted("the next process goes on", want...)
	must(c.client.Delete(ctx, policy("shop", 0)))
	want = append(want, "shop/annp-p-5 Deleted nephele-admin")
	wanted("the deletion is recorded", want...)
}

// nephele runs a command of the binary on the cluster.
func (c *cluster) nephele(args ...string) (string, error) {
	cmd := exec.Command(binary, append(args, "--kubeconfig", filepath.Join(c.dir, "kubeconfig"))...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	spent(c.t.Name(), cmd.ProcessState, false)
	return out.String(), err
}

// remembered sees to it that the controller of a manifest has the rights to keep a history of one
// version each: it writes revisions, says what became of them, and removes them.
func (x *existing) remembered() {
	group := fromText(x.t, `{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {namespace: default, name: kept}, spec: {podSelector: {}}}`)
	cluster := fromText(x.t, `{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: kept}, spec: {podSelector: {}}}`)
	revisions := func(ctx context.Context) []string {
		var out []string
		for _, kind := range []string{"PolicyRevision", "ClusterPolicyRevision"} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(nephelev1alpha1.GroupVersion().WithKind(kind + "List"))
			if err := x.admin.List(ctx, list); err != nil {
				return []string{err.Error()}
			}
			for _, r := range list.Items {
				if name, _, _ := unstructured.NestedString(r.Object, "spec", "object", "name"); name == "kept" {
					change, _, _ := unstructured.NestedString(r.Object, "spec", "change")
					phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
					out = append(out, strings.TrimSpace(r.GetName()+" "+change+" "+phase))
				}
			}
		}
		slices.Sort(out)
		return out
	}
	x.must(x.admin.Create(x.t.Context(), group))
	x.must(x.admin.Create(x.t.Context(), cluster))
	eventually(x.t, "revisions of the groups say what became of them", func(ctx context.Context) (bool, string) {
		got := revisions(ctx)
		return slices.Equal(got, []string{"cg-kept-1 Created Computed", "grp-kept-1 Created Computed"}), strings.Join(got, ", ")
	})
	x.must(x.admin.Delete(x.t.Context(), group))
	x.must(x.admin.Delete(x.t.Context(), cluster))
	eventually(x.t, "the last revision of each is kept", func(ctx context.Context) (bool, string) {
		got := revisions(ctx)
		return slices.Equal(got, []string{"cg-kept-2 Deleted", "grp-kept-2 Deleted"}), strings.Join(got, ", ")
	})
}
