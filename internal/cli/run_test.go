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
	for _, c := range [][]string{{"policy", "compute"}, {"explain"}, {"version"}, {"controller"}, {"sim"}, {"plan"}, {"iam-policy"}, {"azure-role"}, {"reach"}, {"rules"}, {"test"}} {
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

// TestTyposAreUnderstood: an error about an unknown command or flag names the one that is alike.
func TestTyposAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"plam"}, `unknown command "plam" for "nephele"; did you mean plan?`},
		{[]string{"plan", "--snapshto", "x"}, `unknown flag: --snapshto; did you mean --snapshot?`},
		{[]string{"plan", "--nothing-like-it"}, "unknown flag: --nothing-like-it"},
		{[]string{"policy", "computed"}, `unknown command "computed" for "nephele policy"; did you mean compute?`},
		{[]string{"xyzzy"}, `unknown command "xyzzy" for "nephele"`},
	} {
		if r := nephele(t, "", c.args...); r.code != ExitBadInput || r.err != "error: "+c.want+"\n" {
			t.Errorf("nephele %v: exit %d, %q, want %q", c.args, r.code, r.err, c.want)
		}
	}
}

// TestNoKubeconfig: without any the way to one is told.
func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, c := range [][]string{{"plan"}, {"explain", "--from", "a/b", "--to", "a/c", "--protocol", "TCP", "--port", "1"}, {"controller"}, {"reach", "--to", "any"}, {"rules"}} {
		if r := nephele(t, "", c...); r.code != ExitBadInput || !strings.Contains(r.err, "no kubeconfig is found: give --kubeconfig FILE") {
			t.Errorf("nephele %v: exit %d, %q", c, r.code, r.err)
		}
	}
}

func TestVersion(t *testing.T) {
	if r := nephele(t, "", "--version"); r.code != ExitDone || r.stdout != nephele(t, "", "version").stdout {
		t.Errorf("%+v", r)
	}
	if r := nephele(t, "", "version"); r.code != ExitDone || !strings.HasPrefix(r.stdout, "nephele ") {
		t.Errorf("%+v", r)
	}
	if r := nephele(t, "", "version", "-o", "json"); r.code != ExitDone || !strings.Contains(r.stdout, `"version"`) {
		t.Errorf("%+v", r)
	}
}
