package intent

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Account is one call of Compute.
type Account struct {
	In    Input
	lower capability
	// Recall is what the attempts of the call know together, and Effort counts what they do.
	Recall        *Recall
	Effort        *Effort
	Policies      []*Policy
	addressGroups map[string]*v1beta2.AddressGroup
	observed      map[string]bool // regions
	// Unguarded are the native services and interfaces that policies apply to in vain, sorted.
	Unguarded []Unguarded
	Regions   []*Region
}

// Unguarded is a native service, or an interface that is an entity of its own, that policies apply
// to, which are not enforced there.
type Unguarded struct {
	Entity EntityRef
	// Subject is what the entity stands for, and Mode what may be done to it: if that does not let
	// policies be enforced, they are not refused.
	Subject  VMRef
	Mode     Mode
	Policies []*Policy // in the order of evaluation
	// Fixed is why its groups cannot be set, in words, and Code what it is.
	Fixed string
	Code  Code
}

// Why says why they are not.
func (u Unguarded) Why() *Reason { return Why(u.Code, u.Entity.String()).Quoting(u.Fixed) }

// Stopped is what the computation panics with if nobody wants its result any more. It never leaves
// Compute.
type Stopped struct{}

// MayStop ends the computation if nobody wants its result any more.
func (c *Account) MayStop() {
	if c.In.Stop != nil && c.In.Stop() {
		panic(Stopped{})
	}
}

// New finds out what applies to whom. What that takes, and all that is done with the outcome, is
// counted as effort.
func New(in Input, lower capability, effort *Effort) *Account {
	c := &Account{
		In: in, lower: lower, Recall: newRecall(), Effort: effort, addressGroups: map[string]*v1beta2.AddressGroup{}, observed: map[string]bool{},
	}
	for _, g := range in.AddressGroups {
		c.addressGroups[g.Name] = g
	}
	c.Policies = c.parsePolicies()
	c.findMissingGroups()
	c.observeRegions()
	c.bindVMs()
	return c
}

func (c *Account) observeRegions() {
	for _, r := range c.In.Regions {
		c.observed[r.Snapshot.Region] = true
	}
	for _, r := range c.In.Regions {
		c.Regions = append(c.Regions, newRegion(c, r))
	}
	slices.SortFunc(c.Regions, func(a, b *Region) int { return strings.Compare(a.Snap.Region, b.Snap.Region) })
}

// findMissingGroups refuses policies whose address groups have not arrived: without them a rule
// would mean something else.
func (c *Account) findMissingGroups() {
	for _, p := range c.Policies {
		for _, r := range p.Rules {
			for _, g := range r.Groups {
				if c.addressGroups[g] == nil && p.Problem == nil {
					p.Problem = Why(GroupUnknown, g)
				}
			}
		}
	}
}

// bindVMs finds out which rules apply to which VMs, and which address groups they belong to.
func (c *Account) bindVMs() {
	byRegion := map[string]*Region{}
	for _, s := range c.Regions {
		byRegion[s.Snap.Region] = s
	}
	find := func(m *v1beta2.GroupMember, among map[EntityRef]VMRef) *VM {
		if m.ExternalEntity == nil {
			return nil
		}
		ref, ok := among[EntityRef{m.ExternalEntity.Namespace, m.ExternalEntity.Name}]
		if s := byRegion[ref.Region]; ok && s != nil {
			return s.vms[ref.ID]
		}
		return nil
	}
	for _, s := range c.Regions {
		s.selectVMs()
	}
	for _, name := range sortedKeys(c.addressGroups) {
		for i := range c.addressGroups[name].GroupMembers {
			// A native service is a peer by its addresses, for whose sake nothing of it changes.
			if vm := find(&c.addressGroups[name].GroupMembers[i], c.In.Entities); vm != nil {
				if k := len(vm.Groups); k == 0 || vm.Groups[k-1] != name {
					vm.Groups = append(vm.Groups, name)
				}
			}
		}
	}
	c.applyRules(func(m *v1beta2.GroupMember) *VM { return cmp.Or(find(m, c.In.Entities), find(m, c.In.Services)) })
}

