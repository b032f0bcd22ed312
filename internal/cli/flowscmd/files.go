package flowscmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/aws/flowlog"
	azurelog "github.com/nephele-io/nephele/internal/cloud/azure/flowlog"
	"github.com/nephele-io/nephele/internal/flows"
)

// mostFiles bounds how many files one command reads.
const mostFiles = 200_000

// mostNotes bounds how many files a command says something about.
const mostNotes = 20

// source is what was read of files.
type source struct {
	// Files and Unread count the files, and those that could not be read to their end.
	Files, Unread int
	// Bad counts the lines that were left out, Lost the windows whose traffic the cloud did not
	// record.
	Bad, Lost int
	// Notes are for people.
	Notes []string
	more  int
}

func (s *source) note(format string, args ...any) {
	if len(s.Notes) >= mostNotes {
		s.more++
		return
	}
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// filesOf are the files that paths name: a folder stands for all below it.
func filesOf(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case name != path && strings.HasPrefix(d.Name(), "."):
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			case d.IsDir():
				return nil
			case len(out) >= mostFiles:
				return fmt.Errorf("more than %d files: name a smaller folder", mostFiles)
			}
			out = append(out, name)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("--logs: %w", err)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) == 0 {
		return nil, fmt.Errorf("--logs: there are no files in %s", strings.Join(paths, ", "))
	}
	return out, nil
}

// read reads files one after the other. What is wrong with one is noted, and the others are read.
func read(ctx context.Context, files []string, record func(*flows.Record)) (*source, error) {
	out := &source{Files: len(files)}
	lacks := map[string]int{}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		report, err := readFile(name, record, out)
		out.Bad += report.Bad
		for _, p := range report.Problems {
			out.note("%s: %s: left out", name, p)
		}
		if report.Bad > len(report.Problems) {
			out.note("%s: %d more lines are left out", name, report.Bad-len(report.Problems))
		}
		for _, l := range report.Lacks {
			lacks[l]++
		}
		if err != nil {
			out.Unread++
			out.note("%s: %v", name, err)
		}
	}
	if out.Unread == out.Files {
		return nil, errors.New(strings.Join(out.Notes, "\n"))
	}
	for _, l := range slices.Sorted(mapsKeys(lacks)) {
		out.note("%d of %d files lack the field %s", lacks[l], out.Files, l)
	}
	if len(lacks) > 0 {
		out.note("a flow log cannot be changed; one with all fields is made with --log-format '%s'", flowlog.Format())
	}
	if out.more > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("and %d more notes about files", out.more))
	}
	return out, nil
}

func mapsKeys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// readFile reads a file of either cloud: Azure's are JSON.
func readFile(name string, record func(*flows.Record), out *source) (flows.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return flows.Report{}, err
	}
	defer f.Close()
	read, in := flowlog.Read, bufio.NewReader(f)
	if head, err := in.Peek(1); err == nil && head[0] == '{' {
		read = azurelog.Read
	}
	return read(in, flows.Sink{
		Record: func(r *flows.Record) error { record(r); return nil },
		Gap: func(g *flows.Gap) error {
			if g.Lost {
				out.Lost++
			}
			return nil
		},
	})
}
