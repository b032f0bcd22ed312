package aws_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// used is what the package asks of a service.
type used struct {
	// parameters are those of each action that the package sets.
	parameters map[string][]string
	filters    []string
	codes      []string
}

// usedOf reads it from the source.
func usedOf(t *testing.T) used {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	u := used{parameters: map[string][]string{}}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				u.literal(n)
			case *ast.CallExpr:
				u.call(n)
			case *ast.FuncDecl:
				if n.Name.Name == "classOfCode" {
					u.codes = texts(n)
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					if strings.HasPrefix(name.Name, "code") && name.Name != "codeOwnerChanged" {
						u.codes = append(u.codes, texts(n)...)
					}
				}
			}
			return true
		})
	}
	return u
}

// literal notes the parameters of a request, and the name of a filter.
func (u *used) literal(n *ast.CompositeLit) {
	typ, ok := n.Type.(*ast.SelectorExpr)
	if !ok {
		return
	}
	action, isInput := strings.CutSuffix(typ.Sel.Name, "Input")
	if isInput && u.parameters[action] == nil {
		u.parameters[action] = []string{}
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
			u.parameters[action] = append(u.parameters[action], name.Name)
		case typ.Sel.Name == "Filter" && name.Name == "Name":
			u.filters = append(u.filters, texts(field.Value)...)
		}
	}
}

// call notes the names of filters that helpers are given.
func (u *used) call(n *ast.CallExpr) {
	if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "filter" || name.Name == "renew") {
		for _, a := range n.Args {
			if text, ok := a.(*ast.BasicLit); ok {
				u.filters = append(u.filters, texts(text)...)
			}
		}
	}
}

// texts are the string literals in a piece of source.
func texts(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
			if value, err := strconv.Unquote(text.Value); err == nil && value != "" {
				out = append(out, value)
			}
		}
		return true
	})
	return out
}

// TestCompatibleServicesAreTold compares docs/ec2-compatible.md with what the code asks of a
// service.
func TestCompatibleServicesAreTold(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/ec2-compatible.md")
	if err != nil {
		t.Fatal(err)
	}
	u := usedOf(t)
	named := regexp.MustCompile("`([A-Za-z.-]+)`")
	told := map[string]string{}
	_, actions, _ := strings.Cut(string(page), "## Actions\n")
	actions, rest, _ := strings.Cut(actions, "\nFilters: ")
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \| ([^|]*) \|`).FindAllStringSubmatch(actions, -1) {
		for _, a := range named.FindAllStringSubmatch(row[1], -1) {
			told[a[1]] = row[2]
		}
	}
	for action, parameters := range u.parameters {
		have, ok := told[action]
		if !ok {
			t.Errorf("the action %s is called and not told", action)
		}
		for _, p := range parameters {
			if p != "DryRun" && !slices.Contains(strings.Split(have, ", "), p) {
				t.Errorf("%s: the parameter %s is given and not told", action, p)
			}
		}
	}
	if !strings.Contains(rest, "`DryRun`") {
		t.Error("the parameter DryRun is given to all of them and not told")
	}
	for action := range told {
		// A role is assumed by the SDK.
		if _, ok := u.parameters[action]; !ok && action != "AssumeRole" {
			t.Errorf("the action %s is told and never called", action)
		}
	}
	filters, _, _ := strings.Cut(rest, "Values within one")
	check(t, "filter", u.filters, named.FindAllStringSubmatch(filters, -1))
	_, codes, _ := strings.Cut(string(page), "## Error codes\n")
	codes, _, _ = strings.Cut(codes, "\n## ")
	for _, code := range u.codes {
		if !strings.Contains(codes, "`"+code+"`") {
			t.Errorf("the error code %s is known and not told", code)
		}
	}
}

// check compares what is used with what is told.
func check(t *testing.T, what string, used []string, told [][]string) {
	t.Helper()
	var names []string
	for _, m := range told {
		names = append(names, m[1])
		if !slices.Contains(used, m[1]) {
			t.Errorf("the %s %s is told and not used", what, m[1])
		}
	}
	for _, u := range used {
		if !slices.Contains(names, u) {
			t.Errorf("the %s %s is used and not told", what, u)
		}
	}
}
