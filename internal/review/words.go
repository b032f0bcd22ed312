package review

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
)

// mostRules is how many rules a text names.
const mostRules = 4

// DirectionWord is the direction of a rule, as in the fields of a policy.
func DirectionWord(r v1alpha1.Rule) string {
	if r.Direction == "In" {
		return "ingress"
	}
	return "egress"
}

// PolicyName names the policy of a rule, as far as it may be seen.
func PolicyName(r v1alpha1.Rule) string {
	if r.Policy.Hidden {
		return "(a policy that you may not see)"
	}
	return strings.TrimPrefix(r.Policy.Namespace+"/"+r.Policy.Name, "/")
}

// RuleName names a rule in its policy.
func RuleName(r v1alpha1.Rule) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("%s[%d]", DirectionWord(r), r.Index)
}

// RulesText names rules, and counts those beyond the first few.
func RulesText(rules []v1alpha1.Rule) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = PolicyName(r) + " " + RuleName(r)
	}
	return Some(names, mostRules)
}

// mostBlocks is how many blocks of addresses, and exceptions of a block, an answer names in words.
const mostBlocks = 4

// AddressesText says in words which addresses an end is, and counts those beyond the most.
func AddressesText(s v1alpha1.ReachSide, most int) string {
	return forecast.End{Addresses: prefixes(s.Addresses), Rest: s.Rest}.Text(most)
}

// PeersText describes the peers of a rule, and counts the peers beyond most.
func PeersText(r v1alpha1.EffectiveRule, most int) string {
	var parts []string
	if len(r.Names) > 0 {
		parts = append(parts, Some(r.Names, most))
	}
	if len(r.Peers) > 0 {
		parts = append(parts, forecast.End{Addresses: prefixes(r.Peers)}.Text(most))
	}
	return strings.Join(parts, "; ")
}

// prefixes are those that texts are.
func prefixes(texts []string) (out []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Some lists names, and counts those beyond the most that are named.
func Some(names []string, most int) string {
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
