package transition

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Step is one operation. Steps of one stage about different objects may be applied in any order and at the same time; those
// of a later stage wait for all of them.
type Step struct {
	Network string
	Op      cloud.Op
	Stage   int
	// Urgent is set if nothing may make the step wait.
	Urgent bool
}

// Order is how far a change can go, and what holds up the rest.
type Order struct {
	Steps []Step
	// Blocked are the edits for which there is no clean moment, with the reason; empty if the steps lead to the end.
	Blocked []Violation
	// Later is set if some of what is blocked only waits for IDs that the steps create.
	Later bool
	// Apart are interfaces that are blocked because they would have to move by one edit and cannot. If they are put into
	// Change.Apart, Conflicts tells what to do about them.
	Apart []string
}

// defaultBatch is how many objects one call tags. Clouds take more, but tags are to be written not long before interfaces are
// edited and removed not long after.
const defaultBatch = 50

// worklist is what is still to be done.
type worklist struct {
	*state
	wanted  map[string][]cloud.Rule // of groups of ours that shall exist
	doomed  []string                // groups that shall not
	order   []string                // groups of ours, sorted
	movers  []*cohort
	temp    map[string]map[cloud.Rule]bool // rules that are there as long as others move
	deleted map[string]bool                // groups that the steps delete
	blocked []Violation
	splits  int

	steps []Step
	stage int
	// tags are those of objects as the steps so far leave them.
	tags map[string]map[string]string
	// descriptions are those of wanted rules in groups of others.
	descriptions map[described]string
}

// Plan finds an order for a change, as far as there is one.
func (s *Survey) Plan() Order {
	s.findAtomic()
	w := newWorklist(s)
	w.urgent()
	w.tagNetworks(cloud.OpTag, func(key string) bool { return slices.Contains(w.First, key) }, nil)
	first := len(w.steps)
	w.unmark()
	unmarked := len(w.steps)
	for {
		w.stop()
		w.blocked = nil
		done := w.create()
		done = w.replace() || done
		done = w.add() || done
		done = w.move() || done
		// What is not wanted goes after the moves, unless they wait for that: a rule that bridged a gap in a plan that broke
		// off does so again.
		if done || w.bridge() || w.remove() {
			continue
		}
		if len(w.unfinished()) == 0 || !w.split() && !w.join() && !w.discard(nil) {
			break
		}
	}
	left := w.unfinished()
	w.blocked = slices.DeleteFunc(w.blocked, func(v Violation) bool { return !left[v.Network] })
	for w.discard(left) {
		continue
	}
	w.describe()
	w.settle(left)
	for i := first; i < unmarked && unmarked < len(w.steps); i++ { // together with what is done first, which need not wait for it
		w.steps[i].Stage = w.steps[unmarked].Stage
	}
	out := Order{Steps: w.steps, Blocked: w.blocked}
	for _, v := range out.Blocked {
		if v.mover != nil && v.mover.atomic && v.Kind == Gap {
			out.Apart = append(out.Apart, v.Interfaces...)
		}
		out.Later = out.Later || v.Kind == Name
	}
	return out
}

func newWorklist(s *Survey) *worklist {
	if s.Batch == 0 {
		s.Batch = defaultBatch
	}
	w := &worklist{state: newState(s), wanted: map[string][]cloud.Rule{}, temp: map[string]map[cloud.Rule]bool{}, deleted: map[string]bool{}, descriptions: map[described]string{}, tags: map[string]map[string]string{}}
	for i := range s.To.Groups {
		g := &s.To.Groups[i]
		if s.extended(g) {
			w.remember(g)
		}
		if s.Ours(g) || s.extended(g) {
			w.wanted[g.ID] = keysOf(g.Rules)
			w.order = append(w.order, g.ID)
		}
	}
	for i := range s.From.Groups {
		if g := &s.From.Groups[i]; s.Ours(g) {
			if _, ok := w.wanted[g.ID]; !ok {
				w.doomed = append(w.doomed, g.ID)
			}
		}
	}
	for _, k := range s.cohorts {
		if k.moves() {
			w.movers = append(w.movers, k)
		}
	}
	return w
}

// described is a rule of a group.
type described struct {
	group string
	rule  cloud.Rule
}

// remember keeps what the rules of a group are to be described as.
func (w *worklist) remember(g *cloud.Group) {
	for _, r := range g.Rules {
		w.descriptions[described{g.ID, r.Key()}] = r.Description
	}
}

// extended reports whether a group is somebody else's in which some rules are ours.
func (s *Survey) extended(g *cloud.Group) bool {
	return s.Extended != nil && !s.Ours(g) && s.Extended(g)
}

