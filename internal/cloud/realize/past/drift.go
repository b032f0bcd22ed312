package past

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Past is what is known of an account from before. Its methods belong to one goroutine.
type Past struct {
	cluster, account string
	// settled are the snapshots on which the account was last seen to be as planned, without
	// regions that we have written to since.
	settled map[string]*cloud.Snapshot
	// left are the objects that somebody has changed and that are left so, by region.
	left map[string]map[string]bool
	// seen are the last differences.
	seen []plan.Drift
	// memory is what interfaces under control had before, by region.
	memory map[string]memory
}

// New returns the past of an account, "namespace/name", of which nothing is known yet. The cluster
// is the one that marks what is ours.
func New(cluster, account string) *Past {
	return &Past{cluster: cluster, account: account, settled: map[string]*cloud.Snapshot{}, memory: map[string]memory{}}
}

// Forget forgets how the account was and what interfaces had: another provider may show another
// part of it.
func (p *Past) Forget() {
	p.settled, p.memory = map[string]*cloud.Snapshot{}, map[string]memory{}
}

// Differences adds to a result what somebody else has changed since the account was last seen to be
// as planned: nothing of ours has been written since, so every difference in what we hold is
// theirs. The planner finds most of it by itself, but not what looks like work of ours that is
// still to be done; after a restart that is all there is.
//
// The modes are those that were planned with. It returns when each region was last seen to be as
// planned, without regions of which that is not known, and how many differences are new.
func (p *Past) Differences(res *plan.Result, regions []plan.Region, modes map[plan.VMRef]plan.Mode, releasing bool) (asPlanned map[string]time.Time, fresh int) {
	asPlanned, p.left = map[string]time.Time{}, map[string]map[string]bool{}
	for _, r := range regions {
		name := r.Snapshot.Region
		base := p.settled[name]
		if base != nil {
			asPlanned[name] = base.ObservedAt
		}
		if base == nil || base == r.Snapshot || releasing {
			continue
		}
		d := differ{base: base, now: r.Snapshot, owned: p.owns, modes: modes}
		d.groups()
		d.interfaces()
		d.claims(p.cluster)
		p.left[name] = map[string]bool{}
		for _, found := range d.found {
			if found.Kept {
				p.left[name][found.Object] = true
			}
			if i := slices.IndexFunc(res.Drift, found.Same); i >= 0 {
				res.Drift[i].Kept = found.Kept
			} else {
				res.Drift = append(res.Drift, found)
			}
		}
		plan.Concern(res.Drift, base, res.VMs)
	}
	for _, r := range regions {
		plan.Concern(res.Drift, r.Snapshot, res.VMs)
	}
	for _, found := range res.Drift {
		if !slices.ContainsFunc(p.seen, func(o plan.Drift) bool { return o.Same(found) && o.Kept == found.Kept }) {
			fresh++
		}
	}
	p.seen = res.Drift
	return asPlanned, fresh
}

// owns reports whether a group is ours, of this account.
func (p *Past) owns(g *cloud.Group) bool {
	return g.OwnedBy(p.cluster) && g.Tags[cloud.TagAccount] == p.account
}

// Settle notes that the regions are as planned. Of what is left as somebody has changed it, it is
// remembered how it was, so that it is a difference for as long as it lasts, and no new one when it
// is undone.
func (p *Past) Settle(regions []plan.Region, seal *plan.Seal) {
	for _, r := range regions {
		name := r.Snapshot.Region
		p.settled[name] = asItWas(r.Snapshot, p.settled[name], p.left[name])
		p.remember(p.settled[name], seal, true)
	}
}

// Written notes that we write to the regions of these steps: from then on it is not known how they
// were, but for what is left as it is and the steps do not concern.
func (p *Past) Written(steps []plan.Step) {
	touched := map[string]map[string]bool{}
	for _, s := range steps {
		p.memory[s.Scope.Region].recorded(s.Op)
		if touched[s.Scope.Region] == nil {
			touched[s.Scope.Region] = map[string]bool{}
		}
		for _, id := range s.Op.Subjects() {
			touched[s.Scope.Region][id] = true
		}
	}
	for name, ids := range touched {
		base := p.settled[name]
		delete(p.settled, name)
		left := maps.Clone(p.left[name])
		maps.DeleteFunc(left, func(id string, _ bool) bool { return ids[id] })
		if base != nil && len(left) > 0 {
			p.settled[name] = only(base, left)
		}
	}
}

