package review_test

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

// exampleWorld is the machines of an inventory under the policies of the example, and more.
func exampleWorld(t *testing.T, inventory string, asEnforced bool, more ...string) *explain.World {
	t.Helper()
	policies, err := os.ReadFile("../../docs/examples/policy-tests/policies/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests := strings.Join(append([]string{string(policies), inventory}, more...), "\n---\n")
	return preview.Compute(previewtest.Inputs(t, manifests)).Computed.World(asEnforced)
}

// side is an end of a row, and why what decided there: the rule, the account of a failsafe flow, or
// a default.
func side(s v1alpha1.ReachSide) string {
	var names []string
	for _, e := range s.Endpoints {
		names = append(names, e.Name)
	}
	return cmp.Or(strings.Join(names, " "), strings.Join(s.Addresses, " "))
}

func why(d v1alpha1.ReachDecision) string {
	switch {
	case d.Rule != nil:
		return d.Rule.Name
	case d.Failsafe != "":
		return "failsafe of " + d.Failsafe
	case d.Isolated:
		return "isolated"
	case d.Groups:
		return "own groups"
	}
	return "-"
}

func rowsAsText(t *testing.T, w *explain.World, spec v1alpha1.ReachReviewSpec) (out []string) {
	t.Helper()
	rows, err := review.Rows(w, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		out = append(out, strings.Join([]string{side(r.From), side(r.To), r.Traffic, r.Verdict, why(r.Egress), why(r.Ingress)}, "; "))
	}
	return out
}

// TestReachRows: each question about an end has the rows of the ends that reach it, with what
// decides at both ends.
func TestReachRows(t *testing.T) {
	w := exampleWorld(t, previewtest.ShopInventory, false)
	for name, c := range map[string]struct {
		spec v1alpha1.ReachReviewSpec
		want []string
	}{
		"a port": {v1alpha1.ReachReviewSpec{To: "shop/db-1", Port: "5432"}, []string{"vm/shop/web-1; vm/shop/db-1; tcp 5432; Allow; to-db; from-web"}},
		"everything, with the failsafe flow": {v1alpha1.ReachReviewSpec{To: "shop/i-2"}, []string{
			"vm/shop/web-1; vm/shop/db-1; tcp 5432; Allow; to-db; from-web",
			"192.0.2.0/24; vm/shop/db-1; tcp 2222; Allow; -; failsafe of shop/prod",
			"198.51.100.0/24; vm/shop/db-1; tcp 22; Allow; -; from-office",
		}},
		"what no policy is about": {v1alpha1.ReachReviewSpec{To: "shop/app=batch", From: "198.51.100.7", Port: "22"}, []string{"198.51.100.7/32; vm/shop/batch-1; tcp 22; Native; -; -"}},
		"none":                    {v1alpha1.ReachReviewSpec{To: "shop/db-1", From: "203.0.113.5"}, nil},
		"what is refused": {v1alpha1.ReachReviewSpec{To: "shop/db-1", From: "203.0.113.5", Protocol: "UDP", Refused: true}, []string{
			"203.0.113.5/32; vm/shop/db-1; udp; Drop; -; isolated",
		}},
	} {
		if got := rowsAsText(t, w, c.spec); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	rows, err := review.Rows(w, v1alpha1.ReachReviewSpec{To: "shop/db-1", Port: "5432"})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %+v", err, rows)
	}
	if r := rows[0]; r.From.Endpoints[0].Object != "virtualmachine-i-1" || r.Verdict != string(reach.Allow) || r.Ranges[0] != (v1alpha1.ReachRange{Protocol: 6, From: 5432, To: 5432}) {
		t.Errorf("%+v", r)
	}
}

// TestReachOfSuspendedMachines: under break-glass the policies of a machine do not count, unless it
// is asked what they mean.
func TestReachOfSuspendedMachines(t *testing.T) {
	inventory := strings.Replace(previewtest.ShopInventory, "metadata: {name: i-2, namespace: shop}", "metadata: {name: i-2, namespace: shop, annotations: {nephele.io/break-glass: fire}}", 1)
	spec := v1alpha1.ReachReviewSpec{From: "203.0.113.5", To: "shop/db-1", Port: "22"}
	if got := rowsAsText(t, exampleWorld(t, inventory, false), spec); len(got) != 1 || !strings.Contains(got[0], "; tcp 22; Native; ") {
		t.Errorf("under break-glass: %q", got)
	}
	if got := rowsAsText(t, exampleWorld(t, inventory, true), spec); len(got) != 0 {
		t.Errorf("as if enforced: %q", got)
	}
}

// TestRulesOfAMachine: the rules that hold for a machine in the order in which they are asked, with
// the rules that leave a later one nothing; and of all rules the ones that decide nothing.
func TestRulesOfAMachine(t *testing.T) {
	const early = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: early, namespace: shop}
spec:
  tier: securityops
  priority: 1
  appliedTo: [{externalEntitySelector: {matchLabels: {app: db}}}]
  ingress:
  - {name: no-ssh, action: Drop, ports: [{port: 20, endPort: 25}]}
`
	w := exampleWorld(t, previewtest.ShopInventory, false, early)
	got, err := review.Rules(w, v1alpha1.EffectiveRulesSpec{Of: "shop/db-1"})
	if err != nil || len(got.Endpoints) != 1 {
		t.Fatalf("%v, %+v", err, got)
	}
	says := func(d v1alpha1.EffectiveDirection) (out []string) {
		for _, r := range d.Rules {
			line := strings.Join([]string{r.Rule.Action, r.Traffic, strings.Join(r.Peers, " "), r.Rule.Name}, "; ")
			if !r.Decides {
				line += "; nothing, by " + r.By[0].Name
			}
			out = append(out, line)
		}
		return out
	}
	in, out := got.Endpoints[0].Ingress, got.Endpoints[0].Egress
	if text := says(in); len(text) != 3 || !strings.HasPrefix(text[0], "Drop; tcp 20-25; ") || !strings.HasSuffix(text[0], "; no-ssh") ||
		!strings.HasPrefix(text[1], "Allow; tcp 5432; 10.1.0.10") || !strings.HasSuffix(text[2], "; from-office; nothing, by no-ssh") {
		t.Errorf("ingress: %q", text)
	}
	if in.Failsafe != "shop/prod" || in.Default != "Drop" || len(in.IsolatedBy) != 1 || in.IsolatedBy[0].Name != "db" || out.Default != "Drop" {
		t.Errorf("ingress %+v, egress %+v", in, out)
	}
	if text := says(out); len(text) != 1 || !strings.HasPrefix(text[0], "Allow; udp 53; 10.1.0.2") {
		t.Errorf("egress: %q", text)
	}
	unused, err := review.Rules(w, v1alpha1.EffectiveRulesSpec{Unused: true})
	if err != nil {
		t.Fatal(err)
	}
	var uses []string
	for _, r := range unused.Rules {
		uses = append(uses, r.Rule.Name+" "+r.Use)
	}
	if len(uses) != 3 || !slices.Contains(uses, "from-office Shadowed") || !slices.Contains(uses, "nothing-in AppliesToNobody") {
		t.Errorf("unused: %q", uses)
	}
}

// TestReachGrouped: the map of a question has the classes that it is about, and which reaches
// which.
func TestReachGrouped(t *testing.T) {
	got, err := review.Reach(exampleWorld(t, previewtest.ShopInventory, false), v1alpha1.ReachReviewSpec{From: "shop/*", To: "shop/app=db", Grouped: true})
	if err != nil || got.Map == nil {
		t.Fatalf("%v, %+v", err, got)
	}
	labels := map[string]string{}
	for _, n := range got.Map.Nodes {
		labels[n.Key] = n.Label
	}
	if !slices.ContainsFunc(got.Map.Edges, func(e v1alpha1.MapEdge) bool {
		return e.Verdict == string(reach.Allow) && strings.Contains(labels[e.From], "web") && strings.Contains(labels[e.To], "db")
	}) {
		t.Errorf("%+v", got.Map)
	}
}
