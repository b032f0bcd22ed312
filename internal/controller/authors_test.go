package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/config/grants"
	"github.com/nephele-io/nephele/internal/kinds"
)

// TestAuthorsCheck: what is missing of the policies is said once, and taken back; what cannot be
// read is no alarm.
func TestAuthorsCheck(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var refuse error
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if refuse != nil {
				return refuse
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	var logged []string
	changes := 0
	c := &authorsCheck{reader: cluster, clock: clocktesting.NewFakeClock(metav1.Now().Time), changed: func() { changes++ },
		log: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})}
	look := func(when string, wantLogged, wantChanges int, want ...string) {
		t.Helper()
		logged, changes = nil, 0
		c.look(t.Context())
		c.look(t.Context())
		text := c.Unchecked()
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q; want %q in it", when, text, part)
			}
		}
		if (text == "") != (len(want) == 0) || len(logged) != wantLogged || changes != wantChanges {
			t.Errorf("%s: %q, logged %q, %d changes; want %d, %d", when, text, logged, changes, wantLogged, wantChanges)
		}
	}
	look("nothing installed", 1, 1, "nephele-accounts, nephele-force, nephele-selectors, nephele-break-glass, nephele-tiers (kubectl apply")
	bindings := map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, name := range grants.Policies() {
		meta := metav1.ObjectMeta{Name: name}
		bindings[name] = &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
		for _, o := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta}, bindings[name]} {
			if err := cluster.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	look("all installed", 0, 1)
	bindings["nephele-tiers"].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
	if err := cluster.Update(t.Context(), bindings["nephele-tiers"]); err != nil {
		t.Fatal(err)
	}
	look("one only warns", 1, 1, "not installed: nephele-tiers (")
	refuse = errors.New("forbidden")
	look("not to be read", 1, 0, "not installed: nephele-tiers (")
}

// TestGrantsNameThemselves: the names that are looked for are in the manifests.
func TestGrantsNameThemselves(t *testing.T) {
	for _, name := range grants.Policies() {
		file, err := grants.FS().Open(strings.TrimPrefix(name, "nephele-") + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, 1<<16)
		n, err := file.Read(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(raw[:n]), "\n  name: "+name+"\n"); got != 2 {
			t.Errorf("%s: named %d times", name, got)
		}
		if !strings.Contains(string(raw[:n]), "failurePolicy: Fail") {
			t.Errorf("%s does not fail closed", name)
		}
	}
}
