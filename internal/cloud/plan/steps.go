package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// ruleDescription marks the rules of ours in the cloud's console; a rule of one of our groups that is not wanted and lacks it was made by
// somebody else.
const ruleDescription = "managed by Nephele"

// reasonLoosen is the reason of rule changes that only prepare the deletion of a group.
const reasonLoosen = "before it is deleted"

// progresses reports whether the plan does more than clear away what is not needed.
func (p Plan) progresses() bool {
	return slices.ContainsFunc(p.Steps, func(st Step) bool {
		switch st.Op.Kind {
		case cloud.OpSetInterfaceGroups, cloud.OpCreateGroup, cloud.OpAddRules, cloud.OpReplaceRules:
			return true
		case cloud.OpRemoveRules:
			return st.Op.Reason != reasonLoosen
		default:
			return false
		}
	})
}

// emitter turns the design of one region into steps.
type emitter struct {
	*regionState
	steps []Step
	// stage is that of the next step.
	stage int
	// dirty are the groups and interfaces that some step changes.
	dirty map[string]bool
	// freed are the IDs of the interfaces that have their groups back before anything else is done.
	freed map[string]bool
	// remembered are the tags by which groups of classes remember what is in force, as the steps so far leave them.
	remembered map[*class]map[string]string
	causes     causes
}

// emit returns the steps of the region in their order, and whether a further round is needed.
func (s *regionState) emit() (steps []Step, dirty map[string]bool, partial bool) {
	e := &emitter{regionState: s, dirty: map[string]bool{}, freed: map[string]bool{}, remembered: map[*class]map[string]string{}}
	e.noteLosses()
	e.free()
	e.claim()
	e.next()
	e.create()
	prepared := len(e.steps)
	e.editRules((*edit).early, "")
	e.bridge()
	e.editRules(func(ed *edit) ruleChange { return ruleChange{remove: ed.replaced} }, "said anew")
	e.remember(e.enforcedEarly)
	e.move()
	e.editRules(func(ed *edit) ruleChange { return ruleChange{add: ed.lateAdd} }, "")
	e.editRules(func(ed *edit) ruleChange { return ruleChange{remove: ed.lateRemove} }, "")
	e.describe()
	e.remember(e.enforced)
	e.discard()
	if e.foreignNames() {
		// Rules can refer to a new group of another network only by its ID, which is known in the next round.
		return e.steps[:prepared], e.dirty, true
	}
	return e.steps, e.dirty, len(s.restrict)+len(s.waiting)+len(s.hold)+len(s.stay)+len(s.unfit) > 0 || s.resigned
}

// next begins a stage: what comes from now on has to wait for everything that was added so far.
func (e *emitter) next() {
	if k := len(e.steps); k > 0 {
		e.stage = e.steps[k-1].Stage + 1
	}
}

func (e *emitter) add(network string, op cloud.Op) {
	e.steps = append(e.steps, Step{Scope: e.snap.Scope, Network: network, Op: op, Stage: e.stage})
	for _, id := range op.Subjects() {
		e.dirty[id] = true
	}
	if op.Target == "" {
		e.dirty["+"+op.Group.Name] = true
	}
}

// onGroup addresses an op to a wanted group.
func onGroup(g *group, op cloud.Op) cloud.Op {
	if g.existing != nil {
		op.Target = g.existing.ID
	}
	op.Group.NetworkID, op.Group.Name = g.class.network.ID, g.name
	return op
}

// free gives interfaces whose glass is broken their groups back, before any call that might fail or have to wait.
func (e *emitter) free() {
	e.steps = e.freeing()
	for _, s := range e.steps {
		e.freed[s.Op.Target], e.dirty[s.Op.Target] = true, true
	}
	e.next()
}

