// Package signs makes the names and descriptions of our objects for users of a cloud's console, and
// names the quota of the cloud that a user must raise.
//
// These texts are for people. The only decision that depends on one is whether a rule is ours
// (Ours). It is pure, keeps no state and is safe for concurrent use.
package signs

import (
	"fmt"
	"slices"
	"strings"
)

// The lengths that a cloud allows, in characters: of the value of a tag, and of the description of
// a rule.
const (
	maxTag         = 256
	maxDescription = 255
)

// ours begins every name and description.
const ours = "nephele"

// NameTag is the value of the tag Name of a group: the first of the policies that it is for, and
// how many more there are. Policies are named "namespace/name", cluster-wide ones "name"; their
// order and repetitions do not matter.
func NameTag(policies []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(policies)))
	if len(sorted) == 0 {
		return ours
	}
	more := ""
	if n := len(sorted) - 1; n > 0 {
		more = fmt.Sprintf(" +%d", n)
	}
	return cut(ours+": "+sorted[0], maxTag-len(more)) + more
}

// Description is that of a rule of ours, from the policy and the name of the rule in it that it is
// made for. Without a policy it is that of rules that no single one asks for.
func Description(policy, rule string, more int) string {
	if policy == "" {
		return ours
	}
	text := ours + ": " + policy
	if rule != "" {
		text += " " + rule
	}
	tail := ""
	if more > 0 {
		tail = fmt.Sprintf(" +%d", more)
	}
	return cut(allowed(text), maxDescription-len(tail)) + tail
}

// Failsafe is the description of a rule of ours that an account's failsafe flows ask for.
func Failsafe(account string) string {
	return cut(allowed(ours+": failsafe flows of the account "+account), maxDescription)
}

// Native is the description of a rule of ours that says what the interface's own groups say.
const Native = ours + ": what its own groups allow"

// former is what all rules of ours were described as once.
const former = "managed by Nephele"

// Told is what a description names: a policy and its rule, or what else a rule is for; "" if it
// names nothing, or is none of ours.
func Told(description string) string {
	text, _ := strings.CutPrefix(description, ours+": ")
	if text == description {
		return ""
	}
	return text
}

// Ours reports whether a description is one of those that are made here, or were once.
func Ours(description string) bool {
	return description == ours || description == former || strings.HasPrefix(description, ours+": ")
}

// allowed replaces what a description must not have.
func allowed(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" ._-:/()#,@[]+=&;{}!$*", r):
			return r
		}
		return '_'
	}, text)
}

func cut(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length-3], "") + "..."
}

// quota is a quota of AWS, by the field that says it.
type quota struct{ code, name string }

// quotas are those that an account's spec.awsConfig.quotas names.
var quotas = map[string]quota{
	"rulesPerGroup":      {"L-0EA8095F", "Inbound or outbound rules per security group"},
	"groupsPerInterface": {"L-2AFB9258", "Security groups per network interface"},
	"groupsPerRegion":    {"L-E79EC296", "VPC security groups per Region"},
}

// Advice says which quota of the cloud to raise, to what (0: not known), and which field of the
// account must follow; "" for a quota that it does not know, and for a limit that cannot be raised.
func Advice(field string, wouldDo int) string {
	to := ""
	if wouldDo > 0 {
		to = fmt.Sprintf(" to %d or more", wouldDo)
	}
	if field == "applicationSecurityGroups" {
		return "to make room, have Azure raise the limits of application security groups and of network security groups of the subscription and region" + to +
			", and then spec.azureConfig.quotas of the CloudProviderAccount with them"
	}
	q, known := quotas[field]
	if !known {
		return ""
	}
	return fmt.Sprintf(
		"to make room, raise the quota %s (%s, service vpc) of the account and region%s in Service Quotas, and then spec.awsConfig.quotas.%s of the CloudProviderAccount with it",
		q.code,
		q.name,
		to,
		field,
	)
}
