package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/kinds"
)

// TestTakeOver: the command shows the other instance, and does nothing without --yes.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	named := func(name, other string) *cloudv1.CloudProviderAccount {
		a := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: name}}
		a.Status.OtherInstance = other
		if other != "" {
			a.Status.Conditions = []metav1.Condition{{Type: cloudv1.ConditionSoleWriter, Status: metav1.ConditionFalse, Reason: cloudv1.ReasonAnotherInstance,
				LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}}
		}
		return a
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(named("stopped", "abc123"), named("alone", "")).Build()
	run := func(name string, yes bool) (string, error) {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetOut(&out)
		err := takeOver(cmd, c, name, yes)
		return out.String(), err
	}
	annotation := func(name string) string {
		var a cloudv1.CloudProviderAccount
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "cloud", Name: name}, &a); err != nil {
			t.Fatal(err)
		}
		return a.Annotations[cloudv1.AnnotationTakeOver]
	}
	for _, bad := range []string{"stopped", "cloud/", "/stopped", "cloud/missing"} {
		if _, err := run(bad, true); err == nil || errors.Is(err, terminal.ErrNo) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if text, err := run("cloud/alone", true); !errors.Is(err, terminal.ErrNo) || !strings.Contains(text, "nothing to take over") || annotation("alone") != "" {
		t.Errorf("%v: %s", err, text)
	}
	text, err := run("cloud/stopped", false)
	if !errors.Is(err, terminal.ErrNo) || annotation("stopped") != "" {
		t.Errorf("%v, annotation %q", err, annotation("stopped"))
	}
	for _, want := range []string{"since 2026-01-02 03:04:05 UTC", "Its epoch is abc123.", "nephele take-over cloud/stopped --yes"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if text, err := run("cloud/stopped", true); err != nil || annotation("stopped") != "abc123" || !strings.Contains(text, "kubectl get cpa stopped -n cloud") {
		t.Errorf("%v, annotation %q: %s", err, annotation("stopped"), text)
	}
}
