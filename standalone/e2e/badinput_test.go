package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestBadInput makes one mistake after the other in a cluster that enforces a policy. Each mistake
// is named at the object that it is about, and nothing that works stops working.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := pooledCluster(t)
	im := importAccount(t, c, hybridCloud)
	policies := decodePolicies(t, policiesYAML)
	next := im.oracle.copy()
	next.policies = append(next.policies, policies[0])
	im.step("a good policy", next, func() { im.create(policies[0]) })
	want, err := im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)

	t.Run("accounts", func(t *testing.T) { im.badAccounts(t) })
	t.Run("selectors", func(t *testing.T) { im.badSelectors(t) })
	t.Run("refused objects", func(t *testing.T) { im.refusedObjects(t) })
	t.Run("secret of the working account", func(t *testing.T) { im.badRotation(t) })
	t.Run("a policy that selects nothing", func(t *testing.T) { im.policyForNobody(t) })

	im.settle("after all mistakes", want)
	im.deleteFirst()
	im.mustBeReleased()
}

func goodKeys() string {
	return fmt.Sprintf(`{"accessKeyId": %q, "accessKeySecret": %q}`, estate.DefaultAccessKeyID, estate.DefaultSecret)
}

// badAccounts creates accounts that cannot work, and looks for the reason in their conditions.
func (im *imported) badAccounts(t *testing.T) {
	for name, tc := range map[string]struct {
		keys   string // value of the Secret; empty: no Secret
		region string
		reason string
		says   string
	}{
		"no-secret":    {"", "us-west-2", cloudv1.ReasonSecretNotFound, "no-secret"},
		"not-json":     {"accessKeyId=x", "us-west-2", cloudv1.ReasonSecretInvalid, "JSON"},
		"no-key":       {`{"accessKeySecret": "x"}`, "us-west-2", cloudv1.ReasonSecretInvalid, "accessKeyId"},
		"wrong-keys":   {`{"accessKeyId": "AKIAAAAAAAAAAAAAAAAA", "accessKeySecret": "wrong"}`, "us-west-2", cloudv1.ReasonAuthFailed, ""},
		"wrong-region": {goodKeys(), "us-nowhere-9", cloudv1.ReasonUnknownRegion, "us-nowhere-9"},
	} {
		if tc.keys != "" {
			im.apply(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: name}, StringData: map[string]string{"credentials": tc.keys}})
		}
		cpa := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: name}}
		cpa.Spec.DeletionPolicy = cloudv1.DeletionRelease
		cpa.Spec.AWSConfig = &cloudv1.CloudProviderAccountAWSConfig{Region: []string{tc.region}, Endpoint: im.server.URL(),
			SecretRef: &cloudv1.SecretReference{Namespace: "cloud", Name: name, Key: "credentials"}}
		im.apply(cpa)
		eventually(t, "condition of account "+name, func(ctx context.Context) (bool, string) {
			if err := im.c.client.Get(ctx, client.ObjectKeyFromObject(cpa), cpa); err != nil {
				return false, err.Error()
			}
			ready := meta.FindStatusCondition(cpa.Status.Conditions, cloudv1.ConditionReady)
			ok := ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == tc.reason &&
				strings.Contains(ready.Message, tc.says) && cpa.Status.Error != ""
			return ok, fmt.Sprintf("want Ready=False, reason %s, a message with %q and status.error; got %+v", tc.reason, tc.says, cpa.Status)
		})
		im.must(im.c.client.Delete(t.Context(), cpa))
		// Nothing was ever held in it, so it must not wait for keys that never come.
		eventually(t, "account "+name+" is gone", func(ctx context.Context) (bool, string) {
			err := im.c.client.Get(ctx, client.ObjectKeyFromObject(cpa), cpa)
			return apierrors.IsNotFound(err), fmt.Sprintf("%v %+v", err, cpa.Status)
		})
	}
}

// badSelectors creates selectors that select nothing.
func (im *imported) badSelectors(t *testing.T) {
	for name, tc := range map[string]struct{ account, vm, reason, says string }{
		"unknown-account": {"nobody", "x", cloudv1.ReasonAccountNotFound, "cloud/nobody"},
		"matches-nothing": {"real", "no-such-vm", cloudv1.ReasonNoMatch, ""},
	} {
		ces := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: name}}
		ces.Spec.AccountNamespace, ces.Spec.AccountName = "cloud", tc.account
		ces.Spec.VMSelector = []cloudv1.VirtualMachineSelector{{VMMatch: []cloudv1.EntityMatch{{MatchName: tc.vm}}}}
		im.apply(ces)
		eventually(t, "condition of selector "+name, func(ctx context.Context) (bool, string) {
			if err := im.c.client.Get(ctx, client.ObjectKeyFromObject(ces), ces); err != nil {
				return false, err.Error()
			}
			for _, cond := range ces.Status.Conditions {
				if cond.Status == metav1.ConditionFalse && cond.Reason == tc.reason && strings.Contains(cond.Message, tc.says) {
					return true, ""
				}
			}
			return false, fmt.Sprintf("want a condition that is False for reason %s; got %+v", tc.reason, ces.Status)
		})
		im.must(im.c.client.Delete(t.Context(), ces))
	}
}

