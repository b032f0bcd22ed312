package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// What has no clean order is blocked until somebody gives the hash of the plan: then the flows of
// its interfaces may pause. What is to be closed is closed first, and nothing ever opens too early.

// stuck is a blocked interface, with flows that it would miss for a moment if it was forced.
type stuck struct {
	nic    *guard.NIC
	misses []*reason.Reason
}

// stick takes note of a blocked interface, before it is frozen.
func (s *regional) stick(n *guard.NIC) {
	out := stuck{nic: n}
	wanted := s.guard.Wanted(n)
	for i, is := range s.region.Actual(n.GroupIDs, n.Network) {
		for _, g := range is.Intersect(wanted[i]).Grants {
			if g.All.Empty() {
				continue
			}
			miss := reason.Why(reason.MayPause, n.ID)
			miss.Flow = &reason.Flow{Direction: flow.Directions()[i], Service: g.Service, Addrs: g.All}
			out.misses = append(out.misses, miss)
		}
	}
	s.stuck = append(s.stuck, out)
}

// blockedPlan identifies what is blocked in an account: which interfaces, what they hold, and which
// policies are wanted. It is empty if nothing is.
func (c *planning) blockedPlan(revision string) (hash string, nics map[intent.InterfaceKey]bool) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", c.account.In.Account, revision)
	nics = map[intent.InterfaceKey]bool{}
	for _, s := range c.regions {
		for _, n := range s.stuck {
			fmt.Fprintf(h, "%q %q %q\n", s.region.Snap.Region, n.nic.ID, n.nic.GroupIDs)
			nics[intent.InterfaceKey{Region: s.region.Snap.Region, ID: n.nic.ID}] = true
		}
	}
	if len(nics) == 0 {
		return "", nil
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nics
}

// stopShort takes out of the forced interfaces those in whose networks something is blocked all the
// same. It reports whether there are any.
func (c *planning) stopShort(forced map[intent.InterfaceKey]bool) bool {
	all := len(forced)
	for _, s := range c.regions {
		for _, v := range s.order.Blocked {
			maps.DeleteFunc(forced, func(k intent.InterfaceKey, _ bool) bool {
				return k.Region == s.region.Snap.Region && s.byID[k.ID].NetworkID == v.Network
			})
		}
	}
	return len(forced) < all
}

// WaitsForWord reports whether something is blocked until somebody gives a word.
func (r *Result) WaitsForWord() bool {
	return slices.ContainsFunc(r.Refusals, func(x report.Refusal) bool { return x.Why.Is(reason.WaitsForWord) })
}

// mostPauses is how many flows are named that a forced plan may cut for a moment.
const mostPauses = 8

// waitsForWord says in each region what is blocked, and with which word it goes on.
func (c *planning) waitsForWord(hash string) (out []report.Refusal) {
	for _, s := range c.regions {
		if len(s.stuck) == 0 {
			continue
		}
		why := reason.Why(reason.WaitsForWord, c.account.In.Account, hash)
		var misses []*reason.Reason
		for _, n := range s.stuck {
			why.Objects, misses = append(why.Objects, n.nic.ID), append(misses, n.misses...)
		}
		if given := c.account.In.Force; given != "" && given != hash {
			why.Quoted = given
		}
		why.Counting(max(len(misses)-mostPauses, 0))
		last := why
		for _, m := range slices.Clip(misses[:min(len(misses), mostPauses)]) {
			last.From(m)
			last = m
		}
		out = append(out, report.Refusal{Region: s.region.Snap.Region, Why: why, Kept: true})
	}
	return out
}
