package wire

import (
	"fmt"
	"slices"
	"strings"
)

// MaxFilterValues is how many filter values one request may carry in all.
const MaxFilterValues = 200

// Filter selects objects: any of the values must match the attribute Name. Several filters must all
// match.
type Filter struct {
	Name   string
	Values []string
}

// FilterError says that a filter cannot be used; Limit tells a request with too many values from
// one that names an unknown or incomplete filter.
type FilterError struct {
	Name   string
	Reason string
	Limit  bool
}

// Error names the filter and the reason.
func (e *FilterError) Error() string { return e.Reason }

// Filters reads the list Filter.N.Name, Filter.N.Value.M. The error is a *FilterError.
func (p Params) Filters() ([]Filter, error) {
	var out []Filter
	total := 0
	for _, f := range p.Elements("Filter") {
		filter := Filter{Name: f.String("Name"), Values: f.Strings("Value")}
		if filter.Name == "" {
			return nil, &FilterError{Reason: "The filter 'null' is invalid"}
		}
		if len(filter.Values) == 0 {
			reason := fmt.Sprintf("The filter '%s' must have at least one value", filter.Name)
			return nil, &FilterError{Name: filter.Name, Reason: reason}
		}
		total += len(filter.Values)
		out = append(out, filter)
	}
	if total > MaxFilterValues {
		reason := fmt.Sprintf("The maximum number of filter values specified on a single call is %d", MaxFilterValues)
		return nil, &FilterError{Reason: reason, Limit: true}
	}
	return out, nil
}

// Attributes says what values an object has under each filter name.
type Attributes[T any] map[string]func(T) []string

// Tags returns the tags of an object, for the filters tag:KEY, tag-key and tag-value.
type Tags[T any] func(T) map[string]string

// Select returns the objects that match all filters, in their given order. tags may be nil for
// objects that cannot be selected by tag. The error is a *FilterError that names the first filter
// no one knows.
func Select[T any](objects []T, filters []Filter, known Attributes[T], tags Tags[T]) ([]T, error) {
	get := make([]func(T) []string, len(filters))
	for i, f := range filters {
		get[i] = known[f.Name]
		if get[i] == nil && tags != nil {
			get[i] = tagValues(f.Name, tags)
		}
		if get[i] == nil {
			return nil, &FilterError{Name: f.Name, Reason: fmt.Sprintf("The filter '%s' is invalid", f.Name)}
		}
	}
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		if matchesAll(o, filters, get) {
			out = append(out, o)
		}
	}
	return out, nil
}

func matchesAll[T any](o T, filters []Filter, get []func(T) []string) bool {
	for i, f := range filters {
		if !slices.ContainsFunc(get[i](o), f.matches) {
			return false
		}
	}
	return true
}

func (f Filter) matches(value string) bool {
	return slices.ContainsFunc(f.Values, func(pattern string) bool { return Match(pattern, value) })
}

func tagValues[T any](name string, tags Tags[T]) func(T) []string {
	key, isTag := strings.CutPrefix(name, "tag:")
	switch {
	case isTag:
		return func(o T) []string {
			if v, ok := tags(o)[key]; ok {
				return []string{v}
			}
			return nil
		}
	case name == "tag-key":
		return func(o T) []string {
			var keys []string
			for k := range tags(o) {
				keys = append(keys, k)
			}
			return keys
		}
	case name == "tag-value":
		return func(o T) []string {
			var values []string
			for _, v := range tags(o) {
				values = append(values, v)
			}
			return values
		}
	}
	return nil
}

// Match reports whether the whole of s matches the pattern: '*' represents any text, '?' for one
// character, and a backslash takes the meaning from the character after it. Letters are compared
// with their case.
func Match(pattern, s string) bool {
	p, text := []rune(pattern), []rune(s)
	// On a mismatch after a '*', that '*' swallows one character more: linear back-tracking to the
	// last one only.
	starP, starS := -1, 0
	i, j := 0, 0
	for j < len(text) {
		if i < len(p) && p[i] == '*' {
			starP, starS = i, j
			i++
			continue
		}
		if n := step(p, i, text[j]); n > 0 {
			i += n
			j++
			continue
		}
		if starP < 0 {
			return false
		}
		starS++
		i, j = starP+1, starS
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// step returns how many pattern characters match the character c, 0 for none.
func step(p []rune, i int, c rune) int {
	switch {
	case i >= len(p):
		return 0
	case p[i] == '\\' && i+1 < len(p):
		if p[i+1] == c {
			return 2
		}
		return 0
	case p[i] == '?' || p[i] == c:
		return 1
	}
	return 0
}
