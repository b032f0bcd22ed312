// Package wire is the grammar of the EC2 and STS query protocol: form parameters in (Params,
// Filter, paging tokens), XML elements out (Element). It knows no action and no cloud object.
//
// Values are built once and then only read; a Params additionally remembers which of its keys were
// asked for and therefore belongs to one goroutine at a time. Everything else may be used
// concurrently.
package wire

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Params is a tree of request parameters: the key "Filter.1.Value.2" is the element 2 of the list
// Value of the element 1 of the list Filter. The zero value has no parameters.
type Params struct {
	root *param
	path string
}

type param struct {
	value    string
	set      bool
	read     bool
	children map[string]*param
	order    []string
}

// ParamError says that one parameter cannot be read; Key is its full wire name.
type ParamError struct {
	Key   string
	Value string
	Want  string
}

// Error names the parameter, what it holds and what was expected.
func (e *ParamError) Error() string {
	return fmt.Sprintf("Value (%s) for parameter %s is invalid. Expecting %s", e.Value, e.Key, e.Want)
}

// NewParams builds the tree. Of a key that occurs more than once the first value counts.
func NewParams(values url.Values) Params {
	root := &param{}
	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, key := range keys {
		node := root
		for part := range strings.SplitSeq(key, ".") {
			node = node.child(part)
		}
		node.set = true
		if v := values[key]; len(v) > 0 {
			node.value = v[0]
		}
	}
	return Params{root: root}
}

func (p *param) child(name string) *param {
	if p.children == nil {
		p.children = map[string]*param{}
	}
	c, ok := p.children[name]
	if !ok {
		c = &param{}
		p.children[name] = c
		p.order = append(p.order, name)
	}
	return c
}

func (p Params) find(key string) *param {
	node := p.root
	for part := range strings.SplitSeq(key, ".") {
		if node == nil {
			return nil
		}
		node = node.children[part]
	}
	return node
}

// Name returns the full wire name of key, which is relative to p.
func (p Params) Name(key string) string {
	if p.path == "" {
		return key
	}
	return p.path + "." + key
}

// Has reports whether the key itself, or anything below it, was sent.
func (p Params) Has(key string) bool {
	n := p.find(key)
	return n != nil && (n.set || len(n.children) > 0)
}

// String returns the value of key, "" when it was not sent.
func (p Params) String(key string) string {
	n := p.find(key)
	if n == nil || !n.set {
		return ""
	}
	n.read = true
	return n.value
}

// Int returns the value of key as a decimal number; ok is false when it was not sent. The error is
// a *ParamError.
func (p Params) Int(key string) (v int, ok bool, err error) {
	if !p.Has(key) {
		return 0, false, nil
	}
	text := p.String(key)
	v, convErr := strconv.Atoi(text)
	if convErr != nil {
		return 0, false, &ParamError{Key: p.Name(key), Value: text, Want: "an integer."}
	}
	return v, true, nil
}

// Bool returns the value of key; ok is false when it was not sent. The error is a *ParamError.
func (p Params) Bool(key string) (v, ok bool, err error) {
	if !p.Has(key) {
		return false, false, nil
	}
	switch text := p.String(key); strings.ToLower(text) {
	case "true":
		return true, true, nil
	case "false":
		return false, true, nil
	default:
		return false, false, &ParamError{Key: p.Name(key), Value: text, Want: "true or false."}
	}
}

// Sub returns the parameters below key.
func (p Params) Sub(key string) Params {
	return Params{root: p.find(key), path: p.Name(key)}
}

// Elements returns the parameters below each element of the list key, in the order of the indices.
// Indices may have gaps, as the service accepts them.
func (p Params) Elements(key string) []Params {
	list := p.Sub(key)
	var out []Params
	for _, i := range list.indices() {
		out = append(out, list.Sub(i))
	}
	return out
}

// Strings returns the values of the list key in the order of the indices.
func (p Params) Strings(key string) []string {
	list := p.Sub(key)
	var out []string
	for _, i := range list.indices() {
		if n := list.root.children[i]; n.set {
			n.read = true
			out = append(out, n.value)
		}
	}
	return out
}

func (p Params) indices() []string {
	if p.root == nil {
		return nil
	}
	var out []string
	for name := range p.root.children {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	})
	return out
}

// Unread returns the full names of all parameters that were sent and that no one has asked for,
// sorted.
func (p Params) Unread() []string {
	var out []string
	p.walk(func(name string, n *param) {
		if !n.read {
			out = append(out, name)
		}
	})
	return out
}

// Map returns all parameters under their full names.
func (p Params) Map() map[string]string {
	out := map[string]string{}
	p.walk(func(name string, n *param) { out[name] = n.value })
	return out
}

func (p Params) walk(visit func(name string, n *param)) {
	if p.root == nil {
		return
	}
	for _, name := range p.root.order {
		child := p.root.children[name]
		if child.set {
			visit(p.Name(name), child)
		}
		Params{root: child, path: p.Name(name)}.walk(visit)
	}
}
