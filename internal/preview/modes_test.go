package preview_test

import (
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// hybrid plans for the real account.
func hybrid(t *testing.T, manifests string) analysis.AccountPlan {
	t.Helper()
	answer := previewtest.AnswerIn(t, previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0), manifests)
	if len(answer.Accounts) != 1 {
		t.Fatal(previewtest.JSON(answer))
	}
	return answer.Accounts[0]
}

// smallShop plans for the shop of two machines.
func smallShop(t *testing.T, manifests string) (analysis.PlanAnswer, analysis.AccountPlan) {
	t.Helper()
	answer := previewtest.Answer(t, previewtest.SmallShop, manifests)
	if len(answer.Accounts) != 1 {
		t.Fatal(previewtest.JSON(answer))
	}
	return answer, answer.Accounts[0]
}

// accountSays adds a line to the specification of the account of the small shop.
func accountSays(line string) string {
	return strings.Replace(previewtest.SmallShopManifests, "spec:\n  awsConfig", "spec:\n  "+line+"\n  awsConfig", 1)
}

// takesOver reports whether a plan gives an interface other groups.
func takesOver(a analysis.AccountPlan) bool {
	return slices.ContainsFunc(a.Plan.Steps, func(s analysis.PlanStep) bool {
		return s.Kind == "SetInterfaceGroups" && strings.HasPrefix(s.Reason, "take over")
	})
}

// rules are the rules that a plan writes, as text.
func rules(a analysis.AccountPlan) (out []string) {
	for _, s := range a.Plan.Steps {
		for _, r := range s.Rules {
			out = append(out, r.Text)
		}
	}
	return out
}

// noted reports whether a note of a plan has a text.
func noted(a analysis.AccountPlan, text string) bool {
	return slices.ContainsFunc(a.Notes, func(n analysis.PlanNote) bool { return strings.Contains(n.Message, text) })
}

