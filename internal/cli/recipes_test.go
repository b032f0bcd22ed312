package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview"
)

// recipes are the policies of docs/examples/recipes by the names of their files, and the estate
// that they are tried on. docs/reference/recipes.md links to each.
func recipes(t *testing.T) (all map[string]string, estate string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../docs/examples/recipes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		all[name] = string(text)
		if !strings.Contains(string(page), "(../examples/recipes/"+name+".yaml)") {
			t.Errorf("docs/reference/recipes.md does not name %s", name)
		}
	}
	estate = all["estate"]
	delete(all, "estate")
	if len(all) < 20 || estate == "" {
		t.Fatalf("%d recipes, an estate of %d bytes", len(all), len(estate))
	}
	return all, estate
}

// TestRecipes: every policy of the recipes is accepted, applies to somebody, looks like no mistake,
// and opens and closes what it says.
func TestRecipes(t *testing.T) {
	all, estate := recipes(t)
	line := regexp.MustCompile(`^# (open|closed): (\S+) -> (\S+) (tcp|udp|icmp)(?: (\d+))?$`)
	for title, manifests := range all {
		t.Run(title, func(t *testing.T) {
			input := file(t, "recipe.yaml", estate+"---\n"+manifests)
			r := nephele(t, "", "policy", "compute", "-f", input, "-o", "json")
			var computed struct {
				NetworkPolicies []struct{ AppliedToGroups []string }
				AppliedToGroups []struct {
					GroupMembers []any
				}
				Rejected []any
			}
			if err := json.Unmarshal([]byte(r.stdout), &computed); err != nil || r.code != ExitDone || len(computed.Rejected) > 0 || len(computed.NetworkPolicies) == 0 {
				t.Fatalf("%v: %+v", err, r)
			}
			for _, g := range computed.AppliedToGroups {
				if len(g.GroupMembers) == 0 {
					t.Error("a policy applies to nobody")
				}
			}
			in, err := preview.LoadInputs([]string{input}, strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range in.Mistakes() {
				// What is meant for everybody is a warning, which its author tolerates.
				if public := title == "web-for-all" || title == "closed"; !public || w.Reason != "OpensToInternet" {
					t.Errorf("%s: %s", w.Reason, w.Message)
				}
			}
			tried := map[string]int{}
			_, manifests, _ := strings.Cut(manifests, "\napiVersion: ") // before it stand what it is and what to know of it
			for text := range strings.Lines(manifests) {
				if !strings.HasPrefix(text, "# ") {
					continue
				}
				m := line.FindStringSubmatch(strings.TrimSpace(text))
				if m == nil {
					t.Errorf("%q is not understood", text)
					continue
				}
				end := func(s string) string {
					if strings.ContainsAny(s, ".:") {
						return s
					}
					return "shop/" + s
				}
				args := []string{"explain", "-f", input, "--from", end(m[2]), "--to", end(m[3]), "--protocol", m[4], "-o", "json"}
				if m[5] != "" {
					args = append(args, "--port", m[5])
				}
				r := nephele(t, "", args...)
				var got struct{ Verdict string }
				if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
					t.Fatalf("%s: %v: %+v", text, err, r)
				}
				if closed := got.Verdict == "Drop" || got.Verdict == "Reject"; closed != (m[1] == "closed") {
					t.Errorf("%s: the verdict is %s: %s", strings.TrimSpace(text), got.Verdict, r.stdout)
				}
				tried[m[1]]++
			}
			if tried["open"] == 0 || tried["closed"] == 0 {
				t.Errorf("it does not say what is open and what is closed: %v", tried)
			}
		})
	}
}
