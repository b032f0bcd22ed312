package apiserver

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// defaultStall is Options.Stall when that is 0.
const defaultStall = time.Minute

// cutStalled ends watches whose client has not taken what was written for longer than stall: the connection with HTTP/1,
// the one stream with HTTP/2. Without that a client that does not read would hold its place until the watch times out.
func cutStalled(next http.Handler, stall time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			s := &stallWriter{ResponseWriter: w, control: http.NewResponseController(w), stall: stall}
			s.alarm = time.AfterFunc(stall, s.cut)
			s.alarm.Stop() // until something is written
			w = responsewriter.WrapForHTTP1Or2(s)
		}
		next.ServeHTTP(w, r)
	})
}

// stallWriter gives every write its time. A deadline on each would do the same, but HTTP/2 makes a timer and a message of
// each, and of each that is lifted.
type stallWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	// alarm goes off in the middle of a write that takes too long.
	alarm *time.Timer
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *stallWriter) Write(p []byte) (int, error) {
	w.alarm.Reset(w.stall)
	defer w.alarm.Stop()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher. An error shows in the next Write.
func (w *stallWriter) Flush() {
	w.alarm.Reset(w.stall)
	defer w.alarm.Stop()
	_ = w.control.Flush()
}

// cut makes the write that is under way fail, and all later ones. A connection that knows no deadlines does without.
func (w *stallWriter) cut() { _ = w.control.SetWriteDeadline(time.Now()) }
