package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// manyShops is the shop with more machines, all alike.
func manyShops(t *testing.T, n int) (estate string, manifests string) {
	t.Helper()
	var vms strings.Builder
	for i := range n {
		fmt.Fprintf(&vms, "      - {id: i-%016xa, name: app-%02d, ip: 10.1.2.%d, groups: [web], tags: {app: web}}\n", 100+i, i, i+1)
	}
	return file(t, "many.yaml", previewtest.SmallShop+vms.String()), strings.Replace(previewtest.SmallShopManifests, "vmMatch: [{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}]",
		"vpcMatch: {matchName: shop}", 1)
}

// TestPlanOfManyIsShort: what is said of many VMs alike is one line, and --all names all of them.
func TestPlanOfManyIsShort(t *testing.T) {
	estate, manifests := manyShops(t, 40)
	manifests = strings.Replace(manifests, "  accountName: a\n", "  accountName: a\n  mode: plan\n", 1)
	r := nephele(t, manifests, "plan", "-f", "-", "--snapshot", estate)
	for _, want := range []string{
		"AntreaNetworkPolicy vms/web: planned on 42 VMs: 42 would be enforced\n",
		"# 42 VMs (app-00, app-01, app-02, app-03 and 38 more) in eu-west-1: in mode plan: ",
		"  ~ 42 interfaces of app-00, app-01, app-02, app-03 and 38 more: groups sg-ee8918331399356b6 (web) -> new-group-1  # take over, for vms/web\n",
		"  ~ security group new-group-1  # with what the former groups allow, for vms/web\n",
		"With --all, all names are listed.\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(r.stdout, "\n"); n > 40 || r.code != ExitNo {
		t.Errorf("exit %d, %d lines:\n%s", r.code, n, r.stdout)
	}
	all := nephele(t, manifests, "plan", "-f", "-", "--snapshot", estate, "--all")
	if n := strings.Count(all.stdout, " of app-39: groups "); n != 1 || strings.Contains(all.stdout, "With --all") {
		t.Errorf("app-39 is named in %d lines:\n%s", n, all.stdout)
	}
}

// TestPlanSaysWhatIsRefused: once for all VMs, with the numbers, and again at the end.
func TestPlanSaysWhatIsRefused(t *testing.T) {
	estate, manifests := manyShops(t, 8)
	var peers []string
	for i := range 301 {
		peers = append(peers, fmt.Sprintf("{ipBlock: {cidr: 172.%d.%d.1/32}}", 16+i%16, i/16))
	}
	manifests = strings.Replace(manifests, "{ipBlock: {cidr: 10.0.0.0/8}}", strings.Join(peers, ", "), 1)
	r := nephele(t, manifests, "plan", "-f", "-", "--snapshot", estate)
	if strings.Count(r.stdout, "! refused: ") != 1 || !strings.Contains(r.stdout, "! refused: AntreaNetworkPolicy vms/web on 10 VMs (app-00, app-01, app-02, app-03 and 6 more) in eu-west-1: it needs 301 ") ||
		!strings.Contains(r.stdout, "Plan: nothing to do.\nRefused: 1 policy, on 10 VMs.\n") ||
		!strings.Contains(r.stdout, "vms/web: 10 VMs: 10 refused\n") ||
		strings.Count(r.stdout, "\n  # to make room, raise the quota L-0EA8095F (Inbound or outbound rules per security group, service vpc) of the account and region in Service Quotas, "+
			"and then spec.awsConfig.quotas.rulesPerGroup of the CloudProviderAccount with it\n") != 1 {
		t.Errorf("%.4000s", r.stdout)
	}
	j := nephele(t, manifests, "plan", "-f", "-", "--snapshot", estate, "-o", "json")
	var got analysis.PlanAnswer
	if err := json.Unmarshal([]byte(j.stdout), &got); err != nil || len(got.Accounts) != 1 || len(got.Accounts[0].Refusals) != 10 {
		t.Fatalf("%v: %.2000s", err, j.stdout)
	}
	x := got.Accounts[0].Refusals[0]
	if l := x.Lack; l == nil || l.Quota != "rulesPerGroup" || l.Direction != "ingress" || l.Family != "IPv4" || l.Needed != 301 || l.Available != 300 || l.WouldDo != 0 {
		t.Errorf("%+v", l)
	}
	if x.VMName != "web-1" || x.Policy != "AntreaNetworkPolicy vms/web" {
		t.Errorf("%+v", x)
	}
}

