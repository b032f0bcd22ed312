package preview_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// manyShops is the shop with so many more machines, all alike, and manifests that select them all.
func manyShops(n int) (estate, manifests string) {
	var vms strings.Builder
	for i := range n {
		fmt.Fprintf(&vms, "      - {id: i-%016xa, name: app-%02d, ip: 10.1.2.%d, groups: [web], tags: {app: web}}\n", 100+i, i, i+1)
	}
	return previewtest.SmallShop + vms.String(), strings.Replace(previewtest.SmallShopManifests, "vmMatch: [{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}]",
		"vpcMatch: {matchName: shop}", 1)
}

// TestPlanWithinQuotas: the account says how much fits, and what does not is refused with the
// numbers.
func TestPlanWithinQuotas(t *testing.T) {
	quotas := func(text string) string {
		return strings.Replace(previewtest.HybridManifests, "  awsConfig:\n", "  awsConfig:\n    quotas: "+text+"\n", 1)
	}
	two := strings.Replace(previewtest.SSHPolicy, "ports: [{port: 22}]", "ports: [{port: 22}, {port: 24}]", 1)
	for text, limit := range map[string]int32{"{rulesPerGroup: 2}": 2, "{rulesPerGroup: 1, groupsPerInterface: 2}": 1, "{rulesPerGroup: 100}": 100} {
		a := hybrid(t, quotas(text)+"---"+two)
		if !takesOver(a) || len(a.Refusals) > 0 || !slices.ContainsFunc(a.Quotas, func(q analysis.PlanQuota) bool { return q.Limit == limit }) {
			t.Errorf("%s: %s", text, previewtest.JSON(a))
		}
	}
	a := hybrid(t, quotas("{rulesPerGroup: 1, groupsPerInterface: 1}")+"---"+two)
	if len(a.Plan.Steps) > 0 || len(a.Refusals) != 1 || !strings.Contains(a.Refusals[0].Message, "needs 2 ingress rules") {
		t.Errorf("more rules than fit: %s", previewtest.JSON(a))
	}
	for text, want := range map[string]string{
		"{rulesPerGroup: 300}":                        "times groupsPerInterface (default 5) must be at most 1000",
		"{rulesPerGroup: 80, groupsPerInterface: 16}": "must be at most 1000",
		"{rulesPerGroup: 0}":                          "rulesPerGroup",
		"{rulesPerInterface: 5}":                      "rulesPerInterface",
	} {
		in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(quotas(text)))
		if err == nil && len(in.Refused) == 1 {
			err = fmt.Errorf("%s", in.Refused[0])
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("quotas %s: %v, want %q", text, err, want)
		}
	}
}

// TestPlanSaysWhatIsRefused: a policy that does not fit is left out as a whole, on each VM with the
// numbers and once with the remedy.
func TestPlanSaysWhatIsRefused(t *testing.T) {
	estate, manifests := manyShops(8)
	var peers []string
	for i := range 301 {
		peers = append(peers, fmt.Sprintf("{ipBlock: {cidr: 172.%d.%d.1/32}}", 16+i%16, i/16))
	}
	answer := previewtest.Answer(t, estate, strings.Replace(manifests, "{ipBlock: {cidr: 10.0.0.0/8}}", strings.Join(peers, ", "), 1))
	a := answer.Accounts[0]
	if len(a.Refusals) != 10 || len(a.Plan.Steps) > 0 || len(a.Policies) != 1 || a.Policies[0].Refused != 10 || len(a.Remedies) != 1 {
		t.Fatalf("%.4000s", previewtest.JSON(answer))
	}
	if r := a.Remedies[0]; r.Quota != "rulesPerGroup" || r.Message != "to make room, raise the quota L-0EA8095F (Inbound or outbound rules per security group, service vpc) of the account and region "+
		"in Service Quotas, and then spec.awsConfig.quotas.rulesPerGroup of the CloudProviderAccount with it" {
		t.Errorf("%+v", r)
	}
	x := a.Refusals[0]
	if l := x.Lack; l == nil || l.Quota != "rulesPerGroup" || l.Direction != "ingress" || l.Family != "IPv4" || l.Needed != 301 || l.Available != 300 || l.WouldDo != 0 {
		t.Errorf("%+v", l)
	}
	if x.VMName != "web-1" || x.Policy != "AntreaNetworkPolicy vms/web" || !strings.Contains(x.Message, "it needs 301 ") {
		t.Errorf("%+v", x)
	}
}

