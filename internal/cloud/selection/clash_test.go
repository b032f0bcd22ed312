package selection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// TestNamesClashInPreview: what a plan is made from says the same, and a glass that is broken over
// one VM is not broken over the other.
func TestNamesClashInPreview(t *testing.T) {
	t.Parallel()
	const idAB, idBA = "/subscriptions/s/resourcegroups/ab/vm/web", "/subscriptions/s/resourcegroups/ba/vm/web"
	snap := &cloud.Snapshot{Scope: cloud.Scope{Account: "clouds/acc", Region: oregon}, Networks: []cloud.Network{{ID: "net"}},
		VMs: []cloud.VM{{ID: idAB, NetworkID: "net"}, {ID: idBA, NetworkID: "net"}}}
	vm := &v1alpha1.VirtualMachine{}
	vm.Namespace, vm.Name = "web", cloud.ObjectName(idBA)
	vm.Annotations = map[string]string{AnnotationAccount: "clouds/acc", v1alpha1.AnnotationBreakGlass: "fire"}
	vm.Status.CloudId = idBA
	cpa, web, db := &v1alpha1.CloudProviderAccount{}, ces("web", "all", wholeVPC("net")), ces("db", "one", v1alpha1.VirtualMachineSelector{VMMatch: []v1alpha1.EntityMatch{{MatchID: idAB}}})
	cpa.Namespace, cpa.Name = accountKey.Namespace, accountKey.Name
	cpa.Spec.ReleaseNamespaces = []string{"web"}
	around := Surroundings{Selectors: []*v1alpha1.CloudEntitySelector{web, db}, VMs: []*v1alpha1.VirtualMachine{vm}, Namespaces: []*corev1.Namespace{}}
	got := Preview(cpa, v1alpha1.CloudProviderAWS, around, []*cloud.Snapshot{snap})
	entity := types.NamespacedName{Namespace: "web", Name: "virtualmachine-" + vm.Name}
	inDB := types.NamespacedName{Namespace: "db", Name: "virtualmachine-" + vm.Name}
	if r := got.Refs[entity]; r.VMID != idBA || r.Mode != string(v1alpha1.ModeBreakGlass) {
		t.Errorf("%s is %+v", entity, r)
	}
	if r := got.Refs[inDB]; r.VMID != idAB || r.Mode != "" {
		t.Errorf("%s is %+v", inDB, r)
	}
	if len(got.Unimported) != 1 || !strings.Contains(got.Unimported[0], "VirtualMachine web/"+vm.Name+" stands for "+idBA+". It would stand for "+idAB) {
		t.Errorf("remarks %q", got.Unimported)
	}
}
