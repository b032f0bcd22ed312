package translate

import (
	"net/netip"
	"strconv"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/slab"
)

// indexedPeer is a peer with its path in the policy.
type indexedPeer struct {
	*policy.Peer
	path string
}

// matchAll is every address.
var matchAll = [2]netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// peers translates a list of peers; an empty list is every address.
func (t *translation) peers(d policy.Direction, in []policy.Peer, path string, named bool) policy.ComputedPeer {
	list := make([]indexedPeer, len(in))
	for i := range in {
		list[i] = indexedPeer{&in[i], policy.Indexed(path, i)}
	}
	return t.indexedPeers(d, list, named)
}

func (t *translation) indexedPeers(d policy.Direction, in []indexedPeer, named bool) policy.ComputedPeer {
	var out policy.ComputedPeer
	if len(in) == 0 {
		out.IPBlocks = []policy.CIDRBlock{{CIDR: matchAll[0]}, {CIDR: matchAll[1]}}
		if d == policy.Egress && named {
			// Enforcers look a named port up in the members of the peer, so the peer must list the
			// entities that could have it.
			out.AddressGroups = []string{t.resolver.Group(policy.AddressGroup, selectors.Terms{Namespaces: &selectors.Selector{}})}
		}
		return out
	}
	for _, p := range in {
		t.peer(d, p, &out)
	}
	return out
}

// peer adds one peer to out.
func (t *translation) peer(d policy.Direction, p indexedPeer, out *policy.ComputedPeer) {
	var name string
	switch {
	case p.IPBlock != nil:
		out.IPBlocks = append(out.IPBlocks, CompileIPBlock(p.IPBlock, policy.Below(p.path, ".ipBlock"), &t.errs))
		return
	case p.Group != "":
		d := t.definition(p.Group, policy.Below(p.path, ".group"))
		if d.Usable() {
			out.IPBlocks = append(out.IPBlocks, d.IPBlocks()...)
		}
		var lists bool
		if name, lists = t.resolver.DefinedGroup(policy.AddressGroup, policy.NamespacedName{Namespace: t.in.Namespace, Name: p.Group}); !lists {
			return
		}
	case p.FQDN != "":
		if d == policy.Ingress {
			t.errs.Add(policy.Below(p.path, ".fqdn"), p.FQDN, "no fqdn in an ingress rule: names can be destinations only")
		}
		out.FQDNs = append(out.FQDNs, p.FQDN)
		return
	case len(p.Networks)+len(p.DomainNames) > 0:
		t.lists(d, p, out)
		return
	case p.ServiceAccount != nil:
		name = t.resolver.Group(policy.AddressGroup, serviceAccountTerms(p.ServiceAccount))
	case p.RemoteGroup != "":
		member := &policy.Selector{MatchExpressions: []policy.Requirement{{Key: p.RemoteGroup, Operator: "Exists"}}}
		name = t.resolver.Group(policy.AddressGroup, selectors.Terms{Remote: t.selector(member, "", &t.errs)})
	case p.NodeSelector != nil:
		name = t.resolver.Group(policy.AddressGroup, selectors.Terms{Node: t.selector(p.NodeSelector, policy.Below(p.path, ".nodeSelector"), &t.errs)})
	default:
		name = t.resolver.Group(policy.AddressGroup, t.peerTerms(p))
	}
	if out.AddressGroups == nil {
		out.AddressGroups = slab.Room(t.arena, &t.nameLists, 1)
	}
	out.AddressGroups = append(out.AddressGroups, name)
}

// lists adds the networks and domain names of one peer to out.
func (t *translation) lists(d policy.Direction, p indexedPeer, out *policy.ComputedPeer) {
	for i, cidr := range p.Networks {
		if parsed, ok := parseCIDR(cidr, policy.Indexed(policy.Below(p.path, ".networks"), i), &t.errs); ok {
			out.IPBlocks = append(out.IPBlocks, policy.CIDRBlock{CIDR: parsed})
		}
	}
	if d == policy.Ingress && len(p.DomainNames) > 0 {
		t.errs.Add(policy.Below(p.path, ".domainNames"), p.DomainNames[0], "no domainNames in an ingress rule: names can be destinations only")
	}
	out.FQDNs = append(out.FQDNs, p.DomainNames...)
}

// peerTerms compiles the selectors of a peer.
func (t *translation) peerTerms(p indexedPeer) selectors.Terms {
	return selectors.Terms{
		Namespace:  t.in.Namespace,
		Namespaces: t.selector(p.NamespaceSelector, policy.Below(p.path, ".namespaceSelector"), &t.errs),
		Pod:        t.selector(p.PodSelector, policy.Below(p.path, ".podSelector"), &t.errs),
		External:   t.selector(p.ExternalEntitySelector, policy.Below(p.path, ".externalEntitySelector"), &t.errs),
	}
}