// unfinished are the networks in which something other than clearing away is left, with all that peerings connect with them:
// what is blocked there holds up nobody else.
func (w *worklist) unfinished() map[string]bool {
	left := map[string]bool{}
	for _, k := range w.movers {
		left[k.network] = true
	}
	for _, id := range w.order {
		if !w.exists[id] || !slices.EqualFunc(w.rules[id], w.wanted[id], cloud.Rule.Same) {
			left[w.groups[id].NetworkID] = true
		}
	}
	return w.around(left)
}

// around adds to some networks all that peerings connect with them.
func (w *worklist) around(networks map[string]bool) map[string]bool {
	queue := slices.Sorted(maps.Keys(networks))
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for i := range w.From.Networks {
			if id := w.From.Networks[i].ID; !networks[id] && w.from.Reaches(at, id) {
				networks[id] = true
				queue = append(queue, id)
			}
		}
	}
	return networks
}

// next begins a stage.
func (w *worklist) next() {
	if k := len(w.steps); k > 0 {
		w.stage = w.steps[k-1].Stage + 1
	}
}

func (w *worklist) emit(network string, op cloud.Op) {
	w.steps = append(w.steps, Step{Network: network, Op: op, Stage: w.stage})
}

// block notes that there is no clean moment for an edit at this point of the plan.
func (w *worklist) block(network string, v Violation) {
	v.Network = network
	w.blocked = append(w.blocked, v)
}

// named addresses an operation to a group.
func (w *worklist) named(id string, op cloud.Op) cloud.Op {
	g := w.groups[id]
	op.Group.NetworkID, op.Group.Name = g.NetworkID, g.Name
	if !planned(id) {
		op.Target = id
	}
	return op
}

// outward returns rules as the cloud is told: those of groups that are to be created by name.
func (w *worklist) outward(rules []cloud.Rule, to string) []cloud.Rule {
	out := slices.Clone(rules)
	for i := range out {
		if id := out[i].Peer.GroupID; planned(id) {
			out[i].Peer = cloud.Peer{GroupName: w.groups[id].Name}
		}
		out[i].Description = cmp.Or(w.descriptions[described{to, rules[i].Key()}], w.Description)
	}
	return out
}

// urgent moves interfaces that wait for nobody.
func (w *worklist) urgent() {
	var rest []*cohort
	for _, k := range w.movers {
		if !slices.ContainsFunc(k.interfaces, func(n *cloud.Interface) bool { return w.Urgent[n.ID] }) {
			rest = append(rest, k)
			continue
		}
		w.under(k, k.to)
		w.arrive(k)
		for _, n := range k.interfaces {
			w.set(n, k.at)
			w.steps[len(w.steps)-1].Urgent = true
		}
		k.now, k.least, k.most = k.then, k.then, k.then // nobody is to wait for what they no longer are
	}
	w.movers = rest
	w.next()
}

// create creates groups, as far as the region has room.
func (w *worklist) create() (done bool) {
	w.next()
	for _, id := range w.order {
		if w.exists[id] {
			continue
		}
		g := w.groups[id]
		count := w.crowd(g.NetworkID)
		if count >= w.Limits.GroupsPerRegion {
			w.block(g.NetworkID, Violation{Kind: Room, Group: id, Needed: count + 1, Available: w.Limits.GroupsPerRegion})
			continue
		}
		w.exists[id], done = true, true
		w.emit(g.NetworkID, cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{
			NetworkID: g.NetworkID, Name: g.Name, Description: g.Description, Tags: maps.Clone(g.Tags),
		}})
	}
	return done
}

// crowd counts the groups of the region as a creation in a network finds them: what is deleted in networks that do not depend on
// that one may be there still.
func (w *worklist) crowd(network string) (n int) {
	near := w.around(map[string]bool{network: true})
	for id, there := range w.exists {
		if there || w.deleted[id] && !near[w.groups[id].NetworkID] {
			n++
		}
	}
	return n
}

// add adds the rules that may be added now.
func (w *worklist) add() (done bool) {
	w.next()
	for _, id := range w.order {
		if !w.exists[id] {
			continue
		}
		var added []cloud.Rule
		for _, r := range missing(w.wanted[id], w.rules[id]) {
			if v := w.checkAdd(id, r); v != nil {
				w.block(w.groups[id].NetworkID, *v)
				continue
			}
			added = append(added, r)
			w.setRules(id, sorted(append(slices.Clone(w.rules[id]), r)))
		}
		if len(added) > 0 {
			done = true
			w.emit(w.groups[id].NetworkID, w.named(id, cloud.Op{Kind: cloud.OpAddRules, Rules: w.outward(added, id)}))
		}
	}
	return done
}

