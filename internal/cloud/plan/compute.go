package plan

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// computation is one call of Compute.
type computation struct {
	in            facts
	lower         capability
	policies      []*policy
	addressGroups map[string]*v1beta2.AddressGroup
	observed      map[string]bool // regions
	regions       []*region
}

// stopped is what the computation panics with if nobody wants its result any more. It never leaves Compute.
type stopped struct{}

// mayStop ends the computation if nobody wants its result any more.
func (c *computation) mayStop() {
	if c.in.Stop != nil && c.in.Stop() {
		panic(stopped{})
	}
}

// newComputation finds out what applies to whom.
func newComputation(in facts, lower capability) *computation {
	c := &computation{in: in, lower: lower, addressGroups: map[string]*v1beta2.AddressGroup{}, observed: map[string]bool{}}
	for _, g := range in.AddressGroups {
		c.addressGroups[g.Name] = g
	}
	c.policies = parsePolicies(in.Policies, lower)
	c.findMissingGroups()
	c.observeRegions()
	c.bindVMs()
	return c
}

func (c *computation) observeRegions() {
	for _, r := range c.in.Regions {
		c.observed[r.Snapshot.Region] = true
	}
	for _, r := range c.in.Regions {
		c.regions = append(c.regions, newRegion(c, r))
	}
	slices.SortFunc(c.regions, func(a, b *region) int { return strings.Compare(a.snap.Region, b.snap.Region) })
}

// findMissingGroups refuses policies whose address groups have not arrived: without them a rule would mean something else.
func (c *computation) findMissingGroups() {
	for _, p := range c.policies {
		for _, r := range p.rules {
			for _, g := range r.groups {
				if c.addressGroups[g] == nil && p.problem == "" {
					p.problem = "the address group " + g + " is not known yet"
				}
			}
		}
	}
}

// bindVMs finds out which rules apply to which VMs, and which address groups they belong to.
func (c *computation) bindVMs() {
	byRegion := map[string]*region{}
	for _, s := range c.regions {
		byRegion[s.snap.Region] = s
	}
	find := func(m *v1beta2.GroupMember) *machine {
		if m.ExternalEntity == nil {
			return nil
		}
		ref, ok := c.in.Entities[EntityRef{m.ExternalEntity.Namespace, m.ExternalEntity.Name}]
		if s := byRegion[ref.Region]; ok && s != nil {
			return s.vms[ref.ID]
		}
		return nil
	}
	for _, s := range c.regions {
		s.selectVMs()
	}
	for _, name := range sortedKeys(c.addressGroups) {
		for i := range c.addressGroups[name].GroupMembers {
			if vm := find(&c.addressGroups[name].GroupMembers[i]); vm != nil {
				if k := len(vm.groups); k == 0 || vm.groups[k-1] != name {
					vm.groups = append(vm.groups, name)
				}
			}
		}
	}
	c.applyRules(find)
}

// applyRules gives every VM the rules that apply to it.
func (c *computation) applyRules(find func(*v1beta2.GroupMember) *machine) {
	rulesOf := map[string][]*rule{}
	for _, p := range c.policies {
		for _, r := range p.rules {
			for _, g := range r.appliedTo {
				rulesOf[g] = append(rulesOf[g], r)
			}
		}
	}
	hits := map[*machine]map[*rule]*bound{}
	for _, g := range c.in.AppliedToGroups {
		for i := range g.GroupMembers {
			m := &g.GroupMembers[i]
			vm := find(m)
			if vm == nil {
				continue
			}
			if hits[vm] == nil {
				hits[vm] = map[*rule]*bound{}
			}
			for _, r := range rulesOf[g.Name] {
				bind(hits[vm], r, m)
			}
		}
	}
	for vm, rules := range hits {
		vm.apply(rules)
	}
}

// bind makes the rule apply, and resolves its named ports with those of the member.
func bind(rules map[*rule]*bound, r *rule, m *v1beta2.GroupMember) {
	b := rules[r]
	if b == nil {
		b = &bound{rule: r, services: r.services, any: r.matchesAny()}
		rules[r] = b
	}
	for _, named := range r.named {
		for _, p := range m.Ports {
			protocol := p.Protocol
			if protocol == "" {
				protocol = v1beta2.ProtocolTCP
			}
			number := map[v1beta2.Protocol]int{v1beta2.ProtocolTCP: cloud.TCP, v1beta2.ProtocolUDP: cloud.UDP}[protocol]
			if p.Name != named.name || named.protocol != "" && named.protocol != protocol || number == 0 {
				continue
			}
			b.resolved = true
			s := flow.Service{Protocol: number, From: uint16(p.Port), To: uint16(p.Port)}
			if !slices.Contains(b.services, s) {
				b.services = append(slices.Clip(b.services), s)
			}
		}
	}
}

// apply sets what applies to the VM, and leaves out what cannot be expressed for it.
func (vm *machine) apply(rules map[*rule]*bound) {
	for _, b := range rules {
		vm.applied = append(vm.applied, b)
	}
	slices.SortFunc(vm.applied, func(a, b *bound) int { return a.number - b.number })
	for _, b := range vm.applied {
		if !slices.Contains(vm.policies, b.policy) {
			vm.policies = append(vm.policies, b.policy)
		}
		if len(b.named) > 0 && !b.resolved && vm.problems[b.policy] == "" {
			vm.problems[b.policy] = "named port \"" + b.named[0].name + "\" is not a port of this VM's entity"
		}
	}
	slices.SortFunc(vm.policies, comparePolicies)
	for _, p := range vm.policies {
		if p.problem != "" {
			vm.problems[p] = p.problem
		}
	}
}

// selectVMs makes the VMs that have an entity known, with their interfaces.
func (s *region) selectVMs() {
	entities := map[string][]EntityRef{}
	for e, ref := range s.in.Entities {
		if ref.Region == s.snap.Region {
			entities[ref.ID] = append(entities[ref.ID], e)
		}
	}
	byVM := map[string][]*iface{}
	for _, n := range s.nics {
		if n.VMID != "" {
			byVM[n.VMID] = append(byVM[n.VMID], n)
		}
	}
	for i := range s.snap.VMs {
		v := &s.snap.VMs[i]
		if len(entities[v.ID]) == 0 {
			continue
		}
		vm := &machine{
			ref: VMRef{s.snap.Region, v.ID}, vm: v, entities: entities[v.ID], nics: byVM[v.ID],
			problems: map[*policy]string{},
		}
		position := func(n *iface) int { return slices.Index(v.Interfaces, n.ID) }
		slices.SortStableFunc(vm.nics, func(a, b *iface) int { return position(a) - position(b) })
		for _, n := range vm.nics {
			n.vm = vm
		}
		s.vms[v.ID] = vm
		s.order = append(s.order, vm)
	}
	slices.SortFunc(s.order, func(a, b *machine) int { return strings.Compare(a.ref.ID, b.ref.ID) })
}
