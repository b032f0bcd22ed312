package preview_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

// TestPlanAllowsFailsafe: what is always allowed does not close, and its rules are marked. A
// warning about access that closes names the groups that give it today, and machines by their
// names.
func TestPlanAllowsFailsafe(t *testing.T) {
	closes := func(a analysis.AccountPlan) bool {
		return slices.ContainsFunc(a.ReachabilityTold, func(c analysis.ToldChange) bool { return !c.Opens && strings.Contains(c.Text, "tcp 22 from") })
	}
	// warned is the warning about access that somebody may be using.
	warned := func(a analysis.AccountPlan) (out string) {
		for _, w := range a.Warnings {
			if w.Reason == "ClosesAccess" {
				out += w.Message
			}
		}
		return out
	}
	_, shut := smallShop(t, previewtest.SmallShopManifests)
	if w := warned(shut); !closes(shut) || !strings.Contains(w, "closes ssh (tcp 22) to web-1, web-2 from the rest of 0.0.0.0/0, web-1, web-2, which sg-") ||
		!strings.Contains(w, " (web) allows today; somebody may be at work by it now") {
		t.Fatalf("without: %q, %s", w, previewtest.JSON(shut))
	}
	if _, a := smallShop(t, accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [0.0.0.0/0, '::/0']}]")); closes(a) || warned(a) != "" || !slices.Contains(rules(a), "ingress tcp 22 from 0.0.0.0/0") {
		t.Errorf("everywhere: %s", previewtest.JSON(a))
	}
	_, a := smallShop(t, accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [192.0.2.0/24]}]"))
	if len(a.Failsafe) != 1 || a.Failsafe[0].Direction != "ingress" || a.Failsafe[0].From != 22 || !slices.Equal(a.Failsafe[0].Peers, []string{"192.0.2.0/24"}) {
		t.Errorf("%+v", a.Failsafe)
	}
	var marked []string
	for _, s := range a.Plan.Steps {
		for _, r := range s.Rules {
			if r.Failsafe {
				marked = append(marked, r.Text)
			}
		}
	}
	if !slices.Equal(marked, []string{"ingress tcp 22 from 192.0.2.0/24"}) {
		t.Errorf("failsafe rules: %q", marked)
	}
}

// TestPlanKeepsPorts: what a manifest says of the ports of an entity stays when the cloud says the
// rest.
func TestPlanKeepsPorts(t *testing.T) {
	named := strings.Replace(previewtest.SmallShopManifests, "ports: [{port: 80}]", "ports: [{port: 80}, {port: http}]", 1)
	entity := func(id string) string {
		return "---\napiVersion: crd.antrea.io/v1alpha2\nkind: ExternalEntity\nmetadata: {name: virtualmachine-" + id + ", namespace: vms}\n" +
			"spec: {externalNode: cloud/vms/a, endpoints: [{ip: 10.1.1.10}], ports: [{name: http, port: 80, protocol: TCP}]}\n"
	}
	if answer, _ := smallShop(t, named); !strings.Contains(previewtest.JSON(answer), `named port \"http\" is not a port of this VM's entity`) {
		t.Errorf("without ports: %s", previewtest.JSON(answer))
	}
	if _, a := smallShop(t, named+entity("i-0000000000000001a")+entity("i-0000000000000002a")); len(a.Refusals) > 0 || !slices.Contains(rules(a), "ingress tcp 80 from 10.0.0.0/8") {
		t.Errorf("with ports: %s", previewtest.JSON(a))
	}
}

