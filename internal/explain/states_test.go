package explain_test

import (
	"testing"

	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestStates: an answer says that a policy is not enforced, and what the groups of the account do
// in its place.
func TestStates(t *testing.T) {
	provider := previewtest.AWS(t, previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0), "us-west-2")
	const glass = `---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: VirtualMachine
metadata: {name: i-0837c877110427f2b, namespace: vms, annotations: {nephele.io/break-glass: fire}}
`
	read := map[string]*preview.Computation{}
	for _, more := range []string{"", glass} {
		c, err := previewtest.Planner(t, provider, previewtest.HybridManifests+previewtest.HalfDone+more).ReadAll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		read[more] = c
	}
	for name, c := range map[string]asked{
		"refused": {"", "203.0.113.7 > vms/i-075dc46a9bc347264 TCP 22",
			`203.0.113.7 > VM vms/CVP Server Test: Allow (wanted Drop); out Allow none; in Allow groups Refused AntreaNetworkPolicy vms/sees the ingress rule "http": security groups do not see layer 7 protocols groups Allow sg-331ad04e ingress tcp 22 from 0.0.0.0/0 (if enforced Drop isolated of AntreaNetworkPolicy vms/sees); remark NoPublicAddress`},
		"pending": {"", "192.168.1.25 > 192.168.1.138 TCP 23",
			"VM vms/CVP Server Test > VM vms/border_02: Allow (wanted Drop); out Allow native groups Allow sg-331ad04e egress all to 0.0.0.0/0 own groups Allow sg-331ad04e egress all to 0.0.0.0/0; in Allow groups Pending AntreaNetworkPolicy vms/later groups Allow sg-331ad04e ingress all from 192.168.0.0/16 (if enforced Drop isolated of AntreaNetworkPolicy vms/later)"},
		"dropped by its own groups": {"", "203.0.113.7 > vms/i-0837c877110427f2b TCP 23",
			"203.0.113.7 > VM vms/border_02: Drop; 203.0.113.7 > 192.168.1.138; 203.0.113.7 > 192.168.2.57 Drop; out Allow none; in Drop isolated of AntreaNetworkPolicy vms/later Pending AntreaNetworkPolicy vms/later groups Drop"},
		"suspended": {glass, "192.168.1.25 > 192.168.1.138 TCP 23",
			"VM vms/CVP Server Test > VM vms/border_02: Allow (wanted Drop); out Allow native groups Allow sg-331ad04e egress all to 0.0.0.0/0 own groups Allow sg-331ad04e egress all to 0.0.0.0/0; in Allow groups not enforced: break-glass (VirtualMachine vms/i-0837c877110427f2b: fire) groups Allow sg-331ad04e ingress all from 192.168.0.0/16 (if enforced Drop isolated of AntreaNetworkPolicy vms/later)"},
		"an address": {"", "vms/i-075dc46a9bc347264 > 8.8.8.8 UDP 53",
			"VM vms/CVP Server Test > 8.8.8.8: Allow; out Allow native groups Allow sg-331ad04e egress all to 0.0.0.0/0 own groups Allow sg-331ad04e egress all to 0.0.0.0/0; in Allow none; remark SourceUnknown"},
	} {
		got, err := read[c.manifests].Computed.Answer(parse(t, c.question))
		if err != nil {
			t.Fatal(err)
		}
		if text := summary(got); text != c.want {
			t.Errorf("%s\n got %s\nwant %s", name, text, c.want)
		}
	}
	refused, err := read[""].Computed.Answer(parse(t, "203.0.113.7 > vms/i-075dc46a9bc347264 TCP 22"))
	if err != nil {
		t.Fatal(err)
	}
	if vm := refused.To.VM; vm == nil || vm.Name != "CVP Server Test" || vm.Region != "us-west-2" {
		t.Errorf("%s", previewtest.JSON(refused))
	}
}
