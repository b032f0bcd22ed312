package policy

import (
	"net/netip"
	"strconv"
)

// indexedPeer is a peer with its path in the policy.
type indexedPeer struct {
	*Peer
	path string
}

// matchAll is every address.
var matchAll = [2]netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// peers translates a list of peers; an empty list is every address.
func (t *translation) peers(d Direction, in []Peer, path string, named bool) ComputedPeer {
	list := make([]indexedPeer, len(in))
	for i := range in {
		list[i] = indexedPeer{&in[i], indexed(path, i)}
	}
	return t.indexedPeers(d, list, named)
}

func (t *translation) indexedPeers(d Direction, in []indexedPeer, named bool) ComputedPeer {
	var out ComputedPeer
	if len(in) == 0 {
		out.IPBlocks = []CIDRBlock{{CIDR: matchAll[0]}, {CIDR: matchAll[1]}}
		if d == Egress && named {
			// Enforcers look a named port up in the members of the peer, so the peer must list the
			// entities that could have it.
			out.AddressGroups = []string{t.resolver.Group(AddressGroup, terms{namespaces: &selector{}})}
		}
		return out
	}
	for _, p := range in {
		t.peer(d, p, &out)
	}
	return out
}

// peer adds one peer to out.
func (t *translation) peer(d Direction, p indexedPeer, out *ComputedPeer) {
	var name string
	switch {
	case p.IPBlock != nil:
		out.IPBlocks = append(out.IPBlocks, compileIPBlock(p.IPBlock, below(p.path, ".ipBlock"), &t.errs))
		return
	case p.Group != "":
		d := t.definition(p.Group, below(p.path, ".group"))
		if d.Usable() {
			out.IPBlocks = append(out.IPBlocks, d.IPBlocks()...)
		}
		var lists bool
		if name, lists = t.resolver.DefinedGroup(AddressGroup, NamespacedName{t.in.Namespace, p.Group}); !lists {
			return
		}
	case p.FQDN != "":
		if d == Ingress {
			t.errs.add(below(p.path, ".fqdn"), p.FQDN, "no fqdn in an ingress rule: names can be destinations only")
		}
		out.FQDNs = append(out.FQDNs, p.FQDN)
		return
	case len(p.Networks)+len(p.DomainNames) > 0:
		t.lists(d, p, out)
		return
	case p.ServiceAccount != nil:
		name = t.resolver.Group(AddressGroup, serviceAccountTerms(p.ServiceAccount))
	case p.RemoteGroup != "":
		member := &Selector{MatchExpressions: []Requirement{{Key: p.RemoteGroup, Operator: "Exists"}}}
		name = t.resolver.Group(AddressGroup, terms{remote: t.selector(member, "", &t.errs)})
	case p.NodeSelector != nil:
		name = t.resolver.Group(AddressGroup, terms{node: t.selector(p.NodeSelector, below(p.path, ".nodeSelector"), &t.errs)})
	default:
		name = t.resolver.Group(AddressGroup, t.peerTerms(p))
	}
	if out.AddressGroups == nil {
		out.AddressGroups = roomFor(t.arena, &t.nameLists, 1)
	}
	out.AddressGroups = append(out.AddressGroups, name)
}

// lists adds the networks and domain names of one peer to out.
func (t *translation) lists(d Direction, p indexedPeer, out *ComputedPeer) {
	for i, cidr := range p.Networks {
		if parsed, ok := parseCIDR(cidr, indexed(below(p.path, ".networks"), i), &t.errs); ok {
			out.IPBlocks = append(out.IPBlocks, CIDRBlock{CIDR: parsed})
		}
	}
	if d == Ingress && len(p.DomainNames) > 0 {
		t.errs.add(below(p.path, ".domainNames"), p.DomainNames[0], "no domainNames in an ingress rule: names can be destinations only")
	}
	out.FQDNs = append(out.FQDNs, p.DomainNames...)
}

// peerTerms compiles the selectors of a peer.
func (t *translation) peerTerms(p indexedPeer) terms {
	return terms{
		namespace:  t.in.Namespace,
		namespaces: t.selector(p.NamespaceSelector, below(p.path, ".namespaceSelector"), &t.errs),
		pod:        t.selector(p.PodSelector, below(p.path, ".podSelector"), &t.errs),
		external:   t.selector(p.ExternalEntitySelector, below(p.path, ".externalEntitySelector"), &t.errs),
	}
}