// missing returns the rules of a that are not in b.
func missing(a, b []cloud.Rule) []cloud.Rule {
	there := make(map[cloud.Rule]bool, len(b))
	for _, r := range b {
		there[r] = true
	}
	var out []cloud.Rule
	for _, r := range a {
		if !there[r] {
			out = append(out, r)
		}
	}
	return out
}

func sorted(rules []cloud.Rule) []cloud.Rule {
	slices.SortFunc(rules, cloud.Rule.Compare)
	return rules
}

// remove removes the rules that may be removed now.
func (w *worklist) remove() (done bool) {
	w.next()
	for _, id := range slices.Concat(w.order, w.doomed) {
		surplus := missing(w.rules[id], w.wanted[id])
		if _, kept := w.wanted[id]; !kept && len(w.holders[id]) == 0 || len(surplus) == 0 {
			continue // it is deleted anyway
		}
		if len(w.movers) > 0 {
			surplus = slices.DeleteFunc(surplus, func(r cloud.Rule) bool { return w.temp[id][r] })
		}
		removed := surplus
		if w.checkRules(id, missing(w.rules[id], removed)) != nil {
			removed = nil
			for _, r := range surplus {
				after := append(slices.Clone(removed), r)
				if v := w.checkRules(id, missing(w.rules[id], after)); v != nil {
					v.Rule = r
					w.block(w.groups[id].NetworkID, *v)
					continue
				}
				removed = after
			}
		}
		if len(removed) == 0 {
			continue
		}
		done = true
		w.setRules(id, missing(w.rules[id], removed))
		w.emit(w.groups[id].NetworkID, w.named(id, cloud.Op{Kind: cloud.OpRemoveRules, Rules: w.outward(removed, id)}))
	}
	return done
}

// move moves all interfaces that may move now, in any order.
func (w *worklist) move() (done bool) {
	var under, rest []*cohort
	for _, k := range w.movers {
		w.stop()
		if v := w.checkMove(k, k.to); v != nil {
			w.block(k.network, *v)
			rest = append(rest, k)
			continue
		}
		under = append(under, k)
	}
	w.movers = rest
	w.depart(under)
	return len(under) > 0
}

// depart emits the moves of cohorts that are under way, and makes them done. Tags that remember former groups are written
// before an interface moves, while others move, and removed after it, in the same way.
func (w *worklist) depart(under []*cohort) {
	type leg struct {
		on *cloud.Interface
		to []string
	}
	var legs []leg
	for _, k := range under {
		w.arrive(k)
		for _, n := range k.interfaces {
			legs = append(legs, leg{n, k.at})
		}
	}
	trains := slices.Collect(slices.Chunk(legs, w.Batch))
	interfaces := func(i int) (out []*cloud.Interface) {
		if i < 0 || i >= len(trains) {
			return nil
		}
		for _, l := range trains[i] {
			out = append(out, l.on)
		}
		return out
	}
	if len(trains) > 0 {
		w.next()
		w.tagInterfaces(cloud.OpTag, interfaces(0))
	}
	for i, train := range trains {
		w.next()
		w.tagInterfaces(cloud.OpTag, interfaces(i+1))
		w.forgetTags(interfaces(i - 1))
		for _, l := range train {
			w.set(l.on, l.to)
		}
	}
	w.next()
	w.forgetTags(interfaces(len(trains) - 1))
}

func (w *worklist) set(n *cloud.Interface, groups []string) {
	op := cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID}
	for _, id := range groups {
		if planned(id) {
			op.GroupNames = append(op.GroupNames, w.groups[id].Name)
		} else {
			op.GroupIDs = append(op.GroupIDs, id)
		}
	}
	w.emit(n.NetworkID, op)
}

// forgetTags removes tags from those of the interfaces that are where they shall be.
func (w *worklist) forgetTags(interfaces []*cloud.Interface) {
	var there []*cloud.Interface
	for _, n := range interfaces {
		if k := w.cohortOf[n.ID]; slices.Equal(k.at, k.to) {
			there = append(there, n)
		}
	}
	w.tagInterfaces(cloud.OpUntag, there)
}

