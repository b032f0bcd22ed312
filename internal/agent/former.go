package agent

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// compile makes a program of what is wanted and of what is known besides. A policy that is refused
// is replaced by its former version, if there was one; the refusals are those of what is wanted. It
// also returns what the program was made of.
func (a *Agent) compile(known nft.Input) (enforcer.Computed, nft.Result) {
	compile := func(c enforcer.Computed) nft.Result {
		known.Computed = c
		return a.compiler.Compile(known)
	}
	if a.held() {
		former := a.probing.trial.former
		return former, compile(former)
	}
	effective := *a.wanted
	result := compile(effective)
	refused := map[string]bool{}
	for _, r := range result.Refusals {
		refused[r.Policy] = true
	}
	if result.Ambiguous { // nothing is known of this host any more, so all of it stays as it was
		refusals := result.Refusals
		if effective = (enforcer.Computed{}); a.effective != nil {
			effective = *a.effective
		}
		result = compile(effective)
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
		result = compile(effective)
		result.Refusals = refusals
	}
	a.remember(refused)
	a.compiled = effective
	return effective, result
}

// withFormer returns what is wanted with the former versions of the refused policies, and the
// groups of these as they are now, or were when they were compiled last.
func (a *Agent) withFormer(refused map[string]bool) enforcer.Computed {
	out := enforcer.Computed{AddressGroups: slices.Clone(a.wanted.AddressGroups), AppliedToGroups: slices.Clone(a.wanted.AppliedToGroups)}
	address, applied := byName(out.AddressGroups), byName(out.AppliedToGroups)
	formerAddress, formerApplied := byName(a.compiled.AddressGroups), byName(a.compiled.AppliedToGroups)
	for _, p := range a.wanted.Policies {
		if !refused[p.Name] {
			out.Policies = append(out.Policies, p)
			continue
		}
		former := a.good[p.Name]
		if former == nil {
			continue
		}
		out.Policies = append(out.Policies, former)
		to := slices.Clone(former.AppliedToGroups)
		for i := range former.Rules {
			r := &former.Rules[i]
			to = append(to, r.AppliedToGroups...)
			for _, name := range slices.Concat(r.From.AddressGroups, r.To.AddressGroups) {
				if g := formerAddress[name]; address[name] == nil && g != nil {
					address[name], out.AddressGroups = g, append(out.AddressGroups, g)
				}
			}
		}
		slices.Sort(to)
		for _, name := range to {
			if g := formerApplied[name]; applied[name] == nil && g != nil {
				applied[name], out.AppliedToGroups = g, append(out.AppliedToGroups, g)
			}
		}
	}
	return out
}

func byName[T any, P interface {
	*T
	GetName() string
}](list []P) map[string]P {
	out := make(map[string]P, len(list))
	for _, o := range list {
		out[o.GetName()] = o
	}
	return out
}

// remember keeps the policies that were expressed, and forgets those that are gone.
func (a *Agent) remember(refused map[string]bool) {
	for name := range a.good {
		if _, there := slices.BinarySearchFunc(a.wanted.Policies, name, func(p *v1beta2.NetworkPolicy, name string) int { return strings.Compare(p.Name, name) }); !there {
			delete(a.good, name)
		}
	}
	for _, p := range a.wanted.Policies {
		if !refused[p.Name] {
			a.good[p.Name] = p
		}
	}
}
