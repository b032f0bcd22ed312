package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// metric is one that the code makes.
type metric struct{ name, kind, help, labels string }

// metrics lists what is made by the constructors of Prometheus below internal.
func metrics(out *bytes.Buffer) error {
	found := map[string]metric{}
	fset := token.NewFileSet()
	err := filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		lists := map[string]string{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok && i < len(n.Rhs) {
						lists[id.Name] = labels(n.Rhs[i], nil)
					}
				}
			case *ast.CallExpr:
				if m, ok := made(n, lists); ok {
					found[m.name] = m
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading where metrics are made: %w", err)
	}
	if len(found) < 50 {
		return fmt.Errorf("found %d metrics", len(found))
	}
	fmt.Fprint(out, "\n| Metric | Type | What it is |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		if m.labels != "" {
			name += "{" + m.labels + "}"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, m.kind, cell(m.help))
	}
	return nil
}

// made reads NewCounterVec(CounterOpts{Name: ..., Help: ...}, labels) and NewDesc(name, help,
// labels, nil).
func made(call *ast.CallExpr, lists map[string]string) (metric, bool) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return metric{}, false
	}
	m := metric{kind: kindOf(sel.Sel.Name)}
	if sel.Sel.Name == "NewDesc" && len(call.Args) >= 3 {
		m.name, m.help, m.labels = text(call.Args[0]), text(call.Args[1]), labels(call.Args[2], lists)
		if m.kind = "gauge"; strings.HasSuffix(m.name, "_total") {
			m.kind = "counter"
		}
		return m, strings.HasPrefix(m.name, "nephele_")
	}
	opts, ok := call.Args[0].(*ast.CompositeLit)
	if !ok || m.kind == "" {
		return metric{}, false
	}
	for _, e := range opts.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			switch key, _ := kv.Key.(*ast.Ident); key.Name {
			case "Name":
				m.name = text(kv.Value)
			case "Help":
				m.help = text(kv.Value)
			}
		}
	}
	if len(call.Args) > 1 {
		m.labels = labels(call.Args[1], lists)
	}
	return m, strings.HasPrefix(m.name, "nephele_")
}

func kindOf(constructor string) string {
	for _, kind := range []string{"Counter", "Gauge", "Histogram", "Summary"} {
		if strings.HasPrefix(constructor, "New"+kind) {
			return strings.ToLower(kind)
		}
	}
	return ""
}

// text is a string that is written out, possibly in pieces.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	}
	return ""
}

// labels reads a list of labels that is written out, or the variable that holds it.
func labels(e ast.Expr, lists map[string]string) string {
	switch e := e.(type) {
	case *ast.Ident:
		return lists[e.Name]
	case *ast.CompositeLit:
		var out []string
		for _, l := range e.Elts {
			if s := text(l); s != "" {
				out = append(out, s)
			}
		}
		return strings.Join(out, ",")
	}
	return ""
}