// replace turns rules into others in place, where a group has no room for both forms, and where it takes no more calls than
// to add and to remove. The rules of one call may take effect in any order.
func (w *worklist) replace() (done bool) {
	w.next()
	touched := map[*cohort]bool{} // in this stage: what one group no longer says another one may have to
	for _, id := range w.order {
		if !w.exists[id] {
			continue
		}
		old := slices.DeleteFunc(missing(w.rules[id], w.wanted[id]), func(r cloud.Rule) bool { return w.temp[id][r] })
		wanted := missing(w.wanted[id], w.rules[id])
		if len(old) == 0 || len(wanted) == 0 {
			continue
		}
		crowded := !w.Fits(slices.Concat(w.rules[id], wanted))
		olds, news := w.pairs(id, old, wanted, crowded)
		if len(olds) == 0 || !crowded && len(olds) < len(old) && len(olds) < len(wanted) {
			continue
		}
		if slices.ContainsFunc(w.holders[id], func(k *cohort) bool { return touched[k] }) {
			w.next()
			clear(touched)
		}
		for _, k := range w.holders[id] {
			touched[k] = true
		}
		done = true
		w.setRules(id, sorted(append(missing(w.rules[id], olds), news...)))
		w.emit(w.groups[id].NetworkID, w.named(id, cloud.Op{Kind: cloud.OpReplaceRules, Rules: w.outward(news, id), Replaced: w.outward(olds, id)}))
	}
	return done
}

// pairs finds for old rules of a group wanted ones that they can be turned into at this moment: with the same peer or the
// same match, where what the old one gave and shall stay is said by the new one and by rules that no pair touches.
func (w *worklist) pairs(id string, old, wanted []cloud.Rule, crowded bool) (olds, news []cloud.Rule) {
	taken := map[cloud.Rule]bool{}
	base := missing(w.rules[id], old)
	for i, similar := range []func(a, b cloud.Rule) bool{
		func(a, b cloud.Rule) bool { return a.Peer == b.Peer && a.Match.Protocol == b.Match.Protocol },
		func(a, b cloud.Rule) bool { return a.Match == b.Match || a.Peer == b.Peer },
		func(a, b cloud.Rule) bool { return true },
	} {
		if i == 2 && !crowded {
			break
		}
		for _, o := range old {
			if taken[o] {
				continue
			}
			for _, n := range wanted {
				if taken[n] || o.Direction != n.Direction || kindOf(o.Peer) != kindOf(n.Peer) || !similar(o, n) || !w.turns(id, o, n, base) {
					continue
				}
				taken[o], taken[n] = true, true
				olds, news = append(olds, o), append(news, n)
				break
			}
		}
	}
	if !w.Fits(append(missing(w.rules[id], olds), news...)) {
		return nil, nil // prefix lists differ in size
	}
	return olds, news
}

// turns reports whether a rule can be turned into another one.
func (w *worklist) turns(id string, o, n cloud.Rule, base []cloud.Rule) bool {
	if v := w.checkAdd(id, n); v != nil && (v.Kind != Room || v.Needed == 0) {
		return false
	}
	for _, y := range w.holders[id] {
		rules := slices.Concat(w.rulesOf(without(y.at, id), o.Direction), inDirection(base, o.Direction), []cloud.Rule{n})
		if w.lacksOf(y, o, rules) {
			return false
		}
	}
	return true
}

// kindOf is what a rule cannot change about its peer in place.
func kindOf(p cloud.Peer) string {
	switch {
	case p.CIDR.IsValid() && p.CIDR.Addr().Is4():
		return "IPv4"
	case p.CIDR.IsValid():
		return "IPv6"
	case p.PrefixListID != "":
		return "list"
	}
	return "group"
}

// join has interfaces that would be missed on either side of their move join their new groups, and leave the old ones later:
// as few as possible, so those first of whom most others miss someone.
func (w *worklist) join() bool {
	misses := map[*cohort]int{}
	missed := map[*cohort]int{}
	for _, k := range w.movers[:min(len(w.movers), triedJoins)] {
		w.stop()
		for o := range w.misses(k) {
			if o != k {
				misses[k]++
				missed[o]++
			}
		}
	}
	order := slices.Clone(w.movers)
	slices.SortStableFunc(order, func(a, b *cohort) int {
		return cmp.Compare(misses[b]*missed[b]*len(a.interfaces), misses[a]*missed[a]*len(b.interfaces))
	})
	for _, k := range order {
		both := slices.Compact(sortedStrings(slices.Concat(k.at, k.to)))
		if k.atomic || slices.Equal(both, k.to) {
			continue
		}
		most := w.Limits.GroupsPerInterface
		if slices.Equal(both, k.at) { // it only leaves groups: one after the other
			most = min(most, len(both)-1)
		}
		for _, groups := range fitting(both, k.to, most) {
			if !slices.Equal(groups, k.to) && w.checkMove(k, groups) == nil {
				w.depart([]*cohort{k})
				return true
			}
		}
	}
	return false
}

