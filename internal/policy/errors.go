package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// FieldError says that one field of an input is wrong.
type FieldError struct {
	// Field is the path from the object's root, for example "spec.ingress[0].from[1].ipBlock.cidr".
	Field string
	// Value is the offending value as written.
	Value string
	// Want says what is expected instead.
	Want string
	// Given, if not empty, takes the place of Value where no single value is at fault: the names of
	// the fields that do not go together, or "nothing".
	Given string
}

// Error implements error.
func (e FieldError) Error() string { return e.Field + ": " + e.Detail() }

// Detail is the error without the field.
func (e FieldError) Detail() string {
	if e.Given != "" {
		return fmt.Sprintf("got %s, want %s", e.Given, e.Want)
	}
	return fmt.Sprintf("invalid value %q: want %s", e.Value, e.Want)
}

// JoinErrors renders a list of field errors as one line; empty for an empty list.
func JoinErrors(errs []FieldError) string {
	parts := make([]string, len(errs))
	for i, e := range errs {
		parts[i] = e.Error()
	}
	return strings.Join(parts, "; ")
}

// ErrorList collects field errors while an input is compiled.
type ErrorList struct{ List []FieldError }

func (l *ErrorList) Add(field, value, want string) {
	l.List = append(l.List, FieldError{Field: field, Value: value, Want: want})
}

// Given adds an error that no single value is at fault of.
func (l *ErrorList) Given(field, given, want string) {
	l.List = append(l.List, FieldError{Field: field, Given: given, Want: want})
}

// Paths say where in an input something is. Most inputs are right: an empty path stays empty, so
// that nothing is spelled until there is something to tell.

// Indexed names an element of a list field.
func Indexed(field string, i int) string {
	if field == "" {
		return ""
	}
	return field + "[" + strconv.Itoa(i) + "]"
}

// Below names a field of a field; it begins with a dot.
func Below(field, name string) string {
	if field == "" {
		return ""
	}
	return field + name
}
