package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

func TestPlanOffline(t *testing.T) {
	r := nephele(t, "", "plan", "-f", file(t, "cloud.yaml", previewtest.HybridManifests), "-f", file(t, "policy.yaml", previewtest.SSHPolicy), "--snapshot", previewtest.HybridCloud)
	if r.code != ExitNo {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	for _, want := range []string{
		"account vms/hybrid\n", "region us-west-2\n", "  + security group new-group-1 (name known when applied) in ", "      + ingress tcp 22 from 10.0.0.0/8\n", "Plan: ",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	j := nephele(t, previewtest.HybridManifests+"---"+previewtest.SSHPolicy, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud, "-o", "json")
	var got struct {
		Accounts []struct {
			Account string
			Plan    struct {
				Summary struct{ GroupsCreated, Steps int }
				Steps   []struct{ Kind string }
			}
			Policies []analysis.PlannedPolicy
			Refusals []analysis.PlanRefusal
		}
	}
	if err := json.Unmarshal([]byte(j.stdout), &got); err != nil || j.code != ExitNo {
		t.Fatalf("exit %d, %v: %s%s", j.code, err, j.stdout, j.err)
	}
	if len(got.Accounts) != 1 || got.Accounts[0].Plan.Summary.GroupsCreated == 0 || len(got.Accounts[0].Plan.Steps) != got.Accounts[0].Plan.Summary.Steps ||
		len(got.Accounts[0].Policies) != 1 || got.Accounts[0].Policies[0].Pending != 1 || len(got.Accounts[0].Refusals) != 0 {
		t.Errorf("%s", j.stdout)
	}
}

// TestPlanFromSelectors: the entities are what the inventory would make of the selectors.
func TestPlanFromSelectors(t *testing.T) {
	before, _, _ := strings.Cut(previewtest.HybridManifests, "---\napiVersion: crd.antrea.io/v1alpha2")
	r := nephele(t, before+"---"+previewtest.SSHPolicy, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud)
	if r.code != ExitNo || !strings.Contains(r.stdout, "      + ingress tcp 22 from 10.0.0.0/8\n") {
		t.Errorf("%+v", r)
	}
}

func TestPlanWithNothingToDo(t *testing.T) {
	r := nephele(t, previewtest.HybridManifests, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud)
	if r.code != ExitDone || !strings.Contains(r.stdout, "Plan: nothing to do.") {
		t.Errorf("%+v", r)
	}
}

func TestPlanBadInput(t *testing.T) {
	input := file(t, "cloud.yaml", previewtest.HybridManifests)
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"no manifests":      {"", []string{"--snapshot", previewtest.HybridCloud}, "--snapshot needs -f"},
		"no such snapshot":  {"", []string{"-f", input, "--snapshot", missing}, "--snapshot: "},
		"not a snapshot":    {"", []string{"-f", input, "--snapshot", input}, "--snapshot: "},
		"no account":        {previewtest.SSHPolicy, []string{"-f", "-", "--snapshot", previewtest.HybridCloud}, "there is no CloudProviderAccount"},
		"no such region":    {strings.ReplaceAll(previewtest.HybridManifests, "us-west-2", "xx-east-9"), []string{"-f", "-", "--snapshot", previewtest.HybridCloud}, "region xx-east-9"},
		"refused policy":    {previewtest.HybridManifests + "---" + strings.ReplaceAll(previewtest.SSHPolicy, "10.0.0.0/8", "10.0.0.0/99"), []string{"-f", "-", "--snapshot", previewtest.HybridCloud}, "spec.ingress[0].from[0].ipBlock.cidr"},
		"output":            {"", []string{"-f", input, "--snapshot", previewtest.HybridCloud, "-o", "xml"}, `--output "xml"`},
		"no cluster at all": {"", []string{"--kubeconfig", missing}, "finding the cluster"},
	} {
		r := nephele(t, c.stdin, append([]string{"plan"}, c.args...)...)
		if r.code != ExitBadInput || !strings.Contains(r.err, c.want) || r.stdout != "" {
			t.Errorf("%s: %+v, want %q", name, r, c.want)
		}
	}
}

// TestPlanOverCluster makes plans for a cluster as it is, and with manifests over it.
func TestPlanOverCluster(t *testing.T) {
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	set, err := manifest.Load([]string{"-"}, strings.NewReader(previewtest.HybridManifests+"---"+previewtest.SSHPolicy))
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme)
	for _, d := range set.Documents {
		d.Object.SetUID(preview.OfflineUID(d.Group, d.Kind, d.Object))
		api.WithObjects(d.Object.(client.Object))
	}
	api.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "test"}},
		&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: v1beta1.TierSpec{Priority: 240}})
	cluster := api.Build()
	rules := func(files []string, over string) string {
		t.Helper()
		p, err := planOver(t.Context(), cluster, files, strings.NewReader(over), controller.Access{})
		if err != nil || len(p.In.Refused) > 0 || len(p.In.Notes) > 0 {
			t.Fatalf("%v, refused %v, notes %v", err, p.In.Refused, p.In.Notes)
		}
		var stop func()
		if p.Open, stop, err = simulate(context.WithoutCancel(t.Context()), p.In, previewtest.HybridCloud); err != nil {
			t.Fatal(err)
		}
		defer stop()
		planned, err := p.Plan(t.Context())
		if err != nil || len(planned.Accounts) != 1 {
			t.Fatalf("%v, %d accounts", err, len(planned.Accounts))
		}
		var b strings.Builder
		if err := show.Plans(&b, p.Answer(planned), false); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := rules(nil, ""); !strings.Contains(got, "ingress tcp 22 from 10.0.0.0/8") {
		t.Errorf("the cluster as it is:\n%s", got)
	}
	// The changed policy is in a tier and a Namespace that only the cluster has.
	over := strings.NewReplacer("port: 22", "port: 443", "spec:", "spec:\n  tier: late").Replace(previewtest.SSHPolicy)
	if got := rules([]string{"-"}, over); !strings.Contains(got, "ingress tcp 443 from 10.0.0.0/8") || strings.Contains(got, "ingress tcp 22 ") {
		t.Errorf("the cluster with the policy changed:\n%s", got)
	}
}

