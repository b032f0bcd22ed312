package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/tier"
)

var azCommand = flag.String("az", "", "the az command line, which TestAz is played with")

// az is the command line of Azure, pointed at a simulator.
type az struct {
	*testing.T
	environment []string
}

// run runs a command and returns what it prints.
func (a az) run(args ...string) (string, error) {
	a.Helper()
	ctx, cancel := context.WithCancel(a.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, *azCommand, args...)
	cmd.Env = append(os.Environ(), a.environment...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if err != nil {
		return problems.String(), err
	}
	return out.String(), nil
}

// must runs a command that succeeds.
func (a az) must(args ...string) string {
	a.Helper()
	out, err := a.run(args...)
	if err != nil {
		a.Fatalf("az %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// rest calls Resource Manager and decodes the answer.
func (a az) rest(into any, args ...string) {
	a.Helper()
	out := a.must(append([]string{"rest"}, args...)...)
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		a.Fatalf("az rest %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// TestAz plays what an operator does with the az command line: registers the cloud, logs in, looks
// around, writes and deletes. "make az" runs it. Resources are called by "az rest", because the
// commands of Debian's package for networks do not start.
func TestAz(t *testing.T) {
	if *azCommand == "" {
		t.Skip(tier.Left + "make az")
	}
	const tenant, subscription = "11111111-2222-4333-8444-555555555555", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	b := build.New(tenant, subscription, "westeurope")
	client := b.Principal("nephele", "secret")
	nsg := b.SecurityGroup("rg", "nsg", build.Rule("no-ssh", "Inbound", 100, "Deny", "Tcp", "", "", "22"))
	vnet := b.Network("rg", "v", []string{"10.1.0.0/16"}, []string{"s", "10.1.1.0/24"})
	b.Machine("rg", "one", vnet+"/subnets/s", "10.1.1.4", nsg)
	server, err := Start(t.Context(), Options{State: aws.State{Azure: &b.State}, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	home := t.TempDir()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL()+"/_sim/azure/ca.pem", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, pem := answerOf(t, http.DefaultClient, r)
	authority := filepath.Join(home, "azure-ca.pem")
	if err := os.WriteFile(authority, []byte(pem), 0o600); err != nil {
		t.Fatal(err)
	}
	a := az{t, []string{
		"HOME=" + home, "AZURE_CONFIG_DIR=" + filepath.Join(home, ".azure"), "REQUESTS_CA_BUNDLE=" + authority, "AZURE_CORE_INSTANCE_DISCOVERY=false",
		"AZURE_CORE_COLLECT_TELEMETRY=false", "AZURE_CORE_NO_COLOR=true",
	}}
	at := server.AzureURL()
	a.must("cloud", "register", "-n", "nephele", "--endpoint-active-directory", at+"/adfs", "--endpoint-resource-manager", at,
		"--endpoint-active-directory-resource-id", "https://management.core.windows.net/", "--endpoint-management", at,
		"--endpoint-active-directory-graph-resource-id", "https://graph.windows.net/")
	a.must("cloud", "set", "-n", "nephele")
	if out, err := a.run("login", "--service-principal", "-u", client, "-p", "wrong", "--tenant", tenant); err == nil || !strings.Contains(out, "AADSTS7000215") {
		t.Errorf("a wrong secret: %v, %s", err, out)
	}
	a.must("login", "--service-principal", "-u", client, "-p", "secret", "--tenant", tenant)
	if got := strings.TrimSpace(a.must("account", "show", "--query", "id", "-o", "tsv")); got != subscription {
		t.Errorf("the subscription is %q", got)
	}
	if got := strings.TrimSpace(a.must("group", "list", "--query", "[].name", "-o", "tsv")); got != "rg" {
		t.Errorf("the resource groups are %q", got)
	}
	const version = "?api-version=2023-09-01"
	scope := at + "/subscriptions/" + subscription
	for kind, want := range map[string]string{
		"Microsoft.Compute/virtualMachines": "one", "Microsoft.Network/networkSecurityGroups": "nsg", "Microsoft.Network/virtualNetworks": "v",
	} {
		var list struct{ Value []struct{ Name string } }
		a.rest(&list, "--method", "get", "--url", scope+"/providers/"+kind+version)
		if len(list.Value) != 1 || list.Value[0].Name != want {
			t.Errorf("%s: %+v, want %s", kind, list.Value, want)
		}
	}
	group := scope + "/resourceGroups/rg/providers/Microsoft.Network/networkSecurityGroups/made" + version
	rule := map[string]any{"name": "web", "properties": map[string]any{
		"priority": 100, "direction": "Inbound", "access": "Allow", "protocol": "Tcp", "sourceAddressPrefix": "10.0.0.0/8", "sourcePortRange": "*",
		"destinationAddressPrefix": "*", "destinationPortRange": "443",
	}}
	body, err := json.Marshal(map[string]any{"location": "westeurope", "properties": map[string]any{"securityRules": []any{rule}}})
	if err != nil {
		t.Fatal(err)
	}
	a.rest(nil, "--method", "put", "--url", group, "--body", string(body))
	var made struct {
		Properties struct {
			ProvisioningState string
			SecurityRules     []struct{ Name string }
		}
	}
	a.rest(&made, "--method", "get", "--url", group)
	if names := made.Properties.SecurityRules; len(names) != 1 || names[0].Name != "web" || made.Properties.ProvisioningState != "Succeeded" {
		t.Errorf("%+v", made)
	}
	// Resource Manager checks what it is told.
	rule["properties"].(map[string]any)["priority"] = 99
	body, err = json.Marshal(map[string]any{"location": "westeurope", "properties": map[string]any{"securityRules": []any{rule}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := a.run("rest", "--method", "put", "--url", group, "--body", string(body)); err == nil || !strings.Contains(out, "SecurityRuleInvalidPriority") {
		t.Errorf("a priority of 99: %v, %s", err, out)
	}
	a.rest(nil, "--method", "delete", "--url", group)
	names := strings.Fields(a.must("rest", "--method", "get", "--url", scope+"/providers/Microsoft.Network/networkSecurityGroups"+version, "--query", "value[].name", "-o", "tsv"))
	if !slices.Equal(names, []string{"nsg"}) {
		t.Errorf("after the deletion: %v", names)
	}
}