// mostLeft bounds how many groups too many there may be.
const mostLeft = 2

// fitting returns the largest sets of groups that an interface may hold on its way: all of those that it will hold, and of the others
// as many as there is room for.
func fitting(all, kept []string, most int) (out [][]string) {
	switch {
	case len(all) <= most:
		return [][]string{all}
	case len(all) > most+mostLeft:
		return nil
	}
	for i, g := range all {
		if !slices.Contains(kept, g) {
			for _, set := range fitting(slices.Delete(slices.Clone(all), i, i+1), kept, most) {
				if !slices.ContainsFunc(out, func(o []string) bool { return slices.Equal(o, set) }) {
					out = append(out, set)
				}
			}
		}
	}
	return out
}

// mostSplits bounds how many cohorts are taken apart.
const mostSplits = 64

// split takes a cohort apart whose interfaces would miss one another while they move, so that those who would be missed can go
// first.
func (w *worklist) split() bool {
	for _, v := range w.blocked {
		k := v.mover
		if k == nil || v.holder != k || v.Kind != Gap || w.splits == mostSplits {
			continue
		}
		var missed, rest []*cloud.Interface
		for _, n := range k.interfaces {
			if addrset.Of(n.PrivateIPs...).Overlaps(v.Addrs) {
				missed = append(missed, n)
			} else {
				rest = append(rest, n)
			}
		}
		if len(missed) == 0 || len(rest) == 0 {
			continue
		}
		w.splits++
		first := *k
		first.hold(missed)
		k.hold(rest)
		for _, n := range missed {
			w.cohortOf[n.ID] = &first
		}
		for _, g := range k.at {
			w.holders[g] = append(slices.Clip(w.holders[g]), &first)
		}
		w.forget(k.at, k.to)
		w.cohorts, w.movers = append(w.cohorts, &first), append(w.movers, &first)
		return true
	}
	return false
}

// hold makes interfaces those of the cohort.
func (c *cohort) hold(interfaces []*cloud.Interface) {
	var private, public []netip.Addr
	for _, n := range interfaces {
		private, public = append(private, n.PrivateIPs...), append(public, n.PublicIPs...)
	}
	c.interfaces, c.addrs = interfaces, addrset.Of(private...)
	c.all = c.addrs.Union(addrset.Of(public...))
}

// triedJoins bounds how many cohorts are looked at to find the one whose joining helps most.
const triedJoins = 256

func sortedStrings(s []string) []string {
	slices.Sort(s)
	return s
}

// bridge lets interfaces move by a detour: with rules that are there as long as others move, or without some.
func (w *worklist) bridge() bool {
	for _, k := range w.movers {
		w.stop()
		d := w.detour(k)
		if d == nil {
			continue
		}
		d.emit(w)
		for group, rules := range d.temp {
			if w.temp[group] == nil {
				w.temp[group] = map[cloud.Rule]bool{}
			}
			maps.Copy(w.temp[group], rules)
		}
		w.movers = slices.DeleteFunc(w.movers, func(o *cohort) bool { return o == k })
		w.depart([]*cohort{k})
		return true
	}
	return false
}

// detour is what makes the move of a cohort clean, by group.
type detour struct {
	// temp are rules that are there as long as others move: where somebody would miss the cohort, his group also names a group that
	// it holds on the other side of its move.
	temp map[string]map[cloud.Rule]bool
	// withheld are rules of groups that nobody holds yet, by which the cohort would admit those of itself that have not moved yet.
	// They come back once that is over.
	withheld map[string]map[cloud.Rule]bool
	// relieved are rules that go in the end, and that give something away by the move; others are in their place meanwhile.
	relieved map[string]map[cloud.Rule]bool

	edits  []ruleEdit              // in their order
	before map[string][]cloud.Rule // rules of the groups that it changes
}

// ruleEdit adds or removes one rule.
type ruleEdit struct {
	kind  cloud.OpKind
	group string
	rule  cloud.Rule
}

func (d *detour) set(w *worklist, into map[string]map[cloud.Rule]bool, group string, r cloud.Rule, rules []cloud.Rule) {
	if _, ok := d.before[group]; !ok {
		d.before[group] = w.rules[group]
	}
	if into[group] == nil {
		into[group] = map[cloud.Rule]bool{}
	}
	into[group][r] = true
	kind := cloud.OpAddRules
	if len(rules) < len(w.rules[group]) {
		kind = cloud.OpRemoveRules
	}
	d.edits = append(d.edits, ruleEdit{kind, group, r})
	w.setRules(group, rules)
}

