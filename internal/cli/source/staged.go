package source

import (
	"github.com/spf13/pflag"
)

// StagedFlags ask for staged policies.
type StagedFlags struct {
	// With takes staged policies as if they were enforced.
	With bool
}

// Register adds the flag.
func (f *StagedFlags) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.With, "staged", false, "take staged policies (annotation nephele.io/stage: plan) as if they were enforced")
}
