package backupcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/enroll"
)

func object(api, kind, namespace, name string, more map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": api, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	for k, v := range more {
		o.Object[k] = v
	}
	return o
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}, Data: data}
}

// installed is a cluster in which Nephele is at work.
func installed() []client.Object {
	account := object("crd.cloud.antrea.io/v1alpha1", "CloudProviderAccount", "vms", "shop", map[string]any{
		"spec":   map[string]any{"awsConfig": map[string]any{"region": []any{"eu-west-1"}, "secretRef": map[string]any{"namespace": "vault", "name": "keys", "key": "k"}}},
		"status": map[string]any{"error": "x"}})
	account.SetAnnotations(map[string]string{"nephele.io/break-glass": "true", "nephele.io/confirm": "abc", "example.com/kept": "yes"})
	account.SetFinalizers([]string{"nephele.io/finalizer"})
	imported := object("crd.antrea.io/v1alpha2", "ExternalEntity", "vms", "virtualmachine-i-1", nil)
	imported.SetLabels(map[string]string{"nephe.antrea.io/kind": "virtualmachine"})
	fromHub := object("crd.antrea.io/v1beta1", "NetworkPolicy", "vms", "of-the-hub", nil)
	fromHub.SetLabels(map[string]string{"set.nephele.io/from-hub": "true"})
	dying := object("crd.antrea.io/v1beta1", "Group", "vms", "dying", nil)
	dying.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	dying.SetFinalizers([]string{"example.com/f"})
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms", Labels: map[string]string{"team": "shop"}}},
		secret(recordkey.SecretName, map[string][]byte{"key": []byte("record")}), secret(enroll.AuthorityName, map[string][]byte{"tls.key": []byte("host")}),
		object("crd.antrea.io/v1beta1", "Tier", "", "application", map[string]any{"spec": map[string]any{"priority": int64(250)}}),
		object("crd.antrea.io/v1beta1", "Tier", "", "own", map[string]any{"spec": map[string]any{"priority": int64(100)}}),
		object("crd.antrea.io/v1beta1", "NetworkPolicy", "vms", "db", map[string]any{"spec": map[string]any{"priority": int64(5)}}),
		object("crd.antrea.io/v1alpha2", "ExternalEntity", "vms", "mine", nil), imported, dying, fromHub,
		object("crd.cloud.antrea.io/v1alpha1", "CloudEntitySelector", "vms", "all", map[string]any{"spec": map[string]any{"accountName": "shop"}}), account,
	}
}

// fresh is a cluster in which the controller was installed and has done nothing yet.
func fresh() []client.Object {
	return []client.Object{
		secret(recordkey.SecretName, nil), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}},
		object("crd.antrea.io/v1beta1", "Tier", "", "application", map[string]any{"spec": map[string]any{"priority": int64(250)}}),
	}
}

type cluster struct {
	client.Client
	made []string
	// last is how many objects are made until the connection breaks; less than 0 for all.
	last int
}

func newCluster(t *testing.T, objects []client.Object) *cluster {
	t.Helper()
	c := &cluster{last: -1}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	all, err := backedUp()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		scheme.AddKnownTypeWithName(k.GroupVersionKind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(k.GroupVersion().WithKind(k.Kind+"List"), &unstructured.UnstructuredList{})
	}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if c.last == 0 {
				return errors.New("the connection broke")
			}
			c.last--
			err := to.Create(ctx, o, opts...)
			if err == nil {
				c.made = append(c.made, fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName()))
				if u, ok := o.(*unstructured.Unstructured); ok {
					c.made[len(c.made)-1] = u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
				}
			}
			return err
		},
	}).Build()
	return c
}

