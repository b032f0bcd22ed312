package realize

import (
	"errors"
	"maps"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// part names networks of a region that depend on one another: groups of one can be referred to from
// the other. To others a network is what a region is to another one: whatever the order in which
// two of them change, each half of a flow goes from what it was to what it will be. So each part of
// a plan is applied for itself, and what stops one part stops no other.
type part struct {
	region string
	// network is the first of the networks.
	network string
}

// partition tells the part of every network, by region and id.
type partition map[part]part

func partitionOf(regions []plan.Region) partition {
	out := partition{}
	for _, r := range regions {
		region := r.Snapshot.Region
		for _, n := range r.Snapshot.Networks {
			out[part{region, n.ID}] = part{region, n.ID}
		}
		for _, p := range r.Snapshot.Peerings {
			a, b := out.of(region, p.A.NetworkID), out.of(region, p.B.NetworkID)
			if b.network < a.network {
				a, b = b, a
			}
			for network, home := range out {
				if home == b {
					out[network] = a
				}
			}
			out[b] = a
		}
	}
	return out
}

// of returns the part of a network.
func (p partition) of(region, network string) part {
	if home, found := p[part{region, network}]; found {
		return home
	}
	return part{region, network}
}

// stick notes which parts of a plan have failed in a way that a new plan does not answer.
func (w *worker) stick(names []part, errs []error) {
	for i, name := range names {
		if errs[i] == nil || replannable(errs[i]) || errors.Is(errs[i], errOutdated) {
			continue
		}
		if w.stuck == nil {
			w.stuck = map[part]error{}
		}
		w.stuck[name] = errs[i]
	}
}

// unstuck is what of a plan is about parts that have not failed in this round.
func (w *worker) unstuck(p plan.Plan) plan.Plan {
	if len(w.stuck) == 0 {
		return p
	}
	out := plan.Plan{Account: p.Account, Partial: p.Partial}
	for _, s := range p.Steps {
		if w.stuck[w.parts.of(s.Scope.Region, s.Network)] == nil {
			out.Steps = append(out.Steps, s)
		}
	}
	return out
}

// failure is why parts have failed in this round; nil if none has.
func (w *worker) failure() error {
	errs := make([]error, 0, len(w.stuck))
	for _, err := range w.stuck {
		errs = append(errs, err)
	}
	return worst(errs)
}

// stuckNetworks are the networks of the parts that have failed in this round, by region and id.
func (w *worker) stuckNetworks() map[string]map[string]bool {
	if len(w.stuck) == 0 {
		return nil
	}
	out := map[string]map[string]bool{}
	for network, home := range maps.All(w.parts) {
		if w.stuck[home] == nil {
			continue
		}
		if out[network.region] == nil {
			out[network.region] = map[string]bool{}
		}
		out[network.region][network.network] = true
	}
	return out
}
