package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// CredentialError says what is wrong with the value of a Secret.
type CredentialError struct {
	// Secret is "namespace/name" of the Secret, Key the key in its data, Field the member of the
	// JSON object; Field is empty if the whole value is meant.
	Secret, Key, Field string
	// Problem is what is wrong, in words that do not repeat any secret value.
	Problem string
}

// Error implements error.
func (e *CredentialError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("secret %s, key %q: %s", e.Secret, e.Key, e.Problem)
	}
	return fmt.Sprintf("secret %s, key %q, field %q: %s", e.Secret, e.Key, e.Field, e.Problem)
}

// CredentialText is the text of a credential in a Secret, and where it is from.
type CredentialText struct {
	// Secret ("namespace/name") and Key only appear in errors.
	Secret, Key string
	Data        []byte
	// Expected are the words for the members that the object is to have.
	Expected string
}

// Fail is an error about a field; about all of it if the field is empty.
func (t CredentialText) Fail(field, format string, args ...any) error {
	return &CredentialError{Secret: t.Secret, Key: t.Key, Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Read reads the JSON object into a struct of strings, without the white space around each. Members
// that are texts of several lines are named; all others must not contain white space or control
// characters. Its errors are *CredentialError and never contain a value.
func (t CredentialText) Read(into any, multiline ...string) error {
	if len(bytes.TrimSpace(t.Data)) == 0 {
		return t.Fail("", "is empty; expected a JSON object with %s", t.Expected)
	}
	if err := json.Unmarshal(t.Data, into); err != nil {
		var wrongType *json.UnmarshalTypeError
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &wrongType) && wrongType.Field != "":
			return t.Fail(wrongType.Field, "is a JSON %s; expected a string", wrongType.Value)
		case errors.As(err, &syntax):
			return t.Fail("", "is not JSON: error at byte %d; expected an object with %s", syntax.Offset, t.Expected)
		default:
			return t.Fail("", "is not a JSON object with %s", t.Expected)
		}
	}
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		text := strings.TrimSpace(v.Field(i).String())
		v.Field(i).SetString(text)
		plain := true
		for _, m := range multiline {
			plain = plain && m != name
		}
		if plain && strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return t.Fail(name, "contains white space or control characters")
		}
	}
	return nil
}
