package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Evidence is what a Verifier has found.
type Evidence struct {
	// Lines counts the lines in a chain, Former the lines of releases that had none, which prove
	// nothing.
	Lines  int `json:"lines"`
	Former int `json:"former,omitempty"`
	// Chains are the processes, in the order in which they began.
	Chains []Chain `json:"chains"`
	// Faults say what is missing, changed, added or moved, and Remarks what need not be a fault.
	Faults  []string `json:"faults,omitempty"`
	Remarks []string `json:"remarks,omitempty"`
}

// Chain is what one process wrote.
type Chain struct {
	Process string    `json:"process"`
	First   uint64    `json:"first"`
	Last    uint64    `json:"last"`
	Begin   time.Time `json:"begin"`
	End     time.Time `json:"end"`
	Hash    string    `json:"hash"` // of the last line
	file    bool
}

// most bounds what is reported about each kind.
const most = 100

// seen is what is kept of a line that was read, and where it was.
type seen struct {
	links
	time  time.Time
	where string
	file  bool
	order int
}

// Verifier looks for what was done to a record. The zero value is ready. It is for one goroutine.
type Verifier struct {
	chains map[string]map[uint64]seen
	hashes map[string]bool
	order  int
	former int
	// begun says that a line with a chain was read from a file.
	begun   bool
	faults  []string
	remarks []string
	more    int
}

func (v *Verifier) fault(format string, args ...any) {
	if len(v.faults) >= most {
		v.more++
		return
	}
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

func (v *Verifier) remark(format string, args ...any) {
	if len(v.remarks) < most {
		v.remarks = append(v.remarks, fmt.Sprintf(format, args...))
	}
}

// File reads a file of the record. Old files come before the ones after them. Every line has to be
// as it was written; only the last one of a process that was killed may be torn.
func (v *Verifier) File(name string, from io.Reader) error {
	last := map[string]uint64{}
	return eachLine(from, func(n int, text []byte, whole bool) {
		where := fmt.Sprintf("%s:%d", name, n)
		if len(text) == 0 {
			return // before the first line of a process after a torn one
		}
		l, err := parse(text)
		switch {
		case !whole, err != nil && !json.Valid(text):
			if v.order+v.former == 0 && n == 1 && whole {
				v.fault("%s: the record begins with what is no whole line", where)
				return
			}
			// What it was, if it was a line, is missing.
			v.remark("%s: this is no whole line: its process was killed, had no room or writes it now, or somebody has cut it", where)
			return
		case err != nil:
			v.fault("%s: this is no line of a record: %v", where, err)
			return
		case l.Hash == "" && l.Chain == "" && l.N == 0 && l.By == nil:
			if v.begun {
				v.fault("%s: a line without a chain follows lines with one", where)
			}
			v.former++
			return
		}
		v.begun = true
		if again, err := json.Marshal(l); err != nil || !bytes.Equal(again, text) {
			v.fault("%s: this line is not as it was written", where)
		}
		if l.N <= last[l.Chain] {
			v.fault("%s: line %s comes after line %s:%d", where, l.at(), l.Chain, last[l.Chain])
		}
		last[l.Chain] = max(l.N, last[l.Chain])
		v.take(l, where, true)
	})
}

// Log reads what controllers logged as JSON. Lines of others are passed over, and order does not
// matter, for many lines are under way at once.
func (v *Verifier) Log(name string, from io.Reader) error {
	return eachLine(from, func(n int, text []byte, _ bool) {
		var said struct {
			Record json.RawMessage `json:"record"`
		}
		// A log shipper may have put something before the object.
		if at := bytes.IndexByte(text, '{'); at > 0 {
			text = text[at:]
		}
		if json.Unmarshal(text, &said) != nil || len(said.Record) == 0 {
			return
		}
		where := fmt.Sprintf("%s:%d", name, n)
		l, err := parse(said.Record)
		if err != nil {
			v.fault("%s: this is no line of a record: %v", where, err)
			return
		}
		v.take(l, where, false)
	})
}

// take takes in a line.
func (v *Verifier) take(l line, where string, file bool) {
	s := seen{links: l.links, time: l.Time, where: where, file: file}
	if v.chains == nil {
		v.chains, v.hashes = map[string]map[uint64]seen{}, map[string]bool{}
	}
	v.order++
	s.order = v.order
	if want, err := l.sum(); err != nil || s.Hash != want {
		v.fault("%s: line %s was changed: it does not have its hash", s.where, s.at())
	}
	v.hashes[s.Hash] = true
	of := v.chains[s.Chain]
	if of == nil {
		of = map[uint64]seen{}
		v.chains[s.Chain] = of
	}
	former, known := of[s.N]
	switch {
	case !known:
		of[s.N] = s
	case former.Hash != s.Hash:
		v.fault("%s: line %s is another one than at %s", s.where, s.at(), former.where)
	case former.file && s.file:
		v.fault("%s: line %s is there twice, first at %s", s.where, s.at(), former.where)
	case s.file:
		of[s.N] = s
	}
}

// Verify says what was found in all that was read. Known are hashes that lines had which must still
// be there.
func (v *Verifier) Verify(known ...string) Evidence {
	out := Evidence{Former: v.former}
	for name, of := range v.chains {
		out.Chains = append(out.Chains, v.chain(name, of))
		out.Lines += len(of)
	}
	// In the order of the files; chains that are in logs alone by time.
	slices.SortFunc(out.Chains, func(a, b Chain) int {
		if a.file != b.file {
			return cmp.Compare(btoi(b.file), btoi(a.file))
		}
		if a.file {
			return cmp.Compare(v.chains[a.Process][a.First].order, v.chains[b.Process][b.First].order)
		}
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Process, b.Process))
	})
	for i, c := range out.Chains {
		v.begin(c, i == 0)
	}
	if v.former > 0 {
		v.remark("%d lines of a former release are in no chain: they prove nothing", v.former)
	}
	for _, hash := range known {
		if !v.hashes[hash] {
			v.fault("the line with the hash %s is missing", hash)
		}
	}
	if v.more > 0 {
		v.faults = append(v.faults, fmt.Sprintf("and %d more", v.more))
	}
	out.Faults, out.Remarks = v.faults, v.remarks
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// chain looks at the lines of one process.
func (v *Verifier) chain(name string, of map[uint64]seen) Chain {
	numbers := slices.Sorted(maps.Keys(of))
	first, last := of[numbers[0]], of[numbers[len(numbers)-1]]
	out := Chain{Process: name, First: first.N, Last: last.N, Begin: first.time, End: last.time, Hash: last.Hash}
	for i, n := range numbers {
		l := of[n]
		out.file = out.file || l.file
		if i == 0 {
			continue
		}
		switch before := of[numbers[i-1]]; {
		case before.N != n-1:
			v.fault("%s: lines %s:%d to %d are missing before it", l.where, name, before.N+1, n-1)
		case l.Prev != before.Hash:
			v.fault("%s: line %s does not follow the one before it, at %s", l.where, l.at(), before.where)
		}
		if l.Follows != "" {
			v.fault("%s: line %s says that its process begins", l.where, l.at())
		}
	}
	return out
}