// TestPlanOfSelectedVMs: the entities are what the inventory would make of the selectors, and
// without a policy nothing is to be done.
func TestPlanOfSelectedVMs(t *testing.T) {
	before, _, _ := strings.Cut(previewtest.HybridManifests, "---\napiVersion: crd.antrea.io/v1alpha2")
	for name, manifests := range map[string]string{"entities": previewtest.HybridManifests, "selectors": before} {
		a := hybrid(t, manifests+"---"+previewtest.SSHPolicy)
		if !slices.Contains(rules(a), "ingress tcp 22 from 10.0.0.0/8") || a.Plan.Summary.GroupsCreated == 0 || len(a.Plan.Steps) != int(a.Plan.Summary.Steps) ||
			len(a.Policies) != 1 || a.Policies[0].Pending != 1 || len(a.Refusals) != 0 {
			t.Errorf("%s: %s", name, previewtest.JSON(a))
		}
	}
	if a := hybrid(t, previewtest.HybridManifests); len(a.Plan.Steps) > 0 || len(a.Policies) > 0 {
		t.Errorf("without a policy: %s", previewtest.JSON(a))
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
	account := func(mode string) string {
		return strings.Replace(previewtest.HybridManifests, "  awsConfig:\n", "  mode: "+mode+"\n  awsConfig:\n", 1)
	}
	planned := "in mode plan: what is shown is done only in mode enforce (CloudEntitySelector vms/two)"
	for name, c := range map[string]struct {
		manifests string
		takesOver bool
		note      string
	}{
		"enforced":          {previewtest.HybridManifests, true, ""},
		"planned selector":  {selector("  mode: plan\n"), true, planned},
		"planned account":   {account("plan"), true, planned},
		"released selector": {selector("  mode: released\n"), false, "in mode released: no policy is enforced, and what is held is given back (CloudEntitySelector vms/two)"},
		"released account":  {account("released"), false, "in mode released"},
		"broken glass of the selector": {
			strings.Replace(previewtest.HybridManifests, "{name: two, ", "{name: two, annotations: {nephele.io/break-glass: fire}, ", 1), false, "(CloudEntitySelector vms/two: fire)",
		},
		"broken glass of the VM": {previewtest.HybridManifests + vm("nephele.io/break-glass: fire", "enforce"), false, "(VirtualMachine vms/i-075dc46a9bc347264: fire)"},
		"a former status":        {previewtest.HybridManifests + vm("", "released"), true, ""},
	} {
		a := hybrid(t, c.manifests+"---"+previewtest.SSHPolicy)
		if takesOver(a) != c.takesOver || len(a.Plan.Steps) > 0 != c.takesOver || c.note != "" && !noted(a, c.note) || c.note == "" && noted(a, "in mode ") {
			t.Errorf("%s: %s", name, previewtest.JSON(a))
		}
	}
}

// TestPlanKnowsGrants: what an account does not grant is not planned for, and a warning says how to
// grant it.
func TestPlanKnowsGrants(t *testing.T) {
	// foreign is the shop with the account in a namespace of its own, whose specification says
	// more.
	foreign := func(more string) string {
		s := strings.Replace(accountSays(more), "{name: a, namespace: vms}", "{name: a, namespace: owner}", 1)
		return strings.Replace(s, "accountNamespace: vms", "accountNamespace: owner", 1)
	}
	labelled := func(manifests string) string {
		return strings.Replace(manifests, "metadata: {name: vms}", "metadata: {name: vms, labels: {env: prod}}", 1)
	}
	byLabel := "allowedNamespaces: {selector: {matchLabels: {env: prod}}}"
	glass := func(manifests string) string {
		return strings.Replace(manifests, "{name: sel, namespace: vms}", "{name: sel, namespace: vms, annotations: {nephele.io/break-glass: fire}}", 1)
	}
	onVM := "---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: VirtualMachine\nmetadata: {name: i-0000000000000001a, namespace: vms, annotations: {nephele.io/break-glass: fire}}\n"
	mode := func(manifests, mode string) string {
		return strings.Replace(manifests, "  accountNamespace: owner\n", "  accountNamespace: owner\n  mode: "+mode+"\n", 1)
	}
	for name, c := range map[string]struct {
		manifests     string
		takesOver     bool
		note, warning string
	}{
		"as before":               {foreign(""), true, "", ""},
		"own namespace only":      {foreign("allowedNamespaces: {}"), false, "", `CloudEntitySelector vms/sel: namespace vms may not select VMs of CloudProviderAccount owner/a: add "vms" to its spec.allowedNamespaces.names`},
		"another name":            {foreign("allowedNamespaces: {names: [other]}"), false, "", "spec.allowedNamespaces.names"},
		"its name":                {foreign("allowedNamespaces: {names: [vms]}"), true, "", ""},
		"its label":               {labelled(foreign(byLabel)), true, "", ""},
		"no label":                {foreign(byLabel), false, "", "the labels that its spec.allowedNamespaces.selector asks for"},
		"the label of every one":  {foreign("allowedNamespaces: {selector: {matchLabels: {kubernetes.io/metadata.name: vms}}}"), true, "", ""},
		"break-glass without say": {glass(foreign("")), true, "", "CloudEntitySelector vms/sel: break-glass is not heeded"},
		"break-glass of the VM":   {foreign("") + onVM, true, "", "VirtualMachine vms/i-0000000000000001a: break-glass is not heeded"},
		"break-glass with a say":  {glass(foreign("releaseNamespaces: [vms]")), false, "in mode break-glass", ""},
		"mode alone may be less":  {mode(foreign(""), "released"), false, "in mode released", ""},
		"mode alone is never more": {mode(foreign("mode: released"), "enforce"), false,
			"in mode released: no policy is enforced, and what is held is given back (CloudProviderAccount owner/a)", "mode enforce is not heeded"},
	} {
		answer, a := smallShop(t, c.manifests)
		warned := ""
		for _, w := range a.Warnings {
			if w.Reason == "NotGranted" {
				warned += w.Message + "\n"
			}
		}
		for i, w := range answer.Warnings {
			if answer.WarningReasons[i] == "NotGranted" {
				warned += w + "\n"
			}
		}
		if takesOver(a) != c.takesOver || len(a.Plan.Steps) > 0 != c.takesOver || c.note != "" && !noted(a, c.note) || !strings.Contains(warned, c.warning) || (warned != "") != (c.warning != "") {
			t.Errorf("%s: %s", name, previewtest.JSON(answer))
		}
	}
}
