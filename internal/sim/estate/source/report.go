package source

import (
	"fmt"
	"strings"
)

// Report is how a description was read.
type Report struct {
	Source   string   // the path that was given to Load
	Format   string   // "describe answers", "collector dump", "estate YAML" or "saved state"
	Files    []string // files that were read, in order
	Ignored  []string // files that describe nothing the simulator has
	Warnings []Warning
	// Gaps is what an account has and the description does not show. The State has none of it, or
	// something made up in its place.
	Gaps []Gap
	// Renamed maps ids of the input that are no wire ids to those that represent them.
	Renamed map[string]string
}

// Gap is something that a description should tell and does not.
type Gap struct {
	// Region is where it is missing; empty if that is not said.
	Region string
	// Place is the file, or the folder if the file is missing.
	Place string
	// Object is the id of what is not told, or the member of an answer.
	Object string
	// Expected says what would tell it.
	Expected string
	// Taken says what the State has instead.
	Taken string
	// Needed is true if the rest of the description refers to what is not told, so that the State
	// is not what the account is.
	Needed bool
}

// String prints the gap in one line.
func (g Gap) String() string {
	return fmt.Sprintf("%s: %s: expected %s; taken as %s", g.Place, g.Object, g.Expected, g.Taken)
}

// Warning is one repair or oddity.
type Warning struct {
	File   string // empty when the whole description is meant
	Object string // id of the object
	Text   string
}

// String prints the warning in one line.
func (w Warning) String() string {
	var b strings.Builder
	if w.File != "" {
		b.WriteString(w.File + ": ")
	}
	if w.Object != "" {
		b.WriteString(w.Object + ": ")
	}
	return b.String() + w.Text
}

// String prints the whole report.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %d files read", r.Source, r.Format, len(r.Files))
	if len(r.Ignored) > 0 {
		fmt.Fprintf(&b, ", not simulated: %s", strings.Join(r.Ignored, " "))
	}
	for _, w := range r.Warnings {
		b.WriteString("\n  " + w.String())
	}
	return b.String()
}

// Warn adds a warning.
func (r *Report) Warn(file, object, format string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{file, object, fmt.Sprintf(format, args...)})
}