// emit makes the edits, what comes one after the other and is of one kind at once.
func (d *detour) emit(w *worklist) {
	for i := 0; i < len(d.edits); {
		kind := d.edits[i].kind
		rules := map[string][]cloud.Rule{}
		for ; i < len(d.edits) && d.edits[i].kind == kind; i++ {
			rules[d.edits[i].group] = append(rules[d.edits[i].group], d.edits[i].rule)
		}
		w.next()
		for _, group := range slices.Sorted(maps.Keys(rules)) {
			w.emit(w.groups[group].NetworkID, w.named(group, cloud.Op{Kind: kind, Rules: w.outward(sorted(rules[group]), group)}))
		}
	}
}

// detour looks for one. If it finds one its rules are there, and the cohort is under way; else it returns nil.
func (w *worklist) detour(k *cohort) *detour {
	d := &detour{temp: map[string]map[cloud.Rule]bool{}, withheld: map[string]map[cloud.Rule]bool{}, relieved: map[string]map[cloud.Rule]bool{},
		before: map[string][]cloud.Rule{}}
	for {
		v := w.checkMove(k, k.to)
		if v == nil {
			if len(d.before) == 0 {
				w.revert(k) // it needs no detour
				return nil
			}
			return d
		}
		if !w.remedy(d, k, v) {
			for group, rules := range d.before {
				w.setRules(group, rules)
			}
			return nil
		}
	}
}

// remedy does something about what is wrong with the move of a cohort. It reports whether there is anything.
func (w *worklist) remedy(d *detour, k *cohort, v *Violation) bool {
	switch {
	case v.Kind == Gap:
		for _, c := range w.bridges(k, v) {
			known := slices.Contains(w.rules[c.group], c.rule) || d.withheld[c.group][c.rule] || d.relieved[c.group][c.rule]
			if !known && w.checkTemp(c.group, c.rule) == nil {
				d.set(w, d.temp, c.group, c.rule, sorted(append(slices.Clone(w.rules[c.group]), c.rule)))
				return true
			}
		}
	case v.Kind == Leak && v.Rule.Direction != "":
		groups := k.to
		if v.Group != "" {
			groups = []string{v.Group}
		}
		for _, g := range groups {
			if !slices.Contains(w.rules[g], v.Rule) || !w.Ours(w.groups[g]) || w.temp[g][v.Rule] || d.temp[g][v.Rule] {
				continue
			}
			if !slices.Contains(w.wanted[g], v.Rule) {
				return w.relieve(d, g, v.Rule)
			}
			if len(w.holders[g]) == 0 {
				d.set(w, d.withheld, g, v.Rule, missing(w.rules[g], []cloud.Rule{v.Rule}))
				return true
			}
		}
	}
	return false
}

// relieve finds rules in the place of one that goes: they name those who would be missed without it by what they hold now.
func (w *worklist) relieve(d *detour, group string, r cloud.Rule) bool {
	for {
		rest := missing(w.rules[group], []cloud.Rule{r})
		gap := w.checkRules(group, rest)
		if gap == nil {
			d.set(w, d.relieved, group, r, rest)
			return true
		}
		found := false
		for _, c := range w.bridges(nil, gap) {
			if c.group == group && !slices.Contains(w.rules[group], c.rule) && w.checkTemp(group, c.rule) == nil {
				d.set(w, d.temp, group, c.rule, sorted(append(slices.Clone(w.rules[group]), c.rule)))
				found = true
				break
			}
		}
		if !found {
			return false
		}
	}
}

type bridging struct {
	group string
	rule  cloud.Rule
}

// bridges are rules that could close a gap that the move of a cohort makes, or, if that is nil, the removal of a rule.
func (w *worklist) bridges(k *cohort, v *Violation) (out []bridging) {
	y := v.holder
	// The groups by which the missed interfaces can be named: those that the mover will hold, or for the mover's own rules
	// those that the others hold now.
	var names []string
	holding := y.at
	if y == k || k == nil {
		if k != nil {
			holding = k.to
		}
		for _, x := range w.cohorts {
			if x.addrs.Overlaps(v.Addrs) && w.from.Reaches(y.network, x.network) {
				names = append(names, x.at...)
			}
		}
	} else {
		names = k.to
	}
	names = slices.Compact(sortedStrings(slices.Clone(names)))
	var peers []cloud.Peer
	for _, name := range names {
		p := cloud.Peer{GroupID: name}
		if addrs, _ := w.anyone(p, y.network); k != nil && y != k || addrs.Overlaps(v.Addrs) {
			peers = append(peers, p)
		}
	}
	if prefixes := v.Addrs.Prefixes(); len(prefixes) <= maxBridges {
		for _, p := range prefixes {
			peers = append(peers, cloud.Peer{CIDR: p})
		}
	}
	match, ok := matchOf(v.Service)
	if !ok {
		return nil
	}
	for _, h := range holding {
		if g := w.groups[h]; g == nil || !w.Ours(g) || !w.exists[h] {
			continue
		}
		for _, p := range peers {
			out = append(out, bridging{h, cloud.Rule{Direction: v.Direction, Match: match, Peer: p}})
		}
	}
	return out
}