// TestPlanTellsOfDependents: what dependents of a group lose is refused or reported, as the account
// wants it.
func TestPlanTellsOfDependents(t *testing.T) {
	estate := strings.Replace(previewtest.SmallShop, "      groups:\n", "      groups:\n      - {name: database, rules: [\"tcp 5432 from web\"]}\n", 1)
	estate = strings.Replace(estate, "      vms:\n", "      vms:\n      - {name: db-1, ip: 10.1.9.9, groups: [database]}\n", 1)
	plan := func(manifests string) analysis.AccountPlan {
		return previewtest.Answer(t, estate, manifests).Accounts[0]
	}
	refused := func(a analysis.AccountPlan) bool {
		return slices.ContainsFunc(a.Refusals, func(r analysis.PlanRefusal) bool { return strings.Contains(r.Message, "spec.dependents") })
	}
	if a := plan(previewtest.SmallShopManifests); !refused(a) || len(a.Cuts) > 0 {
		t.Errorf("not refused: %s", previewtest.JSON(a))
	}
	if a := plan(accountSays("dependents: Cut")); refused(a) || len(a.Cuts) != 1 {
		t.Errorf("not cut: %s", previewtest.JSON(a))
	}
}

// TestPlanWithoutOneAccount: the plan names an account that cannot be read, and the others are
// planned for.
func TestPlanWithoutOneAccount(t *testing.T) {
	provider := previewtest.AWS(t, previewtest.Simulated(t, estatetest.Parse(t, previewtest.SmallShop), 0), "eu-west-1")
	p := previewtest.Planner(t, provider, previewtest.SmallShopManifests+
		"---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudProviderAccount\nmetadata: {name: b, namespace: vms}\n"+
		"spec:\n  awsConfig: {region: [eu-west-1], secretRef: {name: s, namespace: vms, key: k}}\n")
	open := p.Open
	p.Open = func(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (preview.Reader, error) {
		if a.Name == "b" {
			return nil, errors.New("the keys are refused")
		}
		return open(ctx, a)
	}
	made, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := p.Answer(made)
	if len(answer.Accounts) != 2 || !takesOver(answer.Accounts[0]) || answer.Accounts[0].Error != "" || answer.Accounts[1].Account != "vms/b" || answer.Accounts[1].Error != "the keys are refused" {
		t.Fatal(previewtest.JSON(answer))
	}
	if err := preview.Unreadable(&answer); err == nil || !strings.Contains(err.Error(), "account vms/b: the keys are refused") {
		t.Errorf("the plan of both: %v", err)
	}
}

// TestPlanOfAnEnforcedAccount: what is enforced already is no change, also from manifests that do
// not tell the identities which the cluster gave them; only tags differ then. A rule that differs
// is one, and so is a policy that is gone.
func TestPlanOfAnEnforcedAccount(t *testing.T) {
	server := previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0)
	provider := previewtest.AWS(t, server, "us-west-2")
	enforced := previewtest.Planner(t, provider, previewtest.HybridManifests+"---"+previewtest.SSHPolicy)
	for i, p := range enforced.In.Objects.Policies { // the cluster gives its own identities
		p.UID = types.UID("0b0d3c1e-0000-4000-8000-00000000000" + string(rune('0'+i)))
	}
	previewtest.Perform(t, provider, enforced)
	plan := func(policy string) (analysis.PlanAnswer, analysis.AccountPlan) {
		answer := previewtest.AnswerIn(t, server, previewtest.HybridManifests+policy)
		return answer, answer.Accounts[0]
	}
	if _, a := plan("---" + previewtest.SSHPolicy); !a.TagsOnly || len(a.Plan.Steps) == 0 || len(a.Policies) != 1 || a.Policies[0].Realized != 1 {
		t.Errorf("the same: %s", previewtest.JSON(a))
	}
	if _, a := plan("---" + strings.ReplaceAll(previewtest.SSHPolicy, "port: 22", "port: 443")); a.TagsOnly || !slices.Contains(rules(a), "ingress tcp 443 from 10.0.0.0/8") {
		t.Errorf("another port: %s", previewtest.JSON(a))
	}
	answer, a := plan("")
	lost := 0
	for _, w := range a.Warnings {
		if w.Reason == "LosesPolicy" && strings.Contains(w.Message, "no policy guards ") {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("without the policy: %s", previewtest.JSON(answer))
	}
}
