package cli

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestAzureRole: the command prints the published role without flags, the same actions at the
// places that it is told, and refuses every flag that cannot be.
func TestAzureRole(t *testing.T) {
	want, err := os.ReadFile("../../config/azure/role.json")
	if err != nil {
		t.Fatal(err)
	}
	type document struct {
		Name                                               string
		IsCustom                                           bool
		Actions, NotActions, DataActions, AssignableScopes []string
	}
	var published document
	if err := json.Unmarshal(want, &published); err != nil {
		t.Fatal(err)
	}
	if r := nephele(t, "", "azure-role"); r.code != ExitDone || r.stdout != string(want) || !strings.Contains(r.err, "--subscription ID tells yours") {
		t.Errorf("exit %d, %s\n%s", r.code, r.err, r.stdout)
	}
	const id = "AAAAAAAA-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	at := "/subscriptions/" + strings.ToLower(id)
	run := func(note string, args ...string) document {
		t.Helper()
		r := nephele(t, "", append([]string{"azure-role"}, args...)...)
		var d document
		if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || r.code != ExitDone || (note == "") != (r.err == "") || !strings.Contains(r.err, note) {
			t.Fatalf("%q: exit %d, %v, %s\n%s", args, r.code, err, r.err, r.stdout)
		}
		return d
	}
	d := run("--resource-groups narrows it", "--subscription", id)
	if d.Name != published.Name || !d.IsCustom || !slices.Equal(d.Actions, published.Actions) || d.NotActions == nil || d.DataActions == nil ||
		!slices.Equal(d.AssignableScopes, []string{at}) {
		t.Errorf("%+v", d)
	}
	d = run("", "--subscription", id, "--resource-groups", "shop,Shop_(2).x", "--resource-groups", "SHOP", "--name", "Nephele shop")
	if d.Name != "Nephele shop" || !slices.Equal(d.Actions, published.Actions) ||
		!slices.Equal(d.AssignableScopes, []string{at + "/resourceGroups/shop", at + "/resourceGroups/Shop_(2).x"}) {
		t.Errorf("%+v", d)
	}
	d = run("", "--subscription", id, "--resource-groups", "shop", "--mode", "plan")
	if d.Name != "Nephele Plan" || len(d.Actions) < 6 || slices.ContainsFunc(d.Actions, func(a string) bool { return !strings.HasSuffix(a, "/read") }) {
		t.Errorf("%+v", d)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--subscription", ""}, "--subscription is empty; leave it out"},
		{[]string{"--subscription", id, "--resource-groups", ""}, "--resource-groups is empty; leave it out"},
		{[]string{"--subscription", id, "--resource-groups", "shop,"}, `--resource-groups "": want the names`},
		{[]string{"--subscription", id, "--name", ""}, "--name is empty; leave it out"},
		{[]string{"--resource-groups", "shop"}, "want --subscription, too"},
		{[]string{"--subscription", "shop"}, `--subscription "shop": want the id of a subscription`},
		{[]string{"--subscription", "00000000-0000-0000-0000-000000000000"}, "want the id of a subscription"},
		{[]string{"--subscription", id + "/.."}, "want the id of a subscription"},
		{[]string{"--subscription", id, "--resource-groups", "*"}, `--resource-groups "*": want the names`},
		{[]string{"--subscription", id, "--resource-groups", "a/b"}, "want the names"},
		{[]string{"--subscription", id, "--resource-groups", "shop."}, "want the names"},
		{[]string{"--subscription", id, "--resource-groups", strings.Repeat("a", 91)}, "want the names"},
		{[]string{"--subscription", id, "--name", "a\nb"}, `--name "a\nb": want at most 128`},
		{[]string{"--subscription", id, "--mode", "release"}, `--mode "release": want plan or enforce`},
		{[]string{"please"}, "please"},
	} {
		if r := nephele(t, "", append([]string{"azure-role"}, c.args...)...); r.code != ExitBadInput || r.stdout != "" || !strings.Contains(r.err, c.want) {
			t.Errorf("%q: exit %d, %s; want %s", c.args, r.code, r.err, c.want)
		}
	}
}