// compileIPBlock parses an ipBlock.
func compileIPBlock(b *IPBlock, path string, errs *errorList) CIDRBlock {
	var out CIDRBlock
	cidr, ok := parseCIDR(b.CIDR, below(path, ".cidr"), errs)
	if !ok {
		return out
	}
	out.CIDR = cidr
	for i, text := range b.Except {
		at := indexed(below(path, ".except"), i)
		except, ok := parseCIDR(text, at, errs)
		if !ok {
			continue
		}
		if except.Bits() <= cidr.Bits() || !cidr.Contains(except.Addr()) {
			errs.add(at, text, "a strict subset of "+b.CIDR)
			continue
		}
		out.Except = append(out.Except, except)
	}
	return out
}

// parseCIDR parses a CIDR, keeping host bits as written.
func parseCIDR(text, path string, errs *errorList) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		errs.add(path, text, "a CIDR, for example 10.0.0.0/8 or 2001:db8::/32")
	case p.Addr().Is4In6():
		errs.add(path, text, "an IPv4 CIDR without ::ffff:, for example 10.0.0.0/8")
	default:
		return p, true
	}
	return netip.Prefix{}, false
}

// services translates ports and protocols and reports whether a port is named.
func (t *translation) services(in *Rule, path string) (out []ServiceMatch, named bool) {
	for i := range in.Ports {
		p := &in.Ports[i]
		checkPort(p, indexed(below(path, ".ports"), i), &t.errs)
		named = named || p.Port != nil && p.Port.Name != ""
		protocol := p.Protocol
		if protocol == "" && !p.AnyProtocol {
			protocol = TCP
		}
		out = append(out, ServiceMatch{
			Protocol: protocol, Port: p.Port, EndPort: p.EndPort, SrcPort: p.SourcePort, SrcEndPort: p.SourceEndPort,
		})
	}
	for i, p := range in.Protocols {
		switch {
		case p.ICMP != nil:
			at := below(indexed(below(path, ".protocols"), i), ".icmp")
			checkRange(p.ICMP.Type, 0, 255, below(at, ".icmpType"), &t.errs)
			checkRange(p.ICMP.Code, 0, 255, below(at, ".icmpCode"), &t.errs)
			out = append(out, ServiceMatch{Protocol: ICMP, ICMPType: p.ICMP.Type, ICMPCode: p.ICMP.Code})
		case p.IGMP != nil:
			out = append(out, ServiceMatch{Protocol: IGMP, IGMPType: p.IGMP.Type, GroupAddress: p.IGMP.GroupAddress})
		default:
			t.errs.given(indexed(below(path, ".protocols"), i), "nothing", "icmp or igmp")
		}
	}
	return out, named
}

// checkPort checks one port of a rule.
func checkPort(p *Port, path string, errs *errorList) {
	switch p.Protocol {
	case "", TCP, UDP, SCTP:
	default:
		errs.add(below(path, ".protocol"), string(p.Protocol), "one of TCP, UDP, SCTP")
	}
	if p.Port != nil && p.Port.Name == "" {
		checkRange(&p.Port.Number, 1, 65535, below(path, ".port"), errs)
	}
	checkRange(p.SourcePort, 1, 65535, below(path, ".sourcePort"), errs)
	if p.EndPort != nil {
		switch {
		case p.Port == nil:
			errs.add(below(path, ".endPort"), strconv.Itoa(int(*p.EndPort)), "no endPort without port")
		case p.Port.Name != "":
			errs.add(below(path, ".endPort"), strconv.Itoa(int(*p.EndPort)), "no endPort with a named port")
		default:
			checkRange(p.EndPort, p.Port.Number, 65535, below(path, ".endPort"), errs)
		}
	}
	if p.SourceEndPort != nil {
		if p.SourcePort == nil {
			errs.add(below(path, ".sourceEndPort"), strconv.Itoa(int(*p.SourceEndPort)), "no sourceEndPort without sourcePort")
		} else {
			checkRange(p.SourceEndPort, *p.SourcePort, 65535, below(path, ".sourceEndPort"), errs)
		}
	}
}

// checkRange checks an optional number.
func checkRange(v *int32, low, high int32, path string, errs *errorList) {
	if v != nil && (*v < low || *v > high) {
		errs.add(path, strconv.Itoa(int(*v)), "a number from "+strconv.Itoa(int(low))+" to "+strconv.Itoa(int(high)))
	}
}

// CheckIPBlock returns what is wrong with an ipBlock.
func CheckIPBlock(b *IPBlock, path string) []FieldError {
	var errs errorList
	compileIPBlock(b, path, &errs)
	return errs.list
}

// CheckPort returns what is wrong with a port.
func CheckPort(p *Port, path string) []FieldError {
	var errs errorList
	checkPort(p, path, &errs)
	return errs.list
}
