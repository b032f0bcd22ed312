package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ran is what a command line did.
type ran struct {
	code        int
	stdout, err string
}

// nephele runs a command line.
func nephele(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(t.Context(), args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return ran{code, out.String(), errs.String()}
}

// file writes a file and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHelpShowsAnExample(t *testing.T) {
	for _, c := range [][]string{{"policy", "compute"}, {"explain"}, {"version"}, {"controller"}, {"sim"}, {"plan"}, {"iam-policy"}} {
		r := nephele(t, "", append(c, "--help")...)
		if r.code != ExitDone || !strings.Contains(r.stdout, "Examples:") || !strings.Contains(r.stdout, "nephele "+strings.Join(c, " ")) {
			t.Errorf("nephele %v --help: exit %d, no example in\n%s%s", c, r.code, r.stdout, r.err)
		}
	}
}

func TestUnknownCommandLine(t *testing.T) {
	for _, c := range [][]string{{"nonsense"}, {"explain", "--nonsense"}, {"policy", "nonsense"}, {"version", "extra"}, {"version", "-o", "xml"}} {
		if r := nephele(t, "", c...); r.code != ExitBadInput || !strings.HasPrefix(r.err, "error: ") || r.stdout != "" {
			t.Errorf("nephele %v: exit %d, stdout %q, stderr %q", c, r.code, r.stdout, r.err)
		}
	}
}

func TestVersion(t *testing.T) {
	if r := nephele(t, "", "version"); r.code != ExitDone || !strings.HasPrefix(r.stdout, "nephele ") {
		t.Errorf("%+v", r)
	}
	if r := nephele(t, "", "version", "-o", "json"); r.code != ExitDone || !strings.Contains(r.stdout, `"version"`) {
		t.Errorf("%+v", r)
	}
}
