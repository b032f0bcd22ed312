package realize

import (
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// drift finds what somebody else has changed since the account was last seen to be as planned: nothing of ours has been written since,
// so every difference in what we hold is theirs. The planner finds most of it by itself, but not what looks like work of ours that is
// still to be done; after a restart that is all there is.
func (w *worker) drift(t task, res *plan.Result, regions []plan.Region) {
	modes := t.acct.planModes()
	w.asPlanned = map[string]time.Time{}
	defer func() {
		fresh := 0
		for _, found := range res.Drift {
			if !slices.Contains(w.seen, found) {
				fresh++
			}
		}
		w.seen = res.Drift
		w.r.Metrics.drifted(w.key, fresh)
	}()
	for _, r := range regions {
		base := w.settled[r.Snapshot.Region]
		if base != nil {
			w.asPlanned[r.Snapshot.Region] = base.ObservedAt
		}
		if base == nil || base == r.Snapshot || t.acct.Releasing {
			continue
		}
		d := differ{base: base, now: r.Snapshot, owned: func(g *cloud.Group) bool {
			return g.OwnedBy(w.r.ClusterID) && g.Tags[cloud.TagAccount] == w.key
		}, modes: modes}
		d.groups()
		d.interfaces()
		d.claims(w.r.ClusterID)
		for _, found := range d.found {
			if !slices.Contains(res.Drift, found) {
				res.Drift = append(res.Drift, found)
			}
		}
	}
}

// remainAsPlanned notes that the regions are as planned.
func (w *worker) remainAsPlanned(regions []plan.Region) {
	if w.settled == nil {
		w.settled = map[string]*cloud.Snapshot{}
	}
	for _, r := range regions {
		w.settled[r.Snapshot.Region] = r.Snapshot
	}
}

// notRepaired ends the message about a difference that stays.
const notRepaired = " (left as it is)"

// differ compares two snapshots of a region.
type differ struct {
	base, now *cloud.Snapshot
	owned     func(*cloud.Group) bool
	modes     map[plan.VMRef]plan.Mode
	found     []plan.Drift
}

func (d *differ) add(object, message string, kept bool) {
	if kept {
		message += notRepaired
	}
	d.found = append(d.found, plan.Drift{Region: d.base.Region, Object: object, Message: message})
}

// planned reports whether an interface's VM is only planned for.
func (d *differ) planned(n *cloud.Interface) bool {
	return n.VMID != "" && d.modes[plan.VMRef{Region: d.base.Region, ID: n.VMID}] == plan.Planned
}

func (d *differ) groups() {
	kept := map[string]bool{}
	for i := range d.now.Interfaces {
		if n := &d.now.Interfaces[i]; d.planned(n) {
			for _, g := range n.GroupIDs {
				kept[g] = true
			}
		}
	}
	now := map[string]*cloud.Group{}
	for i := range d.now.Groups {
		now[d.now.Groups[i].ID] = &d.now.Groups[i]
	}
	for i := range d.base.Groups {
		g := &d.base.Groups[i]
		if !d.owned(g) {
			continue
		}
		is := now[g.ID]
		switch {
		case is == nil:
			d.add(g.ID, "somebody deleted our group "+g.Name, false)
			continue
		case !d.owned(is):
			d.add(g.ID, "somebody changed the tags of our group "+g.Name, kept[g.ID])
			continue
		}
		if is.Tags[cloud.TagPolicies] != g.Tags[cloud.TagPolicies] {
			d.add(g.ID, "somebody changed the tag "+cloud.TagPolicies+" of our group "+g.Name+", which says which policies are in force", kept[g.ID])
		}
		for _, r := range missing(g.Rules, is.Rules) {
			d.add(g.ID, "somebody removed the rule: "+r.Key().String(), kept[g.ID])
		}
		for _, r := range missing(is.Rules, g.Rules) {
			d.add(g.ID, "somebody added the rule: "+r.Key().String(), kept[g.ID])
		}
	}
}

// missing returns the rules of a that b lacks. Both are sorted.
func missing(a, b []cloud.Rule) []cloud.Rule {
	var out []cloud.Rule
	for _, r := range a {
		if _, found := slices.BinarySearchFunc(b, r, cloud.Rule.Compare); !found {
			out = append(out, r)
		}
	}
	return out
}

func (d *differ) interfaces() {
	ours := map[string]bool{}
	for i := range d.base.Groups {
		if g := &d.base.Groups[i]; d.owned(g) {
			ours[g.ID] = true
		}
	}
	now := map[string]*cloud.Interface{}
	for i := range d.now.Interfaces {
		now[d.now.Interfaces[i].ID] = &d.now.Interfaces[i]
	}
	for i := range d.base.Interfaces {
		n := &d.base.Interfaces[i]
		is := now[n.ID]
		if is == nil || is.VMID != n.VMID || !slices.ContainsFunc(n.GroupIDs, func(g string) bool { return ours[g] }) {
			continue
		}
		d.held(n, is, ours)
	}
}

// held compares an interface that held groups of ours.
func (d *differ) held(n, is *cloud.Interface, ours map[string]bool) {
	former, guarded := n.Tags[cloud.TagFormer]
	foreign := slices.DeleteFunc(slices.Clone(is.GroupIDs), func(g string) bool { return ours[g] })
	kept := d.planned(is)
	switch {
	case slices.Equal(n.GroupIDs, is.GroupIDs):
	case !guarded && len(foreign) == len(is.GroupIDs):
		d.add(n.ID, "somebody took the interface out of our group by which others refer to it", kept)
	case !guarded: // its own groups are its owner's business
	case len(foreign) == len(is.GroupIDs) && slices.Equal(foreign, sortedFields(former)):
		d.add(n.ID, "somebody put the interface back into its former groups "+strings.Join(foreign, ", "), kept)
	case len(foreign) == len(is.GroupIDs):
		d.add(n.ID, "somebody took the interface out of its group of ours", kept)
	case len(foreign) > 0:
		d.add(n.ID, "somebody put the interface into "+strings.Join(foreign, ", "), kept)
	default:
		d.add(n.ID, "somebody exchanged groups of ours on the interface", kept)
	}
	if is.Tags[cloud.TagFormer] != former {
		d.add(n.ID, "somebody changed the tag "+cloud.TagFormer+", which says what to give back", true)
	}
}

func sortedFields(s string) []string {
	out := strings.Fields(s)
	slices.Sort(out)
	return out
}

func (d *differ) claims(id string) {
	now := map[string]string{}
	for _, n := range d.now.Networks {
		now[n.ID] = n.Tags[cloud.TagClaim]
	}
	for _, n := range d.base.Networks {
		if by, there := now[n.ID]; there && n.Tags[cloud.TagClaim] == id && by != id {
			d.add(n.ID, "somebody changed our claim, the tag "+cloud.TagClaim+", to \""+by+"\"", by != "")
		}
	}
}
