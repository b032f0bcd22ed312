package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// command is one command of a page, with what the page says of it.
type command struct {
	at     string // page and line
	text   string
	output []string
	exit   int
	notRun string // why it is not run; empty if it is
}

// page is what a page shows to be typed.
type page struct {
	name     string
	commands []command
	inline   []command // those in the text, which are not run
}

var (
	exitCode = regexp.MustCompile(`#.*exit code (\d)`)
	notRun   = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
	typed    = regexp.MustCompile(`^ {4}(\$ .+|(?:bin/)?(?:nephele|kubectl|aws|curl|make|go) .+)$`)
	inText   = regexp.MustCompile("`((?:bin/|kubectl )?nephele(?: [^`]*)?)`")
)

// readPages reads the README and all pages of docs.
func readPages() ([]page, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		return nil, err
	}
	files = append([]string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}, files...)
	var out []page
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, f)
		if err != nil {
			return nil, err
		}
		p, err := readPage(name, string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// reader goes through the lines of a page.
type reader struct {
	page   page
	fence  string // the kind of the block that it is in; empty outside
	reason string // of the next block
	inside bool   // an indented block with commands
}

func readPage(name, text string) (page, error) {
	r := reader{page: page{name: name}}
	for i, line := range strings.Split(text, "\n") {
		if err := r.line(fmt.Sprintf("%s:%d", name, i+1), line); err != nil {
			return page{}, err
		}
	}
	return r.page, nil
}

func (r *reader) line(at, line string) error {
	if info, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
		if r.fence != "" {
			r.fence, r.reason = "", ""
			return nil
		}
		if r.fence = strings.TrimSpace(info); r.fence == "" || slices.Contains([]string{"sh", "bash", "shell"}, r.fence) {
			return fmt.Errorf("%s: a block of the kind %q: commands are of the kind console, what is printed is text", at, r.fence)
		}
		return nil
	}
	if r.fence != "" {
		if r.fence == "console" {
			r.inBlock(at, line)
		}
		return nil
	}
	if m := notRun.FindStringSubmatch(line); m != nil {
		r.reason = m[1]
		return nil
	}
	switch m := typed.FindStringSubmatch(line); {
	case m != nil:
		r.inside = true
		r.inBlock(at, "$ "+strings.TrimPrefix(m[1], "$ "))
	case r.inside && strings.HasPrefix(line, "    "):
		r.inBlock(at, line[4:])
	case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "    "):
		r.inside, r.reason = false, ""
		for _, m := range inText.FindAllStringSubmatch(line, -1) {
			r.page.inline = append(r.page.inline, command{at: at, text: m[1]})
		}
	}
	return nil
}

// inBlock takes a line of a block with commands: a command, the rest of one, or a line of output.
func (r *reader) inBlock(at, line string) {
	all := r.page.commands
	if text, ok := strings.CutPrefix(line, "$ "); ok {
		c := command{at: at, text: text, notRun: r.reason}
		if m := exitCode.FindStringSubmatch(text); m != nil {
			c.exit, _ = strconv.Atoi(m[1]) // it is a digit
		}
		r.page.commands = append(all, c)
		return
	}
	if len(all) == 0 {
		return
	}
	last := &all[len(all)-1]
	if strings.HasSuffix(last.text, "\\") && len(last.output) == 0 {
		last.text += "\n" + line
		return
	}
	if strings.TrimSpace(line) != "" {
		last.output = append(last.output, line)
	}
}

// like reports whether an output has all lines that are shown, in that order; else the first that
// it has not.
func like(output string, shown []string) (missing string, ok bool) {
	lines := strings.Split(output, "\n")
	for _, want := range shown {
		if strings.TrimSpace(want) == "..." {
			continue
		}
		at := slices.IndexFunc(lines, func(line string) bool { return alike(line, want) })
		if at < 0 {
			return want, false
		}
		lines = lines[at+1:]
	}
	return "", true
}

// alike compares a line with one that is shown: word by word, where words with digits may be others
// with digits, and ... is anything.
func alike(line, shown string) bool {
	var pattern []string
	for _, word := range strings.Fields(shown) {
		switch {
		case word == "...":
			pattern = append(pattern, `.*`)
		case strings.ContainsAny(word, "0123456789"):
			pattern = append(pattern, `\S*\d\S*`)
		default:
			pattern = append(pattern, regexp.QuoteMeta(word))
		}
	}
	re := regexp.MustCompile(`^\s*` + strings.Join(pattern, `\s+`) + `\s*$`)
	return re.MatchString(line)
}
