package cli

import (
	"encoding/json"
	"fmt"
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
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/preview"
)

// shopEstate is an account of two machines that admit SSH and HTTP.
const shopEstate = `
accounts:
- id: "111122223333"
  alias: a
  regions:
  - name: eu-west-1
    vpcs:
    - name: shop
      cidrs: [10.1.0.0/16]
      groups:
      - {name: web, rules: ["tcp 80 from any", "tcp 22 from any"]}
      vms:
      - {id: i-0000000000000001a, name: web-1, ip: 10.1.1.10, groups: [web], tags: {app: web}}
      - {id: i-0000000000000002a, name: web-2, ip: 10.1.1.11, groups: [web], tags: {app: web}}
`

const shopManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: a, namespace: vms}
spec:
  awsConfig: {region: [eu-west-1], secretRef: {name: s, namespace: vms, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: sel, namespace: vms}
spec:
  accountName: a
  accountNamespace: vms
  vmSelector:
  - vmMatch: [{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: web, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: web}}}]
  ingress:
  - {name: web, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}]}
`

// accountSays adds a line to the specification of the account.
func accountSays(line string) string {
	return strings.Replace(shopManifests, "spec:\n  awsConfig", "spec:\n  "+line+"\n  awsConfig", 1)
}

// planShop plans for the shop.
func planShop(t *testing.T, manifests string, flags ...string) ran {
	t.Helper()
	return nephele(t, manifests, append([]string{"plan", "-f", "-", "--snapshot", file(t, "estate.yaml", shopEstate)}, flags...)...)
}

func TestPlanAllowsFailsafe(t *testing.T) {
	const closes = "- closes tcp 22 from"
	if r := planShop(t, shopManifests); !strings.Contains(r.stdout, closes) {
		t.Fatalf("without: %+v", r)
	}
	r := planShop(t, accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [0.0.0.0/0, '::/0']}]"))
	if r.code != ExitNo || strings.Contains(r.stdout, closes) || !strings.Contains(r.stdout, "+ ingress tcp 22 from 0.0.0.0/0") {
		t.Errorf("%+v", r)
	}
}

// TestPlanRefuses: a policy that does not fit is left out as a whole.
func TestPlanRefuses(t *testing.T) {
	var peers strings.Builder
	for i := range 400 {
		fmt.Fprintf(&peers, "{ipBlock: {cidr: 172.%d.%d.1/32}}, ", 16+i%16, i/16)
	}
	many := strings.Replace(shopManifests, "{ipBlock: {cidr: 10.0.0.0/8}}", strings.TrimSuffix(peers.String(), ", "), 1)
	if r := planShop(t, many); r.code != ExitNo || !strings.Contains(r.stdout, "! refused: ") || !strings.Contains(r.stdout, "nothing to do") {
		t.Errorf("%+v", r)
	}
}

func TestPlanShowsTheFirstWave(t *testing.T) {
	manifests := accountSays("maxPerWave: 1")
	if r := planShop(t, manifests); !strings.Contains(r.stdout, "At most 1 VMs and groups in use are changed at once: ") {
		t.Errorf("%+v", r)
	}
	var got struct {
		Accounts []struct {
			Plan struct{ Steps []json.RawMessage }
			Wave struct {
				MaxPerWave int
				Plan       struct{ Steps []json.RawMessage }
			}
		}
	}
	r := planShop(t, manifests, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Accounts) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	if a := got.Accounts[0]; a.Wave.MaxPerWave != 1 || len(a.Wave.Plan.Steps) == 0 || len(a.Wave.Plan.Steps) >= len(a.Plan.Steps) {
		t.Errorf("%+v", a)
	}
	if r := planShop(t, accountSays("maxPerWave: 100")); strings.Contains(r.stdout, "at once") {
		t.Errorf("all is one wave: %+v", r)
	}
}

// TestPlanKeepsPorts: what a manifest says of the ports of an entity stays when the cloud says the
// rest.
func TestPlanKeepsPorts(t *testing.T) {
	named := strings.Replace(shopManifests, "ports: [{port: 80}]", "ports: [{port: 80}, {port: http}]", 1)
	entity := func(id string) string {
		return "---\napiVersion: crd.antrea.io/v1alpha2\nkind: ExternalEntity\nmetadata: {name: virtualmachine-" + id + ", namespace: vms}\n" +
			"spec: {externalNode: cloud/vms/a, endpoints: [{ip: 10.1.1.10}], ports: [{name: http, port: 80, protocol: TCP}]}\n"
	}
	if r := planShop(t, named); !strings.Contains(r.stdout, `named port "http" is not a port of this VM's entity`) {
		t.Errorf("without ports: %+v", r)
	}
	r := planShop(t, named+entity("i-0000000000000001a")+entity("i-0000000000000002a"))
	if r.code != ExitNo || strings.Contains(r.stdout, "refused") || !strings.Contains(r.stdout, "+ ingress tcp 80 from 10.0.0.0/8") {
		t.Errorf("%+v", r)
	}
}

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
		strings.Replace(shopManifests, "{name: web, namespace: vms}", "{name: web, namespace: vms, annotations: {nephele.io/stage: plan}}", 1)+
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
	acct := preview.Describe(known, "vms/a", controller.LowererOf)
	got, err := (&preview.Planner{In: in, ClusterID: "cluster", Lowerers: controller.LowererOf}).Input(acct, known[0], store)
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

// TestOnePlanInput: nothing but the realizer's one function makes an input of plans, so that nobody
// can leave out a field of it.
func TestOnePlanInput(t *testing.T) {
	literal := regexp.MustCompile(`\bplan\.Input\{\s*[^}\s]`)
	var found []string
	for _, pattern := range []string{"*.go", "../cloud/realize/*.go", "../cloud/forecast/*.go"} {
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
	if a := preview.Describe(preview.ObservedAccounts{o}, "vms/a", controller.LowererOf); !a.Releasing {
		t.Errorf("%+v", a)
	}
}
