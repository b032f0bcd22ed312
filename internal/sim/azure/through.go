package azure

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Passage is what becomes of a new flow to the front end of a load balancer or gateway.
type Passage struct {
	// Entry is the way to the front end.
	Entry Verdict
	// Preserved tells that targets see the client's address.
	Preserved bool
	// Targets are those that it may be handed to; none if no one listens, or no one is behind it.
	Targets []TargetPassage
	// Listens tells that something listens there.
	Listens bool
}

// TargetPassage is the way on to a target.
type TargetPassage struct {
	Addr netip.Addr
	// NIC is the interface that has the address; empty if none does.
	NIC  string
	Port int
	// Verdict is what becomes of the traffic, and Health of a health check; nil if there are none.
	Verdict Verdict
	Health  *Verdict
	// From is the address that the target sees, and Prober that of the health checks.
	From, Prober netip.Addr
}

// Through follows a flow whose destination is the front end of a load balancer or of an application
// gateway; false if it is none. The security groups of the client see the address of the front end,
// the groups of a target its own address. A load balancer keeps the client's address, and its
// health checks come from the host; a gateway sends both from an instance in its subnet, whose
// group is asked as well. It is a read.
func (c Verdicts) Through(f Flow) (Passage, bool, error) {
	x := c.cloud.now()
	network := c.networkOf(f.Dst)
	if network == "" {
		network = c.networkOf(f.Src)
	}
	for _, k := range slices.Sorted(maps.Keys(c.cloud.resources)) {
		r := c.cloud.resources[k]
		b, ok := r.parsed.(*document.Relay)
		if !ok {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(b.Fronts)) {
			at, public := b.Fronts[name].Addr, false
			if p := c.cloud.resources[b.Fronts[name].Public]; p != nil {
				at, public = publicAddress(p), true
			}
			id, _ := document.ParseID(b.Fronts[name].Subnet)
			inside := len(id.Types) == 2 && id.Parent().Key() == network
			if at != f.Dst.Addr || !public && !inside {
				continue
			}
			out, err := c.through(x, f, r, b, name, public)
			return out, true, err
		}
	}
	return Passage{}, false, nil
}

// instance is an address of a gateway in its subnet: the last one that there is.
func (c Verdicts) instance(r *Resource, b *document.Relay) (endpoint, bool) {
	for _, subnet := range b.Subnets {
		s := checks(c).subnetOf(subnet)
		if s == nil || len(s.Prefixes) == 0 {
			continue
		}
		a := s.Prefixes[0].Addr()
		for s.Prefixes[0].Contains(a.Next().Next()) {
			a = a.Next()
		}
		n := &document.NIC{Configurations: []document.Configuration{{Addr: a, Subnet: subnet}}}
		return endpoint{located{r, n, &n.Configurations[0]}, a, false}, true
	}
	return endpoint{}, false
}

func (c Verdicts) through(x *index, f Flow, r *Resource, b *document.Relay, front string, public bool) (Passage, error) {
	src, err := c.endpoint(x, f.Src, c.networkOf(f.Src), f.Dst.Addr.Is6())
	if err != nil {
		return Passage{}, err
	}
	if f.SrcPort == 0 {
		f.SrcPort = standardSourcePort
	}
	out := Passage{Entry: Verdict{Allowed: true}, Preserved: !b.Gateway}
	to := endpoint{addr: f.Dst.Addr}
	if src.inside() {
		c.half(&out.Entry, src, to, f, document.Outbound)
	}
	sender, known := c.instance(r, b)
	if b.Gateway && known && out.Entry.Allowed {
		in := sender
		if !public {
			in.addr = f.Dst.Addr
		}
		c.half(&out.Entry, src, in, f, document.Inbound)
	}
	prober := sender
	if !b.Gateway {
		sender, prober = src, endpoint{addr: hostAddress}
	}
	for _, rule := range b.Rules {
		takes := rule.Protocol == f.Protocol || rule.Protocol < 0 && (f.Protocol == 6 || f.Protocol == 17)
		if rule.Front != front || !takes || rule.Port != 0 && rule.Port != f.Port {
			continue
		}
		out.Listens = true
		for _, at := range c.behind(x, rule, r) {
			t := TargetPassage{Addr: at.addr, Port: rule.To, Verdict: Verdict{Allowed: true}, From: sender.addr, Prober: prober.addr}
			if t.Port == 0 {
				t.Port = f.Port
			}
			if at.inside() {
				t.NIC = at.resource.ID
			}
			c.handed(&t.Verdict, sender, at, Flow{Protocol: f.Protocol, Port: t.Port, SrcPort: f.SrcPort}, b.Gateway)
			if rule.Probe != 0 {
				t.Health = &Verdict{Allowed: true}
				c.handed(t.Health, prober, at, Flow{Protocol: 6, Port: rule.Probe, SrcPort: standardSourcePort}, b.Gateway)
			}
			out.Targets = append(out.Targets, t)
		}
		break
	}
	return out, nil
}

// handed decides the way on to a target: what leaves a gateway is asked about in its subnet.
func (c Verdicts) handed(v *Verdict, from, to endpoint, f Flow, gateway bool) {
	if gateway && from.inside() {
		c.half(v, from, to, f, document.Outbound)
	}
	if v.Allowed && to.inside() {
		c.half(v, from, to, f, document.Inbound)
	}
	if !gateway && from.inside() && to.inside() && from.resource == to.resource {
		*v = Verdict{Reason: "dropped: a load balancer does not hand " + from.String() + " its own flow"}
	}
	// What is behind a load balancer of the Standard kind, and has no group, is closed to others
	// than its network.
	if v.Allowed && len(v.Steps) == 0 && !gateway && to.inside() && from.addr != hostAddress && !c.inNetwork(from.addr, to.nic.Network()) {
		*v = Verdict{Reason: "dropped: " + to.String() + " is behind a load balancer and has no security group"}
	}
}

// behind are those that a rule hands on to, in the order of their addresses.
func (c Verdicts) behind(x *index, rule document.RelayRule, r *Resource) []endpoint {
	var out []endpoint
	for _, k := range slices.Sorted(maps.Keys(c.cloud.resources)) {
		n, ok := c.cloud.resources[k].parsed.(*document.NIC)
		if !ok {
			continue
		}
		for i := range n.Configurations {
			at := &n.Configurations[i]
			id := c.cloud.resources[k].id.Child("ipConfigurations", at.Name).Key()
			if slices.Contains(rule.Configurations, id) || slices.ContainsFunc(at.Pools, func(p string) bool { return slices.Contains(rule.Pools, p) }) {
				out = append(out, endpoint{located{c.cloud.resources[k], n, at}, at.Addr, false})
			}
		}
	}
	for _, a := range rule.Hosts {
		at := endpoint{addr: a}
		for k, found := range x.private {
			id, ok := document.ParseID(k.network)
			if ok && k.addr == a && strings.EqualFold(id.Subscription, r.id.Subscription) {
				at = endpoint{found, a, false}
			}
		}
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b endpoint) int { return a.addr.Compare(b.addr) })
	return slices.CompactFunc(out, func(a, b endpoint) bool { return a.addr == b.addr })
}
