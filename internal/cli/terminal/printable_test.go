package terminal

import "testing"

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
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := PrintableLines("a\tb\n\x1bc\n"); got != "a\\tb\n\\x1bc\n" {
		t.Errorf("%q", got)
	}
}
