package cli

import (
	"strings"
	"testing"
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
