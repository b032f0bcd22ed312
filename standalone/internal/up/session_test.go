package up

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/config/grants"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

func config(t *testing.T, controller RunController) Config {
	return Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0", CRDs: crd.FS(), Controller: controller, Progress: io.Discard}
}

func TestRunServesTheAPITypesToTheController(t *testing.T) {
	listed := make(chan error, 1)
	ended := false
	controller := func(ctx context.Context, cfg *rest.Config, ready func()) error {
		ready()
		listed <- listAccounts(ctx, cfg)
		<-ctx.Done()
		ended = true
		return nil
	}
	err := Run(t.Context(), config(t, controller), func(ctx context.Context, s Session) error {
		if s.StartUp <= 0 || !strings.HasPrefix(s.URL, "https://127.0.0.1:") {
			t.Errorf("session = %+v", s)
		}
		select {
		case err := <-listed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		t.Error(err)
	}
	if !ended {
		t.Error("Run has returned before the controller ended")
	}
}

func listAccounts(ctx context.Context, cfg *rest.Config) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	accounts := schema.GroupVersionResource{Group: "crd.cloud.antrea.io", Version: "v1alpha1", Resource: "cloudprovideraccounts"}
	_, err = client.Resource(accounts).List(ctx, metav1.ListOptions{})
	return err
}

func TestRunEndsWithTheController(t *testing.T) {
	broken, dir := errors.New("broken"), t.TempDir()
	for name, result := range map[string]error{"with an error": broken, "by itself": nil} {
		t.Run(name, func(t *testing.T) {
			controller := func(context.Context, *rest.Config, func()) error { return result }
			cfg := config(t, controller)
			cfg.DataDir = dir // one after the other, for a first start takes longer
			err := Run(t.Context(), cfg, func(ctx context.Context, _ Session) error {
				<-ctx.Done()
				return ctx.Err()
			})
			if result != nil && !errors.Is(err, result) || err == nil || !strings.Contains(err.Error(), "controller") {
				t.Errorf("error %v, want one that blames the controller", err)
			}
		})
	}
}

func TestInterruptionIsNoError(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "while it comes up": 700 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(after, cancel).Stop()
			err := Run(ctx, config(t, nil), func(ctx context.Context, _ Session) error {
				<-ctx.Done()
				return ctx.Err()
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadInputIsPassedOn(t *testing.T) {
	cfg := config(t, nil)
	cfg.Listen = "nowhere"
	err := Run(t.Context(), cfg, func(context.Context, Session) error { return nil })
	var input *controlplane.InputError
	if !errors.As(err, &input) {
		t.Errorf("error %v, want an InputError", err)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a/b-c.d": "a/b-c.d", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'", "a*b": "'a*b'",
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

// TestGrantsAreInstalled: the policies that check the rights of authors are there, and are again at
// the next start. They do not keep anybody from writing for longer than they take to be seen.
func TestGrantsAreInstalled(t *testing.T) {
	cfg := config(t, nil)
	for _, when := range []string{"at first", "after they were taken away", "at a third start"} {
		err := Run(t.Context(), cfg, func(ctx context.Context, s Session) error {
			client, err := dynamic.NewForConfig(s.RestConfig)
			if err != nil {
				return err
			}
			begin := time.Now()
			err = errors.New("not tried")
			for ; err != nil && time.Since(begin) < 10*time.Second; time.Sleep(50 * time.Millisecond) {
				err = tryPolicy(ctx, client)
			}
			if err != nil {
				t.Errorf("%s: a policy of the administrator: %v", when, err)
			}
			for _, name := range grants.Policies() {
				for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
					policies := client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
					if _, err := policies.Get(ctx, name, metav1.GetOptions{}); err != nil {
						t.Errorf("%s: %s %s: %v", when, resource, name, err)
					}
					if when != "at first" {
						continue
					}
					if err := policies.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
			roles := client.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
			_, err = roles.Get(ctx, "nephele-auditor", metav1.GetOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tryPolicy writes a policy for nobody.
func tryPolicy(ctx context.Context, client dynamic.Interface) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "crd.antrea.io/v1beta1",
		"kind":       "ClusterNetworkPolicy",
		"metadata":   map[string]any{"name": "trial"},
		"spec": map[string]any{
			"priority":  int64(1),
			"appliedTo": []any{map[string]any{"podSelector": map[string]any{}}},
			"ingress":   []any{map[string]any{"name": "r", "action": "Drop"}},
		},
	}}
	policies := client.Resource(schema.GroupVersionResource{Group: "crd.antrea.io", Version: "v1beta1", Resource: "clusternetworkpolicies"})
	_, err := policies.Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
