package explain

import (
	"fmt"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// ServiceText names a Service for people.
func ServiceText(s *analysis.Service) string {
	return serviceText(policy.NamespacedName{Namespace: s.Namespace, Name: s.Name})
}

// BackendText names a backend for people.
func BackendText(b analysis.Backend) string {
	if b.Name == "" {
		return fmt.Sprintf("%s port %d", b.Address, b.Port)
	}
	name := strings.TrimPrefix(b.Namespace+"/"+b.Name, "/")
	return fmt.Sprintf("%s %s (%s port %d)", b.Kind, name, b.Address, b.Port)
}

// PolicyText names a policy for people.
func PolicyText(p analysis.Policy) string {
	if p.Hidden {
		return fmt.Sprintf("%s that you may not see", p.Type)
	}
	if p.Namespace == "" {
		return fmt.Sprintf("%s %s", p.Type, p.Name)
	}
	return fmt.Sprintf("%s %s/%s", p.Type, p.Namespace, p.Name)
}

// RuleText names a rule for people: by its place if it has no name.
func RuleText(r analysis.Rule) string {
	list := "ingress"
	if r.Direction == string(policy.Egress) {
		list = "egress"
	}
	var text string
	switch {
	case r.Index < 0:
		text = PolicyText(r.Policy)
	case r.Policy.Type == string(policy.KubernetesNetworkPolicy):
		text = fmt.Sprintf("rule %s[%d] (%s)", list, r.Index, PolicyText(r.Policy))
	case r.Name == "":
		text = fmt.Sprintf("rule %s[%d] (%s, tier %d, priority %g)", list, r.Index, PolicyText(r.Policy), r.TierPriority, r.Priority)
	default:
		text = fmt.Sprintf("rule %q (%s, tier %d, priority %g, rule %d)", r.Name, PolicyText(r.Policy), r.TierPriority, r.Priority, r.Index)
	}
	if r.L7Protocols {
		text += ", as far as its l7Protocols let it"
	}
	if len(r.Through) > 0 {
		text += ", by the same address of " + strings.Join(r.Through, " and ")
	}
	if len(r.DependsOn) > 0 {
		end := "destination"
		if r.Direction == string(policy.Ingress) {
			end = "source"
		}
		text += ", if the " + end + " is " + strings.Join(r.DependsOn, " or ")
	}
	return text
}

// PoliciesText names policies for people.
func PoliciesText(list []analysis.Policy) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = PolicyText(p)
	}
	return strings.Join(texts, ", ")
}
