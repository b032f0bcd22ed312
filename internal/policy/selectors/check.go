package selectors

import "github.com/nephele-io/nephele/internal/policy"

// The Check functions are the engine's own checks of single parts, for admission.

// Check returns what is wrong with a selector; nothing is wrong with a nil one.
func Check(s *policy.Selector, path string) []policy.FieldError {
	var errs policy.ErrorList
	Compile(s, path, &errs)
	return errs.List
}

// CheckLabelKey returns what is wrong with a label key.
func CheckLabelKey(key, path string) []policy.FieldError {
	var errs policy.ErrorList
	checkLabelKey(key, path, &errs)
	return errs.List
}

// CheckLabelValue returns what is wrong with a label value.
func CheckLabelValue(value, path string) []policy.FieldError {
	var errs policy.ErrorList
	checkLabelValue(value, path, &errs)
	return errs.List
}

// Text returns the canonical form of a valid selector, as it stands in the normalized names
// of groups; equal to that of apimachinery's labels package. It is empty for a nil or empty
// selector.
func Text(s *policy.Selector) string {
	var errs policy.ErrorList
	if c := Compile(s, "", &errs); c != nil {
		return c.Text
	}
	return ""
}
