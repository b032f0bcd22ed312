package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// foreignShop is the shop with the account in a namespace of its own, whose specification says
// more.
func foreignShop(more string) string {
	s := strings.Replace(accountSays(more), "{name: a, namespace: vms}", "{name: a, namespace: owner}", 1)
	return strings.Replace(s, "accountNamespace: vms", "accountNamespace: owner", 1)
}

// TestPlanKnowsGrants: what an account does not grant is not planned for, and a warning says how to
// grant it.
func TestPlanKnowsGrants(t *testing.T) {
	const takeOver, nothing = "# take over", "Plan: nothing to do."
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
	for name, c := range map[string]struct{ manifests, text, warning string }{
		"as before":                {foreignShop(""), takeOver, ""},
		"own namespace only":       {foreignShop("allowedNamespaces: {}"), nothing, `CloudEntitySelector vms/sel: namespace vms may not select VMs of CloudProviderAccount owner/a: add "vms" to its spec.allowedNamespaces.names`},
		"another name":             {foreignShop("allowedNamespaces: {names: [other]}"), nothing, "spec.allowedNamespaces.names"},
		"its name":                 {foreignShop("allowedNamespaces: {names: [vms]}"), takeOver, ""},
		"its label":                {labelled(foreignShop(byLabel)), takeOver, ""},
		"no label":                 {foreignShop(byLabel), nothing, "the labels that its spec.allowedNamespaces.selector asks for"},
		"the label of every one":   {foreignShop("allowedNamespaces: {selector: {matchLabels: {kubernetes.io/metadata.name: vms}}}"), takeOver, ""},
		"break-glass without say":  {glass(foreignShop("")), takeOver, "CloudEntitySelector vms/sel: break-glass is not heeded"},
		"break-glass of the VM":    {foreignShop("") + onVM, takeOver, "VirtualMachine vms/i-0000000000000001a: break-glass is not heeded"},
		"break-glass with a say":   {glass(foreignShop("releaseNamespaces: [vms]")), "in mode break-glass", ""},
		"mode alone may be less":   {mode(foreignShop(""), "released"), "in mode released", ""},
		"mode alone is never more": {mode(foreignShop("mode: released"), "enforce"), "in mode released: no policy is enforced, and what is held is given back (CloudProviderAccount owner/a)", "mode enforce is not heeded"},
	} {
		r := planShop(t, c.manifests)
		warned := strings.Contains(r.stdout, "not heeded") || strings.Contains(r.stdout, "may not select")
		if !strings.Contains(r.stdout, c.text) || !strings.Contains(r.stdout, c.warning) || warned != (c.warning != "") {
			t.Errorf("%s: %+v", name, r)
		}
		if r := planShop(t, c.manifests, "--strict"); c.warning != "" && r.code != ExitBadInput {
			t.Errorf("%s: strict: exit code %d", name, r.code)
		}
	}
}

// TestExplainHeedsNoForeignGlass: break-glass of a namespace without a say does not make policies
// undecided.
func TestExplainHeedsNoForeignGlass(t *testing.T) {
	const byVM, bySelector = ", annotations: {nephele.io/break-glass: fire}", ", annotations: {nephele.io/break-glass: smoke}"
	foreign := func(selector, vm, more string) string {
		s := fmt.Sprintf(guarded, selector, vm, "")
		s = strings.Replace(s, "metadata: {name: shop, namespace: vms}\nspec:\n", "metadata: {name: shop, namespace: owner}\nspec:\n"+more, 1)
		return strings.NewReplacer("accountNamespace: vms", "accountNamespace: owner", "cloud/vms/shop", "cloud/owner/shop").Replace(s)
	}
	for name, c := range map[string]struct {
		manifests string
		heeded    bool
	}{
		"VM":                     {foreign("", byVM, ""), false},
		"selector":               {foreign(bySelector, "", ""), false},
		"VM with a say":          {foreign("", byVM, "  releaseNamespaces: [vms]\n"), true},
		"selector with a say":    {foreign(bySelector, "", "  releaseNamespaces: [vms]\n"), true},
		"of an unknown account":  {strings.ReplaceAll(foreign("", byVM, ""), "name: shop, namespace: owner", "name: other, namespace: owner"), false},
		"account of a namespace": {strings.ReplaceAll(fmt.Sprintf(guarded, "", byVM, ""), "name: shop, namespace", "name: other, namespace"), true},
	} {
		r := nephele(t, c.manifests, "explain", "-f", "-", "--from", "203.0.113.7", "--to", "vms/virtualmachine-i-0db", "--port", "80", "-o", "json")
		var answer analysis.FlowAnswer
		if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || (answer.Ingress.NotEnforced != "") != c.heeded {
			t.Errorf("%s: %v: %+v", name, err, r)
		}
	}
}
