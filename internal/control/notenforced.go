package control

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// ReasonNotEnforced goes with the condition Realizable of a policy that a cloud account enforced
// once and that no enforcer has any more: its account, its selectors or their VMs are gone. A
// policy that never applied to anything is idle.
const ReasonNotEnforced = "NotEnforced"

// cloudKeys is how the keys of cloud accounts begin; docs/decisions/0006-own-key.md.
const cloudKeys = "cloud/"

// spanned notes the enforcers that the policy no longer concerns, and the new ones. The caller
// holds the lock of the book.
func (p *policyPage) spanned(removed, added []string) {
	p.desired += len(added) - len(removed)
	switch {
	case p.desired > 0:
		p.dropped = false
	case slices.ContainsFunc(removed, func(key string) bool { return strings.HasPrefix(key, cloudKeys) }):
		p.dropped = true
	}
}

// notEnforced makes a status say that no enforcer has the policy any more.
func notEnforced(s v1beta1.NetworkPolicyStatus) v1beta1.NetworkPolicyStatus {
	s.Phase = v1beta1.NetworkPolicyNotEnforced
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == v1beta1.NetworkPolicyConditionRealizable && c.Status == metav1.ConditionTrue {
			c.Reason, c.Message = ReasonNotEnforced, "not enforced: the VMs that it applied to are released, and nothing else is selected that an enforcer is responsible for"
		}
	}
	return s
}

// remember is what a status should say in place of one that a former process, which may have known
// more, has left.
func remember(former, next v1beta1.NetworkPolicyStatus) v1beta1.NetworkPolicyStatus {
	dropped := slices.ContainsFunc(former.Conditions, func(c v1beta1.NetworkPolicyCondition) bool { return c.Reason == ReasonNotEnforced })
	if dropped && next.Phase == v1beta1.NetworkPolicyIdle {
		return notEnforced(next)
	}
	return next
}
