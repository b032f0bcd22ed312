package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// What is left out of the tag of a service is written as a Deny right before the Allow of the tag.
// Such pairs come after all other rules, so that a Deny takes nothing away from what another rule
// allows. Of two pairs for the same packets the Deny of the first one is a part of that of the
// second one, so that it takes nothing away from there. Where there is no such order, there is no
// way to write it.

// encodeExcepts writes the blocks of a direction that leave addresses out of a tag; the first rule
// has the given priority.
func encodeExcepts(blocks []block, d cloud.Direction, priority int) ([]Document, error) {
	var left []block
	for _, b := range blocks {
		if b.except != "" {
			left = append(left, b)
		}
	}
	var out []Document
	add := func(b block, denied []cloud.Peer) {
		doc := b.document(d, priority+len(out), nil)
		if len(denied) > 0 {
			b.peers, b.kind.peers = denied, peersIPv4
			doc = b.document(d, priority+len(out), nil)
			doc.Properties.Access = deny
		}
		out = append(out, doc)
	}
	if len(left) > 0 && d == cloud.Ingress {
		// A Deny may have the address of the probes among others.
		doc := last(d)[0]
		doc.Name, doc.Properties.Priority = fmt.Sprintf("nephele-in-%04d", priority), priority
		out = append(out, doc)
	}
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(b block) bool {
			return !slices.ContainsFunc(left, func(o block) bool { return takes(b.ranges, b.denied(), o.ranges, o.denied()) })
		})
		if i < 0 {
			return nil, fmt.Errorf("what is left out of %s and of other service tags has no order in which it can be denied", left[0].tag)
		}
		b := left[i]
		left = slices.Delete(left, i, i+1)
		var v4, v6 []cloud.Peer
		for _, p := range b.denied().Prefixes() {
			if p.Addr().Is4() {
				v4 = append(v4, cloud.Peer{CIDR: p})
			} else {
				v6 = append(v6, cloud.Peer{CIDR: p})
			}
		}
		for _, family := range [][]cloud.Peer{v4, v6} {
			if len(family) > 0 {
				add(b, family)
			}
		}
		add(b, nil)
	}
	return out, nil
}

// denied are the addresses that are left out.
func (b *block) denied() addrset.Set { return flow.Excepted(cloud.Peer{Except: b.except}) }

// takes reports whether a Deny of addresses takes something from a later Allow, besides what is
// left out there, too.
func takes(denied []cloud.Match, addrs addrset.Set, allowed []cloud.Match, except addrset.Set) bool {
	for _, m := range denied {
		for _, n := range allowed {
			shared := m.Protocol == cloud.AnyProtocol || n.Protocol == cloud.AnyProtocol || flow.ServiceOf(m).Overlaps(flow.ServiceOf(n))
			if shared && !addrs.Intersect(flow.Family(m.Protocol)).Intersect(flow.Family(n.Protocol)).Within(except) {
				return true
			}
		}
	}
	return false
}

// excepting reads the pairs of Deny and Allow of a direction, rule by rule.
type excepting struct {
	// names, addrs and like are of the Deny rules of the pair that is read, and used is set once an
	// Allow has followed them.
	names []string
	addrs addrset.Set
	like  parsed
	used  bool
	// before are all Deny rules so far.
	before []denial
}

// denial is a Deny rule.
type denial struct {
	name    string
	matches []cloud.Match
	addrs   addrset.Set
}

// deny reads a Deny. It returns the names of rules that are not of a form that Encode writes.
func (e *excepting) deny(r parsed) (foreign []string) {
	if e.used || len(e.names) > 0 && !sameTraffic(e.like, r) {
		foreign = e.end()
	}
	if _, whole := r.own.family(); r.bad || r.allow || !r.sources.all || !whole || len(r.peer.prefixes) == 0 {
		return append(foreign, r.name)
	}
	addrs := addrset.OfPrefixes(r.peer.prefixes...)
	e.like, e.names, e.addrs = r, append(e.names, r.name), e.addrs.Union(addrs)
	e.before = append(e.before, denial{r.name, r.traffic(), addrs})
	return foreign
}

// allow reads an Allow: what is left out of it. It returns the names of Deny rules that are not of
// a form that Encode writes, those among them that take something else from this one.
func (e *excepting) allow(r parsed) (except cloud.Blocks, foreign []string) {
	var left addrset.Set
	if r.peer.tag != "" && len(e.names) > 0 && sameTraffic(e.like, r) {
		left, e.used = e.addrs, true
		except = cloud.BlocksOf(left.Prefixes())
	} else {
		foreign = e.end()
	}
	for _, d := range e.before {
		if takes(d.matches, d.addrs, r.traffic(), left) {
			foreign = append(foreign, d.name)
		}
	}
	return except, foreign
}

// end ends a pair. It returns the names of Deny rules that no Allow has followed.
func (e *excepting) end() (foreign []string) {
	if !e.used {
		foreign = e.names
	}
	e.names, e.addrs, e.used = nil, addrset.Set{}, false
	return foreign
}

// sameTraffic reports whether two rules are about the same packets but for the peer.
func sameTraffic(a, b parsed) bool { return slices.Equal(a.traffic(), b.traffic()) }

// traffic is what a rule is about, as matches.
func (r parsed) traffic() []cloud.Match {
	family, _ := r.own.family()
	var out []cloud.Match
	for _, p := range r.protocols {
		switch {
		case p == cloud.ICMP && family == everyIPv6, p == cloud.ICMPv6 && family == everyIPv4:
		case (p == cloud.TCP || p == cloud.UDP) && r.ports.all:
			out = append(out, cloud.NewMatch(p, 0, 0xffff))
		case p == cloud.TCP, p == cloud.UDP:
			for _, x := range r.ports.ranges {
				out = append(out, cloud.NewMatch(p, x[0], x[1]))
			}
		default:
			out = append(out, cloud.NewMatch(p, -1, -1))
		}
	}
	return out
}

// isProbes reports whether a rule lets the probes of the load balancer through, and nothing else.
func isProbes(r parsed) bool {
	return r.direction == cloud.Ingress && r.allow && !r.bad && r.sources.all && r.ports.all && r.own.any && strings.EqualFold(r.peer.tag, tagBalancer) &&
		slices.Equal(r.protocols, []int{cloud.AnyProtocol})
}