// applyRules gives every VM the rules that apply to it.
func (c *Account) applyRules(find func(*v1beta2.GroupMember) *VM) {
	rulesOf := map[string][]*rule{}
	for _, p := range c.Policies {
		for _, r := range p.Rules {
			for _, g := range r.AppliedTo {
				rulesOf[g] = append(rulesOf[g], r)
			}
		}
	}
	hits, services := map[*VM]map[*rule]*Bound{}, map[EntityRef][]*Policy{}
	for _, g := range c.In.AppliedToGroups {
		for i := range g.GroupMembers {
			m := &g.GroupMembers[i]
			vm := find(m)
			if vm == nil {
				c.meet(services, m, rulesOf[g.Name])
				continue
			}
			if hits[vm] == nil {
				hits[vm] = map[*rule]*Bound{}
			}
			for _, r := range rulesOf[g.Name] {
				bind(hits[vm], r, m)
			}
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(services), EntityRef.Compare) {
		ref := c.In.Services[e]
		code, fixed := c.fixed(ref)
		policies := slices.SortedFunc(slices.Values(services[e]), ComparePolicies)
		c.Unguarded = append(c.Unguarded, Unguarded{Entity: e, Subject: ref, Mode: c.In.Modes[ref], Policies: policies, Fixed: fixed, Code: code})
	}
	for vm, rules := range hits {
		vm.apply(rules)
		if let, left := c.In.Agents[vm.Ref]; left {
			vm.leave(let)
		}
	}
}

// fixed says why the groups of a native service or an interface cannot be set.
func (c *Account) fixed(ref VMRef) (Code, string) {
	for _, r := range c.Regions {
		if r.Snap.Region != ref.Region {
			continue
		}
		if x := r.Snap.Service(ref.ID); x != nil {
			return ServiceUnguarded, cmp.Or(x.Fixed, x.Ambiguous, "no interface of it is shown")
		}
		if n := r.interfaceOf(ref); n != nil {
			return InterfaceUnguarded, cmp.Or(n.Unsettable(r.Snap.OwnerID), "it is of the virtual machine "+cloud.Words(n.VMID)+", which is selected, and has what applies to that")
		}
		return ServiceUnguarded, "it is not shown"
	}
	return ServiceUnguarded, "its region was not read"
}

// meet notes the policies of rules that apply to a native service, or to an interface.
func (c *Account) meet(services map[EntityRef][]*Policy, m *v1beta2.GroupMember, rules []*rule) {
	if m.ExternalEntity == nil {
		return
	}
	e := EntityRef{m.ExternalEntity.Namespace, m.ExternalEntity.Name}
	if _, ours := c.In.Services[e]; !ours {
		return
	}
	for _, r := range rules {
		if !slices.Contains(services[e], r.Policy) {
			services[e] = append(services[e], r.Policy)
		}
	}
}

// bind makes the rule apply, and resolves its named ports with those of the member.
func bind(rules map[*rule]*Bound, r *rule, m *v1beta2.GroupMember) {
	b := rules[r]
	if b == nil {
		b = &Bound{rule: r, services: r.Services, any: r.matchesAny()}
		rules[r] = b
	}
	for _, named := range r.Named {
		for _, p := range m.Ports {
			s, ok := named.service(p)
			if !ok {
				continue
			}
			b.resolved = true
			if !slices.Contains(b.services, s) {
				b.services = append(slices.Clip(b.services), s)
			}
		}
	}
}

// apply sets what applies to the VM, and leaves out what cannot be expressed for it.
func (vm *VM) apply(rules map[*rule]*Bound) {
	for _, b := range rules {
		vm.Applied = append(vm.Applied, b)
	}
	slices.SortFunc(vm.Applied, func(a, b *Bound) int { return a.number - b.number })
	for _, b := range vm.Applied {
		if !slices.Contains(vm.Policies, b.Policy) {
			vm.Policies = append(vm.Policies, b.Policy)
		}
		if len(b.Named) > 0 && !b.resolved && vm.Problems[b.Policy] == nil {
			vm.Problems[b.Policy] = Why(NamedPortUnknown, b.Named[0].name)
		}
	}
	slices.SortFunc(vm.Policies, ComparePolicies)
	for _, p := range vm.Policies {
		if p.Problem != nil {
			vm.Problems[p] = p.Problem
		}
	}
}

// selectVMs makes the VMs that have an entity known, with their interfaces.
func (s *Region) selectVMs() {
	entities := make(map[string][]EntityRef, len(s.Snap.VMs))
	for _, among := range []map[EntityRef]VMRef{s.In.Entities, s.In.Services} {
		for e, ref := range among {
			if ref.Region == s.Snap.Region {
				entities[ref.ID] = append(entities[ref.ID], e)
			}
		}
	}
	byVM := make(map[string][]*NIC, len(s.Snap.VMs))
	for _, n := range s.NICs {
		if n.VMID != "" {
			byVM[n.VMID] = append(byVM[n.VMID], n)
		}
	}
	s.vms, s.Order = make(map[string]*VM, len(entities)), make([]*VM, 0, len(entities))
	for i := range s.Snap.VMs {
		v := &s.Snap.VMs[i]
		if len(entities[v.ID]) == 0 {
			continue
		}
		vm := &VM{
			Ref: VMRef{s.Snap.Region, v.ID}, Observed: v, entities: entities[v.ID], NICs: byVM[v.ID],
			Problems: map[*Policy]*Reason{},
		}
		position := func(n *NIC) int { return slices.Index(v.Interfaces, n.ID) }
		slices.SortStableFunc(vm.NICs, func(a, b *NIC) int { return position(a) - position(b) })
		for _, n := range vm.NICs {
			n.vm = vm
		}
		s.vms[v.ID] = vm
		s.Order = append(s.Order, vm)
	}
	slices.SortFunc(s.Order, func(a, b *VM) int { return strings.Compare(a.Ref.ID, b.Ref.ID) })
}