// asItWas returns the snapshot with some objects as they were in an earlier one.
func asItWas(now, base *cloud.Snapshot, ids map[string]bool) *cloud.Snapshot {
	if base == nil || len(ids) == 0 {
		return now
	}
	before := only(base, ids)
	out := *now
	out.Groups = replaced(now.Groups, before.Groups, func(g *cloud.Group) string { return g.ID })
	out.Interfaces = replaced(now.Interfaces, before.Interfaces, func(n *cloud.Interface) string { return n.ID })
	out.Networks = replaced(now.Networks, before.Networks, func(n *cloud.Network) string { return n.ID })
	return &out
}

func replaced[T any](in, by []T, id func(*T) string) []T {
	out := slices.Clone(in)
	for i := range out {
		for k := range by {
			if id(&by[k]) == id(&out[i]) {
				out[i] = by[k]
			}
		}
	}
	return out
}

// only is the part of a snapshot that is about some objects. The groups of its interfaces are in
// it: by them it is known what of an interface is ours. While an interface is left as it is, they
// are too.
func only(s *cloud.Snapshot, ids map[string]bool) *cloud.Snapshot {
	out := &cloud.Snapshot{Scope: s.Scope, ObservedAt: s.ObservedAt}
	held := maps.Clone(ids)
	for i := range s.Interfaces {
		if n := &s.Interfaces[i]; ids[n.ID] {
			out.Interfaces = append(out.Interfaces, *n)
			for _, g := range n.GroupIDs {
				held[g] = true
			}
		}
	}
	for i := range s.Groups {
		if held[s.Groups[i].ID] {
			out.Groups = append(out.Groups, s.Groups[i])
		}
	}
	for i := range s.Networks {
		if ids[s.Networks[i].ID] {
			out.Networks = append(out.Networks, s.Networks[i])
		}
	}
	return out
}

// ours returns a function that reports whether a group of the snapshot is ours.
func (p *Past) ours(s *cloud.Snapshot) func(group string) bool {
	out := map[string]bool{}
	for i := range s.Groups {
		if p.owns(&s.Groups[i]) {
			out[s.Groups[i].ID] = true
		}
	}
	return func(id string) bool { return out[id] }
}

// differ compares two snapshots of a region.
type differ struct {
	base, now *cloud.Snapshot
	owned     func(*cloud.Group) bool
	modes     map[plan.VMRef]plan.Mode
	found     []plan.Drift
}

func (d *differ) add(object, message string, kept bool) {
	d.found = append(d.found, plan.Drift{Region: d.base.Region, Object: object, Message: message, Kept: kept})
}

// planned reports whether an interface's VM is left as it is.
func (d *differ) planned(n *cloud.Interface) bool {
	return n.VMID != "" && d.modes[plan.VMRef{Region: d.base.Region, ID: n.VMID}].Still()
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
			d.add(g.ID, plan.LostTags+g.Name, kept[g.ID])
			continue
		}
		if is.Tags[cloud.TagPolicies] != g.Tags[cloud.TagPolicies] {
			d.add(g.ID, "somebody changed the tag "+cloud.TagPolicies+" of our group "+g.Name+", which says which policies are in force", kept[g.ID])
		}
		for _, r := range missing(g.Rules, is.Rules) {
			d.add(g.ID, "somebody removed the rule: "+r.Key().String(), kept[g.ID])
			d.found[len(d.found)-1].For = plan.Told(r)
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
	if guarded && !slices.Equal(plan.Former(n), plan.Former(is)) || !guarded && is.Tags[cloud.TagFormer] != "" {
		d.add(n.ID, "somebody changed the tag "+cloud.TagFormer+", which says what to give back", kept)
	} else if guarded && n.Tags[cloud.TagSignature] != is.Tags[cloud.TagSignature] {
		d.add(n.ID, "somebody changed the tag "+cloud.TagSignature+", which proves what to give back", kept)
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
			d.add(n.ID, "somebody changed our claim, the tag "+cloud.TagClaim+", to \""+cloud.Words(by)+"\"", by != "")
		}
	}
}
