package advisory

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	goodOSV = `{"schema_version":"1.7.0","id":"NEPHELE-2000-001","published":"2000-01-01T00:00:00Z","modified":"2000-01-02T00:00:00Z",
"summary":"A test","details":"Of the checks","severity":[{"type":"CVSS_V3","score":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"}],
"affected":[{"package":{"ecosystem":"Go","name":"github.com/nephele-io/nephele"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"1.2.3"}]}]}],
"references":[{"type":"FIX","url":"https://example.com/1"}]}`
	goodVEX = `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://example.com/vex/1","author":"a","timestamp":"2000-01-01T00:00:00Z","version":1,
"statements":[{"vulnerability":{"name":"GO-2000-1"},"products":[{"@id":"pkg:golang/github.com/nephele-io/nephele@v1.2.3"}],"status":"not_affected",
"justification":"vulnerable_code_not_in_execute_path"}]}`
)

// TestCheck: what scanners can read passes; each field that is missing or wrong is named.
func TestCheck(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ name, text, old, new, want string }{
		"nothing":            {"osv/README.txt", "", "", "", ""},
		"an advisory":        {"osv/NEPHELE-2000-001.json", goodOSV, "", "", ""},
		"a statement":        {"vex/one.json", goodVEX, "", "", ""},
		"another folder":     {"one.json", goodVEX, "", "", "want it in osv/ or vex/"},
		"another name":       {"osv/NEPHELE-2000-002.json", goodOSV, "", "", "name of the file"},
		"no JSON":            {"osv/NEPHELE-2000-001.json", "x", "", "", "invalid character"},
		"two objects":        {"osv/NEPHELE-2000-001.json", goodOSV + "{}", "", "", "something follows"},
		"an unknown field":   {"osv/NEPHELE-2000-001.json", goodOSV, `"summary"`, `"title":"x","summary"`, "unknown field"},
		"no severity":        {"osv/NEPHELE-2000-001.json", goodOSV, `CVSS:3.1`, `high`, "want a vector of CVSS"},
		"another module":     {"osv/NEPHELE-2000-001.json", goodOSV, `nephele-io/nephele"`, `nephele-io/other"`, "is not ours"},
		"a version with a v": {"osv/NEPHELE-2000-001.json", goodOSV, `1.2.3`, `v1.2.3`, "such as 1.2.3"},
		"no beginning":       {"osv/NEPHELE-2000-001.json", goodOSV, `{"introduced":"0"},`, ``, "where it was introduced"},
		"times turned round": {"osv/NEPHELE-2000-001.json", goodOSV, `2000-01-02`, `1999-01-02`, "in this order"},
		"a plain address":    {"osv/NEPHELE-2000-001.json", goodOSV, `https://example`, `http://example`, "https URL"},
		"no statement":       {"vex/one.json", goodVEX, goodVEX[strings.Index(goodVEX, `[{"vuln`):], `[]}`, "at least one"},
		"no reason":          {"vex/one.json", goodVEX, `vulnerable_code_not_in_execute_path`, `trust me`, "justification"},
		"an unknown status":  {"vex/one.json", goodVEX, `not_affected`, `fine`, "status"},
		"another product":    {"vex/one.json", goodVEX, `pkg:golang`, `pkg:npm`, "product"},
		"nothing to do":      {"vex/one.json", goodVEX, `not_affected`, `affected`, "action_statement"},
	} {
		text := c.text
		if c.old != "" {
			if !strings.Contains(text, c.old) {
				t.Fatalf("%s: there is no %q", what, c.old)
			}
			text = strings.Replace(text, c.old, c.new, 1)
		}
		err := Check(fstest.MapFS{c.name: {Data: []byte(text)}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	if err := Check(os.DirFS("../../advisories")); err != nil {
		t.Error(err)
	}
}
