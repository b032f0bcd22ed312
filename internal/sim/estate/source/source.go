// Package source reads the files of a description of cloud accounts, and collects what was noticed
// while they were read.
//
// It owns the Report: files, repairs and gaps; and the errors that say where in which file the
// fault is. A Source is used by one goroutine.
package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/platform/unicodetext"
)

// Source is the files that a description is read from.
type Source struct {
	FS   fs.FS
	Root string // where FS is, for messages
	// Report is what was noticed so far.
	Report Report
}

// Path is the name of a file as messages spell it.
func (s *Source) Path(name string) string { return path.Join(s.Root, name) }

// Read reads a file as text, and notes it in the report.
func (s *Source) Read(name string) ([]byte, error) {
	data, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return nil, fmt.Errorf("load an estate: %w", err)
	}
	if !slices.Contains(s.Report.Files, name) {
		s.Report.Files = append(s.Report.Files, name)
	}
	text, err := unicodetext.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path(name), err)
	}
	return text, nil
}

// Members decodes a JSON object into its members.
func Members(name string, data []byte) (map[string]json.RawMessage, error) {
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '[' {
		return nil, fmt.Errorf("%s: a list, as --query of aws makes: expected the whole answer, an object such as {\"Reservations\": [...]}", name)
	}
	var members map[string]json.RawMessage
	if err := Decode(name, "", data, &members); err != nil {
		return nil, err
	}
	return members, nil
}

// Decode decodes JSON and says in errors where in the file and in which field the fault is.
func Decode(file, member string, data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: line %d: not JSON: %w", file, line(data, syntax.Offset), err)
	case errors.As(err, &kind):
		field := strings.Trim(member+"."+kind.Field, ".")
		if field == "" {
			field = "the whole file"
		}
		return fmt.Errorf("%s: line %d: %s: expected %s, found a %s", file, line(data, kind.Offset), field, plain(kind.Type.String()), kind.Value)
	case member != "":
		return fmt.Errorf("%s: %s: %w", file, member, err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// plain turns a Go type into words.
func plain(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "*int"):
		return "a number"
	case strings.HasPrefix(goType, "map"), strings.Contains(goType, "."), strings.HasPrefix(goType, "struct"):
		return "an object"
	}
	return "a " + goType
}

func line(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}

// List names members for people.
func List(members map[string]json.RawMessage) string {
	if len(members) == 0 {
		return "an empty object"
	}
	var names []string
	for m := range members {
		names = append(names, m)
	}
	slices.Sort(names)
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	return strings.Join(names, ", ")
}
