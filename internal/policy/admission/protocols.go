package admission

import (
	"net/netip"

	"github.com/nephele-io/nephele/internal/policy"
)

// multicast checks rules about multicast traffic: IGMP, and egress to multicast addresses.
func (c *checker) multicast(d policy.Direction, r *policy.Rule, path string) {
	hasIGMP, hasICMP := false, false
	for i, p := range r.Protocols {
		hasICMP = hasICMP || p.ICMP != nil
		if p.IGMP == nil {
			continue
		}
		hasIGMP = true
		if g := p.IGMP.GroupAddress; g != "" {
			if a, err := netip.ParseAddr(g); err != nil || !a.IsMulticast() {
				c.add(at(path+".protocols", i)+".igmp.groupAddress", g, "a multicast address, for example 224.0.0.22")
			}
		}
	}
	if hasIGMP {
		if r.Action == policy.Pass || r.Action == policy.Reject {
			c.add(path+".action", string(r.Action), "Allow or Drop in a rule about IGMP")
		}
		if hasICMP || len(r.Ports)+len(r.ToServices)+len(r.Peers) > 0 {
			c.add(path+".protocols", "igmp", "no icmp, ports, toServices, from or to in a rule about IGMP")
		}
	}
	if d == policy.Ingress {
		return
	}
	multi, uni, selecting := 0, 0, 0
	for i := range r.Peers {
		b := r.Peers[i].IPBlock
		if b == nil {
			selecting++
			continue
		}
		if isMulticast(b.CIDR) {
			multi++
		} else {
			uni++
		}
	}
	if multi == 0 {
		return
	}
	if r.Action == policy.Pass || r.Action == policy.Reject {
		c.add(path+".action", string(r.Action), "Allow or Drop in a rule to multicast addresses")
	}
	if uni+selecting > 0 {
		c.given(path+".to", "multicast ipBlocks and other peers", "either multicast ipBlocks only, or no multicast ipBlock")
	}
}

func isMulticast(cidr string) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && p.Addr().IsMulticast()
}

// l7 checks application protocols.
func (c *checker) l7(r *policy.Rule, path string) {
	if len(r.L7Protocols) == 0 {
		return
	}
	path += ".l7Protocols"
	if r.Action != policy.Allow {
		c.given(path, "l7Protocols with the action "+string(r.Action), "l7Protocols only with the action Allow")
	}
	if len(r.ToServices) > 0 {
		c.given(path, "l7Protocols and toServices", "no l7Protocols together with toServices")
	}
	for i, l := range r.L7Protocols {
		if l.HTTP == nil {
			continue
		}
		for _, p := range r.Ports {
			if p.Protocol != "" && p.Protocol != policy.TCP {
				c.add(at(path, i)+".http", string(p.Protocol), "ports of TCP only, or none")
			}
		}
		if len(r.Protocols) > 0 {
			c.given(at(path, i)+".http", "http and protocols", "no icmp or igmp together with http")
		}
	}
}
