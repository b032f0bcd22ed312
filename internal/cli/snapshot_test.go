package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// copyOfRealAccount copies the dump of the real account, for changes.
func copyOfRealAccount(t *testing.T) (dir string, path func(name string) string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(previewtest.HybridCloud)); err != nil {
		t.Fatal(err)
	}
	return dir, func(name string) string { return filepath.Join(dir, "us-west-2", name) }
}

// edit changes the JSON of a file.
func edit(t *testing.T, path string, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]any{}
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	change(members)
	if text, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// referToList makes a group of the dump refer to a prefix list.
func referToList(t *testing.T, path, id string) {
	edit(t, path, func(m map[string]any) {
		group := m["SecurityGroups"].([]any)[0].(map[string]any)
		group["IpPermissions"] = append(group["IpPermissions"].([]any), map[string]any{
			"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "PrefixListIds": []any{map[string]any{"PrefixListId": id}},
		})
	})
}

// TestPlanOfAnIncompleteSnapshot: what is not in it and makes a difference is asked for, not made
// up.
func TestPlanOfAnIncompleteSnapshot(t *testing.T) {
	remove := func(name string) func(*testing.T, func(string) string) {
		return func(t *testing.T, path func(string) string) {
			if err := os.Remove(path(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, path func(string) string)
		want   []string
	}{
		"no peerings":   {remove("VpcPeeringConnections.json"), []string{"us-west-2: VpcPeeringConnections: ", "describe-vpc-peering-connections"}},
		"no groups":     {remove("SecurityGroups.json"), []string{"us-west-2: SecurityGroups: ", "describe-security-groups"}},
		"no interfaces": {remove("NetworkInterfaces.json"), []string{"us-west-2: NetworkInterfaces: ", "describe-network-interfaces"}},
		"no instances":  {remove("Reservations.json"), []string{"us-west-2: Reservations: ", "describe-instances"}},
		"no subnets":    {remove("Subnets.json"), []string{"us-west-2: Subnets: "}},
		"no VPCs":       {remove("Vpcs.json"), []string{"us-west-2: Vpcs: "}},
		"no lists though a rule refers to one": {func(t *testing.T, path func(string) string) {
			remove("PrefixLists.json")(t, path)
			referToList(t, path("SecurityGroups.json"), "pl-68a54001")
		}, []string{"us-west-2: PrefixLists: ", "describe-managed-prefix-lists"}},
		"another list than the rule refers to": {func(t *testing.T, path func(string) string) {
			referToList(t, path("SecurityGroups.json"), "pl-0123456789abcdef0")
		}, []string{"PrefixLists.json: pl-0123456789abcdef0: ", "expected the list with its entries, because group sg-"}},
		"a list without its entries": {func(t *testing.T, path func(string) string) {
			referToList(t, path("SecurityGroups.json"), "pl-68a54001")
			edit(t, path("PrefixLists.json"), func(m map[string]any) { delete(m["PrefixLists"].([]any)[0].(map[string]any), "Cidrs") })
		}, []string{"PrefixLists.json: pl-68a54001: ", "get-managed-prefix-list-entries --prefix-list-id pl-68a54001"}},
		"some of the groups": {func(t *testing.T, path func(string) string) {
			edit(t, path("SecurityGroups.json"), func(m map[string]any) { m["SecurityGroups"] = m["SecurityGroups"].([]any)[:1] })
		}, []string{"SecurityGroups.json: sg-", "expected this group with its rules, because "}},
		"the first page": {func(t *testing.T, path func(string) string) {
			edit(t, path("SecurityGroups.json"), func(m map[string]any) { m["NextToken"] = "more" })
		}, []string{"SecurityGroups.json: NextToken: ", "expected all pages in one file"}},
	} {
		dir, path := copyOfRealAccount(t)
		c.change(t, path)
		r := nephele(t, previewtest.HybridManifests+"---"+previewtest.SSHPolicy, "plan", "-f", "-", "--snapshot", dir)
		if r.code != ExitBadInput || r.stdout != "" || !strings.HasPrefix(r.err, "error: --snapshot") {
			t.Errorf("%s: %+v", name, r)
		}
		for _, want := range c.want {
			if !strings.Contains(r.err, want) {
				t.Errorf("%s: no %q in %s", name, want, r.err)
			}
		}
	}
}

// TestPlanSaysWhatTheSnapshotNeedNotTell: in the first line, and in a member of the JSON.
func TestPlanSaysWhatTheSnapshotNeedNotTell(t *testing.T) {
	dir, path := copyOfRealAccount(t)
	if err := os.Remove(path("PrefixLists.json")); err != nil {
		t.Fatal(err)
	}
	edit(t, path("Subnets.json"), func(m map[string]any) { m["NextToken"] = nil })
	edit(t, path("Vpcs.json"), func(m map[string]any) { m["NextToken"] = "" })
	r := nephele(t, previewtest.HybridManifests+"---"+previewtest.SSHPolicy, "plan", "-f", "-", "--snapshot", dir)
	if first, _, _ := strings.Cut(r.stdout, "\n"); r.code != ExitNo || !strings.HasPrefix(first, "# the snapshot is incomplete: ") ||
		!strings.HasSuffix(first, "us-west-2: no PrefixLists: taken as no prefix list, as no rule refers to one") {
		t.Errorf("%+v", r)
	}
	var got struct{ Incomplete []string }
	r = nephele(t, previewtest.HybridManifests+"---"+previewtest.SSHPolicy, "plan", "-f", "-", "--snapshot", dir, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Incomplete) != 1 {
		t.Errorf("%v: %+v", err, r)
	}
	if r := nephele(t, previewtest.HybridManifests+"---"+previewtest.SSHPolicy, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud); strings.Contains(r.stdout, "incomplete") {
		t.Errorf("a whole snapshot: %+v", r)
	}
}

// TestPlanOfPublishedAccounts: the accounts as their publishers left them can be planned for, and
// what they lack is named.
func TestPlanOfPublishedAccounts(t *testing.T) {
	manifests := func(region string) string {
		return strings.NewReplacer("eu-west-1", region, "vmMatch: [{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}]", "vpcMatch: {matchName: none}").
			Replace(previewtest.SmallShopManifests)
	}
	for snapshot, c := range map[string]struct {
		region string
		lacks  []string
	}{
		previewtest.HybridCloud:                 {"us-west-2", nil},
		"../../testdata/aws/web-tier":           {"us-east-1", []string{"PrefixLists"}},
		"../../testdata/aws/collector-sg1.json": {"eu-north-1", []string{"NetworkInterfaces", "VpcPeeringConnections", "PrefixLists"}},
	} {
		r := nephele(t, manifests(c.region), "plan", "-f", "-", "--snapshot", snapshot)
		first, _, _ := strings.Cut(r.stdout, "\n")
		if r.code != ExitDone || strings.HasPrefix(first, "# the snapshot is incomplete: ") != (len(c.lacks) > 0) {
			t.Errorf("%s: %+v", snapshot, r)
		}
		for _, member := range c.lacks {
			if !strings.Contains(first, " no "+member+": taken as ") {
				t.Errorf("%s: no word of %s in %q", snapshot, member, first)
			}
		}
	}
}

const twoAccounts = `
accounts:
- {id: "111122223333", alias: a, regions: [{name: eu-west-1, vpcs: [{name: shop, cidrs: [10.1.0.0/16]}]}]}
- {id: "444455556666", alias: b, regions: [{name: eu-west-2, vpcs: [{name: ops, cidrs: [10.2.0.0/16]}]}]}
`

// TestPlanFindsTheAccount: by its alias or number; the only one whatever it is called, which is
// told; and never just any.
func TestPlanFindsTheAccount(t *testing.T) {
	named := func(name, region string) string {
		return strings.NewReplacer("{name: a, namespace: vms}", "{name: "+name+", namespace: vms}", "accountName: a\n", "accountName: "+name+"\n", "eu-west-1", region).
			Replace(previewtest.SmallShopManifests)
	}
	two, one := file(t, "two.yaml", twoAccounts), file(t, "one.yaml", previewtest.SmallShop)
	for name, c := range map[string]struct {
		manifests, snapshot string
		code                int
		says                string
	}{
		"by alias":       {named("b", "eu-west-2"), two, ExitDone, ""},
		"by number":      {named("'444455556666'", "eu-west-2"), two, ExitDone, ""},
		"neither":        {named("c", "eu-west-1"), two, ExitBadInput, "it has the accounts 111122223333 a, 444455556666 b, and none whose number or alias is c"},
		"the only one":   {named("c", "eu-west-1"), one, ExitNo, "account vms/c is taken for 111122223333, the only account there"},
		"another region": {named("b", "eu-west-1"), two, ExitBadInput, "region eu-west-1 is not in it: spec.awsConfig.region of the account must be of eu-west-2"},
	} {
		r := nephele(t, c.manifests, "plan", "-f", "-", "--snapshot", c.snapshot)
		if r.code != c.code || !strings.Contains(r.err, c.says) || c.says == "" && r.err != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestPlanWarnsOfAnnotations: what an annotation asks for is not left undone in silence.
func TestPlanWarnsOfAnnotations(t *testing.T) {
	r := planShop(t, strings.Replace(previewtest.SmallShopManifests, "{name: web, namespace: vms}", "{name: web, namespace: vms, annotations: {nephele.io/on-refusal: tighten}}", 1))
	if r.code != ExitNo || !strings.Contains(r.err, `vms/web: metadata.annotations[nephele.io/on-refusal]: "tighten" has no effect any more: `) {
		t.Errorf("%+v", r)
	}
}
