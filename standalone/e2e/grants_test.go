package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/tier"
)

// sharedAccount is an account of one namespace, with its Secret in a second, whose VMs a third
// selects and guards.
type sharedAccount struct {
	t      *testing.T
	c      *cluster
	server *sim.Server
}

const mergePatch = "application/merge-patch+json"

func newSharedAccount(t *testing.T) *sharedAccount {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &sharedAccount{t: t, c: newCluster(t), server: server}
	for _, ns := range []string{"owner", "vault", "tenant", "evil"} {
		s.must(s.c.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}
	raw, err := os.ReadFile("../../config/samples/quickstart.yaml")
	s.must(err)
	text := strings.NewReplacer("http://127.0.0.1:8555", server.URL(), "accountNamespace: quickstart", "accountNamespace: owner",
		"      namespace: quickstart\n", "      namespace: vault\n").Replace(string(raw))
	for _, doc := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		s.must(yaml.Unmarshal([]byte(doc), &o.Object))
		if o.GetKind() == "Namespace" {
			continue
		}
		o.SetNamespace(map[string]string{"Secret": "vault", "CloudProviderAccount": "owner"}[o.GetKind()])
		if o.GetNamespace() == "" {
			o.SetNamespace("tenant")
		}
		s.must(s.c.client.Create(t.Context(), o))
	}
	return s
}

func (s *sharedAccount) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// held counts the interfaces that hold a group of ours.
func (s *sharedAccount) held() (n int) {
	for _, r := range s.server.World().State().Regions {
		for _, i := range r.NetworkInterfaces {
			for _, g := range i.Groups {
				if strings.HasPrefix(g.Name, "nephele-") {
					n++
				}
			}
		}
	}
	return n
}

func (s *sharedAccount) holds(what string, n int) {
	s.t.Helper()
	// Less than the poll interval: nobody waits for it.
	eventually(s.t, what, func(context.Context) (bool, string) {
		return s.held() == n, fmt.Sprintf("%d hold a group of ours", s.held())
	})
}

func (s *sharedAccount) patch(o client.Object, text string) {
	s.t.Helper()
	s.must(s.c.client.Patch(s.t.Context(), o, client.RawPatch(mergePatch, []byte(text))))
}

// says waits for a condition of an object.
func (s *sharedAccount) says(o client.Object, kind, reason, part string) {
	s.t.Helper()
	eventually(s.t, o.GetName()+" says "+reason, func(ctx context.Context) (bool, string) {
		if err := s.c.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, err.Error()
		}
		var conditions []metav1.Condition
		switch o := o.(type) {
		case *cloudv1.CloudEntitySelector:
			conditions = o.Status.Conditions
		case *cloudv1.VirtualMachine:
			conditions = o.Status.Conditions
		case *cloudv1.CloudProviderAccount:
			conditions = o.Status.Conditions
		}
		c := meta.FindStatusCondition(conditions, kind)
		return c != nil && c.Reason == reason && strings.Contains(c.Message, part), fmt.Sprintf("%+v", conditions)
	})
}

// TestGrantsLive: an account whose Secret and selectors are in other namespaces is enforced as
// ever; what others ask for changes nothing for the owner; and the owner's word, and the labels it
// depends on, take effect at once.
func TestGrantsLive(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestGrantByLabel, TestForeignModesDoNotCount (inventory), TestSelectorsNeedTheAccount (controlplane), TestNodesComeAndGo (noderoutes); TestAttack/with_grants")
	s := newSharedAccount(t)
	s.holds("enforced", 7)
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "owner", Name: "simulated"}}
	s.must(s.c.client.Get(t.Context(), client.ObjectKeyFromObject(account), account))
	if c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionAuthorsChecked); c != nil {
		t.Errorf("%+v", c)
	}

	// Somebody whose selector the administrator has let in: he neither freezes nor opens what the
	// tenant guards.
	evil := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "all", Annotations: map[string]string{cloudv1.AnnotationBreakGlass: "let me in"}}}
	evil.Spec = cloudv1.CloudEntitySelectorSpec{AccountNamespace: "owner", AccountName: "simulated", Mode: cloudv1.ModeReleased,
		VMSelector: []cloudv1.VirtualMachineSelector{{VpcMatch: &cloudv1.EntityMatch{MatchID: "vpc-b390fad5"}}}}
	s.must(s.c.client.Create(t.Context(), evil))
	s.says(evil, cloudv1.ConditionHeeded, "BreakGlassNotGranted", "spec.releaseNamespaces of CloudProviderAccount owner/simulated")
	vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "i-0383fda87c012141d"}}
	s.patch(vm, `{"metadata":{"annotations":{"nephele.io/break-glass":"me too"}}}`)
	s.says(vm, cloudv1.ConditionHeeded, "BreakGlassNotGranted", `"evil"`)
	if n := s.held(); n != 7 {
		t.Errorf("%d hold a group of ours", n)
	}
	s.patch(account, `{"spec":{"releaseNamespaces":["evil"]}}`)
	s.holds("with a say", 0)
	s.patch(account, `{"spec":{"releaseNamespaces":null}}`)
	s.holds("without a say", 7)

	// The owner's word about who may select, by label.
	s.patch(account, `{"spec":{"allowedNamespaces":{"selector":{"matchLabels":{"env":"prod"}}}}}`)
	s.holds("nobody is granted", 0)
	tenant := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "arista-demo"}}
	s.says(tenant, cloudv1.ConditionReady, cloudv1.ReasonNotGranted, `add "tenant" to its spec.allowedNamespaces.names`)
	s.says(evil, cloudv1.ConditionReady, cloudv1.ReasonNotGranted, `"evil"`)
	label := func(value string) {
		s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, `{"metadata":{"labels":{"env":`+value+`}}}`)
	}
	label(`"prod"`)
	s.holds("the label came", 7)
	label(`null`)
	s.holds("the label went", 0)
	label(`"prod"`)
	s.holds("the label came back", 7)

	// A person with every right in his own namespace does not get that far.
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.c.dir, "kubeconfig"))
	s.must(err)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
	mallory := newClient(t, cfg)
	for _, role := range []string{"admin", "nephele-account-administrator", "nephele-selector-administrator"} {
		s.must(s.c.client.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: role},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mallory"}}}))
	}
	refused := func(what string, o client.Object, policy string) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) (bool, string) {
			err := mallory.Create(ctx, o.DeepCopyObject().(client.Object))
			return apierrors.IsForbidden(err) && strings.Contains(err.Error(), policy), fmt.Sprint(err)
		})
	}
	mine := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "mine"}, Spec: evil.Spec}
	refused("a selector of the account", mine, "nephele-selectors")
	stolen := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "stolen"}, Spec: *account.Spec.DeepCopy()}
	refused("an account with the Secret", stolen, "nephele-accounts")
	s.holds("as before", 7)
	s.routesToNodes(account, mallory)
}
