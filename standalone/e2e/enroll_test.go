package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// TestEnroll gives a host credentials by the command, uses them as its agent does and as a thief
// would, renews them, and takes them back.
func TestEnroll(t *testing.T) {
	t.Parallel()
	e := newEnforcers(t)
	if out, err := e.nephele("enroll", "vms/vm2"); err == nil || !strings.Contains(out, "there is no ExternalNode vms/vm2") {
		t.Errorf("a host that is none: %v %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	for range 2 { // again, as after a lost answer
		if out, err := e.nephele("enroll", "vms/vm1", "--output", file, "--for", "10m"); err != nil {
			t.Fatal(err, out)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	host := newClient(t, cfg)
	claims, ok := credential.ParseToken(cfg.BearerToken)
	if !ok || claims.Namespace != "vms" || !claims.Due(claims.Issued.Add(5*time.Minute)) || claims.Due(claims.Issued) || claims.Expires.Sub(claims.Issued) > time.Hour {
		t.Errorf("%+v", claims)
	}
	works := func(token string) {
		t.Helper()
		for way, c := range e.ways(t, token) {
			eventually(t, way+": the host acts for itself", func(ctx context.Context) (bool, string) {
				err := c.Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=vms/vm1").Do(ctx).Error()
				if err != nil {
					return false, err.Error()
				}
				return true, ""
			})
			for _, key := range []string{"vms/vm2", "others/vm1", "n1", ""} {
				r := c.Get().Resource("networkpolicies")
				if key != "" {
					r = r.Param("fieldSelector", "nodeName="+key)
				}
				if err := r.Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
					t.Errorf("%s: what is computed for %q: %v", way, key, err)
				}
			}
		}
	}
	works(cfg.BearerToken)

	// A host whose name is alike has its own rights, and taking them back takes nothing from this
	// one. What somebody else has made under the name is not taken over.
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms-vm1"}},
		&v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms-vm1", Name: "x"}, Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.0.0.2"}}}}},
		&v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vm1-x"}, Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.0.0.3"}}}}},
		&v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "taken"}, Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.0.0.4"}}}}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "nephele-agent-taken"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}},
	} {
		if err := e.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, alike := range []string{"vms-vm1/x", "vms/vm1-x"} {
		if out, err := e.nephele("enroll", alike, "--output", filepath.Join(t.TempDir(), "kubeconfig")); err != nil {
			t.Fatal(err, out)
		}
	}
	var bindings rbacv1.ClusterRoleBindingList
	if err := e.client.List(t.Context(), &bindings, client.MatchingLabels{"app.kubernetes.io/component": "agent"}); err != nil || len(bindings.Items) != 3 {
		t.Errorf("%d hosts have rights, want 3: %v", len(bindings.Items), err)
	}
	if out, err := e.nephele("enroll", "vms/taken"); err == nil || !strings.Contains(out, "conflict") {
		t.Errorf("a Role of somebody else is taken for the host's: %v %s", err, out)
	}
	for _, alike := range []string{"vms-vm1/x", "vms/vm1-x", "vms/taken"} {
		if out, err := e.nephele("enroll", alike, "--revoke"); err != nil {
			t.Fatal(err, out)
		}
	}
	if err := e.client.Get(t.Context(), client.ObjectKey{Namespace: "vms", Name: "nephele-agent-taken"}, &rbacv1.Role{}); err != nil {
		t.Errorf("what somebody else has made is gone: %v", err)
	}
	works(cfg.BearerToken)

	// It tells about itself, and about nobody else; nothing else of the cluster is its business.
	info := &v1beta1.AntreaAgentInfo{}
	eventually(t, "the controller has made the agent's info", func(ctx context.Context) (bool, string) {
		err := host.Get(ctx, client.ObjectKey{Name: "vm1"}, info)
		return err == nil, errText(err)
	})
	edit(t, host, info, func() { info.Version = "v1" })
	for what, err := range map[string]error{
		"the info of a Node":         host.Get(t.Context(), client.ObjectKey{Name: "n1"}, &v1beta1.AntreaAgentInfo{}),
		"Secrets":                    host.List(t.Context(), &corev1.SecretList{}, client.InNamespace("vms")),
		"policies":                   host.List(t.Context(), &v1beta1.NetworkPolicyList{}, client.InNamespace("vms")),
		"its ExternalNode":           host.Delete(t.Context(), &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vm1"}}),
		"its own rights":             host.Update(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "nephele-agent-vm1"}}),
		"the token of another agent": host.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vm-agent"}}, tokenRequest()),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}

	next, err := credential.RenewToken(t.Context(), cfg, claims)
	if err != nil {
		t.Fatal(err)
	}
	if renewed, ok := credential.ParseToken(next); !ok || !renewed.Expires.After(claims.Expires) {
		t.Errorf("%+v after %+v", renewed, claims)
	}
	works(next)

	if out, err := e.nephele("enroll", "vms/vm1", "--revoke"); err != nil {
		t.Fatal(err, out)
	}
	for way, c := range e.ways(t, next) {
		eventually(t, way+": the credentials are taken back", func(ctx context.Context) (bool, string) {
			err := c.Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=vms/vm1").Do(ctx).Error()
			return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err), errText(err)
		})
	}
	var left rbacv1.ClusterRoleBindingList
	if err := e.client.List(t.Context(), &left, client.MatchingLabels{"app.kubernetes.io/component": "agent"}); err != nil || len(left.Items) > 0 {
		t.Errorf("%v %v", left.Items, err)
	}
}

func tokenRequest() *authenticationv1.TokenRequest { return &authenticationv1.TokenRequest{} }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
