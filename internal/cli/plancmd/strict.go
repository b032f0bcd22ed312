package plancmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/preview"
)

// strictness says which warnings make the command fail.
type strictness struct {
	strict   bool
	tolerate []string
}

func (s *strictness) register(flags *pflag.FlagSet) {
	var names []string
	for _, r := range preview.WarningReasons {
		names = append(names, string(r))
	}
	flags.BoolVar(&s.strict, "strict", false, "exit with 2 if there is any warning")
	flags.StringSliceVar(&s.tolerate, "tolerate", nil, "with --strict: reasons of warnings that do not count, of "+strings.Join(names, ", "))
}

// check refuses what is not understood.
func (s *strictness) check() error {
	if len(s.tolerate) > 0 && !s.strict {
		return fmt.Errorf("--tolerate says what --strict does not count: give both")
	}
	for i, name := range s.tolerate {
		k := slices.IndexFunc(preview.WarningReasons, func(r preview.WarningReason) bool { return strings.EqualFold(string(r), name) })
		if k < 0 {
			return fmt.Errorf("--tolerate %q: want reasons of %v", name, preview.WarningReasons)
		}
		s.tolerate[i] = string(preview.WarningReasons[k])
	}
	return nil
}

// outcome is the error for what counts; nil if nothing does.
func (s *strictness) outcome(a *analysis.PlanAnswer) error {
	if !s.strict {
		return nil
	}
	counted, tolerated := map[string]int{}, 0
	count := func(reason string) {
		if slices.Contains(s.tolerate, reason) {
			tolerated++
			return
		}
		counted[reason]++
	}
	for _, r := range a.WarningReasons {
		count(r)
	}
	for _, x := range a.Accounts {
		for _, w := range x.Warnings {
			count(cmp.Or(w.Reason, string(preview.WarnNotExact)))
		}
	}
	total := 0
	var reasons []string
	for _, r := range preview.WarningReasons {
		if n := counted[string(r)]; n > 0 {
			total += n
			reasons = append(reasons, fmt.Sprintf("%d %s", n, r))
		}
	}
	if total == 0 {
		return nil
	}
	text := "--strict: " + cloud.Counted(total, "warning") + " (" + strings.Join(reasons, ", ") + ")"
	if tolerated > 0 {
		text += fmt.Sprintf("; %d more tolerated", tolerated)
	}
	return fmt.Errorf("%s", text)
}