// begin looks at what was before a process.
func (v *Verifier) begin(c Chain, oldest bool) {
	l := v.chains[c.Process][c.First]
	switch {
	case c.First > 1 && (oldest || !c.file):
		v.remark("%s: lines %s:1 to %d are not here", l.where, c.Process, c.First-1)
		return
	case c.First > 1:
		v.fault("%s: lines %s:1 to %d are missing before it", l.where, c.Process, c.First-1)
		return
	case l.Follows == "" && l.Prev != "":
		v.fault("%s: line %s does not say what was before it", l.where, l.at())
		return
	case l.Follows == "" && (oldest || !c.file):
		return
	case l.Follows == "":
		v.fault("%s: process %s begins a new record, though there was one", l.where, c.Process)
		return
	}
	at := strings.LastIndexByte(l.Follows, ':')
	n, err := strconv.ParseUint(l.Follows[at+1:], 10, 64)
	of := v.chains[l.Follows[:max(at, 0)]]
	before, there := of[n]
	switch {
	case err != nil || at < 0 || !there:
	case before.Hash != l.Prev:
		v.fault("%s: line %s follows another line %s than the one at %s", l.where, l.at(), l.Follows, before.where)
		return
	case before.file && l.file && before.order > l.order:
		v.fault("%s: line %s comes before the line that it follows, at %s", l.where, l.at(), before.where)
		return
	default:
		for later, there := of[n+1]; there; later, there = of[later.N+1] {
			if later.file {
				v.fault("%s: line %s comes after process %s has begun", later.where, later.at(), c.Process)
			}
		}
		return
	}
	if oldest {
		v.remark("%s: what was before process %s, up to line %s, is not here", l.where, c.Process, l.Follows)
	} else {
		v.fault("%s: line %s is missing, after which process %s began", l.where, l.Follows, c.Process)
	}
}

// eachLine calls with each line, its number from 1, and whether it has an end.
func eachLine(from io.Reader, each func(n int, text []byte, whole bool)) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for n := 1; ; n++ {
		var text []byte
		for {
			part, err := r.ReadSlice('\n')
			text = append(text, part...)
			if len(text) > maxLine {
				return fmt.Errorf("line %d has more than %d bytes", n, maxLine)
			}
			if err == nil || errors.Is(err, io.EOF) {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return err
			}
		}
		if len(text) == 0 {
			return nil
		}
		line, whole := bytes.CutSuffix(text, []byte{'\n'})
		each(n, line, whole)
		if !whole {
			return nil
		}
	}
}

// Files reads the file of a record, and its old files before it.
func (v *Verifier) Files(file string) error {
	names, err := files(file)
	if err != nil {
		return fmt.Errorf("read the record of changes: %w", err)
	}
	if len(names) == 0 || names[len(names)-1] != file {
		return fmt.Errorf("read the record of changes: %s: %w", file, os.ErrNotExist)
	}
	for _, name := range names {
		if err := v.file(name); err != nil {
			return fmt.Errorf("read the record of changes: %s: %w", name, err)
		}
	}
	return nil
}

func (v *Verifier) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return v.File(filepath.Base(name), f)
}
