package policytest

import (
	"crypto/sha1"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// Compute computes the world the naive way: every policy from scratch, every selector against every
// entity. It reads the policy language as Engine does with zero Options.
func Compute(w *World) *policy.Listing {
	o := &oracle{w: w, groups: [2]map[string]*oracleGroup{{}, {}}}
	for _, p := range w.Policies {
		o.policy(p)
	}
	return o.listing()
}

type oracle struct {
	w        *World
	groups   [2]map[string]*oracleGroup
	policies []*oraclePolicy
}

type oracleGroup struct {
	name, uid string
	members   func(policy.Entity) bool
	service   *policy.NamespacedName
	users     []*oraclePolicy
}

type oraclePolicy struct {
	out      policy.ComputedPolicy
	atgs     map[*oracleGroup]bool
	invalid  bool
	in       policy.Policy
	pendings []func()
}

// pick is a selection: the parts of a selector that is not yet bound to a name.
type pick struct {
	namespace            string
	nsSel, pod, ee, node *policy.Selector
}

func (s pick) name() string {
	var parts []string
	if s.nsSel != nil {
		parts = append(parts, "namespaceSelector="+selectorString(s.nsSel))
	} else if s.namespace != "" {
		parts = append(parts, "namespace="+s.namespace)
	}
	if s.pod != nil && s.ee == nil {
		parts = append(parts, "podSelector="+selectorString(s.pod))
	}
	if s.ee != nil {
		parts = append(parts, "eeSelector="+selectorString(s.ee))
	}
	if s.node != nil {
		parts = append(parts, "nodeSelector="+selectorString(s.node))
	}
	sort.Strings(parts)
	return uuid(strings.Join(parts, " And "))
}

func uuid(name string) string {
	space := []byte("\xe4\xf2\x4a\x48\xca\x1f\x4d\x5b\x81\x9c\xea\x76\x32\xb2\x21\x15")
	sum := sha1.Sum(append(space, name...))
	sum[6], sum[8] = sum[6]%16+5*16, sum[8]%64+128
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func selectorString(s *policy.Selector) string {
	type part struct{ key, text string }
	var parts []part
	for k, v := range s.MatchLabels {
		parts = append(parts, part{k, k + "=" + v})
	}
	sort.Slice(parts, func(i, j int) bool { return parts[i].key < parts[j].key })
	for _, r := range s.MatchExpressions {
		values := append([]string(nil), r.Values...)
		sort.Strings(values)
		text := map[string]string{
			"In": r.Key + " in (" + strings.Join(values, ",") + ")", "NotIn": r.Key + " notin (" + strings.Join(values, ",") + ")",
			"Exists": r.Key, "DoesNotExist": "!" + r.Key,
		}[r.Operator]
		parts = append(parts, part{r.Key, text})
	}
	sort.SliceStable(parts, func(i, j int) bool { return parts[i].key < parts[j].key })
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.text)
	}
	return strings.Join(texts, ",")
}

func selects(s *policy.Selector, labels map[string]string) bool {
	if s == nil {
		return true
	}
	for k, v := range s.MatchLabels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		got, ok := labels[r.Key]
		in := ok && slices.Contains(r.Values, got)
		if r.Operator == "In" && !in || r.Operator == "NotIn" && in || r.Operator == "Exists" && !ok || r.Operator == "DoesNotExist" && ok {
			return false
		}
	}
	return true
}

// has reports whether the selection contains the entity.
func (o *oracle) has(s pick, e policy.Entity) bool {
	labels := map[string]string{}
	for k, v := range e.Labels {
		labels[k] = v
	}
	if e.Kind == policy.KindPod && e.ServiceAccount != "" {
		labels["internal.antrea.io/service-account"] = e.ServiceAccount
	}
	if s.node != nil && s.ee == nil {
		return e.Kind == policy.KindNode && selects(s.node, labels)
	}
	kind, sel := policy.KindPod, s.pod
	if s.ee != nil {
		kind, sel = policy.KindExternalEntity, s.ee
	}
	if e.Kind != kind || !selects(sel, labels) {
		return false
	}
	switch {
	case s.nsSel != nil:
		if len(s.nsSel.MatchLabels)+len(s.nsSel.MatchExpressions) == 0 {
			return true
		}
		n, ok := o.w.Namespaces[e.Namespace]
		return ok && selects(s.nsSel, n.Labels)
	case s.namespace != "":
		return e.Namespace == s.namespace
	}
	return sel != nil
}

