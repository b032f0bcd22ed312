package demo

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// The widths between which the story is shown on a terminal: its tables need the one, and no one
// reads lines longer than the other.
const narrowest, widest = 80, 120

// betweenChapters is how long a person has to take in a chapter before the next one begins.
const betweenChapters = 2 * time.Second

// screen is what the story is shown on. The zero value is a log: no colours, no pauses, lines of
// one width.
type screen struct {
	width   int
	colours bool
	pause   func()
}

// screenOf looks at what the story is written to. Interrupted ends a pause.
func screenOf(out io.Writer, env func(string) string, interrupted <-chan struct{}) screen {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		columns = 0
	}
	return screenFor(columns, env, func() {
		select {
		case <-time.After(betweenChapters):
		case <-interrupted:
		}
	})
}

// screenFor is a terminal of so many columns; 0 if that is not known.
func screenFor(columns int, env func(string) string, pause func()) screen {
	s := screen{pause: pause, colours: env("NO_COLOR") == "" && env("TERM") != "dumb"}
	if columns > 0 {
		s.width = min(max(columns, narrowest), widest)
	}
	return s
}

// columns is the longest line.
func (s screen) columns() int {
	if s.width == 0 {
		return width
	}
	return s.width
}

// turn waits between two chapters.
func (s screen) turn() {
	if s.pause != nil {
		s.pause()
	}
}

func (s screen) bold(text string) string { return s.colour("1", text) }

// verdict colours the outcome of a check.
func (s screen) verdict(outcome string) string {
	switch strings.TrimSpace(outcome) {
	case "ok":
		return s.colour("32", outcome)
	case "FAILED":
		return s.colour("1;31", outcome)
	}
	return outcome
}

func (s screen) colour(code, text string) string {
	if !s.colours {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
