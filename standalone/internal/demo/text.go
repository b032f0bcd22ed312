package demo

import (
	"fmt"
	"io"
	"strings"
)

// width is the longest line of the story where no one is at a terminal.
const width = 96

// teller prints the story: plain lines that read well in a log.
type teller struct {
	out  io.Writer
	step int
	// screen is what the story is shown on; the zero value is a log.
	screen screen
}

// heading begins the next step.
func (t *teller) heading(title string) {
	if t.step++; t.step > 1 {
		t.screen.turn()
	}
	text := fmt.Sprintf("%d. %s", t.step, title)
	fmt.Fprintf(t.out, "\n%s\n%s\n", t.screen.bold(text), strings.Repeat("-", len(text)))
}

// say prints a paragraph, broken into lines.
func (t *teller) say(format string, args ...any) {
	fmt.Fprintln(t.out, strings.Join(t.wrap(fmt.Sprintf(format, args...), ""), "\n"))
}

// item prints a paragraph as the item of a list.
func (t *teller) item(format string, args ...any) {
	lines := t.wrap(fmt.Sprintf(format, args...), "    ")
	fmt.Fprintln(t.out, "  - "+strings.TrimPrefix(strings.Join(lines, "\n"), "    "))
}

// print prints text that has its own lines; those that are too long are broken, further in than
// they begin.
func (t *teller) print(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n ")
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))] + "    "
		for width := t.screen.columns(); len(line) > width; {
			at := strings.LastIndexByte(line[:width], ' ')
			if at < len(indent) {
				break
			}
			fmt.Fprintln(t.out, strings.TrimRight(line[:at], " "))
			line = indent + strings.TrimLeft(line[at:], " ")
		}
		fmt.Fprintln(t.out, line)
	}
}

// result prints the outcome of a check.
func (t *teller) result(outcome, format string, args ...any) {
	const indent = "          "
	lines := t.wrap(fmt.Sprintf(format, args...), indent)
	fmt.Fprintf(t.out, "  %s  %s\n", t.screen.verdict(fmt.Sprintf("%-6s", outcome)), strings.TrimPrefix(strings.Join(lines, "\n"), indent))
}

// command shows what a person would type.
func (t *teller) command(format string, args ...any) {
	fmt.Fprintf(t.out, "  $ "+format+"\n", args...)
}

// wrap breaks text at blanks into lines that begin with indent. A word that is too long gets a line
// of its own.
func (t *teller) wrap(text, indent string) []string {
	width := t.screen.columns()
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(indent)+len(line)+1+len(word) > width {
			lines = append(lines, indent+line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, indent+line)
}
