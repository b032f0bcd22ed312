package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// groupsOf are the groups that the certificate of a kubeconfig names.
func groupsOf(t *testing.T, kubeconfig string) []string {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(cfg.CertData)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Subject.Organization
}

// TestAdministratorsAreBound: the administrator may do everything because a binding says so, which
// can be taken away, unlike the rights of system:masters, and which a restart puts back. A data
// directory from before gets a new certificate.
func TestAdministratorsAreBound(t *testing.T) {
	dir := t.TempDir()
	former, err := certs.Open(filepath.Join(dir, "pki"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := former.Authority(clusterAuthority)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := former.Certificate(adminCert, authority, certs.Profile{CommonName: "nephele-admin", Organizations: []string{"system:masters"}, Client: true}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(former.CertFile(adminCert))
	if err != nil {
		t.Fatal(err)
	}
	cp, client, stop := begin(t, dir)
	if after, err := os.ReadFile(former.CertFile(adminCert)); err != nil || slices.Equal(before, after) {
		t.Errorf("the certificate of before is still there (%v)", err)
	}
	if got := groupsOf(t, cp.Kubeconfig()); !slices.Equal(got, []string{administrators}) {
		t.Errorf("the kubeconfig is of the groups %v", got)
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, create); err != nil {
		t.Errorf("the administrator: %v", err)
	}
	// Others may be administrators, too, and stay it.
	binding, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), administrators, get)
	if err != nil {
		t.Fatal(err)
	}
	binding.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}}
	if _, err := client.RbacV1().ClusterRoleBindings().Update(t.Context(), binding, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the right is taken away", func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return nil
		}
		return errNotYet
	})
	stop()
	_, client, stop = begin(t, dir)
	binding, err = client.RbacV1().ClusterRoleBindings().Get(t.Context(), administrators, get)
	if err != nil || len(binding.Subjects) != 2 || binding.Subjects[0].Name != "jane" {
		t.Errorf("after a restart: %v, %v", binding, err)
	}
	// Nor does it help to bind them to something else.
	if err := client.RbacV1().ClusterRoleBindings().Delete(t.Context(), administrators, del); err != nil {
		t.Fatal(err)
	}
	stop()
	cp, _, stop = begin(t, dir)
	binding.ResourceVersion, binding.UID, binding.RoleRef.Name = "", "", "view"
	rebind(t, cp, binding)
	stop()
	_, client, _ = begin(t, dir)
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("after the binding was another one: %v", err)
	}
}

// rebind replaces the binding, which takes the right away to do so; hence both at once as the
// server itself.
func rebind(t *testing.T, cp *ControlPlane, to *rbacv1.ClusterRoleBinding) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cp.loopback)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RbacV1().ClusterRoleBindings().Delete(t.Context(), to.Name, del); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), to, create); err != nil {
		t.Fatal(err)
	}
}

// TestNewAuthorityEndsFormerCertificates: deleting the authority makes a new one with the next
// start, and nobody gets in with a certificate of the former.
func TestNewAuthorityEndsFormerCertificates(t *testing.T) {
	if err := stopShared(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ended := func(c *child) {
		t.Helper()
		if err := errors.Join(c.stdin.Close(), c.cmd.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	first := startChild(t, dir)
	first.awaitReady(t)
	former, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	ended(first)
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := os.Remove(filepath.Join(dir, "pki", name)); err != nil {
			t.Fatal(err)
		}
	}
	// In a process of its own: clients of this one would go on trusting the authority that they
	// have read.
	second := startChild(t, dir)
	second.awaitReady(t)
	client := childClient(t, dir)
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the new kubeconfig: %v", err)
	}
	now, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	former.Host, former.CAData, former.Insecure = now.Host, nil, true
	stolen, err := kubernetes.NewForConfig(former)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stolen.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the former certificate: %v", err)
	}
	ended(second)
}

var errNotYet = errors.New("not yet")
