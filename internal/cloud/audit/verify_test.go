package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/internal/cloud"
)

// book is the files of a record, oldest first: what a Verifier is given.
type book [][]string

func (b book) clone() book {
	out := make(book, len(b))
	for i, f := range b {
		out[i] = slices.Clone(f)
	}
	return out
}

func (b book) verify(t *testing.T, known ...string) Evidence {
	t.Helper()
	var v Verifier
	for i, f := range b {
		if err := v.File(fmt.Sprint("file", i), strings.NewReader(strings.Join(f, ""))); err != nil {
			t.Fatal(err)
		}
	}
	return v.Verify(known...)
}

// each calls with every line that there is.
func (b book) each(call func(file, at int)) {
	for i := range b {
		for j := range b[i] {
			call(i, j)
		}
	}
}

// process writes lines of one process into a file.
func process(t *testing.T, file, run string, calls int) {
	t.Helper()
	r, err := Open(Options{ClusterID: "c", File: file, Log: logr.Discard(), Now: clock(), Run: run})
	if err != nil {
		t.Fatal(err)
	}
	for n := range calls {
		c := cloud.Call{Scope: cloud.Scope{Account: "vms/shop", Region: "eu-west-1"}, Name: "ModifyNetworkInterfaceAttribute", Objects: []string{fmt.Sprint("eni-", n)},
			Before: cloud.State{Groups: []string{"sg-1"}}, After: cloud.State{Tags: map[string]map[string]string{"b": {"k": "<v>&"}, "a": {"k": "ü\u2028"}}},
			Policies: []string{"NetworkPolicy vms/db"}, By: []string{"jane"}}
		r.Begin(c)(cloud.Outcome{RequestID: fmt.Sprint("r-", n)})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// written is a record of three processes in three files: the first file was rotated away in the
// middle of the first process, the second process was killed in the middle of a line.
func written(t *testing.T) book {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	process(t, file, "one", 4)
	lines := read(t, file)
	older := lines[:3]
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(dir, "audit-2026-11-22T10-00-00.000.log")
	must(os.WriteFile(old, []byte(strings.Join(older, "")), 0o600))
	must(os.WriteFile(file, []byte(strings.Join(lines[3:], "")+"\n"), 0o600))
	process(t, file, "two", 3)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.WriteString(`{"time":"2026-11-22T10:0`)
	must(err)
	must(f.Close())
	must(os.Rename(file, filepath.Join(dir, "audit-2026-11-22T11-00-00.000.log")))
	process(t, file, "three", 2) // finds the end of the one before in the old file
	var out book
	names, err := files(file)
	must(err)
	for _, n := range names {
		raw, err := os.ReadFile(n)
		must(err)
		out = append(out, strings.SplitAfter(string(raw), "\n"))
		if last := len(out) - 1; out[last][len(out[last])-1] == "" {
			out[last] = out[last][:len(out[last])-1]
		}
	}
	return out
}

// TestVerify: what nobody has touched holds, over rotation, restarts and a crash within a line.
func TestVerify(t *testing.T) {
	t.Parallel()
	b := written(t)
	e := b.verify(t)
	if len(e.Faults) > 0 || e.Lines != 18 || len(e.Chains) != 3 || len(e.Remarks) != 1 || !strings.Contains(e.Remarks[0], "no whole line") {
		t.Errorf("%+v", e)
	}
	if last := e.Chains[2]; last.Process != "three" || last.Last != 4 || len(b.verify(t, last.Hash).Faults) > 0 {
		t.Errorf("the last one is %+v", last)
	}
	// Without the oldest file: told, and no fault, for rotation takes files away.
	if e := b[1:].verify(t); len(e.Faults) > 0 || !strings.Contains(strings.Join(e.Remarks, " "), "lines one:1 to 3 are not here") {
		t.Errorf("without the oldest: %+v", e)
	}
	if e := b[2:].verify(t); len(e.Faults) > 0 || !strings.Contains(strings.Join(e.Remarks, " "), "what was before process three, up to line two:6") {
		t.Errorf("the last alone: %+v", e)
	}
}

// TestStandby: a process that has opened the file long before its first line, as one does that
// stands by, follows the line that is the last one then, also if that is torn.
func TestStandby(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	process(t, file, "one", 1)
	standby, err := Open(Options{File: file, Log: logr.Discard(), Now: clock(), Run: "two"})
	if err != nil {
		t.Fatal(err)
	}
	process(t, file, "three", 2)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026-11-22T10:0`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	standby.Begin(cloud.Call{Name: "CreateTags"})(cloud.Outcome{})
	if err := standby.Close(); err != nil {
		t.Fatal(err)
	}
	var v Verifier
	if err := v.Files(file); err != nil {
		t.Fatal(err)
	}
	if e := v.Verify(); len(e.Faults) > 0 || e.Lines != 8 || len(e.Chains) != 3 || e.Chains[2].Process != "two" {
		t.Errorf("%+v", e)
	}
}

// rehashed is a line with a change, and with the hash that it should have.
func rehashed(t *testing.T, text string, change func(*line)) string {
	t.Helper()
	l, err := parse([]byte(strings.TrimSpace(text)))
	if err != nil {
		t.Fatal(err)
	}
	change(&l)
	if l.Hash, err = l.sum(); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}

// TestTampering: every line that is changed, removed, doubled, moved, forged or cut is found,
// whatever its place. What is cut off at the end is found by the hash of the last line, and what is
// cut off at the beginning is told.
func TestTampering(t *testing.T) {
	t.Parallel()
	whole := written(t)
	last := whole.verify(t).Chains[2].Hash
	whole.each(func(i, j int) {
		text := whole[i][j]
		if !strings.HasPrefix(text, `{"time"`) || !strings.HasSuffix(text, "}\n") {
			return // what a process left that was killed
		}
		at := fmt.Sprintf("file %d, line %d", i, j)
		first, end := i == 0 && j == 0, i == len(whole)-1 && j == len(whole[i])-1
		try := func(what string, change func(b book)) {
			b := whole.clone()
			change(b)
			if e := b.verify(t, last); len(e.Faults) == 0 {
				t.Errorf("%s: %s is not found; remarks %q", at, what, e.Remarks)
			}
		}
		for k := 0; k < len(text)-1; k += 5 { // any byte of it
			try(fmt.Sprint("byte ", k), func(b book) {
				raw := []byte(text)
				raw[k] ^= 1
				b[i][j] = string(raw)
			})
		}
		try("a forged word", func(b book) { b[i][j] = strings.Replace(text, "jane", "mary", 1) })
		try("a blank", func(b book) { b[i][j] = strings.Replace(text, `,"by"`, `, "by"`, 1) })
		try("a field given twice", func(b book) { b[i][j] = strings.Replace(text, `,"by"`, `,"call":"DescribeTags","by"`, 1) })
		try("one more field", func(b book) { b[i][j] = strings.Replace(text, `,"by"`, `,"extra":1,"by"`, 1) })
		try("no chain", func(b book) { b[i][j] = text[:strings.Index(text, `,"chain"`)] + "}\n" })
		try("the same again", func(b book) { b[i] = slices.Insert(b[i], j, text) })
		if !end { // behind the last one anybody can write more, as Nephele itself does
			try("a line added behind it", func(b book) {
				b[i] = slices.Insert(b[i], j+1, rehashed(t, text, func(l *line) { l.N++; l.Prev = l.Hash; l.Follows = "" }))
			})
			try("cut in the middle", func(b book) { b[i][j] = text[:len(text)/2] + "\n" })
			try("changed, with its hash", func(b book) { b[i][j] = rehashed(t, text, func(l *line) { l.By = []string{"mary"} }) })
		}
		if !first {
			try("removed", func(b book) { b[i] = slices.Delete(b[i], j, j+1) })
			try("another line before it", func(b book) { b[i][j] = rehashed(t, text, func(l *line) { l.Prev = strings.Repeat("0", 64) }) })
		}
		if j > 0 && strings.HasPrefix(whole[i][j-1], "{") {
			try("changed places with the one before", func(b book) { b[i][j-1], b[i][j] = b[i][j], b[i][j-1] })
		}
		// All that comes later is written anew: only a hash that was kept elsewhere shows it.
		try("all written anew from here", func(b book) {
			prev, follows := "", ""
			b.each(func(x, y int) {
				if x < i || x == i && y < j || !strings.HasPrefix(b[x][y], `{"time"`) || !strings.HasSuffix(b[x][y], "}\n") {
					if l, err := parse([]byte(strings.TrimSpace(b[x][y]))); err == nil {
						prev, follows = l.Hash, l.at()
					}
					return
				}
				b[x][y] = rehashed(t, b[x][y], func(l *line) {
					l.By, l.Prev = []string{"mary"}, prev
					if l.N == 1 {
						l.Follows = follows
					}
				})
				l, _ := parse([]byte(strings.TrimSpace(b[x][y])))
				prev, follows = l.Hash, l.at()
			})
			if e := b.verify(t); len(e.Faults) > 0 {
				t.Errorf("%s: the forgery is worse than meant: %q", at, e.Faults)
			}
		})
	})
	for i := range whole {
		b := slices.Delete(whole.clone(), i, i+1)
		if e := b.verify(t, last); i > 0 && len(e.Faults) == 0 {
			t.Errorf("without file %d: %+v", i, e)
		}
	}
	for what, order := range map[string][]int{"files turned round": {2, 1, 0}, "two changed": {1, 0, 2}} {
		var b book
		for _, i := range order {
			b = append(b, whole[i])
		}
		if e := b.verify(t); len(e.Faults) == 0 {
			t.Errorf("%s: not found", what)
		}
	}
	cut := whole.clone()
	cut[2] = cut[2][:len(cut[2])-1]
	if e := cut.verify(t); len(e.Faults) > 0 {
		t.Errorf("a record may end anywhere: %q", e.Faults)
	}
	if e := cut.verify(t, last); len(e.Faults) != 1 || !strings.Contains(e.Faults[0], last) {
		t.Errorf("cut off, with the hash of what was there: %q", e.Faults)
	}
}

// TestFormerRecords: lines of releases without chains are told, and cannot come later.
func TestFormerRecords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	const before = `{"time":"2026-11-22T10:00:01Z","phase":"begin","id":"run-1","cluster":"c","account":"","region":"","call":"CreateTags","objects":[]}` + "\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	process(t, file, "one", 1)
	lines := read(t, file)
	lines[len(lines)-1] += "\n"
	b := book{lines}
	if e := b.verify(t); len(e.Faults) > 0 || e.Former != 1 || e.Lines != 2 || len(e.Remarks) != 1 {
		t.Errorf("%+v", e)
	}
	b[0] = append(slices.Clone(lines), before)
	if e := b.verify(t); len(e.Faults) == 0 {
		t.Errorf("a line without a chain comes later: %+v", e)
	}
}

// TestLogsOfReplicas: what several replicas logged at once, in any order and among other messages,
// is one record each; a line that is missing, changed or forged is found.
func TestLogsOfReplicas(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var mu sync.Mutex
	to := logr.FromSlogHandler(slog.NewJSONHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), nil))
	var replicas sync.WaitGroup
	for _, run := range []string{"a", "b", "c"} {
		r, err := Open(Options{ClusterID: "c", Log: to.WithName("audit"), Now: time.Now, Run: run})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			replicas.Go(func() {
				to.Info("Something else", "n", n)
				r.Begin(cloud.Call{Name: "CreateTags", Objects: []string{fmt.Sprint(run, n)}, By: []string{"jane <j@example.com>"}})(cloud.Outcome{})
			})
		}
	}
	replicas.Wait()
	lines := strings.SplitAfter(strings.TrimSpace(out.String()), "\n")
	verify := func(lines []string) Evidence {
		var v Verifier
		if err := v.Log("log", strings.NewReader("panic: text\n"+strings.Join(lines, "")+"\n")); err != nil {
			t.Fatal(err)
		}
		return v.Verify()
	}
	if e := verify(lines); len(e.Faults) > 0 || len(e.Chains) != 3 || e.Lines != 60 || len(e.Remarks) > 0 {
		t.Errorf("%+v", e)
	}
	slices.Reverse(lines)
	lines[0] += "\n"
	if e := verify(lines); len(e.Faults) > 0 || e.Lines != 60 {
		t.Errorf("turned round: %+v", e)
	}
	lasts := map[string]uint64{"a": 20, "b": 20, "c": 20}
	for i, text := range lines {
		var said struct{ Record *links }
		if json.Unmarshal([]byte(text), &said) != nil || said.Record == nil {
			continue
		}
		if e := verify(append(slices.Clone(lines), text+"\n")); len(e.Faults) > 0 {
			t.Errorf("shipped twice: %+v", e)
		}
		if n := said.Record.N; n > 1 && n < lasts[said.Record.Chain] {
			if e := verify(slices.Delete(slices.Clone(lines), i, i+1)); len(e.Faults) == 0 {
				t.Errorf("line %d is missing, and that is not found", i)
			}
		}
		b := slices.Clone(lines)
		b[i] = strings.Replace(text, "jane ", "mary ", 2)
		if e := verify(b); len(e.Faults) == 0 {
			t.Errorf("line %d is another one, and that is not found", i)
		}
	}
}

// TestNotFound: what docs/audit.md says that nothing shows. A line that somebody adds behind the
// last one, also with the hash of that; the end of a process in a log, and all lines of one. The
// log of a controller that writes a file is no record without it.
func TestNotFound(t *testing.T) {
	t.Parallel()
	b := written(t)
	last := b.verify(t).Chains[2].Hash
	f := &b[len(b)-1]
	*f = append(*f, rehashed(t, (*f)[len(*f)-1], func(l *line) { l.N++; l.Prev = l.Hash; l.By = []string{"mary"} }))
	if e := b.verify(t, last); len(e.Faults) > 0 {
		t.Errorf("a line behind the last one: %q", e.Faults)
	}

	logOf := func(run, file string) []string {
		var out bytes.Buffer
		r, err := Open(Options{File: file, Log: logr.FromSlogHandler(slog.NewJSONHandler(&out, nil)), Now: clock(), Run: run})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r.Begin(cloud.Call{Name: "CreateTags"})(cloud.Outcome{})
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return strings.SplitAfter(strings.TrimSpace(out.String()), "\n")
	}
	verify := func(v *Verifier, lines []string) Evidence {
		if err := v.Log("log", strings.NewReader(strings.Join(lines, ""))); err != nil {
			t.Fatal(err)
		}
		return v.Verify()
	}
	one, two := logOf("one", ""), logOf("two", "")
	for what, lines := range map[string][]string{"its end": append(slices.Clone(one), two[:4]...), "all of it": one} {
		if e := verify(new(Verifier), lines); len(e.Faults) > 0 {
			t.Errorf("%s is missing: %q", what, e.Faults)
		}
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	half := logOf("three", file)
	if e := verify(new(Verifier), half); len(e.Faults) == 0 {
		t.Errorf("the log alone: %+v", e)
	}
	var v Verifier
	if err := v.Files(file); err != nil {
		t.Fatal(err)
	}
	if e := verify(&v, half); len(e.Faults) > 0 || e.Lines != 6 {
		t.Errorf("with the file: %+v", e)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestWhatTheDiskLacks: lines that could not be written are missing in the file, and the log has
// them.
func TestWhatTheDiskLacks(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	r, err := Open(Options{Log: logr.FromSlogHandler(slog.NewJSONHandler(&logged, nil)), Now: clock(), Run: "run"})
	if err != nil {
		t.Fatal(err)
	}
	f := &brokenFile{room: 1 << 20}
	r.file = f
	for n := range 6 {
		f.room = map[bool]int{true: 30, false: 1 << 20}[n == 2 || n == 3]
		r.Begin(cloud.Call{Name: fmt.Sprint("Call", n)})(cloud.Outcome{})
	}
	var alone, both Verifier
	for _, v := range []*Verifier{&alone, &both} {
		if err := v.File("file", strings.NewReader(f.String())); err != nil {
			t.Fatal(err)
		}
	}
	if err := both.Log("log", &logged); err != nil {
		t.Fatal(err)
	}
	if e := alone.Verify(); len(e.Faults) != 1 || !strings.Contains(e.Faults[0], "run:5 to 8 are missing") {
		t.Errorf("the file alone: %+v", e)
	}
	if e := both.Verify(); len(e.Faults) > 0 || e.Lines != 12 {
		t.Errorf("with the log: %+v", e)
	}
}

// FuzzVerify: whatever the files hold, a Verifier ends, and never finds more than there is.
func FuzzVerify(f *testing.F) {
	f.Add([]byte("{}\n"), []byte(`{"record":{"chain":"a","n":1}}`))
	f.Add([]byte(`{"chain":"a","n":18446744073709551615,"by":[]}`+"\n"), []byte(`x {"record":{"chain":"a:b","n":1,"follows":"a:b:18446744073709551615"}}`))
	f.Fuzz(func(t *testing.T, file, log []byte) {
		var v Verifier
		for _, err := range []error{v.File("file", bytes.NewReader(file)), v.Log("log", io.LimitReader(bytes.NewReader(log), 1<<20))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		e := v.Verify()
		if n := bytes.Count(file, []byte("\n")) + bytes.Count(log, []byte("\n")) + 2; e.Lines > n || len(slices.Collect(maps.Keys(v.hashes))) > n {
			t.Errorf("%d lines of %d", e.Lines, n)
		}
	})
}
