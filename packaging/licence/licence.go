// Package licence tells under which licence a module is, by the text that is in it.
//
// It owns the marks of the licences that modules of ours have. It promises to guess nothing: a text
// that has none of the marks, or marks of several licences, is "unknown", and somebody has to look.
// It is safe for concurrent use.
package licence

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Module is a module that is in one of our programs.
type Module struct{ Path, Version, Licence string }

// Modules lists what the programs below cmd/ of modules in these folders of root are made of.
func Modules(ctx context.Context, root string, dirs ...string) ([]Module, error) {
	seen := map[string]bool{}
	var out []Module
	for _, dir := range dirs {
		cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", "./cmd/...")
		cmd.Dir = filepath.Join(root, dir)
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		raw, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the modules of %s: %w", dir, err)
		}
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimSpace(line)
			f := strings.SplitN(line, " ", 3)
			if len(f) != 3 || seen[line] || strings.HasPrefix(f[0], own) {
				continue
			}
			seen[line] = true
			l, err := OfModule(f[2])
			if err != nil {
				return nil, err
			}
			out = append(out, Module{f[0], f[1], l})
		}
	}
	slices.SortFunc(out, func(a, b Module) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version)) })
	return slices.Compact(out), nil
}

const own = "github.com/nephele-io/nephele"

// Text is a list of modules, one a line.
func Text(all []Module) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s %s %s\n", m.Path, m.Version, m.Licence)
	}
	return b.String()
}

// Unknown is the licence of what has none that is known here.
const Unknown = "unknown"

// marks are what every copy of a licence says, in small letters and with single blanks.
var marks = []struct {
	licence string
	all     []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0, january 2004"}},
	{"MPL-2.0", []string{"mozilla public license", "2.0"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "neither the name"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "this list of conditions and the following disclaimer"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "the above copyright notice and this permission notice"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"}},
	{"ISC", []string{"permission to use, copy, modify, and distribute this software for any purpose with or without fee"}},
	{"CC-BY-SA-4.0", []string{"attribution-sharealike 4.0 international"}},
	{"CC0-1.0", []string{"creative commons", "cc0 1.0"}},
	{"Unlicense", []string{"this is free and unencumbered software released into the public domain"}},
	{"AGPL-3.0", []string{"gnu affero general public license"}},
	{"LGPL", []string{"gnu lesser general public license"}},
	{"GPL", []string{"gnu general public license", "terms and conditions"}},
}

var blanks = regexp.MustCompile(`\s+`)

// Of tells the licence of a text.
func Of(text string) string {
	text = blanks.ReplaceAllString(strings.ToLower(text), " ")
	var found []string
	for _, m := range marks {
		if !slices.ContainsFunc(m.all, func(mark string) bool { return !strings.Contains(text, mark) }) && !slices.Contains(found, m.licence) {
			found = append(found, m.licence)
		}
	}
	// The longer one of the two says what the shorter one says, and that of Mozilla names the GNU
	// licences.
	drop := func(less, more string) {
		if i := slices.Index(found, less); i >= 0 && slices.Contains(found, more) {
			found = slices.Delete(found, i, i+1)
		}
	}
	drop("BSD-2-Clause", "BSD-3-Clause")
	for _, gnu := range []string{"AGPL-3.0", "LGPL", "GPL"} {
		drop(gnu, "MPL-2.0")
	}
	drop("GPL", "LGPL")
	drop("GPL", "AGPL-3.0")
	slices.Sort(found)
	if len(found) == 0 {
		return Unknown
	}
	return strings.Join(found, " AND ")
}

// fileName is how the files are called that have the licence of a module.
var fileName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([.-].*)?$`)

// OfModule tells the licences of the module in a folder: all those that it has a text of.
func OfModule(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("read the licence: %w", err)
	}
	var found []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !fileName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", fmt.Errorf("read the licence: %w", err)
		}
		found = append(found, strings.Split(Of(string(raw)), " AND ")...)
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		return Unknown, nil
	}
	return strings.Join(found, " AND "), nil
}