// TestPlanOfAFullRegion: a policy that there is no group for is refused with the numbers.
func TestPlanOfAFullRegion(t *testing.T) {
	_, a := smallShop(t, strings.Replace(previewtest.SmallShopManifests, "awsConfig: {", "awsConfig: {quotas: {groupsPerRegion: 2}, ", 1))
	if len(a.Refusals) != 2 {
		t.Fatal(previewtest.JSON(a))
	}
	x := a.Refusals[0]
	if x.Message != "no security group is left for it: all that is to be enforced in the region eu-west-1 needs 1 group, and besides 2 others there is room for 0, because the quota is 2; a quota of 3 groups would do" {
		t.Errorf("%+v", x)
	}
	if l := x.Lack; l == nil || l.Quota != "groupsPerRegion" || l.Needed != 3 || l.Available != 2 || l.WouldDo != 3 {
		t.Errorf("%+v", l)
	}
}

// TestPlanShowsTheFirstWave: what an account bounds is done in parts, of which the plan tells the
// first; there is none if all is one part.
func TestPlanShowsTheFirstWave(t *testing.T) {
	_, a := smallShop(t, accountSays("maxPerWave: 1"))
	if a.Wave == nil || a.Wave.MaxPerWave != 1 || len(a.Wave.Plan.Steps) == 0 || len(a.Wave.Plan.Steps) >= len(a.Plan.Steps) {
		t.Error(previewtest.JSON(a))
	}
	if _, a := smallShop(t, accountSays("maxPerWave: 100")); a.Wave != nil {
		t.Errorf("all is one wave: %s", previewtest.JSON(a))
	}
}

// TestPlanTellsWhatWaits: a plan that the controller would hold says so, with the command, and
// takes the account's brake, its confirmation and the modes into account.
func TestPlanTellsWhatWaits(t *testing.T) {
	estate, manifests := manyShops(40)
	says := func(line string) string {
		return strings.Replace(manifests, "spec:\n  awsConfig", "spec:\n  "+line+"\n  awsConfig", 1)
	}
	confirmed := func(hash string) string {
		return strings.Replace(manifests, "{name: a, ", "{name: a, annotations: {nephele.io/confirm: "+hash+"}, ", 1)
	}
	brake := func(m string) *analysis.PlanBrake {
		return previewtest.Answer(t, estate, m).Accounts[0].Brake
	}
	b := brake(manifests)
	if b == nil {
		t.Fatal("nothing waits")
	}
	if b.Command != "kubectl annotate cloudprovideraccount a -n vms nephele.io/confirm="+b.Hash+" --overwrite" || len(b.Hash) != 16 || b.Confirmed || b.OnceEnforced || b.Guarded != 42 ||
		b.Released != 0 || b.All != 42 || b.Controlled != 0 || b.Percent != 50 || b.Interfaces != 20 || !strings.Contains(b.Message, "42 of the 42 interfaces of VMs would newly come under control") ||
		!strings.Contains(b.Message, "Nothing is wrong") || !strings.Contains(b.Message, b.Command) {
		t.Errorf("%+v", b)
	}
	for name, m := range map[string]string{"never": says("brake: {percent: 100}"), "many": says("brake: {interfaces: 43}")} {
		if got := brake(m); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, c := range map[string]struct {
		manifests               string
		confirmed, onceEnforced bool
	}{
		"confirmed":       {confirmed(b.Hash), true, false},
		"another account": {confirmed("0123456789abcdef"), false, false},
		"mode plan":       {says("mode: plan"), false, true},
	} {
		if got := brake(c.manifests); got == nil || got.Confirmed != c.confirmed || got.OnceEnforced != c.onceEnforced || got.Guarded != 42 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
