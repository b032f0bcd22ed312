package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// TestLogLevel: what a running logger tells is changed, for the loggers made of it, too.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, level := NewLeveledLogger(&out, false)
	named := log.WithName("policy")
	told := func() string {
		out.Reset()
		for v := range 6 {
			named.V(v).Info("said", "at", v)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, line[strings.Index(line, "at=")+3:strings.Index(line, "at=")+4])
		}
		return strings.Join(got, "")
	}
	if got := told(); got != "0" || level.Verbosity() != 0 {
		t.Errorf("at first: %q at %d", got, level.Verbosity())
	}
	level.SetVerbosity(2)
	if got := told(); got != "012" || level.Verbosity() != 2 {
		t.Errorf("then: %q at %d", got, level.Verbosity())
	}
	level.SetVerbosity(0)
	if got := told(); got != "0" {
		t.Errorf("in the end: %q", got)
	}
	if _, level := NewLeveledLogger(&out, true); level.Verbosity() != 4 {
		t.Errorf("verbose is %d", level.Verbosity())
	}
}