func (e *emitter) claim() {
	seen := map[string]bool{}
	for _, c := range e.classes {
		if n := c.network; !seen[n.ID] && n.Tags[cloud.TagClaim] != e.in.ClusterID {
			e.add(n.ID, cloud.Op{
				Kind: cloud.OpTag, Target: n.ID, Tags: map[string]string{cloud.TagClaim: e.in.ClusterID},
				Reason: "policies apply in this network",
			})
		}
		seen[c.network.ID] = true
	}
}

func (e *emitter) create() {
	for _, g := range e.allGroups() {
		if g.existing != nil {
			continue
		}
		kind := cloud.KindClass
		reason := fmt.Sprintf("%s class, interfaces: %d", strings.ToLower(string(g.class.state)), len(g.class.nics))
		switch {
		case g.class.gathers:
			kind, reason = kindMembers, fmt.Sprintf("one reference for many classes, interfaces: %d", len(g.class.nics))
		case g != g.class.groups[0]:
			kind = kindSpill
		}
		tags := map[string]string{
			cloud.TagCluster: e.in.ClusterID, cloud.TagKind: kind, cloud.TagAccount: e.in.Account, cloud.TagClass: g.class.hash,
		}
		if kind == cloud.KindClass {
			maps.Copy(tags, e.enforced(g.class).tags())
		}
		e.add(g.class.network.ID, cloud.Op{
			Kind: cloud.OpCreateGroup,
			Group: cloud.GroupSpec{
				NetworkID: g.class.network.ID, Name: g.name, Description: "Nephele: one class of interfaces of the account " + e.in.Account, Tags: tags,
			},
			Reason: reason,
		})
		e.because(e.policiesOf(g.class))
	}
}

// ruleChange is what happens to the rules of one group at one moment, in the order of the fields.
type ruleChange struct {
	remove, add []cloud.Rule
	swaps       []swap
}

func (e *emitter) editRules(pick func(*edit) ruleChange, reason string) {
	e.next()
	for _, g := range e.allGroups() {
		c := pick(e.edits[g])
		e.ruleOp(g, cloud.OpRemoveRules, c.remove, reason)
		e.ruleOp(g, cloud.OpAddRules, c.add, reason)
		e.swapOp(g, c.swaps)
	}
}

func (e *emitter) ruleOp(g *group, kind cloud.OpKind, rules []cloud.Rule, reason string) {
	if len(rules) == 0 {
		return
	}
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Description = ruleDescription
	}
	e.add(g.class.network.ID, onGroup(g, cloud.Op{Kind: kind, Rules: rules, Reason: reason}))
	e.becauseOfRules(g.class, rules)
}

// bridge adds the rules that groups need until they are deleted.
func (e *emitter) bridge() {
	e.next()
	for _, id := range sortedKeys(e.bridges) {
		e.ownRules(e.groups[id], cloud.OpAddRules, e.bridges[id], "while interfaces move")
	}
}

// ownRules changes rules of a group of ours that is not wanted any more.
func (e *emitter) ownRules(g *cloud.Group, kind cloud.OpKind, rules []cloud.Rule, reason string) {
	if len(rules) == 0 {
		return
	}
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Description = ruleDescription
	}
	e.add(g.NetworkID, cloud.Op{
		Kind: kind, Target: g.ID, Group: cloud.GroupSpec{NetworkID: g.NetworkID, Name: g.Name}, Rules: rules, Reason: reason,
	})
}

