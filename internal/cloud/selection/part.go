package selection

import (
	"maps"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Part returns what Compute would, but of the objects only the ones of the VMs with these ids, and
// of the networks. last is what was computed before from the snapshots before, which differ from
// the view's in nothing else. gone are the objects that these VMs had.
func Part(v View, last Tally, before []*cloud.Snapshot, changed map[string]bool) (d, gone Desired) {
	gone, d = newDesired(len(v.Selectors)), newDesired(len(v.Selectors))
	former := v
	former.Snapshots = before
	for i := range v.Snapshots {
		gone.addMachines(former, before[i], changed)
		d.addMachines(v, v.Snapshots[i], changed)
	}
	d.Tally = last.exchange(gone.Tally, d.Tally)
	d.addNetworks(v)
	return d, gone
}

// exchange takes from a tally what is gone and adds what has come. It changes none of the three.
func (t Tally) exchange(gone, come Tally) Tally {
	out := Tally{ServiceRefs: t.ServiceRefs, Clashes: come.Clashes, VMRefs: maps.Clone(t.VMRefs), Regions: maps.Clone(t.Regions), inNetwork: maps.Clone(t.inNetwork)}
	for i, s := range t.Selected {
		s.VMs += come.Selected[i].VMs - gone.Selected[i].VMs
		s.Unheeded += come.Selected[i].Unheeded - gone.Selected[i].Unheeded
		out.Selected = append(out.Selected, s)
	}
	for region := range t.Regions {
		out.count(region, func(c *Counts) { c.VMs += come.Regions[region].VMs - gone.Regions[region].VMs })
	}
	for id, n := range gone.inNetwork {
		out.inNetwork[id] -= n
	}
	for id, n := range come.inNetwork {
		out.inNetwork[id] += n
	}
	for key := range gone.VMRefs {
		delete(out.VMRefs, key)
	}
	maps.Copy(out.VMRefs, come.VMRefs)
	return out
}
