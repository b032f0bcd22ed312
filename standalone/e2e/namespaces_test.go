package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/tier"
)

// teamYAML is a policy of a second Namespace that selects the databases too. It contradicts the
// first Namespace's.
const teamYAML = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: team, name: team-ingress}
spec:
  priority: 3
  tier: securityops
  appliedTo: [{externalEntitySelector: {}}]
  ingress:
  - action: Drop
    from: [{ipBlock: {cidr: 198.51.100.0/24}}]
    ports: [{protocol: TCP, port: 443}]
  - action: Allow
    from: [{ipBlock: {cidr: 203.0.113.0/24}}]
    ports: [{protocol: TCP, port: 22}]
`

// TestTwoNamespaces selects the same VMs in two Namespaces: the policies of both apply, the objects
// in both say so, and when one of them selects the VMs no longer, the other's policies stay exactly
// as they are.
func TestTwoNamespaces(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestSelectedInTwoNamespaces (internal/cloud/realize) and TestSelectorsComeAndGo (internal/cloud/inventory)")
	im := importAccount(t, newCluster(t), hybridCloud)
	first, second := decodePolicies(t, policiesYAML)[0], decodePolicies(t, teamYAML)[0]
	// The oracle knows one entity per VM. To it the second policy is one of the first Namespace
	// about the same VMs.
	equal := second.DeepCopyObject().(*v1beta1.NetworkPolicy)
	equal.Namespace = vmNamespace
	equal.Spec.AppliedTo[0].ExternalEntitySelector = &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: "db"}}
	var databases []string
	for vm, role := range hybridCloud.roles {
		if role == "db" {
			databases = append(databases, vm)
		}
	}
	next := im.oracle.copy()
	next.policies = append(next.policies, first)
	im.step("policy of the first", next, func() { im.create(first) })

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "databases"}}
	selector.Spec.AccountNamespace, selector.Spec.AccountName = "cloud", "real"
	for _, vm := range databases {
		selector.Spec.VMSelector = append(selector.Spec.VMSelector, cloudv1.VirtualMachineSelector{VMMatch: []cloudv1.EntityMatch{{MatchID: vm}}})
	}
	next = im.oracle.copy()
	next.policies = append(next.policies, equal)
	im.step("policy of the second", next, func() { im.apply(ns, selector); im.create(second) })
	for _, vm := range databases {
		im.shows(vmNamespace, vm, "team/team-ingress", "vms/db-from-app")
		im.shows("team", vm, "team/team-ingress", "vms/db-from-app")
	}

	next = im.oracle.copy()
	next.policies = next.policies[1:]
	im.step("the first selects nothing", next, func() {
		im.must(im.c.client.Delete(t.Context(), &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: "all"}}))
	})
	for _, vm := range databases {
		im.shows("team", vm, "team/team-ingress")
	}
	eventually(t, "the VMs of the first are gone", func(ctx context.Context) (bool, string) {
		var list cloudv1.VirtualMachineList
		err := im.c.client.List(ctx, &list, client.InNamespace(vmNamespace))
		return err == nil && len(list.Items) == 0, fmt.Sprint(len(list.Items), err)
	})
	next = im.oracle.copy()
	next.policies = nil
	im.step("the second selects nothing", next, func() { im.must(im.c.client.Delete(t.Context(), selector)) })
	im.mustBeReleased()
}

// shows waits until a VirtualMachine says that exactly these policies are realized on the VM.
func (im *imported) shows(namespace, vm string, want ...string) {
	im.t.Helper()
	eventually(im.t, namespace+"/"+vm, func(ctx context.Context) (bool, string) {
		var live cloudv1.VirtualMachine
		if err := im.c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: vm}, &live); err != nil {
			return false, err.Error()
		}
		var got []string
		for _, p := range live.Status.Policies {
			if p.Phase == cloudv1.PolicyPhaseRealized {
				got = append(got, p.Namespace+"/"+p.Name)
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want) && len(live.Status.Policies) == len(want), fmt.Sprintf("%+v", live.Status.Policies)
	})
}
