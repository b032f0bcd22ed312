package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// constant is a string constant whose value users meet.
type constant struct{ name, value, doc string }

// constants reads the constants below a folder whose names begin with one of the prefixes. A
// comment before several lines belongs to all of them.
func constants(folder string, prefixes ...string) ([]constant, error) {
	var out []constant
	fset := token.NewFileSet()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				out = append(out, declared(g, prefixes)...)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading constants: %w", err)
	}
	slices.SortStableFunc(out, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return out, nil
}

func declared(g *ast.GenDecl, prefixes []string) []constant {
	var out []constant
	doc := ""
	for _, s := range g.Specs {
		spec := s.(*ast.ValueSpec)
		switch {
		case spec.Doc != nil:
			doc = spec.Doc.Text()
		case spec.Comment != nil:
			doc = spec.Comment.Text()
		case !g.Lparen.IsValid():
			doc = g.Doc.Text()
		}
		for i, id := range spec.Names {
			if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(id.Name, p) && id.Name != p }) || i >= len(spec.Values) {
				continue
			}
			if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if value, err := strconv.Unquote(lit.Value); err == nil {
					out = append(out, constant{id.Name, value, doc})
				}
			}
		}
	}
	return out
}

// about is the comment of a constant without its name at the beginning.
func (c constant) about() string {
	text := strings.Join(strings.Fields(c.doc), " ")
	text = strings.TrimPrefix(text, c.name)
	text = strings.TrimPrefix(strings.TrimPrefix(text, ":"), " ")
	return text
}

// table writes constants, one whose value and meaning were there before left out. A comment may
// begin with the objects that have it: "(account): what it says".
func table(out *bytes.Buffer, title, column string, of []constant) {
	fmt.Fprintf(out, "\n## %s\n\n| %s | On | What it says |\n|---|---|---|\n", title, column)
	seen := map[string]bool{}
	for _, c := range of {
		on, about := "", c.about()
		if rest, ok := strings.CutPrefix(about, "("); ok {
			on, about, _ = strings.Cut(rest, ")")
			about = strings.TrimLeft(about, ": ")
		}
		if line := fmt.Sprintf("| `%s` | %s | %s |\n", c.value, cell(on), cell(about)); !seen[line] {
			seen[line] = true
			out.WriteString(line)
		}
	}
}

func conditions(out *bytes.Buffer) error {
	for _, t := range []struct{ title, column, prefix string }{{"Conditions", "Condition", "Condition"}, {"Reasons", "Reason", "Reason"}} {
		of, err := constants("api", t.prefix)
		if err != nil {
			return err
		}
		if len(of) < 10 {
			return fmt.Errorf("found %d %s", len(of), t.title)
		}
		table(out, t.title, t.column, of)
	}
	return nil
}

func annotations(out *bytes.Buffer) error {
	for _, t := range []struct{ title, column, prefix string }{{"Annotations", "Annotation", "Annotation"}, {"Labels", "Label", "Label"}} {
		of, err := constants("api", t.prefix)
		if err != nil {
			return err
		}
		if len(of) < 3 {
			return fmt.Errorf("found %d %s", len(of), t.title)
		}
		table(out, t.title, t.column, of)
	}
	return nil
}