// refusedObjects are refused by the API server, with a message that names the field.
func (im *imported) refusedObjects(t *testing.T) {
	policy := func(spec string) string {
		return "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {namespace: vms, name: bad}\nspec: " + spec
	}
	for name, tc := range map[string]struct{ object, field string }{
		"bad CIDR":     {policy(`{priority: 5, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/99}}]}]}`), "cidr"},
		"bad port":     {policy(`{priority: 5, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Allow, ports: [{protocol: TCP, port: 70000}]}]}`), "port"},
		"bad operator": {policy(`{priority: 5, appliedTo: [{externalEntitySelector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}}], ingress: [{action: Drop}]}`), "operator"},
		"bad action":   {policy(`{priority: 5, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Deny}]}`), "action"},
		"no priority":  {policy(`{appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Drop}]}`), "priority"},
		"selector without match": {"apiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudEntitySelector\nmetadata: {namespace: vms, name: bad}\n" +
			"spec: {accountName: real, accountNamespace: cloud, vmSelector: [{agented: false}]}", "vmSelector"},
		"account without region": {"apiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudProviderAccount\nmetadata: {namespace: vms, name: bad}\n" +
			"spec: {awsConfig: {region: [], secretRef: {namespace: a, name: b, key: c}}}", "region"},
	} {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(tc.object), &o.Object); err != nil {
			t.Fatal(err)
		}
		if err := im.c.client.Create(t.Context(), &o); err == nil || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("%s: the API server says %v, want a refusal that names %s", name, err, tc.field)
		}
	}
}

// badRotation breaks the Secret of the account that works, and mends it. What is enforced stays;
// the account says what is wrong.
func (im *imported) badRotation(t *testing.T) {
	set := func(keys string) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "keys"}}
		edit(t, im.c.client, s, func() { s.Data = map[string][]byte{"credentials": []byte(keys)} })
	}
	ready := func(status metav1.ConditionStatus, reason string) {
		eventually(t, "account is Ready="+string(status), func(ctx context.Context) (bool, string) {
			var cpa cloudv1.CloudProviderAccount
			if err := im.c.client.Get(ctx, client.ObjectKey{Namespace: "cloud", Name: "real"}, &cpa); err != nil {
				return false, err.Error()
			}
			r := meta.FindStatusCondition(cpa.Status.Conditions, cloudv1.ConditionReady)
			return r != nil && r.Status == status && r.Reason == reason, fmt.Sprintf("%+v", cpa.Status.Conditions)
		})
	}
	set(`{"accessKeyId": "AKIAAAAAAAAAAAAAAAAA", "accessKeySecret": "wrong"}`)
	ready(metav1.ConditionFalse, cloudv1.ReasonAuthFailed)
	var vms cloudv1.VirtualMachineList
	im.must(im.c.client.List(t.Context(), &vms, client.InNamespace(vmNamespace)))
	if len(vms.Items) != 4 {
		t.Errorf("%d VirtualMachines while the account cannot be read, want the 4 that were known", len(vms.Items))
	}
	set(goodKeys())
	ready(metav1.ConditionTrue, cloudv1.ReasonOK)
}

// policyForNobody is idle at once: it applies to nothing, so there is nothing to realize.
func (im *imported) policyForNobody(t *testing.T) {
	p := decodePolicies(t, `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: nobody}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {no: body}}}]
  ingress: [{action: Drop}]
`)[0]
	im.create(p)
	im.waitForPhase([]client.Object{p}, v1beta1.NetworkPolicyIdle)
	im.must(im.c.client.Delete(t.Context(), &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "nobody"}}))
}

// TestCommandsRefuseBadInput: exit code 2 and a message that names what is wrong, before anything
// is done.
func TestCommandsRefuseBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	notADump := write("dump.json", `{"hello": "world"}`)
	badPolicy := write("policy.yaml", "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {namespace: a, name: b}\nspec: {prioritee: 5}\n")
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"port in use":               {[]string{"up", "--data-dir", filepath.Join(dir, "d"), "--listen", busy.Addr().String()}, []string{"--listen", busy.Addr().String()}},
		"data directory is a file":  {[]string{"up", "--data-dir", notADump}, []string{"--data-dir", notADump}},
		"not a dump":                {[]string{"sim", "--estate", notADump, "--listen", "127.0.0.1:0"}, []string{"dump.json"}},
		"no estate":                 {[]string{"sim", "--estate", filepath.Join(dir, "none")}, []string{"none"}},
		"unknown field in a policy": {[]string{"policy", "compute", "-f", badPolicy}, []string{"policy.yaml", "prioritee"}},
		"unknown flag":              {[]string{"up", "--nonsense"}, []string{"--nonsense"}},
		"unknown command":           {[]string{"nonsense"}, []string{"nonsense"}},
	} {
		code, out, errOut := run(t, tc.args...)
		if code != 2 {
			t.Errorf("%s: exit code %d, want 2\n%s%s", name, code, out, errOut)
		}
		for _, s := range tc.says {
			if !strings.Contains(errOut, s) {
				t.Errorf("%s: the message does not name %q:\n%s", name, s, errOut)
			}
		}
	}
}
