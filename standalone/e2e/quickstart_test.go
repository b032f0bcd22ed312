package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestQuickStart applies the quick start of the README and deletes it again in one go, Secret and
// Namespace included: the account is given back although its keys are deleted with it, and nothing
// gets stuck.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	im := &imported{t: t, c: pooledCluster(t), server: server, oracle: oracle{native: map[string][]string{}}}
	for _, r := range state.Regions {
		for _, n := range r.NetworkInterfaces {
			for _, g := range n.Groups {
				im.oracle.native[n.ID] = append(im.oracle.native[n.ID], g.ID)
			}
		}
	}
	raw, err := os.ReadFile("../../config/samples/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), "http://127.0.0.1:8555", server.URL(), 1)
	if text == string(raw) {
		t.Fatal("the quick start does not name the endpoint that `nephele sim` listens on by default")
	}
	var objects []client.Object
	for _, doc := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		im.must(yaml.Unmarshal([]byte(doc), &o.Object))
		objects = append(objects, o)
		im.must(im.c.client.Create(t.Context(), o))
	}
	eventually(t, "six interfaces of the switches and the one of the VM that may manage them hold a group of ours", func(context.Context) (bool, string) {
		held := 0
		for _, r := range server.World().State().Regions {
			for _, n := range r.NetworkInterfaces {
				for _, g := range n.Groups {
					if strings.HasPrefix(g.Name, "nephele-") {
						held++
					}
				}
			}
		}
		return held == 7, fmt.Sprintf("%d do", held)
	})
	im.waitForPhase([]client.Object{&v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "quickstart", Name: "switches"}}}, v1beta1.NetworkPolicyRealized)
	for _, o := range objects {
		if err := im.c.client.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	im.mustBeReleased()
	eventually(t, "the namespace is gone", func(ctx context.Context) (bool, string) {
		var ns corev1.Namespace
		err := im.c.client.Get(ctx, client.ObjectKey{Name: "quickstart"}, &ns)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v %+v", err, ns.Status)
	})
}
