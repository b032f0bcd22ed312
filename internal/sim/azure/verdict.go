package azure

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Flow is a new flow that is to be decided.
type Flow struct {
	Src, Dst End
	// Protocol is the IP protocol number; Port the destination port, where the protocol has one.
	// SrcPort is the source port; 0 stands for one that the system picks.
	Protocol, Port, SrcPort int
}

// End is one end: an interface, or an address of or outside the cloud.
type End struct {
	// NIC is the id of an interface. Addr chooses one of its addresses; the primary one without it.
	NIC  string
	Addr netip.Addr
	// Network is the id of the virtual network in which to look for Addr; empty means that of the
	// other end.
	Network string
}

// Verdict is what becomes of a flow.
type Verdict struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	// Steps are the security groups that were asked, in order; the first one that denies ends them.
	Steps []Step `json:"steps,omitempty"`
}

// Step is what one security group says.
type Step struct {
	Group     string `json:"group"`
	Direction string `json:"direction"`
	Rule      string `json:"rule"`
	Allowed   bool   `json:"allowed"`
}

// Addresses of the platform itself: the host, and the metadata service.
var (
	hostAddress     = netip.MustParseAddr("168.63.129.16")
	metadataAddress = netip.MustParseAddr("169.254.169.254")
)

// standardSourcePort stands for the source port that the system picks.
const standardSourcePort = 50000

// party is an End made definite.
type party struct {
	located
	addr   netip.Addr // as security groups see it
	public bool       // reached through its public address
}

func (p party) inside() bool { return p.nic != nil }

func (p party) String() string {
	if p.inside() {
		return p.resource.id.Name() + " (" + p.addr.String() + ")"
	}
	return p.addr.String()
}

// Allowed decides a new flow by the security groups of both ends and of their subnets. It is a
// read. An error means that the flow makes no sense.
func (c *Cloud) Allowed(f Flow) (Verdict, error) {
	x := c.now()
	src, dst, err := c.parties(x, f)
	if err != nil {
		return Verdict{}, err
	}
	if f.SrcPort == 0 {
		f.SrcPort = standardSourcePort
	}
	if src.inside() && dst.inside() && src.resource == dst.resource {
		return Verdict{Allowed: true, Reason: "allowed: both ends are one interface"}, nil
	}
	v := Verdict{Allowed: true}
	if src.inside() {
		c.half(&v, src, dst, f, outbound)
	}
	if v.Allowed && dst.inside() {
		c.half(&v, src, dst, f, inbound)
	}
	if v.Allowed {
		v.Reason = fmt.Sprintf("allowed: %s to %s", src, dst)
	}
	return v, nil
}

// Half decides one half of a flow: what the groups of the source say (outbound), or those of the
// destination. An end outside says yes. It is a read.
func (c *Cloud) Half(f Flow, out bool) (Verdict, error) {
	src, dst, err := c.parties(c.now(), f)
	if err != nil {
		return Verdict{}, err
	}
	if f.SrcPort == 0 {
		f.SrcPort = standardSourcePort
	}
	v := Verdict{Allowed: true}
	switch {
	case out && src.inside():
		c.half(&v, src, dst, f, outbound)
	case !out && dst.inside():
		c.half(&v, src, dst, f, inbound)
	}
	return v, nil
}

// half asks the groups of one end, in the order in which a packet meets them.
func (c *Cloud) half(v *Verdict, src, dst party, f Flow, direction string) {
	if c.settings.Effects.Keeps() {
		viewer := src
		if direction == inbound {
			viewer = dst
		}
		c = seenBy(c, viewer)
		src, dst = again(c, src), again(c, dst)
	}
	own, other := src, dst
	if direction == inbound {
		own, other = dst, src
	}
	var groups []string
	if g := c.groupOfSubnet(own.located); g != "" {
		groups = append(groups, g)
	}
	if own.nic.nsg != "" {
		groups = append(groups, own.nic.nsg)
	}
	if direction == outbound {
		slices.Reverse(groups)
	}
	if len(groups) == 0 && direction == inbound && own.public && c.standard(own.at.public) {
		v.Allowed = false
		v.Reason = fmt.Sprintf("dropped: %s has a Standard public address, which is closed without a security group", own)
		return
	}
	for _, k := range groups {
		r := c.resources[k]
		if r == nil {
			continue
		}
		decision := c.decide(r, own, src, dst, f, direction, other)
		v.Steps = append(v.Steps, Step{r.ID, direction, decision.name, decision.allow})
		if !decision.allow {
			v.Allowed = false
			v.Reason = fmt.Sprintf("dropped: %s of %s, %s of %s", decision.name, r.id.Name(), strings.ToLower(direction), own)
			return
		}
	}
}

