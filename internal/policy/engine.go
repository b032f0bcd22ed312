package policy

// Options choose between readings of the policy language.
type Options struct {
	// ReferenceNamespacePeers reproduces the Antrea Controller's reading of rules with `namespaces`
	// peers whose appliedTo names a group (the rule then applies to all Pods of each Namespace of
	// the group, not to the group's members) or whose appliedTo entries overlap (the last one
	// wins). Off, the rule applies to exactly what appliedTo selects.
	ReferenceNamespacePeers bool
}

// Engine computes policies. See the package comment for its contract; use New.
type Engine struct {
	options Options

	// Inputs.
	labels          labelTable
	namespaces      map[string]*namespace
	recent          *namespace // the one that was looked for last
	knownNamespaces labelIndex[*namespace]
	services        map[NamespacedName]*Service
	byService       map[NamespacedName]map[*groupDef]struct{}
	tiers           map[string]int32
	groupDefs       map[NamespacedName]*groupDef
	policies        policyTable
	hosts           map[string]*host
	hostTable       hostTable // the same by id
	freeHostIDs     []uint32

	// Shared parts.
	everywhere *scope
	scopes     map[string]*scope
	scopeIndex selectorIndex[*scope]
	selections selectionTable
	groupCount [2]int // by role
	reaches    map[string]*reach
	reported   map[reportKey]report
	// serviceGroups are the applied-to groups of Services by name, present at every Node; nodeHosts
	// counts the Nodes. All other groups are found by their selection or definition. reaches are
	// those of several applied-to groups, or of none.
	serviceGroups map[string]*group
	nodeHosts     hostCounts
	// byTier and relative are the policies to compute again when a Tier or any Namespace changes.
	byTier   map[string]map[*policyState]struct{}
	relative map[*policyState]struct{}
	// fences are those of the selections that have some, fenced those of the policies that have
	// some.
	fences map[*selection][]*fence
	fenced map[*policyState][]*fence

	// Work for the next Commit.
	dirtyDefs     []*groupDef
	dirtyPolicies []*policyState
	donePolicies  []*policyState // where the next are listed
	dirtyGroups   []*group
	dirtyReaches  []*reach
	freshReaches  []*reach
	emptyReaches  []*reach
	toldReaches   []*reach
	dirtyReports  map[reportKey]struct{}
	dead          []*entity
	idleHosts     []*host
	nodeShifts    map[*host]int32
	translations  uint64
	commits       uint32
	// serials is the number of entities' serial numbers, freeSerials are those of them that are not
	// used.
	serials     uint32
	freeSerials []uint32
	// everything selects all; simple are selectors by one label; denials are rules that many
	// policies have, contents what their rules say.
	everything *selector
	simple     map[label]*selector
	denials    map[denial][]ComputedRule
	contents   contents
	// scratch is where names are put together, policyScratch where sources make policies.
	scratch       []byte
	policyScratch Policy
	// atgScratch is where a translation lists its applied-to groups.
	atgScratch []*group
	// tally counts members by the ids of hosts.
	tally []int32
	// spares are lists for groups and reaches; last is what the last Commit returned, to be used
	// again, if it is small.
	spares spares
	last   *Changes
	slabs  slabs
}

// New returns an Engine that knows the system tiers and nothing else.
func New(options Options) *Engine {
	e := &Engine{
		options:       options,
		labels:        labelTable{sets: make(map[string]*labelSet)},
		namespaces:    make(map[string]*namespace),
		services:      make(map[NamespacedName]*Service),
		byService:     make(map[NamespacedName]map[*groupDef]struct{}),
		tiers:         make(map[string]int32),
		groupDefs:     make(map[NamespacedName]*groupDef),
		hosts:         make(map[string]*host),
		scopes:        make(map[string]*scope),
		reaches:       make(map[string]*reach),
		reported:      make(map[reportKey]report),
		serviceGroups: make(map[string]*group),
		byTier:        make(map[string]map[*policyState]struct{}),
		relative:      make(map[*policyState]struct{}),
		fences:        make(map[*selection][]*fence),
		fenced:        make(map[*policyState][]*fence),
		everything:    &selector{},
		simple:        make(map[label]*selector),
		denials:       make(map[denial][]ComputedRule),
	}
	e.labels.slabs = &e.slabs
	for _, t := range SystemTiers() {
		e.tiers[t.Name] = t.Priority
	}
	return e
}

