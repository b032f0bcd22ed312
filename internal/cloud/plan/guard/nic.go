package guard

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
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
	VM    *VM
	State InterfaceState
	// Given is set if it is given back although its VM has policies; see Foresee.
	Given bool
}

// Rules are the policies' rules that are enforced on the interface, and profile identifies them.
func (n *NIC) Rules() (rules []*intent.Bound, profile string) {
	if n.VM == nil || n.Given {
		return nil, ""
	}
	return n.VM.Effective, n.VM.Profile
}

// needed reports whether some are.
func (n *NIC) needed() bool {
	rules, _ := n.Rules()
	return len(rules) > 0
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
	if i < 0 || !n.Taken() || n.needed() {
		return nil
	}
	return lost[i]
}

// VM is a selected VM and what is enforced on it.
type VM struct {
	*intent.VM
	NICs []*NIC
	// Left are the policies that are left out on this VM, with the reason; Kept those for whose
	// sake its interfaces stay as they are.
	Left, Kept map[*intent.Policy]*intent.Reason
	// Effective are the applied rules without those of Left, and Profile identifies them.
	Effective []*intent.Bound
	Profile   string
}

// InForce are the rules whose peers matter: the effective ones, and those of policies that stay in
// force in an earlier form.
func (vm *VM) InForce() []*intent.Bound {
	if len(vm.Kept) == 0 {
		return vm.Effective
	}
	var out []*intent.Bound
	for _, r := range vm.Applied {
		if vm.Left[r.Policy] == nil || vm.Kept[r.Policy] != nil {
			out = append(out, r)
		}
	}
	return out
}

func effectiveRules(vm *VM) (rules []*intent.Bound, profile string) {
	for _, r := range vm.Applied {
		if vm.Left[r.Policy] == nil {
			rules = append(rules, r)
		}
	}
	return rules, intent.ProfileOf(rules)
}

// WhyLeft is why a policy is left out on a VM, with what holds meanwhile; nil if it is not.
func (vm *VM) WhyLeft(p *intent.Policy) *intent.Reason {
	if vm.Left[p] != nil && vm.Kept[p] != nil {
		return (&intent.Reason{Code: intent.Kept}).From(vm.Left[p])
	}
	return vm.Left[p]
}

// AddressesOf returns the private addresses of those interfaces that can be referenced from the
// network.
func AddressesOf(nics []*NIC, view *intent.Network) addrset.Set {
	var addrs []netip.Addr
	for _, n := range nics {
		if view.Reaches(n.Network) {
			addrs = append(addrs, n.PrivateIPs...)
		}
	}
	return addrset.Of(addrs...)
}
