package policy

// The Check functions are the engine's own checks of single parts, for admission.

// CheckSelector returns what is wrong with a selector; nothing is wrong with a nil one.
func CheckSelector(s *Selector, path string) []FieldError {
	var errs errorList
	compileSelector(s, path, &errs)
	return errs.list
}

// CheckLabelKey returns what is wrong with a label key.
func CheckLabelKey(key, path string) []FieldError {
	var errs errorList
	checkLabelKey(key, path, &errs)
	return errs.list
}

// CheckLabelValue returns what is wrong with a label value.
func CheckLabelValue(value, path string) []FieldError {
	var errs errorList
	checkLabelValue(value, path, &errs)
	return errs.list
}

// SelectorText returns the canonical form of a valid selector, as it stands in the normalized names
// of groups; equal to that of apimachinery's labels package. It is empty for a nil or empty
// selector.
func SelectorText(s *Selector) string {
	var errs errorList
	if c := compileSelector(s, "", &errs); c != nil {
		return c.text
	}
	return ""
}
