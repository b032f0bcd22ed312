package target

import (
	"maps"
	"net/netip"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Target is what is wanted in a region, and what the attempts so far have ruled out; see settle.
type Target struct {
	*intent.Region
	fitter  fitter
	matcher matcher
	Lower   Lowerer
	memo    *memo
	NICs    []*NIC // sorted by ID
	Order   []*VM  // selected VMs, sorted by ID

	byFormer map[string][]*NIC // native group -> interfaces that natively belong to it
	byHeld   map[string][]*NIC // group -> interfaces that hold it now

	Restrict map[*NIC][2]bool         // directions that are held at what is allowed both before and after
	between  map[*intent.Network]bool // networks of such interfaces, and all that peerings connect with them
	lasting  map[*NIC]bool            // interfaces that are guarded when nobody waits any more
	literal  map[string]bool          // classes that keep their rules as they are, word for word
	Refused  map[*NIC]*intent.Reason  // interfaces that are not taken over, with the reason
	Frozen   map[*NIC]*intent.Reason  // interfaces that stay as they are, with the reason
	Waiting  map[*NIC]bool            // those of refused and frozen that need only wait for others
	// spared are interfaces that are not refused because they are under control, and unspared those
	// that are refused all the same; see foresee.
	spared, unspared map[*NIC]bool
	// Outgrown are groups, by ID, whose rules cannot become others where they are, for want of room
	// for both or of an order: their classes get groups beside them.
	Outgrown map[string]bool
	// tightened are the classes that allow as much as fits, by key; see tighten.
	tightened  map[string]*tightening
	allotment  *allotment // if there are too few groups for all that is wanted
	Dependents dependents
	design
}

// NIC is an interface and what is wanted of it. That is decided by each attempt of settle.
type NIC struct {
	*intent.NIC
	VM     *VM
	State  InterfaceState
	Class  *Class
	Target []string // keys of the wanted groups: IDs, or "+" and the name of a group that is to be created
	// Given is set if it is given back although its VM has policies; see foresee.
	Given bool
}

// rules are the policies' rules that are enforced on the interface, and profile identifies them.
func (n *NIC) rules() (rules []*intent.Bound, profile string) {
	if n.VM == nil || n.Given {
		return nil, ""
	}
	return n.VM.Effective, n.VM.profile
}

// needed reports whether some are.
func (n *NIC) needed() bool {
	rules, _ := n.rules()
	return len(rules) > 0
}

// VM is a selected VM and what is enforced on it.
type VM struct {
	*intent.VM
	NICs []*NIC
	// left are the policies that are left out on this VM, with the reason; kept those for whose
	// sake its interfaces stay as they are.
	Left, Kept map[*intent.Policy]*intent.Reason
	// effective are the applied rules without those of left, and profile identifies them.
	Effective []*intent.Bound
	profile   string
}

// New begins with what cannot be expressed or controlled at all.
func New(r *intent.Region, lower Lowerer) *Target {
	s := &Target{
		Region: r, Lower: lower, memo: newMemo(r.Recall), byFormer: map[string][]*NIC{}, byHeld: map[string][]*NIC{},
		Restrict: map[*NIC][2]bool{}, literal: map[string]bool{}, Refused: map[*NIC]*intent.Reason{}, Frozen: map[*NIC]*intent.Reason{}, Waiting: map[*NIC]bool{},
		spared: map[*NIC]bool{}, unspared: map[*NIC]bool{}, Outgrown: map[string]bool{}, tightened: map[string]*tightening{},
		Dependents: dependents{unfollowed: map[string]*intent.Reason{}},
	}
	s.matcher = matcher{Region: r, design: &s.design, byHeld: s.byHeld, literal: s.literal, outgrown: s.Outgrown}
	s.fitter = fitter{Region: r, design: &s.design, lower: lower, memo: s.memo}
	at, all := make(map[*intent.NIC]*NIC, len(r.NICs)), make([]NIC, len(r.NICs))
	s.NICs = make([]*NIC, len(all))
	for k, i := range r.NICs {
		n := &all[k]
		n.NIC, n.State = i, Untouched
		at[i], s.NICs[k] = n, n
	}
	for _, index := range []struct {
		from map[string][]*intent.NIC
		to   map[string][]*NIC
	}{{r.ByFormer, s.byFormer}, {r.ByHeld, s.byHeld}} {
		for g, nics := range index.from {
			index.to[g] = make([]*NIC, 0, len(nics))
			for _, i := range nics {
				index.to[g] = append(index.to[g], at[i])
			}
		}
	}
	s.Order = make([]*VM, 0, len(r.Order))
	for _, m := range r.Order {
		vm := &VM{VM: m}
		for _, i := range m.NICs {
			n := at[i]
			n.VM = vm
			vm.NICs = append(vm.NICs, n)
		}
		s.Order = append(s.Order, vm)
	}
	s.begin()
	return s
}

// begin forgets what attempts have ruled out. What remains is what cannot be expressed or
// controlled at all.
func (s *Target) begin() {
	clear(s.literal)
	clear(s.Refused)
	clear(s.Frozen)
	clear(s.tightened)
	clear(s.Dependents.unfollowed)
	clear(s.spared)
	s.allotment = nil
	for _, n := range s.NICs {
		switch {
		case n.Alien != nil:
		case n.Unproven != nil: // nothing can be given back
			s.Frozen[n] = n.Unproven
		case n.Blocked != "":
			s.Frozen[n] = n.Refused()
		case n.Released != nil && s.Mode(n.NIC) == intent.BreakGlass:
			s.Refused[n] = n.Released
		}
	}
	for _, vm := range s.Order {
		vm.Left, vm.Kept = maps.Clone(vm.Problems), map[*intent.Policy]*intent.Reason{}
	}
	for _, vm := range s.Order {
		for _, p := range vm.Policies {
			if why := vm.Left[p]; why != nil {
				s.leaveOut(vm, p, why)
			}
		}
	}
}

// addressesOf returns the private addresses of those interfaces that can be referenced from the
// network.
func addressesOf(nics []*NIC, view *intent.Network) addrset.Set {
	var addrs []netip.Addr
	for _, n := range nics {
		if view.Reaches(n.Network) {
			addrs = append(addrs, n.PrivateIPs...)
		}
	}
	return addrset.Of(addrs...)
}
