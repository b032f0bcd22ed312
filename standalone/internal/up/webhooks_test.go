package up

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/registration"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/kinds"
)

// deadPort is one that nobody listens on.
const deadPort = 1

// TestWebhooksOfAFormerRun: webhook configurations that a former run has left lead nowhere. As long
// as no controller runs, what they are about cannot be written, and everything else can. The
// controller gets over them by itself, though it has to write tiers, and what it says it is ready
// for works at once.
func TestWebhooksOfAFormerRun(t *testing.T) {
	cfg := config(t, nil)
	err := Run(t.Context(), cfg, func(ctx context.Context, s Session) error {
		leaveWebhooks(t, ctx, s.RestConfig)
		c := adminClient(t, s.RestConfig)
		if err := c.Create(ctx, somePolicy("early")); err == nil || !strings.Contains(err.Error(), `failed calling webhook "annpmutator.antrea.io"`) {
			t.Errorf("a policy that nobody has looked at: %v", err)
		}
		entity := &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}}
		if err := c.Create(ctx, entity); err != nil {
			t.Errorf("an entity: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Controller = WithLogFile(cfg.DataDir, func(ctx context.Context, rc *rest.Config, home Home) error {
		return controller.Run(ctx, rc, controller.Options{
			Log: terminal.NewLogger(home.Log, false), Ready: home.Ready,
			API: &controller.APIOptions{Address: "127.0.0.1:0", CertDir: home.Certificates, Local: true, WebhookClientCA: home.WebhookClientCA},
		})
	})
	err = Run(t.Context(), cfg, func(ctx context.Context, s Session) error {
		c := adminClient(t, s.RestConfig)
		p := somePolicy("late")
		if err := c.Create(ctx, p); err != nil {
			t.Errorf("a policy as soon as everything is ready: %v", err)
		}
		strangersAreSentAway(t, s.RestConfig)
		if p.Spec.Tier != "application" || p.Spec.Ingress[0].Name != "ingress-drop-742ade5" {
			t.Errorf("not completed: %+v", p.Spec)
		}
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			var tiers v1beta1.TierList
			if err := c.List(ctx, &tiers); err != nil || len(tiers.Items) == 6 {
				return err
			}
			if time.Now().After(deadline) {
				t.Errorf("%d tiers, want the 6 of the system", len(tiers.Items))
				return nil
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// strangersAreSentAway: the API server proves itself to the webhooks, and they do not answer
// anybody else on this machine.
func strangersAreSentAway(t *testing.T, cfg *rest.Config) {
	t.Helper()
	c, err := registration.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var hooks admissionregistrationv1.ValidatingWebhookConfiguration
	if err := c.Get(t.Context(), client.ObjectKey{Name: "crdvalidator.antrea.io"}, &hooks); err != nil {
		t.Fatal(err)
	}
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for _, w := range hooks.Webhooks {
		response, err := stranger.Post(*w.ClientConfig.URL, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s answers a stranger: %s", w.Name, response.Status)
		}
	}
}

func adminClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func somePolicy(name string) *v1beta1.NetworkPolicy {
	p := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.Priority = 5
	p.Spec.AppliedTo = []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{}}}
	p.Spec.Ingress = []v1beta1.Rule{{Action: v1beta1.RuleActionDrop}}
	return p
}

// leaveWebhooks registers webhooks that nobody serves, and returns when they are in force.
func leaveWebhooks(t *testing.T, ctx context.Context, cfg *rest.Config) {
	t.Helper()
	c, err := registration.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	r := &registration.Registration{
		Client: c, Service: types.NamespacedName{Namespace: "kube-system", Name: "antrea"}, Port: deadPort, Local: true,
		CABundle: func() []byte { return nil }, Hooks: webhook.Hooks(), Clock: clock.RealClock{}, Logger: logr.Discard(),
	}
	go func() {
		defer close(ended)
		if err := r.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		stop()
		<-ended
	}()
	admin := adminClient(t, cfg)
	tier := &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v1beta1.TierSpec{Priority: 7}}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := admin.Create(ctx, tier.DeepCopy(), client.DryRunAll)
		if err == nil && time.Now().Before(deadline) {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Fatalf("the webhooks are not in force: %v", err)
		}
		return
	}
}
