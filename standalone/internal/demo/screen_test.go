package demo

import (
	"regexp"
	"strings"
	"testing"
)

// tellOn tells the same on a screen, and returns what was written and how often the teller paused.
func tellOn(s func(pause func()) screen) (string, int) {
	var b strings.Builder
	pauses := 0
	t := &teller{out: &b, screen: s(func() { pauses++ })}
	for range 3 {
		t.heading("A chapter")
		t.say("%s", strings.Repeat("word ", 60))
		t.result("ok", "%s", strings.Repeat("held ", 40))
		t.result("FAILED", "broken")
		t.print("  ~ " + strings.Repeat("interface ", 30))
	}
	return b.String(), pauses
}

// TestScreens: on a terminal the story takes its width between 80 and 120 columns, has colours
// unless somebody does not want them, and pauses between chapters; elsewhere it is plain lines
// without a pause.
func TestScreens(t *testing.T) {
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	env := func(key, value string) func(string) string {
		return func(k string) string {
			if k == key {
				return value
			}
			return ""
		}
	}
	longest := func(text string) (n int) {
		for line := range strings.Lines(escape.ReplaceAllString(text, "")) {
			n = max(n, len(line)-1)
		}
		return n
	}
	for name, c := range map[string]struct {
		columns   int
		env       func(string) string
		width     int
		colourful bool
	}{
		"narrow":    {40, env("", ""), 80, true},
		"80":        {80, env("", ""), 80, true},
		"100":       {100, env("", ""), 100, true},
		"200":       {200, env("", ""), 120, true},
		"not known": {0, env("", ""), 96, true},
		"NO_COLOR":  {80, env("NO_COLOR", "1"), 80, false},
		"dumb":      {80, env("TERM", "dumb"), 80, false},
	} {
		text, pauses := tellOn(func(pause func()) screen { return screenFor(c.columns, c.env, pause) })
		if n := longest(text); n > c.width || n < c.width-12 {
			t.Errorf("%s: the longest line has %d columns, want up to %d", name, n, c.width)
		}
		if escape.MatchString(text) != c.colourful || pauses != 2 {
			t.Errorf("%s: %d pauses, coloured %t", name, pauses, escape.MatchString(text))
		}
	}
	var log strings.Builder
	if s := screenOf(&log, env("", ""), nil); s.colours || s.pause != nil || s.columns() != width {
		t.Errorf("a log is taken for a terminal: %+v", s)
	}
}
