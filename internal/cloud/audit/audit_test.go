package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nephele-io/nephele/internal/cloud"
)

// writesUntilKilled, when set in the environment, makes the test binary write lines into the file
// of that name until it is killed.
const writesUntilKilled = "NEPHELE_TEST_WRITES_UNTIL_KILLED"

func TestMain(m *testing.M) {
	if file := os.Getenv(writesUntilKilled); file != "" {
		r, err := Open(Options{File: file, Log: logr.Discard(), Now: time.Now, Run: "child", ClusterID: "c"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for n := 1; ; n++ {
			end := r.Begin(cloud.Call{Name: "ModifyNetworkInterfaceAttribute", Objects: []string{fmt.Sprint("eni-", n)}})
			fmt.Println(n) // as the cloud would see the call now
			end(cloud.Outcome{})
		}
	}
	os.Exit(m.Run())
}

// logged collects what is logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func logger(l *logged) logr.Logger { return logr.FromSlogHandler(slog.NewTextHandler(l, nil)) }

// clock moves a second at every look.
func clock() func() time.Time {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	return func() time.Time { now = now.Add(time.Second); return now }
}

func read(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// TestLines: what a call leaves, in the file and in the log.
func TestLines(t *testing.T) {
	t.Parallel()
	file, said := filepath.Join(t.TempDir(), "logs", "audit.log"), &logged{}
	m := NewMetrics()
	r, err := Open(Options{ClusterID: "c", File: file, Log: logger(said), Now: clock(), Run: "run", Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	end := r.Begin(cloud.Call{Scope: cloud.Scope{Account: "vms/shop", Region: "eu-west-1"}, OwnerID: "123", Name: "ModifyNetworkInterfaceAttribute", Objects: []string{"eni-1"},
		Before: cloud.State{Groups: []string{"sg-1"}}, After: cloud.State{Groups: []string{"sg-2"}}, Policies: []string{"NetworkPolicy vms/db"}, Reason: "take over"})
	if all := read(t, file); len(all) != 1 || strings.Contains(said.String(), "begin") {
		t.Errorf("when it begins the file has %q, and the log %q", all, said)
	}
	end(cloud.Outcome{RequestID: "r-1"})
	end = r.Begin(cloud.Call{Name: "CreateSecurityGroup"})
	end(cloud.Outcome{Err: &cloud.Error{Class: cloud.Unavailable, Err: errors.New("connection reset")}})
	end = r.Begin(cloud.Call{Name: "DeleteSecurityGroup"})
	end(cloud.Outcome{Err: &cloud.Error{Class: cloud.Conflict, Code: "DependencyViolation", Err: errors.New("in use")}, RequestID: "r-2"})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{"time":"2026-11-22T10:00:01Z","phase":"begin","id":"run-1","cluster":"c","account":"vms/shop","owner":"123","region":"eu-west-1","call":"ModifyNetworkInterfaceAttribute","objects":["eni-1"],"before":{"groups":["sg-1"]},"after":{"groups":["sg-2"]},"policies":["NetworkPolicy vms/db"],"reason":"take over"}
{"time":"2026-11-22T10:00:02Z","phase":"end","id":"run-1","cluster":"c","account":"vms/shop","owner":"123","region":"eu-west-1","call":"ModifyNetworkInterfaceAttribute","objects":["eni-1"],"before":{"groups":["sg-1"]},"after":{"groups":["sg-2"]},"policies":["NetworkPolicy vms/db"],"reason":"take over","outcome":"ok","requestId":"r-1","milliseconds":1000}
{"time":"2026-11-22T10:00:03Z","phase":"begin","id":"run-2","cluster":"c","account":"","region":"","call":"CreateSecurityGroup","objects":[]}
{"time":"2026-11-22T10:00:04Z","phase":"end","id":"run-2","cluster":"c","account":"","region":"","call":"CreateSecurityGroup","objects":[],"outcome":"unknown","class":"Unavailable","error":"connection reset","milliseconds":1000}
{"time":"2026-11-22T10:00:05Z","phase":"begin","id":"run-3","cluster":"c","account":"","region":"","call":"DeleteSecurityGroup","objects":[]}
{"time":"2026-11-22T10:00:06Z","phase":"end","id":"run-3","cluster":"c","account":"","region":"","call":"DeleteSecurityGroup","objects":[],"outcome":"failed","class":"Conflict","code":"DependencyViolation","error":"in use","requestId":"r-2","milliseconds":1000}`
	var got []string
	for _, text := range read(t, file) {
		got = append(got, regexp.MustCompile(`,"by":\["controller"\]|,"chain":[^}]*`).ReplaceAllString(text, ""))
	}
	if d := gocmp.Diff(want, strings.Join(got, "")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := strings.Count(said.String(), "Cloud call"); n != 3 || !strings.Contains(said.String(), `\"requestId\":\"r-1\"`) {
		t.Errorf("%d calls are logged:\n%s", n, said)
	}
	if n := testutil.ToFloat64(m.lines.WithLabelValues("written")); n != 6 {
		t.Errorf("%v lines counted", n)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestOnlyTheLog: without a file the log has both lines.
func TestOnlyTheLog(t *testing.T) {
	t.Parallel()
	said := &logged{}
	r, err := Open(Options{Log: logger(said), Now: clock()})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin(cloud.Call{Name: "CreateTags"})(cloud.Outcome{})
	if s := said.String(); strings.Count(s, "phase=begin") != 1 || strings.Count(s, "phase=end") != 1 {
		t.Error(s)
	}
}

// TestStrangers: what strangers wrote has no control characters and no more than a bounded length,
// and lists are cut.
func TestStrangers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	r, err := Open(Options{File: file, Log: logr.Discard(), Now: clock()})
	if err != nil {
		t.Fatal(err)
	}
	evil := "x\n{\"phase\":\"end\"}\u2028\x1b[2J" + strings.Repeat("y", 1000)
	many := slices.Repeat([]string{evil}, 100_000)
	tags := map[string]map[string]string{}
	for i := range 5000 {
		tags[fmt.Sprint(i)] = map[string]string{evil: evil}
	}
	call := cloud.Call{
		Scope:    cloud.Scope{Account: evil, Region: evil},
		OwnerID:  evil,
		Name:     evil,
		Objects:  many,
		Before:   cloud.State{Name: evil, Groups: many, Rules: many, Tags: tags},
		After:    cloud.State{Tags: map[string]map[string]string{evil: {evil: evil}}},
		Policies: many,
		Reason:   evil,
	}
	r.Begin(call)(cloud.Outcome{RequestID: evil, Created: evil, Err: &cloud.Error{Code: evil, Err: errors.New(evil)}})
	all := read(t, file)
	if len(all) != 2 {
		t.Fatalf("%d lines", len(all))
	}
	for _, text := range all {
		if len(text) > 5<<20 || strings.ContainsAny(strings.TrimSuffix(text, "\n"), "\n\x1b\u2028") {
			t.Errorf("a line of %d bytes: %.300q", len(text), text)
		}
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Policies[maxPolicies] != "and 99980 more" || len(l.Before.Tags) != maxListed {
			t.Errorf("%d policies, %d tags", len(l.Policies), len(l.Before.Tags))
		}
	}
}

// brokenFile is a file on a disk that fills up.
type brokenFile struct {
	bytes.Buffer
	room int
}

func (f *brokenFile) Write(p []byte) (int, error) {
	if len(p) > f.room {
		n, _ := f.Buffer.Write(p[:f.room])
		f.room = 0
		return n, errors.New("no space left on device")
	}
	f.room -= len(p)
	return f.Buffer.Write(p)
}

func (f *brokenFile) Close() error { return nil }

// TestDiskFull: what cannot be written is said loudly and once, and counted; the log has the lines
// instead; and when there is room again a line that was cut off spoils no other.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	said, m := &logged{}, NewMetrics()
	r, err := Open(Options{Log: logger(said), Now: clock(), Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	f := &brokenFile{room: 1 << 20}
	r.file = f
	r.Begin(cloud.Call{Name: "First"})(cloud.Outcome{})
	f.room = 30
	r.Begin(cloud.Call{Name: "Second"})(cloud.Outcome{})
	r.Begin(cloud.Call{Name: "Third"})(cloud.Outcome{})
	f.room = 1 << 20
	r.Begin(cloud.Call{Name: "Fourth"})(cloud.Outcome{})
	seen := map[string]int{}
	torn := 0
	for _, text := range strings.Split(strings.TrimSpace(f.String()), "\n") {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			torn++
			continue
		}
		seen[l.Call]++
	}
	if d := gocmp.Diff(map[string]int{"First": 2, "Fourth": 2}, seen); d != "" || torn != 1 {
		t.Errorf("%d torn lines (-want +got):\n%s\n%s", torn, d, f)
	}
	s := said.String()
	if strings.Count(s, "CANNOT BE WRITTEN") != 1 || strings.Count(s, "can be written again") != 1 || strings.Count(s, "call=Third") != 2 {
		t.Error(s)
	}
	if n := testutil.ToFloat64(m.lines.WithLabelValues("failed")); n != 4 {
		t.Errorf("%v lines counted as failed", n)
	}
}

// TestUnusableFile: a file that cannot be opened is told at once.
func TestUnusableFile(t *testing.T) {
	t.Parallel()
	if r, err := Open(Options{File: t.TempDir(), Log: logr.Discard(), Now: time.Now}); err == nil {
		t.Error("a directory is no file", r)
	}
}

// TestRotated: the files stay within their bounds.
func TestRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Open(Options{File: filepath.Join(dir, "audit.log"), Megabytes: 1, Old: 2, Log: logr.Discard(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	call := cloud.Call{Name: "CreateTags", Objects: slices.Repeat([]string{strings.Repeat("x", 200)}, 2000)}
	for range 10 {
		r.Begin(call)(cloud.Outcome{})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// Old files are removed in the background.
	var sizes map[string]int64
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		sizes = map[string]int64{}
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				sizes[f.Name()] = info.Size()
				if info.Mode().Perm() != 0o600 {
					t.Errorf("%s has the mode %v", f.Name(), info.Mode())
				}
			}
		}
		if len(sizes) <= 3 {
			break
		}
	}
	if len(sizes) != 3 {
		t.Errorf("files %v", slices.Sorted(maps.Keys(sizes)))
	}
	for name, size := range sizes {
		if size > 1<<20 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

// TestKilled: of a process that is killed, every call that it was about to send has its line, and
// the next process goes on after it.
func TestKilled(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	sent := 0
	for range 3 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), writesUntilKilled+"="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for lines := bufio.NewScanner(out); lines.Scan(); n++ {
			if n == 1000 {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
		_ = cmd.Wait()
		if n < 1000 {
			t.Fatalf("only %d calls were sent", n)
		}
		sent += n
	}
	begun, broken := 0, 0
	for _, text := range read(t, file) {
		var l line
		switch err := json.Unmarshal([]byte(text), &l); {
		case err != nil:
			broken++
		case l.Phase == phaseBegin:
			begun++
		}
	}
	if begun < sent || broken > 3 {
		t.Errorf("%d calls were sent, %d lines say so; %d lines are broken", sent, begun, broken)
	}
}

func BenchmarkLine(b *testing.B) {
	r, err := Open(Options{File: filepath.Join(b.TempDir(), "audit.log"), Log: logger(&logged{}), Now: time.Now, Run: "run"})
	if err != nil {
		b.Fatal(err)
	}
	call := cloud.Call{Scope: cloud.Scope{Account: "vms/shop", Region: "eu-west-1"}, OwnerID: "123456789012", Name: "ModifyNetworkInterfaceAttribute",
		Objects: []string{"eni-0123456789abcdef0"}, Before: cloud.State{Groups: []string{"sg-0123456789abcdef0"}}, After: cloud.State{Groups: []string{"sg-0123456789abcdef1"}},
		Policies: []string{"NetworkPolicy vms/db-from-app"}, Reason: "take over"}
	for b.Loop() {
		r.Begin(call)(cloud.Outcome{RequestID: "00000000-0000-4000-8000-000000000001"})
	}
}
