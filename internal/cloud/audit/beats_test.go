package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
)

// beatLab is a record with a clock that is set by hand.
type beatLab struct {
	*testing.T
	*Record
	file     string
	now      time.Time
	sequence int
}

func newBeatLab(t *testing.T) *beatLab {
	l := &beatLab{T: t, file: filepath.Join(t.TempDir(), "audit.log"), now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	var err error
	if l.Record, err = Open(Options{File: l.file, Log: logr.Discard(), Now: func() time.Time { return l.now }, Run: "run"}); err != nil {
		t.Fatal(err)
	}
	return l
}

// marking is the call that marks networks.
func (l *beatLab) marking(epoch string, ids ...string) cloud.Call {
	l.sequence++
	c := cloud.Call{Scope: cloud.Scope{Account: "vms/shop", Region: "eu-west-1"}, Name: "CreateTags", Objects: ids, After: cloud.State{Tags: map[string]map[string]string{}}}
	for _, id := range ids {
		c.After.Tags[id] = map[string]string{cloud.TagInstance: fmt.Sprintf("%s %d 10s", epoch, l.sequence)}
	}
	return c
}

// beat lets calls end, ten seconds apart.
func (l *beatLab) beat(n int, c func() cloud.Call, err *cloud.Error) {
	for range n {
		l.Begin(c())(cloud.Outcome{Err: err})
		l.now = l.now.Add(10 * time.Second)
	}
}

// lines returns the lines of the file in short: phase, outcome, heartbeats left out.
func (l *beatLab) lines() (out []string) {
	l.Helper()
	for _, text := range read(l.T, l.file) {
		var x line
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			l.Fatalf("%q: %v", text, err)
		}
		out = append(out, fmt.Sprintf("%s %s %s %d", x.Phase, x.Outcome, x.Code, x.Beats))
	}
	return out
}

func (l *beatLab) are(want ...string) {
	l.Helper()
	if d := gocmp.Diff(want, l.lines()); d != "" {
		l.Fatalf("(-want +got):\n%s", d)
	}
}

// TestHeartbeats: of heartbeats there is the first, each that ends otherwise than the one before,
// and a count every hour and in the end.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	l := newBeatLab(t)
	mine := func() cloud.Call { return l.marking("abc", "vpc-1", "vpc-2") }
	l.beat(360, mine, nil) // an hour
	want := []string{"begin   0", "end ok  0"}
	l.are(want...)
	l.beat(2, mine, nil)
	want = append(want, "begin   0", "end ok  359")
	l.are(want...)
	denied := &cloud.Error{Class: cloud.Auth, Code: "UnauthorizedOperation", Err: errors.New("no")}
	l.beat(3, mine, denied)
	want = append(want, "begin   0", "end failed UnauthorizedOperation 1")
	l.are(want...)
	l.beat(1, mine, nil)
	want = append(want, "begin   0", "end ok  2")
	l.are(want...)
	l.beat(2, func() cloud.Call { return l.marking("other", "vpc-1", "vpc-2") }, nil)
	want = append(want, "begin   0", "end ok  0")
	l.are(want...)
	l.beat(2, func() cloud.Call { return l.marking("other", "vpc-1") }, nil)
	want = append(want, "begin   0", "end ok  0")
	l.are(want...)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.are(append(want, "end ok  0", "end ok  0")...) // the two that were left out, in either order
}

// TestNothingElseIsLeftOut: whatever is more or something else than a heartbeat has its two lines,
// however often it is repeated.
func TestNothingElseIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*cloud.Call){
		"another tag":        func(c *cloud.Call) { c.After.Tags["vpc-1"] = map[string]string{cloud.TagClaim: "c"} },
		"one tag more":       func(c *cloud.Call) { c.After.Tags["vpc-1"][cloud.TagClaim] = "c" },
		"another object":     func(c *cloud.Call) { c.After.Tags["eni-1"] = map[string]string{"a": "b"} },
		"an object untold":   func(c *cloud.Call) { c.Objects = append(c.Objects, "eni-1") },
		"the mark taken off": func(c *cloud.Call) { c.Name = "DeleteTags" },
		"for a policy":       func(c *cloud.Call) { c.Policies = []string{"NetworkPolicy a/b"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newBeatLab(t)
			l.beat(5, func() cloud.Call {
				c := l.marking("abc", "vpc-1")
				change(&c)
				return c
			}, nil)
			if n := len(l.lines()); n != 10 {
				t.Errorf("%d lines", n)
			}
		})
	}
}

// TestPulsesAreBounded: instances that come and go do not fill the memory, and what was left out of
// them is told.
func TestPulsesAreBounded(t *testing.T) {
	t.Parallel()
	l := newBeatLab(t)
	for i := range 20 {
		l.beat(2, func() cloud.Call { return l.marking(fmt.Sprint("epoch", i), "vpc-1") }, nil)
		l.now = l.now.Add(time.Hour)
	}
	if n := len(l.pulses); n > 3 {
		t.Errorf("%d are kept", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.lines()); n != 3*20 {
		t.Errorf("%d lines", n)
	}
}
