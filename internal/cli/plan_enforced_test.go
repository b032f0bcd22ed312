package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanOfAnEnforcedAccount: the id of the cluster is given, or found in the snapshot; what is
// enforced already is no change then.
func TestPlanOfAnEnforcedAccount(t *testing.T) {
	server := previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0)
	provider := previewtest.AWS(t, server, "us-west-2")
	previewtest.Perform(t, provider, previewtest.Planner(t, provider, previewtest.HybridManifests+"---"+previewtest.SSHPolicy))
	state, err := json.Marshal(server.World().State())
	if err != nil {
		t.Fatal(err)
	}
	snapshot := file(t, "enforced.json", string(state))
	for name, flags := range map[string][]string{"told": {"--cluster-id", "test"}, "found": nil} {
		args := append([]string{"plan", "-f", "-", "--snapshot", snapshot}, flags...)
		if r := nephele(t, previewtest.HybridManifests+"---"+previewtest.SSHPolicy, args...); r.code != ExitDone || !strings.Contains(r.stdout, "AntreaNetworkPolicy vms/ssh: 1 VM: 1 enforced\n") {
			t.Errorf("%s: %+v", name, r)
		}
		if r := nephele(t, previewtest.HybridManifests, append(args, "--strict")...); r.code != ExitBadInput || !strings.Contains(r.err, "1 LosesPolicy") {
			t.Errorf("%s, without the policy: %+v", name, r)
		}
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
