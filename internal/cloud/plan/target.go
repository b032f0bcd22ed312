package plan

import (
	"maps"
	"net/netip"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// regionState is what is wanted in a region, and what the attempts so far have ruled out; see settle.
type regionState struct {
	*region
	lower   Lowerer
	options options
	memo    *memo
	nics    []*nic     // sorted by ID
	order   []*vmState // selected VMs, sorted by ID

	byFormer map[string][]*nic // native group -> interfaces that natively belong to it
	missed   map[string][]*nic // see region.missed
	byHeld   map[string][]*nic // group -> interfaces that hold it now

	restrict map[*nic][2]bool // directions that are held at what is allowed both before and after
	literal  map[string]bool  // classes that keep their rules as they are, word for word
	refused  map[*nic]string  // interfaces that are not taken over, with the reason
	frozen   map[*nic]string  // interfaces that stay as they are, with the reason
	waiting  map[*nic]bool    // those of refused and frozen that need only wait for others
	// tightened are the classes that allow as much as fits, by key; see tighten.
	tightened map[string]*tightening
	// unlisted are address groups whose members rules name by address, for want of groups; see admission.
	unlisted   map[string]bool
	admission  *admission // if there are too few groups for all that is wanted
	dependents dependents
	design
}

// options are what decides about the target besides what is allowed.
type options struct {
	// Tighten holds the UIDs of the policies of which as much is to be enforced as fits, where not all of it does.
	Tighten map[string]bool
	// Dependents says what becomes of interfaces that are not ours and that depend on those that are guarded.
	Dependents DependentsRule
	// Lacks collects the numbers behind messages.
	Lacks lacks
}

// nic is an interface and what is wanted of it. That is decided by each attempt of settle.
type nic struct {
	*iface
	vm     *vmState
	state  InterfaceState
	class  *class
	target []string // keys of the wanted groups: IDs, or "+" and the name of a group that is to be created
}

// vmState is a selected VM and what is enforced on it.
type vmState struct {
	*machine
	nics []*nic
	// left are the policies that are left out on this VM, with the reason; kept those for whose sake its interfaces stay as they
	// are.
	left, kept map[*policy]string
	// effective are the applied rules without those of left, and profile identifies them.
	effective []*bound
	profile   string
}

// newRegionState begins with what cannot be expressed or controlled at all.
func newRegionState(r *region, lower Lowerer, o options) *regionState {
	s := &regionState{
		region: r, lower: lower, options: o, memo: newMemo(r.in.Recall), byFormer: map[string][]*nic{}, missed: map[string][]*nic{}, byHeld: map[string][]*nic{},
		restrict: map[*nic][2]bool{}, literal: map[string]bool{}, refused: map[*nic]string{}, frozen: map[*nic]string{}, waiting: map[*nic]bool{},
		dependents: dependents{unfollowed: map[string]string{}},
	}
	at := map[*iface]*nic{}
	for _, i := range r.nics {
		n := &nic{iface: i, state: Untouched}
		at[i] = n
		s.nics = append(s.nics, n)
		switch {
		case n.alien != "":
		case n.unproven != "": // nothing can be given back
			s.frozen[n] = n.unproven
		case n.released != "" && s.mode(i) == BreakGlass:
			s.refused[n] = n.released
		}
	}
	for _, index := range []struct {
		from map[string][]*iface
		to   map[string][]*nic
	}{{r.byFormer, s.byFormer}, {r.missed, s.missed}, {r.byHeld, s.byHeld}} {
		for g, nics := range index.from {
			for _, i := range nics {
				index.to[g] = append(index.to[g], at[i])
			}
		}
	}
	for _, m := range r.order {
		vm := &vmState{machine: m, left: maps.Clone(m.problems), kept: map[*policy]string{}}
		for _, i := range m.nics {
			n := at[i]
			n.vm = vm
			vm.nics = append(vm.nics, n)
		}
		s.order = append(s.order, vm)
	}
	for _, vm := range s.order {
		for _, p := range vm.policies {
			if message := vm.left[p]; message != "" {
				s.leaveOut(vm, p, message)
			}
		}
	}
	return s
}

// addressesOf returns the private addresses of those interfaces that can be referenced from the network.
func addressesOf(nics []*nic, view *network) addrset.Set {
	var addrs []netip.Addr
	for _, n := range nics {
		if view.reaches(n.network) {
			addrs = append(addrs, n.PrivateIPs...)
		}
	}
	return addrset.Of(addrs...)
}