// discard deletes the groups of ours that are no longer wanted, and gives up the claim on networks where nothing is left.
func (e *emitter) discard() {
	e.next()
	doomed := map[string][]*cloud.Group{}
	blocked := e.stillNeeded()
	busy := map[string]bool{}
	for i := range e.snap.Groups {
		g := &e.snap.Groups[i]
		if !e.owned(g) {
			// The claim is the controller's, for all its accounts.
			busy[g.NetworkID] = busy[g.NetworkID] || g.OwnedBy(e.in.ClusterID)
			continue
		}
		if blocked[g.ID] && e.byKey[g.ID] == nil {
			e.ownRules(g, cloud.OpRemoveRules, e.bridges[g.ID], "all interfaces have moved")
			if len(e.wantHeld[g.ID]) == 0 && e.networks[g.NetworkID] != nil && e.networks[g.NetworkID].foreign == "" {
				e.vacate(g)
			}
		}
		if e.byKey[g.ID] != nil || blocked[g.ID] || e.networks[g.NetworkID] == nil || e.networks[g.NetworkID].foreign != "" {
			busy[g.NetworkID] = true
			continue
		}
		doomed[g.NetworkID] = append(doomed[g.NetworkID], g)
	}
	for _, c := range e.classes {
		busy[c.network.ID] = true
	}
	e.next()
	for _, id := range sortedKeys(doomed) {
		for _, g := range doomed[id] {
			e.loosen(g)
		}
	}
	e.next()
	for _, id := range sortedKeys(doomed) {
		for _, g := range doomed[id] {
			e.add(id, cloud.Op{
				Kind: cloud.OpDeleteGroup, Target: g.ID, Group: cloud.GroupSpec{NetworkID: id, Name: g.Name}, Reason: "no class needs it",
			})
		}
	}
	e.next()
	for _, id := range sortedKeys(e.networks) {
		if n := e.networks[id]; !busy[id] && n.Tags[cloud.TagClaim] == e.in.ClusterID && e.in.ClusterID != "" {
			e.add(id, cloud.Op{
				Kind: cloud.OpUntag, Target: id, Tags: map[string]string{cloud.TagClaim: e.in.ClusterID}, Reason: "nothing of ours is left in this network",
			})
		}
	}
}

// loosen removes the rules of a doomed group that refer to other groups, which could not be deleted otherwise.
func (e *emitter) loosen(g *cloud.Group) {
	var rules []cloud.Rule
	for _, r := range ruleKeys(g.Rules) {
		if r.Peer.GroupID != "" && r.Peer.GroupID != g.ID {
			rules = append(rules, r)
		}
	}
	e.ownRules(g, cloud.OpRemoveRules, rules, reasonLoosen)
}

// vacate removes all rules of a group that has to stay though nobody holds it: it need not keep others, and what is left of it is the same
// whatever it was used for last.
func (e *emitter) vacate(g *cloud.Group) {
	e.ownRules(g, cloud.OpRemoveRules, without(ruleKeys(g.Rules), e.bridges[g.ID]), reasonLoosen)
}

// stillNeeded returns the groups of ours that cannot be deleted: somebody else refers to them or holds them, or rules that stay do.
func (e *emitter) stillNeeded() map[string]bool {
	out := map[string]bool{}
	for i := range e.snap.Groups {
		g := &e.snap.Groups[i]
		if e.owned(g) {
			continue
		}
		for _, r := range g.Rules {
			if o := e.groups[r.Peer.GroupID]; o != nil && e.owned(o) {
				out[o.ID] = true
				if e.byKey[o.ID] == nil {
					e.note(o.ID, "it is no longer needed, but cannot be deleted while the group "+g.ID+" refers to it")
				}
			}
		}
	}
	for _, g := range e.allGroups() {
		for _, r := range g.rules {
			out[r.Peer.GroupID] = true
		}
	}
	for key, nics := range e.wantHeld {
		if g := e.groups[key]; g != nil && e.owned(g) && len(nics) > 0 {
			out[key] = true
			for _, r := range g.Rules {
				out[r.Peer.GroupID] = true
			}
			if e.byKey[key] == nil {
				e.note(key, "it is no longer needed, but cannot be deleted while the interface "+nics[0].ID+" holds it")
			}
		}
	}
	return out
}

// foreignNames reports whether a rule refers to a group that is still to be created in another network.
func (e *emitter) foreignNames() bool {
	for _, g := range e.allGroups() {
		for _, r := range g.rules {
			if o := e.byKey[groupKey(r.Peer)]; o != nil && o.existing == nil && o.class.network != g.class.network {
				return true
			}
		}
	}
	return false
}
