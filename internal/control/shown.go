package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// maxShown is the length at which the message of a status is cut: it stands in a line of a list.
const maxShown = 160

// heldBack reports whether a policy is not in force at an enforcer for no other reason than that it
// is only planned for, or that modes, releases or the brake suspend it.
func heldBack(n v1beta2.NetworkPolicyNodeStatus) (planned, suspended bool) {
	held := int64(n.WorkloadsPlanned) + int64(n.WorkloadsSuspended)
	if !n.RealizationFailure || n.WorkloadsPlanned < 0 || n.WorkloadsSuspended < 0 || held == 0 || n.WorkloadsRealized < 0 ||
		int64(n.WorkloadsRealized)+held != int64(n.Workloads) {
		return false, false
	}
	return n.WorkloadsSuspended == 0, n.WorkloadsSuspended > 0
}

// countVMs says, for a list, on how many of its VMs a policy is in force; it is empty if no
// enforcer counts. A report about another generation counts as not in force.
func (p *policyPage) countVMs(concerns func(key string) bool) string {
	var realized, all int64
	for key, r := range p.reports {
		if r.Workloads <= 0 || !concerns(key) {
			continue
		}
		all += int64(r.Workloads)
		if r.Generation == p.generation {
			realized += int64(min(max(r.WorkloadsRealized, 0), r.Workloads))
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", realized, all)
}

// shortMessage says in one line what enforcers report about a policy, or else what is to be said
// about it anyway.
func shortMessage(reports []v1beta2.NetworkPolicyNodeStatus, otherwise string) string {
	slices.SortFunc(reports, func(a, b v1beta2.NetworkPolicyNodeStatus) int { return cmp.Compare(a.NodeName, b.NodeName) })
	var parts []string
	for _, r := range reports {
		text := r.Message
		if len(reports) > 1 {
			text = strings.TrimPrefix(r.NodeName, "cloud/") + ": " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return shortened(otherwise)
	}
	return shortened(strings.Join(parts, "; "))
}

// shortened cuts a text for a list. Enforcers write what they like: it becomes one line of what can
// be printed.
func shortened(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
	if len(text) > maxShown {
		return cutAtWord(text, maxShown)
	}
	return text
}
