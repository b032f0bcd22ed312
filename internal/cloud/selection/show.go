package selection

import (
	"fmt"
	"net/netip"
	"strings"
)

// shownAddresses is how many addresses of a VM stand in a list before the rest is counted.
const shownAddresses = 3

// addresses are all addresses of a VM, the private ones first, each once.
func (m machine) addresses() []netip.Addr {
	var all []netip.Addr
	seen := map[netip.Addr]bool{}
	add := func(addrs []netip.Addr) {
		for _, a := range addrs {
			if !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	for _, nic := range m.nics {
		add(nic.PrivateIPs)
	}
	for _, nic := range m.nics {
		add(nic.PublicIPs)
	}
	return all
}

// inShort names addresses in one line.
func inShort(addrs []netip.Addr) string {
	var parts []string
	for _, a := range addrs[:min(len(addrs), shownAddresses)] {
		parts = append(parts, a.String())
	}
	if more := len(addrs) - shownAddresses; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// selectable puts the labels of an entity on the VM that it represents, so that people find a VM by
// the labels that policies select. The labels that a VM has of its own stay.
func selectable(vm, entity map[string]string) {
	for key, value := range entity {
		if _, own := vm[key]; !own {
			vm[key] = value
		}
	}
}
