package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// adapter is the package whose requests are listed, with native below it; failure below it has the
// classes of errors.
const adapter = "internal/cloud/aws"

// requests is what the adapter asks of a service, read from its source.
type requests struct {
	parameters map[string]map[string]bool // by action, as "AssumeRole (sts)"
	filters    map[string]bool
	classes    map[string][]string // error codes by class
	constants  map[string]string
}

// ec2 lists actions with their parameters, filters, and error codes by class.
func ec2(out *bytes.Buffer) error {
	r, err := readRequests()
	if err != nil {
		return err
	}
	if len(r.parameters) < 30 || len(r.filters) < 5 || len(r.classes) < 5 {
		return fmt.Errorf("found %d actions, %d filters and %d classes of errors", len(r.parameters), len(r.filters), len(r.classes))
	}
	fmt.Fprint(out, "\n## Actions\n\nOf EC2 unless the service stands behind the name. The SDK adds `AssumeRole` (STS) where a Secret\nnames a role. `nephele check` adds `DryRun` to each action of EC2.\n\n| Action | Parameters |\n|---|---|\n")
	for _, action := range slices.Sorted(maps.Keys(r.parameters)) {
		p := slices.DeleteFunc(slices.Sorted(maps.Keys(r.parameters[action])), func(s string) bool { return s == "DryRun" })
		fmt.Fprintf(out, "| `%s` | %s |\n", action, strings.Join(p, ", "))
	}
	fmt.Fprintf(out, "\n## Filters\n\n%s\n\n## Error codes\n\n| Class | Codes |\n|---|---|\n", fill("`"+strings.Join(slices.Sorted(maps.Keys(r.filters)), "`, `")+"`"))
	for _, class := range slices.Sorted(maps.Keys(r.classes)) {
		fmt.Fprintf(out, "| %s | `%s` |\n", class, strings.Join(slices.Sorted(slices.Values(r.classes[class])), "`, `"))
	}
	return nil
}

func readRequests() (requests, error) {
	r := requests{parameters: map[string]map[string]bool{}, filters: map[string]bool{}, classes: map[string][]string{}, constants: map[string]string{}}
	var names []string
	for _, part := range []string{"", "/failure", "/native"} {
		found, err := filepath.Glob(adapter + part + "/*.go")
		if err != nil {
			return r, err
		}
		names = append(names, found...)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return r, fmt.Errorf("reading the adapter: %w", err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, raw, 0)
		if err != nil {
			return r, fmt.Errorf("parsing the adapter: %w", err)
		}
		files = append(files, f)
	}
	for _, f := range files {
		ast.Inspect(f, r.constant)
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				r.literal(n)
			case *ast.CallExpr:
				r.call(n)
			case *ast.FuncDecl:
				if n.Name.Name == "classOfCode" {
					r.errors(n)
				}
			}
			return true
		})
	}
	return r, nil
}

func (r *requests) constant(n ast.Node) bool {
	if spec, ok := n.(*ast.ValueSpec); ok {
		for i, id := range spec.Names {
			if i < len(spec.Values) {
				r.constants[id.Name] = text(spec.Values[i])
			}
		}
	}
	return true
}

// literal notes the parameters of a request, and the name of a filter.
func (r *requests) literal(n *ast.CompositeLit) {
	typ, ok := n.Type.(*ast.SelectorExpr)
	if !ok {
		return
	}
	action, isInput := strings.CutSuffix(typ.Sel.Name, "Input")
	if service, ok := typ.X.(*ast.Ident); ok && isInput && service.Name != "ec2" {
		action += " (" + service.Name + ")"
	}
	if isInput && r.parameters[action] == nil {
		r.parameters[action] = map[string]bool{}
	}
	for _, e := range n.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, ok := field.Key.(*ast.Ident)
		switch {
		case !ok:
		case isInput:
			r.parameters[action][name.Name] = true
		case typ.Sel.Name == "Filter" && name.Name == "Name":
			r.filter(field.Value)
		}
	}
}

// call notes the names of filters that helpers are given.
func (r *requests) call(n *ast.CallExpr) {
	if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "filter" || name.Name == "renew") {
		for _, a := range n.Args {
			if lit, ok := a.(*ast.BasicLit); ok {
				r.filter(lit)
			}
		}
	}
}

func (r *requests) filter(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if name, err := strconv.Unquote(lit.Value); err == nil && name != "" {
				r.filters[name] = true
			}
		}
		return true
	})
}

// errors reads the cases of the classification: codes, and the class that they return.
func (r *requests) errors(fn *ast.FuncDecl) {
	ast.Inspect(fn, func(n ast.Node) bool {
		c, ok := n.(*ast.CaseClause)
		if !ok || len(c.Body) == 0 {
			return true
		}
		result, ok := c.Body[0].(*ast.ReturnStmt)
		if !ok || len(result.Results) == 0 {
			return true
		}
		class, ok := result.Results[0].(*ast.SelectorExpr)
		if !ok {
			return true
		}
		for _, e := range c.List {
			code := text(e)
			if id, ok := e.(*ast.Ident); ok {
				code = r.constants[id.Name]
			}
			r.classes[class.Sel.Name] = append(r.classes[class.Sel.Name], code)
		}
		return true
	})
}
