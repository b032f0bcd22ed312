package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// What a reader can hold in his head has an end. The numbers are those of code that is there: who
// comes near them divides a type or a package, and whoever makes the largest one smaller lowers the
// number.
const (
	mostMethods = 104  // of one type, those of the types that it embeds from its own package included
	mostLines   = 8070 // of one package, without tests
)

// TestLimits keeps types and packages from growing.
func TestLimits(t *testing.T) {
	lines, methods, embeds := map[string]int{}, map[string]map[string]int{}, map[string]map[string][]string{}
	files := token.NewFileSet()
	for _, source := range parseTree(t) {
		if source.test || strings.HasPrefix(path.Base(source.path), "zz_generated") {
			continue
		}
		f, err := parser.ParseFile(files, source.path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder := path.Dir(source.path)
		lines[folder] += files.File(f.Pos()).LineCount()
		if methods[folder] == nil {
			methods[folder], embeds[folder] = map[string]int{}, map[string][]string{}
		}
		count(f, methods[folder], embeds[folder])
	}
	for _, folder := range slices.Sorted(maps.Keys(lines)) {
		if lines[folder] > mostLines {
			t.Errorf("%s has %d lines; at most %d", folder, lines[folder], mostLines)
		}
		for _, name := range slices.Sorted(maps.Keys(methods[folder])) {
			if n := whole(name, methods[folder], embeds[folder]); n > mostMethods {
				t.Errorf("%s.%s has %d methods; at most %d", folder, name, n, mostMethods)
			}
		}
	}
}

// count adds the methods of a file to those of its types, and notes which types these embed.
func count(f *ast.File, methods map[string]int, embeds map[string][]string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				methods[typeName(d.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				of, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range of.Fields.List {
					if name := typeName(field.Type); len(field.Names) == 0 && name != "" {
						embeds[spec.Name.Name] = append(embeds[spec.Name.Name], name)
					}
				}
			}
		}
	}
}

// whole counts the methods of a type and of what it embeds.
func whole(name string, methods map[string]int, embeds map[string][]string) int {
	n := methods[name]
	for _, e := range embeds[name] {
		n += whole(e, methods, embeds)
	}
	return n
}

// typeName is the name of a type of the package; empty for others.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}
