package record

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestParseConfirmed: what the annotation may say, and what becomes of what it may not.
func TestParseConfirmed(t *testing.T) {
	many := ""
	for i := range 6000 {
		many += fmt.Sprintf("eni-%d=sg-1;", i)
	}
	for name, c := range map[string]struct {
		text    string
		want    map[string][]string
		problem string
	}{
		"nothing":           {"", nil, ""},
		"one":               {"eni-1=sg-1", map[string][]string{"eni-1": {"sg-1"}}, ""},
		"several, in lines": {" eni-1 = sg-2, sg-1 ,sg-1;\n\neni-2=sg-3 sg-4\n;", map[string][]string{"eni-1": {"sg-1", "sg-2"}, "eni-2": {"sg-3", "sg-4"}}, ""},
		"no groups":         {"eni-1=;eni-2=sg-1", map[string][]string{"eni-2": {"sg-1"}}, `"eni-1=" is not INTERFACE=GROUP,GROUP`},
		"no interface":      {"=sg-1", nil, `"=sg-1" is not INTERFACE=GROUP,GROUP`},
		"no sense":          {"yes", nil, `"yes" is not INTERFACE=GROUP,GROUP`},
		"strange letters":   {"eni-1=sg-1\x1b[2J", nil, `"eni-1=sg-1\x1b[2J" is not INTERFACE=GROUP,GROUP`},
		"twice":             {"eni-1=sg-1;eni-1=sg-2", map[string][]string{"eni-1": {}}, "the interface eni-1 is named twice"},
	} {
		got, problem := ParseConfirmed(c.text)
		if d := gocmp.Diff(c.want, got); d != "" || problem != c.problem {
			t.Errorf("%s: problem %q (-want +got):\n%s", name, problem, d)
		}
	}
	if got, problem := ParseConfirmed(many); len(got) != 5000 || !strings.Contains(problem, "more than 5000") {
		t.Errorf("%d, %q", len(got), problem)
	}
}
