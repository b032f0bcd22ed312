package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// One round decides with what it sees: which groups are there to be used, which interfaces have room for a change, who has to wait for whom.
// The next one sees something else and may decide something else. What the first one opens may then be closed again, and a flow is open in
// between that neither the state before the change nor the one after it allows; or rounds undo what others do, for ever. So where
// anything is uncertain, the rounds to come are played on a copy of what was observed, before the first operation. What is refused in the
// end is refused at once; what would be opened too early is held back (see decision 0001); and where rounds go in a circle, they end.

const (
	// foresights bounds how often a plan is made again.
	foresights = 16
	// horizon bounds how many rounds are played.
	horizon = 16
)

// way is what becomes of an account when round after round is applied.
type way struct {
	// rounds are the computations on the states on the way, the present one first; the last one may only be looked at.
	rounds []*computation
	// ends is set if nothing is left to do in the last state; circle if it was on the way before, and then from is the first time.
	ends, circle bool
	from         int
}

// foresee makes the plan again where later rounds would not keep to it.
func (in Input) foresee(out *Result, c *computation, lower Lowerer) (*Result, *computation) {
	for range foresights {
		if out.Plan.Empty() || !c.uncertain(out) {
			return out, c
		}
		w := in.lookAhead(out, c, lower)
		mended, changed := in.mend(w)
		if !changed {
			if w.circle && w.from == 0 {
				return out.standStill(c), c
			}
			return out, c
		}
		in = mended
		out, c = computeAtOnce(in, lower)
		for _, pause := range []pausing{pauseTaken, pauseAll} {
			if len(in.restrain)+len(in.stay) > 0 && in.pause < pause && !out.Plan.progresses() {
				in.pause = pause // rather than wait for ever for somebody who has no room for his change
				out, c = computeAtOnce(in, lower)
			}
		}
	}
	return out, c
}

// uncertain reports whether later rounds may decide something else.
func (c *computation) uncertain(out *Result) bool {
	if out.Plan.Partial || len(out.Refusals)+len(c.in.Modes) > 0 {
		return true
	}
	return slices.ContainsFunc(c.regions, func(s *regionState) bool {
		return len(s.refused)+len(s.frozen)+len(s.gathered)+len(s.dispersed)+len(s.coarse) > 0
	})
}

// lookAhead plays the rounds to come.
func (in Input) lookAhead(out *Result, c *computation, lower Lowerer) way {
	w := way{rounds: []*computation{c}}
	seen := map[string]int{in.fingerprint(): 0}
	for at := in; len(w.rounds) < horizon; {
		at = at.applied(out.Plan)
		certain := !c.uncertain(out)
		c.shed()
		if certain {
			w.rounds, w.ends = append(w.rounds, at.observe(lower)), true
			return w
		}
		print := at.fingerprint()
		if k, known := seen[print]; known {
			w.circle, w.from = true, k
			return w
		}
		seen[print] = len(w.rounds)
		out, c = computeAtOnce(at, lower)
		w.rounds = append(w.rounds, c)
		if w.ends = out.Plan.Empty(); w.ends {
			return w
		}
	}
	return w
}

// shed forgets what is not needed to look back at a round.
func (c *computation) shed() {
	for _, s := range c.regions {
		s.memory, s.design, s.edits = memory{}, design{}, nil
		s.halfCache, s.meanings = nil, nil
		for _, n := range s.nics {
			n.class, n.target = nil, nil
		}
	}
}

// observe is a computation that decides nothing.
func (in Input) observe(lower Lowerer) *computation {
	c := &computation{in: in, lower: lower, observed: map[string]bool{}}
	c.observeRegions()
	return c
}