// TestPlanBeforeAnythingIsApplied: the manifests bring the account, its Secret and the Namespace
// themselves.
func TestPlanBeforeAnythingIsApplied(t *testing.T) {
	server := previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0)
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "test"}}).Build()
	account, _, _ := strings.Cut(previewtest.HybridManifests, "---\napiVersion: crd.antrea.io")
	account = strings.Replace(account, "  awsConfig:\n", "  awsConfig:\n    endpoint: "+server.URL()+"\n", 1)
	value := `{"accessKeyId": "` + estate.DefaultAccessKeyID + `", "accessKeySecret": "` + estate.DefaultSecret + `"}`
	for field, value := range map[string]string{"stringData": value, "data": base64.StdEncoding.EncodeToString([]byte(value))} {
		secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: vms}\n" + field + ": {k: '" + value + "'}\n"
		p, err := planOver(t.Context(), cluster, []string{"-"}, strings.NewReader(account+secret+"---"+previewtest.SSHPolicy), controller.LocalAccess())
		if err != nil || len(p.In.Refused) > 0 {
			t.Fatalf("%v, refused %v", err, p.In.Refused)
		}
		planned, err := p.Plan(t.Context())
		if err != nil || len(planned.Accounts) != 1 || len(planned.Accounts[0].Result.Plan.Steps) == 0 {
			t.Errorf("%s: %v, %+v", field, err, planned)
		}
	}
}

