package agent

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// good is a policy that was expressed, with the groups that it names.
type good struct {
	policy  *v1beta2.NetworkPolicy
	address []*v1beta2.AddressGroup
	applied []*v1beta2.AppliedToGroup
}

// compile makes a program of what is wanted. A policy that is refused is replaced by its former
// version, if there was one; the refusals are those of what is wanted. It also returns what the
// program was made of.
func (a *Agent) compile(names *nft.Names, node *nft.Node) (enforcer.Computed, nft.Result) {
	if a.held() {
		former := a.probing.trial.former
		return former, a.compiler.Compile(nft.Input{Computed: former, Failsafe: a.failsafe, Names: names, Node: node})
	}
	effective := *a.wanted
	result := a.compiler.Compile(nft.Input{Computed: effective, Failsafe: a.failsafe, Names: names, Node: node})
	refused := map[string]bool{}
	for _, r := range result.Refusals {
		refused[r.Policy] = true
	}
	if result.Ambiguous { // nothing is known of this host any more, so all of it stays as it was
		refusals := result.Refusals
		if effective = (enforcer.Computed{}); a.effective != nil {
			effective = *a.effective
		}
		result = a.compiler.Compile(nft.Input{Computed: effective, Failsafe: a.failsafe, Names: names, Node: node})
		result.Refusals = refusals
		return effective, result
	}
	former := false
	for name := range refused {
		_, had := a.good[name]
		former = former || had
	}
	if former {
		effective = a.withFormer(refused)
		refusals := result.Refusals
		result = a.compiler.Compile(nft.Input{Computed: effective, Failsafe: a.failsafe, Names: names, Node: node})
		result.Refusals = refusals
	}
	a.remember(refused)
	return effective, result
}

// withFormer returns what is wanted with the former versions of the refused policies, and the
// groups of these as they are now, or were.
func (a *Agent) withFormer(refused map[string]bool) enforcer.Computed {
	out := enforcer.Computed{AddressGroups: slices.Clone(a.wanted.AddressGroups), AppliedToGroups: slices.Clone(a.wanted.AppliedToGroups)}
	address, applied := map[string]bool{}, map[string]bool{}
	for _, g := range out.AddressGroups {
		address[g.Name] = true
	}
	for _, g := range out.AppliedToGroups {
		applied[g.Name] = true
	}
	for _, p := range a.wanted.Policies {
		if !refused[p.Name] {
			out.Policies = append(out.Policies, p)
			continue
		}
		f, had := a.good[p.Name]
		if !had {
			continue
		}
		out.Policies = append(out.Policies, f.policy)
		for _, g := range f.address {
			if !address[g.Name] {
				address[g.Name] = true
				out.AddressGroups = append(out.AddressGroups, g)
			}
		}
		for _, g := range f.applied {
			if !applied[g.Name] {
				applied[g.Name] = true
				out.AppliedToGroups = append(out.AppliedToGroups, g)
			}
		}
	}
	return out
}

// remember keeps the policies that were expressed, and forgets those that are gone.
func (a *Agent) remember(refused map[string]bool) {
	address := map[string]*v1beta2.AddressGroup{}
	for _, g := range a.wanted.AddressGroups {
		address[g.Name] = g
	}
	applied := map[string]*v1beta2.AppliedToGroup{}
	for _, g := range a.wanted.AppliedToGroups {
		applied[g.Name] = g
	}
	present := map[string]bool{}
	for _, p := range a.wanted.Policies {
		present[p.Name] = true
		if refused[p.Name] {
			continue
		}
		g := good{policy: p}
		names := map[string]bool{}
		for _, r := range p.Rules {
			for _, n := range slices.Concat(r.From.AddressGroups, r.To.AddressGroups) {
				if x := address[n]; x != nil && !names[n] {
					names[n] = true
					g.address = append(g.address, x)
				}
			}
		}
		to := map[string]bool{}
		for _, r := range p.Rules {
			for _, n := range r.AppliedToGroups {
				to[n] = true
			}
		}
		for _, n := range p.AppliedToGroups {
			to[n] = true
		}
		for _, n := range slices.Sorted(maps.Keys(to)) {
			if x := applied[n]; x != nil {
				g.applied = append(g.applied, x)
			}
		}
		a.good[p.Name] = g
	}
	maps.DeleteFunc(a.good, func(name string, _ good) bool { return !present[name] })
}
