package expect

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
)

// checker collects what is wrong.
type checker struct{ errs []policy.FieldError }

func (c *checker) add(field, value, want string) {
	c.errs = append(c.errs, policy.FieldError{Field: field, Value: value, Want: want})
}

func (c *checker) missing(field, want string) {
	c.errs = append(c.errs, policy.FieldError{Field: field, Given: "nothing", Want: want})
}

// Check returns what is wrong with a test.
func (t *PolicyTest) Check() []policy.FieldError {
	var c checker
	if len(t.Spec.Flows) == 0 {
		c.missing("spec.flows", "at least one flow")
	}
	for i := range t.Spec.Namespaces {
		c.name(fmt.Sprintf("spec.namespaces[%d].name", i), t.Spec.Namespaces[i].Name)
	}
	seen := map[string]bool{}
	for i := range t.Spec.Endpoints {
		e, at := &t.Spec.Endpoints[i], fmt.Sprintf("spec.endpoints[%d]", i)
		c.endpoint(e, at)
		key := e.Kind + "/" + e.Namespace + "/" + e.Name
		if seen[key] {
			c.add(at+".name", e.Name, "a name that no other endpoint of the kind and namespace has")
		}
		seen[key] = true
	}
	for i := range t.Spec.Flows {
		c.flow(&t.Spec.Flows[i], fmt.Sprintf("spec.flows[%d]", i))
	}
	return c.errs
}

func (c *checker) name(field, value string) {
	switch wrong := validation.IsDNS1123Subdomain(value); {
	case value == "":
		c.missing(field, "a name")
	case len(wrong) > 0:
		c.add(field, value, "a name as objects have: "+wrong[0])
	}
}

func (c *checker) endpoint(e *Endpoint, at string) {
	if e.Kind != "VM" && e.Kind != "Pod" {
		c.add(at+".kind", e.Kind, "VM or Pod")
	}
	c.name(at+".namespace", e.Namespace)
	c.name(at+".name", e.Name)
	if len(e.Addresses) == 0 {
		c.missing(at+".addresses", "at least one address: rules with an ipBlock depend on it")
	}
	for k, text := range e.Addresses {
		if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.Is4In6() {
			c.add(fmt.Sprintf("%s.addresses[%d]", at, k), text, "an IP address")
		}
	}
	for k, p := range e.Ports {
		field := fmt.Sprintf("%s.ports[%d]", at, k)
		if p.Name == "" {
			c.missing(field+".name", "a name")
		}
		if p.Port < 1 || p.Port > 65535 {
			c.add(field+".port", strconv.Itoa(int(p.Port)), "a number from 1 to 65535")
		}
		if p.Protocol != "" && !slices.Contains([]string{"TCP", "UDP", "SCTP"}, p.Protocol) {
			c.add(field+".protocol", p.Protocol, "TCP, UDP or SCTP")
		}
	}
}

func (c *checker) flow(f *Flow, at string) {
	if !slices.Contains(Expectations(), f.Expect) {
		c.add(at+".expect", string(f.Expect), "allow, deny, drop, reject or native")
	}
	for _, side := range []struct {
		field string
		list  Texts
	}{{at + ".from", f.From}, {at + ".to", f.To}} {
		if !slices.ContainsFunc(side.list, func(s string) bool { return s != "" && !strings.HasPrefix(s, "!") }) {
			c.missing(side.field, "an endpoint, such as shop/web, shop/app=web, 10.0.0.0/8 or any")
		}
	}
	if _, err := f.services(); err != nil {
		c.errs = append(c.errs, policy.FieldError{Field: at + "." + err.Field, Value: err.Value, Want: err.Want})
	}
}

// services are what a flow is about; none means all traffic.
func (f *Flow) services() ([]flow.Service, *policy.FieldError) {
	return Services(string(f.Protocol), string(f.Port))
}

// protocolNumbers are the protocols that have a name here.
func protocolNumbers() map[string][]int {
	return map[string][]int{
		"TCP": {cloud.TCP}, "UDP": {cloud.UDP}, "SCTP": {cloud.SCTP}, "ICMP": {cloud.ICMP, cloud.ICMPv6}, "ICMPV6": {cloud.ICMPv6},
	}
}

// Services reads a protocol and a port or range of ports as people write them; two empty texts mean
// all traffic, which is none. The field of an error is protocol or port.
func Services(protocol, port string) ([]flow.Service, *policy.FieldError) {
	if protocol == "" && port == "" {
		return nil, nil
	}
	if protocol == "" {
		protocol = "TCP"
	}
	numbers, known := protocolNumbers()[strings.ToUpper(protocol)]
	if !known {
		n, err := strconv.ParseUint(protocol, 10, 8)
		if err != nil {
			return nil, &policy.FieldError{Field: "protocol", Value: protocol, Want: "TCP, UDP, SCTP, ICMP, ICMPv6 or a number from 0 to 255"}
		}
		numbers = []int{int(n)}
	}
	var out []flow.Service
	for _, n := range numbers {
		if port == "" {
			out = append(out, flow.Whole(n))
			continue
		}
		if n != cloud.TCP && n != cloud.UDP && n != cloud.SCTP {
			return nil, &policy.FieldError{Field: "port", Value: port, Want: "none: protocol " + protocol + " has no ports"}
		}
		first, last, isRange := strings.Cut(port, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.ParseUint(first, 10, 16)
		to, errTo := strconv.ParseUint(last, 10, 16)
		if errFrom != nil || errTo != nil || to < from {
			return nil, &policy.FieldError{Field: "port", Value: port, Want: "a number from 0 to 65535, or two with - between them"}
		}
		out = append(out, flow.Service{Protocol: n, From: uint16(from), To: uint16(to)})
	}
	return out, nil
}
