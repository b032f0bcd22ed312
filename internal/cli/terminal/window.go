package terminal

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// narrowestWindow is the width below which lines are not broken any shorter.
const narrowestWindow = 40

// window passes a text for people on to where it is shown. Lines that a terminal has no room for
// are broken between words, further in than they begin. Elsewhere, in a file or a pipe, lines stay
// whole, for programs that look at lines.
type window struct {
	out     io.Writer
	columns int // 0: as many as there are
	rest    []byte
}

// NewWindow returns a writer that breaks lines for so many columns; 0 breaks none. The text must
// end with a line.
func NewWindow(out io.Writer, columns int) io.Writer { return &window{out: out, columns: columns} }

// WindowOf is NewWindow with as many columns as what a text is written to has.
func WindowOf(out io.Writer) io.Writer {
	w := &window{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			w.columns = max(columns, narrowestWindow)
		}
	}
	return w
}

// ForPeople is where a command writes an answer in a format: what is no table is for programs.
func ForPeople(out io.Writer, format string) io.Writer {
	if format == "table" {
		return WindowOf(out)
	}
	return out
}

// Write implements io.Writer.
func (w *window) Write(text []byte) (int, error) {
	if w.columns == 0 {
		return w.out.Write(text)
	}
	w.rest = append(w.rest, text...)
	var b strings.Builder
	for {
		line, rest, whole := strings.Cut(string(w.rest), "\n")
		if !whole {
			break
		}
		b.WriteString(broken(line, w.columns) + "\n")
		w.rest = []byte(rest)
	}
	if _, err := io.WriteString(w.out, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// broken breaks a line between words into lines of so many columns. Words that are longer, such as
// a command to copy, stay whole.
func broken(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	indent := strings.Repeat(" ", hanging(line, columns))
	var b strings.Builder
	for first := true; utf8.RuneCountInString(line) > columns; first = false {
		runes := []rune(line)
		least := len(indent)
		if first {
			least = len(line) - len(strings.TrimLeft(line, " "))
		}
		at := lastSpace(runes[:columns+1], least)
		if at < 0 {
			if at = firstSpace(runes, columns); at < 0 {
				break
			}
		}
		b.WriteString(strings.TrimRight(string(runes[:at]), " ") + "\n")
		line = indent + strings.TrimLeft(string(runes[at:]), " ")
	}
	return b.String() + line
}

// lastSpace is the place of the last blank behind the first words; -1 if there is none.
func lastSpace(line []rune, least int) int {
	for i := len(line) - 1; i > least; i-- {
		if line[i] == ' ' && line[i-1] != ' ' {
			return i
		}
	}
	return -1
}

func firstSpace(line []rune, from int) int {
	for i := from; i < len(line); i++ {
		if line[i] == ' ' {
			return i
		}
	}
	return -1
}

// hanging is how far in the lines after the first begin: under the last cell of a row of a table,
// if that leaves room for a text; else a little further than the line itself.
func hanging(line string, columns int) int {
	lead := len(line) - len(strings.TrimLeft(line, " "))
	cells, at := 0, 0
	for i := lead; i < len(line); i++ {
		if i > 1 && line[i] != ' ' && line[i-1] == ' ' && line[i-2] == ' ' {
			if line[i] == '#' { // a comment, which is no cell
				break
			}
			cells, at = cells+1, utf8.RuneCountInString(line[:i])
		}
	}
	if cells > 1 && at <= columns/2 {
		return at
	}
	return lead + 4
}
