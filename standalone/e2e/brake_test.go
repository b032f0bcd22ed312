package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/tier"
)

// manyVMs is an account with more VMs than a brake lets pass.
const manyVMs = 24

// TestBrakeLive: the first policy for all VMs of an account, the deletion of their selector, and
// that of the account with its namespace, each wait for the confirmation that the account asks for,
// over crashes too; the confirmation is taken away when it is used up.
func TestBrakeLive(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestFirstImportWaits, TestReleaseWaits, TestDeletionWaits, TestConfirmedOverRestarts (realize) and TestBrakeStatus (realize/status)")
	var text strings.Builder
	text.WriteString("accounts:\n- id: \"111122223333\"\n  regions:\n  - name: eu-west-1\n    vpcs:\n    - name: fleet\n      id: vpc-00000001\n" +
		"      cidrs: [10.1.0.0/16]\n      groups:\n      - {name: all, rules: [\"tcp 22 from any\"]}\n      vms:\n")
	for i := range manyVMs {
		fmt.Fprintf(&text, "      - {name: vm-%d, ip: 10.1.1.%d, groups: [all], tags: {role: web}}\n", i, i+10)
	}
	state := estatetest.Parse(t, text.String())
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	im := &imported{t: t, c: newCluster(t), server: server, guard: &guard{}, oracle: oracle{native: map[string][]string{}}, vpcs: []string{"vpc-00000001"}}
	objects := accountObjects(server.URL(), []string{"eu-west-1"}, im.vpcs)
	policy := decodePolicies(t, `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: `+vmNamespace+`, name: no-shell}
spec:
  priority: 5
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}]
  ingress:
  - {action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{protocol: TCP, port: 443}]}
`)[0]

	held := func() (n int) {
		for _, r := range server.World().State().Regions {
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
	account := &cloudv1.CloudProviderAccount{}
	key := client.ObjectKey{Namespace: "cloud", Name: "real"}
	waits := func(what string, holding int) (hash string) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) (bool, string) {
			err := im.c.client.Get(ctx, key, account)
			c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionBraked)
			if c == nil || c.Status != metav1.ConditionTrue || c.Reason != cloudv1.ReasonConfirmationNeeded {
				return false, fmt.Sprint(err, account.Status.Conditions)
			}
			m := regexp.MustCompile(`kubectl annotate cloudprovideraccount real -n cloud nephele\.io/confirm=([0-9a-f]{16}) --overwrite`).FindStringSubmatch(c.Message)
			if m != nil {
				hash = m[1]
			}
			return m != nil && strings.HasPrefix(c.Message, fmt.Sprintf("%d of the %d interfaces", manyVMs, manyVMs)), c.Message
		})
		if n := held(); n != holding {
			t.Fatalf("%s: %d interfaces hold a group of ours, not %d", what, n, holding)
		}
		return hash
	}
	confirm := func(hash string) {
		t.Helper()
		must(t, im.c.client.Patch(t.Context(), account, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"`+cloudv1.AnnotationConfirm+`":"`+hash+`"}}}`))))
	}
	done := func(what string, holding int) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) (bool, string) {
			account := &cloudv1.CloudProviderAccount{}
			err := im.c.client.Get(ctx, key, account)
			_, annotated := account.Annotations[cloudv1.AnnotationConfirm]
			over := !annotated && meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionBraked) == nil
			return held() == holding && over, fmt.Sprint(held(), account.Annotations, account.Status.Conditions, err)
		})
	}

	im.apply(objects...)
	im.waitForEntities(manyVMs)
	im.create(policy)
	hash := waits("the first policy waits", 0)
	eventually(t, "the policy says that it is not in force", func(ctx context.Context) (bool, string) {
		p := &v1beta1.NetworkPolicy{}
		err := im.c.client.Get(ctx, client.ObjectKeyFromObject(policy), p)
		return err == nil && p.Status.Phase == v1beta1.NetworkPolicySuspended && p.Status.CurrentNodesRealized == 0 &&
			strings.Contains(p.Status.Message, "24 waiting for a confirmation"), fmt.Sprintf("%+v %v", p.Status, err)
	})
	confirm(strings.Repeat("0", 16))
	eventually(t, "another hash does not help", func(ctx context.Context) (bool, string) {
		err := im.c.client.Get(ctx, key, account)
		return strings.Contains(fmt.Sprint(account.Status.Conditions), "which does not confirm this"), fmt.Sprint(err, account.Status.Conditions)
	})
	if again := waits("it still waits", 0); again != hash {
		t.Errorf("the hash was %s and is %s", hash, again)
	}
	confirm(hash)
	done("the first policy is enforced", manyVMs)

	must(t, im.c.client.Delete(t.Context(), objects[4]))
	hash = waits("the deletion of the selector waits", manyVMs)
	im.c.kill()
	im.c.start()
	im.c.waitReady()
	if again := waits("it waits after a crash", manyVMs); again != hash {
		t.Errorf("the hash was %s and is %s", hash, again)
	}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}}, objects[3]} {
		if err := im.c.client.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the deletion of the account says that it waits", func(ctx context.Context) (bool, string) {
		must(t, im.c.client.Get(ctx, key, account))
		c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionReady)
		return c != nil && strings.Contains(c.Message, "waits for a confirmation: see the condition Braked"), fmt.Sprint(account.Status.Conditions)
	})
	confirm(waits("the deletion of the account waits", manyVMs))
	eventually(t, "the account is given back and goes", func(ctx context.Context) (bool, string) {
		err := im.c.client.Get(ctx, key, account)
		return apierrors.IsNotFound(err) && held() == 0, fmt.Sprint(err, held(), account.Status.Conditions)
	})
}
