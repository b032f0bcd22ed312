package preview

import (
	"fmt"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
)

// staged adds what is wrong with the stage of a policy to what else is.
func staged(annotations map[string]string) func(code int, errs []policy.FieldError) (int, []policy.FieldError) {
	return func(code int, errs []policy.FieldError) (int, []policy.FieldError) {
		return code, append(errs, webhook.StageErrors(annotations)...)
	}
}

// noteStaged says what becomes of staged policies.
func (in *Inputs) noteStaged() {
	if list := in.Objects.Staged(); len(list) > 0 {
		text := "staged, so not enforced and left out here (--staged takes it in, where a command has that flag)"
		if in.Objects.WithStaged {
			text = "staged: taken in here, but not enforced"
		}
		in.Notes = append(in.Notes, fmt.Sprintf("%s: %s", explain.PoliciesText(list), text))
	}
	for _, p := range in.Objects.K8sPolicies {
		in.noteUnheeded("NetworkPolicy "+p.Namespace+"/"+p.Name, p.Annotations)
	}
	for _, p := range in.Objects.AdminPolicies {
		in.noteUnheeded("AdminNetworkPolicy "+p.Name, p.Annotations)
	}
	for _, p := range in.Objects.BaselinePolicies {
		in.noteUnheeded("BaselineAdminNetworkPolicy "+p.Name, p.Annotations)
	}
	for _, p := range in.Objects.UpstreamPolicies {
		in.noteUnheeded("ClusterNetworkPolicy "+p.Name, p.Annotations)
	}
}

func (in *Inputs) noteUnheeded(name string, annotations map[string]string) {
	for _, w := range webhook.UnheededStage(annotations) {
		in.Notes = append(in.Notes, name+": "+w)
	}
}
