package plan

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// Concern completes drift with the names of the VMs that it concerns, from a snapshot in which the
// object is held as it should be, and with what it is for: as the rule says of itself, or else the
// policies of these VMs.
func Concern(all []Drift, s *cloud.Snapshot, vms []VMStatus) {
	var open []*Drift
	for i := range all {
		if d := &all[i]; d.Region == s.Region && d.VMs == "" {
			open = append(open, d)
		}
	}
	if len(open) == 0 {
		return
	}
	names, holders := map[string]string{}, map[string][]string{} // of VMs; of groups and interfaces
	for i := range s.VMs {
		names[s.VMs[i].ID] = cmp.Or(s.VMs[i].Name, s.VMs[i].ID)
	}
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		if n.VMID == "" {
			continue
		}
		for _, id := range append([]string{n.ID}, n.GroupIDs...) {
			holders[id] = append(holders[id], n.VMID)
		}
	}
	policies := map[string][]string{}
	for _, vm := range vms {
		if vm.VM.Region == s.Region {
			for _, p := range vm.Policies {
				policies[vm.VM.ID] = append(policies[vm.VM.ID], p.Short())
			}
		}
	}
	for _, d := range open {
		var named, of []string
		for _, id := range holders[d.Object] {
			named, of = append(named, cloud.Words(cmp.Or(names[id], id))), append(of, policies[id]...)
		}
		d.VMs = listedOnce(named)
		if d.For == "" {
			d.For = listedOnce(of)
		}
	}
}

func listedOnce(names []string) string {
	return cloud.Listed(slices.Compact(slices.Sorted(slices.Values(names))), false)
}

// Told is what a rule of ours says of itself; "" for others, and where it names no policy.
func Told(r cloud.Rule) string { return cloud.Words(signs.Told(r.Description)) }
