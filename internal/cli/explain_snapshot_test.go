package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// halfDone are a policy that no security group can say, and one that is not enforced yet.
const halfDone = `
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: sees, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-uid: i-075dc46a9bc347264}}}]
  ingress:
  - {name: http, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}], l7Protocols: [{http: {host: x}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: later, namespace: vms}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-uid: i-0837c877110427f2b}}}]
  ingress:
  - {name: ssh, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 22}]}
`

// TestExplainSnapshot: what is not enforced is said to be so, and what the groups of the account do
// in its place.
func TestExplainSnapshot(t *testing.T) {
	manifests := file(t, "half.yaml", previewtest.HybridManifests+halfDone)
	suspended := file(t, "broken.yaml", previewtest.HybridManifests+halfDone+`---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: VirtualMachine
metadata: {name: i-0837c877110427f2b, namespace: vms, annotations: {nephele.io/break-glass: fire}}
`)
	for name, c := range map[string]struct {
		file, question string
		code           int
		want           []string
	}{
		"refused": {manifests, "--from 203.0.113.7 --to vms/i-075dc46a9bc347264 --port 22", ExitDone, []string{
			"203.0.113.7 -> VM vms/CVP Server Test, TCP port 22: Allow\n  if everything were enforced: Drop\n",
			"  ingress Allow: AntreaNetworkPolicy vms/sees is refused on this VM, not enforced; today allowed by sg-331ad04e (Arista Demo): ingress tcp 22 from 0.0.0.0/0\n",
			`AntreaNetworkPolicy vms/sees: the ingress rule "http": security groups do not see layer 7 protocols`,
			"if enforced: Drop: no rule allows it, and the direction is isolated by AntreaNetworkPolicy vms/sees",
			"the destination has no public address"}},
		"pending": {manifests, "--from 192.168.1.25 --to 192.168.1.138 --port 23", ExitDone, []string{
			"VM vms/CVP Server Test -> VM vms/border_02, TCP port 23: Allow\n",
			"egress  Allow: no policy decides, the machine's own groups do: allowed by sg-331ad04e (Arista Demo): egress all to 0.0.0.0/0",
			"AntreaNetworkPolicy vms/later is not yet enforced on this VM as it stands; today allowed by sg-331ad04e"}},
		"dropped by its own groups": {manifests, "--from 203.0.113.7 --to vms/i-0837c877110427f2b --port 23", ExitNo, []string{
			": Drop\n", "ingress Drop: no rule allows it, and the direction is isolated by AntreaNetworkPolicy vms/later"}},
		"suspended": {suspended, "--from 192.168.1.25 --to 192.168.1.138 --port 23", ExitDone, []string{
			"ingress Allow: not enforced: break-glass (VirtualMachine vms/i-0837c877110427f2b: fire); today allowed by sg-331ad04e",
			"if enforced: Drop: no rule allows it"}},
		"an address": {manifests, "--from vms/i-075dc46a9bc347264 --to 8.8.8.8 --port 53 --protocol UDP", ExitDone, []string{
			"VM vms/CVP Server Test -> 8.8.8.8, UDP port 53: Allow\n", "the source has no public address: it gets out only through a NAT gateway",
			"ingress Allow: an address; no policy applies there"}},
	} {
		r := nephele(t, "", append([]string{"explain", "-f", c.file, "--snapshot", previewtest.HybridCloud}, strings.Fields(c.question)...)...)
		if r.code != c.code || strings.Contains(r.stdout, "Native") {
			t.Errorf("%s: exit %d, want %d\n%s%s", name, r.code, c.code, r.stdout, r.err)
		}
		for _, want := range c.want {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s: no %q in\n%s", name, want, r.stdout)
			}
		}
	}
	r := nephele(t, "", "explain", "-f", manifests, "--snapshot", previewtest.HybridCloud, "--from", "203.0.113.7", "--to", "vms/i-075dc46a9bc347264", "--port", "22", "-o", "json")
	var got analysis.FlowAnswer
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != ExitDone {
		t.Fatalf("%v: %+v", err, r)
	}
	in := got.Ingress
	if got.Verdict != "Allow" || got.Wanted != "Drop" || got.To.VM == nil || got.To.VM.Name != "CVP Server Test" || got.To.VM.Region != "us-west-2" ||
		len(in.Policies) != 1 || in.Policies[0].State != explain.StateRefused || in.Policies[0].Name != "sees" || in.Groups.Group.ID != "sg-331ad04e" ||
		in.IfEnforced.Outcome != "Drop" || len(got.Path.Remarks) != 1 || got.Path.Remarks[0] != explain.RemarkNoPublicAddress {
		t.Errorf("%s", r.stdout)
	}
}

// TestExplainLive: in a cluster the statuses say what is not enforced, and the cloud what is in its
// place.
func TestExplainLive(t *testing.T) {
	server := previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0)
	set, err := manifest.Load([]string{"-"}, strings.NewReader(strings.Replace(previewtest.HybridManifests, "  awsConfig:\n", "  awsConfig:\n    endpoint: "+server.URL()+"\n", 1)+halfDone+`---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: VirtualMachine
metadata: {name: i-075dc46a9bc347264, namespace: vms}
status:
  cloudId: i-075dc46a9bc347264
  policies: [{kind: AntreaNetworkPolicy, namespace: vms, name: sees, uid: u, phase: Failed, message: it cannot be said}]
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: vms}
data: {k: e30=}
`))
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "test"}})
	for _, d := range set.Documents {
		d.Object.SetUID(preview.OfflineUID(d.Group, d.Kind, d.Object))
		if s, ok := d.Object.(*corev1.Secret); ok {
			s.Data["k"] = []byte(`{"accessKeyId": "` + estate.DefaultAccessKeyID + `", "accessKeySecret": "` + estate.DefaultSecret + `"}`)
		}
		api.WithObjects(d.Object.(client.Object))
	}
	cluster := api.Build()
	for _, c := range []struct{ flags, want string }{
		{"", "ingress Allow: AntreaNetworkPolicy vms/sees is refused on this VM, not enforced; today allowed by sg-331ad04e (Arista Demo): ingress tcp 22 from 0.0.0.0/0\n" +
			"          AntreaNetworkPolicy vms/sees: it cannot be said\n          if enforced: Drop: no rule allows it"},
		{"--no-cloud", "ingress Native: AntreaNetworkPolicy vms/sees is refused on this VM, not enforced; the security groups that the machine holds decide, and were not read\n"},
	} {
		var f explainFlags
		flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
		f.register(flags)
		if err := flags.Parse(strings.Fields("--from 203.0.113.7 --to vms/i-075dc46a9bc347264 --port 22 " + c.flags)); err != nil {
			t.Fatal(err)
		}
		computed, err := f.readFrom(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		got, err := computed.Computed.Answer(f.question(flags))
		if err != nil {
			t.Fatal(err)
		}
		if text := show.Explanation(got); !strings.Contains(text, c.want) {
			t.Errorf("%s: no %q in\n%s%v", c.flags, c.want, text, computed.In.Notes)
		}
	}
}