// groupOfSubnet is the group of the subnet by which an interface is filtered; empty if none is.
func (c *Cloud) groupOfSubnet(own located) string {
	if s := c.subnetOf(own.at.subnet); s != nil && (own.nic.endpoint == "" || s.endpoints) {
		return s.nsg
	}
	return ""
}

// decide finds the first rule that matches.
func (c *Cloud) decide(group *Resource, own, src, dst party, f Flow, direction string, other party) rule {
	g := group.parsed.(*securityGroup)
	s := c.subscriptions[strings.ToLower(group.id.Subscription)]
	voids := s != nil && s.EmptyGroupsVoidRules
	platform := direction == outbound && (other.addr == hostAddress || other.addr == metadataAddress)
	for _, r := range slices.Concat(g.rules, defaultRules()) {
		if r.direction != direction || r.protocol >= 0 && r.protocol != f.Protocol && !(r.protocol == 1 && f.Protocol == 58) {
			continue
		}
		if f.Protocol == 6 || f.Protocol == 17 {
			if !r.sources.has(f.SrcPort) || !r.targets.has(f.Port) {
				continue
			}
		} else if (f.Protocol != 1 && f.Protocol != 58 && f.Protocol != 50 && f.Protocol != 51) && (r.sources != nil || r.targets != nil) {
			continue // a protocol without ports
		}
		if voids && (c.void(r.from) || c.void(r.to)) {
			continue
		}
		if platform && !strings.HasPrefix(r.to.tag, "azureplatform") {
			continue // the platform is outside of security groups, but for tags of its own
		}
		if c.matches(r.from, src, own) && c.matches(r.to, dst, own) {
			return r
		}
	}
	return rule{name: "the platform", allow: true}
}

// void reports whether a side names several groups of which one has no member.
func (c *Cloud) void(s side) bool {
	members := c.now().members
	return len(s.groups) > 1 && slices.ContainsFunc(s.groups, func(g string) bool { return len(members[g]) == 0 })
}

// matches reports whether a side of a rule means a party. own is the end whose group it is.
func (c *Cloud) matches(s side, p, own party) bool {
	switch {
	case s.any:
		return true
	case len(s.groups) > 0:
		return p.inside() && !p.public && slices.ContainsFunc(s.groups, func(g string) bool {
			return slices.Contains(p.at.asgs, g) || p.nic.endpoint != "" && slices.Contains(groupsOf(c.resources[p.nic.endpoint]), g)
		})
	case s.tag == tagVirtualNetwork:
		in, _ := c.inTag(p.addr, own.located)
		return in
	case s.tag == tagLoadBalancer:
		return p.addr == hostAddress
	case s.tag == tagInternet:
		in, byDefault := c.inTag(p.addr, own.located)
		return !in || byDefault
	case s.tag == "azureplatformimds":
		return p.addr == metadataAddress
	case s.tag == "azureplatformdns", s.tag == "azureplatformlkm":
		return p.addr == hostAddress
	case s.tag != "":
		return slices.ContainsFunc(c.serviceTags[s.tag], func(x netip.Prefix) bool { return x.Contains(p.addr) })
	}
	return slices.ContainsFunc(s.prefixes, func(x netip.Prefix) bool { return x.Contains(p.addr) })
}

