package admission

import "github.com/nephele-io/nephele/internal/policy"

// DefaultTier is the tier of a policy that names none.
const DefaultTier = "application"

// Default completes an Antrea policy: the tier, and the names of unnamed rules. Lists are replaced,
// not modified.
func Default(p *policy.Policy) {
	if p.Tier == "" && p.TierPriority == nil {
		p.Tier = DefaultTier
	}
	p.Ingress = nameRules(policy.Ingress, p.Ingress)
	p.Egress = nameRules(policy.Egress, p.Egress)
}

func nameRules(d policy.Direction, in []policy.Rule) []policy.Rule {
	if len(in) == 0 {
		return in
	}
	out := make([]policy.Rule, len(in))
	copy(out, in)
	for i := range out {
		if out[i].Name == "" {
			out[i].Name = RuleName(d, &out[i])
		}
	}
	return out
}
