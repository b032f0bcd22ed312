package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestRestoreBesideTheOriginal: a control plane that runs is backed up, and restored beside it: the
// copy knows the account, its Secret and its policies, finds the mark of the original, and changes
// nothing. Nothing is restored over what is there.
func TestRestoreBesideTheOriginal(t *testing.T) {
	t.Parallel()
	original := newCluster(t)
	im := importAccount(t, original, hybridCloud)
	policies := decodePolicies(t, policiesYAML)
	next := im.oracle.copy()
	next.policies = append(next.policies, policies[0])
	im.step("policy", next, func() { im.create(policies[0]) })
	original.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
	want, err := im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)

	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	if code, out, errOut := run(t, "backup", "--data-dir", original.dir, "--to", file); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	twin := &cluster{t: t, dir: filepath.Join(t.TempDir(), "restored"), listen: freeAddress(t), args: original.args}
	if code, out, errOut := run(t, "restore", file, "--data-dir", twin.dir); code != 0 || !strings.Contains(out, "take-over") {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	for _, over := range []string{twin.dir, original.dir} {
		if code, _, errOut := run(t, "restore", file, "--data-dir", over); code == 0 || !strings.Contains(errOut, "not empty") {
			t.Errorf("restored over %s: exit code %d\n%s", over, code, errOut)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			twin.printLogs()
		}
		twin.stop()
	})
	twin.run()
	if other := twin.soleWriter(metav1.ConditionFalse, cloudv1.ReasonAnotherInstance); other == "" {
		t.Error("it does not name the instance that made it stop")
	}
	original.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
	im.settle("beside a restored copy", want)
}
