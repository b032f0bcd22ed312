package show

import (
	"fmt"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// printed is the text of a plan.
func printed(t *testing.T, answer analysis.PlanAnswer, all bool) string {
	t.Helper()
	var b strings.Builder
	if err := Plans(&b, answer, all); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shopPlan is the plan for a shop of so many machines more than two, with a line more in the
// specification of the account.
func shopPlan(t *testing.T, more int, line string, replace ...string) analysis.PlanAnswer {
	t.Helper()
	var vms strings.Builder
	for i := range more {
		fmt.Fprintf(&vms, "      - {id: i-%016xa, name: app-%02d, ip: 10.1.2.%d, groups: [web], tags: {app: web}}\n", 100+i, i, i+1)
	}
	manifests := strings.NewReplacer(append(replace, "spec:\n  awsConfig", "spec:\n  "+line+"\n  awsConfig",
		"vmMatch: [{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}]", "vpcMatch: {matchName: shop}")...).Replace(previewtest.SmallShopManifests)
	return previewtest.Answer(t, previewtest.SmallShop+vms.String(), manifests)
}

// TestPlanOfManyIsShort: what is said of many VMs alike is one line, and with all each of them is
// named.
func TestPlanOfManyIsShort(t *testing.T) {
	answer := shopPlan(t, 40, "", "  accountName: a\n", "  accountName: a\n  mode: plan\n")
	text := printed(t, answer, false)
	for _, want := range []string{
		"AntreaNetworkPolicy vms/web: planned on 42 VMs: 42 would be enforced\n",
		"# 42 VMs (app-00, app-01, app-02, app-03 and 38 more) in eu-west-1: in mode plan: ",
		"  ~ 42 interfaces of app-00, app-01, app-02, app-03 and 38 more: groups sg-ee8918331399356b6 (web) -> new-group-1  # take over, for vms/web\n",
		"  ~ security group new-group-1  # with what the former groups allow, for vms/web\n",
		"# once the VMs in mode plan are enforced: 42 of the 42 interfaces",
		"With --all, all names are listed.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(text, "\n"); n > 40 || strings.Contains(text, "! waits for") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	all := printed(t, answer, true)
	if n := strings.Count(all, " of app-39: groups "); n != 1 || strings.Contains(all, "With --all") {
		t.Errorf("app-39 is named in %d lines:\n%s", n, all)
	}
}

// TestPlanText: each part of a plan has its own lines.
func TestPlanText(t *testing.T) {
	refusal := func(vm string) analysis.PlanRefusal {
		return analysis.PlanRefusal{Policy: "AntreaNetworkPolicy vms/web", VM: "eu-west-1/i-" + vm, VMName: vm, Region: "eu-west-1", Message: "it needs 301 rules"}
	}
	brake := analysis.PlanBrake{Message: "42 of the 42 interfaces of VMs would newly come under control", Hash: "0123456789abcdef", Command: "kubectl annotate x"}
	confirmed := brake
	confirmed.Confirmed = true
	for name, c := range map[string]struct {
		account analysis.AccountPlan
		want    []string
	}{
		"nothing":    {analysis.AccountPlan{}, []string{"account vms/a\n", "Plan: nothing to do.\n"}},
		"unreadable": {analysis.AccountPlan{Error: "the keys are refused"}, []string{"account vms/a\n  ! cannot be read: the keys are refused\n"}},
		"refused": {analysis.AccountPlan{Refusals: []analysis.PlanRefusal{refusal("web-1"), refusal("web-2")}, Remedies: []analysis.Remedy{{Quota: "rulesPerGroup", Message: "to make room, raise it"}}},
			[]string{"! refused: AntreaNetworkPolicy vms/web on 2 VMs (web-1, web-2) in eu-west-1: it needs 301 rules\n", "Refused: 1 policy, on 2 VMs.\n", "  # to make room, raise it\n"}},
		"failsafe": {analysis.AccountPlan{Failsafe: []analysis.FailsafeFlow{{Direction: "ingress", Protocol: 6, From: 22, To: 22, Peers: []string{"192.0.2.0/24"}}}},
			[]string{"Failsafe flows, allowed on every VM with policies whatever these say:\n  ingress tcp 22 from 192.0.2.0/24\n"}},
		"waiting":   {analysis.AccountPlan{Brake: &brake}, []string{"! waits for a confirmation: 42 of the 42 interfaces"}},
		"confirmed": {analysis.AccountPlan{Brake: &confirmed}, []string{"# is large, and confirmed: 0123456789abcdef"}},
	} {
		c.account.Account = "vms/a"
		text := printed(t, analysis.PlanAnswer{Accounts: []analysis.AccountPlan{c.account}}, false)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
	if text := printed(t, analysis.PlanAnswer{Incomplete: []string{"us-west-2: no PrefixLists: taken as none"}}, false); !strings.HasPrefix(text, "# the snapshot is incomplete: us-west-2: no PrefixLists") {
		t.Errorf("%s", text)
	}
}

// TestPlanTextOfAShop: lines about a real plan: its first wave, flows that close, a rule that is
// marked, and what differs from the policies.
func TestPlanTextOfAShop(t *testing.T) {
	text := printed(t, shopPlan(t, 0, "maxPerWave: 1\n  failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [192.0.2.0/24]}]"), false)
	for _, want := range []string{
		"At most 1 VMs and groups in use are changed at once: ", "- closes tcp 22 from", "      + ingress tcp 22 from 192.0.2.0/24  # failsafe\n", "vms/web: 2 VMs: ",
		"! warning: eu-west-1: closes ssh (tcp 22) to web-1, web-2 from ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	const differs = "  ! warning: AntreaNetworkPolicy vms/web on 2 VMs (web-1, web-2) in eu-west-1: Reject is realized as Drop: security groups cannot answer.\n"
	if text := printed(t, shopPlan(t, 0, "maxPerWave: 100", "action: Allow", "action: Reject"), false); !strings.Contains(text, differs) || strings.Contains(text, "at once") {
		t.Errorf("%s", text)
	}
}
