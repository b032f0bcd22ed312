package agent

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// compilation makes programs of what is wanted. A policy that is refused is replaced by its former
// version, if there was one.
type compilation struct {
	compiler nft.Compiler
	// good are the policies that were expressed last, as they were then.
	good map[string]*v1beta2.NetworkPolicy
	// last is what a program was made of last, with the groups that these policies name.
	last enforcer.Computed
}

// compile makes a program of what is wanted and of what is known besides. It refuses only parts of
// what is wanted. It also returns what the program was made of. Before is what is in force; nil for
// nothing.
func (c *compilation) compile(wanted enforcer.Computed, before *enforcer.Computed, known nft.Input) (enforcer.Computed, nft.Result) {
	effective := wanted
	result := c.plain(effective, known)
	refused := map[string]bool{}
	for _, r := range result.Refusals {
		refused[r.Policy] = true
	}
	if result.Ambiguous { // nothing is known of this host any more, so all of it stays as it was
		refusals := result.Refusals
		if effective = (enforcer.Computed{}); before != nil {
			effective = *before
		}
		result = c.plain(effective, known)
		result.Refusals = refusals
		return effective, result
	}
	former := false
	for name := range refused {
		_, had := c.good[name]
		former = former || had
	}
	if former {
		effective = c.withFormer(wanted, refused)
		refusals := result.Refusals
		result = c.plain(effective, known)
		result.Refusals = refusals
	}
	c.remember(wanted, refused)
	c.last = effective
	return effective, result
}

// plain makes a program of something as it is.
func (c *compilation) plain(of enforcer.Computed, known nft.Input) nft.Result {
	known.Computed = of
	return c.compiler.Compile(known)
}

// withFormer returns what is wanted with the former versions of the refused policies, and the
// groups of these as they are now, or were when they were compiled last.
func (c *compilation) withFormer(wanted enforcer.Computed, refused map[string]bool) enforcer.Computed {
	out := enforcer.Computed{AddressGroups: slices.Clone(wanted.AddressGroups), AppliedToGroups: slices.Clone(wanted.AppliedToGroups)}
	address, applied := byName(out.AddressGroups), byName(out.AppliedToGroups)
	formerAddress, formerApplied := byName(c.last.AddressGroups), byName(c.last.AppliedToGroups)
	for _, p := range wanted.Policies {
		if !refused[p.Name] {
			out.Policies = append(out.Policies, p)
			continue
		}
		former := c.good[p.Name]
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
func (c *compilation) remember(wanted enforcer.Computed, refused map[string]bool) {
	for name := range c.good {
		if _, there := slices.BinarySearchFunc(wanted.Policies, name, func(p *v1beta2.NetworkPolicy, name string) int { return strings.Compare(p.Name, name) }); !there {
			delete(c.good, name)
		}
	}
	for _, p := range wanted.Policies {
		if !refused[p.Name] {
			c.good[p.Name] = p
		}
	}
}
