package limits

import (
	"net/http"
	"time"
)

// DefaultStall is how long a watch may stall if nothing else is said.
const DefaultStall = time.Minute

// stallWriter ends a watch whose client has not taken what was written for longer than stall: the
// connection with HTTP/1, the one stream with HTTP/2. Without that a client that does not read
// would hold its place until the watch times out. It gives every write its time. A deadline on each
// would do the same, but HTTP/2 makes a timer and a message of each, and of each that is lifted.
type stallWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	// begun is called when the answer begins, and perhaps again.
	begun func()
	// alarm goes off in the middle of a write that takes too long.
	alarm *time.Timer
}

func newStallWriter(w http.ResponseWriter, stall time.Duration, begun func()) *stallWriter {
	s := &stallWriter{ResponseWriter: w, control: http.NewResponseController(w), stall: stall, begun: begun}
	s.alarm = time.AfterFunc(stall, s.cut)
	s.alarm.Stop() // until something is written
	return s
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *stallWriter) Write(p []byte) (int, error) {
	w.alarm.Reset(w.stall)
	defer w.alarm.Stop()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher. An error shows in the next Write. A watch begins with it.
func (w *stallWriter) Flush() {
	w.begun()
	w.alarm.Reset(w.stall)
	defer w.alarm.Stop()
	_ = w.control.Flush()
}

// cut makes the write that is under way fail, and all later ones. A connection that knows no
// deadlines does without.
func (w *stallWriter) cut() { _ = w.control.SetWriteDeadline(time.Now()) }
