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

// analysisFolder has the types of answers.
const analysisFolder = "api/analysis/v1alpha1"

// printed are the answers that commands print with "-o json" or "-o yaml", by their types. Field is
// the field of an object in which a list stands.
var printed = []struct{ command, field, typ string }{
	{"nephele explain", "", "FlowAnswer"},
	{"nephele reach", "flows", "ReachRow"},
	{"nephele rules", "rules", "RuleUse"},
	{"nephele rules --of", "endpoints", "EffectiveEndpoint"},
	{"nephele plan", "", "PlanAnswer"},
}

// structType is a type of package analysis.
type structType struct {
	name, doc string
	fields    []*ast.Field
}

// answers documents what commands print for programs, and the kinds of analysis.nephele.io, from
// the Go types of both.
func answers(out *bytes.Buffer) error {
	types, err := structTypes(analysisFolder)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n## What commands print\n\n| Command, with `-o json` | Prints |\n|---|---|\n")
	var roots []string
	for _, p := range printed {
		if types[p.typ] == nil {
			return fmt.Errorf("%s prints %s, and there is no such type", p.command, p.typ)
		}
		what := link(p.typ)
		if p.field != "" {
			what = fmt.Sprintf("an object whose `%s` are a list of %s", p.field, what)
		}
		fmt.Fprintf(out, "| `%s` | %s |\n", p.command, what)
		roots = append(roots, p.typ)
	}
	fmt.Fprint(out, "\n## Questions to the API\n\nEach is created, answered in its status at once, and never stored.\n\n| Kind | Question | Answer |\n|---|---|---|\n")
	kinds := 0
	for _, name := range sortedNames(types) {
		spec, status := types[name+"Spec"], types[name+"Status"]
		if spec == nil || status == nil {
			continue
		}
		kinds++
		fmt.Fprintf(out, "| %s | %s | %s |\n", cell(about(types[name])), link(spec.name), link(status.name))
		roots = append(roots, spec.name, status.name)
	}
	if kinds == 0 {
		return fmt.Errorf("%s has no kind with a question and an answer", analysisFolder)
	}
	fmt.Fprint(out, "\n## Types\n\nA field that is not always there is marked \"absent if empty\".\n")
	for _, name := range reachable(types, roots) {
		t := types[name]
		fmt.Fprintf(out, "\n### %s\n\n%s\n\n| Field | Type | What it is |\n|---|---|---|\n", name, fill(escape(about(t))))
		rows(out, types, t)
	}
	return nil
}

func link(name string) string { return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name)) }

// about is the comment of a type without marks for generators.
func about(t *structType) string {
	lines := slices.DeleteFunc(strings.Split(t.doc, "\n"), func(l string) bool { return strings.HasPrefix(l, "+") })
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}

func sortedNames(types map[string]*structType) []string {
	var names []string
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// structTypes reads the structs of a package, each of which has a comment.
func structTypes(folder string) (map[string]*structType, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("reading the types of answers: %w", err)
	}
	out := map[string]*structType{}
	for _, path := range files {
		if strings.HasPrefix(filepath.Base(path), "zz_generated") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading the types of answers: %w", err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.TypeSpec)
				if of, ok := spec.Type.(*ast.StructType); ok {
					if g.Doc == nil {
						return nil, fmt.Errorf("the type %s has no comment", spec.Name.Name)
					}
					out[spec.Name.Name] = &structType{spec.Name.Name, g.Doc.Text(), of.Fields.List}
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no types", folder)
	}
	return out, nil
}

// reachable are the types that the roots consist of, sorted. A type that is embedded has no section
// of its own: its fields stand in the section of the type that embeds it.
func reachable(types map[string]*structType, roots []string) []string {
	seen := map[string]bool{}
	var visit func(name string)
	fields := func(t *structType) {
		for _, f := range t.fields {
			ast.Inspect(f.Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && types[id.Name] != nil {
					if len(f.Names) == 0 {
						for _, inner := range types[id.Name].fields {
							ast.Inspect(inner.Type, func(n ast.Node) bool {
								if id, ok := n.(*ast.Ident); ok {
									visit(id.Name)
								}
								return true
							})
						}
						return true
					}
					visit(id.Name)
				}
				return true
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
func rows(out *bytes.Buffer, types map[string]*structType, t *structType) {
	for _, f := range t.fields {
		var tag reflect.StructTag
		if f.Tag != nil {
			tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		}
		name, options, _ := strings.Cut(tag.Get("json"), ",")
		if len(f.Names) == 0 {
			if id, ok := f.Type.(*ast.Ident); ok && types[id.Name] != nil {
				rows(out, types, types[id.Name])
			}
			continue
		}
		if name == "-" {
			continue
		}
		what := strings.Join(strings.Fields(f.Doc.Text()), " ")
		if strings.Contains(options, "omitempty") {
			what = strings.TrimSpace(what + " Absent if empty.")
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", name, typeText(types, f.Type), cell(what))
	}
}

// typeText is a type as JSON has it.
func typeText(types map[string]*structType, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeText(types, e.X)
	case *ast.ArrayType:
		return "list of " + typeText(types, e.Elt)
	case *ast.MapType:
		return "object of " + typeText(types, e.Value)
	case *ast.SelectorExpr:
		return "time"
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "text"
		case "bool":
			return "true or false"
		case "int32", "int64", "float64", "uint64":
			return "number"
		}
		if types[e.Name] != nil {
			return link(e.Name)
		}
		return "text"
	}
	return "object"
}
