package explain

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// The states of a policy that is not, or not yet, enforced as it stands.
const (
	// StateRefused: it does not fit, or cannot be said, and is left out.
	StateRefused = "Refused"
	// StateKept: the same, and what was enforced of an earlier version stays.
	StateKept = "Kept"
	// StatePending: it is being enforced.
	StatePending = "Pending"
	// StateSuspended: the mode of the VM does not let policies be enforced.
	StateSuspended = "Suspended"
)

// unenforced are the policies of a list that are not enforced on the VM of an entity as they stand,
// as the status of the VM tells; all of them if the list is nil. Filter is what the interface
// holds, or nil.
func (c *Computation) unenforced(ref policy.EntityRef, list []policy.PolicyRef, f *trace.Filter) []analysis.PolicyState {
	vm := c.vmObject(ref)
	if vm == nil {
		return nil
	}
	var out []analysis.PolicyState
	for _, p := range vm.Status.Policies {
		named := analysis.Policy{Type: p.Kind, Namespace: p.Namespace, Name: p.Name}
		if list != nil && !slices.ContainsFunc(list, func(r policy.PolicyRef) bool { return explainPolicy(r) == named }) {
			continue
		}
		state := analysis.PolicyState{Policy: named, Why: p.Message}
		switch p.Phase {
		case cloudv1alpha1.PolicyPhaseFailed:
			state.State = StateRefused
			if f != nil && inForce(f.Held, string(p.UID)) {
				state.State = StateKept
			}
		case cloudv1alpha1.PolicyPhaseSuspended:
			state.State = StateSuspended
		case cloudv1alpha1.PolicyPhaseRealizing:
			state.State = StatePending
		default:
			continue
		}
		out = append(out, state)
	}
	return out
}

// concerned are the policies that a decision comes from.
func concerned(d evaluate.Decision) []policy.PolicyRef {
	out := slices.Clone(d.IsolatedBy)
	if d.By != nil {
		out = append(out, d.By.Policy)
	}
	for _, r := range d.Passed {
		out = append(out, r.Policy)
	}
	if out == nil {
		out = []policy.PolicyRef{}
	}
	return out
}

// inForce reports whether the tags of groups say that a policy, by its UID, is in force on their
// members, maybe in an earlier form. A tag holds names of eight characters, each the beginning of a
// hash.
func inForce(groups []*cloud.Group, uid string) bool {
	const size = 8
	sum := sha256.Sum256([]byte(uid))
	name := base64.URLEncoding.EncodeToString(sum[:size/4*3])
	for _, g := range groups {
		value, ok := g.Tags[cloud.TagPolicies]
		for i := 1; ok; i++ {
			for part := range slices.Chunk([]byte(value), size) {
				if string(part) == name {
					return true
				}
			}
			value, ok = g.Tags[cloud.TagPolicies+"."+strconv.Itoa(i)]
		}
	}
	return false
}

func groupOf(g *cloud.Group) analysis.Group {
	return analysis.Group{ID: g.ID, Name: g.Name, Ours: g.Tags[cloud.TagKind] != "" && g.OwnedBy(g.Tags[cloud.TagCluster])}
}

func groupsOf(f *trace.Filter) *analysis.Groups {
	out := &analysis.Groups{Interface: f.Interface.ID, Outcome: outcomeDrop}
	switch {
	case f.Allowed:
		out.Outcome = outcomeAllow
	case f.Uncertain:
		out.Outcome = outcomeUnknown
	}
	if f.Rule != nil {
		g := groupOf(f.Group)
		out.Group, out.Rule = &g, f.Rule.String()
	}
	for _, g := range f.Held {
		out.Held = append(out.Held, groupOf(g))
	}
	return out
}

// decide puts together what policies want at one end, d, what the account says, and what the groups
// there do: now and native are nil where no interface is known. The result says what is so; what is
// wanted besides stands in IfEnforced.
func (c *Computation) decide(at end, to analysis.End, d evaluate.Decision, b byAccount, now, native *trace.Filter) *analysis.Decision {
	wanted := c.wanted(at, to, d, b, native)
	if d.Exempt != "" {
		return wanted
	}
	states := c.unenforced(at.ref, concerned(d), now)
	if b.suspended != "" {
		states = slices.DeleteFunc(states, func(s analysis.PolicyState) bool { return s.State == StateSuspended })
	}
	if now == nil {
		return blind(wanted, b, states)
	}
	today := groupsOf(now)
	if !at.isCloudVM() { // nobody enforces policies by groups there
		wanted.Groups = today
		return wanted
	}
	same := today.Outcome == wanted.Outcome || today.Outcome == outcomeDrop && wanted.Outcome == outcomeReject
	onlyPending := !slices.ContainsFunc(states, func(s analysis.PolicyState) bool { return s.State != StatePending })
	if b.suspended == "" && same && onlyPending {
		wanted.Groups, wanted.Policies = today, states
		return wanted
	}
	out := &analysis.Decision{
		Outcome:     today.Outcome,
		Default:     DefaultGroups,
		Groups:      today,
		NotEnforced: b.suspended,
		Policies:    states,
		IfEnforced:  wanted,
		Possible:    possible(today.Outcome),
	}
	if b.suspended == "" && len(states) == 0 {
		out.Policies = c.unenforced(at.ref, nil, now)
		switch vm := c.vmObject(at.ref); {
		case len(out.Policies) > 0:
		case vm != nil && len(vm.Status.Policies) == 0 && slices.ContainsFunc(today.Held, func(g analysis.Group) bool { return g.Ours }):
			out.Differs = DiffersUnreleased
		default:
			out.Differs = DiffersChanged
		}
	}
	return out
}

