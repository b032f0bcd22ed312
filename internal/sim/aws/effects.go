package aws

import (
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// SetEffects changes Options.Effects for edits from now on, on both clouds. Edits that are on their
// way are in force with that.
func (w *World) SetEffects(d effect.Delay) error {
	if err := d.Check(); err != nil {
		return err
	}
	w.state.Lock()
	defer w.state.Unlock()
	w.effects.Set(d)
	return nil
}

// wholes are what edits in a region are about; nil if edits take no time.
func (w *World) wholes(at scope) map[string]effect.Parts {
	d := w.regions[at]
	if d == nil || !w.effects.Keeps() {
		return nil
	}
	out := map[string]effect.Parts{}
	for id, n := range d.nics {
		out[id] = effect.PartsOf(n.Groups, groupPart)
	}
	for id, g := range d.groups {
		out[id] = effect.PartsOf(cloneGroup(g).Rules, rulePart)
	}
	for id, p := range d.prefixLists {
		out[id] = effect.PartsOf(p.Entries(), entryPart)
	}
	return out
}

func groupPart(g *GroupName) string        { return g.ID }
func rulePart(r *SecurityGroupRule) string { return r.ID }
func entryPart(e *PrefixListEntry) string  { return e.CIDR.String() }

// groupsAt are the groups of an interface as another one, or itself, has them in force.
func (x *addressIndex) groupsAt(viewer, n *NetworkInterface) []GroupName {
	return effect.View(x.effects, viewer.ID, n.ID, n.Groups, groupPart)
}

// rulesAt are the rules of a group as an interface has them in force. Rules of a deleted group stay
// as long as the interface has not seen the deletion.
func (x *addressIndex) rulesAt(viewer placed, group string) []SecurityGroupRule {
	var rules []SecurityGroupRule
	if g := viewer.data.groups[group]; g != nil {
		rules = g.Rules
	}
	return effect.View(x.effects, viewer.nic.ID, group, rules, rulePart)
}

// entriesAt are the entries of a prefix list as an interface has them in force.
func (x *addressIndex) entriesAt(viewer placed, list string) []PrefixListEntry {
	var entries []PrefixListEntry
	if l := viewer.data.prefixLists[list]; l != nil {
		entries = l.Entries()
	}
	return effect.View(x.effects, viewer.nic.ID, list, entries, entryPart)
}
