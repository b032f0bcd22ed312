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
			w = responsewriter.WrapForHTTP1Or2(&stallWriter{w, http.NewResponseController(w), stall})
		}
		next.ServeHTTP(w, r)
	})
}

// stallWriter gives every write its time.
type stallWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *stallWriter) Write(p []byte) (int, error) {
	defer w.limit()()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher. An error shows in the next Write.
func (w *stallWriter) Flush() {
	defer w.limit()()
	_ = w.control.Flush()
}

// limit sets a deadline and returns what lifts it: with HTTP/2 one that passes ends the stream even if nothing is being
// written. A connection that knows no deadlines does without.
func (w *stallWriter) limit() (lift func()) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.stall))
	return func() { _ = w.control.SetWriteDeadline(time.Time{}) }
}