// maxBridges is how many addresses are named for as long as others move.
const maxBridges = 16

// matchOf is how a rule says a service; false if it takes several.
func matchOf(s flow.Service) (cloud.Match, bool) {
	m := cloud.NewMatch(s.Protocol, int(s.From), int(s.To))
	if s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6 {
		m = cloud.NewMatch(s.Protocol, int(s.From>>8), int(s.To&0xff))
		switch {
		case s == flow.Whole(s.Protocol):
			m = cloud.NewMatch(s.Protocol, -1, -1)
		case s.To-s.From == 0xff:
			m.To = -1
		}
	}
	return m, flow.ServiceOf(m) == s
}

// discard deletes the groups of ours that are no longer wanted, once nobody holds them and no rule refers to them; none of some
// networks.
func (w *worklist) discard(spared map[string]bool) (done bool) {
	var free []string
	for _, id := range w.doomed {
		if w.exists[id] && len(w.holders[id]) == 0 && !spared[w.groups[id].NetworkID] {
			free = append(free, id)
		}
	}
	w.next()
	for _, id := range free {
		var loose []cloud.Rule
		for _, r := range w.rules[id] {
			if r.Peer.GroupID != "" && r.Peer.GroupID != id {
				loose = append(loose, r)
			}
		}
		if len(loose) > 0 {
			w.setRules(id, missing(w.rules[id], loose))
			w.emit(w.groups[id].NetworkID, w.named(id, cloud.Op{Kind: cloud.OpRemoveRules, Rules: w.outward(loose, id)}))
		}
	}
	w.next()
	for _, id := range free {
		if slices.ContainsFunc(w.referring(id), func(g string) bool { return g != id && w.exists[g] }) {
			continue
		}
		done = true
		w.exists[id], w.deleted[id] = false, true
		w.setRules(id, nil)
		w.emit(w.groups[id].NetworkID, w.named(id, cloud.Op{Kind: cloud.OpDeleteGroup}))
	}
	return done
}

// describe puts the descriptions of rules right that stay as they are.
func (w *worklist) describe() {
	described := func(r cloud.Rule) bool { return r.Description == w.Description }
	if !slices.ContainsFunc(w.From.Groups, func(g cloud.Group) bool { return w.Ours(&g) && slices.ContainsFunc(g.Rules, described) }) {
		return // the cloud seems to keep none
	}
	w.next()
	for i := range w.From.Groups {
		g := &w.From.Groups[i]
		var rules []cloud.Rule
		for _, r := range g.Rules {
			if w.Ours(g) && !described(r) && slices.Contains(w.wanted[g.ID], r.Key()) {
				rules = append(rules, r.Key())
			}
		}
		if len(rules) > 0 {
			w.emit(g.NetworkID, w.named(g.ID, cloud.Op{Kind: cloud.OpReplaceRules, Rules: w.outward(rules, g.ID), Replaced: rules}))
		}
	}
}

// settle writes what is to be remembered: on interfaces that are where they shall be, and, but for some networks, on groups and
// networks.
func (w *worklist) settle(left map[string]bool) {
	var there []*cloud.Interface
	for i := range w.From.Interfaces {
		n := &w.From.Interfaces[i]
		if k := w.cohortOf[n.ID]; slices.Equal(k.at, k.to) {
			there = append(there, n)
		}
	}
	w.next()
	w.tagInterfaces(cloud.OpTag, there)
	w.tagGroups(cloud.OpTag, left)
	w.tagNetworks(cloud.OpTag, func(key string) bool { return key != w.Mark }, left)
	w.next()
	w.tagInterfaces(cloud.OpUntag, there)
	w.tagGroups(cloud.OpUntag, left)
	w.tagNetworks(cloud.OpUntag, func(key string) bool { return key != w.Mark }, left)
	w.next()
	w.tagNetworks(cloud.OpTag, w.isMark, left)
	w.tagNetworks(cloud.OpUntag, w.isMark, left)
}