// behind adds to what is decided at a Pod, a Node, a host or an address, own, what the groups of
// the interface decide through which its packets pass, and the policies of the machine that this
// belongs to. Nothing does about what does not leave the machine.
func (x *answering) behind(own *analysis.Decision, at end, direction cloud.Direction, packet evaluate.Flow, now, native *trace.Filter) *analysis.Decision {
	if at.isCloudVM() || own.Groups == nil || own.Outcome != outcomeAllow {
		return own
	}
	ref, owned := x.c.clouds.OwnerOf(now.Interface.ID)
	if !owned || at.ref == (policy.EntityRef{}) {
		out := *own
		if o := own.Groups.Outcome; o != outcomeAllow {
			out = analysis.Decision{Outcome: o, Default: DefaultGroups, Groups: own.Groups, Possible: possible(o)}
		}
		if released := groupsOf(native); released.Outcome != own.Groups.Outcome {
			out.IfEnforced = &analysis.Decision{Outcome: released.Outcome, Default: DefaultNative, Native: released, Possible: possible(released.Outcome)}
		}
		return &out
	}
	machine := x.c.endOf(x.c.Ends[ref])
	var d evaluate.Decision
	var b byAccount
	if direction == cloud.Egress {
		packet.Source.EntityRef, packet.Source.Semantics = machine.at, machine.semantics()
		d = x.evaluator.Evaluate(packet).Egress
		b = x.c.accountView().accountOf(machine, direction, packet, packet.Destination.Addr, d)
	} else {
		packet.Destination.EntityRef, packet.Destination.Semantics = machine.at, machine.semantics()
		d = x.evaluator.Evaluate(packet).Ingress
		b = x.c.accountView().accountOf(machine, direction, packet, packet.Source.Addr, d)
	}
	outer := x.c.decide(machine, x.c.explainEnd(machine), d, b, now, native)
	switch {
	case outer.Outcome != outcomeAllow:
		return outer
	case ifEnforced(outer).Outcome != outcomeAllow:
		out := *own
		out.IfEnforced = ifEnforced(outer)
		return &out
	}
	return own
}

func possible(outcome string) []string {
	if outcome == outcomeUnknown {
		return []string{outcomeAllow, outcomeDrop}
	}
	return nil
}

// wanted is what is so at an end once everything is enforced.
func (c *Computation) wanted(at end, to analysis.End, d evaluate.Decision, b byAccount, native *trace.Filter) *analysis.Decision {
	if b.allowed() {
		return &analysis.Decision{Outcome: outcomeAllow, Failsafe: b.failsafe, HostFailsafe: b.host}
	}
	out := explainDecision(d, to)
	left := outcomeNative
	switch {
	case !at.isCloudVM() || d.Exempt != "":
		left = outcomeAllow
	case native != nil:
		groups := groupsOf(native)
		left = groups.Outcome
		if d.Outcome == evaluate.OutcomeNative || slices.Contains(d.Possible, evaluate.OutcomeNative) {
			out.Native = groups
		}
	}
	if out.Outcome == outcomeNative {
		out.Outcome, out.Possible = left, possible(left)
	}
	if i := slices.Index(out.Possible, outcomeNative); i >= 0 {
		list := slices.Delete(slices.Clone(out.Possible), i, i+1)
		if left == outcomeUnknown {
			list = append(list, outcomeAllow, outcomeDrop)
		} else {
			list = append(list, left)
		}
		slices.Sort(list)
		if out.Possible = slices.Compact(list); len(out.Possible) == 1 {
			out.Outcome, out.Possible = out.Possible[0], nil
		}
	}
	return out
}

// blind is what is so where the cloud was not read: statuses tell what is not enforced, and not
// what is in its place.
func blind(wanted *analysis.Decision, b byAccount, states []analysis.PolicyState) *analysis.Decision {
	if b.suspended == "" && len(states) == 0 {
		return wanted
	}
	out := &analysis.Decision{Outcome: outcomeNative, Default: DefaultNative, NotEnforced: b.suspended, Policies: states, IfEnforced: wanted}
	if b.suspended == "" && slices.ContainsFunc(states, func(s analysis.PolicyState) bool { return s.State == StatePending || s.State == StateKept }) {
		out.Outcome, out.Default, out.Possible = outcomeUnknown, "", []string{outcomeAllow, outcomeDrop}
	}
	return out
}
