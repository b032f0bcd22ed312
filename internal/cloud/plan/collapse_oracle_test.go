package plan_test

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// sure is half without what need not stay allowed where a rule takes a part of all protocols, or of
// all types of ICMP, from an address.
func (v *naive) sure(nic int, d cloud.Direction, r remote, k packet) bool {
	return v.half(nic, d, r, k) && !v.sacrificed(nic, d, r, k) && !v.unseen(nic, d, r, k)
}

// sacrificed reports whether a packet is of a protocol or of a type of ICMP that is told apart only
// where it costs nothing, and the address has lost something else of "all protocols", or of ICMP,
// or of a type of it that rules name.
func (v *naive) sacrificed(nic int, d cloud.Direction, r remote, k packet) bool {
	if flow.Keeps(k.protocol, uint16(k.port)) {
		return false
	}
	icmp := k.protocol == cloud.ICMP || k.protocol == cloud.ICMPv6
	protocol, kind, code := v.named(nic, d, k)
	if code || protocol && !icmp {
		return false
	}
	byReference := v.byReference(nic, d, r, k)
	return slices.ContainsFunc(v.boundaries, func(o packet) bool {
		if byReference && (!icmp || o.protocol == k.protocol) && v.taken(nic, d, o) {
			return true // whatever family was meant
		}
		if o.protocol == cloud.ICMP && r.addr.Is6() || o.protocol == cloud.ICMPv6 && r.addr.Is4() {
			return false
		}
		if icmp && o.protocol != k.protocol || kind && o.port>>8 != k.port>>8 {
			return false
		}
		return !v.half(nic, d, r, o)
	})
}

// named reports whether rules of the interface in this direction name the protocol, the type of
// ICMP, or the code by itself.
func (v *naive) named(nic int, d cloud.Direction, k packet) (protocol, kind, code bool) {
	isolated := false
	if vm := v.NICs[nic].VM; vm >= 0 && v.VMs[vm].Selected && v.guarded[nicID(nic)] {
		var rules []orderedRule
		rules, isolated = v.rules(vm, d)
		for _, x := range rules {
			for _, s := range x.Services {
				if s.Protocol == "ICMP" && s.Type >= 0 && s.matches(k) {
					kind, code = true, code || s.Code >= 0
				}
			}
		}
	}
	for _, g := range v.NICs[nic].Groups {
		for _, rule := range v.Groups[g].Rules {
			if m := rule.Match; !isolated && rule.Direction == d && m.Protocol == k.protocol && matches(m, k) {
				protocol = true
				if k.protocol == cloud.ICMP || k.protocol == cloud.ICMPv6 {
					kind, code = kind || m.From >= 0, code || m.To >= 0
				}
			}
		}
	}
	return protocol, kind, code
}
