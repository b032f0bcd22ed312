package cli

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"web-1 (é, 網, \\, \"q\")": "web-1 (é, 網, \\, \"q\")",
		"a\tb":                    `a\tb`,
		"\x1b[31mred\x1b]0;x\x07": `\x1b[31mred\x1b]0;x\a`,
		"two\nlines\r":            `two\nlines\r`,
		"bad \xff\xfe utf-8":      `bad \xff\xfe utf-8`,
		"turned \u202e round":     `turned \u202e round`,
		"\u009b31m, \u2028":       `\u009b31m, \u2028`,
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := printableLines("a\tb\n\x1bc\n"); got != "a\\tb\n\\x1bc\n" {
		t.Errorf("%q", got)
	}
}

// TestPlanOfNamesThatPlayWithTheTerminal: what others call their machines is shown, and does
// nothing.
func TestPlanOfNamesThatPlayWithTheTerminal(t *testing.T) {
	estate := strings.Replace(shopEstate, "name: web-1,", `name: "we\tb\u009b2J\nregion faked",`, 1)
	r := nephele(t, shopManifests, "plan", "-f", "-", "--snapshot", file(t, "estate.yaml", estate))
	if r.code != ExitNo || !strings.Contains(r.stdout, `we\tb\u009b2J\nregion faked`) {
		t.Errorf("%+v", r)
	}
	if all := r.stdout + r.err; strings.ContainsAny(all, "\t\u009b\r") || strings.Contains(all, "\nregion faked") {
		t.Errorf("%q", all)
	}
}
