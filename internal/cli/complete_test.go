package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/kinds"
)

// TestCompletion: names come from the cluster, a list is completed at its end, and what would do
// something to a terminal is not offered.
func TestCompletion(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"}},
		&cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "i-1"}, Status: cloudv1.VirtualMachineStatus{CloudName: "web-1"}},
		&cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "i-2"}, Status: cloudv1.VirtualMachineStatus{CloudName: "web-\x1b[2J"}},
		&v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}},
		&v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}}).Build()
	accounts, err1 := accountNames(t.Context(), c)
	vms, err2 := vmNames(t.Context(), c)
	policies, err3 := policyNames(t.Context(), c)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	for _, x := range []struct {
		all   []string
		typed string
		want  []string
	}{
		{accounts, "", []string{"cloud/real"}}, {vms, "shop/", []string{"shop/i-1", "shop/i-2", "shop/web-1"}}, {vms, "shop/w", []string{"shop/web-1"}},
		{policies, "shop/db,d", []string{"shop/db,deny"}}, {policies, "x", nil},
	} {
		if diff := cmp.Diff(x.want, matching(x.all, x.typed)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", x.typed, diff)
		}
	}
}

// TestPlugin: the links are made once, and under their names the binary speaks as a plugin of
// kubectl does.
func TestPlugin(t *testing.T) {
	dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "nephele")
	var out bytes.Buffer
	for range 2 {
		if err := link(&out, binary, dir); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(out.String(), "\n") != 2 {
		t.Errorf("output %q", out.String())
	}
	for _, name := range []string{"kubectl-nephele", "kubectl_complete-nephele"} {
		if there, err := os.Readlink(filepath.Join(dir, name)); err != nil || there != binary {
			t.Errorf("%s leads to %q: %v", name, there, err)
		}
	}
	root := NewRoot()
	if got := calledBy(filepath.Join(dir, "kubectl_complete-nephele"), root, []string{"stat"}); !cmp.Equal(got, []string{"__complete", "stat"}) {
		t.Errorf("completion is asked for with %q", got)
	}
	calledBy("/bin/kubectl-nephele", root, nil)
	root.SetOut(&out)
	root.SetArgs([]string{"status", "--help"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "kubectl nephele status") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