// TestPlanKnowsModes: what the selectors, the account and the annotations in the manifests say
// about modes decides what is planned, as it decides in the controller; what the status says of a
// time before does not.
func TestPlanKnowsModes(t *testing.T) {
	vm := func(annotations, mode string) string {
		return "---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: VirtualMachine\nmetadata: {name: i-075dc46a9bc347264, namespace: vms, annotations: {" +
			annotations + "}}\nstatus: {cloudId: i-075dc46a9bc347264, region: us-west-2, mode: " + mode + ", modeReason: selector two}\n"
	}
	selector := func(spec string) string {
		return strings.Replace(previewtest.HybridManifests, "  accountName: hybrid\n", "  accountName: hybrid\n"+spec, 1)
	}
	planned := "in mode plan: what is shown is done only in mode enforce (CloudEntitySelector vms/two)"
	for name, c := range map[string]struct {
		manifests string
		code      int
		text      string
	}{
		"enforced":          {previewtest.HybridManifests, ExitNo, "# take over"},
		"planned selector":  {selector("  mode: plan\n"), ExitNo, planned},
		"planned account":   {strings.Replace(previewtest.HybridManifests, "  awsConfig:\n", "  mode: plan\n  awsConfig:\n", 1), ExitNo, planned},
		"released selector": {selector("  mode: released\n"), ExitDone, "in mode released: no policy is enforced, and what is held is given back (CloudEntitySelector vms/two)"},
		"released account":  {strings.Replace(previewtest.HybridManifests, "  awsConfig:\n", "  mode: released\n  awsConfig:\n", 1), ExitDone, "Plan: nothing to do."},
		"broken glass of the selector": {
			strings.Replace(previewtest.HybridManifests, "{name: two, ", "{name: two, annotations: {nephele.io/break-glass: fire}, ", 1), ExitDone, "(CloudEntitySelector vms/two: fire)",
		},
		"broken glass of the VM": {previewtest.HybridManifests + vm("nephele.io/break-glass: fire", "enforce"), ExitDone, "(VirtualMachine vms/i-075dc46a9bc347264: fire)"},
		"a former status":        {previewtest.HybridManifests + vm("", "released"), ExitNo, "# take over"},
	} {
		r := nephele(t, c.manifests+"---"+previewtest.SSHPolicy, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud)
		if r.code != c.code || !strings.Contains(r.stdout, c.text) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestPlanWithinQuotas: the account says how much fits, and what does not is refused with the
// numbers.
func TestPlanWithinQuotas(t *testing.T) {
	quotas := func(text string) string {
		return strings.Replace(previewtest.HybridManifests, "  awsConfig:\n", "  awsConfig:\n    quotas: "+text+"\n", 1)
	}
	two := strings.Replace(previewtest.SSHPolicy, "ports: [{port: 22}]", "ports: [{port: 22}, {port: 24}]", 1)
	for text, want := range map[string]struct {
		code int
		text string
	}{
		"{rulesPerGroup: 2}":                          {ExitNo, "# take over"},
		"{rulesPerGroup: 1, groupsPerInterface: 2}":   {ExitNo, "# take over"},
		"{rulesPerGroup: 1, groupsPerInterface: 1}":   {ExitNo, "needs 2 ingress rules"},
		"{rulesPerGroup: 100}":                        {ExitNo, "of 100  ("},
		"{rulesPerGroup: 300}":                        {ExitBadInput, "times groupsPerInterface (default 5) must be at most 1000"},
		"{rulesPerGroup: 80, groupsPerInterface: 16}": {ExitBadInput, "must be at most 1000"},
		"{rulesPerGroup: 0}":                          {ExitBadInput, "rulesPerGroup"},
		"{rulesPerInterface: 5}":                      {ExitBadInput, "rulesPerInterface"},
	} {
		r := nephele(t, quotas(text)+"---"+two, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud)
		if r.code != want.code || !strings.Contains(r.stdout+r.err, want.text) {
			t.Errorf("quotas %s: %+v", text, r)
		}
	}
}
