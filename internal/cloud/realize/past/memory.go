package past

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// memory is what the interfaces of a region that hold groups of ours had before, by interface. A
// record in tags that says something else was changed by somebody, for we write a record once. With
// the memory, and after a restart with the tags and their signature alone, a record that somebody
// changes while we run is put right.
type memory map[string]formerly

// formerly is what an interface had before it was taken over.
type formerly struct {
	groups []string
	// views holds the views of the groups that are shown for this interface alone, as they were
	// when the record was last right. A cloud shows them only as long as the record names them.
	views []cloud.Group
}

// Remembering returns the regions with what is remembered of interfaces whose record somebody has
// changed: the groups, and what they mean where the snapshot does not show it any more. Nothing is
// remembered of a region that we may not write to now.
func (p *Past) Remembering(regions []plan.Region, seal *plan.Seal, mayWrite func(region string) bool) []plan.Region {
	out := slices.Clone(regions)
	for i := range out {
		r := &out[i]
		if !mayWrite(r.Snapshot.Region) {
			delete(p.memory, r.Snapshot.Region) // somebody else may write records now
			continue
		}
		known := p.remember(r.Snapshot, seal, false)
		r.Former = map[string][]string{}
		var views []cloud.Group
		for k := range r.Snapshot.Interfaces {
			n := &r.Snapshot.Interfaces[k]
			if f, ok := known[n.ID]; ok && p.changed(f, n, r.Snapshot.Region, seal) {
				r.Former[n.ID] = f.groups
				views = append(views, f.views...)
			}
		}
		if len(views) > 0 {
			r.Snapshot = r.Snapshot.WithGroups(views)
		}
	}
	return out
}

// changed reports whether the record of an interface is not what is remembered, or not believed.
func (p *Past) changed(known formerly, n *cloud.Interface, region string, seal *plan.Seal) bool {
	return !slices.Equal(known.groups, plan.Former(n)) || known.groups != nil && !seal.Believes(region, n)
}

// remember keeps what the interfaces of a snapshot that hold groups of ours record, and forgets
// those that hold none, and all of a region while we may not write to it. What is remembered
// stays, for a record that is proven may be an older one. Of the others, a proven record is
// remembered at once, and one that is only believed when all is as planned.
func (p *Past) remember(s *cloud.Snapshot, seal *plan.Seal, asPlanned bool) memory {
	before, ours := p.memory[s.Region], p.ours(s)
	shown := map[string]*cloud.Group{}
	for i := range s.Groups {
		if g := &s.Groups[i]; g.View {
			shown[g.ID] = g
		}
	}
	now := make(memory, len(before))
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		if !slices.ContainsFunc(n.GroupIDs, ours) {
			continue
		}
		f, known := before[n.ID]
		switch {
		case known:
		case asPlanned && credible(seal, s.Region, n, ours), seal.Proves(s.Region, n):
			f.groups = plan.Former(n)
		default:
			continue
		}
		if slices.Equal(f.groups, plan.Former(n)) {
			f.views = nil
			for _, id := range f.groups {
				if g := shown[id]; g != nil {
					f.views = append(f.views, *g)
				}
			}
		}
		now[n.ID] = f
	}
	p.memory[s.Region] = now
	return now
}

// recorded notes that we write records: an interface that needed none gets one, or one is given
// back.
func (m memory) recorded(op cloud.Op) {
	if _, record := op.Tags[cloud.TagFormer]; !record || op.Kind != cloud.OpTag && op.Kind != cloud.OpUntag {
		return
	}
	for _, id := range op.Subjects() {
		if op.Kind == cloud.OpUntag || m[id].groups == nil {
			delete(m, id)
		}
	}
}

// credible reports whether what an interface records while all is as planned is what it had.
func credible(seal *plan.Seal, region string, n *cloud.Interface, ours func(group string) bool) bool {
	switch {
	case seal == nil:
		return true
	case plan.Former(n) == nil: // it needs no record as long as it has groups of its own
		return slices.ContainsFunc(n.GroupIDs, func(id string) bool { return !ours(id) })
	}
	return seal.Believes(region, n)
}
