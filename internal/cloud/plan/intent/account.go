package intent

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Account is one call of Compute.
type Account struct {
	In    Input
	late  func() bool // tells that it takes too long; nil means never
	lower capability
	// Recall is what the attempts of the call know together.
	Recall        *Recall
	Policies      []*Policy
	addressGroups map[string]*v1beta2.AddressGroup
	// Unguarded are the native services and interfaces that policies apply to in vain, sorted.
	Unguarded []Unguarded
	Regions   []*Region // sorted by name
}

// Unguarded is a native service, or an interface that is an entity of its own, that policies apply
// to, which are not enforced there.
type Unguarded struct {
	Entity EntityRef
	// Subject is what the entity represents, and Mode what may be done to it: if that does not let
	// policies be enforced, they are not refused.
	Subject  VMRef
	Mode     Mode
	Policies []*Policy // in the order of evaluation
	Why      *reason.Reason
}

// Stopped is what the computation panics with if nobody wants its result any more, or if it takes
// too long. It never leaves Compute.
type Stopped struct{ Late bool }

// MayStop ends the computation if nobody wants its result any more, or if it takes too long. It is
// asked of every part of the work that is more than a moment.
func (c *Account) MayStop() {
	if c.In.Stop != nil && c.In.Stop() {
		panic(Stopped{})
	}
	if c.late != nil && c.late() {
		panic(Stopped{Late: true})
	}
}

// New finds out which policies apply to which interface. That, and all that is done with the
// outcome, ends when it is late; nil means never.
func New(in Input, lower capability, late func() bool) *Account {
	c := &Account{In: in, late: late, lower: lower, Recall: newRecall(), addressGroups: map[string]*v1beta2.AddressGroup{}}
	for _, g := range in.AddressGroups {
		c.addressGroups[g.Name] = g
	}
	c.Policies = c.parsePolicies()
	c.findMissingGroups()
	for _, r := range in.Regions {
		c.Regions = append(c.Regions, newRegion(c, r))
	}
	slices.SortFunc(c.Regions, func(a, b *Region) int { return strings.Compare(a.Snap.Region, b.Snap.Region) })
	c.joinGroups()
	c.applyRules()
	return c
}

// findMissingGroups refuses policies whose address groups have not arrived: without them a rule
// would mean something else.
func (c *Account) findMissingGroups() {
	for _, p := range c.Policies {
		for _, r := range p.Rules {
			for _, g := range r.Groups {
				if c.addressGroups[g] == nil && p.Problem == nil {
					p.Problem = reason.Why(reason.GroupUnknown, g)
				}
			}
		}
	}
}

// region finds a region that was observed; nil if it is none.
func (c *Account) region(name string) *Region {
	i := slices.IndexFunc(c.Regions, func(s *Region) bool { return s.Snap.Region == name })
	if i < 0 {
		return nil
	}
	return c.Regions[i]
}

// vm finds a selected VM; nil if it was not observed.
func (c *Account) vm(ref VMRef) *VM {
	if s := c.region(ref.Region); s != nil {
		return s.vms[ref.ID]
	}
	return nil
}

// joinGroups finds out which address groups the VMs belong to.
func (c *Account) joinGroups() {
	for _, name := range slices.Sorted(maps.Keys(c.addressGroups)) {
		members := c.addressGroups[name].GroupMembers
		for i := range members {
			// A native service is a peer by its addresses, for whose sake nothing of it changes.
			vm := c.vm(c.In.Entities[EntityOf(&members[i])])
			if vm != nil && (len(vm.Groups) == 0 || vm.Groups[len(vm.Groups)-1] != name) {
				vm.Groups = append(vm.Groups, name)
			}
		}
	}
}

// applyRules gives every VM the rules that apply to it, and finds the policies that apply to native
// services and interfaces in vain.
func (c *Account) applyRules() {
	rulesOf := map[string][]*rule{}
	for _, p := range c.Policies {
		for _, r := range p.Rules {
			for _, g := range r.AppliedTo {
				rulesOf[g] = append(rulesOf[g], r)
			}
		}
	}
	hits, inVain := map[*VM]map[*rule]*Bound{}, map[EntityRef][]*Policy{}
	for _, g := range c.In.AppliedToGroups {
		for i := range g.GroupMembers {
			m := &g.GroupMembers[i]
			e := EntityOf(m)
			ref, service := c.In.Services[e]
			vm := cmp.Or(c.vm(c.In.Entities[e]), c.vm(ref))
			if vm != nil && hits[vm] == nil {
				hits[vm] = map[*rule]*Bound{}
			}
			for _, r := range rulesOf[g.Name] {
				switch {
				case vm != nil:
					bind(hits[vm], r, m)
				case service && !slices.Contains(inVain[e], r.Policy):
					inVain[e] = append(inVain[e], r.Policy)
				}
			}
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(inVain), EntityRef.Compare) {
		ref := c.In.Services[e]
		code, fixed := c.fixed(ref)
		slices.SortFunc(inVain[e], ComparePolicies)
		c.Unguarded = append(c.Unguarded, Unguarded{Entity: e, Subject: ref, Mode: c.In.Modes[ref], Policies: inVain[e], Why: reason.Why(code, e.String()).Quoting(fixed)})
	}
	for vm, rules := range hits {
		vm.apply(rules)
		if let, left := c.In.Agents[vm.Ref]; left {
			vm.leave(let)
		}
	}
}

// fixed says why the groups of a native service or an interface cannot be set.
func (c *Account) fixed(ref VMRef) (reason.Code, string) {
	r := c.region(ref.Region)
	if r == nil {
		return reason.ServiceUnguarded, "its region was not read"
	}
	if x := r.Snap.Service(ref.ID); x != nil {
		return reason.ServiceUnguarded, cmp.Or(x.Fixed, x.Ambiguous, "no interface of it is shown")
	}
	if n := r.interfaceOf(ref); n != nil {
		return reason.InterfaceUnguarded, cmp.Or(n.Unsettable(r.Snap.OwnerID), "it is of the virtual machine "+cloud.Words(n.VMID)+", which is selected, and has what applies to that")
	}
	return reason.ServiceUnguarded, "it is not shown"
}

// bind makes the rule apply, and resolves its named ports with the ports of the member.
func bind(rules map[*rule]*Bound, r *rule, m *v1beta2.GroupMember) {
	b := rules[r]
	if b == nil {
		b = r.bound()
		rules[r] = b
	}
	for _, named := range r.Named {
		for _, p := range m.Ports {
			s, ok := named.service(p)
			b.resolved = b.resolved || ok
			if ok && !slices.Contains(b.services, s) {
				b.services = append(slices.Clip(b.services), s)
			}
		}
	}
}

// apply sets what applies to the VM, and leaves out what cannot be expressed for it.
func (vm *VM) apply(rules map[*rule]*Bound) {
	vm.Applied = slices.SortedFunc(maps.Values(rules), func(a, b *Bound) int { return a.number - b.number })
	for _, b := range vm.Applied {
		p := b.Policy
		if !slices.Contains(vm.Policies, p) {
			vm.Policies = append(vm.Policies, p)
		}
		switch {
		case p.Problem != nil:
			vm.Problems[p] = p.Problem
		case len(b.Named) > 0 && !b.resolved && vm.Problems[p] == nil:
			vm.Problems[p] = reason.Why(reason.NamedPortUnknown, b.Named[0].name)
		}
	}
	slices.SortFunc(vm.Policies, ComparePolicies)
}
