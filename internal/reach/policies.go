package reach

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// The stages of evaluation, as evaluate.CompareRules orders them.
type stage uint8

const (
	stageTiers stage = iota
	stageKubernetes
	stageBaseline
)

// rule is a rule with all that is asked of it.
type rule struct {
	policy *policy.ComputedPolicy
	rule   *policy.ComputedRule
	// index is evaluate.RuleRef.Index.
	index   int
	stage   stage
	traffic traffic
	// peers are the addresses of the other end that the rule matches, blocks the addresses among
	// them that it gives as blocks; byName tells that it matches domain names, too.
	peers, blocks addrset.Set
	byName        bool
	// unseen tells that some of its groups may have members that are not in sight.
	unseen bool
	// delegated are, by region, peers and the blocks that are delegated to them there.
	delegated map[string]addrset.Set
	// ports are, in an egress rule with named ports, the ports of its peers.
	ports []portHolders
}

// portHolders are the addresses of those for which a named port is a service.
type portHolders struct {
	service flow.Service
	holders addrset.Set
}

// policies are computed policies, indexed.
type policies struct {
	// rules are in order of evaluation; the denials of Kubernetes NetworkPolicies, which only
	// isolate, are among them.
	rules []rule
	// applied lists the rules of an applied-to group, groups the applied-to groups of an entity,
	// hosts its enforcer.
	applied map[string][]int
	groups  map[policy.EntityRef][]string
	hosts   map[policy.EntityRef]string
	// regions are those in which blocks are delegated to somebody.
	regions map[string]bool
	// outside are the addresses that no endpoint has.
	outside addrset.Set

	// setting guards sets, which are the rules of groups, and numbers, which tell them apart.
	setting sync.Mutex
	sets    map[string]*ruleSet
	numbers numbering
}

// group is an address group.
type group struct {
	addresses addrset.Set
	unseen    bool
	members   []*policy.Member
	// delegated are the blocks of the members by region.
	delegated map[string]addrset.Set
}

// named is the entity that a peer names.
type named struct {
	addresses addrset.Set
	delegated map[string]addrset.Set
}

func newPolicies(l *policy.Listing, delegated map[policy.EntityRef]Delegation) *policies {
	p := &policies{applied: map[string][]int{}, groups: map[policy.EntityRef][]string{}, hosts: map[policy.EntityRef]string{}, regions: map[string]bool{},
		sets: map[string]*ruleSet{}, numbers: numbering{}}
	for _, d := range delegated {
		p.regions[d.Region] = true
	}
	groups := make(map[string]*group, len(l.AddressGroups))
	for _, g := range l.AddressGroups {
		groups[g.Name] = newGroup(g.Members, delegated)
		groups[g.Name].unseen = g.Unseen
	}
	peers := map[string]named{}
	for _, c := range l.Policies {
		written := map[policy.Direction]int{}
		for i := range c.Rules {
			r := rule{policy: c.ComputedPolicy, rule: &c.Rules[i], index: int(c.Rules[i].Priority), traffic: trafficOf(c.Rules[i].Services)}
			switch {
			case c.TierPriority == nil:
				r.stage, r.index = stageKubernetes, written[r.rule.Direction]
				written[r.rule.Direction]++
				if r.rule.Action == "" {
					r.index = -1
				}
			case *c.TierPriority >= evaluate.BaselineTierPriority:
				r.stage = stageBaseline
			}
			r.setPeers(groups, peers)
			p.rules = append(p.rules, r)
		}
	}
	slices.SortStableFunc(p.rules, func(a, b rule) int { return evaluate.CompareRules(a.policy, a.rule, b.policy, b.rule) })
	for i := range p.rules {
		for _, g := range p.rules[i].appliedTo() {
			p.applied[g] = append(p.applied[g], i)
		}
	}
	for _, g := range l.AppliedToGroups {
		for _, m := range g.Members {
			p.groups[m.EntityRef] = append(p.groups[m.EntityRef], g.Name)
			p.hosts[m.EntityRef] = m.Host
		}
	}
	return p
}

func newGroup(members []*policy.Member, delegated map[policy.EntityRef]Delegation) *group {
	g := &group{members: members}
	sets := make([]addrset.Set, 0, len(members))
	for _, m := range members {
		sets = append(sets, addrset.Of(m.IPs...))
		if d, has := delegated[m.EntityRef]; has {
			if g.delegated == nil {
				g.delegated = map[string]addrset.Set{}
			}
			g.delegated[d.Region] = g.delegated[d.Region].Union(d.Blocks)
		}
	}
	g.addresses = addrset.Union(sets...)
	return g
}

// appliedTo are the applied-to groups of the rule.
func (r *rule) appliedTo() []string {
	if len(r.rule.AppliedToGroups) > 0 {
		return r.rule.AppliedToGroups
	}
	return r.policy.AppliedToGroups
}

// peer is the other end of the rule.
func (r *rule) peer() policy.ComputedPeer { return r.rule.Peer() }

