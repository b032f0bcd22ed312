package guard

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// InterfaceState is our relation to an interface.
type InterfaceState string

// The states of an interface.
const (
	// Untouched: it holds nothing of ours.
	Untouched InterfaceState = "Untouched"
	// Member: it keeps its groups and additionally holds an empty group of ours, by which rules
	// elsewhere refer to it.
	Member InterfaceState = "Member"
	// Guarded: it holds only groups of ours; its former groups are recorded in its tags.
	Guarded InterfaceState = "Guarded"
)

// NIC is an interface and what is decided about it by each attempt to make a design.
type NIC struct {
	*intent.NIC
	VM      *VM
	decided decision
}

// decision is what an attempt has decided about an interface.
type decision struct {
	state    InterfaceState
	frozen   *reason.Reason // why it stays as it is
	refusal  *reason.Reason // why it is not taken over
	waiting  bool           // if it need only wait for others with that
	restrict [2]bool        // directions that are held at what is allowed both before and after
	spared   bool           // it would be refused if it was not under control; see KeepSpared
}

// State is our relation to the interface when all is done.
func (n *NIC) State() InterfaceState { return n.decided.state }

// Frozen is why the interface stays as it is; nil if it need not.
func (n *NIC) Frozen() *reason.Reason { return n.decided.frozen }

// Refusal is why the interface is not taken over; nil if it may be.
func (n *NIC) Refusal() *reason.Reason { return n.decided.refusal }

// Waiting reports whether an interface that is frozen or refused need only wait for others.
func (n *NIC) Waiting() bool { return n.decided.waiting }

// Restricted are the directions that are held at what is allowed both before and after.
func (n *NIC) Restricted() [2]bool { return n.decided.restrict }

// isRestricted reports whether there are any.
func (n *NIC) isRestricted() bool { return n.decided.restrict != [2]bool{} }

// Rules are the policies' rules that are enforced on the interface, and profile identifies them.
func (n *NIC) Rules() (rules []*intent.Bound, profile string) {
	if n.VM == nil {
		return nil, ""
	}
	return n.VM.Effective, n.VM.Profile
}

// Native reports whether there are none, so that its former groups decide everything.
func (n *NIC) Native() bool {
	rules, _ := n.Rules()
	return len(rules) == 0
}

// Open tells which directions of the interface its former groups decide.
func (n *NIC) Open() [2]bool {
	rules, _ := n.Rules()
	return intent.OpenUnder(rules)
}

// waitsFor is the interface that the cloud refuses to give back and for whose sake one stays under
// control that no policy needs.
func (n *NIC) waitsFor(lost []*NIC) *NIC {
	i := slices.IndexFunc(lost, func(on *NIC) bool { return on.Blocked != "" })
	if i < 0 || !n.Taken() || !n.Native() {
		return nil
	}
	return lost[i]
}

// VM is a selected VM and what is enforced on it.
type VM struct {
	*intent.VM
	NICs []*NIC
	// left are the policies that are left out on this VM.
	left map[*intent.Policy]omission
	// Effective are the applied rules without the rules of left, and Profile identifies them.
	Effective []*intent.Bound
	Profile   string
}

// omission is why a policy is left out, and whether interfaces stay as they are for its sake,
// because it is in force in an earlier form.
type omission struct {
	why  *reason.Reason
	kept bool
}

// InForce are the rules whose peers matter: the effective ones, and rules of policies that stay in
// force in an earlier form.
func (vm *VM) InForce() []*intent.Bound {
	if !vm.KeepsAny() {
		return vm.Effective
	}
	return vm.applied(func(p *intent.Policy) bool { return vm.Left(p) == nil || vm.Keeps(p) })
}

// applied are the rules that apply, of those policies of which that holds.
func (vm *VM) applied(holds func(*intent.Policy) bool) (rules []*intent.Bound) {
	for _, r := range vm.Applied {
		if holds(r.Policy) {
			rules = append(rules, r)
		}
	}
	return rules
}

// Enforces reports whether rules of the policy are enforced, and it was not left out since that was
// decided.
func (vm *VM) Enforces(p *intent.Policy) bool {
	return vm.Left(p) == nil && slices.ContainsFunc(vm.Effective, func(r *intent.Bound) bool { return r.Policy == p })
}

// Left is why a policy is left out; nil if it is not.
func (vm *VM) Left(p *intent.Policy) *reason.Reason { return vm.left[p].why }

// WhyLeft is the same with what holds meanwhile.
func (vm *VM) WhyLeft(p *intent.Policy) *reason.Reason {
	if vm.Keeps(p) {
		return (&reason.Reason{Code: reason.Kept}).From(vm.Left(p))
	}
	return vm.Left(p)
}

// Keeps reports whether interfaces stay as they are for the sake of a policy that is left out.
func (vm *VM) Keeps(p *intent.Policy) bool { return vm.left[p].kept }

// KeepsAny reports whether they do for the sake of any.
func (vm *VM) KeepsAny() bool {
	for _, o := range vm.left {
		if o.kept {
			return true
		}
	}
	return false
}

// AddressesOf returns the private addresses of those interfaces that can be referenced from the
// network.
func AddressesOf(nics []*NIC, view *intent.Network) addrset.Set {
	var in []addrset.Set
	for _, n := range nics {
		if view.Reaches(n.Network) {
			in = append(in, n.Private)
		}
	}
	return addrset.Union(in...)
}
