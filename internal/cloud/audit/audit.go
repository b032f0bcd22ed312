// Package audit keeps the record of changes: which calls were made that change something in a
// cloud, why, and what became of them.
//
// It owns the form of the record, a line of JSON when a call is about to be sent and one when it is
// over, and the file that the lines go to. It promises that a call which took effect has a line,
// also if the process is killed while the call is on its way: the first line is written before
// anything is sent, and nothing is kept back in the process. The exception are heartbeats, of which
// only what is new has lines and the rest is counted; see beatOf. It does not promise to survive a
// power cut: lines are not forced to the disk one by one. Text of strangers is cleaned and cut,
// lists are cut, and files are rotated, so that no input can fill the disk. Each line names the one
// before it by its hash, and Verify finds what was done to them afterwards.
//
// A record that cannot be written stops nothing: enforcement goes on, the line goes to the log
// instead, and Metrics count it.
//
// Concurrency: a Record may be used from any number of goroutines.
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/nephele-io/nephele/internal/cloud"
)

// How much the files may grow to: the present one and the old ones together.
const (
	DefaultMegabytes = 50
	DefaultOld       = 9
)

// Options say where the record goes.
type Options struct {
	// ClusterID stands in every line.
	ClusterID string
	// File takes the lines; empty means that only Log does. It is made with mode 0600, rotated at
	// Megabytes (0: DefaultMegabytes), and Old former ones are kept (0: DefaultOld).
	File           string
	Megabytes, Old int
	// Log takes a message for every call that is over, and for one that begins if that is not in
	// the file.
	Log logr.Logger
	// Now is the clock, and Run tells the lines of this process from the lines of others.
	Now func() time.Time
	Run string
	// Metrics, if set, counts the lines.
	Metrics *Metrics
}

// Record is the record of changes of one process.
type Record struct {
	o    Options
	last atomic.Uint64

	mu    sync.Mutex
	file  io.WriteCloser // nil without one
	chain chain
	// torn is set if what is in the file may not end with a line, and failed if the last line could
	// not be written.
	torn, failed bool

	beating sync.Mutex
	pulses  map[string]*pulse // see beatOf
}

// Open opens the record. That a file cannot be opened at all is a mistake that is better told at
// once than when the first call is made.
func Open(o Options) (*Record, error) {
	r := &Record{o: o, chain: chain{name: o.Run}}
	if o.File == "" {
		return r, nil
	}
	if err := r.join(); err != nil {
		return nil, fmt.Errorf("open the record of changes: %w", err)
	}
	r.file = &lumberjack.Logger{Filename: o.File, MaxSize: cmp.Or(o.Megabytes, DefaultMegabytes), MaxBackups: cmp.Or(o.Old, DefaultOld)}
	return r, nil
}

// join finds what is in the file before the first line of this process.
func (r *Record) join() error {
	torn, err := prepare(r.o.File)
	if err != nil {
		return err
	}
	after, last, err := former(r.o.File)
	if err != nil {
		return err
	}
	r.torn, r.chain.after, r.chain.last = torn, after, last
	return nil
}

// prepare makes the file if it is not there, readable by no one else, and reports whether its last
// line is not whole.
func prepare(name string) (torn bool, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return false, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(0o600); err != nil {
		return false, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return false, err
	}
	end := make([]byte, 1)
	if _, err := f.ReadAt(end, size-1); err != nil {
		return false, err
	}
	return end[0] != '\n', nil
}

// Begin writes that a call is about to be sent, and returns what writes that it is over.
func (r *Record) Begin(c cloud.Call) (end func(cloud.Outcome)) {
	began := r.o.Now()
	l := newLine(c)
	l.ID, l.Cluster = r.o.Run+"-"+strconv.FormatUint(r.last.Add(1), 10), r.o.ClusterID
	begin := func() {
		l.Time, l.Phase = began, phaseBegin
		if l, text, written := r.write(l); !written {
			r.log(l, text)
		}
	}
	beat := beatOf(c)
	quiet := r.quiet(beat, began)
	if !quiet {
		begin()
	}
	return func(o cloud.Outcome) {
		done := l
		done.Time, done.Phase = r.o.Now(), phaseEnd
		done.Milliseconds = done.Time.Sub(began).Milliseconds()
		done.end(o)
		if beat != "" {
			var out bool
			if out, done.Beats = r.leftOut(beat, done, quiet); out {
				return
			}
			if quiet {
				begin()
			}
		}
		r.writeAndLog(done)
	}
}

func (r *Record) writeAndLog(l line) {
	l, text, _ := r.write(l)
	r.log(l, text)
}

// write joins the line to those before it, puts it into the file, and returns it, its text, and
// whether it is there.
func (r *Record) write(l line) (sealed line, text []byte, written bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var joined error
	if r.o.File != "" && r.chain.n == 0 {
		// The controller for which this one stood by has written since this one opened the file.
		joined = r.join()
	}
	text, err := r.chain.seal(&l)
	err = errors.Join(err, joined)
	if r.file == nil {
		return l, text, false
	}
	if err == nil {
		whole := append(slices.Clone(text), '\n')
		if r.torn {
			whole = append([]byte{'\n'}, whole...)
		}
		_, err = r.file.Write(whole)
		r.torn = err != nil
	}
	r.o.Metrics.wrote(err)
	switch {
	case err != nil && !r.failed:
		r.o.Log.Error(err, "THE RECORD OF CHANGES CANNOT BE WRITTEN; enforcement goes on, and what is missing in the file stands here", "file", r.o.File)
	case err == nil && r.failed:
		r.o.Log.Info("The record of changes can be written again", "file", r.o.File)
	}
	r.failed = err != nil
	return l, text, err == nil
}

// Close writes what is left to be told, and closes the file. Calls that are still on their way open
// it again when they are over.
func (r *Record) Close() error {
	r.tellAll()
	if r.file == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
