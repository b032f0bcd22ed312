package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestModesLive begins as one should on a real account, in mode plan with keys that can only read,
// and then enforces with the documented rights, breaks the glass for one VM, and releases all.
func TestModesLive(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestModesOfALife (realize), TestModeStatus and TestPolicyStatusByMode (realize/status), TestRightsToPlan (aws)")
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	key := &state.Credentials[0]
	key.Policy = documentedRights(t, "plan.json")
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	metrics := freeAddress(t)
	im := &imported{t: t, c: newCluster(t, "--metrics", metrics), server: server, oracle: oracle{native: map[string][]string{}}}
	raw, err := os.ReadFile("../../config/samples/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), "http://127.0.0.1:8555", server.URL(), 1)
	text = strings.Replace(text, "  accountName: simulated\n", "  accountName: simulated\n  mode: plan\n", 1)
	for _, doc := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		im.must(yaml.Unmarshal([]byte(doc), &o.Object))
		im.must(im.c.client.Create(t.Context(), o))
	}
	held := func() (n int) {
		for _, r := range server.World().State().Regions {
			for _, i := range r.NetworkInterfaces {
				for _, g := range i.Groups {
					if strings.HasPrefix(g.Name, "nephele-") {
						n++
					}
				}
			}
		}
		return n
	}
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "quickstart", Name: "arista-demo"}}
	planned := func() (string, error) {
		err := im.c.client.Get(t.Context(), client.ObjectKeyFromObject(selector), selector)
		if c := meta.FindStatusCondition(selector.Status.Conditions, cloudv1.ConditionPlanned); c != nil {
			return c.Message, err
		}
		return "", err
	}
	eventually(t, "the selector says what would be done", func(context.Context) (bool, string) {
		message, err := planned()
		return err == nil && strings.Contains(message, "interfaces to take over or to change: 6"), fmt.Sprint(message, err)
	})
	if n := held(); n != 0 {
		t.Errorf("mode plan: %d interfaces hold a group of ours", n)
	}
	im.mustNotBeInForce(v1beta1.NetworkPolicyPlanned, "planned on 3 VMs: 3 would be enforced")
	setMode := func(m cloudv1.EnforcementMode) {
		t.Helper()
		im.must(im.c.client.Patch(t.Context(), selector, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"mode":"`+string(m)+`"}}`))))
	}
	holds := func(what string, n int) {
		t.Helper()
		eventually(t, what, func(context.Context) (bool, string) {
			return held() == n, fmt.Sprintf("%d hold a group of ours", held())
		})
	}
	setMode(cloudv1.ModeEnforce)
	eventually(t, "the VM says which permission is missing", func(ctx context.Context) (bool, string) {
		vm := &cloudv1.VirtualMachine{}
		err := im.c.client.Get(ctx, client.ObjectKey{Namespace: "quickstart", Name: "i-0383fda87c012141d"}, vm)
		return err == nil && strings.Contains(fmt.Sprint(vm.Status), "is not authorized to perform: ec2:"), fmt.Sprintf("%+v %v", vm.Status, err)
	})
	if n := held(); n != 0 {
		t.Errorf("without the rights: %d interfaces hold a group of ours", n)
	}
	key.Policy = documentedRights(t, "enforce.json")
	im.must(server.World().AddCredential(*key))
	holds("enforced", 7)
	im.waitForPhase([]client.Object{&v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "quickstart", Name: "switches"}}}, v1beta1.NetworkPolicyRealized)
	if message, err := planned(); message != "" || err != nil {
		t.Errorf("still planned: %s %v", message, err)
	}

	vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "quickstart", Name: "i-0383fda87c012141d"}}
	glass := func(value string) {
		t.Helper()
		im.must(im.c.client.Patch(t.Context(), vm, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"`+cloudv1.AnnotationBreakGlass+`":`+value+`}}}`))))
	}
	glass(`"it burns"`)
	eventually(t, "the VM is free and says so", func(ctx context.Context) (bool, string) {
		err := im.c.client.Get(ctx, client.ObjectKeyFromObject(vm), vm)
		return err == nil && held() < 7 && vm.Status.Mode == string(cloudv1.ModeBreakGlass) && strings.Contains(vm.Status.ModeReason, "it burns") &&
			meta.IsStatusConditionTrue(vm.Status.Conditions, cloudv1.ConditionBreakGlass), fmt.Sprintf("%d held, %+v %v", held(), vm.Status, err)
	})
	im.mustNotBeInForce(v1beta1.NetworkPolicySuspended, "1 in mode break-glass")
	im.wantMetric(metrics, `nephele_realize_vms{account="quickstart/simulated",mode="break-glass"} 1`)
	glass("null")
	holds("enforced again", 7)
	setMode(cloudv1.ModeReleased)
	holds("released", 0)
	im.mustNotBeInForce(v1beta1.NetworkPolicySuspended, "3 of 3 VMs: 3 in mode released")
}

// mustNotBeInForce waits until the policy of the quickstart says why it is not in force.
func (im *imported) mustNotBeInForce(phase v1beta1.NetworkPolicyPhase, why string) {
	im.t.Helper()
	p := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "quickstart", Name: "switches"}}
	eventually(im.t, "the policy says that it is not in force", func(ctx context.Context) (bool, string) {
		err := im.c.client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return err == nil && p.Status.Phase == phase && p.Status.CurrentNodesRealized == 0 &&
			strings.Contains(fmt.Sprint(p.Status.Message, p.Status.Conditions), why), fmt.Sprintf("%+v %v", p.Status, err)
	})
}

// documentedRights is one of the IAM policies that users are told to give.
func documentedRights(t *testing.T, name string) *iam.Policy {
	t.Helper()
	document, err := os.ReadFile("../../config/aws/" + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := iam.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wantMetric asks for the metrics until they hold a line.
func (im *imported) wantMetric(address, line string) {
	im.t.Helper()
	eventually(im.t, "the metrics say "+line, func(ctx context.Context) (bool, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			return false, err.Error()
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, err.Error()
		}
		defer answer.Body.Close()
		raw, err := io.ReadAll(answer.Body)
		return err == nil && strings.Contains(string(raw), line+"\n"), fmt.Sprintf("%v\n%s", err, raw)
	})
}
