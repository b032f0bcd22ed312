package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/tier"
)

// notProven begins the lines in which a command that is no Go test says what it could not prove.
const notProven = "not proven: "

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// timed is a test and how long it took.
type timed struct {
	name    string
	seconds float64
}

// cost is what a part took, by the clock and of processors.
type cost struct {
	of              string
	took, processor time.Duration
}

// runner runs parts, and counts.
type runner struct {
	out   io.Writer
	begin time.Time
	// unproven are the lines about what could not be proven here, left the number of tests that
	// belong to the long tier, passed that of the tests that have passed.
	unproven     []string
	left, passed int
	tests        []timed
	costs        []cost
	// skipped are the tests of packages that run still, by package and by why.
	skipped map[string]map[string][]string
}

// read shows what a command prints: of go test's events only failures, what was not proven, and a
// line per package.
func (r *runner) read(from io.Reader) error {
	texts := map[string]*strings.Builder{}
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line, texts)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *runner) line(line string, texts map[string]*strings.Builder) {
	var e event
	if !strings.HasPrefix(line, `{"`) || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		if what, ok := strings.CutPrefix(line, notProven); ok {
			r.unproven = append(r.unproven, strings.TrimSpace(what))
		}
		fmt.Fprint(r.out, line)
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if texts[key] == nil {
			texts[key] = &strings.Builder{}
		}
		texts[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		var text string
		if b := texts[key]; b != nil {
			text = b.String()
			delete(texts, key)
		}
		if e.Test == "" {
			r.endOfPackage(e, text, texts)
		} else {
			r.endOfTest(e, text)
		}
	}
}

func (r *runner) endOfTest(e event, text string) {
	if !strings.Contains(e.Test, "/") {
		r.tests = append(r.tests, timed{short(e.Package) + " " + e.Test, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		fmt.Fprint(r.out, text)
	case "skip":
		why := reason(text)
		if strings.HasPrefix(why, tier.Left) {
			r.left++
			return
		}
		r.unproven = append(r.unproven, fmt.Sprintf("%s (%s): %s", e.Test, short(e.Package), why))
		if r.skipped == nil {
			r.skipped = map[string]map[string][]string{}
		}
		if r.skipped[e.Package] == nil {
			r.skipped[e.Package] = map[string][]string{}
		}
		r.skipped[e.Package][why] = append(r.skipped[e.Package][why], e.Test)
	}
}

// sayUnproven prints one line for all tests of a package that were skipped for the same reason.
func (r *runner) sayUnproven(pkg string) {
	const most = 3
	for _, why := range slices.Sorted(maps.Keys(r.skipped[pkg])) {
		names := r.skipped[pkg][why]
		more := ""
		if n := len(names) - most; n > 0 {
			names, more = names[:most], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(r.out, "%s%s%s (%s): %s\n", notProven, strings.Join(names, ", "), more, short(pkg), why)
	}
	delete(r.skipped, pkg)
}

// endOfPackage shows the line of a package, and what its tests have printed that were not at their
// end when it ended.
func (r *runner) endOfPackage(e event, text string, texts map[string]*strings.Builder) {
	r.sayUnproven(e.Package)
	if e.Action == "skip" {
		return // no test files
	}
	if e.Action == "fail" {
		for key, b := range texts {
			if strings.HasPrefix(key, e.Package+" ") {
				fmt.Fprint(r.out, b.String())
				delete(texts, key)
			}
		}
		fmt.Fprint(r.out, text)
		return
	}
	cached := ""
	if strings.Contains(text, "(cached)") {
		cached = " (cached)"
	}
	fmt.Fprintf(r.out, "ok   %6.1fs  %s%s\n", e.Elapsed, short(e.Package), cached)
}

// short is the name of a package below the main module.
func short(pkg string) string {
	_, below, ok := strings.Cut(pkg, "/nephele/")
	if !ok {
		return "."
	}
	return below
}

// reason is what a skipped test has said, in one line.
func reason(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") || line == "" {
			continue
		}
		// file_test.go:12: the reason
		if _, after, ok := strings.Cut(line, ".go:"); ok {
			_, line, _ = strings.Cut(after, ": ")
			words = words[:0] // what it logged before is no reason
		}
		words = append(words, line)
	}
	const most = 300
	out := strings.Join(words, " ")
	if runes := []rune(out); len(runes) > most {
		out = string(runes[:most]) + "..."
	}
	return out
}

// lastLine says what all parts together have shown.
func (r *runner) lastLine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "all checks and tests have passed in %s", time.Since(r.begin).Round(time.Second))
	if r.passed > 0 {
		fmt.Fprintf(&b, "; %d tests and subtests", r.passed)
	}
	if r.left > 0 {
		fmt.Fprintf(&b, "; %d more are left to make test-long", r.left)
	}
	switch n := len(r.unproven); n {
	case 0:
		b.WriteString("; nothing was left unproven for want of tools or rights")
	default:
		fmt.Fprintf(&b, "; NOT PROVEN HERE: %d, see the lines that begin with %q", n, strings.TrimSpace(notProven))
	}
	return b.String()
}

// printSlowest prints the tests that took longest.
func (r *runner) printSlowest(n int) {
	if n <= 0 {
		return
	}
	tests := slices.Clone(r.tests)
	slices.SortFunc(tests, func(a, b timed) int { return int(1000 * (b.seconds - a.seconds)) })
	fmt.Fprintln(r.out, "\nThe slowest tests, in seconds; those that run at the same time wait for one another:")
	for _, t := range tests[:min(n, len(tests))] {
		fmt.Fprintf(r.out, "%8.1f  %s\n", t.seconds, t.name)
	}
}

// printCosts prints what each part took.
func (r *runner) printCosts() {
	fmt.Fprintln(r.out, "\nWhat took how long, in seconds by the clock and of processors:")
	for _, c := range r.costs {
		fmt.Fprintf(r.out, "%8.1f %8.1f  %s\n", c.took.Seconds(), c.processor.Seconds(), c.of)
	}
}