// inNetwork reports whether an address is in a network or in one that is connected to it.
func (c *Cloud) inNetwork(a netip.Addr, key string) bool {
	return slices.ContainsFunc(append([]string{key}, c.peers(key)...), func(k string) bool {
		return slices.ContainsFunc(c.spaceOf(k), func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// peers are the networks that a network is connected with: both ends have the peering, and it gives
// access.
func (c *Cloud) peers(key string) []string {
	r := c.resources[key]
	if r == nil {
		return nil
	}
	n, ok := r.parsed.(*network)
	if !ok {
		return nil
	}
	var out []string
	for _, p := range n.peerings {
		other := c.resources[p.remote]
		if !p.access || other == nil {
			continue
		}
		m, ok := other.parsed.(*network)
		if ok && slices.ContainsFunc(m.peerings, func(q peering) bool { return q.remote == key && q.access }) {
			out = append(out, p.remote)
		}
	}
	return out
}

func (c *Cloud) standard(public string) bool {
	r := c.resources[public]
	if r == nil {
		return false
	}
	sku, _ := r.Extra["sku"].(map[string]any)
	return strings.EqualFold(text(sku["name"]), "Standard")
}

// parties makes both ends definite.
func (c *Cloud) parties(x *index, f Flow) (src, dst party, err error) {
	srcNetwork, dstNetwork := c.networkOf(f.Src), c.networkOf(f.Dst)
	if srcNetwork == "" {
		srcNetwork = dstNetwork
	}
	if dstNetwork == "" {
		dstNetwork = srcNetwork
	}
	v6 := f.Src.Addr.Is6() || f.Dst.Addr.Is6()
	if src, err = c.party(x, f.Src, srcNetwork, v6); err != nil {
		return src, dst, fmt.Errorf("source: %w", err)
	}
	if dst, err = c.party(x, f.Dst, dstNetwork, v6); err != nil {
		return src, dst, fmt.Errorf("destination: %w", err)
	}
	switch {
	case !src.inside() && !dst.inside():
		return src, dst, fmt.Errorf("neither %s nor %s is an address of the cloud", src.addr, dst.addr)
	case src.addr.Is4() != dst.addr.Is4():
		return src, dst, fmt.Errorf("%s and %s are of different families", src.addr, dst.addr)
	case src.inside() && dst.inside() && !c.connected(src.nic.network(), dst.nic.network()) && !dst.public:
		return src, dst, fmt.Errorf("%s and %s are in networks that are not connected", src, dst)
	}
	return src, dst, nil
}

func (c *Cloud) connected(a, b string) bool { return a == b || slices.Contains(c.peers(a), b) }

func (c *Cloud) networkOf(e End) string {
	if e.Network != "" {
		return key(e.Network)
	}
	if r := c.resources[key(e.NIC)]; r != nil {
		if n, ok := r.parsed.(*nic); ok {
			return n.network()
		}
	}
	return ""
}

func (c *Cloud) party(x *index, e End, network string, v6 bool) (party, error) {
	if e.NIC != "" {
		r := c.resources[key(e.NIC)]
		if r == nil {
			return party{}, fmt.Errorf("there is no interface %s", e.NIC)
		}
		n, ok := r.parsed.(*nic)
		if !ok {
			return party{}, fmt.Errorf("%s is not an interface", e.NIC)
		}
		for i := range n.configurations {
			at := &n.configurations[i]
			if e.Addr.IsValid() && at.addr == e.Addr || !e.Addr.IsValid() && at.addr.Is6() == v6 {
				return party{located{r, n, at}, at.addr, false}, nil
			}
		}
		return party{}, fmt.Errorf("interface %s has no such address", e.NIC)
	}
	if !e.Addr.IsValid() {
		return party{}, fmt.Errorf("neither an interface nor an address is given")
	}
	for _, k := range append([]string{network}, c.peers(network)...) {
		if at, ok := x.private[networkAddress{k, e.Addr}]; ok {
			return party{at, e.Addr, false}, nil
		}
	}
	if at, ok := x.public[e.Addr]; ok {
		// Inbound groups see the private address that the public one is translated to.
		return party{at, at.at.addr, true}, nil
	}
	return party{addr: e.Addr}, nil
}

// InterfacesNamed are the ids of the interfaces that have a name, or whose virtual machine has it:
// the first one of each machine. It is a read.
func (c *Cloud) InterfacesNamed(name string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		r := c.resources[k]
		if !strings.EqualFold(r.id.Name(), name) {
			continue
		}
		switch p := r.parsed.(type) {
		case *nic:
			out = append(out, r.ID)
		case *machine:
			if len(p.nics) > 0 && c.resources[p.nics[0]] != nil {
				out = append(out, c.resources[p.nics[0]].ID)
			}
		}
	}
	return out
}
