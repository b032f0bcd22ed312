// Package kql runs the small part of the Kusto query language that clients of Resource Graph in
// this repository send: a table, then any number of
//
//	| where CONDITION          with ==, !=, =~, !~, in, in~, !in, !in~, contains, startswith, isempty(), isnotempty(), and, or, not(), brackets
//	| project NAME [= EXPRESSION], ...
//	| extend NAME = EXPRESSION, ...
//	| order by NAME [asc|desc], ...
//	| limit N, | take N, | count
//
// where an expression is a path (a.b['c'].d), a string, a number, tostring(...) or tolower(...).
// Anything else is refused: a query that is not understood must not look like one with no result.
//
// A Query is immutable and may be used by any number of goroutines.
package kql

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Query is a parsed query.
type Query struct {
	// Table is the table that is asked, as it was written.
	Table string
	steps []step
}

// step turns rows and columns into others. columns is nil as long as all columns are there.
type step func(rows []map[string]any, columns []string) ([]map[string]any, []string)

// expression is a value of a row.
type expression func(row map[string]any) any

// Parse reads a query.
func Parse(text string) (*Query, error) {
	p := &parser{tokens: scan(text)}
	q := &Query{Table: p.next()}
	if q.Table == "" || !isWord(q.Table) {
		return nil, fmt.Errorf("expected a table, not %q", q.Table)
	}
	for p.peek() != "" {
		if err := p.expect("|"); err != nil {
			return nil, err
		}
		s, err := p.operator()
		if err != nil {
			return nil, err
		}
		q.steps = append(q.steps, s)
	}
	return q, nil
}

// Run applies the query to the rows of its table. The rows given are not changed.
func (q *Query) Run(rows []map[string]any) ([]map[string]any, []string) {
	var columns []string
	for _, s := range q.steps {
		rows, columns = s(rows, columns)
	}
	if columns == nil {
		seen := map[string]bool{}
		for _, r := range rows {
			for k := range r {
				if !seen[k] {
					seen[k] = true
					columns = append(columns, k)
				}
			}
		}
		slices.Sort(columns)
	}
	return rows, columns
}

// scan cuts a query into words, strings (with their quotes) and signs. Comments end with the line.
func scan(text string) []string {
	var out []string
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case strings.ContainsRune(" \t\r\n", rune(c)):
			i++
		case strings.HasPrefix(text[i:], "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '\'' || c == '"':
			j := i + 1
			for j < len(text) && text[j] != c {
				if text[j] == '\\' {
					j++
				}
				j++
			}
			j = min(j+1, len(text))
			out = append(out, text[i:j])
			i = j
		case wordByte(c):
			j := i
			for j < len(text) && wordByte(text[j]) {
				j++
			}
			if j < len(text) && text[j] == '~' && (text[i:j] == "in") {
				j++
			}
			out = append(out, text[i:j])
			i = j
		default:
			n := 1
			for _, sign := range []string{"!in~", "==", "!=", "=~", "!~"} {
				if strings.HasPrefix(text[i:], sign) {
					n = len(sign)
					break
				}
			}
			if n == 1 && strings.HasPrefix(text[i:], "!in") {
				n = 3
			}
			out = append(out, text[i:i+n])
			i += n
		}
	}
	return out
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isWord(s string) bool { return s != "" && wordByte(s[0]) }

type parser struct {
	tokens []string
	at     int
}

func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

func (p *parser) next() string {
	t := p.peek()
	p.at++
	return t
}

func (p *parser) expect(want string) error {
	if got := p.next(); got != want {
		return fmt.Errorf("expected %q, not %q", want, got)
	}
	return nil
}

