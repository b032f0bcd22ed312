package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/tier"
)

// copied is a cluster on a copy of this one's data directory, not running yet. This one must not be
// running either.
func (c *cluster) copied() *cluster {
	c.t.Helper()
	twin := &cluster{t: c.t, dir: filepath.Join(c.t.TempDir(), "copy"), listen: freeAddress(c.t), args: c.args}
	if err := os.CopyFS(twin.dir, os.DirFS(c.dir)); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			twin.printLogs()
		}
		twin.stop()
	})
	return twin
}

func (c *cluster) run() {
	c.t.Helper()
	c.start()
	c.waitReady()
}

// account is the account of the tests as this cluster shows it.
func (c *cluster) account(ctx context.Context) (*cloudv1.CloudProviderAccount, error) {
	var a cloudv1.CloudProviderAccount
	err := c.client.Get(ctx, client.ObjectKey{Namespace: "cloud", Name: "real"}, &a)
	return &a, err
}

// soleWriter waits until the account says this of other instances. It returns the epoch of the
// other one.
func (c *cluster) soleWriter(status metav1.ConditionStatus, reason string) (other string) {
	c.t.Helper()
	eventually(c.t, "SoleWriter "+string(status)+" "+reason, func(ctx context.Context) (bool, string) {
		a, err := c.account(ctx)
		if err != nil {
			return false, err.Error()
		}
		cond := meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionSoleWriter)
		other = a.Status.OtherInstance
		return cond != nil && cond.Status == status && cond.Reason == reason, fmt.Sprintf("%+v", cond)
	})
	return other
}

// TestCopiedDataDirectory: a data directory is copied, and both control planes run, with the same
// cluster id. The copy stops before it has written anything, until it is told to take over; then
// the original stops. An instance that is killed goes on or stays stopped as before. At no call
// does a flow change that neither of them was to change.
func TestCopiedDataDirectory(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestCopyOfTheCluster, TestNextInstance and TestCopiesAtRandom (realize), TestTakeOver (internal/cli); TestRestoreBesideTheOriginal runs two")
	original := newCluster(t)
	im := importAccount(t, original, hybridCloud)
	policies := decodePolicies(t, policiesYAML)
	next := im.oracle.copy()
	next.policies = append(next.policies, policies[0])
	im.step("policy", next, func() { im.create(policies[0]) })
	original.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
	want, err := im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)
	im.guard.between(im.flows, want, want)

	original.kill()
	twin := original.copied()
	original.run()
	original.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
	twin.run()
	other := twin.soleWriter(metav1.ConditionFalse, cloudv1.ReasonAnotherInstance)
	if other == "" {
		t.Error("it does not name the instance that made it stop")
	}

	// What the copy wants now, to give everything back, is not done.
	again := policies[0].DeepCopyObject().(client.Object)
	im.must(twin.client.Delete(t.Context(), policies[0].DeepCopyObject().(client.Object)))
	eventually(t, "the copy says that it does nothing", func(ctx context.Context) (bool, string) {
		var vm cloudv1.VirtualMachine
		err := twin.client.Get(ctx, client.ObjectKey{Namespace: vmNamespace, Name: firstWithRole(hybridCloud, "db")}, &vm)
		return err == nil && vm.Status.PolicySummary == "", fmt.Sprintf("%v %+v", err, vm.Status)
	})
	im.settle("while the copy wants something else", want)
	again.SetResourceVersion("")
	again.SetUID("")
	im.must(twin.client.Create(t.Context(), again))

	kubeconfig := filepath.Join(twin.dir, "kubeconfig")
	code, out, errOut := run(t, "take-over", "cloud/real", "--kubeconfig", kubeconfig)
	if code != 1 || !strings.Contains(out, "Its epoch is "+other+".") || !strings.Contains(out, "nephele take-over cloud/real --yes") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut = run(t, "take-over", "cloud/real", "--yes", "--kubeconfig", kubeconfig); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	original.soleWriter(metav1.ConditionFalse, cloudv1.ReasonAnotherInstance)
	twin.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
	eventually(t, "the annotation is used up", func(ctx context.Context) (bool, string) {
		a, err := twin.account(ctx)
		return err == nil && a.Annotations[cloudv1.AnnotationTakeOver] == "", fmt.Sprintf("%v %v", err, a.Annotations)
	})
	if code, out, _ = run(t, "take-over", "cloud/real", "--yes", "--kubeconfig", kubeconfig); code != 1 || !strings.Contains(out, "nothing to take over") {
		t.Errorf("exit code %d: %s", code, out)
	}
	im.settle("when the copy has taken over", want)

	// Now the copy enforces, and the original does nothing, each also when it was killed.
	im.must(original.client.Delete(t.Context(), policies[0].DeepCopyObject().(client.Object)))
	im.c = twin
	next = im.oracle.copy()
	next.policies = append(next.policies, policies[1])
	im.step("another policy in the copy", next, func() { im.create(policies[1]) })
	original.kill()
	original.run()
	if by := original.soleWriter(metav1.ConditionFalse, cloudv1.ReasonAnotherInstance); by == "" {
		t.Error("it does not name the instance that made it stop")
	}
	next = im.oracle.copy()
	next.policies = next.policies[:1]
	im.step("the copy is killed", next, func() {
		twin.kill()
		twin.run()
		im.must(twin.client.Delete(t.Context(), policies[1]))
	})
	twin.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
	original.soleWriter(metav1.ConditionFalse, cloudv1.ReasonAnotherInstance)
	next = im.oracle.copy()
	next.policies = nil
	im.step("the copy gives everything back", next, func() { im.must(twin.client.Delete(t.Context(), again)) })
	im.mustBeReleased()
}

// recorded checks that the controller has kept its record with the rights that it has, and has said
// there that it has ended.
func (x *existing) recorded() {
	x.t.Helper()
	record, err := x.kube.CoreV1().ConfigMaps("kube-system").Get(x.t.Context(), "nephele-instance", metav1.GetOptions{})
	x.must(err)
	line, _, _ := strings.Cut(record.Data["instances"], "\n")
	if words := strings.Fields(line); len(words) != 3 || record.Data["ended"] != "true" {
		x.t.Errorf("the record of instances says %q", record.Data)
	}
}