// mend returns the input with what the way shows to be wrong ruled out. It reports whether that is anything new.
func (in Input) mend(w way) (mended Input, changed bool) {
	first, last := w.rounds[0], w.rounds[len(w.rounds)-1:]
	if w.circle {
		last = w.rounds[w.from:]
	}
	refused, left := maps.Clone(in.refused), cloneLeft(in.left)
	if refused == nil {
		refused = map[string]string{}
	}
	known, knownLeft := first.refusals(), first.leftOut()
	held := first.held()
	for _, c := range last {
		for n, why := range c.refusals() {
			// One that is under control would be given back at once for it, whatever that opens.
			if known[n] == "" && refused[n] == "" && !held[n] {
				refused[n], changed = why, true
			}
		}
		for vm, policies := range c.leftOut() {
			for uid, why := range policies {
				if knownLeft[vm][uid] == "" && left[vm][uid] == "" {
					if left[vm] == nil {
						left[vm] = map[string]string{}
					}
					left[vm][uid], changed = why, true
				}
			}
		}
	}
	if changed {
		in.refused, in.left = refused, left
		in.restrain, in.stay, in.pause = nil, nil, pauseNobody // the change is another one now
		return in, true
	}
	if !w.ends || len(w.rounds) < 3 {
		return in, false
	}
	return in.holdBack(w)
}

func cloneLeft(left map[VMRef]map[string]string) map[VMRef]map[string]string {
	out := map[VMRef]map[string]string{}
	for vm, policies := range left {
		out[vm] = maps.Clone(policies)
	}
	return out
}

// refusals returns the interfaces that are not taken over, with the reason, except those that only wait. Keys are the region and the ID.
func (c *computation) refusals() map[string]string {
	out := map[string]string{}
	for _, s := range c.regions {
		for n, why := range s.refused {
			if !s.waiting[n] && !s.onTheWay(why) {
				out[s.keyOf(n)] = why
			}
		}
	}
	return out
}

// held returns the interfaces under control, by the same keys as refusals.
func (c *computation) held() map[string]bool {
	out := map[string]bool{}
	for _, s := range c.regions {
		for _, n := range s.nics {
			if n.taken() {
				out[s.keyOf(n)] = true
			}
		}
	}
	return out
}

func (s *regionState) keyOf(n *nic) string { return s.snap.Region + "/" + n.ID }

// leftOut returns the policies that are left out on VMs, by UID, with the reason.
func (c *computation) leftOut() map[VMRef]map[string]string {
	out := map[VMRef]map[string]string{}
	for _, s := range c.regions {
		for _, vm := range s.order {
			for p, why := range vm.left {
				if s.onTheWay(why) {
					continue
				}
				if out[vm.ref] == nil {
					out[vm.ref] = map[string]string{}
				}
				out[vm.ref][p.ref.UID] = why
			}
		}
	}
	return out
}

// passage is what changes on the way for interfaces that hold the same groups all along.
type passage struct {
	region *regionState // of the first round
	nics   []*nic
	addrs  addrset.Set
	opens  [2][]flow.Grant // by the first round
	closes [2][]flow.Grant // by later ones
}

// holdBack finds what the first round would open although the flow is closed in the end, by a later round or at the other half.
func (in Input) holdBack(w way) (held Input, changed bool) {
	all := w.passages()
	restrain, stay := maps.Clone(in.restrain), maps.Clone(in.stay)
	if restrain == nil {
		restrain, stay = map[string][2]bool{}, map[string]bool{}
	}
	for _, x := range all {
		for i := range directions {
			early := len(x.opens[i]) > 0 && (overlaps(x.opens[i], x.closes[i]) || slices.ContainsFunc(all, func(y *passage) bool {
				return (x != y || len(x.nics) > 1) && flow.Meet(x.opens[i], y.addrs, y.closes[1-i], x.addrs)
			}))
			if early {
				changed = x.holdBack(i, restrain, stay) || changed
			}
		}
	}
	in.restrain, in.stay = restrain, stay
	return in, changed
}

