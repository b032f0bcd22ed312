package history

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

const (
	// maxAccounts and maxCallNames bound what is reported about calls, maxMessage the length of
	// texts.
	maxAccounts  = 32
	maxCallNames = 16
	maxMessage   = 1024
)

// result is what the status of an object says.
type result struct{ phase, vms, message string }

// resultOf returns what the status of an object says about its present generation; false if it says
// nothing yet.
func resultOf(o client.Object) (result, bool) {
	switch o := o.(type) {
	case *antreav1beta1.NetworkPolicy:
		return policyResult(o.Generation, &o.Status)
	case *antreav1beta1.ClusterNetworkPolicy:
		return policyResult(o.Generation, &o.Status)
	case *antreav1beta1.Group:
		return groupResult(&o.Status)
	case *antreav1beta1.ClusterGroup:
		return groupResult(&o.Status)
	case *upstreamv1alpha1.AdminNetworkPolicy:
		return conditionsResult(o.Generation, o.Status.Conditions)
	case *upstreamv1alpha1.BaselineAdminNetworkPolicy:
		return conditionsResult(o.Generation, o.Status.Conditions)
	case *upstreamv1alpha2.ClusterNetworkPolicy:
		return conditionsResult(o.Generation, o.Status.Conditions)
	}
	return result{}, false
}

func policyResult(generation int64, s *antreav1beta1.NetworkPolicyStatus) (result, bool) {
	if s.ObservedGeneration < generation || s.Phase == "" {
		return result{}, false
	}
	out := result{phase: string(s.Phase), vms: s.VMs, message: s.Message}
	var stated []string
	for _, c := range s.Conditions {
		if c.Message != "" && (c.Status != metav1.ConditionTrue || out.message == "") {
			stated = append(stated, c.Message)
		}
	}
	if len(stated) > 0 {
		out.message = strings.Join(stated, "; ") // the status itself has it in short
	}
	return out.bounded(), true
}

func groupResult(s *antreav1beta1.GroupStatus) (result, bool) {
	for _, c := range s.Conditions {
		if c.Type == antreav1beta1.GroupMembersComputed {
			phase := "Computed"
			if c.Status != metav1.ConditionTrue {
				phase = "NotComputed"
			}
			return result{phase: phase, message: c.Message}.bounded(), true
		}
	}
	return result{}, false
}

func conditionsResult(generation int64, conditions []metav1.Condition) (result, bool) {
	for _, c := range conditions {
		if c.Type == "Realized" && c.ObservedGeneration >= generation {
			return result{phase: c.Reason, message: c.Message}.bounded(), true
		}
	}
	return result{}, false
}

// bounded cuts texts, which enforcers may have written.
func (r result) bounded() result {
	r.phase, r.vms, r.message = cut(r.phase), cut(r.vms), cut(r.message)
	return r
}

// cut makes a text one line of what can be printed, of bounded length.
func cut(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
	if len(text) > maxMessage {
		text = text[:maxMessage-3] + "..."
	}
	return strings.ToValidUTF8(text, "")
}

// calls are what was done in accounts, by account.
type calls map[string]*v1alpha1.RevisionAccount

// add notes a call. What is beyond the bounds is not counted apart.
func (c calls) add(account, name, failure string) {
	a := c[account]
	if a == nil {
		if len(c) >= maxAccounts {
			return
		}
		a = &v1alpha1.RevisionAccount{Account: account, Calls: map[string]int64{}}
		c[account] = a
	}
	if failure != "" {
		a.Failed++
		a.LastError = cut(name + ": " + failure)
		return
	}
	if _, known := a.Calls[name]; !known && len(a.Calls) >= maxCallNames {
		name = "others"
	}
	if a.Calls == nil {
		a.Calls = map[string]int64{}
	}
	a.Calls[name]++
}

// list returns the accounts in order, as a copy.
func (c calls) list() []v1alpha1.RevisionAccount {
	var out []v1alpha1.RevisionAccount
	for _, name := range slices.Sorted(maps.Keys(c)) {
		out = append(out, *c[name].DeepCopy())
	}
	return out
}

func callsFrom(list []v1alpha1.RevisionAccount) calls {
	out := calls{}
	for i := range list {
		out[list[i].Account] = list[i].DeepCopy()
	}
	return out
}
