package progress

import (
	"strings"
	"testing"
	"time"
)

// play runs a program of one quick and one slow step of 31.5 s, looking four times a second.
func play(terminal bool) string {
	var out strings.Builder
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newReporter(&out, terminal, func() time.Time { return now })
	pass := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(refresh)
			r.tick()
		}
	}
	pass(5 * time.Second)
	r.Step("quick")
	pass(750 * time.Millisecond)
	r.Step("slow")
	pass(31500 * time.Millisecond)
	r.Step("")
	pass(5 * time.Second)
	r.Step("")
	return out.String()
}

func TestLog(t *testing.T) {
	want := "slow ... 1s\nslow ... 16s\nslow ... 31s\nslow: done after 31.5s\n"
	if got := play(false); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTerminal(t *testing.T) {
	got := play(true)
	if strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\rslow: done after 31.5s\x1b[K\n") {
		t.Errorf("got %q, want one line that is rewritten", got)
	}
	for _, want := range []string{"\rslow ... 1s\x1b[K", "\rslow ... 2s\x1b[K", "\rslow ... 31s\x1b[K"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got %q, want %q in it once", got, want)
		}
	}
	if strings.Contains(got, "quick") {
		t.Errorf("got %q, which shows a quick step", got)
	}
}

func TestCloseEndsTheGoroutine(t *testing.T) {
	var out strings.Builder
	r := New(&out, false)
	r.Step("quick")
	r.Close()
	if out.Len() != 0 {
		t.Errorf("got %q for a quick step", out.String())
	}
}