// group returns the group of a selection.
func (o *oracle) group(role policy.GroupRole, s pick) *oracleGroup {
	name := s.name()
	return o.named(role, name, name, func(e policy.Entity) bool { return o.has(s, e) })
}

func (o *oracle) named(role policy.GroupRole, name, uid string, members func(policy.Entity) bool) *oracleGroup {
	if o.groups[role][name] == nil {
		o.groups[role][name] = &oracleGroup{name: name, uid: uid, members: members}
	}
	return o.groups[role][name]
}

// member returns the entity as a member, nil if it cannot be one.
func member(role policy.GroupRole, e policy.Entity) *policy.Member {
	if e.HostNetwork || e.Terminated {
		return nil
	}
	m := &policy.Member{EntityRef: e.EntityRef}
	for _, p := range e.Ports {
		if p.Protocol == "" {
			p.Protocol = policy.TCP
		}
		m.Ports = append(m.Ports, p)
	}
	if role == policy.AddressGroup {
		for _, a := range e.Addresses {
			m.IPs = append(m.IPs, a.Unmap())
		}
		if len(m.IPs) == 0 && e.Kind != policy.KindExternalEntity {
			return nil
		}
		return m
	}
	m.Host = e.Host
	if e.Kind == policy.KindNode {
		m.Host = e.Name
	}
	if m.Host == "" {
		return nil
	}
	return m
}

func (o *oracle) list(role policy.GroupRole, g *oracleGroup) []*policy.Member {
	if g.service != nil {
		return []*policy.Member{{
			EntityRef:  policy.EntityRef{Kind: policy.KindService, Namespace: g.service.Namespace, Name: g.service.Name},
			Everywhere: true,
		}}
	}
	var out []*policy.Member
	for _, e := range o.w.Entities {
		if g.members(e) {
			if m := member(role, e); m != nil {
				out = append(out, m)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Kind != b.Kind {
			return a.Kind < b.Kind
		}
		return a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.Name < b.Name
	})
	return out
}

// hosts returns the keys of an applied-to group.
func (o *oracle) hosts(g *oracleGroup) map[string]bool {
	out := map[string]bool{}
	if g.service != nil {
		for ref := range o.w.Entities {
			if ref.Kind == policy.KindNode {
				out[ref.Name] = true
			}
		}
		return out
	}
	for _, m := range o.list(policy.AppliedToGroup, g) {
		out[m.Host] = true
	}
	return out
}

func (o *oracle) span(p *oraclePolicy) map[string]bool {
	out := map[string]bool{}
	for g := range p.atgs {
		for h := range o.hosts(g) {
			out[h] = true
		}
	}
	return out
}

func sortedKeys(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// listing lists what was computed.
func (o *oracle) listing() *policy.Listing {
	l := &policy.Listing{}
	for _, p := range o.policies {
		out := p.out
		l.Policies = append(l.Policies, policy.PolicySpan{ComputedPolicy: &out, Span: sortedKeys(o.span(p))})
	}
	sort.Slice(l.Policies, func(i, j int) bool { return l.Policies[i].Source.UID < l.Policies[j].Source.UID })
	for role, into := range []*[]policy.ComputedGroup{&l.AddressGroups, &l.AppliedToGroups} {
		role := policy.GroupRole(role)
		for _, g := range o.groups[role] {
			span := map[string]bool{}
			if role == policy.AppliedToGroup {
				span = o.hosts(g)
			}
			if len(g.users) == 0 {
				continue
			}
			for _, p := range g.users {
				if role == policy.AddressGroup {
					for h := range o.span(p) {
						span[h] = true
					}
				}
			}
			*into = append(*into, policy.ComputedGroup{
				Role: role, Name: g.name, UID: g.uid, Members: o.list(role, g), Span: sortedKeys(span),
			})
		}
		list := *into
		sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	}
	return l
}

// cidr parses a CIDR; ok is false if it is none.
func cidr(s string) (netip.Prefix, bool) {
	addr, bits, found := strings.Cut(s, "/")
	a, err := netip.ParseAddr(addr)
	var n int
	_, scanErr := fmt.Sscanf(bits, "%d", &n)
	if !found || err != nil || scanErr != nil || a.Is4In6() || fmt.Sprint(n) != bits || n < 0 || n > a.BitLen() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, n), true
}