// tagged is one object whose tags change.
type tagged struct {
	id, network string
	is, want    map[string]string
}

func (w *worklist) tagInterfaces(kind cloud.OpKind, interfaces []*cloud.Interface) {
	if len(interfaces) == 0 {
		return
	}
	var out []tagged
	for _, n := range interfaces {
		i, ok := slices.BinarySearchFunc(w.To.Interfaces, n.ID, func(n cloud.Interface, id string) int { return strings.Compare(n.ID, id) })
		if ok {
			out = append(out, tagged{n.ID, n.NetworkID, n.Tags, w.To.Interfaces[i].Tags})
		}
	}
	w.tag(kind, out)
}

func (w *worklist) tagGroups(kind cloud.OpKind, left map[string]bool) {
	var out []tagged
	for i := range w.From.Groups {
		g := &w.From.Groups[i]
		if _, ok := w.wanted[g.ID]; ok && !left[g.NetworkID] {
			out = append(out, tagged{g.ID, g.NetworkID, g.Tags, w.toGroup(g.ID).Tags})
		}
	}
	w.tag(kind, out)
}

func (w *worklist) toGroup(id string) *cloud.Group {
	i, _ := slices.BinarySearchFunc(w.To.Groups, id, func(g cloud.Group, id string) int { return strings.Compare(g.ID, id) })
	return &w.To.Groups[i]
}

func (w *worklist) isMark(key string) bool { return key == w.Mark }

// unmark removes the marks that will be others, if there is anything to do before.
func (w *worklist) unmark() {
	var out []tagged
	left := w.unfinished()
	for i := range w.From.Networks {
		is := &w.From.Networks[i]
		if mark, ok := is.Tags[w.Mark]; ok && left[is.ID] && mark != w.To.Networks[i].Tags[w.Mark] {
			want := maps.Clone(w.present(is.ID, is.Tags))
			delete(want, w.Mark)
			out = append(out, tagged{is.ID, is.ID, is.Tags, want})
		}
	}
	w.tag(cloud.OpUntag, out)
}

// tagNetworks writes the tags of networks with some keys, but for some networks.
func (w *worklist) tagNetworks(kind cloud.OpKind, which func(key string) bool, left map[string]bool) {
	var out []tagged
	for i := range w.From.Networks {
		is := &w.From.Networks[i]
		if left[is.ID] {
			continue
		}
		want := maps.Clone(w.present(is.ID, is.Tags))
		maps.DeleteFunc(want, func(k, _ string) bool { return which(k) })
		for k, v := range w.To.Networks[i].Tags {
			if which(k) {
				want[k] = v
			}
		}
		out = append(out, tagged{is.ID, is.ID, is.Tags, want})
	}
	w.tag(kind, out)
}

// present are the tags of an object as the steps so far leave them.
func (w *worklist) present(id string, observed map[string]string) map[string]string {
	if _, known := w.tags[id]; !known {
		w.tags[id] = maps.Clone(observed)
		if observed == nil {
			w.tags[id] = map[string]string{}
		}
	}
	return w.tags[id]
}

// tag sets or removes tags, many of the same by one call; what was done already is not done again.
func (w *worklist) tag(kind cloud.OpKind, objects []tagged) {
	at := map[string]int{}
	for _, o := range objects {
		is, tags := w.present(o.id, o.is), map[string]string{}
		if kind == cloud.OpTag {
			for k, v := range o.want {
				if old, ok := is[k]; !ok || old != v {
					tags[k], is[k] = v, v
				}
			}
			for k, v := range is {
				if _, ok := o.want[k]; len(tags) > 0 && !ok && v != "" && w.Joint != "" && strings.HasPrefix(k, w.Joint) {
					tags[k], is[k] = "", ""
				}
			}
		} else {
			for k, v := range is {
				if _, ok := o.want[k]; !ok {
					tags[k] = v
				}
			}
			for k := range tags {
				delete(is, k)
			}
		}
		if len(tags) == 0 {
			continue
		}
		key := fmt.Sprint(o.network, tags) // maps are printed in order
		if i, ok := at[key]; ok && len(w.steps[i].Op.Others)+1 < w.Batch {
			w.steps[i].Op.Others = append(w.steps[i].Op.Others, o.id)
			continue
		}
		at[key] = len(w.steps)
		w.emit(o.network, cloud.Op{Kind: kind, Target: o.id, Tags: tags})
	}
}
