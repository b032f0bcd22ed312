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

// named chooses constants by the beginnings of their names.
func named(prefixes ...string) func(*ast.ValueSpec, string) bool {
	return func(_ *ast.ValueSpec, name string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) && name != p })
	}
}

// typed chooses constants by the names of their types.
func typed(types ...string) func(*ast.ValueSpec, string) bool {
	return func(spec *ast.ValueSpec, _ string) bool {
		id, ok := spec.Type.(*ast.Ident)
		return ok && slices.Contains(types, id.Name)
	}
}

// constants reads the string constants below a folder that are chosen. A comment before several
// lines belongs to all of them.
func constants(folder string, chosen func(spec *ast.ValueSpec, name string) bool) ([]constant, error) {
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
				out = append(out, declared(g, chosen)...)
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

func declared(g *ast.GenDecl, chosen func(*ast.ValueSpec, string) bool) []constant {
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
			if i >= len(spec.Values) || !chosen(spec, id.Name) {
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
	if before, after, ok := strings.Cut(text, ": "); ok && strings.Contains(before, c.name) && !strings.Contains(before, ". ") {
		if _, on, ok := strings.Cut(before, " ("); ok {
			return "(" + on + ": " + after
		}
		return after
	}
	return strings.TrimPrefix(strings.TrimPrefix(text, c.name), " ")
}

// table writes constants, one whose value and meaning were there before left out. A comment may
// begin with the objects that have it: "(account): what it says".
func table(out *bytes.Buffer, title, column string, of []constant) {
	head, rule := "| "+column+" | What it says |", "|---|---|"
	someOn := slices.ContainsFunc(of, func(c constant) bool { return strings.HasPrefix(c.about(), "(") })
	if someOn {
		head, rule = "| "+column+" | On | What it says |", "|---|---|---|"
	}
	fmt.Fprintf(out, "\n## %s\n\n%s\n%s\n", title, head, rule)
	seen := map[string]bool{}
	for _, c := range of {
		on, about := "", c.about()
		if rest, ok := strings.CutPrefix(about, "("); ok {
			on, about, _ = strings.Cut(rest, ")")
			about = strings.TrimLeft(about, ": ")
		}
		line := fmt.Sprintf("| `%s` | %s |\n", c.value, cell(about))
		if someOn {
			line = fmt.Sprintf("| `%s` | %s | %s |\n", c.value, cell(on), cell(about))
		}
		if !seen[line] {
			seen[line] = true
			out.WriteString(line)
		}
	}
}

// list is a table of constants.
type list struct {
	title, column, folder string
	chosen                func(*ast.ValueSpec, string) bool
}

func conditions(out *bytes.Buffer) error {
	return lists(out,
		list{"Conditions", "Condition", "api", named("Condition")},
		list{"Reasons", "Reason", "api", named("Reason")},
		list{"Warnings of nephele plan", "Reason", "internal", typed("WarningReason")},
		list{"Words of nephele explain", "Word", "internal/explain", named("Point", "Remark", "Differs", "State")},
	)
}

func annotations(out *bytes.Buffer) error {
	return lists(out,
		list{"Annotations", "Annotation", "api", named("Annotation")},
		list{"Labels", "Label", "api", named("Label")},
	)
}

func lists(out *bytes.Buffer, all ...list) error {
	for _, l := range all {
		of, err := constants(l.folder, l.chosen)
		if err != nil {
			return err
		}
		if len(of) < 3 {
			return fmt.Errorf("found %d %s below %s", len(of), l.title, l.folder)
		}
		table(out, l.title, l.column, of)
	}
	return nil
}
