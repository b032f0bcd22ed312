package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
)

// stagedFlags ask for staged policies.
type stagedFlags struct{ with bool }

func (f *stagedFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.with, "staged", false, "take staged policies (annotation nephele.io/stage: plan) as if they were enforced")
}

// staged adds what is wrong with the stage of a policy to what else is.
func staged(annotations map[string]string) func(code int, errs []policy.FieldError) (int, []policy.FieldError) {
	return func(code int, errs []policy.FieldError) (int, []policy.FieldError) {
		return code, append(errs, webhook.StageErrors(annotations)...)
	}
}

// noteStaged says what becomes of staged policies.
func (in *inputs) noteStaged() {
	if list := in.Staged(); len(list) > 0 {
		text := "staged, so not enforced and left out here (--staged takes it in, where a command has that flag)"
		if in.WithStaged {
			text = "staged: taken in here, but not enforced"
		}
		in.notes = append(in.notes, fmt.Sprintf("%s: %s", explain.PoliciesText(list), text))
	}
	for _, p := range in.K8sPolicies {
		in.noteUnheeded("NetworkPolicy "+p.Namespace+"/"+p.Name, p.Annotations)
	}
	for _, p := range in.AdminPolicies {
		in.noteUnheeded("AdminNetworkPolicy "+p.Name, p.Annotations)
	}
	for _, p := range in.BaselinePolicies {
		in.noteUnheeded("BaselineAdminNetworkPolicy "+p.Name, p.Annotations)
	}
	for _, p := range in.UpstreamPolicies {
		in.noteUnheeded("ClusterNetworkPolicy "+p.Name, p.Annotations)
	}
}

func (in *inputs) noteUnheeded(name string, annotations map[string]string) {
	for _, w := range webhook.UnheededStage(annotations) {
		in.notes = append(in.notes, name+": "+w)
	}
}