func (p *parser) operator() (step, error) {
	switch name := p.next(); name {
	case "where":
		c, err := p.either()
		if err != nil {
			return nil, err
		}
		return func(rows []map[string]any, columns []string) ([]map[string]any, []string) {
			out := []map[string]any{}
			for _, r := range rows {
				if c(r) {
					out = append(out, r)
				}
			}
			return out, columns
		}, nil
	case "project", "extend":
		return p.assign(name == "extend")
	case "order", "sort":
		return p.order()
	case "limit", "take":
		n, err := strconv.Atoi(p.next())
		if err != nil {
			return nil, fmt.Errorf("%s: expected a number", name)
		}
		return func(rows []map[string]any, columns []string) ([]map[string]any, []string) {
			return rows[:min(n, len(rows))], columns
		}, nil
	case "count":
		return func(rows []map[string]any, _ []string) ([]map[string]any, []string) {
			return []map[string]any{{"Count": len(rows)}}, []string{"Count"}
		}, nil
	default:
		return nil, fmt.Errorf("the operator %q is not known here", name)
	}
}

func (p *parser) assign(keep bool) (step, error) {
	type column struct {
		name  string
		value expression
	}
	var all []column
	for {
		name := p.next()
		if !isWord(name) {
			return nil, fmt.Errorf("expected the name of a column, not %q", name)
		}
		if p.peek() == "=" {
			p.next()
			value, err := p.value()
			if err != nil {
				return nil, err
			}
			all = append(all, column{name, value})
		} else {
			value, err := p.path(name)
			if err != nil {
				return nil, err
			}
			all = append(all, column{name, value})
		}
		if p.peek() != "," {
			break
		}
		p.next()
	}
	return func(rows []map[string]any, columns []string) ([]map[string]any, []string) {
		out := make([]map[string]any, len(rows))
		for i, r := range rows {
			next := map[string]any{}
			if keep {
				for k, v := range r {
					next[k] = v
				}
			}
			for _, c := range all {
				next[c.name] = c.value(r)
			}
			out[i] = next
		}
		names := []string{}
		if keep {
			if columns == nil {
				return out, nil
			}
			names = append(names, columns...)
		}
		for _, c := range all {
			if !slices.Contains(names, c.name) {
				names = append(names, c.name)
			}
		}
		return out, names
	}, nil
}

func (p *parser) order() (step, error) {
	if err := p.expect("by"); err != nil {
		return nil, err
	}
	type key struct {
		value      expression
		descending bool
	}
	var keys []key
	for {
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		k := key{value, true} // descending is the rule in this language
		if d := p.peek(); d == "asc" || d == "desc" {
			p.next()
			k.descending = d == "desc"
		}
		keys = append(keys, k)
		if p.peek() != "," {
			break
		}
		p.next()
	}
	return func(rows []map[string]any, columns []string) ([]map[string]any, []string) {
		out := slices.Clone(rows)
		slices.SortStableFunc(out, func(a, b map[string]any) int {
			for _, k := range keys {
				c := cmp.Compare(text(k.value(a)), text(k.value(b)))
				if k.descending {
					c = -c
				}
				if c != 0 {
					return c
				}
			}
			return 0
		})
		return out, columns
	}, nil
}

type condition func(row map[string]any) bool

func (p *parser) either() (condition, error) {
	out, err := p.both()
	for err == nil && p.peek() == "or" {
		p.next()
		a := out
		var b condition
		b, err = p.both()
		out = func(r map[string]any) bool { return a(r) || b(r) }
	}
	return out, err
}

func (p *parser) both() (condition, error) {
	out, err := p.single()
	for err == nil && p.peek() == "and" {
		p.next()
		a := out
		var b condition
		b, err = p.single()
		out = func(r map[string]any) bool { return a(r) && b(r) }
	}
	return out, err
}

