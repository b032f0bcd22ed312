package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
	"github.com/nephele-io/nephele/internal/tier"
)

const strangerAccount = "999999999999"

// TestKeysAreExchanged: with other keys of the same cloud account nothing changes and enforcement
// goes on; with keys of another one nothing is read, changed or deleted, until right ones come
// back.
func TestKeysAreExchanged(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestKeysOfAStranger and TestSecretRotation (inventory), TestOwnerChanged (aws); TestBadInput exchanges the keys of a live account")
	ac := hybridCloud
	ac.load = func() (aws.State, source.Report, error) {
		s, report, err := hybridCloud.load()
		s.Accounts = append(s.Accounts, aws.Account{ID: strangerAccount, Regions: []string{"us-west-2"}})
		return s, report, err
	}
	im := importAccount(t, newCluster(t), ac)
	policies := decodePolicies(t, policiesYAML)
	next := im.oracle.copy()
	next.policies = append(next.policies, policies[0])
	im.step("policy", next, func() { im.create(policies[0]) })
	im.shows(vmNamespace, firstWithRole(ac, "db"), "vms/db-from-app")
	held, objects := im.estateNow(), im.objectNames()

	w := im.server.World()
	owner := w.Accounts()[0].ID
	if owner == strangerAccount {
		owner = w.Accounts()[1].ID
	}
	im.must(w.AddCredential(aws.Credential{AccessKeyID: "AKIANEWNEWNEWNEWNEW0", Secret: "new", Account: owner, User: "nephele"}))
	im.must(w.AddCredential(aws.Credential{AccessKeyID: "AKIASTRANGER00000000", Secret: "other", Account: strangerAccount}))
	unchanged := func(when string) {
		t.Helper()
		if d := gocmp.Diff(held, im.estateNow()); d != "" {
			t.Errorf("%s: the cloud has changed (-before +after):\n%s", when, d)
		}
		if d := gocmp.Diff(objects, im.objectNames()); d != "" {
			t.Errorf("%s: the objects have changed (-before +after):\n%s", when, d)
		}
	}
	im.guard.takeCalls()
	im.setKeys("AKIANEWNEWNEWNEWNEW0", "new")
	im.must(w.RemoveCredential(estate.DefaultAccessKeyID))
	im.waitCall("DescribeNetworkInterfaces")
	im.waitCredentials(metav1.ConditionTrue, cloudv1.ReasonOK)
	unchanged("new keys")
	moved := firstWithRole(ac, "app")
	im.step("label change with new keys", im.oracle.withRole(moved, "db"), func() { im.setRole(moved, "db") })
	im.shows(vmNamespace, moved, "vms/db-from-app")
	held = im.estateNow()

	im.setKeys("AKIASTRANGER00000000", "other")
	im.waitCredentials(metav1.ConditionFalse, cloudv1.ReasonAuthFailed)
	im.setRole(moved, "app") // what is wanted changes, and cannot be done
	im.c.stop()
	im.guard.takeCalls()
	im.c.start()
	im.c.waitReady()
	im.waitCall("GetCallerIdentity")
	im.waitCredentials(metav1.ConditionFalse, cloudv1.ReasonAuthFailed)
	unchanged("keys of a stranger")

	im.step("the right keys again", im.oracle.withRole(moved, "app"), func() { im.setKeys("AKIANEWNEWNEWNEWNEW0", "new") })
	im.waitCredentials(metav1.ConditionTrue, cloudv1.ReasonOK)
	im.must(im.c.client.Delete(t.Context(), &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"}}))
	im.mustBeReleased()
}

// setKeys puts other keys into the account's Secret.
func (im *imported) setKeys(id, secret string) {
	im.t.Helper()
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "keys"}}
	edit(im.t, im.c.client, keys, func() {
		keys.Data["credentials"] = fmt.Appendf(nil, `{"accessKeyId": %q, "accessKeySecret": %q}`, id, secret)
	})
}

// waitCall waits until the cloud is called.
func (im *imported) waitCall(action string) {
	im.t.Helper()
	eventually(im.t, action, func(context.Context) (bool, string) {
		calls := im.guard.takeCalls()
		return calls[action] > 0, fmt.Sprint(calls)
	})
}

// waitCredentials waits until the account says this of its credentials.
func (im *imported) waitCredentials(status metav1.ConditionStatus, reason string) {
	im.t.Helper()
	eventually(im.t, "CredentialsValid "+string(status), func(ctx context.Context) (bool, string) {
		var account cloudv1.CloudProviderAccount
		if err := im.c.client.Get(ctx, client.ObjectKey{Namespace: "cloud", Name: "real"}, &account); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionCredentialsValid)
		return c != nil && c.Status == status && c.Reason == reason, fmt.Sprintf("%+v", account.Status)
	})
}

// estateNow is what a user would miss: groups with their rules and tags, and what the interfaces
// hold.
func (im *imported) estateNow() map[string]string {
	im.t.Helper()
	out := map[string]string{}
	note := func(id string, what ...any) {
		text, err := json.Marshal(what)
		im.must(err)
		out[id] = string(text)
	}
	for _, r := range im.server.World().State().Regions {
		for _, n := range r.NetworkInterfaces {
			note(n.ID, n.Groups, n.Tags)
		}
		for _, g := range r.SecurityGroups {
			note(g.ID, g.Name, g.Tags, g.Rules)
		}
	}
	return out
}

// objectNames are the objects that stand for what is in the account.
func (im *imported) objectNames() []string {
	im.t.Helper()
	var vms cloudv1.VirtualMachineList
	var vpcs cloudv1.VpcList
	im.must(im.c.client.List(im.t.Context(), &vms))
	im.must(im.c.client.List(im.t.Context(), &vpcs))
	var out []string
	for _, vm := range vms.Items {
		out = append(out, "vm "+vm.Namespace+"/"+vm.Name+" "+string(vm.UID))
	}
	for _, v := range vpcs.Items {
		out = append(out, "vpc "+v.Namespace+"/"+v.Name+" "+string(v.UID))
	}
	return out
}