// PutNamespace adds or replaces a Namespace.
func (e *Engine) PutNamespace(in Namespace) {
	n := e.namespaceNamed(in.Name)
	labels := e.labels.acquire(in.Labels, label{})
	if n.logKNP != in.LogNetworkPolicies {
		n.logKNP = in.LogNetworkPolicies
		e.touchKubernetesPolicies(in.Name)
	}
	if n.known && n.labels == labels {
		e.labels.release(labels)
		return
	}
	e.relabelNamespace(n, labels)
}

// DeleteNamespace forgets a Namespace. Its entities and policies stay until they are deleted
// themselves.
func (e *Engine) DeleteNamespace(name string) {
	n := e.namespaces[name]
	if n == nil || !n.known {
		return
	}
	if n.logKNP {
		n.logKNP = false
		e.touchKubernetesPolicies(name)
	}
	e.relabelNamespace(n, nil)
	e.dropNamespace(n)
}

// relabelNamespace gives a Namespace other labels, or with nil makes it unknown, and moves it
// between scopes.
func (e *Engine) relabelNamespace(n *namespace, labels *labelSet) {
	if n.known {
		e.knownNamespaces.remove(n)
		e.labels.release(n.labels)
	}
	n.known, n.labels = labels != nil, labels
	wanted := make(map[*scope]struct{})
	if labels != nil {
		e.knownNamespaces.insert(n)
		e.scopeIndex.each(labels, func(s *scope) { wanted[s] = struct{}{} })
	}
	for s := range n.scopes {
		if _, ok := wanted[s]; !ok && s != e.everywhere {
			e.exitScope(n, s)
		}
	}
	for s := range wanted {
		if _, ok := n.scopes[s]; !ok {
			e.enterScope(n, s)
		}
	}
	for p := range e.relative {
		e.touchPolicy(p)
	}
}

func (e *Engine) touchKubernetesPolicies(namespace string) {
	for p := range e.policies.All() {
		if ref := p.source.Ref(); ref.Kind == KubernetesNetworkPolicy && ref.Namespace == namespace {
			e.touchPolicy(p)
		}
	}
}

// PutEntity adds or replaces an entity.
func (e *Engine) PutEntity(in Entity) {
	x := e.entity(in.EntityRef)
	if x == nil {
		x = e.newEntity(&in)
	}
	var account label
	if in.Kind == KindPod && in.ServiceAccount != "" {
		account = label{serviceAccountLabel, in.ServiceAccount}
	}
	labels := e.labels.acquire(in.Labels, account)
	if x.alive && x.cell.labels == labels {
		e.labels.release(labels)
		e.updateContent(x, &in)
		return
	}
	c := e.cellFor(e.namespaceNamed(in.Namespace), in.Kind, labels)
	if x.alive {
		e.noteEntity(x, x.cell)
		e.leave(x)
	} else if in.Kind == KindNode {
		e.shiftNode(e.useHost(in.Name), 1)
	}
	e.assignHost(x, in.hostKey())
	x.assign(&in, &e.slabs)
	x.alive = true
	e.enter(x, c)
	for _, link := range c.selectedBy {
		link.selection.eachGroup(func(g *group) { e.note(g, x, nil) })
	}
}

// updateContent changes what does not concern selectors.
func (e *Engine) updateContent(x *entity, in *Entity) {
	was := [2]*Member{x.member(AddressGroup), x.member(AppliedToGroup)}
	e.assignHost(x, in.hostKey())
	x.assign(in, &e.slabs)
	var changed [2]bool
	for role := range changed {
		changed[role] = !sameIn(GroupRole(role), was[role], x.member(GroupRole(role)))
	}
	if !changed[0] && !changed[1] {
		return
	}
	for _, link := range x.cell.selectedBy {
		link.selection.eachGroup(func(g *group) {
			if changed[g.role] {
				e.note(g, x, was[g.role])
			}
		})
	}
}

