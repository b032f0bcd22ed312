package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// library is the types that an answer is made of, from one or several packages. A name is the
// heading of a type's section without the name of the library.
type library struct {
	name    string
	folders []string
	types   map[string]*structType
}

// analysis has the types of the API, which answers of commands consist of, too.
var analysis = &library{folders: []string{"api/analysis/v1alpha1"}}

var (
	statusTypes  = &library{name: "status", folders: []string{"internal/status"}}
	logTypes     = &library{name: "flows", folders: []string{"internal/cli/flowscmd", "internal/flows/judge"}}
	testTypes    = &library{name: "test", folders: []string{"internal/cli"}}
	historyTypes = &library{name: "history", folders: []string{"internal/history", "api/nephele/v1alpha1"}}
	policyTests  = &library{name: "policytest", folders: []string{"internal/expect"}}
	recordTypes  = &library{name: "record", folders: []string{"internal/cloud", "internal/cloud/audit"}}
)

// printed are the answers that commands print with "-o json" or "-o yaml", by their types. Field is
// the field of an object in which a list stands; "[]" is a list itself.
var printed = []struct {
	command, field, typ string
	from                *library
}{
	{"nephele explain", "", "FlowAnswer", analysis},
	{"nephele reach", "flows", "ReachRow", analysis},
	{"nephele rules", "rules", "RuleUse", analysis},
	{"nephele rules --of", "endpoints", "EffectiveEndpoint", analysis},
	{"nephele plan", "", "PlanAnswer", analysis},
	{"nephele flows", "", "FlowQueryStatus", analysis},
	{"nephele flows --logs", "", "Answer", logTypes},
	{"nephele status", "", "Report", statusTypes},
	{"nephele history", "[]", "Revision", historyTypes},
	{"nephele history show", "", "Revision", historyTypes},
	{"nephele test", "", "testAnswer", testTypes},
}

// structType is a struct of a package.
type structType struct {
	name, doc string
	fields    []*ast.Field
}

// answers documents what commands print for programs, and the kinds of analysis.nephele.io, from
// the Go types of both.
func answers(out *bytes.Buffer) error {
	for _, l := range []*library{analysis, statusTypes, logTypes, testTypes, historyTypes, policyTests, recordTypes} {
		if err := l.read(); err != nil {
			return fmt.Errorf("reading the types of answers: %w", err)
		}
	}
	fmt.Fprint(out, "\n## What commands print\n\n| Command, with `-o json` | Prints |\n|---|---|\n")
	roots := map[*library][]string{}
	for _, p := range printed {
		if p.from.types[p.typ] == nil {
			return fmt.Errorf("%s prints %s, and there is no such type", p.command, p.typ)
		}
		what := p.from.link(p.typ)
		switch p.field {
		case "":
		case "[]":
			what = "a list of " + what
		default:
			what = fmt.Sprintf("an object whose `%s` are a list of %s", p.field, what)
		}
		fmt.Fprintf(out, "| `%s` | %s |\n", p.command, what)
		roots[p.from] = append(roots[p.from], p.typ)
	}
	fmt.Fprintf(out, "\n%s\n", fill(fmt.Sprintf("`nephele test` reads files of the kind PolicyTest, whose `spec` is a %s. A line of [the record of changes](../audit.md) is a %s.", policyTests.link("Spec"), recordTypes.link("line"))))
	roots[policyTests], roots[recordTypes] = []string{"Spec"}, []string{"line"}
	fmt.Fprint(out, "\n## Questions to the API\n\nEach is created, answered in its status at once, and never stored.\n\n| Kind | Question | Answer |\n|---|---|---|\n")
	kinds := 0
	for _, name := range sortedNames(analysis.types) {
		spec, status := analysis.types[name+"Spec"], analysis.types[name+"Status"]
		if spec == nil || status == nil {
			continue
		}
		kinds++
		fmt.Fprintf(out, "| %s | %s | %s |\n", cell(about(analysis.types[name])), analysis.link(spec.name), analysis.link(status.name))
		roots[analysis] = append(roots[analysis], spec.name, status.name)
	}
	if kinds == 0 {
		return fmt.Errorf("%s has no kind with a question and an answer", analysis.folders)
	}
	for _, l := range []*library{testTypes} { // their answers consist of types of the API, too
		roots[analysis] = append(roots[analysis], l.ofTheAPI(roots[l])...)
	}
	for _, l := range []*library{analysis, statusTypes, logTypes, historyTypes, testTypes, policyTests, recordTypes} {
		title := strings.TrimSpace("Types " + l.name)
		fmt.Fprintf(out, "\n## %s\n\nA field that is not always there is marked \"absent if empty\".\n", title)
		for _, name := range reachable(l.types, roots[l]) {
			t := l.types[name]
			if t.doc == "" {
				return fmt.Errorf("the type %s of %s has no comment", name, l.folders)
			}
			fmt.Fprintf(out, "\n### %s\n\n%s\n\n| Field | Type | What it is |\n|---|---|---|\n", l.heading(name), fill(escape(about(t))))
			l.rows(out, t)
		}
	}
	return nil
}

