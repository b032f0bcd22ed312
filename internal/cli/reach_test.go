package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/reach"
)

func rows(out string) []string {
	var list []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		list = append(list, strings.Join(strings.Fields(line), " "))
	}
	return list
}

func TestReachTable(t *testing.T) {
	inventory := file(t, "inventory.yaml", previewtest.ShopInventory)
	ask := func(args ...string) ran {
		return nephele(t, "", append([]string{"reach", "-f", examplePolicies, "-f", inventory}, args...)...)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"a port": {[]string{"--to", "shop/db-1", "--port", "5432"}, ExitDone, []string{
			"FROM TO TRAFFIC VERDICT BY",
			"vm/shop/web-1 vm/shop/db-1 tcp 5432 Allow egress shop/web to-db; ingress shop/db from-web",
		}},
		"everything, with the failsafe flow": {[]string{"--to", "shop/i-2"}, ExitDone, []string{
			"FROM TO TRAFFIC VERDICT BY",
			"vm/shop/web-1 vm/shop/db-1 tcp 5432 Allow egress shop/web to-db; ingress shop/db from-web",
			"192.0.2.0/24 vm/shop/db-1 tcp 2222 Allow ingress failsafe of shop/prod",
			"198.51.100.0/24 vm/shop/db-1 tcp 22 Allow ingress shop/db from-office",
		}},
		"what no policy is about": {[]string{"--to", "shop/app=batch", "--from", "198.51.100.7", "--port", "22"}, ExitDone, []string{
			"FROM TO TRAFFIC VERDICT BY", "198.51.100.7 vm/shop/batch-1 tcp 22 Native ingress own groups, not known",
		}},
		"nobody": {[]string{"--to", "shop/db-1", "--from", "203.0.113.5"}, ExitNo, []string{"Nobody."}},
		"what is refused": {[]string{"--to", "shop/db-1", "--from", "203.0.113.5", "--protocol", "UDP", "--refused"}, ExitNo, []string{
			"FROM TO TRAFFIC VERDICT BY", "203.0.113.5 vm/shop/db-1 udp Drop ingress isolated",
		}},
	} {
		r := ask(c.args...)
		if got := rows(r.stdout); r.code != c.code || !slices.Equal(got, c.want) {
			t.Errorf("%s: exit %d\n%s%s\nwant exit %d\n%s", name, r.code, strings.Join(got, "\n"), r.err, c.code, strings.Join(c.want, "\n"))
		}
	}
	dot := ask("--to", "shop/db-1", "--port", "5432", "-o", "dot")
	if !strings.HasPrefix(dot.stdout, "digraph reach {") || !strings.Contains(dot.stdout, `"vm/shop/web-1" -> "vm/shop/db-1" [label="tcp 5432", style=solid, color=black];`) {
		t.Errorf("the graph:\n%s", dot.stdout)
	}
	var answer struct{ Flows []v1alpha1.ReachRow }
	if err := json.Unmarshal([]byte(ask("--to", "shop/db-1", "--port", "5432", "-o", "json").stdout), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Flows) != 1 || answer.Flows[0].Verdict != string(reach.Allow) || answer.Flows[0].From.Endpoints[0].Object != "virtualmachine-i-1" ||
		answer.Flows[0].Ingress.Rule.Name != "from-web" || answer.Flows[0].Ranges[0] != (v1alpha1.ReachRange{Protocol: 6, From: 5432, To: 5432}) {
		t.Errorf("JSON: %+v", answer)
	}
	for want, args := range map[string][]string{
		"--to is missing":                          nil,
		`--to "shop/none": there is no Pod`:        {"--to", "shop/none"},
		`--to "shop/app=none": nobody`:             {"--to", "shop/app=none"},
		`--to "svc/shop/db": ask explain`:          {"--to", "svc/shop/db"},
		`--to "shop/app=a b": the part after`:      {"--to", "shop/app=a b"},
		`--to "shop/app in": there is no Pod`:      {"--to", "shop/app in"},
		`--port: invalid value "x"`:                {"--to", "any", "--port", "x"},
		`--output "xml": want table`:               {"--to", "any", "-o", "xml"},
		`--protocol: invalid value "TPC": want`:    {"--to", "any", "--protocol", "TPC"},
		`--from "10.0.0.0/33": there is no`:        {"--to", "any", "--from", "10.0.0.0/33"},
		`--from "pod/shop/web-1": there is no`:     {"--to", "any", "--from", "pod/shop/web-1"},
		`--from "cloud/nobody": nobody with an ad`: {"--to", "any", "--from", "cloud/nobody"},
	} {
		if r := ask(args...); r.code != ExitBadInput || !strings.Contains(r.err, want) {
			t.Errorf("%v: exit %d: %s, want %q", args, r.code, r.err, want)
		}
	}
	if r := nephele(t, "", "reach", "--to", "any", "--snapshot", "."); r.code != ExitBadInput || !strings.Contains(r.err, "--snapshot needs -f") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// TestReachOfSuspendedMachines: under break-glass the policies of a machine do not count, unless it
// is asked what they mean.
func TestReachOfSuspendedMachines(t *testing.T) {
	inventory := file(t, "inventory.yaml", strings.Replace(previewtest.ShopInventory, "metadata: {name: i-2, namespace: shop}",
		"metadata: {name: i-2, namespace: shop, annotations: {nephele.io/break-glass: fire}}", 1))
	ask := func(args ...string) []string {
		r := nephele(t, "", append([]string{"reach", "-f", examplePolicies, "-f", inventory, "--from", "203.0.113.5", "--to", "shop/db-1", "--port", "22"}, args...)...)
		return rows(r.stdout)
	}
	if got := ask(); len(got) != 2 || got[1] != "203.0.113.5 vm/shop/db-1 tcp 22 Native ingress own groups, not known" {
		t.Errorf("under break-glass: %q", got)
	}
	if got := ask("--as-enforced"); len(got) != 1 || got[0] != "Nobody." {
		t.Errorf("as if enforced: %q", got)
	}
}

func TestRulesOfAMachine(t *testing.T) {
	inventory := file(t, "inventory.yaml", previewtest.ShopInventory)
	early := file(t, "early.yaml", `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: early, namespace: shop}
spec:
  tier: securityops
  priority: 1
  appliedTo: [{externalEntitySelector: {matchLabels: {app: db}}}]
  ingress:
  - {name: no-ssh, action: Drop, ports: [{port: 20, endPort: 25}]}
`)
	r := nephele(t, "", "rules", "-f", examplePolicies, "-f", inventory, "-f", early, "--of", "shop/db-1")
	want := []string{
		"vm/shop/db-1", "ingress", "first the failsafe flows of account shop/prod", "ACTION TRAFFIC FROM POLICY RULE",
		"Drop tcp 20-25 anywhere shop/early no-ssh",
		"Allow tcp 5432 10.1.0.10, 203.0.113.80 shop/db from-web",
		"Allow tcp 22 198.51.100.0/24 shop/db from-office decides nothing: before it come shop/early no-ssh",
		"the rest: Drop, isolated by AntreaNetworkPolicy shop/db",
		"egress", "ACTION TRAFFIC TO POLICY RULE", "Allow udp 53 10.1.0.2 shop/db dns", "the rest: Drop, isolated by AntreaNetworkPolicy shop/db",
	}
	if got := rows(r.stdout); r.code != ExitDone || !slices.Equal(got, want) {
		t.Errorf("exit %d\n%s%s\nwant\n%s", r.code, strings.Join(got, "\n"), r.err, strings.Join(want, "\n"))
	}
	unused := nephele(t, "", "rules", "-f", examplePolicies, "-f", inventory, "-f", early, "--unused")
	got := rows(unused.stdout)
	for _, want := range []string{
		"ingress shop/db from-office Allow 1 shadowed by shop/early no-ssh",
		"ingress quarantine nothing-in Drop 0 nobody is selected by appliedTo",
	} {
		if unused.code != ExitNo || !slices.Contains(got, want) {
			t.Errorf("exit %d, no row %q in\n%s%s", unused.code, want, strings.Join(got, "\n"), unused.err)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d rows, want 4 with the head:\n%s", len(got), strings.Join(got, "\n"))
	}
	if r := nephele(t, "", "rules", "-f", inventory, "--of", "shop/db-1", "--unused"); r.code != ExitBadInput {
		t.Errorf("exit %d for two questions at once", r.code)
	}
}

// TestReachGrouped: which class reaches which, as a table, as a graph and as values; and a question
// that it refuses.
func TestReachGrouped(t *testing.T) {
	inventory := file(t, "inventory.yaml", previewtest.ShopInventory)
	ask := func(args ...string) ran {
		return nephele(t, "", append([]string{"reach", "-f", examplePolicies, "-f", inventory, "--grouped"}, args...)...)
	}
	got := ask("--to", "shop/app=db", "--from", "shop/*", "--refused")
	table := rows(got.stdout)
	if got.code != 0 || table[0] != "FROM TO TRAFFIC VERDICT BY" || !slices.ContainsFunc(table, func(row string) bool { return strings.HasPrefix(row, "shop/web shop/db tcp 5432 Allow ") }) {
		t.Errorf("%d %s %s", got.code, got.stdout, got.err)
	}
	if got = ask("-o", "dot", "--to", "shop/app=db"); got.code != 0 || !strings.Contains(got.stdout, `"shop/web" -> "shop/db" [label="tcp 5432"`) {
		t.Errorf("%d %s %s", got.code, got.stdout, got.err)
	}
	var m v1alpha1.ReachMap
	if got = ask("-o", "json"); got.code != 0 || json.Unmarshal([]byte(got.stdout), &m) != nil || len(m.Nodes) == 0 {
		t.Errorf("%d %s %s", got.code, got.stdout, got.err)
	}
	if got = ask("--from", "east:*/*"); got.code != 2 || !strings.Contains(got.err, "answered by the controller of their hub") {
		t.Errorf("%d %s", got.code, got.err)
	}
}
