package admission

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
)

// Limits of the priority of a policy in its tier.
const (
	MinPriority = 1.0
	MaxPriority = 10000.0
)

// maxLogLabel is the length of the longest logLabel.
const maxLogLabel = 63

// Schema returns what the schema of its CRD refuses in an Antrea policy. It is for manifests that
// no API server has seen.
func Schema(p *policy.Policy) []policy.FieldError {
	c := &checker{}
	if p.Priority == 0 {
		c.given("spec.priority", "nothing, or 0", "a number from 1 to 10000")
	} else if !(p.Priority >= MinPriority && p.Priority <= MaxPriority) {
		c.add("spec.priority", strconv.FormatFloat(p.Priority, 'g', -1, 64), "a number from 1 to 10000")
	}
	c.appliedToForm(p.AppliedTo, "spec.appliedTo")
	eachRule(p, func(path string, r *policy.Rule) {
		ingress := strings.HasPrefix(path, "spec.ingress")
		c.appliedToForm(r.AppliedTo, path+".appliedTo")
		c.peerForms(ingress, r.Peers, path)
		switch r.Action {
		case policy.Allow, policy.Drop, policy.Reject, policy.Pass:
		case "":
			c.given(path+".action", "nothing", "one of Allow, Drop, Reject, Pass")
		default:
			c.add(path+".action", string(r.Action), "one of Allow, Drop, Reject, Pass")
		}
		if r.LogLabel != "" && !validLogLabel(r.LogLabel) {
			c.add(path+".logLabel", r.LogLabel, "at most 63 letters, digits, '-', '_', '.', beginning and ending with a "+
				"letter or digit")
		}
		for i := range r.Ports {
			switch r.Ports[i].Protocol {
			case "", policy.TCP, policy.UDP, policy.SCTP:
			default:
				c.add(at(path+".ports", i)+".protocol", string(r.Ports[i].Protocol), "one of TCP, UDP, SCTP")
			}
		}
		for i := range r.Protocols {
			c.protocol(ingress, &r.Protocols[i], at(path+".protocols", i))
		}
		for i, l := range r.L7Protocols {
			switch {
			case l.HTTP == nil && l.TLS == nil:
				c.given(at(path+".l7Protocols", i), "nothing", "exactly one of http, tls")
			case l.HTTP != nil && l.TLS != nil:
				c.given(at(path+".l7Protocols", i), "http and tls", "exactly one of http, tls; two entries match both")
			}
			if l.HTTP != nil && l.HTTP.Method != "" && !slices.Contains(httpMethods, l.HTTP.Method) {
				c.add(at(path+".l7Protocols", i)+".http.method", l.HTTP.Method, "GET, POST, PUT, HEAD, DELETE, TRACE, "+
					"OPTIONS, CONNECT or PATCH")
			}
		}
	})
	return c.errs
}

var httpMethods = []string{"GET", "POST", "PUT", "HEAD", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PATCH"}

// protocol checks one entry of protocols.
func (c *checker) protocol(ingress bool, p *policy.RuleProtocol, path string) {
	switch {
	case p.ICMP == nil && p.IGMP == nil:
		c.given(path, "nothing", "exactly one of icmp, igmp")
		return
	case p.ICMP != nil && p.IGMP != nil:
		c.given(path, "icmp and igmp", "exactly one of icmp, igmp; two entries match both")
		return
	case p.ICMP != nil:
		c.octet(p.ICMP.Type, path+".icmp.icmpType")
		c.octet(p.ICMP.Code, path+".icmp.icmpCode")
		return
	}
	if g := p.IGMP.GroupAddress; g != "" {
		if _, err := netip.ParseAddr(g); err != nil {
			c.add(path+".igmp.groupAddress", g, "an IPv4 or IPv6 address")
		}
	}
	if t := p.IGMP.Type; t != nil {
		allowed, want := []int32{0x11}, "17 (query)"
		if !ingress {
			allowed, want = []int32{0x12, 0x16, 0x22}, "18, 22 or 34 (reports)"
		}
		if !slices.Contains(allowed, *t) {
			c.add(path+".igmp.igmpType", strconv.Itoa(int(*t)), want)
		}
	}
}

func (c *checker) octet(v *int32, path string) {
	if v != nil && (*v < 0 || *v > 255) {
		c.add(path, strconv.Itoa(int(*v)), "a number from 0 to 255")
	}
}

func validLogLabel(s string) bool {
	return len(s) <= maxLogLabel && len(selectors.CheckLabelValue(s, "")) == 0
}
