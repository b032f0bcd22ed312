package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// constant is a string constant whose value users meet, with what its comment says.
type constant struct{ name, value, about string }

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

// values are the string constants of a package by their names.
type values map[string]string

// known reads all string constants of the packages below a folder, by package, so that one may be
// made of others and a comment may name them.
func known(folder string) (map[string]values, error) {
	out := map[string]values{}
	err := eachConst(folder, func(dir string, g *ast.GenDecl) {
		if out[dir] == nil {
			out[dir] = values{}
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			for i, id := range spec.Names {
				if i < len(spec.Values) {
					if value, ok := out[dir].of(spec.Values[i]); ok {
						out[dir][id.Name] = value
					}
				}
			}
		}
	})
	return out, err
}

// of is a string that is written out, or made of constants that are known.
func (v values) of(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, e.Kind == token.STRING && err == nil
	case *ast.Ident:
		value, ok := v[e.Name]
		return value, ok
	case *ast.BinaryExpr:
		x, okX := v.of(e.X)
		y, okY := v.of(e.Y)
		return x + y, okX && okY && e.Op == token.ADD
	}
	return "", false
}

// eachConst visits the declarations of constants below a folder, each with the folder of its
// package, in the order of files.
func eachConst(folder string, visit func(dir string, g *ast.GenDecl)) error {
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
				visit(filepath.Dir(path), g)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading constants: %w", err)
	}
	return nil
}

// constants reads the string constants below a folder that are chosen. A comment before several
// lines belongs to all of them.
func constants(folder string, chosen func(spec *ast.ValueSpec, name string) bool) ([]constant, error) {
	names, err := known(folder)
	if err != nil {
		return nil, err
	}
	var out []constant
	err = eachConst(folder, func(dir string, g *ast.GenDecl) { out = append(out, declared(g, names[dir], chosen)...) })
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return out, nil
}

func declared(g *ast.GenDecl, names values, chosen func(*ast.ValueSpec, string) bool) []constant {
	var out []constant
	doc := ""
	for _, s := range g.Specs {
		spec := s.(*ast.ValueSpec)
		switch {
		case spec.Doc != nil:
			doc = spec.Doc.Text()
		case spec.Comment != nil:
			doc = spec.Comment.Text()
		case !g.Lparen.IsValid() || strings.HasPrefix(g.Doc.Text(), spec.Names[0].Name):
			doc = g.Doc.Text()
		}
		for i, id := range spec.Names {
			if i >= len(spec.Values) || !chosen(spec, id.Name) {
				continue
			}
			if value, ok := names.of(spec.Values[i]); ok && value != "" {
				out = append(out, constant{id.Name, value, names.about(id.Name, doc)})
			}
		}
	}
	return out
}

var (
	// lead is what a comment begins with that says of one or several constants what they are.
	lead = regexp.MustCompile(`^\w+(?:, \w+)*(?: and (?:\w+|the others))?( \([^)]*\))?: `)
	name = regexp.MustCompile(`\b[A-Z]\w+`)
)

// about is the comment of a constant without its name at the beginning, and with the values of
// constants in place of their names.
func (v values) about(constant, doc string) string {
	text := strings.Join(strings.Fields(doc), " ")
	if m := lead.FindStringSubmatch(text); m != nil && strings.Contains(m[0], constant) {
		text = strings.TrimSpace(m[1] + " " + strings.TrimPrefix(text, m[0]))
	} else {
		text = strings.TrimLeft(strings.TrimPrefix(text, constant), " ,")
	}
	return name.ReplaceAllStringFunc(text, func(n string) string {
		if value, ok := v[n]; ok && strings.ContainsFunc(n[1:], unicode.IsUpper) {
			return "`" + value + "`"
		}
		return n
	})
}

// table writes constants, one whose value and meaning were there before left out. A comment may
// begin with the objects that have it: "(account): what it says".
func table(out *bytes.Buffer, title, column string, of []constant) {
	head, rule := "| "+column+" | What it says |", "|---|---|"
	someOn := slices.ContainsFunc(of, func(c constant) bool { return strings.HasPrefix(c.about, "(") })
	if someOn {
		head, rule = "| "+column+" | On | What it says |", "|---|---|---|"
	}
	fmt.Fprintf(out, "\n## %s\n\n%s\n%s\n", title, head, rule)
	seen := map[string]bool{}
	for _, c := range of {
		on, about := "", c.about
		if rest, ok := strings.CutPrefix(about, "("); ok {
			on, about, _ = strings.Cut(rest, ")")
			about = strings.TrimLeft(about, ":, ")
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
		list{"How a policy stands", "Word", "internal/status", typed("Phase")},
		list{"Warnings of nephele plan", "Reason", "internal", typed("WarningReason")},
		list{"Words of nephele flows", "DIFFERS", "internal/flows/judge", typed("Disagreement")},
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
