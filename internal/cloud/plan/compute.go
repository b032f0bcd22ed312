package plan

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// computation is one call of Compute.
type computation struct {
	in            Input
	lower         Lowerer
	policies      []*policy
	addressGroups map[string]*v1beta2.AddressGroup
	observed      map[string]bool // regions
	regions       []*regionState
	// impatient is set when a first attempt found nothing that could be done without something else being done before it.
	impatient bool
	// resigned is set when the next attempt found nothing either that could be done without room for more groups.
	resigned bool
	// designs is set if nothing but what is wanted in the end counts, and not the way there.
	designs bool
}

// ComputeRounds plans one round for an account: the operations that bring the cloud from what was observed to what the policies want, or
// a safe part of the way (Plan.Partial).
func ComputeRounds(in Input, lower Lowerer) (out *Result) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case stopped{}:
			out = &Result{Plan: Plan{Account: in.Account}, Stopped: true}
		default:
			panic(r)
		}
	}()
	in.recall, in.effort = newRecall(), &effort{}
	out = in.decide(lower)
	in.recall.lacks.number(out.Refusals)
	in.advise(out, lower)
	return out
}

// decide is Compute with marks in the messages about quotas.
func (in Input) decide(lower Lowerer) (out *Result) {
	var c *computation
	if !in.effort.within(in.allowed().round, func() { out, c = computeAtOnce(in, lower) }) {
		return in.undecided(lower)
	}
	var successive *Result
	if in.effort.within(in.allowed().succession, func() { successive, _ = in.follow(out, c, lower) }) && successive != nil {
		return successive
	}
	first := out
	if !in.effort.within(in.allowed().ahead, func() { out, _ = in.foresee(first, c, lower) }) {
		out = c.hold(first, aheadTooLong)
	}
	out.Followed = len(in.Succession.Changes)
	return out
}

// stopped is what the computation panics with if nobody wants its result any more. It never leaves Compute.
type stopped struct{}

// mayStop ends the computation if nobody wants its result any more.
func (c *computation) mayStop() {
	if c.in.Stop != nil && c.in.Stop() {
		panic(stopped{})
	}
}

// computeAtOnce is Compute without a look at later rounds.
func computeAtOnce(in Input, lower Lowerer) (*Result, *computation) {
	out, c := compute(in, lower, false)
	if c.waits() && !out.Plan.progresses() && !c.roomComes(out.Plan) {
		out, c = compute(in, lower, true)
		if c.lacksRoom() && !out.Plan.progresses() && !c.roomComes(out.Plan) {
			out, c = computeResigned(in, lower)
		}
	}
	if insisting, stuck := in.insist(out); stuck {
		out, c = compute(insisting, lower, true)
		out.nameModes(in.Modes)
		out.noteHaste(in.Modes)
	}
	return out, c
}

func compute(in Input, lower Lowerer, impatient bool) (*Result, *computation) {
	if in.ClusterID == "" {
		return &Result{
			Plan:     Plan{Account: in.Account},
			Refusals: []Refusal{{Message: "the controller has no cluster id, so it could not tell its own security groups from others"}},
		}, &computation{in: in}
	}
	c := newComputation(in, lower, impatient)
	c.settle()
	return c.result(), c
}

// computeResigned is an impatient compute in which nothing waits for room for groups.
func computeResigned(in Input, lower Lowerer) (*Result, *computation) {
	c := newComputation(in, lower, true)
	c.resigned = true
	c.settle()
	return c.result(), c
}

// newComputation finds out what applies to whom.
func newComputation(in Input, lower Lowerer, impatient bool) *computation {
	c := &computation{in: in, lower: lower, impatient: impatient, addressGroups: map[string]*v1beta2.AddressGroup{}, observed: map[string]bool{}}
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
		c.regions = append(c.regions, newRegionState(c, r))
	}
	slices.SortFunc(c.regions, func(a, b *regionState) int { return strings.Compare(a.snap.Region, b.snap.Region) })
}

// waits reports whether something has to wait for something else to be done before.
func (c *computation) waits() bool {
	return slices.ContainsFunc(c.regions, func(s *regionState) bool { return len(s.waiting) > 0 })
}

