package selection

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// specificity orders the ways in which an entry of a selector can mean a VM; of several entries the
// most specific one says whether the VM has an agent.
type specificity int

const (
	notSelected specificity = iota
	byTag
	byVPC
	byName
	byVPCAndName
	byID
)

// selectEntry tells whether and how an entry selects the VM. network is the VM's; it may be nil if
// the snapshot does not show it.
func selectEntry(e v1alpha1.VirtualMachineSelector, vm *cloud.VM, network *cloud.Network) specificity {
	how := notSelected
	if len(e.TagMatch) > 0 {
		how = byTag
		for _, t := range e.TagMatch {
			value, ok := vm.Tags[t.Key]
			if !ok || (len(t.Values) > 0 && !slices.Contains(t.Values, value)) {
				return notSelected
			}
		}
	}
	if e.VpcMatch != nil {
		name := ""
		if network != nil {
			name = network.Name
		}
		if !matches(*e.VpcMatch, vm.NetworkID, name) {
			return notSelected
		}
		how = byVPC
	}
	if len(e.VMMatch) > 0 {
		best := notSelected
		for _, m := range e.VMMatch {
			switch {
			case !matches(m, vm.ID, vm.Name):
			case m.MatchID != "":
				best = max(best, byID)
			case e.VpcMatch != nil:
				best = max(best, byVPCAndName)
			default:
				best = max(best, byName)
			}
		}
		if best == notSelected {
			return notSelected
		}
		how = best
	}
	return how
}

// matches compares exactly. A match that asks for nothing matches nothing.
func matches(m v1alpha1.EntityMatch, id, name string) bool {
	switch {
	case m.MatchID != "" && m.MatchName != "":
		return cloud.SameID(id, m.MatchID) && m.MatchName == name
	case m.MatchID != "":
		return cloud.SameID(id, m.MatchID)
	case m.MatchName != "":
		return m.MatchName == name
	}
	return false
}

// Check returns what is wrong with a selector, in words; "" if nothing is. The schema
// refuses most of it, but not for selectors that are older than the schema.
func Check(s *v1alpha1.CloudEntitySelector) string {
	for i, e := range s.Spec.VMSelector {
		at := fmt.Sprintf("spec.vmSelector[%d]", i)
		if e.VpcMatch == nil && len(e.VMMatch) == 0 && len(e.TagMatch) == 0 {
			return at + ": one of vpcMatch, vmMatch and tagMatch must be set"
		}
		if e.VpcMatch != nil && *e.VpcMatch == (v1alpha1.EntityMatch{}) {
			return at + ".vpcMatch: one of matchID and matchName must be set"
		}
		for j, m := range e.VMMatch {
			if m == (v1alpha1.EntityMatch{}) {
				return fmt.Sprintf("%s.vmMatch[%d]: one of matchID and matchName must be set", at, j)
			}
		}
	}
	return cmp.Or(checkNative(s), checkInterfaces(s))
}

// choice is what the selectors of one namespace decide about one VM.
type choice struct {
	// selector is the name of the first selector, by name, that selects the VM.
	selector string
	agented  bool
}

// choose returns for each namespace with a selector that selects the VM what it decides. selectors
// are sorted by name within a namespace.
func choose(selectors []v1alpha1.CloudEntitySelector, vm *cloud.VM, network *cloud.Network, count func(selector int)) map[string]choice {
	chosen := map[string]choice{}
	best := map[string]specificity{}
	for i := range selectors {
		s := &selectors[i]
		selected := false
		for _, e := range s.Spec.VMSelector {
			how := selectEntry(e, vm, network)
			if how == notSelected {
				continue
			}
			selected = true
			c, known := chosen[s.Namespace]
			if !known {
				c.selector = s.Name
			}
			if how > best[s.Namespace] {
				best[s.Namespace], c.agented = how, e.Agented
			}
			chosen[s.Namespace] = c
		}
		if selected {
			count(i)
		}
	}
	return chosen
}

// Sort brings selectors into the order that the choice between them depends on.
func Sort(s []v1alpha1.CloudEntitySelector) {
	slices.SortFunc(s, func(a, b v1alpha1.CloudEntitySelector) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// NetworksOf returns the networks that selectors name; false if one of them may select something
// anywhere.
func NetworksOf(selectors []v1alpha1.CloudEntitySelector) ([]cloud.NetworkMatch, bool) {
	out := []cloud.NetworkMatch{}
	add := func(match *v1alpha1.EntityMatch) bool {
		if match == nil {
			return false
		}
		m := cloud.NetworkMatch{ID: match.MatchID, Name: match.MatchName}
		if m != (cloud.NetworkMatch{}) && !slices.Contains(out, m) {
			out = append(out, m)
		}
		return true
	}
	for i := range selectors {
		for _, e := range selectors[i].Spec.VMSelector {
			if !add(e.VpcMatch) {
				return nil, false
			}
		}
		for _, e := range selectors[i].Spec.NativeSelector {
			if !add(e.VpcMatch) {
				return nil, false
			}
		}
		for _, e := range selectors[i].Spec.InterfaceSelector {
			if !add(e.VpcMatch) {
				return nil, false
			}
		}
	}
	return out, true
}
