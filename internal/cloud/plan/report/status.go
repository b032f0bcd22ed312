package report

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// VMStatus says what applies to one VM.
type VMStatus struct {
	VM   intent.VMRef
	Mode intent.Mode
	// Policies are those that select the VM, in the order of evaluation.
	Policies []VMPolicy
	// Interfaces holds the interfaces of the VM and their state after the plan, in device order.
	Interfaces []InterfaceStatus
	// Obstructed is what the filters of subnets deny of what policies allow, by interface in device
	// order.
	Obstructed []Obstruction
}

// IsVM reports whether it is a VM, and not a native service or an interface that is an entity of
// its own: either is one interface that represents itself.
func (s *VMStatus) IsVM() bool {
	return len(s.Interfaces) != 1 || s.Interfaces[0].ID != s.VM.ID
}

// VMPolicy is the state of one policy on one VM.
type VMPolicy struct {
	intent.PolicyRef
	// Realized is true if the cloud already is as the policy wants it for this VM: no operation is
	// pending for its interfaces.
	Realized bool
	// Why is the reason why the policy is refused on this VM, and Message says it in a sentence;
	// both are empty while it is realized or being realized.
	Why     *reason.Reason
	Message string
	// Warnings are what differs without being refused, for example Reject realized as Drop; Warning
	// says them in sentences.
	Warnings []*reason.Reason
	Warning  string
}

// InterfaceStatus is the state of one interface when the plan is done.
type InterfaceStatus struct {
	ID     string
	State  guard.InterfaceState
	Former []string
	// Network is its network, and Groups are the groups that it holds: the ID of each, or "+" and
	// the name of one that the plan creates. They must not be changed.
	Network string
	Groups  []string
	// Held is true if it holds a group of ours now, before the plan.
	Held bool
	// WhyUnproven is why it stays as it is although nobody knows what it had before; nil if that is
	// known. Unproven says it in a sentence.
	WhyUnproven *reason.Reason
	Unproven    string
	// WhyElsewhere names the other controller or account that holds it by our rules, so that we do
	// nothing to it; nil if none does. Elsewhere says it in a sentence.
	WhyElsewhere *reason.Reason
	Elsewhere    string
}

// PolicyStatus is the state of one policy in the account.
type PolicyStatus struct {
	intent.PolicyRef
	// Realized, Pending and Failed partition the selected VMs that the policy applies to. Each is
	// sorted.
	Realized []intent.VMRef
	Pending  []intent.VMRef
	Failed   []FailedVM
	// Suspended are the selected VMs that it would apply to if their mode let it. Sorted.
	Suspended []intent.VMRef
	// Unguarded are the native services and interfaces that it applies to, where it is not
	// enforced. Sorted.
	Unguarded []UnguardedService
}

// UnguardedService is a native service, or an interface that is an entity of its own, on which a
// policy is refused.
type UnguardedService struct {
	Entity intent.EntityRef
	// VM is what the entity represents.
	VM  intent.VMRef
	Why *reason.Reason
	// Message says why in a sentence.
	Message string
}

// FailedVM is a VM on which a policy is refused.
type FailedVM struct {
	VM  intent.VMRef
	Why *reason.Reason
	// Message says why in a sentence.
	Message string
}

// Refusal is something that cannot be done as wanted.
type Refusal struct {
	// Policy is the zero value if no single policy is to blame.
	Policy intent.PolicyRef
	// VM is the zero value if a whole network or region is concerned.
	VM intent.VMRef
	// Region and Network say where.
	Region, Network string
	// Direction is empty if both are concerned, or none is.
	Direction cloud.Direction
	Why       *reason.Reason
	// Message is a full sentence with the reason, the numbers where a quota is concerned, and what
	// helps.
	Message string
	// Lack has the numbers if a quota is what does not suffice.
	Lack *reason.Lack
	// Kept is true if the interfaces stay as they were last realized; else the policy is left out
	// there.
	Kept bool
}

// Drift is a change that somebody else made.
type Drift struct {
	Region string
	// Object is the ID of the interface or group.
	Object string
	// Code is of which kind it is, and Message says in a sentence what was changed. Why is that
	// until it is said, so that drifts can be compared.
	Code    reason.Code
	Message string
	Why     *reason.Reason
	// Kept is set if it is left as it is: the mode forbids to write, or it is not ours to decide.
	Kept bool
	// VMs are those that it concerns, by name, and For the policy and rule, or the policies, that
	// it is about; for people, empty if not known.
	VMs, For string
}

// Same reports whether two differences are one and the same, whatever is done about it.
func (d Drift) Same(o Drift) bool {
	return d.Region == o.Region && d.Object == o.Object && d.Message == o.Message
}

// AsObserved is the state of the interface as it is.
func AsObserved(n *guard.NIC) InterfaceStatus {
	switch {
	case len(n.Groups.Ours) == 0:
		return InterfaceStatus{ID: n.ID, State: guard.Untouched}
	case n.Record.Unproven != nil:
		return InterfaceStatus{ID: n.ID, State: guard.Guarded, WhyUnproven: n.Record.Unproven}
	case !n.Record.Exists():
		return InterfaceStatus{ID: n.ID, State: guard.Member}
	default:
		return InterfaceStatus{ID: n.ID, State: guard.Guarded, Former: slices.Clone(n.Record.Groups)}
	}
}
