package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnswers: what programs read of these commands, field by field. A field that is renamed, lost
// or null where a list was breaks them. After a change that is meant: make screens, and look at the
// difference.
func TestAnswers(t *testing.T) {
	t.Parallel()
	estate := file(t, "estate.yaml", screenEstate)
	planned := strings.Replace(screenManifests, "  accountName: shop\n", "  accountName: shop\n  mode: plan\n", 1)
	for name, c := range map[string]struct {
		manifests string
		args      []string
	}{
		"explain-isolated": {screenManifests, []string{"explain", "--from", "203.0.113.7", "--to", "vm/shop/db-1", "--port", "22"}},
		"explain-allowed":  {screenManifests, []string{"explain", "--from", "vm/shop/web-1", "--to", "vm/shop/db-1", "--port", "5432"}},
		"explain-native":   {screenManifests, []string{"explain", "--from", "203.0.113.7", "--to", "vm/shop/web-1", "--port", "443"}},
		"explain-planned":  {planned, []string{"explain", "--from", "203.0.113.7", "--to", "vm/shop/db-1", "--port", "22"}},
		"explain-ping":     {screenManifests, []string{"explain", "--from", "vm/shop/db-1", "--to", "8.8.8.8", "--protocol", "ICMP"}},
		"reach":            {screenManifests, []string{"reach", "--to", "vm/shop/db-1"}},
		"reach-refused":    {screenManifests, []string{"reach", "--from", "shop/*", "--to", "any", "--refused", "--port", "53", "--protocol", "UDP"}},
		"rules":            {screenManifests, []string{"rules"}},
		"rules-of":         {screenManifests, []string{"rules", "--of", "vm/shop/db-1"}},
		"plan":             {screenManifests, []string{"plan"}},
		"plan-mode":        {planned, []string{"plan"}},
	} {
		r := nephele(t, c.manifests, append([]string{c.args[0], "-f", "-", "--snapshot", estate, "-o", "json"}, c.args[1:]...)...)
		if r.code != ExitDone && r.code != ExitNo {
			t.Errorf("%s: exit %d: %s", name, r.code, r.err)
			continue
		}
		path := filepath.Join("testdata", "answers", name+".json")
		if *updateScreens {
			if err := os.WriteFile(path, []byte(r.stdout), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if diff := cmp.Diff(string(want), r.stdout); err != nil || diff != "" {
			t.Errorf("%s (-want +got; if it is meant: make screens) %v\n%s", path, err, diff)
		}
	}
}