// noteEntity records that x may leave or change in all groups that contain its cell.
func (e *Engine) noteEntity(x *entity, c *cell) {
	for _, link := range c.selectedBy {
		link.selection.eachGroup(func(g *group) { e.note(g, x, x.member(g.role)) })
	}
}

// DeleteEntity forgets an entity.
func (e *Engine) DeleteEntity(ref EntityRef) {
	x := e.entity(ref)
	if x == nil || !x.alive {
		return
	}
	e.noteEntity(x, x.cell)
	e.leave(x)
	x.alive = false
	e.assignHost(x, "")
	if ref.Kind == KindNode {
		h := e.hosts[ref.Name]
		e.shiftNode(h, -1)
		e.freeHost(h)
	}
	e.dead = append(e.dead, x)
}

// assignHost gives the entity its host and counts the use.
func (e *Engine) assignHost(x *entity, key string) {
	former := x.host
	if former != nil && former.key == key {
		return
	}
	x.host = nil
	if key != "" {
		x.host = e.useHost(key)
	}
	if former != nil {
		e.freeHost(former)
	}
}

// useHost returns the host with a key and counts one more use.
func (e *Engine) useHost(key string) *host {
	h := e.hosts[key]
	if h == nil {
		h = &host{key: key, id: uint32(len(e.hostTable))}
		if n := len(e.freeHostIDs); n > 0 {
			h.id = e.freeHostIDs[n-1]
			e.freeHostIDs = e.freeHostIDs[:n-1]
			e.hostTable[h.id] = h
		} else {
			e.hostTable = append(e.hostTable, h)
		}
		e.hosts[key] = h
	}
	h.uses++
	return h
}

// freeHost gives up a use. Hosts without are forgotten at the end of Commit, when nothing counts
// them any more.
func (e *Engine) freeHost(h *host) {
	if h.uses--; h.uses == 0 {
		e.idleHosts = append(e.idleHosts, h)
	}
}

// shiftNode has a Node that came (1) or went (-1) taken into account in the next Commit.
func (e *Engine) shiftNode(h *host, n int32) {
	if e.nodeShifts == nil {
		e.nodeShifts = make(map[*host]int32)
	}
	e.nodeShifts[h] += n
}

// PutService adds or replaces a Service.
func (e *Engine) PutService(s Service) {
	name := NamespacedName{s.Namespace, s.Name}
	e.services[name] = &s
	e.redefine(name)
}

// DeleteService forgets a Service.
func (e *Engine) DeleteService(name NamespacedName) {
	if _, ok := e.services[name]; ok {
		delete(e.services, name)
		e.redefine(name)
	}
}

// PutTier adds or replaces a Tier.
func (e *Engine) PutTier(t Tier) {
	if old, ok := e.tiers[t.Name]; ok && old == t.Priority {
		return
	}
	e.tiers[t.Name] = t.Priority
	e.touchTier(t.Name)
}

// DeleteTier forgets a Tier; a system tier falls back to its built-in priority.
func (e *Engine) DeleteTier(name string) {
	if _, ok := e.tiers[name]; !ok {
		return
	}
	delete(e.tiers, name)
	for _, t := range SystemTiers() {
		if t.Name == name {
			e.tiers[name] = t.Priority
		}
	}
	e.touchTier(name)
}

func (e *Engine) touchTier(name string) {
	for p := range e.byTier[name] {
		e.touchPolicy(p)
	}
}

// PutGroup adds or replaces a Group or ClusterGroup.
func (e *Engine) PutGroup(g Group) {
	e.defineGroup(e.groupDefNamed(NamespacedName{g.Namespace, g.Name}), &g)
}

// DeleteGroup forgets a Group, or with an empty Namespace a ClusterGroup.
func (e *Engine) DeleteGroup(name NamespacedName) {
	if d := e.groupDefs[name]; d != nil && d.in != nil {
		e.defineGroup(d, nil)
	}
}

// SystemTiers returns the tiers that always exist, in order of priority.
func SystemTiers() []Tier {
	return []Tier{
		{"emergency", 50}, {"securityops", 100}, {"networkops", 150}, {"platform", 200}, {"application", 250}, {"baseline", 253},
	}
}
