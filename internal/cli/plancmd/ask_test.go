package plancmd

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestSecretsAreNotSent: the controller is sent nothing of manifests that hold what it does not
// take; of others it is sent every object, and its errors are told where they stand in the files.
func TestSecretsAreNotSent(t *testing.T) {
	load := func(text string) *manifest.Set {
		set, err := manifest.Load([]string{"-"}, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := load(previewtest.HybridManifests)
	if text, why, err := sendable(set); err != nil || text != "" && strings.Contains(text, "Secret") || text == "" && why == "" {
		t.Errorf("%q, %q, %v", text, why, err)
	}
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: a}\nstringData: {credentials: hush}\n"
	if text, why, err := sendable(load(previewtest.SSHPolicy + "---\n" + secret)); err != nil || text != "" || !strings.Contains(why, "Secret") || strings.Contains(why, "hush") {
		t.Errorf("with a Secret: %q, %q, %v", text, why, err)
	}
	set = load("# a word\n---\n" + previewtest.SSHPolicy)
	text, why, err := sendable(set)
	if err != nil || why != "" {
		t.Fatalf("%q, %v", why, err)
	}
	again, err := manifest.Parse("sent", []byte(text), 0)
	if err != nil || len(again.Documents) != len(set.Documents) {
		t.Fatalf("%v, what is sent is read as %+v:\n%s", err, again, text)
	}
	refused := refusalsOf([]v1alpha1.ManifestError{{Code: 400, Document: 1, Field: "spec", Message: "no"}}, set)
	if len(refused) != 1 || refused[0].Position != set.Documents[0].At("spec") {
		t.Errorf("%+v", refused)
	}
}

// TestAccountsUnknownToTheController: of an account that comes with the manifests the controller
// knows nothing, and the plan is worked out here.
func TestAccountsUnknownToTheController(t *testing.T) {
	set, err := manifest.Load([]string{"-"}, strings.NewReader(previewtest.HybridManifests))
	if err != nil {
		t.Fatal(err)
	}
	var account string
	for _, d := range set.Documents {
		if d.Kind == "CloudProviderAccount" {
			account = d.Object.GetNamespace() + "/" + d.Object.GetName()
		}
	}
	for _, c := range []struct {
		plan v1alpha1.AccountPlan
		want string
	}{
		{v1alpha1.AccountPlan{Account: account}, ""}, {v1alpha1.AccountPlan{Account: account, Error: "not read"}, account},
		{v1alpha1.AccountPlan{Account: account, Unread: []v1alpha1.UnreadRegion{{Region: "r"}}}, account}, {v1alpha1.AccountPlan{Account: "other/one", Error: "not read"}, ""},
	} {
		if got := unknownTo(&v1alpha1.PlanAnswer{Accounts: []v1alpha1.AccountPlan{c.plan}}, set); got != c.want {
			t.Errorf("%+v: %q, want %q", c.plan, got, c.want)
		}
	}
}
