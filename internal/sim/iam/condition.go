package iam

import (
	"fmt"
	"slices"
	"strings"
)

// condition is one key of one operator. Several values are alternatives.
type condition struct {
	key      string
	values   []string
	match    func(pattern, value string) bool
	negated  bool
	ifExists bool
	null     bool
	set      string // forAll, forAny or ""
}

const (
	forAll = "ForAllValues"
	forAny = "ForAnyValue"
)

func newCondition(operator, key string, values []string) (condition, error) {
	c := condition{key: canonical(key), values: values}
	name := operator
	if set, rest, ok := strings.Cut(name, ":"); ok {
		if set != forAll && set != forAny {
			return c, fmt.Errorf("%s: expected %s or %s before the colon", operator, forAll, forAny)
		}
		c.set, name = set, rest
	}
	name, c.ifExists = strings.CutSuffix(name, "IfExists")
	switch name {
	case "StringEquals":
		c.match = equal
	case "StringNotEquals":
		c.match, c.negated = equal, true
	case "StringEqualsIgnoreCase":
		c.match = strings.EqualFold
	case "StringLike", "ArnLike", "ArnEquals":
		c.match = like
	case "StringNotLike", "ArnNotLike", "ArnNotEquals":
		c.match, c.negated = like, true
	case "Null":
		c.null = true
		if len(values) != 1 || values[0] != "true" && values[0] != "false" {
			return c, fmt.Errorf(`operator Null: %s: expected "true" or "false", found %q`, key, values)
		}
	default:
		return c, fmt.Errorf("the operator %s is not simulated", operator)
	}
	for _, v := range values {
		if strings.Contains(v, "${") {
			return c, fmt.Errorf("%s: %s: policy variables are not simulated: %q", operator, key, v)
		}
	}
	return c, nil
}

func equal(a, b string) bool { return a == b }

// canonical is how the name of a condition key is compared: without regard to case.
func canonical(key string) string { return strings.ToLower(key) }

func (c *condition) holds(keys map[string][]string) bool {
	var values []string
	for k, v := range keys {
		if canonical(k) == c.key {
			values = append(values, v...)
		}
	}
	present := len(values) > 0
	if c.null {
		return present == (c.values[0] == "false")
	}
	if !present {
		// A negated operator holds of a key that is not there, and so does a set of all its values.
		return c.ifExists || c.set == forAll || c.negated && c.set != forAny
	}
	if c.set == forAny {
		return slices.ContainsFunc(values, c.accepts)
	}
	return !slices.ContainsFunc(values, func(v string) bool { return !c.accepts(v) })
}

func (c *condition) accepts(value string) bool {
	return slices.ContainsFunc(c.values, func(pattern string) bool { return c.match(pattern, value) }) != c.negated
}

// like matches with * for any text and ? for any one character.
func like(pattern, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == s[j]):
			i, j = i+1, j+1
		case star >= 0:
			// The last star takes one more byte.
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
