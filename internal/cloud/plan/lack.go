package plan

import (
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

// numberRefusals gives refusals the numbers that their messages tell.
func numberRefusals(l target.Lacks, refusals []report.Refusal) {
	if len(l) == 0 {
		return
	}
	known := map[string]*target.Lack{}
	for i := range refusals {
		r := &refusals[i]
		if r.Lack != nil {
			continue
		}
		lack, ok := known[r.Message]
		if !ok {
			lack = behind(l, r.Message)
			known[r.Message] = lack
		}
		r.Lack = lack
	}
}

// behind finds the numbers of a message that says what is short, maybe among other things.
func behind(l target.Lacks, message string) *target.Lack {
	longest := ""
	for text := range l {
		if len(text) > len(longest) && strings.Contains(message, text) {
			longest = text
		}
	}
	if longest == "" {
		return nil
	}
	lack := l[longest]
	return &lack
}
