package source

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestPlanOverCluster makes plans for a cluster as it is, and with manifests over it.
func TestPlanOverCluster(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	set, err := manifest.Load([]string{"-"}, strings.NewReader(previewtest.HybridManifests+"---"+previewtest.SSHPolicy))
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme)
	for _, d := range set.Documents {
		d.Object.SetUID(preview.OfflineUID(d.Group, d.Kind, d.Object))
		api.WithObjects(d.Object.(client.Object))
	}
	api.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "test"}},
		&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: v1beta1.TierSpec{Priority: 240}})
	cluster := api.Build()
	rules := func(files []string, over string) string {
		t.Helper()
		p, err := PlanOver(t.Context(), cluster, files, strings.NewReader(over), clouds.Access{})
		if err != nil || len(p.In.Refused) > 0 || len(p.In.Notes) > 0 {
			t.Fatalf("%v, refused %v, notes %v", err, p.In.Refused, p.In.Notes)
		}
		var stop func()
		if p.Open, stop, err = Simulate(context.WithoutCancel(t.Context()), p.In, "../"+previewtest.HybridCloud); err != nil {
			t.Fatal(err)
		}
		defer stop()
		planned, err := p.Plan(t.Context())
		if err != nil || len(planned.Accounts) != 1 {
			t.Fatalf("%v, %d accounts", err, len(planned.Accounts))
		}
		var b strings.Builder
		for _, step := range p.Answer(planned).Accounts[0].Plan.Steps {
			for _, rule := range step.Rules {
				b.WriteString(rule.Text + "\n")
			}
		}
		return b.String()
	}
	if got := rules(nil, ""); !strings.Contains(got, "ingress tcp 22 from 10.0.0.0/8") {
		t.Errorf("the cluster as it is:\n%s", got)
	}
	// The changed policy is in a tier and a Namespace that only the cluster has.
	over := strings.NewReplacer("port: 22", "port: 443", "spec:", "spec:\n  tier: late").Replace(previewtest.SSHPolicy)
	if got := rules([]string{"-"}, over); !strings.Contains(got, "ingress tcp 443 from 10.0.0.0/8") || strings.Contains(got, "ingress tcp 22 ") {
		t.Errorf("the cluster with the policy changed:\n%s", got)
	}
}

// TestPlanBeforeAnythingIsApplied: the manifests bring the account, its Secret and the Namespace
// themselves.
func TestPlanBeforeAnythingIsApplied(t *testing.T) {
	server := previewtest.Simulated(t, previewtest.Loaded(t, "../"+previewtest.HybridCloud), 0)
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "test"}}).Build()
	account, _, _ := strings.Cut(previewtest.HybridManifests, "---\napiVersion: crd.antrea.io")
	account = strings.Replace(account, "  awsConfig:\n", "  awsConfig:\n    endpoint: "+server.URL()+"\n", 1)
	value := `{"accessKeyId": "` + estate.DefaultAccessKeyID + `", "accessKeySecret": "` + estate.DefaultSecret + `"}`
	for field, value := range map[string]string{"stringData": value, "data": base64.StdEncoding.EncodeToString([]byte(value))} {
		secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: vms}\n" + field + ": {k: '" + value + "'}\n"
		p, err := PlanOver(t.Context(), cluster, []string{"-"}, strings.NewReader(account+secret+"---"+previewtest.SSHPolicy), clouds.LocalAccess())
		if err != nil || len(p.In.Refused) > 0 {
			t.Fatalf("%v, refused %v", err, p.In.Refused)
		}
		planned, err := p.Plan(t.Context())
		if err != nil || len(planned.Accounts) != 1 || len(planned.Accounts[0].Result.Plan.Steps) == 0 {
			t.Errorf("%s: %v, %+v", field, err, planned)
		}
	}
}