// CompileIPBlock parses an ipBlock.
func CompileIPBlock(b *policy.IPBlock, path string, errs *policy.ErrorList) policy.CIDRBlock {
	var out policy.CIDRBlock
	cidr, ok := parseCIDR(b.CIDR, policy.Below(path, ".cidr"), errs)
	if !ok {
		return out
	}
	out.CIDR = cidr
	for i, text := range b.Except {
		at := policy.Indexed(policy.Below(path, ".except"), i)
		except, ok := parseCIDR(text, at, errs)
		if !ok {
			continue
		}
		if except.Bits() <= cidr.Bits() || !cidr.Contains(except.Addr()) {
			errs.Add(at, text, "a strict subset of "+b.CIDR)
			continue
		}
		out.Except = append(out.Except, except)
	}
	return out
}

// parseCIDR parses a CIDR, keeping host bits as written.
func parseCIDR(text, path string, errs *policy.ErrorList) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		errs.Add(path, text, "a CIDR, for example 10.0.0.0/8 or 2001:db8::/32")
	case p.Addr().Is4In6():
		errs.Add(path, text, "an IPv4 CIDR without ::ffff:, for example 10.0.0.0/8")
	default:
		return p, true
	}
	return netip.Prefix{}, false
}

// services translates ports and protocols and reports whether a port is named.
func (t *translation) services(in *policy.Rule, path string) (out []policy.ServiceMatch, named bool) {
	for i := range in.Ports {
		p := &in.Ports[i]
		checkPort(p, policy.Indexed(policy.Below(path, ".ports"), i), &t.errs)
		named = named || p.Port != nil && p.Port.Name != ""
		protocol := p.Protocol
		if protocol == "" && !p.AnyProtocol {
			protocol = policy.TCP
		}
		out = append(out, policy.ServiceMatch{
			Protocol: protocol, Port: p.Port, EndPort: p.EndPort, SrcPort: p.SourcePort, SrcEndPort: p.SourceEndPort,
		})
	}
	for i, p := range in.Protocols {
		switch {
		case p.ICMP != nil:
			at := policy.Below(policy.Indexed(policy.Below(path, ".protocols"), i), ".icmp")
			checkRange(p.ICMP.Type, 0, 255, policy.Below(at, ".icmpType"), &t.errs)
			checkRange(p.ICMP.Code, 0, 255, policy.Below(at, ".icmpCode"), &t.errs)
			out = append(out, policy.ServiceMatch{Protocol: policy.ICMP, ICMPType: p.ICMP.Type, ICMPCode: p.ICMP.Code})
		case p.IGMP != nil:
			out = append(out, policy.ServiceMatch{Protocol: policy.IGMP, IGMPType: p.IGMP.Type, GroupAddress: p.IGMP.GroupAddress})
		default:
			t.errs.Given(policy.Indexed(policy.Below(path, ".protocols"), i), "nothing", "icmp or igmp")
		}
	}
	return out, named
}

// checkPort checks one port of a rule.
func checkPort(p *policy.Port, path string, errs *policy.ErrorList) {
	switch p.Protocol {
	case "", policy.TCP, policy.UDP, policy.SCTP:
	default:
		errs.Add(policy.Below(path, ".protocol"), string(p.Protocol), "one of TCP, UDP, SCTP")
	}
	if p.Port != nil && p.Port.Name == "" {
		checkRange(&p.Port.Number, 1, 65535, policy.Below(path, ".port"), errs)
	}
	checkRange(p.SourcePort, 1, 65535, policy.Below(path, ".sourcePort"), errs)
	if p.EndPort != nil {
		switch {
		case p.Port == nil:
			errs.Add(policy.Below(path, ".endPort"), strconv.Itoa(int(*p.EndPort)), "no endPort without port")
		case p.Port.Name != "":
			errs.Add(policy.Below(path, ".endPort"), strconv.Itoa(int(*p.EndPort)), "no endPort with a named port")
		default:
			checkRange(p.EndPort, p.Port.Number, 65535, policy.Below(path, ".endPort"), errs)
		}
	}
	if p.SourceEndPort != nil {
		if p.SourcePort == nil {
			errs.Add(policy.Below(path, ".sourceEndPort"), strconv.Itoa(int(*p.SourceEndPort)), "no sourceEndPort without sourcePort")
		} else {
			checkRange(p.SourceEndPort, *p.SourcePort, 65535, policy.Below(path, ".sourceEndPort"), errs)
		}
	}
}

// checkRange checks an optional number.
func checkRange(v *int32, low, high int32, path string, errs *policy.ErrorList) {
	if v != nil && (*v < low || *v > high) {
		errs.Add(path, strconv.Itoa(int(*v)), "a number from "+strconv.Itoa(int(low))+" to "+strconv.Itoa(int(high)))
	}
}

// CheckIPBlock returns what is wrong with an ipBlock.
func CheckIPBlock(b *policy.IPBlock, path string) []policy.FieldError {
	var errs policy.ErrorList
	CompileIPBlock(b, path, &errs)
	return errs.List
}

// CheckPort returns what is wrong with a port.
func CheckPort(p *policy.Port, path string) []policy.FieldError {
	var errs policy.ErrorList
	checkPort(p, path, &errs)
	return errs.List
}