// heading is the title of a type's section.
func (l *library) heading(name string) string {
	if l.name == "" {
		return name
	}
	return l.name + "." + strings.TrimPrefix(name, l.name)
}

func (l *library) link(name string) string {
	heading := l.heading(name)
	return fmt.Sprintf("[%s](#%s)", heading, strings.ReplaceAll(strings.ToLower(heading), ".", ""))
}

// ofTheAPI are the types of package analysis that types of the library consist of.
func (l *library) ofTheAPI(roots []string) []string {
	var out []string
	for _, name := range reachable(l.types, roots) {
		for _, f := range l.types[name].fields {
			ast.Inspect(f.Type, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && l.types[s.Sel.Name] == nil && analysis.types[s.Sel.Name] != nil {
					out = append(out, s.Sel.Name)
				}
				return true
			})
		}
	}
	return out
}

// unmarked is a comment in one line, without marks for generators.
func unmarked(doc string) string {
	lines := slices.DeleteFunc(strings.Split(doc, "\n"), func(l string) bool { return strings.HasPrefix(l, "+") })
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}

// about is the comment of a type.
func about(t *structType) string { return unmarked(t.doc) }

func sortedNames(types map[string]*structType) []string {
	var names []string
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// read reads the structs of the library's packages.
func (l *library) read() error {
	l.types = map[string]*structType{}
	for _, folder := range l.folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return err
		}
		for _, path := range files {
			if strings.HasPrefix(filepath.Base(path), "zz_generated") || strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
					l.declare(g)
				}
			}
		}
	}
	if len(l.types) == 0 {
		return fmt.Errorf("%s has no types", l.folders)
	}
	return nil
}

// declare notes the structs of a declaration.
func (l *library) declare(g *ast.GenDecl) {
	for _, s := range g.Specs {
		spec := s.(*ast.TypeSpec)
		of, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		doc := spec.Doc
		if doc == nil {
			doc = g.Doc
		}
		l.types[spec.Name.Name] = &structType{spec.Name.Name, doc.Text(), of.Fields.List}
	}
}

// nameOf is the name of a type, of this package or another; "" for a type without one.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// reachable are the types that the roots consist of, sorted. A type that is embedded has no section
// of its own: its fields stand in the section of the type that embeds it.
func reachable(types map[string]*structType, roots []string) []string {
	seen := map[string]bool{}
	var visit func(name string)
	fields := func(t *structType) {
		for _, f := range t.fields {
			ast.Inspect(f.Type, func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				if !ok || types[nameOf(e)] == nil {
					return true
				}
				if len(f.Names) > 0 {
					visit(nameOf(e))
					return false
				}
				for _, inner := range types[nameOf(e)].fields {
					ast.Inspect(inner.Type, func(n ast.Node) bool {
						if e, ok := n.(ast.Expr); ok {
							visit(nameOf(e))
						}
						return true
					})
				}
				return false
			})
		}
	}
	visit = func(name string) {
		if t := types[name]; t != nil && !seen[name] {
			seen[name] = true
			fields(t)
		}
	}
	for _, r := range roots {
		visit(r)
	}
	return slices.DeleteFunc(sortedNames(types), func(n string) bool { return !seen[n] })
}

// rows writes the fields of a type, and in its place the fields of an embedded type. A comment
// before several fields belongs to all of them, as far as they have none of their own.
func (l *library) rows(out *bytes.Buffer, t *structType) {
	for _, f := range t.fields {
		var tag reflect.StructTag
		if f.Tag != nil {
			tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		}
		name, options, _ := strings.Cut(tag.Get("json"), ",")
		if len(f.Names) == 0 {
			if embedded := l.types[nameOf(f.Type)]; embedded != nil {
				l.rows(out, embedded)
			}
			continue
		}
		if name == "-" {
			continue
		}
		what := unmarked(f.Doc.Text())
		if what == "" {
			what = unmarked(f.Comment.Text())
		}
		if strings.Contains(options, "omitempty") {
			what = strings.TrimSpace(what + " Absent if empty.")
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", name, l.typeText(f.Type), cell(what))
	}
}

// typeText is a type as JSON has it.
func (l *library) typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return l.typeText(e.X)
	case *ast.ArrayType:
		return "list of " + l.typeText(e.Elt)
	case *ast.MapType:
		return "object of " + l.typeText(e.Value)
	}
	name := nameOf(e)
	_, foreign := e.(*ast.SelectorExpr)
	switch {
	case l.types[name] != nil:
		return l.link(name)
	case foreign && analysis.types[name] != nil:
		return analysis.link(name)
	case foreign && (name == "Time" || name == "MicroTime"):
		return "time"
	}
	switch name {
	case "bool":
		return "true or false"
	case "int", "int32", "int64", "float64", "uint16", "uint64":
		return "number"
	case "":
		return "object"
	}
	return "text"
}
