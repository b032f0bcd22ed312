package realize

import (
	"errors"
	"maps"
	"slices"

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

// stuck are the parts of an account that have failed in a round. The zero value is none.
type stuck struct {
	// parts holds the parts of the last computation.
	parts partition
	at    map[part]error
}

// note notes which parts of a plan have failed in a way that a new plan does not answer.
func (s *stuck) note(names []part, errs []error) {
	for i, name := range names {
		if errs[i] == nil || replannable(errs[i]) || errors.Is(errs[i], errOutdated) {
			continue
		}
		if s.at == nil {
			s.at = map[part]error{}
		}
		s.at[name] = errs[i]
	}
}

// rest is what of a plan is about parts that have not failed.
func (s *stuck) rest(p plan.Plan) plan.Plan {
	if len(s.at) == 0 {
		return p
	}
	out := plan.Plan{Account: p.Account, Partial: p.Partial}
	for _, step := range p.Steps {
		if s.at[s.parts.of(step.Scope.Region, step.Network)] == nil {
			out.Steps = append(out.Steps, step)
		}
	}
	return out
}

// failure is why parts have failed; nil if none has.
func (s *stuck) failure() error { return worst(slices.Collect(maps.Values(s.at))) }

// networks returns the networks of the parts that have failed, by region and id.
func (s *stuck) networks() map[string]map[string]bool {
	if len(s.at) == 0 {
		return nil
	}
	out := map[string]map[string]bool{}
	for network, home := range s.parts {
		if s.at[home] == nil {
			continue
		}
		if out[network.region] == nil {
			out[network.region] = map[string]bool{}
		}
		out[network.region][network.network] = true
	}
	return out
}