// settle makes the designs of all regions, and holds back what must not become wider in this round. What is refused meanwhile takes no
// part in the change any more, so that less may have to be held back: then it begins anew without it. But if something only waits, what
// it will do later still counts.
func (c *computation) settle() {
	all := func() {
		for _, s := range c.regions {
			s.settle()
		}
	}
	refusals := func() (n int) {
		for _, s := range c.regions {
			n += len(s.refused) + len(s.frozen)
			for _, vm := range s.order {
				n += len(vm.left)
			}
		}
		return n
	}
	for done := false; !done; {
		for _, s := range c.regions {
			clear(s.restrict)
			clear(s.stay)
			s.foreseen()
		}
		all()
		known := refusals()
		for c.restrictConflicts() {
			all()
		}
		done = !c.awaitRoom() && (refusals() == known || c.waits())
	}
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
	byRegion := map[string]*regionState{}
	for _, s := range c.regions {
		byRegion[s.snap.Region] = s
	}
	find := func(m *v1beta2.GroupMember) *vmState {
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
	for _, s := range c.regions {
		for _, vm := range s.order {
			for _, p := range vm.policies {
				if message := vm.left[p]; message != "" {
					s.leaveOut(vm, p, message)
				}
			}
		}
	}
}

// applyRules gives every VM the rules that apply to it.
func (c *computation) applyRules(find func(*v1beta2.GroupMember) *vmState) {
	rulesOf := map[string][]*rule{}
	for _, p := range c.policies {
		for _, r := range p.rules {
			for _, g := range r.appliedTo {
				rulesOf[g] = append(rulesOf[g], r)
			}
		}
	}
	hits := map[*vmState]map[*rule]*bound{}
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
		vm.apply(rules, c.in.left[vm.ref])
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

// apply sets what applies to the VM, and leaves out what cannot be expressed for it or will be left out in the end.
func (vm *vmState) apply(rules map[*rule]*bound, foreseen map[string]string) {
	for _, b := range rules {
		vm.applied = append(vm.applied, b)
	}
	slices.SortFunc(vm.applied, func(a, b *bound) int { return a.number - b.number })
	for _, b := range vm.applied {
		if !slices.Contains(vm.policies, b.policy) {
			vm.policies = append(vm.policies, b.policy)
		}
		if len(b.named) > 0 && !b.resolved && vm.left[b.policy] == "" {
			vm.left[b.policy] = "named port \"" + b.named[0].name + "\" is not a port of this VM's entity"
		}
	}
	slices.SortFunc(vm.policies, comparePolicies)
	for _, p := range vm.policies {
		if p.problem != "" {
			vm.left[p] = p.problem
		}
	}
	for _, p := range vm.policies {
		if why := foreseen[p.ref.UID]; why != "" && vm.left[p] == "" {
			vm.left[p] = why
		}
	}
}

// selectVMs makes the VMs that have an entity known, with their interfaces.
func (s *regionState) selectVMs() {
	entities := map[string][]EntityRef{}
	for e, ref := range s.in.Entities {
		if ref.Region == s.snap.Region {
			entities[ref.ID] = append(entities[ref.ID], e)
		}
	}
	byVM := map[string][]*nic{}
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
		vm := &vmState{
			ref: VMRef{s.snap.Region, v.ID}, vm: v, entities: entities[v.ID], nics: byVM[v.ID],
			left: map[*policy]string{}, kept: map[*policy]string{},
		}
		position := func(n *nic) int { return slices.Index(v.Interfaces, n.ID) }
		slices.SortStableFunc(vm.nics, func(a, b *nic) int { return position(a) - position(b) })
		for _, n := range vm.nics {
			n.vm = vm
		}
		s.vms[v.ID] = vm
		s.order = append(s.order, vm)
	}
	slices.SortFunc(s.order, func(a, b *vmState) int { return strings.Compare(a.ref.ID, b.ref.ID) })
}

// restrictConflicts finds the pairs of interfaces where one half of a flow becomes wider while the other becomes narrower, so that
// in between a flow could pass that neither the old nor the new state allows. The widening half is held back to what is allowed
// both before and after; the next round widens it. It reports whether anything was held back that was not before.
func (c *computation) restrictConflicts() bool {
	type change struct {
		*atom
		region          *regionState
		addrs           addrset.Set
		wider, narrower [2][]flow.Grant
	}
	var changes []*change
	for _, s := range c.regions {
		for _, a := range s.atoms {
			ch := &change{atom: a, region: s}
			any := false
			for i := range directions {
				ch.wider[i], ch.narrower[i] = a.want[i].Minus(a.now[i]), a.now[i].Minus(a.want[i])
				any = any || len(ch.wider[i]) > 0 || len(ch.narrower[i]) > 0
			}
			if any {
				ch.addrs = a.addrs()
				changes = append(changes, ch)
			}
		}
	}
	found := false
	for _, a := range changes {
		c.mayStop()
		c.in.effort.spend(len(changes) / 8)
		for i := range directions {
			if len(a.wider[i]) == 0 {
				continue
			}
			for _, b := range changes {
				if a == b && len(a.nics) == 1 {
					continue // an interface does not filter what it sends to itself
				}
				if a.bystander && b.region.givenBackAtOnce(b.atom) || b.bystander && a.region.givenBackAtOnce(a.atom) {
					continue // one edit changes both halves
				}
				if flow.Meet(a.wider[i], b.addrs, b.narrower[1-i], a.addrs) {
					found = a.region.restrain(a.atom, i) || found
					break
				}
			}
		}
	}
	return found
}

// givenBackAtOnce reports whether the interfaces get their own groups back by one edit each. Nothing else changes for them, or for
// those whose rules refer to groups that they join or leave.
func (s *regionState) givenBackAtOnce(a *atom) bool {
	return !a.bystander && a.nics[0].state == Untouched && slices.Contains(s.directed, a)
}

// restrain keeps the interfaces from becoming wider in one direction in this round. Those that are left alone anyway become wider
// because others come back to their groups, so that has to wait instead. It reports whether that changes anything.
func (s *regionState) restrain(a *atom, direction int) (changed bool) {
	if !a.bystander {
		for _, n := range a.nics {
			r := s.restrict[n]
			changed = changed || !r[direction]
			r[direction] = true
			s.restrict[n] = r
		}
		return changed
	}
	for _, z := range s.atoms {
		for _, n := range z.nics {
			if n.state != Guarded && n.taken() && !s.stay[n] {
				s.stay[n] = true
				changed = true
			}
		}
	}
	return changed
}
