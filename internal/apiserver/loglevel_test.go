package apiserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

type fixedLevel int

func (l *fixedLevel) Verbosity() int     { return int(*l) }
func (l *fixedLevel) SetVerbosity(v int) { *l = fixedLevel(v) }

// TestLogLevel: /loglevel tells and changes the verbosity, within bounds, as antctl asks.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	level := fixedLevel(1)
	h := serveLogLevel(&level, logr.Discard())
	for _, step := range []struct {
		method, query string
		code          int
		body          string
	}{
		{http.MethodGet, "", http.StatusOK, "1"},
		{http.MethodGet, "?level=4", http.StatusOK, "4"},
		{http.MethodGet, "", http.StatusOK, "4"},
		{http.MethodGet, "?level=11", http.StatusBadRequest, "level: want one number from 0 to 10"},
		{http.MethodGet, "?level=-1", http.StatusBadRequest, ""},
		{http.MethodGet, "?level=x", http.StatusBadRequest, ""},
		{http.MethodGet, "?level=", http.StatusBadRequest, ""},
		{http.MethodGet, "?level=1&level=2", http.StatusBadRequest, ""},
		{http.MethodPost, "?level=1", http.StatusMethodNotAllowed, ""},
		{http.MethodGet, "", http.StatusOK, "4"},
		{http.MethodGet, "?level=0", http.StatusOK, "0"},
	} {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequestWithContext(t.Context(), step.method, "/loglevel"+step.query, nil))
		if got := strings.TrimSpace(w.Body.String()); w.Code != step.code || step.body != "" && got != step.body {
			t.Errorf("%s %s: %d %q, want %d %q", step.method, step.query, w.Code, got, step.code, step.body)
		}
	}
}
