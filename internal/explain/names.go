package explain

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// String names the Service for people.
func (s *Service) String() string {
	return serviceText(policy.NamespacedName{Namespace: s.Namespace, Name: s.Name})
}

// String names the backend for people.
func (b Backend) String() string {
	if b.Name == "" {
		return fmt.Sprintf("%s port %d", b.Address, b.Port)
	}
	name := strings.TrimPrefix(b.Namespace+"/"+b.Name, "/")
	return fmt.Sprintf("%s %s (%s port %d)", b.Kind, name, b.Address, b.Port)
}

// String names the policy for people.
func (p Policy) String() string {
	if p.Hidden {
		return fmt.Sprintf("%s that you may not see", p.Type)
	}
	if p.Namespace == "" {
		return fmt.Sprintf("%s %s", p.Type, p.Name)
	}
	return fmt.Sprintf("%s %s/%s", p.Type, p.Namespace, p.Name)
}

// String names the rule for people: by its place if it has no name.
func (r Rule) String() string {
	list := "ingress"
	if r.Direction == policy.Egress {
		list = "egress"
	}
	var text string
	switch {
	case r.Index < 0:
		text = r.Policy.String()
	case r.Policy.Type == policy.KubernetesNetworkPolicy:
		text = fmt.Sprintf("rule %s[%d] (%s)", list, r.Index, r.Policy)
	case r.Name == "":
		text = fmt.Sprintf("rule %s[%d] (%s, tier %d, priority %g)", list, r.Index, r.Policy, r.TierPriority, r.Priority)
	default:
		text = fmt.Sprintf("rule %q (%s, tier %d, priority %g, rule %d)", r.Name, r.Policy, r.TierPriority, r.Priority, r.Index)
	}
	if r.L7Protocols {
		text += ", as far as its l7Protocols let it"
	}
	if len(r.Through) > 0 {
		text += ", by the same address of " + strings.Join(r.Through, " and ")
	}
	if len(r.DependsOn) > 0 {
		end := "destination"
		if r.Direction == policy.Ingress {
			end = "source"
		}
		text += ", if the " + end + " is " + strings.Join(r.DependsOn, " or ")
	}
	return text
}

// PoliciesText names policies for people.
func PoliciesText(list []Policy) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}
