package estate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// printed is a document as lists of az print it: what is in properties stands beside the id, the
// group is told beside each id, and "IP" is spelled "Ip".
func printed(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = printed(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if inner, ok := x.(map[string]any); k == "properties" && ok {
				for name, y := range printed(inner).(map[string]any) {
					out[name] = y
				}
				continue
			}
			out[strings.ReplaceAll(strings.ReplaceAll(k, "IPA", "IpA"), "IPC", "IpC")] = printed(x)
		}
		text, _ := v["id"].(string)
		if id, ok := document.ParseID(text); ok && id.Group != "" {
			out["resourceGroup"] = id.Group
			out["extendedLocation"] = nil
		}
		return out
	}
	return v
}

// TestAzureFlat: an estate of lists as az prints them is the same as that of answers of Resource
// Manager: groups, networks, machines, private endpoints, load balancers and gateways.
func TestAzureFlat(t *testing.T) {
	t.Parallel()
	b := build.New(defaultTenant, "11111111-2222-4333-8444-555555555555", "westeurope")
	asg := b.ApplicationGroup("shop", "web")
	rule := build.Rule("in", "Inbound", 100, "Allow", "Tcp", "*", "*", "443")
	nsg := b.SecurityGroup("shop", "guard", rule)
	network := b.Network("shop", "net", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"}, []string{"gate", "10.1.2.0/28"})
	web := network + "/subnets/web"
	_, nic := b.Machine("shop", "web-1", web, "10.1.1.4", nsg, asg)
	b.Endpoint("shop", "sql", web, "10.1.1.9", "sqlServer", map[string]string{"team": "shop"})
	listens := build.Listening{Protocol: "Tcp", Port: 1433, To: 11433, Probe: 59999, Pool: "sql"}
	inside := b.Balancer("shop", "inside", web, "10.1.1.200", map[string]string{"team": "shop"}, listens)
	b.Balancer("shop", "outside", "", b.PublicAddress("shop", "pip", "203.0.113.5"), nil, build.Listening{Protocol: "Udp", Port: 53, To: 53, Pool: "dns", Hosts: []string{"10.1.1.77"}})
	front := b.Gateway("shop", "front", network+"/subnets/gate", "10.1.2.9", nil, build.Listening{Protocol: "Https", Port: 443, To: 8080, Probe: 8081, Pool: "web"})
	b.Behind(nic, inside+"/backendAddressPools/sql", false)
	b.Behind(nic, front+"/backendAddressPools/web", true)

	b.Principal("reader", "secret", azure.Assignment{Scope: "/subscriptions/11111111-2222-4333-8444-555555555555", Role: azure.Role{Name: "all", Actions: []string{"*"}}})
	n := 0
	shown, err := azure.New(b.State, azure.Settings{}, func() string { n++; return build.GUIDOf(string(rune(n))) })
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]any{}
	for _, r := range b.State.Resources {
		id, _ := document.ParseID(r.ID)
		doc, err := shown.Get(&b.State.Principals[0], id)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(raw, &plain); err != nil {
			t.Fatal(err)
		}
		kind := id.Types[len(id.Types)-1]
		lists[kind] = append(lists[kind], plain)
	}
	load := func(form func(any) any) azure.State {
		dir := t.TempDir()
		for kind, list := range lists {
			raw, err := json.Marshal(form(list))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, kind+".json"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, report, err := LoadAzure(dir)
		if err != nil || len(report.Gaps)+len(report.Ignored) > 0 {
			t.Fatalf("%v %+v", err, report)
		}
		return s
	}
	whole, flat := load(func(v any) any { return v }), load(printed)
	if len(whole.Resources) != len(b.State.Resources) {
		t.Errorf("%d resources, want %d", len(whole.Resources), len(b.State.Resources))
	}
	if d := cmp.Diff(whole, flat, cmpopts.IgnoreUnexported(azure.Resource{})); d != "" {
		t.Errorf("(-resource manager +az)\n%s", d)
	}
}