// setPeers finds the addresses of the rule's peers. Equal peers share what is found.
func (r *rule) setPeers(groups map[string]*group, known map[string]named) {
	peer := r.peer()
	r.byName = len(peer.FQDNs) > 0
	r.unseen = slices.ContainsFunc(peer.AddressGroups, func(name string) bool { return groups[name] != nil && groups[name].unseen })
	key := fmt.Sprint(strings.Join(peer.AddressGroups, " "), peer.IPBlocks)
	of, ok := known[key]
	if !ok {
		var sets []addrset.Set
		for _, name := range peer.AddressGroups {
			if g := groups[name]; g != nil {
				sets = append(sets, g.addresses)
			}
		}
		of.addresses = addrset.Union(append(sets, blocksOf(peer))...)
		for _, name := range peer.AddressGroups {
			if g := groups[name]; g != nil {
				of.delegate(g.delegated)
			}
		}
		known[key] = of
	}
	r.peers, r.blocks, r.delegated = of.addresses, blocksOf(peer), of.delegated
	if r.rule.Direction == policy.Egress && len(r.traffic.named) > 0 {
		r.setPorts(groups)
	}
}

// delegate adds the blocks of a group.
func (n *named) delegate(blocks map[string]addrset.Set) {
	for region, set := range blocks {
		if n.delegated == nil {
			n.delegated = map[string]addrset.Set{}
		}
		if n.delegated[region].Empty() {
			n.delegated[region] = n.addresses
		}
		n.delegated[region] = n.delegated[region].Union(set)
	}
}

// peersIn are the peers as security groups of a region name them, or with an empty region anybody
// else.
func (r *rule) peersIn(region string) addrset.Set {
	if all, has := r.delegated[region]; has && region != "" {
		return all
	}
	return r.peers
}

func blocksOf(peer policy.ComputedPeer) addrset.Set {
	var sets []addrset.Set
	for _, b := range peer.IPBlocks {
		sets = append(sets, addrset.OfPrefixes(b.CIDR).Minus(addrset.OfPrefixes(b.Except...)))
	}
	return addrset.Union(sets...)
}

// setPorts finds the peers of an egress rule that have the ports that it names.
func (r *rule) setPorts(groups map[string]*group) {
	holders := map[flow.Service][]addrset.Set{}
	for _, name := range r.peer().AddressGroups {
		g := groups[name]
		if g == nil {
			continue
		}
		for _, m := range g.members {
			for _, n := range r.traffic.named {
				for _, s := range n.resolves(m.Ports) {
					holders[s] = append(holders[s], addrset.Of(m.IPs...))
				}
			}
		}
	}
	for s, sets := range holders {
		r.ports = append(r.ports, portHolders{s, addrset.Union(sets...)})
	}
	slices.SortFunc(r.ports, func(a, b portHolders) int { return a.service.Compare(b.service) })
}

// services are what the rule tells apart at somebody with these named ports.
func (r *rule) services(local []policy.NamedPort) []flow.Service {
	out := slices.Clone(r.traffic.fixed)
	if r.traffic.igmp {
		out = append(out, flow.Whole(protocolIGMP))
	}
	for i := range r.ports {
		out = append(out, r.ports[i].service)
	}
	if r.rule.Direction == policy.Ingress {
		for _, n := range r.traffic.named {
			out = append(out, n.resolves(local)...)
		}
	}
	return out
}

// matches returns the addresses at the other end for which the rule matches a service, which lies
// in one piece of the partition, and those for which it may: by a domain name, or by a type or
// group of IGMP, or as a member that is not in sight, at one of the addresses outside. With
// blocksOnly, the other end is known by nothing but its address.
func (r *rule) matches(s flow.Service, local *class, blocksOnly bool, outside addrset.Set) (yes, maybe addrset.Set) {
	fits := r.traffic.all || covers(r.traffic.fixed, s)
	if !fits && r.rule.Direction == policy.Ingress {
		for _, n := range r.traffic.named {
			fits = fits || covers(n.resolves(local.ports), s)
		}
	}
	partly := r.traffic.igmp && s.Protocol == protocolIGMP
	if (fits || partly) && r.byName {
		maybe = addrset.All()
	}
	if r.unseen && (fits || partly || r.names(s)) && !blocksOnly {
		maybe = maybe.Union(outside)
	}
	peers := r.peersIn(local.region)
	if blocksOnly {
		peers = r.blocks
	}
	switch {
	case fits:
		return peers, maybe
	case partly:
		return addrset.Set{}, maybe.Union(peers)
	case blocksOnly:
		return addrset.Set{}, maybe
	}
	for i := range r.ports {
		if r.ports[i].service.Covers(s) {
			yes = yes.Union(r.ports[i].holders)
		}
	}
	return yes, maybe
}

// names reports whether an egress rule may match a service by the name of a port, of which peers
// say what it is.
func (r *rule) names(s flow.Service) bool {
	return r.rule.Direction == policy.Egress && slices.ContainsFunc(r.traffic.named, func(n namedPort) bool {
		return n.protocol == "" && slices.Contains(numbers(""), s.Protocol) || slices.Contains(numbers(n.protocol), s.Protocol)
	})
}

// ref is the rule as answers name it.
func (r *rule) ref() *evaluate.RuleRef {
	out := &evaluate.RuleRef{Policy: r.policy.Source, Direction: r.rule.Direction, Rule: r.rule, Index: r.index, TierPriority: 251}
	if r.policy.TierPriority != nil {
		out.TierPriority = *r.policy.TierPriority
	}
	if r.policy.Priority != nil {
		out.Priority = *r.policy.Priority
	}
	return out
}
