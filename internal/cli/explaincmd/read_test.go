package explaincmd

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestExplainLive: in a cluster the statuses say what is not enforced, and the cloud what is in its
// place.
func TestExplainLive(t *testing.T) {
	server := previewtest.Simulated(t, previewtest.Loaded(t, "../"+previewtest.HybridCloud), 0)
	set, err := manifest.Load([]string{"-"}, strings.NewReader(strings.Replace(previewtest.HybridManifests, "  awsConfig:\n", "  awsConfig:\n    endpoint: "+server.URL()+"\n", 1)+previewtest.HalfDone+`---
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
	scheme, err := kinds.Scheme()
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
