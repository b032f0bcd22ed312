package apiserver

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
)

// logLevelPath is where antctl asks how much is logged, and changes it.
const logLevelPath = "/loglevel"

// mostVerbose is the greatest verbosity that somebody may ask for.
const mostVerbose = 10

// serveLogLevel answers GET /loglevel with the verbosity, and changes it first if the parameter
// level is given, as antctl does it. RBAC decides which callers may: with the verb get on this
// path.
func serveLogLevel(level LogLevel, log logr.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
			return
		}
		if asked := r.URL.Query(); asked.Has("level") {
			v, err := strconv.Atoi(asked.Get("level"))
			if err != nil || v < 0 || v > mostVerbose || len(asked["level"]) > 1 {
				http.Error(w, fmt.Sprintf("level: want one number from 0 to %d", mostVerbose), http.StatusBadRequest)
				return
			}
			if before := level.Verbosity(); before != v {
				level.SetVerbosity(v)
				log.Info("The log level was changed", "before", before, "now", v)
			}
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		// An error here means that the client has gone.
		_, _ = fmt.Fprintln(w, level.Verbosity())
	}
}
