package show

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

// maxWrong is how many wrong flows of one expectation are named.
const maxWrong = 5

// Expectation is a line about what is expected.
func Expectation(f *expect.FlowResult) string {
	traffic := strings.TrimSpace(strings.ToLower(string(f.Protocol)) + " " + string(f.Port))
	switch {
	case traffic == "":
		traffic = "everything"
	case f.Protocol == "":
		traffic = "tcp " + traffic
	}
	text := fmt.Sprintf("%s %s from %s to %s", f.Expect, traffic, strings.Join(f.From, ", "), strings.Join(f.To, ", "))
	if f.Name != "" {
		text = f.Name + " (" + text + ")"
	}
	return text
}

// WhyNot says why an expectation is not met, one reason a line.
func WhyNot(f *expect.FlowResult) []string {
	switch {
	case f.Err != nil:
		return []string{f.Err.Error()}
	case f.Nothing:
		return []string{"no flow is meant: both ends are the same, or they have no addresses of one family"}
	}
	var out []string
	native, rows := false, WrongRows(f)
	for i, row := range rows {
		if i == maxWrong {
			out = append(out, fmt.Sprintf("and %d more", len(rows)-maxWrong))
			break
		}
		native = native || row.Verdict == string(reach.Native)
		out = append(out, ReachLine(row))
	}
	if native && len(f.Wrong) > 0 && f.Expect != expect.ExpectNative {
		out = append(out, "Native: the policies leave it to the machine's own security groups, which only --snapshot knows")
	}
	return out
}

// UseNote adds to a rule that no test covers why it is not in use.
func UseNote(u reach.Use) string {
	if text := UseWords(string(u)); u.Useless() && text != "" {
		return " (" + text + ")"
	}
	return ""
}

// WrongRows are the flows of an expectation that have another outcome.
func WrongRows(f *expect.FlowResult) []v1alpha1.ReachRow {
	if len(f.Wrong) == 0 {
		return f.Told
	}
	return review.RowsOf(nil, f.Wrong)
}
