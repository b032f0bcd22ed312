package packet

import (
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// Wholes are what edits of resources are about, each with its parts: what effect.Log records, and
// what a Judge asks it for.
func Wholes(d *aws.Resources) map[string]effect.Parts {
	out := map[string]effect.Parts{}
	for id, n := range d.NICs {
		out[id] = effect.PartsOf(n.Groups, groupPart)
	}
	for id, g := range d.Groups {
		out[id] = effect.PartsOf(g.Clone().Rules, rulePart)
	}
	for id, p := range d.PrefixLists {
		out[id] = effect.PartsOf(p.Entries(), entryPart)
	}
	return out
}

func groupPart(g *aws.GroupName) string { return g.ID }

func rulePart(r *aws.SecurityGroupRule) string { return r.ID }

func entryPart(e *aws.PrefixListEntry) string { return e.CIDR.String() }

// groupsAt are the groups of an interface as another one, or itself, has them in force.
func (x *Judge) groupsAt(viewer, n *aws.NetworkInterface) []aws.GroupName {
	return effect.View(x.effects, viewer.ID, n.ID, n.Groups, groupPart)
}

// rulesAt are the rules of a group as an interface has them in force. Rules of a deleted group stay
// as long as the interface has not seen the deletion.
func (x *Judge) rulesAt(viewer placed, group string) []aws.SecurityGroupRule {
	var rules []aws.SecurityGroupRule
	if g := viewer.data.Groups[group]; g != nil {
		rules = g.Rules
	}
	return effect.View(x.effects, viewer.nic.ID, group, rules, rulePart)
}

// entriesAt are the entries of a prefix list as an interface has them in force.
func (x *Judge) entriesAt(viewer placed, list string) []aws.PrefixListEntry {
	var entries []aws.PrefixListEntry
	if l := viewer.data.PrefixLists[list]; l != nil {
		entries = l.Entries()
	}
	return effect.View(x.effects, viewer.nic.ID, list, entries, entryPart)
}
