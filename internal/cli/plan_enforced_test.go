package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// fromGit are the manifests as they are kept in a repository: nothing in them has an identity yet.
func fromGit(policies string) string {
	return strings.ReplaceAll(oldManifests, ", endpoint: ENDPOINT", "") + strings.TrimPrefix(policies, "\n")
}

// enforcedSnapshot enforces policies in the simulated account as a cluster does, and returns what
// the account is then.
func enforcedSnapshot(t *testing.T, policies string) string {
	t.Helper()
	j := newBothLoops(t, types.NamespacedName{Namespace: "owner", Name: "hybrid"}, oldManifests+strings.TrimPrefix(policies, "\n"))
	// The cluster gives its own identities.
	var list v1beta1.NetworkPolicyList
	if err := j.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if err := j.api.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("0b0d3c1e-0000-4000-8000-%012d", i)), ""
		j.create(client.Object(p))
	}
	j.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "s"}, Data: map[string][]byte{
		"k": fmt.Appendf(nil, `{"accessKeyId": %q, "accessKeySecret": %q}`, estate.DefaultAccessKeyID, estate.DefaultSecret)}})
	j.start()
	j.settled("enforced", 2)
	j.stop()
	if len(j.held()) == 0 {
		t.Fatal("nothing is held")
	}
	state, err := json.Marshal(j.server.World().State())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "enforced.json")
	if err := os.WriteFile(name, state, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPlanOfAnEnforcedAccount: what is enforced already is no change, also from manifests that do
// not tell the identities which the cluster gave them; only tags differ then. A rule that differs
// is one.
func TestPlanOfAnEnforcedAccount(t *testing.T) {
	snapshot := enforcedSnapshot(t, previewtest.SSHPolicy)
	for name, flags := range map[string][]string{"told": {"--cluster-id", "cluster"}, "found": nil} {
		r := nephele(t, fromGit(previewtest.SSHPolicy), append([]string{"plan", "-f", "-", "--snapshot", snapshot}, flags...)...)
		if r.code != ExitDone {
			t.Errorf("%s: %+v", name, r)
		}
		r = nephele(t, fromGit(strings.ReplaceAll(previewtest.SSHPolicy, "port: 22", "port: 443")), append([]string{"plan", "-f", "-", "--snapshot", snapshot}, flags...)...)
		if r.code != ExitNo || !strings.Contains(r.stdout, "tcp 443") {
			t.Errorf("%s, another port: %+v", name, r)
		}
		r = nephele(t, fromGit(""), append([]string{"plan", "-f", "-", "--snapshot", snapshot, "--strict"}, flags...)...)
		if r.code != ExitBadInput || !strings.Contains(r.stdout, "! warning: ") || strings.Count(r.stdout, "no policy guards ") != 1 || !strings.Contains(r.err, "1 LosesPolicy") {
			t.Errorf("%s, without the policy: %+v", name, r)
		}
	}
}

// TestPlanTellsOfTagsOnly: what only tags lack is said so, in the text and for programs, and counts
// as enforced.
func TestPlanTellsOfTagsOnly(t *testing.T) {
	snapshot := enforcedSnapshot(t, previewtest.SSHPolicy)
	r := nephele(t, fromGit(previewtest.SSHPolicy), "plan", "-f", "-", "--snapshot", snapshot)
	for _, want := range []string{"AntreaNetworkPolicy vms/ssh: 1 VM: 1 enforced\n", "Only tags differ: all is enforced as it should be.\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	r = nephele(t, fromGit(previewtest.SSHPolicy), "plan", "-f", "-", "--snapshot", snapshot, "-o", "json")
	var got analysis.PlanAnswer
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != ExitDone || len(got.Accounts) != 1 || !got.Accounts[0].TagsOnly {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestPlanTolerates: what a pipeline is told to tolerate does not fail it, and nothing else is
// tolerated with it.
func TestPlanTolerates(t *testing.T) {
	nobody := strings.Replace(previewtest.SmallShopManifests, "tag-app: web", "tag-app: wbe", 1)
	both := strings.Replace(nobody, "accountName: a\n", "accountName: aa\n", 1)
	for name, c := range map[string]struct {
		manifests string
		flags     []string
		code      int
		err       string
	}{
		"nothing":             {nobody, []string{"--strict"}, ExitBadInput, "error: --strict: 1 warning (1 SelectsNobody)\n"},
		"it":                  {nobody, []string{"--strict", "--tolerate", "SelectsNobody"}, ExitDone, ""},
		"in any case":         {nobody, []string{"--strict", "--tolerate", "selectsnobody"}, ExitDone, ""},
		"another":             {nobody, []string{"--strict", "--tolerate", "NoSuchAccount"}, ExitBadInput, "(1 SelectsNobody)\n"},
		"one of two":          {both, []string{"--strict", "--tolerate", "SelectsNobody"}, ExitBadInput, "1 warning (1 NoSuchAccount); 1 more tolerated\n"},
		"both":                {both, []string{"--strict", "--tolerate", "SelectsNobody,NoSuchAccount"}, ExitDone, ""},
		"what does not exist": {nobody, []string{"--strict", "--tolerate", "Everything"}, ExitBadInput, `--tolerate "Everything": want reasons of [ClosesAccess `},
		"without --strict":    {nobody, []string{"--tolerate", "SelectsNobody"}, ExitBadInput, "give both"},
	} {
		r := planShop(t, c.manifests, c.flags...)
		if r.code != c.code || c.err != "" && !strings.Contains(r.err, c.err) || c.err == "" && strings.Contains(r.err, "error") {
			t.Errorf("%s: exit %d, %q", name, r.code, r.err)
		}
	}
}
