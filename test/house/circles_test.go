package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// layered is the part of the tree whose files call only files before them.
const layered = "internal/cloud/plan"

// TestFilesCallInOneDirection: within a package of the planner no files call one another in a
// circle, so that each can be read once those that it calls are known. A call is told by its name,
// as far as only one file of the planner declares that.
func TestFilesCallInOneDirection(t *testing.T) {
	files := token.NewFileSet()
	packages := map[string]map[string]*ast.File{}
	for _, source := range parseTree(t) {
		folder := path.Dir(source.path)
		if source.test || folder != layered && !strings.HasPrefix(folder, layered+"/") {
			continue
		}
		f, err := parser.ParseFile(files, source.path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if packages[folder] == nil {
			packages[folder] = map[string]*ast.File{}
		}
		packages[folder][source.path] = f
	}
	if len(packages) < 10 {
		t.Fatalf("%d packages below %s", len(packages), layered)
	}
	declared := map[string][]string{} // name of a function or method -> files
	for _, of := range packages {
		for name, f := range of {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					declared[fn.Name.Name] = append(declared[fn.Name.Name], name)
				}
			}
		}
	}
	for folder, of := range packages {
		if round := circle(callsBetween(of, declared)); round != nil {
			t.Errorf("files of %s call one another in a circle: %s", folder, strings.Join(round, ", "))
		}
	}
}

// callsBetween tells which files call which others, given where functions are declared.
func callsBetween(of map[string]*ast.File, declared map[string][]string) map[string][]string {
	out := map[string][]string{}
	for name, f := range of {
		imported := map[string]bool{}
		for _, i := range f.Imports {
			imported[path.Base(strings.Trim(i.Path.Value, `"`))] = true
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			to := declared[calledName(call.Fun, imported)]
			if len(to) == 1 && of[to[0]] != nil && to[0] != name && !slices.Contains(out[name], to[0]) {
				out[name] = append(out[name], to[0])
			}
			return true
		})
	}
	return out
}

// calledName is the name of what is called; empty for what another package declares.
func calledName(fun ast.Expr, imported map[string]bool) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok && imported[x.Name] {
			return ""
		}
		return fun.Sel.Name
	case *ast.IndexExpr:
		return calledName(fun.X, imported)
	case *ast.IndexListExpr:
		return calledName(fun.X, imported)
	}
	return ""
}

// circle returns files that call one another in a circle; nil if there are none.
func circle(calls map[string][]string) []string {
	const under, done = 1, 2
	state := map[string]int{}
	var way []string
	var walk func(file string) []string
	walk = func(file string) []string {
		state[file], way = under, append(way, file)
		for _, to := range slices.Sorted(slices.Values(calls[file])) {
			if state[to] == under {
				return way[slices.Index(way, to):]
			}
			if state[to] == done {
				continue
			}
			if round := walk(to); round != nil {
				return round
			}
		}
		state[file], way = done, way[:len(way)-1]
		return nil
	}
	for file := range calls {
		if state[file] == 0 {
			if round := walk(file); round != nil {
				return round
			}
		}
	}
	return nil
}
