package terminal

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
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

// LogFormat is the form of the lines of a log.
type LogFormat string

// The forms of logs.
const (
	TextLog LogFormat = "text"
	JSONLog LogFormat = "json"
)

// RegisterLogFormat adds a flag of that name. Without it programs in a Pod write JSON, which
// somebody collects, and all others text, which somebody reads.
func RegisterLogFormat(f *pflag.FlagSet, name string, format *LogFormat) {
	*format = TextLog
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		*format = JSONLog
	}
	f.Var(format, name, "form of the log: text or json; in a Pod json if nothing is said")
	f.Lookup(name).DefValue = string(TextLog)
}

// New returns a logger of this form, whose verbosity can be changed while it runs.
func (l LogFormat) New(w io.Writer, verbose bool) (logr.Logger, *LogLevel) {
	if l != JSONLog {
		return NewLeveledLogger(w, verbose)
	}
	level := &LogLevel{}
	if verbose {
		level.SetVerbosity(verbosely)
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: &level.level})), level
}

// String implements pflag.Value.
func (l *LogFormat) String() string { return string(*l) }

// Type implements pflag.Value.
func (*LogFormat) Type() string { return "string" }

// Set implements pflag.Value.
func (l *LogFormat) Set(text string) error {
	switch f := LogFormat(text); f {
	case TextLog, JSONLog:
		*l = f
		return nil
	}
	return fmt.Errorf("want %s or %s", TextLog, JSONLog)
}

// LogLevel is how much a logger tells: what is of no greater verbosity. It is safe for concurrent
// use.
type LogLevel struct{ level slog.LevelVar }

// Verbosity is what is reported now; 0 is the least.
func (l *LogLevel) Verbosity() int { return -int(l.level.Level()) }

// SetVerbosity changes it.
func (l *LogLevel) SetVerbosity(v int) { l.level.Set(slog.Level(-v)) }
