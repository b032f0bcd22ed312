package plan

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
)

// Compute plans for an account: the operations that bring the cloud from what was observed to what the policies want, or a safe
// part of the way (Plan.Partial). What is wanted does not look at the way there, and the way is found by one checker.
func Compute(in Input, lower target.Lowerer) (out *Result) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case intent.Stopped{}:
			out = &Result{Plan: Plan{Account: in.Account}, Stopped: true}
		default:
			panic(r)
		}
	}()
	in.recall, in.effort, in.lacks = intent.NewRecall(), &intent.Effort{}, target.Lacks{}
	if in.ClusterID == "" {
		return &Result{
			Plan:     Plan{Account: in.Account},
			Refusals: []report.Refusal{{Message: "the controller has no cluster id, so it could not tell its own security groups from others"}},
		}
	}
	if !in.effort.Within(in.allowed().round, func() { out = in.plan(lower) }) {
		out = in.undecided(lower)
	}
	numberRefusals(in.lacks, out.Refusals)
	in.advise(out, lower)
	return out
}

// plan is Compute with marks in the messages about quotas.
func (in Input) plan(lower target.Lowerer) *Result {
	c := newPlanning(in, lower)
	revision := c.revision()
	out := &Result{Plan: Plan{Account: in.Account}}
	for _, s := range c.routes(revision) {
		steps, dirty, later := s.transit()
		out.Plan.Steps = append(out.Plan.Steps, steps...)
		out.Plan.Partial = out.Plan.Partial || later && len(steps) > 0
		out.add(report.Of(s.Target, dirty))
	}
	out.Policies = report.Tally(c.Policies, out.VMs)
	out.Protection = report.ProtectionOf(c.targets())
	out.sort()
	return out
}

// surveyEffort is the effort between two questions of a transition whether it is to go on.
const surveyEffort = 1000

