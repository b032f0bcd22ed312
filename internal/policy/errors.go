package policy

import (
	"fmt"
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
}

// Error implements error.
func (e FieldError) Error() string {
	return fmt.Sprintf("%s: invalid value %q: want %s", e.Field, e.Value, e.Want)
}

// JoinErrors renders a list of field errors as one line; empty for an empty list.
func JoinErrors(errs []FieldError) string {
	parts := make([]string, len(errs))
	for i, e := range errs {
		parts[i] = e.Error()
	}
	return strings.Join(parts, "; ")
}