// command runs one of the commands against a cluster.
func (c *cluster) command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	for _, cmd := range Commands(Needs{Version: "v1.2.3", Client: func(*rest.Config) (client.Client, error) { return c, nil }}) {
		if cmd.Name() != args[0] {
			continue
		}
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`
		if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd.SetArgs(append(args[1:], "--kubeconfig", kubeconfig))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	t.Fatalf("no command %s", args[0])
	return "", nil
}

// TestCluster: what people wrote and the keys come back in another cluster, guards before what they
// guard; what an emergency or a confirmation said once does not count again.
func TestCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if _, err := newCluster(t, installed()).command(t, "backup", "--to", file); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"*v1.Namespace /vms", "*v1.Secret kube-system/nephele-host-authority", "Tier /own", "ExternalEntity vms/mine", "NetworkPolicy vms/db",
		"CloudEntitySelector vms/all", "CloudProviderAccount vms/shop",
	}
	// Interrupted after each of the steps, it goes on and makes the same.
	for last := range len(want) + 3 {
		to := newCluster(t, fresh())
		to.last = last
		_, err := to.command(t, "restore", file)
		if cut := last < len(want)+1; (err != nil) != cut {
			t.Fatalf("interrupted after %d: %v", last, err)
		}
		to.last = -1
		if _, err := to.command(t, "restore", file); err != nil {
			t.Fatalf("a second time after %d: %v", last, err)
		}
		if !slices.Equal(to.made, want) {
			t.Errorf("interrupted after %d: made %q", last, to.made)
		}
		var s corev1.Secret
		if err := to.Get(t.Context(), client.ObjectKey{Namespace: system, Name: recordkey.SecretName}, &s); err != nil || string(s.Data["key"]) != "record" {
			t.Errorf("the key is %q, %v", s.Data, err)
		}
		a := object("crd.cloud.antrea.io/v1alpha1", "CloudProviderAccount", "vms", "shop", nil)
		if err := to.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			t.Fatal(err)
		}
		if n := a.GetAnnotations(); len(n) != 2 || n["example.com/kept"] != "yes" || n[annotationRestored] == "" || a.Object["status"] != nil || len(a.GetFinalizers()) > 0 {
			t.Errorf("the account is %v", a.Object)
		}
	}
}

// TestNotEmpty: nothing is restored over something, be it an object or a key, and nothing is
// touched then.
func TestNotEmpty(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if _, err := newCluster(t, installed()).command(t, "backup", "--to", file); err != nil {
		t.Fatal(err)
	}
	for want, there := range map[string]client.Object{
		"there is NetworkPolicy shop/other": object("crd.antrea.io/v1beta1", "NetworkPolicy", "shop", "other", nil),
		"there is NetworkPolicy vms/db":     object("crd.antrea.io/v1beta1", "NetworkPolicy", "vms", "db", nil),
		"holds another key":                 secret(enroll.AuthorityName, map[string][]byte{"tls.key": []byte("other")}),
	} {
		to := newCluster(t, append(fresh(), there))
		if _, err := to.command(t, "restore", file); err == nil || !strings.Contains(err.Error(), want) || len(to.made) > 0 {
			t.Errorf("%v, want %q; made %q", err, want, to.made)
		}
	}
	if _, err := newCluster(t, installed()).command(t, "backup", "--to", file); err == nil {
		t.Error("a backup is written over another one")
	}
}

// TestNotAsItWas: what is there under a name of the backup and is not from it is never taken for
// it. Tiers of another priority and objects stop the restore, labels of namespaces are told.
func TestNotAsItWas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if _, err := newCluster(t, installed()).command(t, "backup", "--to", file); err != nil {
		t.Fatal(err)
	}
	tier := object("crd.antrea.io/v1beta1", "Tier", "", "own", map[string]any{"spec": map[string]any{"priority": int64(101)}})
	to := newCluster(t, append(fresh(), tier))
	if _, err := to.command(t, "restore", file); err == nil || !strings.Contains(err.Error(), "Tier own has spec.priority 101, and 100 in the backup") || len(to.made) > 0 {
		t.Errorf("another tier: %v; made %q", err, to.made)
	}
	dying := object("crd.antrea.io/v1beta1", "NetworkPolicy", "vms", "db", nil)
	dying.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	dying.SetFinalizers([]string{"example.com/f"})
	to = newCluster(t, append(fresh(), dying))
	if _, err := to.command(t, "restore", file); err == nil || !strings.Contains(err.Error(), "NetworkPolicy vms/db is there") || slices.Contains(to.made, "CloudProviderAccount vms/shop") {
		t.Errorf("a policy that is being deleted: %v; made %q", err, to.made)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms", Labels: map[string]string{"team": "other", "more": "x"}}}
	if out, err := newCluster(t, append(fresh(), ns)).command(t, "restore", file); err != nil || !strings.Contains(out, "note: the namespace vms was there, and policies that go by its labels may miss it: it lacks team=shop\n") {
		t.Errorf("another namespace: %v\n%s", err, out)
	}
}

// TestOwnedIsTold: what belongs to an object of another kind is left out, which is said.
func TestOwnedIsTold(t *testing.T) {
	policy := object("crd.antrea.io/v1beta1", "NetworkPolicy", "vms", "of-an-app", nil)
	policy.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "App", Name: "a", UID: "1"}})
	entity := object("crd.antrea.io/v1alpha2", "ExternalEntity", "vms", "of-a-host", nil)
	entity.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "crd.antrea.io/v1alpha1", Kind: "ExternalNode", Name: "h", UID: "2"}})
	out, err := newCluster(t, append(installed(), policy, entity)).command(t, "backup", "--to", filepath.Join(t.TempDir(), "b.tar.gz"))
	if err != nil || !strings.Contains(out, "has to make it again: NetworkPolicy vms/of-an-app\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
