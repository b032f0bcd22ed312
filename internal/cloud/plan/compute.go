package plan

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// try does something within what the input allows for one try, given what tells that it takes too
// long. It reports whether that was enough.
func try(in Input, do func(late func() bool)) (enough bool) {
	late := func() bool { return false }
	if in.Limit != nil {
		var end func()
		late, end = in.Limit()
		defer end()
	}
	defer func() {
		if r := recover(); r != nil && r != any(intent.Stopped{Late: true}) {
			panic(r)
		}
	}()
	do(late)
	return true
}

// compute is Compute that panics on mistakes of ours, and with intent.Stopped when the result is
// not wanted any more.
func compute(in Input, lower Lowerer) (out *Result) {
	in.Regions = Apart(in.Regions, in.Entities, in.Services)
	if in.ClusterID == "" {
		out = &Result{Plan: Plan{Account: in.Account}}
		out.Refusals = []report.Refusal{{Why: reason.Why(reason.NoClusterID)}}
		out.say()
		return out
	}
	whole, fits := in, true
	for n := 0; !try(in, func(late func() bool) { out = newPlanning(in, lower, late).planOrForce() }); n++ {
		if in, fits = lighter(in, n > 0); fits && n < mostLighter {
			continue
		}
		out = newPlanning(whole, lower, nil).undecided()
		break
	}
	out.say()
	return out
}

// Apart returns the regions as they are planned: services whose groups can be set are machines, and
// so are interfaces that are entities of their own. Entities name the VMs that are selected, to
// which their interfaces belong.
func Apart(regions []Region, entities, services map[EntityRef]VMRef) []Region {
	vms, named := map[VMRef]bool{}, map[VMRef]bool{}
	for _, ref := range services {
		named[ref] = true
	}
	if len(named) > 0 {
		for _, ref := range entities {
			vms[ref] = true
		}
	}
	out := slices.Clone(regions)
	for i, r := range out {
		snap := r.Snapshot.Joined()
		if len(named) > 0 {
			in := func(set map[VMRef]bool) func(string) bool {
				return func(id string) bool { return set[VMRef{Region: snap.Region, ID: id}] }
			}
			snap = snap.Apart(in(named), in(vms))
		}
		out[i].Snapshot = snap
	}
	return out
}

// planOrForce is plan, and once more if what is blocked is the plan that somebody wants to go on.
// It goes on only in networks where the word leads to what is wanted: to close something on a way
// that ends before that would be undone by the next plan, and done again by the one after it.
func (c *planning) planOrForce() *Result {
	out, forced := c.plan()
	for in := c.account.In; in.Forced == nil && len(forced) > 0; {
		on := in
		on.Forced = forced
		c := newPlanning(on, c.lower, c.late)
		forcedOut, _ := c.plan()
		if !c.stopShort(forced) {
			return forcedOut
		}
	}
	return out
}

// plan is Compute without sentences. Forced are the interfaces of what is blocked, if somebody
// wants that to go on.
func (c *planning) plan() (out *Result, forced map[intent.InterfaceKey]bool) {
	revision := c.revision()
	c.findOrders(revision)
	out = &Result{Plan: Plan{Account: c.account.In.Account}}
	for _, s := range c.regions {
		steps, dirty, later := s.transit()
		out.Plan.Steps = append(out.Plan.Steps, steps...)
		out.Plan.Partial = out.Plan.Partial || later && len(steps) > 0
		out.Add(s.guard, &s.design.Design, dirty)
	}
	hash, blocked := c.blockedPlan(revision)
	out.Refusals = append(out.Refusals, c.waitsForWord(hash)...)
	if hash == c.account.In.Force {
		forced = blocked
	}
	refused, suspended := report.OfServices(c.account.Unguarded)
	out.VMs, out.Refusals = append(out.VMs, suspended...), append(out.Refusals, refused...)
	out.Policies = report.Tally(c.account.Policies, out.VMs, c.account.Unguarded)
	out.Protection = report.ProtectionOf(c.states())
	return out, forced
}

// revision identifies the policies and their problems, without the members of their groups: when
// that changes, policies come into force or go.
func (c *planning) revision() string {
	h := sha256.New()
	for _, p := range c.account.Policies {
		fmt.Fprintln(h, p.Ref, p.Stage, p.Tier, p.Priority, "")
		for why := p.Problem; why != nil; why = why.Because {
			fmt.Fprintln(h, why.Code, why.Objects, why.Numbers, why.Quoted)
		}
		for _, r := range p.Rules {
			services := make([]string, len(r.Services))
			for i, s := range r.Services {
				services[i] = s.Recorded()
			}
			fmt.Fprintln(h, r.Index, r.Direction, r.Verdict, services, r.Named, r.Groups, r.Blocks.Prefixes(), r.AppliedTo)
		}
	}
	fmt.Fprintln(h, c.account.In.Failsafe, c.account.In.Modes)
	if len(c.account.In.Agents) > 0 {
		fmt.Fprintln(h, c.account.In.Agents)
	}
	for _, s := range c.regions {
		for _, n := range s.guard.NICs {
			if n.Blocked != "" || n.Record.Unproven != nil {
				fmt.Fprintln(h, s.region.Snap.Region, n.ID)
			}
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}
