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
