package terminal

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr"
)

// NewLogger returns a logger that writes one line of key=value pairs per message.
func NewLogger(w io.Writer, verbose bool) logr.Logger {
	log, _ := NewLeveledLogger(w, verbose)
	return log
}

// verbosely is the verbosity of a logger that is asked to be verbose.
const verbosely = -int(slog.LevelDebug)

// NewLeveledLogger returns a logger whose verbosity can be changed while it runs.
func NewLeveledLogger(w io.Writer, verbose bool) (logr.Logger, *LogLevel) {
	level := &LogLevel{}
	if verbose {
		level.SetVerbosity(verbosely)
	}
	return logr.FromSlogHandler(slog.NewTextHandler(w, &slog.HandlerOptions{Level: &level.level})), level
}

// LogLevel is how much a logger tells: what is of no greater verbosity. It is safe for concurrent
// use.
type LogLevel struct{ level slog.LevelVar }

// Verbosity is what is told now; 0 is the least.
func (l *LogLevel) Verbosity() int { return -int(l.level.Level()) }

// SetVerbosity changes it.
func (l *LogLevel) SetVerbosity(v int) { l.level.Set(slog.Level(-v)) }
