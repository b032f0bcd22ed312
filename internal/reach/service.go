package reach

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
)

// protocolIGMP is the IP protocol number of IGMP.
const protocolIGMP = 2

// lastPort is the end of the axis of a flow.Service.
const lastPort = 0xffff

// numbers are the IP protocols of what policies call a protocol: ICMP is that of both families.
func numbers(p policy.Protocol) []int {
	switch p {
	case policy.TCP:
		return []int{cloud.TCP}
	case policy.UDP:
		return []int{cloud.UDP}
	case policy.SCTP:
		return []int{cloud.SCTP}
	case policy.ICMP:
		return []int{cloud.ICMP, cloud.ICMPv6}
	case policy.IGMP:
		return []int{protocolIGMP}
	case "":
		return []int{cloud.TCP, cloud.UDP, cloud.SCTP}
	}
	return nil
}

// namedPort is a service that a rule calls by the name of a port.
type namedPort struct {
	protocol policy.Protocol
	name     string
}

// resolves returns the services that the name represents at somebody with these ports.
func (n namedPort) resolves(ports []policy.NamedPort) []flow.Service {
	var out []flow.Service
	for _, p := range ports {
		if p.Name != n.name || n.protocol != "" && p.Protocol != n.protocol {
			continue
		}
		for _, number := range numbers(p.Protocol) {
			out = append(out, flow.Service{Protocol: number, From: uint16(p.Port), To: uint16(p.Port)})
		}
	}
	return out
}

// traffic is what a rule matches besides its peers.
type traffic struct {
	// all: the rule names no service.
	all   bool
	fixed []flow.Service
	named []namedPort
	// igmp: the rule is about some types or groups of IGMP.
	igmp bool
}

// trafficOf reads the services of a rule. What is only for certain source ports matches no packet
// from another one.
func trafficOf(services []policy.ServiceMatch) traffic {
	out := traffic{all: len(services) == 0}
	for i := range services {
		s := &services[i]
		switch {
		case s.SrcPort != nil:
		case s.Protocol == policy.ICMP:
			out.fixed = append(out.fixed, icmp(s)...)
		case s.Protocol == policy.IGMP && (s.IGMPType != nil || s.GroupAddress != ""):
			out.igmp = true
		case s.Port != nil && s.Port.Name != "":
			out.named = append(out.named, namedPort{s.Protocol, s.Port.Name})
		default:
			from, to := 0, lastPort
			if s.Port != nil {
				from, to = int(s.Port.Number), int(s.Port.Number)
				if s.EndPort != nil {
					to = int(*s.EndPort)
				}
			}
			if from < 0 || to > lastPort || to < from {
				continue
			}
			for _, n := range numbers(s.Protocol) {
				out.fixed = append(out.fixed, flow.Service{Protocol: n, From: uint16(from), To: uint16(to)})
			}
		}
	}
	return out
}

// icmp returns the types and codes that a service of ICMP matches, of both families.
func icmp(s *policy.ServiceMatch) []flow.Service {
	types := [2]int{0, 0xff}
	if s.ICMPType != nil {
		types = [2]int{int(*s.ICMPType), int(*s.ICMPType)}
	}
	if types[0] < 0 || types[1] > 0xff {
		return nil
	}
	var out []flow.Service
	for _, n := range numbers(policy.ICMP) {
		if s.ICMPCode == nil {
			out = append(out, flow.Service{Protocol: n, From: uint16(types[0] << 8), To: uint16(types[1]<<8 | 0xff)})
			continue
		}
		for t := types[0]; t <= types[1] && *s.ICMPCode >= 0 && *s.ICMPCode <= 0xff; t++ {
			at := uint16(t<<8 | int(*s.ICMPCode))
			out = append(out, flow.Service{Protocol: n, From: at, To: at})
		}
	}
	return out
}

// covers reports whether any of the services holds s, which lies in one piece of their partition.
func covers(services []flow.Service, s flow.Service) bool {
	for _, o := range services {
		if o.Covers(s) {
			return true
		}
	}
	return false
}

// trafficText says in words what services match.
func trafficText(services []policy.ServiceMatch) string {
	if len(services) == 0 {
		return "everything"
	}
	texts := make([]string, len(services))
	for i := range services {
		texts[i] = serviceText(&services[i])
	}
	return strings.Join(texts, ", ")
}

func serviceText(s *policy.ServiceMatch) string {
	text := strings.ToLower(string(s.Protocol))
	if text == "" {
		text = "any protocol"
	}
	add := func(word string, n *int32) {
		if n != nil {
			text += fmt.Sprintf("%s%d", word, *n)
		}
	}
	if s.Port != nil && s.Port.Name != "" {
		text += " " + s.Port.Name
	} else if s.Port != nil {
		add(" ", &s.Port.Number)
	}
	add("-", s.EndPort)
	add(" from port ", s.SrcPort)
	add("-", s.SrcEndPort)
	add(" type ", s.ICMPType)
	add(" code ", s.ICMPCode)
	add(" type ", s.IGMPType)
	if s.GroupAddress != "" {
		text += " group " + s.GroupAddress
	}
	return text
}
