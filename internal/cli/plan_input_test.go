package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// accountSays adds a line to the specification of the account.
func accountSays(line string) string {
	return strings.Replace(previewtest.SmallShopManifests, "spec:\n  awsConfig", "spec:\n  "+line+"\n  awsConfig", 1)
}

// planShop plans for the shop.
func planShop(t *testing.T, manifests string, flags ...string) ran {
	t.Helper()
	return nephele(t, manifests, append([]string{"plan", "-f", "-", "--snapshot", file(t, "estate.yaml", previewtest.SmallShop)}, flags...)...)
}

func TestPlanAllowsFailsafe(t *testing.T) {
	const closes = "- closes tcp 22 from"
	if r := planShop(t, previewtest.SmallShopManifests); !strings.Contains(r.stdout, closes) {
		t.Fatalf("without: %+v", r)
	}
	r := planShop(t, accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [0.0.0.0/0, '::/0']}]"))
	if r.code != ExitNo || strings.Contains(r.stdout, closes) || !strings.Contains(r.stdout, "+ ingress tcp 22 from 0.0.0.0/0") {
		t.Errorf("%+v", r)
	}
}

// TestPlanRefuses: a policy that does not fit is left out as a whole.
func TestPlanRefuses(t *testing.T) {
	var peers strings.Builder
	for i := range 400 {
		fmt.Fprintf(&peers, "{ipBlock: {cidr: 172.%d.%d.1/32}}, ", 16+i%16, i/16)
	}
	many := strings.Replace(previewtest.SmallShopManifests, "{ipBlock: {cidr: 10.0.0.0/8}}", strings.TrimSuffix(peers.String(), ", "), 1)
	if r := planShop(t, many); r.code != ExitNo || !strings.Contains(r.stdout, "! refused: ") || !strings.Contains(r.stdout, "nothing to do") {
		t.Errorf("%+v", r)
	}
}

func TestPlanShowsTheFirstWave(t *testing.T) {
	manifests := accountSays("maxPerWave: 1")
	if r := planShop(t, manifests); !strings.Contains(r.stdout, "At most 1 VMs and groups in use are changed at once: ") {
		t.Errorf("%+v", r)
	}
	var got struct {
		Accounts []struct {
			Plan struct{ Steps []json.RawMessage }
			Wave struct {
				MaxPerWave int
				Plan       struct{ Steps []json.RawMessage }
			}
		}
	}
	r := planShop(t, manifests, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Accounts) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	if a := got.Accounts[0]; a.Wave.MaxPerWave != 1 || len(a.Wave.Plan.Steps) == 0 || len(a.Wave.Plan.Steps) >= len(a.Plan.Steps) {
		t.Errorf("%+v", a)
	}
	if r := planShop(t, accountSays("maxPerWave: 100")); strings.Contains(r.stdout, "at once") {
		t.Errorf("all is one wave: %+v", r)
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
	if r := planShop(t, named); !strings.Contains(r.stdout, `named port "http" is not a port of this VM's entity`) {
		t.Errorf("without ports: %+v", r)
	}
	r := planShop(t, named+entity("i-0000000000000001a")+entity("i-0000000000000002a"))
	if r.code != ExitNo || strings.Contains(r.stdout, "refused") || !strings.Contains(r.stdout, "+ ingress tcp 80 from 10.0.0.0/8") {
		t.Errorf("%+v", r)
	}
}