// TestPlanOfAFullRegion: a policy that there is no group for is refused with the numbers.
func TestPlanOfAFullRegion(t *testing.T) {
	manifests := strings.Replace(previewtest.SmallShopManifests, "awsConfig: {", "awsConfig: {quotas: {groupsPerRegion: 2}, ", 1)
	const refused = "  ! refused: AntreaNetworkPolicy vms/web on 2 VMs (web-1, web-2) in eu-west-1: no security group is left for it: all that is to be enforced in the region eu-west-1 " +
		"needs 1 group, and besides 2 others there is room for 0, because the quota is 2; a quota of 3 groups would do\n"
	if r := planShop(t, manifests); r.code != ExitNo || !strings.Contains(r.stdout, refused) || !strings.Contains(r.stdout, "Refused: 1 policy, on 2 VMs.\n") {
		t.Errorf("%+v", r)
	}
	var got analysis.PlanAnswer
	if r := planShop(t, manifests, "-o", "json"); json.Unmarshal([]byte(r.stdout), &got) != nil || len(got.Accounts[0].Refusals) != 2 {
		t.Fatalf("%+v", r)
	}
	if l := got.Accounts[0].Refusals[0].Lack; l == nil || l.Quota != "groupsPerRegion" || l.Needed != 3 || l.Available != 2 || l.WouldDo != 3 {
		t.Errorf("%+v", l)
	}
}

// TestPlanWarnsOfMistakes: a name that nobody has changes nothing, and is told.
func TestPlanWarnsOfMistakes(t *testing.T) {
	for name, c := range map[string]struct{ manifests, warning string }{
		"an account": {strings.Replace(previewtest.SmallShopManifests, "accountName: a\n", "accountName: aa\n", 1),
			"CloudEntitySelector vms/sel: there is no CloudProviderAccount vms/aa, so it selects nothing; there is vms/a"},
		"no VM": {strings.Replace(previewtest.SmallShopManifests, "{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}", "{matchID: i-0000000000000003a}", 1),
			"CloudEntitySelector vms/sel: spec.vmSelector[0] selects no VM (account vms/a)"},
		"nobody": {strings.Replace(previewtest.SmallShopManifests, "tag-app: web", "tag-app: wbe", 1),
			"AntreaNetworkPolicy vms/web: it selects nobody: no VM and no Pod is in its appliedTo; spec.appliedTo[0].externalEntitySelector: got a selector of nobody, want labels that some ExternalEntity has; " +
				`nephe.antrea.io/tag-app is never "wbe"; did you mean web?`},
	} {
		r := planShop(t, c.manifests)
		if r.code != ExitDone || !strings.Contains(r.stdout, "  ! warning: "+c.warning+"\n") {
			t.Errorf("%s: %+v", name, r)
		}
		if r := planShop(t, c.manifests, "--strict"); r.code != ExitBadInput || !strings.Contains(r.err, "error: --strict: ") || !strings.Contains(r.stdout, c.warning) {
			t.Errorf("%s, strict: %+v", name, r)
		}
	}
	if r := planShop(
		t,
		accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [0.0.0.0/0, '::/0']}]"),
		"--strict",
	); r.code != ExitNo ||
		strings.Contains(r.stdout, "warning") {
		t.Errorf("no mistake: %+v", r)
	}
}

// TestPlanTellsWhatDiffers: what the cloud cannot do as the policies say is told, one sentence
// after the other.
func TestPlanTellsWhatDiffers(t *testing.T) {
	reject := strings.Replace(previewtest.SmallShopManifests, "action: Allow", "action: Reject", 1)
	r := planShop(t, reject)
	if !strings.Contains(r.stdout, "  ! warning: AntreaNetworkPolicy vms/web on 2 VMs (web-1, web-2) in eu-west-1: Reject is realized as Drop: security groups cannot answer.\n") {
		t.Errorf("%+v", r)
	}
}

// TestPlanShowsFailsafe: the flows, and which rules they bring.
func TestPlanShowsFailsafe(t *testing.T) {
	manifests := accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [192.0.2.0/24]}]")
	r := planShop(t, manifests)
	if !strings.Contains(r.stdout, "Failsafe flows, allowed on every VM with policies whatever these say:\n  ingress tcp 22 from 192.0.2.0/24\n") ||
		!strings.Contains(r.stdout, "      + ingress tcp 22 from 192.0.2.0/24  # failsafe\n") || strings.Count(r.stdout, "# failsafe") != 1 {
		t.Errorf("%+v", r)
	}
}