// holdBack keeps the interfaces from becoming wider in one direction. It reports whether that changes anything.
func (x *passage) holdBack(direction int, restrain map[string][2]bool, stay map[string]bool) (changed bool) {
	for _, n := range x.nics {
		if n.taken() || n.state == Guarded {
			if r := restrain[x.region.keyOf(n)]; !r[direction] {
				r[direction] = true
				restrain[x.region.keyOf(n)], changed = r, true
			}
			continue
		}
		for _, z := range x.region.nics { // others come back to groups that its rules refer to
			if key := x.region.keyOf(z); z.taken() && z.state != Guarded && !stay[key] {
				stay[key], changed = true, true
			}
		}
	}
	return changed
}

// passages returns the interfaces for which anything changes.
func (w way) passages() (out []*passage) {
	first, next, last := w.rounds[0], w.rounds[1], w.rounds[len(w.rounds)-1]
	for k, s := range first.regions {
		then, end := next.regions[k], last.regions[k]
		thenByID, endByID := then.byID(), end.byID()
		known := map[string]*passage{}
		for _, n := range s.nics {
			m, e := thenByID[n.ID], endByID[n.ID]
			key := fmt.Sprint(n.network.ID, n.GroupIDs, m.GroupIDs, e.GroupIDs, n.taken(), n.state)
			p := known[key]
			if p == nil {
				p = &passage{region: s}
				before, after, final := s.actual(n.GroupIDs, n.network), then.actual(m.GroupIDs, m.network), end.actual(e.GroupIDs, e.network)
				for i := range directions {
					p.opens[i], p.closes[i] = after[i].Minus(before[i]), after[i].Minus(final[i])
				}
				known[key] = p
				if len(p.opens[0])+len(p.opens[1])+len(p.closes[0])+len(p.closes[1]) > 0 {
					out = append(out, p)
				}
			}
			p.nics = append(p.nics, n)
		}
		for _, p := range known {
			sets := make([]addrset.Set, len(p.nics))
			for i, n := range p.nics {
				sets[i] = n.all
			}
			p.addrs = addrset.Union(sets...)
		}
	}
	return out
}

// overlaps reports whether two lists of cells of one interface have something in common.
func overlaps(a, b []flow.Grant) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Service.MayOverlap(y.Service) && x.All.Overlaps(y.All) {
				return true
			}
		}
	}
	return false
}

func (s *regionState) byID() map[string]*nic {
	out := make(map[string]*nic, len(s.nics))
	for _, n := range s.nics {
		out[n.ID] = n
	}
	return out
}

// foreseen holds back what would be opened too early, as far as the rounds to come tell.
func (s *regionState) foreseen() {
	for _, n := range s.nics {
		if r := s.in.restrain[s.keyOf(n)]; r != [2]bool{} {
			s.restrict[n] = r
		}
		if s.together[n] != "" {
			s.restrict[n] = [2]bool{true, true}
		}
		if s.in.stay[s.keyOf(n)] {
			s.stay[n] = true
		}
	}
}

// standStill takes the plan out of a result: later rounds would only undo it and do it again. No random world of the tests comes to that, and one
// that did would fail; what is not known to be impossible is to do no harm. Glass that is broken does not wait for that.
func (r *Result) standStill(c *computation) *Result {
	var freed []Step
	for _, s := range c.regions {
		freed = append(freed, s.freeing()...)
	}
	seen := map[string]bool{}
	for _, s := range freed {
		seen[s.Scope.Region+"/"+s.Op.Target] = true
	}
	for _, s := range r.Plan.Steps {
		for _, id := range s.Op.Subjects() {
			if key := s.Scope.Region + "/" + id; !seen[key] && s.Op.Kind == cloud.OpSetInterfaceGroups {
				seen[key] = true
				r.Notes = append(r.Notes, Note{s.Scope.Region, id, "it stays as it is: what later rounds of changes see would make them undo what this one does"})
			}
		}
	}
	r.Plan.Steps, r.Plan.Partial = freed, len(freed) > 0
	r.sort()
	return r
}
