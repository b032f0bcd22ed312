// Package progress tells a person what a program is doing while it takes longer than they expect.
//
// A step that is over within a second leaves no trace. A longer one is shown, with the time it has
// taken so far: on a terminal in one line that counts the seconds, elsewhere in a new line every
// fifteen seconds, so that a log neither stops nor fills.
//
// A Reporter is safe for concurrent use. It owns one goroutine, which has ended when Close returns.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// patience is how long a step may take unseen.
	patience = time.Second
	// lineEvery is the time between lines where they cannot be rewritten.
	lineEvery = 15 * time.Second
	// refresh is how often the goroutine looks.
	refresh = 250 * time.Millisecond
)

// Reporter shows the step that a program is at.
type Reporter struct {
	now  func() time.Time
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	out      io.Writer
	terminal bool
	step     string // empty between steps
	began    time.Time
	shown    time.Time // when the step was last shown; zero if not yet
}

// New returns a reporter that writes to out; terminal says whether out is one, where a line can be
// rewritten.
func New(out io.Writer, terminal bool) *Reporter {
	r := newReporter(out, terminal, time.Now)
	r.stop = make(chan struct{})
	r.done.Go(r.loop)
	return r
}

func newReporter(out io.Writer, terminal bool, now func() time.Time) *Reporter {
	return &Reporter{out: out, terminal: terminal, now: now}
}

// Step says that a step begins, which ends the one before. An empty name only ends it.
func (r *Reporter) Step(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finish()
	r.step, r.began, r.shown = name, r.now(), time.Time{}
}

// Close ends the last step and the reporter.
func (r *Reporter) Close() {
	close(r.stop)
	r.done.Wait()
	r.Step("")
}

func (r *Reporter) loop() {
	ticker := time.NewTicker(refresh)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.tick()
		case <-r.stop:
			return
		}
	}
}

// tick shows the step if it is time to.
func (r *Reporter) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	elapsed := now.Sub(r.began)
	if r.step == "" || elapsed < patience {
		return
	}
	every := lineEvery
	if r.terminal {
		every = time.Second
	}
	if !r.shown.IsZero() && now.Sub(r.shown) < every {
		return
	}
	r.shown = now
	text := fmt.Sprintf("%s ... %s", r.step, elapsed.Truncate(time.Second))
	if r.terminal {
		// Carriage return, and erase to the end of the line.
		fmt.Fprintf(r.out, "\r%s\x1b[K", text)
	} else {
		fmt.Fprintln(r.out, text)
	}
}

// finish writes how long the current step took if it has been shown.
func (r *Reporter) finish() {
	if r.step == "" || r.shown.IsZero() {
		return
	}
	text := fmt.Sprintf("%s: done after %s", r.step, r.now().Sub(r.began).Truncate(100*time.Millisecond))
	if r.terminal {
		fmt.Fprintf(r.out, "\r%s\x1b[K\n", text)
	} else {
		fmt.Fprintln(r.out, text)
	}
}
