package preview_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanInputIsTheControllers: what a plan is made from has every field that the realizer's has,
// but those that only a running realizer can know.
func TestPlanInputIsTheControllers(t *testing.T) {
	ofTheRealizer := map[string]bool{"Realized": true, "Stop": true, "Seal": true, "Blocked": true, "Locked": true, "Unmarked": true, "Agents": true, "Faulty": true, "Heavy": true, "Forced": true}
	waves := int32(3)
	at := metav1.Now()
	author := metav1.ManagedFieldsEntry{Manager: "kubectl", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:nephele.io/force":{}}}}`)}
	account := func(name string) *cloudv1alpha1.CloudProviderAccount {
		return &cloudv1alpha1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{author},
			Annotations: map[string]string{cloudv1alpha1.AnnotationFormerGroups: "eni-1=sg-1", cloudv1alpha1.AnnotationForce: "0badc0ffee0badc0"}}, Spec: cloudv1alpha1.CloudProviderAccountSpec{
			Mode: cloudv1alpha1.ModeReleased, MaxPerWave: &waves, Dependents: cloudv1alpha1.DependentsCut,
			Failsafe: []cloudv1alpha1.FailsafeFlow{{Direction: "Ingress", CIDRs: []string{"0.0.0.0/0"}}},
		}}
	}
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(
		strings.Replace(previewtest.SmallShopManifests, "{name: web, namespace: vms}", "{name: web, namespace: vms, annotations: {nephele.io/stage: plan}}", 1)+
			"---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudEntitySelector\nmetadata: {name: b, namespace: vms}\n"+
			"spec: {accountName: b, accountNamespace: vms, vmSelector: [{vmMatch: [{matchID: i-b}]}]}\n"+
			"---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudEntitySelector\nmetadata: {name: services, namespace: vms}\n"+
			"spec: {accountName: a, accountNamespace: vms, nativeSelector: [{vpcMatch: {matchID: vpc-1}}]}\n"+
			"---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: peers, namespace: vms}\nspec: {priority: 6, "+
			"appliedTo: [{externalEntitySelector: {}}], ingress: [{name: p, action: Allow, from: [{externalEntitySelector: {}}]}]}\n"))
	if err != nil || len(in.Refused) > 0 {
		t.Fatalf("%v, refused %v", err, in.Refused)
	}
	observed := func(name, vm string) *preview.ObservedAccount {
		key := cloud.AccountKey("vms", name)
		snap := &cloud.Snapshot{
			Scope: cloud.Scope{Account: key, Region: "eu-west-1"}, OwnerID: "owner-" + name,
			Networks: []cloud.Network{{ID: "vpc-1", OwnerID: "owner-a"}},
			VMs:      []cloud.VM{{ID: vm, NetworkID: "vpc-1", Interfaces: []string{"eni-" + vm}, Tags: map[string]string{"app": "web"}}},
			Interfaces: []cloud.Interface{{ID: "eni-" + vm, NetworkID: "vpc-1", VMID: vm, OwnerID: "owner-" + name},
				{ID: "eni-of-another", NetworkID: "vpc-1", OwnerID: "owner-c"}},
			Services: []cloud.Service{{ID: "arn:aws:rds:eu-west-1:1:db:orders", Kind: cloud.RDSInstance, NetworkID: "vpc-1"}},
		}
		o := &preview.ObservedAccount{Key: key, EnforcerKey: cloud.EnforcerKey("vms", name), Regions: []plan.Region{{Snapshot: snap}}}
		in.ImportEntities(account(name), o)
		return o
	}
	known := preview.ObservedAccounts{observed("a", "i-0000000000000001a"), observed("b", "i-b")}
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(preview.Compute(in).Computed.Delta))
	acct := preview.Describe(known, "vms/a", clouds.LowererOf)
	got, err := (&preview.Planner{In: in, ClusterID: "cluster", Lowerers: clouds.LowererOf}).Input(acct, known[0], store)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && empty(v.Field(i)) != ofTheRealizer[f.Name] {
			t.Errorf("field %s is %v", f.Name, v.Field(i))
		}
	}
	if acct.MaxPerWave != 3 {
		t.Errorf("maxPerWave %d", acct.MaxPerWave)
	}
}

// empty reports whether a value says nothing.
func empty(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0
}

// TestOnePlanInput: nothing but the realizer's one function makes an input of plans, so that no
// second one leaves out a field of it.
func TestOnePlanInput(t *testing.T) {
	literal := regexp.MustCompile(`\bplan\.Input\{\s*[^}\s]`)
	var found []string
	for _, pattern := range []string{"*.go", "../cli/*.go", "../cli/plancmd/*.go", "../cli/explaincmd/*.go", "../cli/source/*.go", "../cloud/realize/*.go", "../cloud/forecast/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") && literal.Match(text) {
				found = append(found, name)
			}
		}
	}
	if len(found) != 1 || filepath.Base(found[0]) != "input.go" {
		t.Errorf("inputs of plans are made in %v, want the realizer's input.go only", found)
	}
}

// TestPlanOfAnAccountBeingDeleted: it is given back, whatever the policies say.
func TestPlanOfAnAccountBeingDeleted(t *testing.T) {
	o := &preview.ObservedAccount{Key: "vms/a", Deleting: true, Regions: []plan.Region{{Snapshot: &cloud.Snapshot{Scope: cloud.Scope{Region: "r"}}}}}
	if a := preview.Describe(preview.ObservedAccounts{o}, "vms/a", clouds.LowererOf); !a.Releasing {
		t.Errorf("%+v", a)
	}
}

// TestPlanTellsWhatTheControllerHolds: also where what waits is too much only together with what
// has changed before.
func TestPlanTellsWhatTheControllerHolds(t *testing.T) {
	a := &cloudv1alpha1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "a"}}
	p := &preview.Planner{In: &preview.Inputs{Objects: input.Objects{Accounts: []*cloudv1alpha1.CloudProviderAccount{a}}}}
	for reason, want := range map[string]string{cloudv1alpha1.ReasonConfirmationNeeded: "10 of 60", cloudv1alpha1.ReasonConfirmed: ""} {
		a.Status.Conditions = []metav1.Condition{{Type: cloudv1alpha1.ConditionBraked, Reason: reason, Message: "10 of 60"}}
		if got := p.BrakedLive("vms/a"); got != want || p.BrakedLive("vms/b") != "" {
			t.Errorf("%s: %q, another account %q", reason, got, p.BrakedLive("vms/b"))
		}
	}
}
