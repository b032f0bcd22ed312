package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// output is the file that is written, and that is not read.
const output = "zz_generated.protobuf.go"

// kind is what a value is on the wire.
type kind int

const (
	isString kind = iota + 1
	isBytes
	isBool
	isInteger
	isDouble
	isMessage
)

// foreign are the types of other packages that fields may have.
var foreign = map[string]kind{
	"metav1.ObjectMeta": isMessage, "metav1.ListMeta": isMessage, "metav1.Time": isMessage,
	"intstr.IntOrString": isMessage, "types.UID": isString,
}

// builtin are the predeclared types that fields may have.
var builtin = map[string]kind{
	"string": isString, "bool": isBool, "int32": isInteger, "int64": isInteger, "uint32": isInteger, "float64": isDouble,
}

// field is one field of a message.
type field struct {
	name   string
	number int
	kind   kind
	// typ is the Go type of one value, without pointer or list.
	typ               string
	pointer, repeated bool
}

// message is one struct; its fields are sorted by number.
type message struct {
	name   string
	fields []field
}

// pkg is one package; its messages are sorted by name.
type pkg struct {
	// path is that of the folder from the root of the module, with slashes.
	path     string
	name     string
	messages []message
	// imports are the paths of imported packages by the name that the files give them.
	imports map[string]string
}

func parse(dir string) (*pkg, error) {
	fset := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &pkg{path: filepath.ToSlash(filepath.Clean(dir)), imports: map[string]string{}}
	specs := map[string]ast.Expr{}
	for _, name := range files {
		if base := filepath.Base(name); strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_generated.") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		p.name = file.Name.Name
		collect(file, specs, p.imports)
	}
	if p.name == "" {
		return nil, fmt.Errorf("there are no Go files in %s", dir)
	}
	for name, expr := range specs {
		s, ok := expr.(*ast.StructType)
		if !ok {
			continue
		}
		m, err := newMessage(name, s, specs)
		if err != nil {
			return nil, fmt.Errorf("type %s: %w", name, err)
		}
		if len(m.fields) > 0 {
			p.messages = append(p.messages, m)
		}
	}
	slices.SortFunc(p.messages, func(a, b message) int { return strings.Compare(a.name, b.name) })
	return p, nil
}

// collect notes the types that a file declares, and what it imports under which name.
func collect(file *ast.File, specs map[string]ast.Expr, imports map[string]string) {
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = path
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if t, ok := s.(*ast.TypeSpec); ok {
				specs[t.Name.Name] = t.Type
			}
		}
	}
}

func newMessage(name string, s *ast.StructType, specs map[string]ast.Expr) (message, error) {
	m := message{name: name}
	numbers := map[int]string{}
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		raw, _ := strconv.Unquote(f.Tag.Value)
		tag := reflect.StructTag(raw).Get("protobuf")
		if tag == "" {
			continue
		}
		x, err := newField(f, tag, specs)
		if err != nil {
			return m, err
		}
		if other := numbers[x.number]; other != "" {
			return m, fmt.Errorf("fields %s and %s both have the number %d", other, x.name, x.number)
		}
		numbers[x.number] = x.name
		m.fields = append(m.fields, x)
	}
	slices.SortFunc(m.fields, func(a, b field) int { return a.number - b.number })
	return m, nil
}

func newField(f *ast.Field, tag string, specs map[string]ast.Expr) (field, error) {
	x := field{name: fieldName(f)}
	parts := strings.Split(tag, ",")
	if len(parts) < 3 {
		return x, fmt.Errorf("field %s: the tag %q is too short", x.name, tag)
	}
	var err error
	if x.number, err = strconv.Atoi(parts[1]); err != nil || x.number < 1 || x.number > 15 {
		return x, fmt.Errorf("field %s: number %q, want 1 to 15", x.name, parts[1])
	}
	expr := f.Type
	if star, ok := expr.(*ast.StarExpr); ok {
		x.pointer, expr = true, star.X
	}
	if list, ok := expr.(*ast.ArrayType); ok && !isByte(list.Elt) {
		x.repeated, expr = true, list.Elt
	}
	x.typ, x.kind = resolve(expr, specs)
	want := map[kind]string{isString: "bytes", isBytes: "bytes", isMessage: "bytes", isBool: "varint", isInteger: "varint", isDouble: "fixed64"}
	switch {
	case x.kind == 0:
		return x, fmt.Errorf("field %s: do not know how to write its type %s", x.name, x.typ)
	case parts[0] != want[x.kind]:
		return x, fmt.Errorf("field %s: its tag says %s, its type %s", x.name, parts[0], want[x.kind])
	case x.repeated != (parts[2] == "rep"):
		return x, fmt.Errorf("field %s: its tag says %s, which is not what its type is", x.name, parts[2])
	case x.repeated && (x.pointer || x.kind == isBool || x.kind == isDouble || (x.kind == isInteger && x.typ != "uint32")):
		return x, fmt.Errorf("field %s: do not know how to write a list of %s", x.name, x.typ)
	case x.pointer && x.kind == isBytes:
		return x, fmt.Errorf("field %s: do not know how to write a pointer to bytes", x.name)
	}
	return x, nil
}

func fieldName(f *ast.Field) string {
	if len(f.Names) > 0 {
		return f.Names[0].Name
	}
	if s, ok := f.Type.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return fmt.Sprint(f.Type)
}

func isByte(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "byte"
}

// resolve returns the name of a type and what it is on the wire; 0 if that is not known.
func resolve(expr ast.Expr, specs map[string]ast.Expr) (string, kind) {
	switch e := expr.(type) {
	case *ast.SelectorExpr:
		name := fmt.Sprintf("%s.%s", e.X, e.Sel.Name)
		return name, foreign[name]
	case *ast.ArrayType:
		return "[]byte", isBytes
	case *ast.Ident:
		if k, ok := builtin[e.Name]; ok {
			return e.Name, k
		}
		switch under := specs[e.Name].(type) {
		case *ast.StructType:
			return e.Name, isMessage
		case *ast.ArrayType:
			if isByte(under.Elt) {
				return e.Name, isBytes
			}
		case *ast.Ident:
			_, k := resolve(under, specs)
			return e.Name, k
		}
		return e.Name, 0
	}
	return fmt.Sprintf("%T", expr), 0
}
