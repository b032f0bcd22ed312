package selectors

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// operator is the operator of a compiled requirement.
type operator uint8

const (
	opEquals operator = iota
	opIn
	opNotIn
	opExists
	opDoesNotExist
)

// requirement is one compiled condition on a label.
type requirement struct {
	key    string
	op     operator
	values []string // opEquals: one; opIn, opNotIn: sorted
}

// has reports whether a value is among the values, of which there may be a hundred thousand.
func (r *requirement) has(value string) bool {
	_, found := slices.BinarySearch(r.values, value)
	return found
}

// Selector is a compiled label selector: the conjunction of its requirements. It is immutable.
type Selector struct {
	// Text is the canonical form, equal to that of apimachinery's labels.Selector.String. Equal
	// text, equal meaning.
	Text string
	reqs []requirement // sorted by key
}

// Matches reports whether the labels meet all requirements.
func (s *Selector) Matches(set *Set) bool {
	for i := range s.reqs {
		r := &s.reqs[i]
		v, ok := set.Get(r.key)
		switch r.op {
		case opEquals:
			ok = ok && v == r.values[0]
		case opIn:
			ok = ok && r.has(v)
		case opNotIn:
			ok = !ok || !r.has(v)
		case opDoesNotExist:
			ok = !ok
		}
		if !ok {
			return false
		}
	}
	return true
}

// Everything reports whether the selector matches all labels.
func (s *Selector) Everything() bool { return len(s.reqs) == 0 }

// anchors returns labels of which every matching set has at least one; nil if there is no such
// list. A selector is only tried on label sets that contain one of its anchors.
func (s *Selector) anchors() []Label {
	var best *requirement
	for i := range s.reqs {
		r := &s.reqs[i]
		if (r.op == opEquals || r.op == opIn) && (best == nil || len(r.values) < len(best.values)) {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	out := make([]Label, 0, len(best.values))
	for i, v := range best.values {
		if i == 0 || v != best.values[i-1] {
			out = append(out, Label{best.key, v})
		}
	}
	return out
}

// ValuesOf returns the values that a selector demands of a label; nil if it lets any other.
func (s *Selector) ValuesOf(key string) []string {
	if s == nil {
		return nil
	}
	for i := range s.reqs {
		if r := &s.reqs[i]; r.key == key && (r.op == opEquals || r.op == opIn) {
			return r.values
		}
	}
	return nil
}

// OneLabel returns the selector of one label.
func OneLabel(l Label) *Selector {
	reqs := []requirement{{key: l.Key, op: opEquals, values: []string{l.Value}}}
	return &Selector{Text: selectorText(reqs), reqs: reqs}
}

// compileSelector compiles s; path names it in errors. It returns nil for a nil s.
func Compile(s *policy.Selector, path string, errs *policy.ErrorList) *Selector {
	if s == nil {
		return nil
	}
	out := &Selector{reqs: make([]requirement, 0, len(s.MatchLabels)+len(s.MatchExpressions))}
	for k, v := range s.MatchLabels {
		checkLabelKey(k, policy.Below(path, ".matchLabels"), errs)
		if !validLabelValue(v) {
			checkLabelValue(v, policy.Below(path, ".matchLabels["+k+"]"), errs)
		}
		out.reqs = append(out.reqs, requirement{key: k, op: opEquals, values: []string{v}})
	}
	slices.SortFunc(out.reqs, compareRequirements)
	for i := range s.MatchExpressions {
		at := policy.Indexed(policy.Below(path, ".matchExpressions"), i)
		if r, ok := compileRequirement(&s.MatchExpressions[i], at, errs); ok {
			out.reqs = append(out.reqs, r)
		}
	}
	slices.SortStableFunc(out.reqs, compareRequirements)
	out.Text = selectorText(out.reqs)
	return out
}

func compareRequirements(a, b requirement) int { return strings.Compare(a.key, b.key) }

func compileRequirement(r *policy.Requirement, path string, errs *policy.ErrorList) (requirement, bool) {
	out := requirement{key: r.Key}
	checkLabelKey(r.Key, policy.Below(path, ".key"), errs)
	switch r.Operator {
	case "In", "NotIn":
		out.op = opIn
		if r.Operator == "NotIn" {
			out.op = opNotIn
		}
		if len(r.Values) == 0 {
			errs.Given(policy.Below(path, ".values"), "nothing", "at least one value with operator "+r.Operator)
			return out, false
		}
		for j, v := range r.Values {
			checkLabelValue(v, policy.Indexed(policy.Below(path, ".values"), j), errs)
		}
		out.values = slices.Clone(r.Values)
		slices.Sort(out.values)
	case "Exists", "DoesNotExist":
		out.op = opExists
		if r.Operator == "DoesNotExist" {
			out.op = opDoesNotExist
		}
		if len(r.Values) != 0 {
			errs.Add(policy.Below(path, ".values"), strings.Join(r.Values, ","), "no values with operator "+r.Operator)
			return out, false
		}
	default:
		errs.Add(policy.Below(path, ".operator"), r.Operator, "one of In, NotIn, Exists, DoesNotExist")
		return out, false
	}
	return out, true
}

// selectorText renders sorted requirements in the form of apimachinery's labels package.
func selectorText(reqs []requirement) string {
	if len(reqs) == 1 && reqs[0].op == opEquals {
		return reqs[0].key + "=" + reqs[0].values[0]
	}
	var b strings.Builder
	for i, r := range reqs {
		if i > 0 {
			b.WriteByte(',')
		}
		if r.op == opDoesNotExist {
			b.WriteByte('!')
		}
		b.WriteString(r.key)
		switch r.op {
		case opEquals:
			b.WriteByte('=')
			b.WriteString(r.values[0])
		case opIn:
			b.WriteString(" in (" + strings.Join(r.values, ",") + ")")
		case opNotIn:
			b.WriteString(" notin (" + strings.Join(r.values, ",") + ")")
		}
	}
	return b.String()
}

// checkLabelKey accepts what Kubernetes accepts as a label key: an optional DNS prefix and a name.
func checkLabelKey(key, path string, errs *policy.ErrorList) {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		prefix, name = "", key
	}
	if (slash && !validDNSName(prefix)) || !validLabelName(name) {
		errs.Add(path, key, "a label key: an optional DNS name and '/', then at most 63 letters, digits, '-', '_', '.', "+
			"beginning and ending with a letter or digit")
	}
}

func checkLabelValue(value, path string, errs *policy.ErrorList) {
	if !validLabelValue(value) {
		errs.Add(path, value, "a label value: empty, or at most 63 letters, digits, '-', '_', '.', "+
			"beginning and ending with a letter or digit")
	}
}

func validLabelValue(s string) bool { return s == "" || validLabelName(s) }

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func validLabelName(s string) bool {
	if s == "" || len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// validDNSName accepts a lower-case DNS subdomain (RFC 1123).
func validDNSName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return false
		}
		for i := range len(part) {
			if c := part[i]; c != '-' && (!alphanumeric(c) || c >= 'A' && c <= 'Z') {
				return false
			}
		}
	}
	return true
}
