package policytest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// Wire renders a listing in the shape and order of the recorded conformance answers: objects as
// JSON values, policies sorted by source, groups by name, members by their JSON text, addresses
// sorted.
func Wire(l *policy.Listing) map[string]any {
	out := object{}
	var policies, ags, atgs []any
	for _, p := range l.Policies {
		policies = append(policies, WirePolicy(p.ComputedPolicy))
	}
	sortByText(policies, func(o any) any { return o.(object)["sourceRef"] })
	for i := range l.AddressGroups {
		ags = append(ags, wireGroup(&l.AddressGroups[i]))
	}
	for i := range l.AppliedToGroups {
		atgs = append(atgs, wireGroup(&l.AppliedToGroups[i]))
	}
	out["networkpolicies"], out["addressgroups"], out["appliedtogroups"] = policies, ags, atgs
	return out
}

func sortByText(in []any, of func(any) any) {
	keys := make(map[any]string)
	key := func(o any) string {
		id := fmt.Sprintf("%p", o)
		if keys[id] == "" {
			text, err := json.Marshal(of(o))
			if err != nil {
				panic(err) // built from strings, numbers, lists and maps only
			}
			keys[id] = string(text)
		}
		return keys[id]
	}
	slices.SortFunc(in, func(a, b any) int { return strings.Compare(key(a), key(b)) })
}

type object = map[string]any

// set adds a field unless it is empty, as JSON encoding with omitempty does.
func set[T comparable](o object, key string, v T, value any) {
	var zero T
	if v != zero {
		o[key] = value
	}
}

func number[T int32 | int64 | float64 | int](v T) any { return float64(v) }

func list[T any](o object, key string, in []T, f func(*T) any) {
	if len(in) == 0 {
		return
	}
	out := make([]any, len(in))
	for i := range in {
		out[i] = f(&in[i])
	}
	o[key] = out
}

func text(s *string) any { return *s }

// inOrder returns names sorted, as the recorded answers have them.
func inOrder(names []string) []string { return slices.Sorted(slices.Values(names)) }

// WirePolicy renders one policy.
func WirePolicy(p *policy.ComputedPolicy) any {
	source := object{"type": string(p.Source.Kind), "name": p.Source.Name}
	set(source, "namespace", p.Source.Namespace, p.Source.Namespace)
	o := object{"sourceRef": source}
	if p.TierPriority != nil {
		o["tierPriority"] = number(*p.TierPriority)
	}
	if p.Priority != nil {
		o["priority"] = number(*p.Priority)
	}
	list(o, "appliedToGroups", inOrder(p.AppliedToGroups), text)
	list(o, "rules", p.Rules, wireRule)
	return o
}

func wireRule(r *policy.ComputedRule) any {
	var from, to policy.ComputedPeer
	if r.Direction == policy.Ingress {
		from = r.Peer()
	} else {
		to = r.Peer()
	}
	o := object{
		"direction": string(r.Direction), "enableLogging": r.EnableLogging,
		"from": wirePeer(&from), "to": wirePeer(&to),
	}
	set(o, "action", r.Action, string(r.Action))
	set(o, "priority", r.Priority, number(r.Priority))
	set(o, "name", r.Name, r.Name)
	set(o, "logLabel", r.LogLabel, r.LogLabel)
	list(o, "appliedToGroups", inOrder(r.AppliedToGroups), text)
	list(o, "services", r.Services, wireService)
	return o
}

func wirePeer(p *policy.ComputedPeer) any {
	o := object{}
	list(o, "addressGroups", inOrder(p.AddressGroups), text)
	list(o, "fqdns", p.FQDNs, text)
	list(o, "ipBlocks", p.IPBlocks, func(b *policy.CIDRBlock) any {
		block := object{"cidr": wirePrefix(&b.CIDR)}
		list(block, "except", b.Except, wirePrefix)
		return block
	})
	list(o, "toServices", p.ToServices, func(n *policy.NamespacedName) any {
		return object{"name": n.Name, "namespace": n.Namespace}
	})
	return o
}

func wireService(s *policy.ServiceMatch) any {
	o := object{}
	set(o, "protocol", s.Protocol, string(s.Protocol))
	if s.Port != nil && s.Port.Name != "" {
		o["port"] = s.Port.Name
	} else if s.Port != nil {
		o["port"] = number(s.Port.Number)
	}
	for key, v := range map[string]*int32{
		"endPort": s.EndPort, "srcPort": s.SrcPort, "srcEndPort": s.SrcEndPort,
		"icmpType": s.ICMPType, "icmpCode": s.ICMPCode, "igmpType": s.IGMPType,
	} {
		if v != nil {
			o[key] = number(*v)
		}
	}
	set(o, "groupAddress", s.GroupAddress, s.GroupAddress)
	return o
}

func wireGroup(g *policy.ComputedGroup) any {
	o := object{"metadata": object{"name": g.Name}}
	list(o, "groupMembers", g.Members, func(m **policy.Member) any { return WireMember(g.Role, *m) })
	if members, ok := o["groupMembers"].([]any); ok {
		sortByText(members, func(m any) any { return m })
	}
	return o
}

// WireMember renders one member of a group of the role.
func WireMember(role policy.GroupRole, whole *policy.Member) any {
	o, m := object{}, whole.As(role)
	switch m.Kind {
	case policy.KindPod:
		o["pod"] = object{"name": m.Name, "namespace": m.Namespace}
	case policy.KindExternalEntity:
		o["externalEntity"] = object{"name": m.Name, "namespace": m.Namespace}
	case policy.KindNode:
		o["node"] = object{"name": m.Name}
	case policy.KindService:
		o["service"] = object{"name": m.Name, "namespace": m.Namespace}
	}
	ips := make([]string, len(m.IPs))
	for i, a := range m.IPs {
		ips[i] = a.String()
	}
	slices.Sort(ips)
	list(o, "ips", ips, text)
	list(o, "ports", m.Ports, func(p *policy.NamedPort) any {
		return object{"name": p.Name, "port": number(p.Port), "protocol": string(p.Protocol)}
	})
	return o
}
func wirePrefix(p *netip.Prefix) any {
	o := object{"ip": p.Addr().String()}
	set(o, "prefixLength", p.Bits(), number(p.Bits()))
	return o
}
