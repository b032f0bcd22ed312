package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a reader can hold in his head has an end. Near these numbers, divide a type or a package:
// there are no exceptions. The API is not counted, its types have the fields that their users need.
const (
	mostMethods = 50   // of one type, the methods of embedded types of this module included
	mostFields  = 30   // of one type, counted in the same way
	mostLines   = 4000 // of one package, without tests
)

// limited is a type as far as it is counted.
type limited struct {
	methods, fields int
	embeds          []string
}

// TestLimits keeps types and packages from growing.
func TestLimits(t *testing.T) {
	lines, types := map[string]int{}, map[string]*limited{}
	files := token.NewFileSet()
	for _, source := range parseTree(t) {
		if source.test || strings.HasPrefix(path.Base(source.path), "zz_generated") || strings.HasPrefix(source.path, "api/") {
			continue
		}
		f, err := parser.ParseFile(files, source.path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder := path.Dir(source.path)
		lines[folder] += files.File(f.Pos()).LineCount()
		count(f, folder, types)
	}
	check := func(what string, has, most int) {
		if has > most {
			t.Errorf("%s: %d; at most %d", what, has, most)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(lines)) {
		check(folder+" lines", lines[folder], mostLines)
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		methods, fields := whole(name, types)
		check(name+" methods", methods, mostMethods)
		check(name+" fields", fields, mostFields)
	}
}

// count adds the methods and fields of a file to the sums of its types, which are named by their
// folder and name, and notes which types these embed.
func count(f *ast.File, folder string, types map[string]*limited) {
	of := func(name string) *limited {
		if types[name] == nil {
			types[name] = &limited{}
		}
		return types[name]
	}
	imports := importsOf(f)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				of(typeName(d.Recv.List[0].Type, folder, imports)).methods++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				x := of(folder + "." + spec.Name.Name)
				switch body := spec.Type.(type) {
				case *ast.StructType:
					for _, field := range body.Fields.List {
						x.fields += len(field.Names)
						if len(field.Names) == 0 {
							x.embeds = append(x.embeds, typeName(field.Type, folder, imports))
						}
					}
				case *ast.InterfaceType:
					for _, m := range body.Methods.List {
						x.methods += len(m.Names)
						if len(m.Names) == 0 {
							x.embeds = append(x.embeds, typeName(m.Type, folder, imports))
						}
					}
				}
			}
		}
	}
}

// importsOf are the folders of this module that a file imports, by the names that it gives them.
func importsOf(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, i := range f.Imports {
		whole, err := strconv.Unquote(i.Path.Value)
		folder, ours := strings.CutPrefix(whole, module+"/")
		if err != nil || !ours {
			continue
		}
		name := path.Base(folder)
		if i.Name != nil {
			name = i.Name.Name
		}
		out[name] = folder
	}
	return out
}

// whole counts the methods and fields of a type and of what it embeds, each once.
func whole(name string, types map[string]*limited) (methods, fields int) {
	todo, seen := []string{name}, map[string]bool{}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		x := types[next]
		switch {
		case x == nil: // of another module
			fields++
		case !seen[next]:
			seen[next] = true
			methods, fields = methods+x.methods, fields+x.fields
			todo = append(todo, x.embeds...)
		}
	}
	return methods, fields
}

// typeName is the folder and name of a type; empty for others.
func typeName(e ast.Expr, folder string, imports map[string]string) string {
	switch e := e.(type) {
	case *ast.Ident:
		return folder + "." + e.Name
	case *ast.SelectorExpr:
		if at, is := e.X.(*ast.Ident); is {
			return imports[at.Name] + "." + e.Sel.Name
		}
	case *ast.StarExpr:
		return typeName(e.X, folder, imports)
	case *ast.IndexExpr:
		return typeName(e.X, folder, imports)
	case *ast.IndexListExpr:
		return typeName(e.X, folder, imports)
	}
	return ""
}
