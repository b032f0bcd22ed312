package cli

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

var updateScreens = flag.Bool("update-screens", false, "write the golden screens anew")

const screenEstate = `
accounts:
- id: "111122223333"
  alias: shop
  regions:
  - name: eu-west-1
    vpcs:
    - name: shop
      cidrs: [10.1.0.0/16]
      groups:
      - {name: web, rules: ["tcp 443 from any", "tcp 22 from 10.1.9.0/24"]}
      - {name: db, rules: ["tcp 5432 from 10.1.0.0/16", "tcp 22 from 203.0.113.0/24", "tcp 22 from 10.1.9.10/32"]}
      vms:
      - {name: web-1, ip: 10.1.1.10, groups: [web], tags: {app: web}}
      - {name: web-2, ip: 10.1.1.11, groups: [web], tags: {app: web}}
      - {name: db-1, ip: 10.1.2.20, groups: [db], tags: {app: db}}
      - {name: bastion, ip: 10.1.9.10, groups: [web], tags: {app: bastion}}
`

const screenManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: shop, namespace: shop}
spec:
  awsConfig: {region: [eu-west-1], secretRef: {name: s, namespace: shop, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: all, namespace: shop}
spec:
  accountName: shop
  accountNamespace: shop
  vmSelector:
  - vmMatch: [{matchName: web-1}, {matchName: web-2}, {matchName: db-1}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: db-from-web, namespace: shop}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: db}}}]
  ingress:
  - {name: from-web, action: Allow, from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: web}}}], ports: [{port: 5432}]}
  - {name: metrics, action: Allow, from: [{ipBlock: {cidr: 10.1.0.0/16}}], ports: [{port: 9100}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: web-egress, namespace: shop}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: web}}}]
  egress:
  - {name: dns, action: Allow, to: [{ipBlock: {cidr: 10.1.0.2/32}}], ports: [{protocol: UDP, port: 53}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: dev-not-prod}
spec:
  tier: securityops
  priority: 1
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: db}}, namespaceSelector: {}}]
  ingress:
  - {name: dev, action: Drop, from: [{ipBlock: {cidr: 10.1.2.40/32}}]}
`

// TestScreens: what a person sees of these commands in windows of 80 and 200 columns, by heart.
// After a change that is meant: make screens, and look at the difference.
func TestScreens(t *testing.T) {
	t.Parallel()
	estate := file(t, "estate.yaml", screenEstate)
	run := func(want int, args ...string) string {
		t.Helper()
		r := nephele(t, screenManifests, append([]string{args[0], "-f", "-", "--snapshot", estate}, args[1:]...)...)
		if r.code != want {
			t.Errorf("nephele %v: exit %d, want %d: %s", args, r.code, want, r.err)
		}
		return r.stdout
	}
	planMode := func(manifests string) string {
		r := nephele(t, strings.Replace(manifests, "  accountName: shop\n", "  accountName: shop\n  mode: plan\n", 1), "plan", "-f", "-", "--snapshot", estate)
		return r.stdout
	}
	for name, text := range map[string]string{
		"plan":            run(ExitNo, "plan"),
		"plan-mode":       planMode(screenManifests),
		"explain":         run(ExitDone, "explain", "--from", "203.0.113.7", "--to", "vm/shop/db-1", "--port", "22"),
		"reach":           run(ExitDone, "reach", "--to", "vm/shop/db-1"),
		"rules":           run(ExitDone, "rules"),
		"rules-of":        run(ExitDone, "rules", "--of", "vm/shop/db-1"),
		"status":          strings.ReplaceAll(show.Status(someReport(), false, Version()), Version(), "VERSION"),
		"status-clusters": strings.ReplaceAll(show.Status(someSet(), true, Version()), Version(), "VERSION"),
	} {
		for suffix, columns := range map[string]int{"-80.golden": 80, "-200.golden": 200} {
			got := shown(t, text, columns)
			path := filepath.Join("testdata", "screens", name+suffix)
			if *updateScreens {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s is missing; write it with: make screens", path)
			}
			if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
				t.Errorf("%s (-want +got; if it is meant: make screens) %v\n%s", path, err, diff)
			}
		}
	}
}

// shown is a text in a window of so many columns. No line is longer, but for words that nobody can
// break.
func shown(t *testing.T, text string, columns int) string {
	t.Helper()
	var b strings.Builder
	w := terminal.NewWindow(&b, columns)
	for line := range strings.Lines(text) { // in pieces, as tables come
		for _, part := range []string{line[:len(line)/2], line[len(line)/2:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > columns && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	if words := strings.Join(strings.Fields(b.String()), " "); words != strings.Join(strings.Fields(text), " ") {
		t.Errorf("words are lost or come in another order:\n%s", b.String())
	}
	return b.String()
}