func (p *parser) single() (condition, error) {
	switch t := p.peek(); t {
	case "(":
		p.next()
		c, err := p.either()
		if err != nil {
			return nil, err
		}
		return c, p.expect(")")
	case "not":
		p.next()
		if err := p.expect("("); err != nil {
			return nil, err
		}
		c, err := p.either()
		if err != nil {
			return nil, err
		}
		return func(r map[string]any) bool { return !c(r) }, p.expect(")")
	case "isempty", "isnotempty":
		p.next()
		if err := p.expect("("); err != nil {
			return nil, err
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		return func(r map[string]any) bool { return (text(v(r)) == "") == (t == "isempty") }, p.expect(")")
	}
	left, err := p.value()
	if err != nil {
		return nil, err
	}
	sign := p.next()
	if strings.Contains(sign, "in") && (strings.HasSuffix(sign, "in") || strings.HasSuffix(sign, "in~")) {
		return p.in(left, sign)
	}
	right, err := p.value()
	if err != nil {
		return nil, err
	}
	compare, known := comparisons[sign]
	if !known {
		return nil, fmt.Errorf("the comparison %q is not known here", sign)
	}
	return func(r map[string]any) bool { return compare(text(left(r)), text(right(r))) }, nil
}

// comparisons are what two texts are compared by. It is never written to.
var comparisons = map[string]func(a, b string) bool{
	"==": func(a, b string) bool { return a == b },
	"!=": func(a, b string) bool { return a != b },
	"=~": strings.EqualFold,
	"!~": func(a, b string) bool { return !strings.EqualFold(a, b) },
	"contains": func(a, b string) bool {
		return strings.Contains(strings.ToLower(a), strings.ToLower(b))
	},
	"startswith": func(a, b string) bool {
		return strings.HasPrefix(strings.ToLower(a), strings.ToLower(b))
	},
}

func (p *parser) in(left expression, sign string) (condition, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var all []expression
	for p.peek() != ")" {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		if p.peek() == "," {
			p.next()
		}
	}
	fold, negative := strings.HasSuffix(sign, "~"), strings.HasPrefix(sign, "!")
	return func(r map[string]any) bool {
		l := text(left(r))
		found := slices.ContainsFunc(all, func(v expression) bool {
			s := text(v(r))
			return s == l || fold && strings.EqualFold(s, l)
		})
		return found != negative
	}, p.expect(")")
}

func (p *parser) value() (expression, error) {
	t := p.next()
	switch {
	case t == "":
		return nil, fmt.Errorf("the query ends too early")
	case t[0] == '\'' || t[0] == '"':
		if len(t) < 2 || t[len(t)-1] != t[0] {
			return nil, fmt.Errorf("the string %s does not end", t)
		}
		s := strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`).Replace(t[1 : len(t)-1])
		return func(map[string]any) any { return s }, nil
	case t == "tostring" || t == "tolower":
		if err := p.expect("("); err != nil {
			return nil, err
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		return func(r map[string]any) any {
			if t == "tolower" {
				return strings.ToLower(text(v(r)))
			}
			return text(v(r))
		}, p.expect(")")
	case t[0] >= '0' && t[0] <= '9':
		n, err := strconv.ParseFloat(t, 64)
		if err != nil {
			return nil, fmt.Errorf("expected a number, not %q", t)
		}
		return func(map[string]any) any { return n }, nil
	case isWord(t):
		return p.path(t)
	}
	return nil, fmt.Errorf("expected a value, not %q", t)
}

// path reads what follows the first name of a path.
func (p *parser) path(first string) (expression, error) {
	names := []string{first}
	for {
		switch p.peek() {
		case ".":
			p.next()
			names = append(names, p.next())
		case "[":
			p.next()
			t := p.next()
			if len(t) < 2 || t[0] != '\'' && t[0] != '"' {
				return nil, fmt.Errorf("expected a string in brackets, not %q", t)
			}
			names = append(names, t[1:len(t)-1])
			if err := p.expect("]"); err != nil {
				return nil, err
			}
		default:
			return func(r map[string]any) any {
				var v any = r
				for _, n := range names {
					m, _ := v.(map[string]any)
					v = m[n]
				}
				return v
			}, nil
		}
	}
}

// text is a value as it is compared.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}
