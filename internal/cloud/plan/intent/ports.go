package intent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// service is what a name means to a member that has this port; false if it is another name.
func (n namedService) service(p v1beta2.NamedPort) (flow.Service, bool) {
	protocol := cmp.Or(p.Protocol, v1beta2.ProtocolTCP)
	number := map[v1beta2.Protocol]int{v1beta2.ProtocolTCP: cloud.TCP, v1beta2.ProtocolUDP: cloud.UDP}[protocol]
	if p.Name != n.name || n.protocol != "" && n.protocol != protocol || number == 0 || p.Port < 1 || p.Port > 0xffff {
		return flow.Service{}, false
	}
	return flow.Service{Protocol: number, From: uint16(p.Port), To: uint16(p.Port)}, true
}

// divideByPorts divides the egress rules of a policy that name ports of their peers: a name means
// to each peer its own number. Beside what a rule says of ports by number, there is one rule for
// each number, whose peers are those members of the address groups that have it. Blocks of
// addresses have no names for their ports.
func (c *Account) divideByPorts(p *Policy) {
	var out []*rule
	for _, r := range p.Rules {
		if r.Direction != cloud.Egress || len(r.Named) == 0 {
			out = append(out, r)
			continue
		}
		numbered := *r
		numbered.Named, numbered.void = nil, len(r.Services) == 0
		out = append(append(out, &numbered), c.portRules(r)...)
	}
	p.Rules = out
}

// numbersOfName bounds the numbers that one name may mean, as each is a rule of its own.
const numbersOfName = 64

// portRules are the rules for the numbers that the names of a rule mean. The policy is refused if a
// name means nothing to any of the peers that there are: what it is to allow is not known then.
func (c *Account) portRules(r *rule) []*rule {
	at := map[flow.Service]*rule{}
	for _, named := range r.Named {
		members, numbers := 0, map[flow.Service]bool{}
		for _, name := range r.Groups {
			g := c.addressGroups[name]
			if g == nil {
				continue // the policy is refused for that
			}
			members += len(g.GroupMembers)
			for _, s := range named.services(g) {
				if numbers[s] = true; len(numbers) > numbersOfName {
					r.refuse(reason.Why(reason.NamedPortVaries, named.name).Counting(numbersOfName))
					return nil
				}
				if at[s] == nil {
					one := *r
					one.Services, one.Named, one.Groups, one.Blocks = []flow.Service{s}, nil, nil, addrset.Set{}
					at[s] = &one
				}
				if having := c.having(g, named, s); !slices.Contains(at[s].Groups, having) {
					at[s].Groups = append(at[s].Groups, having)
				}
			}
		}
		if members > 0 && len(numbers) == 0 {
			r.refuse(reason.Why(reason.NamedPortOfPeer, named.name))
		}
	}
	return slices.SortedFunc(maps.Values(at), func(a, b *rule) int { return a.Services[0].Compare(b.Services[0]) })
}

// services are what a name means to the members of a group, each once.
func (n namedService) services(g *v1beta2.AddressGroup) []flow.Service {
	var out []flow.Service
	for i := range g.GroupMembers {
		for _, port := range g.GroupMembers[i].Ports {
			if s, ok := n.service(port); ok && !slices.Contains(out, s) && len(out) <= numbersOfName {
				out = append(out, s)
			}
		}
	}
	return out
}

// having is the name of the group of the members of a group for which a port name means a number.
func (c *Account) having(g *v1beta2.AddressGroup, named namedService, s flow.Service) string {
	name := fmt.Sprintf("%s:%s:%s-%d", g.Name, named.name, cloud.ProtocolName(s.Protocol), s.From)
	if c.addressGroups[name] != nil {
		return name
	}
	part := &v1beta2.AddressGroup{}
	part.Name = name
	for i := range g.GroupMembers {
		if slices.ContainsFunc(g.GroupMembers[i].Ports, func(p v1beta2.NamedPort) bool {
			is, ok := named.service(p)
			return ok && is == s
		}) {
			part.GroupMembers = append(part.GroupMembers, g.GroupMembers[i])
		}
	}
	c.addressGroups[name] = part
	return name
}
