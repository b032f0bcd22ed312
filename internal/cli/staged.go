package cli

import (
	"github.com/spf13/pflag"
)

// stagedFlags ask for staged policies.
type stagedFlags struct{ with bool }

func (f *stagedFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.with, "staged", false, "take staged policies (annotation nephele.io/stage: plan) as if they were enforced")
}
