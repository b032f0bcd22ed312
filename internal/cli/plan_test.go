package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
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
