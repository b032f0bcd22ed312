package controlplane

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// holding creates an account and a selector of it, each in a namespace of its own, as the
// controller leaves them while VMs are guarded.
func holding(t *testing.T, admin client.Client, vms int32, spec, status cloudv1.DeletionPolicy) (*cloudv1.CloudProviderAccount, *cloudv1.CloudEntitySelector) {
	t.Helper()
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t, "held-account"), Name: "real"},
		Spec: cloudv1.CloudProviderAccountSpec{DeletionPolicy: spec, AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{
			SecretRef: &cloudv1.SecretReference{Namespace: "default", Name: "s", Key: "k"}, Region: []string{"eu-west-1"}}}}
	mustNot(t, admin.Create(t.Context(), account))
	account.Status.GuardedVMs, account.Status.DeletionPolicy = &vms, status
	mustNot(t, admin.Status().Update(t.Context(), account))
	selector := selectorIn(newNamespace(t, "held-selector"), "all", account.Namespace, account.Name)
	mustNot(t, admin.Create(t.Context(), selector))
	selector.Status.GuardedVMs, selector.Status.DeletionPolicy = &vms, status
	if spec != "" {
		selector.Status.DeletionPolicy = spec
	}
	mustNot(t, admin.Status().Update(t.Context(), selector))
	return account, selector
}

func namespaceOf(o client.Object) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.GetNamespace()}}
}

// TestDeletionProtection: what guards VMs cannot be deleted, one by one, all at once or with its
// namespace, before somebody has said that it is meant.
func TestDeletionProtection(t *testing.T) {
	admin := guarded(t)
	account, selector := holding(t, admin, 3, "", cloudv1.DeletionProtect)
	// The policies about namespaces know nothing until they have found the kinds of their
	// parameters.
	for _, o := range []client.Object{account, selector} {
		eventually(t, "the namespace is protected", func(ctx context.Context) error {
			if err := admin.Delete(ctx, namespaceOf(o), client.DryRunAll); err == nil {
				return errors.New("its deletion is not refused")
			}
			return nil
		})
	}
	for _, x := range []struct {
		what, policy string
		do           func(ctx context.Context) error
		parts        []string
	}{
		{"the account", "nephele-deletion", func(ctx context.Context) error { return admin.Delete(ctx, account.DeepCopy()) },
			[]string{"VMs are guarded through it: 3", "kubectl annotate cloudprovideraccounts -n " + account.Namespace + " real nephele.io/allow-deletion=true"}},
		{"all accounts", "nephele-deletion", func(ctx context.Context) error {
			return admin.DeleteAllOf(ctx, &cloudv1.CloudProviderAccount{}, client.InNamespace(account.Namespace))
		}, nil},
		{"the selector", "nephele-deletion", func(ctx context.Context) error { return admin.Delete(ctx, selector.DeepCopy()) },
			[]string{"kubectl annotate cloudentityselectors -n " + selector.Namespace + " all nephele.io/allow-deletion=true"}},
		{"the account's namespace", "nephele-deletion-accounts", func(ctx context.Context) error { return admin.Delete(ctx, namespaceOf(account)) },
			[]string{`CloudProviderAccount "real": 3`, "kubectl annotate namespace " + account.Namespace + " nephele.io/allow-deletion=true"}},
		{"the selector's namespace", "nephele-deletion-selectors", func(ctx context.Context) error { return admin.Delete(ctx, namespaceOf(selector)) },
			[]string{`CloudEntitySelector "all": 3`}},
	} {
		mustRefuse(t, x.what, x.policy, x.do, x.parts...)
	}
	// Only this word counts.
	annotate := func(o client.Object, value string) {
		t.Helper()
		before := o.DeepCopyObject().(client.Object)
		o.SetAnnotations(map[string]string{cloudv1.AnnotationAllowDeletion: value})
		mustNot(t, admin.Patch(t.Context(), o, client.MergeFrom(before)))
	}
	annotate(account, "false")
	mustRefuse(t, "the account, said to be kept", "nephele-deletion", func(ctx context.Context) error { return admin.Delete(ctx, account.DeepCopy()) })

	ns := namespaceOf(selector)
	mustNot(t, admin.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	annotate(ns, cloudv1.AllowDeletion)
	mustDo(t, "the selector's namespace, which is meant", func(ctx context.Context) error { return admin.Delete(ctx, ns.DeepCopy()) })
	mustDo(t, "the selector goes with it", func(ctx context.Context) error {
		return gone(admin.Get(ctx, client.ObjectKeyFromObject(selector), &cloudv1.CloudEntitySelector{}))
	})
	annotate(account, cloudv1.AllowDeletion)
	mustDo(t, "the account, which is meant", func(ctx context.Context) error { return admin.Delete(ctx, account.DeepCopy()) })
}

// TestDeletionThatOpensNothing: where nothing is guarded nothing is refused.
func TestDeletionThatOpensNothing(t *testing.T) {
	admin := guarded(t)
	account, selector := holding(t, admin, 0, cloudv1.DeletionProtect, cloudv1.DeletionProtect)
	for _, o := range []client.Object{namespaceOf(selector), namespaceOf(account)} {
		mustNot(t, admin.Delete(t.Context(), o))
	}
	fresh := newNamespace(t, "held-fresh")
	never := selectorIn(fresh, "all", "nobody", "nothing")
	mustNot(t, admin.Create(t.Context(), never))
	mustNot(t, admin.Delete(t.Context(), never))
}

// warnings keeps what the API server warns of.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.all, "\n")
}

// TestDeletionOfOlderAccounts: an account of a former version, and one that says so, is deleted
// with a warning.
func TestDeletionOfOlderAccounts(t *testing.T) {
	admin := guarded(t)
	for _, x := range []struct{ spec, status cloudv1.DeletionPolicy }{
		{"", ""}, {"", cloudv1.DeletionRelease}, {cloudv1.DeletionRelease, cloudv1.DeletionProtect},
	} {
		account, selector := holding(t, admin, 2, x.spec, x.status)
		var told warnings
		c := acting(t, func(cfg *rest.Config) { cfg.WarningHandler = &told })
		mustNot(t, errors.Join(c.Delete(t.Context(), selector), c.Delete(t.Context(), account)))
		if n := strings.Count(told.String(), "get their own security groups back: 2"); n != 2 {
			t.Errorf("%+v: warned %d times, want once for each:\n%s", x, n, told.String())
		}
	}
}
