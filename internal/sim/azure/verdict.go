package azure

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Flow is a new flow that is to be decided.
type Flow struct {
	Src, Dst End
	// Protocol is the IP protocol number; Port the destination port, where the protocol has one.
	// SrcPort is the source port; 0 represents one that the system picks.
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

// standardSourcePort represents the source port that the system picks.
const standardSourcePort = 50000

// endpoint is an End made definite.
type endpoint struct {
	located
	addr   netip.Addr // as security groups see it
	public bool       // reached through its public address
}

func (p endpoint) inside() bool { return p.nic != nil }

func (p endpoint) String() string {
	if p.inside() {
		return p.resource.id.Name() + " (" + p.addr.String() + ")"
	}
	return p.addr.String()
}

// Allowed decides a new flow by the security groups of both ends and of their subnets. It is a
// read. An error means that the flow makes no sense.
func (c Verdicts) Allowed(f Flow) (Verdict, error) {
	v, src, dst, err := c.decided(f)
	if err == nil && v.Allowed && v.Reason == "" {
		v.Reason = fmt.Sprintf("allowed: %s to %s", src, dst)
	}
	return v, err
}

// Passes is Verdict.Allowed of what Allowed returns, without words, which take longer.
func (c Verdicts) Passes(f Flow) (bool, error) {
	v, _, _, err := c.decided(f)
	return v.Allowed, err
}

// decided is Allowed without the words about what passes.
func (c Verdicts) decided(f Flow) (v Verdict, src, dst endpoint, err error) {
	src, dst, err = c.parties(c.cloud.now(), f)
	if err != nil {
		return Verdict{}, src, dst, err
	}
	if f.SrcPort == 0 {
		f.SrcPort = standardSourcePort
	}
	if src.inside() && dst.inside() && src.resource == dst.resource {
		return Verdict{Allowed: true, Reason: "allowed: both ends are one interface"}, src, dst, nil
	}
	v = Verdict{Allowed: true}
	if src.inside() {
		c.half(&v, src, dst, f, document.Outbound)
	}
	if v.Allowed && dst.inside() {
		c.half(&v, src, dst, f, document.Inbound)
	}
	return v, src, dst, nil
}

// Half decides one half of a flow: what the groups of the source say (outbound), or the groups of
// the destination. An end outside says yes. It is a read.
func (c Verdicts) Half(f Flow, out bool) (Verdict, error) {
	src, dst, err := c.parties(c.cloud.now(), f)
	if err != nil {
		return Verdict{}, err
	}
	if f.SrcPort == 0 {
		f.SrcPort = standardSourcePort
	}
	v := Verdict{Allowed: true}
	switch {
	case out && src.inside():
		c.half(&v, src, dst, f, document.Outbound)
	case !out && dst.inside():
		c.half(&v, src, dst, f, document.Inbound)
	}
	return v, nil
}

// half asks the groups of one end, in the order in which a packet meets them.
func (c Verdicts) half(v *Verdict, src, dst endpoint, f Flow, direction string) {
	own := src
	if direction == document.Inbound {
		own = dst
	}
	c.at(v, own, src, dst, f, direction)
}

// at asks the groups of an interface that a packet leaves by or comes to, whether the packet has an
// address of the interface or not.
func (c Verdicts) at(v *Verdict, own, src, dst endpoint, f Flow, direction string) {
	if c.cloud.settings.Effects.Keeps() {
		c.cloud = seenBy(c.cloud, own)
		own, src, dst = again(c.cloud, own), again(c.cloud, src), again(c.cloud, dst)
	}
	other := dst
	if direction == document.Inbound {
		other = src
	}
	var groups []string
	if g := c.groupOfSubnet(own.located); g != "" {
		groups = append(groups, g)
	}
	if own.nic.NSG != "" {
		groups = append(groups, own.nic.NSG)
	}
	if direction == document.Outbound {
		slices.Reverse(groups)
	}
	if len(groups) == 0 && direction == document.Inbound && own.public && c.standard(own.at.Public) {
		v.Allowed = false
		v.Reason = fmt.Sprintf("dropped: %s has a Standard public address, which is closed without a security group", own)
		return
	}
	for _, k := range groups {
		r := c.cloud.resources[k]
		if r == nil {
			continue
		}
		decision := c.decide(r, own, src, dst, f, direction, other)
		v.Steps = append(v.Steps, Step{r.ID, direction, decision.Name, decision.Allow})
		if !decision.Allow {
			v.Allowed = false
			v.Reason = fmt.Sprintf("dropped: %s of %s, %s of %s", decision.Name, r.id.Name(), strings.ToLower(direction), own)
			return
		}
	}
}

// groupOfSubnet is the group of the subnet by which an interface is filtered; empty if none is.
func (c Verdicts) groupOfSubnet(own located) string {
	if s := checks(c).subnetOf(own.at.Subnet); s != nil && (own.nic.Endpoint == "" || s.Endpoints) {
		return s.NSG
	}
	return ""
}

// decide finds the first rule that matches.
func (c Verdicts) decide(group *Resource, own, src, dst endpoint, f Flow, direction string, other endpoint) document.Rule {
	g := group.parsed.(*document.SecurityGroup)
	s := c.cloud.subscriptions[strings.ToLower(group.id.Subscription)]
	voids := s != nil && s.EmptyGroupsVoidRules
	platform := direction == document.Outbound && (other.addr == hostAddress || other.addr == metadataAddress)
	defaults := document.DefaultRules()
	for i := range len(g.Rules) + len(defaults) {
		r := &defaults[max(i-len(g.Rules), 0)]
		if i < len(g.Rules) {
			r = &g.Rules[i]
		}
		if r.Direction != direction || r.Protocol >= 0 && r.Protocol != f.Protocol && !(r.Protocol == 1 && f.Protocol == 58) {
			continue
		}
		if f.Protocol == 6 || f.Protocol == 17 {
			if !r.Sources.Has(f.SrcPort) || !r.Targets.Has(f.Port) {
				continue
			}
		} else if (f.Protocol != 1 && f.Protocol != 58 && f.Protocol != 50 && f.Protocol != 51) && (r.Sources != nil || r.Targets != nil) {
			continue // a protocol without ports
		}
		if voids && (c.void(&r.From) || c.void(&r.To)) {
			continue
		}
		if platform && !strings.HasPrefix(r.To.Tag, "azureplatform") {
			continue // the platform is outside of security groups, but for tags of its own
		}
		if c.matches(&r.From, src, own) && c.matches(&r.To, dst, own) {
			return *r
		}
	}
	return document.Rule{Name: "the platform", Allow: true}
}

// void reports whether a side names several groups of which one has no member.
func (c Verdicts) void(s *document.Side) bool {
	return len(s.Groups) > 1 && slices.ContainsFunc(s.Groups, func(g string) bool { return len(c.cloud.now().members[g]) == 0 })
}

// matches reports whether a side of a rule means a party. own is the end whose group it is.
func (c Verdicts) matches(s *document.Side, p, own endpoint) bool {
	switch {
	case s.Any:
		return true
	case len(s.Groups) > 0:
		return p.inside() && !p.public && slices.ContainsFunc(s.Groups, func(g string) bool {
			return slices.Contains(p.at.ASGs, g) || p.nic.Endpoint != "" && slices.Contains(groupsOf(c.cloud.resources[p.nic.Endpoint]), g)
		})
	case s.Tag == document.TagVirtualNetwork:
		in, _ := c.inTag(p.addr, own.located)
		return in
	case s.Tag == document.TagLoadBalancer:
		return p.addr == hostAddress
	case s.Tag == document.TagInternet:
		in, byDefault := c.inTag(p.addr, own.located)
		return !in || byDefault
	case s.Tag == "azureplatformimds":
		return p.addr == metadataAddress
	case s.Tag == "azureplatformdns", s.Tag == "azureplatformlkm":
		return p.addr == hostAddress
	case s.Tag != "":
		return slices.ContainsFunc(c.cloud.serviceTags[s.Tag], func(x netip.Prefix) bool { return x.Contains(p.addr) })
	}
	return slices.ContainsFunc(s.Prefixes, func(x netip.Prefix) bool { return x.Contains(p.addr) })
}

// inNetwork reports whether an address is in a network or in one that is connected to it.
func (c Verdicts) inNetwork(a netip.Addr, key string) bool {
	return slices.ContainsFunc(append([]string{key}, c.peers(key)...), func(k string) bool {
		return slices.ContainsFunc(c.spaceOf(k), func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// peers are the networks that a network is connected with: both ends have the peering, and it gives
// access.
func (c Verdicts) peers(key string) []string {
	r := c.cloud.resources[key]
	if r == nil {
		return nil
	}
	n, ok := r.parsed.(*document.Network)
	if !ok {
		return nil
	}
	var out []string
	for _, p := range n.Peerings {
		other := c.cloud.resources[p.Remote]
		if !p.Access || other == nil {
			continue
		}
		m, ok := other.parsed.(*document.Network)
		if ok && slices.ContainsFunc(m.Peerings, func(q document.Peering) bool { return q.Remote == key && q.Access }) {
			out = append(out, p.Remote)
		}
	}
	return out
}

func (c Verdicts) standard(public string) bool {
	r := c.cloud.resources[public]
	if r == nil {
		return false
	}
	sku, _ := r.Extra["sku"].(map[string]any)
	return strings.EqualFold(document.Text(sku["name"]), "Standard")
}

// parties makes both ends definite.
func (c Verdicts) parties(x *index, f Flow) (src, dst endpoint, err error) {
	srcNetwork, dstNetwork := c.networkOf(f.Src), c.networkOf(f.Dst)
	if srcNetwork == "" {
		srcNetwork = dstNetwork
	}
	if dstNetwork == "" {
		dstNetwork = srcNetwork
	}
	v6 := f.Src.Addr.Is6() || f.Dst.Addr.Is6()
	if src, err = c.endpoint(x, f.Src, srcNetwork, v6); err != nil {
		return src, dst, fmt.Errorf("source: %w", err)
	}
	if dst, err = c.endpoint(x, f.Dst, dstNetwork, v6); err != nil {
		return src, dst, fmt.Errorf("destination: %w", err)
	}
	switch {
	case !src.inside() && !dst.inside():
		return src, dst, fmt.Errorf("neither %s nor %s is an address of the cloud", src.addr, dst.addr)
	case src.addr.Is4() != dst.addr.Is4():
		return src, dst, fmt.Errorf("%s and %s are of different families", src.addr, dst.addr)
	case src.inside() && dst.inside() && !c.connected(src.nic.Network(), dst.nic.Network()) && !dst.public:
		return src, dst, fmt.Errorf("%s and %s are in networks that are not connected", src, dst)
	}
	return src, dst, nil
}

func (c Verdicts) connected(a, b string) bool { return a == b || slices.Contains(c.peers(a), b) }

func (c Verdicts) networkOf(e End) string {
	if e.Network != "" {
		return document.Key(e.Network)
	}
	if r := c.cloud.resources[document.Key(e.NIC)]; r != nil {
		if n, ok := r.parsed.(*document.NIC); ok {
			return n.Network()
		}
	}
	return ""
}

func (c Verdicts) endpoint(x *index, e End, network string, v6 bool) (endpoint, error) {
	if e.NIC != "" {
		r := c.cloud.resources[document.Key(e.NIC)]
		if r == nil {
			return endpoint{}, fmt.Errorf("there is no interface %s", e.NIC)
		}
		n, ok := r.parsed.(*document.NIC)
		if !ok {
			return endpoint{}, fmt.Errorf("%s is not an interface", e.NIC)
		}
		for i := range n.Configurations {
			at := &n.Configurations[i]
			if e.Addr.IsValid() && at.Addr == e.Addr || !e.Addr.IsValid() && at.Addr.Is6() == v6 {
				return endpoint{located{r, n, at}, at.Addr, false}, nil
			}
		}
		return endpoint{}, fmt.Errorf("interface %s has no such address", e.NIC)
	}
	if !e.Addr.IsValid() {
		return endpoint{}, fmt.Errorf("neither an interface nor an address is given")
	}
	for _, k := range append([]string{network}, c.peers(network)...) {
		if at, ok := x.private[networkAddress{k, e.Addr}]; ok {
			return endpoint{at, e.Addr, false}, nil
		}
	}
	if at, ok := x.public[e.Addr]; ok {
		// Inbound groups see the private address that the public one is translated to.
		return endpoint{at, at.at.Addr, true}, nil
	}
	return endpoint{addr: e.Addr}, nil
}

// InterfacesNamed are the ids of the interfaces that have a name, or whose virtual machine has it:
// the first one of each machine. It is a read.
func (c Verdicts) InterfacesNamed(name string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c.cloud.resources)) {
		r := c.cloud.resources[k]
		if !strings.EqualFold(r.id.Name(), name) {
			continue
		}
		switch p := r.parsed.(type) {
		case *document.NIC:
			out = append(out, r.ID)
		case *document.Machine:
			if len(p.NICs) > 0 && c.cloud.resources[p.NICs[0]] != nil {
				out = append(out, c.cloud.resources[p.NICs[0]].ID)
			}
		}
	}
	return out
}