// revision identifies the policies, whatever the members of their groups, and whom they cannot reach for reasons that have nothing
// to do with members: when that changes, policies come into force or go.
func (c *planning) revision() string {
	h := sha256.New()
	for _, p := range c.Policies {
		fmt.Fprintln(h, p.Ref, p.Stage, p.Tier, p.Priority, p.Problem)
		for _, r := range p.Rules {
			fmt.Fprintln(h, r.Index, r.Direction, r.Verdict, r.Services, r.Named, r.Groups, r.Blocks.Prefixes(), r.AppliedTo)
		}
	}
	fmt.Fprintln(h, c.in.Failsafe, c.in.Modes)
	for _, s := range c.regions {
		for _, n := range s.NICs {
			if n.Blocked != "" || n.Unproven != "" {
				fmt.Fprintln(h, s.Snap.Region, n.ID)
			}
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// route is the way of one region from what is to what is wanted.
type route struct {
	*regional
	change transition.Change
	survey *transition.Survey
	end    *cloud.Snapshot    // what is wanted when nobody waits any more
	held   map[string][2]bool // its conflicts within the region
	order  transition.Order
	found  bool // set if order is that of survey
}

// routes finds the ways of all regions. Where some of what is wanted has to wait for something else, also in another region, they
// lead to a state in between first.
func (c *planning) routes(revision string) []*route {
	var out []*route
	for _, s := range c.regions {
		s.Settle()
		r := &route{regional: s, change: transition.Change{
			From: s.Whole, Limits: s.Limits, Ours: s.Owned, Extended: s.Extended, Relabels: s.relabels(revision),
			Fits:   func(rules []cloud.Rule) bool { return s.Lower.Fits(rules, s.Quota()) },
			Stop:   func() { s.MayStop(); s.In.Effort.Spend(surveyEffort) },
			Urgent: map[string]bool{}, Apart: map[string]bool{}, First: []string{cloud.TagClaim}, Mark: s.mark(), Description: target.RuleDescription,
			Joint: cloud.TagFormer, Batch: s.load(),
		}}
		for _, st := range s.freeing() {
			r.change.Urgent[st.Op.Target] = true
		}
		out = append(out, r)
	}
	for again := true; again; {
		again = false
		holdBack(out, revision)
		for _, r := range out {
			if !r.found {
				r.holdRevision(&r.change)
				r.order, r.found = r.survey.Plan(), true
			}
			if len(r.order.Apart) == 0 {
				continue
			}
			for _, id := range r.order.Apart {
				r.change.Apart[id] = true
			}
			r.survey, r.order.Apart, again = nil, nil, true
		}
	}
	return out
}

// holdBack surveys regions, and has interfaces wait in a state in between where they have to.
func holdBack(routes []*route, revision string) {
	for again := true; again; {
		again = false
		for _, r := range routes {
			if r.survey == nil {
				r.change.To, r.change.Stable, r.change.Stay = r.goal(revision), r.stable(), r.Stays()
				if r.end == nil {
					r.end = r.change.To
				}
				if r.Between() {
					r.change.End = r.end
				}
				r.survey, r.found = transition.NewSurvey(r.change), false
				r.held = r.survey.Conflicts()
			}
		}
		for _, r := range routes {
			more := r.restrain(r.held)
			for _, o := range routes {
				if o != r {
					more = r.restrain(r.survey.Across(o.survey)) || more
				}
			}
			if more {
				r.Settle()
				r.survey, again = nil, true
			}
			if again {
				break
			}
		}
	}
}

// restrain keeps directions of interfaces from becoming wider. It reports whether that is new.
func (s *regional) restrain(held map[string][2]bool) (more bool) {
	for _, n := range s.NICs {
		if was, is := s.Restrict[n], held[n.ID]; is[0] && !was[0] || is[1] && !was[1] {
			s.Restrict[n], more = [2]bool{was[0] || is[0], was[1] || is[1]}, true
		}
	}
	return more
}

// transit turns the way of a region into steps.
func (r *route) transit() (steps []Step, dirty map[string]bool, later bool) {
	s, order := r.regional, r.order
	e := &emitter{regional: s, dirty: map[string]bool{}}
	byID := s.byID()
	moving := map[string]bool{} // networks
	for _, st := range order.Steps {
		e.stage = st.Stage
		was := e.dirty[st.Op.Target]
		e.add(st.Network, st.Op)
		e.explain(st, byID)
		switch st.Op.Kind {
		case cloud.OpTag, cloud.OpUntag:
			s.sign(&e.steps[len(e.steps)-1].Op, byID)
		case cloud.OpReplaceRules:
			if !describes(st.Op) {
				moving[st.Network] = true
				continue
			}
			e.dirty[st.Op.Target] = was // nobody has to wait for it
		default:
			moving[st.Network] = true
		}
	}
	if len(moving) == 0 {
		s.blocked(order.Blocked)
	}
	return e.steps, e.dirty, len(s.Restrict) > 0 || len(order.Blocked) > 0
}

// describes reports whether an operation changes nothing but the descriptions of rules.
func describes(op cloud.Op) bool {
	return op.Kind == cloud.OpReplaceRules && slices.EqualFunc(op.Rules, op.Replaced, cloud.Rule.Same)
}

// stable are the groups that stand for the same class now and in the end.
func (s *regional) stable() map[string]bool {
	out := map[string]bool{}
	for _, g := range s.AllGroups() {
		switch {
		case g.Existing == nil:
			out[model.PlannedGroupID+g.Class.Network.ID+"/"+g.Name] = true
		case g.Existing.Tags[cloud.TagClass] == g.Class.Hash && g.Existing.Tags[cloud.TagKind] == g.Kind():
			out[g.Existing.ID] = true
		}
	}
	return out
}

// holdRevision keeps the policies from being said to be in force while some of them wait.
func (s *regional) holdRevision(change *transition.Change) {
	if len(s.Restrict) > 0 {
		for i := range change.To.Networks {
			if n := &change.To.Networks[i]; !s.unmarked(n.ID) {
				delete(n.Tags, change.Mark)
			}
		}
	}
}

// unmarked reports whether the mark of a network stays as it is, because the cloud refuses to change it.
func (s *regional) unmarked(network string) bool {
	return s.plan.in.Unmarked[intent.NetworkKey{Region: s.Snap.Region, ID: network}]
}

// mark is the key of the tag of networks that identifies the policies of the account that are in force there.
func (s *regional) mark() string { return cloud.TagRevision + "." + intent.Shortened(s.In.Account) }

// explain says why the last step is made.
func (e *emitter) explain(st transition.Step, byID map[string]*target.NIC) {
	step := &e.steps[len(e.steps)-1]
	step.Urgent = st.Urgent
	key := st.Op.Target
	if key == "" {
		key = "+" + st.Op.Group.Name
	}
	switch st.Op.Kind {
	case cloud.OpCreateGroup:
		if g := e.ByKey[key]; g != nil {
			step.Op.Reason = fmt.Sprintf("%s class, interfaces: %d", strings.ToLower(string(g.Class.State)), len(g.Class.NICs))
			step.Policies = e.policiesOf(g.Class)
		}
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		if describes(st.Op) {
			step.Op.Reason = "only their descriptions"
		}
		if g := e.ByKey[key]; g != nil {
			e.becauseOfRules(g.Class, st.Op.Rules)
		}
	case cloud.OpDeleteGroup:
		step.Op.Reason = "no class needs it"
	case cloud.OpTag, cloud.OpUntag:
		step.Op.Reason = tagReason(st.Op)
	case cloud.OpSetInterfaceGroups:
		if n := byID[key]; n != nil {
			step.Op.Reason = e.purpose(n)
			step.Policies = e.policiesOf(n.Class)
		}
	}
}

// relabels reports whether the policies in force everywhere are those that are wanted.
func (s *regional) relabels(revision string) bool {
	if len(s.Unknown) > 0 { // what is kept for the sake of the unknown is found out step by step
		return false
	}
	concerned := map[string]bool{}
	for _, c := range s.Classes {
		concerned[c.Network.ID] = true
	}
	for i := range s.Snap.Groups {
		if g := &s.Snap.Groups[i]; s.Owned(g) {
			concerned[g.NetworkID] = true
		}
	}
	for i := range s.Snap.Networks {
		if n := &s.Snap.Networks[i]; concerned[n.ID] && (n.Tags[s.mark()] != revision || s.unmarked(n.ID)) {
			return false
		}
	}
	return true
}

// blocked says of interfaces for which there is no clean order that they stay as they are.
func (s *regional) blocked(all []transition.Violation) {
	why := map[string]string{}
	for _, v := range all {
		for _, id := range slices.Concat(v.Interfaces, v.Holders) {
			if why[id] == "" {
				why[id] = blockedWords(v)
			}
		}
	}
	clear(s.Waiting)
	for _, n := range s.NICs {
		if why[n.ID] == "" && s.Restrict[n] != [2]bool{} {
			why[n.ID] = "it and its peers change in opposite flow.Directions(), and there is no room for the state in between"
		}
		if why[n.ID] != "" && s.Frozen[n] == "" {
			s.Frozen[n] = why[n.ID]
		}
		delete(s.Restrict, n)
	}
}

// blockedWords says why an edit is blocked.
func blockedWords(v transition.Violation) string {
	who := strings.Join(v.Holders, ", ")
	what := fmt.Sprintf("%s %s of %s with %s", v.Direction, v.Service, who, addrWords(v.Addrs))
	switch {
	case v.Kind == transition.Leak:
		return "no order of the changes keeps " + what + " closed, which is allowed neither before nor after"
	case v.Kind == transition.Gap:
		return "no order of the changes keeps " + what + " open, which is allowed before and after; a free slot for groups on the interfaces that move would do"
	case len(v.Interfaces) > 0 && v.Needed > 0:
		return fmt.Sprintf("the change needs %s on an interface for a moment, and the quota is %d", count(v.Needed, "group"), v.Available)
	case v.Rule.Direction != "":
		return fmt.Sprintf("the group %s has no room for the old and the new rules together: the change needs %s for a moment, and the quota is %d",
			v.Group, count(v.Needed, "rule"), v.Available)
	case v.Needed > 0:
		return fmt.Sprintf("the change needs %s in the region for a moment, and the quota is %d", count(v.Needed, "group"), v.Available)
	}
	return "it waits for a group that is not there yet"
}

// addrWords names the first few of some addresses.
func addrWords(set addrset.Set) string {
	const most = 3
	var out []string
	for _, p := range set.Prefixes() {
		if len(out) == most {
			return strings.Join(out, ", ") + " and others"
		}
		out = append(out, p.String())
	}
	if len(out) == 0 {
		return "peers that are not known here"
	}
	return strings.Join(out, ", ")
}

// goal is the region as it shall be.
func (s *regional) goal(revision string) *cloud.Snapshot {
	to := *s.Snap
	to.Groups, to.Interfaces, to.Networks = nil, slices.Clone(s.Snap.Interfaces), slices.Clone(s.Snap.Networks)
	id := func(network, key string) string {
		if name, ok := strings.CutPrefix(key, "+"); ok {
			return model.PlannedGroupID + network + "/" + name
		}
		return key
	}
	e := &emitter{regional: s}
	needed := e.stillNeeded()
	busy, own := map[string]bool{}, map[string]bool{} // where groups of the controller, and of the account, stay
	for i := range s.Snap.Groups {
		g := s.Snap.Groups[i]
		own[g.NetworkID] = own[g.NetworkID] || s.Ours(&g) && !s.Owned(&g)
		switch wanted := s.ByKey[g.ID]; {
		case !s.Owned(&g):
			busy[g.NetworkID] = busy[g.NetworkID] || g.OwnedBy(s.In.ClusterID)
			g.Rules = slices.Concat(g.Rules, s.outward(s.Dependents.Twins[g.ID], g.NetworkID))
		case wanted != nil:
			g.Rules = s.goalRules(wanted)
			g.Tags = s.goalTags(wanted, g.Tags)
			busy[g.NetworkID] = true
		case !needed[g.ID] && s.Networks[g.NetworkID] != nil && s.Networks[g.NetworkID].Foreign == "":
			continue
		default: // somebody else holds it or refers to it
			busy[g.NetworkID], own[g.NetworkID] = true, true
			if n := s.Networks[g.NetworkID]; len(s.WantHeld[g.ID]) == 0 && n != nil && n.Foreign == "" {
				g.Rules = nil
			}
		}
		to.Groups = append(to.Groups, g)
	}
	for _, g := range s.AllGroups() {
		busy[g.Class.Network.ID] = true
		if g.Existing != nil {
			continue
		}
		to.Groups = append(to.Groups, cloud.Group{
			ID: id(g.Class.Network.ID, g.Key), Name: g.Name, NetworkID: g.Class.Network.ID, OwnerID: s.Snap.OwnerID,
			Description: "Nephele: one class of interfaces of the account " + s.In.Account, Rules: s.goalRules(g), Tags: s.goalTags(g, nil),
		})
	}
	slices.SortFunc(to.Groups, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	byID := s.byID()
	for i := range to.Interfaces {
		n := byID[to.Interfaces[i].ID]
		if n == nil {
			continue
		}
		groups := make([]string, len(n.Target))
		for k, key := range n.Target {
			groups[k] = id(n.NetworkID, key)
		}
		to.Interfaces[i].GroupIDs = slices.Sorted(slices.Values(groups))
		to.Interfaces[i].Tags = s.goalInterfaceTags(n)
	}
	for i := range to.Networks {
		n := &to.Networks[i]
		n.Tags = maps.Clone(n.Tags)
		if n.Tags == nil {
			n.Tags = map[string]string{}
		}
		classes := slices.ContainsFunc(s.Classes, func(c *target.Class) bool { return c.Network.ID == n.ID })
		switch {
		case classes:
			n.Tags[cloud.TagClaim] = s.In.ClusterID
		case !busy[n.ID] && n.Tags[cloud.TagClaim] == s.In.ClusterID:
			delete(n.Tags, cloud.TagClaim)
		}
		switch {
		case s.unmarked(n.ID):
		case classes:
			n.Tags[s.mark()] = revision
		case !own[n.ID] && s.Networks[n.ID].Foreign == "":
			delete(n.Tags, s.mark())
		}
	}
	return &to
}

func (s *regional) goalRules(g *target.Group) []cloud.Rule {
	out := s.outward(g.Rules, g.Class.Network.ID)
	for i := range out {
		out[i].Description = target.RuleDescription
	}
	slices.SortFunc(out, cloud.Rule.Compare)
	return out
}

// outward names the groups that are to be created as the wanted state does.
func (s *regional) outward(rules []cloud.Rule, network string) []cloud.Rule {
	out := slices.Clone(rules)
	for i := range out {
		if name := out[i].Peer.GroupName; name != "" {
			network := network
			if o := s.ByKey["+"+name]; o != nil {
				network = o.Class.Network.ID
			}
			out[i].Peer = cloud.Peer{GroupID: model.PlannedGroupID + network + "/" + name}
		}
	}
	return out
}

func (s *regional) goalTags(g *target.Group, is map[string]string) map[string]string {
	kind, out := g.Kind(), map[string]string{}
	for k, v := range is {
		if !strings.HasPrefix(k, cloud.TagPolicies) {
			out[k] = v
		}
	}
	if g.Existing == nil {
		out[cloud.TagCluster], out[cloud.TagKind], out[cloud.TagAccount], out[cloud.TagClass] = s.In.ClusterID, kind, s.In.Account, g.Class.Hash
	}
	if g == g.Class.Groups[0] && !g.Class.Gathers {
		maps.Copy(out, s.Enforced(g.Class).Tags())
	}
	return out
}

// goalInterfaceTags are the tags of an interface as they shall be. A signature is not known before it is known which interfaces are
// tagged by one call; see sign.
func (s *regional) goalInterfaceTags(n *target.NIC) map[string]string {
	out := maps.Clone(n.Tags)
	if out == nil {
		out = map[string]string{}
	}
	_, signed := n.Tags[cloud.TagSignature]
	switch {
	case n.Alien != "" || n.Network.Foreign != "" || n.Unproven != "" || s.disputed(n):
	case n.State == target.Guarded && (n.Recorded == nil || n.Forged):
		forget(out)
		maps.Copy(out, intent.FormerTags(n.Former))
		s.toSign(n, out)
	case n.State == target.Guarded:
		if n.Unsigned && len(n.Tags)+s.SignatureSize(n.NIC) <= s.Limits.TagsPerResource {
			s.toSign(n, out)
		}
	case n.Recorded != nil || n.Forged || signed && s.In.Seal != nil:
		forget(out)
		delete(out, cloud.TagSignature)
	}
	return out
}

// forget removes the record of former groups from tags.
func forget(tags map[string]string) {
	for i := 0; ; i++ {
		if _, ok := tags[intent.FormerTagKey(i)]; !ok && i > 0 {
			return
		}
		delete(tags, intent.FormerTagKey(i))
	}
}

// disputed reports whether somebody has put an interface under control into other groups, which cannot
// be put right at present. The record is all that tells what are its own.
func (s *regional) disputed(n *target.NIC) bool {
	wanted := s.Refused[n] != "" || n.VM != nil && len(n.VM.Policies) > 0
	return n.State != target.Guarded && len(n.Ours) == 0 && n.Controlled() && s.Mode(n.NIC) == intent.Enforce && wanted
}

// purpose is why the groups of an interface are set.
func (e *emitter) purpose(n *target.NIC) string {
	switch {
	case n.State == target.Guarded && len(n.Ours) == 0 && e.Native(n):
		return "take over with the rules of its own groups, because these refer to groups that others give up"
	case n.State == target.Guarded && len(n.Ours) == 0:
		return "take over"
	case n.State == target.Guarded:
		return "change class"
	case len(n.Ours) > 0 && n.State == target.Untouched:
		return "give back"
	default:
		return ""
	}
}

// tagReason is why a tag is written or removed.
func tagReason(op cloud.Op) string {
	has := func(key string) bool {
		for k := range op.Tags {
			if strings.HasPrefix(k, key) {
				return true
			}
		}
		return false
	}
	switch tags := op.Kind == cloud.OpTag; {
	case tags && has(cloud.TagClaim):
		return "policies apply in this network"
	case has(cloud.TagClaim):
		return "nothing of ours is left in this network"
	case tags && has(cloud.TagFormer):
		return "remember its groups"
	case tags && has(cloud.TagSignature):
		return "sign what it remembers"
	case has(cloud.TagFormer):
		return "its groups are restored"
	case has(cloud.TagPolicies):
		return "which policies are in force"
	}
	return ""
}

func (s *regional) byID() map[string]*target.NIC {
	out := make(map[string]*target.NIC, len(s.NICs))
	for _, n := range s.NICs {
		out[n.ID] = n
	}
	return out
}

func (s *regional) keyOf(n *target.NIC) string { return s.Snap.Region + "/" + n.ID }
