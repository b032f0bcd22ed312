package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Question is what is asked: about the first packet of a connection. Its texts are as people write
// them.
type Question struct {
	From, To       string
	Protocol, Port string
	// SourcePort is 0 for one that no rule names.
	SourcePort uint16
	// ICMPType is nil for that of an echo request, which depends on the family.
	ICMPType  *uint8
	ICMPCode  uint8
	IGMPType  uint8
	IGMPGroup string
}

// QuestionError says what is wrong with a part of a question.
type QuestionError struct {
	// Part is "from", "to", "protocol", "port", "igmp-type" or "igmp-group".
	Part string
	// Text goes on after the part.
	Text string
}

// Error implements error.
func (e *QuestionError) Error() string { return e.Part + e.Text }

func wrong(part, format string, args ...any) error {
	return &QuestionError{part, fmt.Sprintf(format, args...)}
}

// The ICMP types of echo requests.
const (
	EchoRequest   = 8
	EchoRequestV6 = 128
)

// Answer answers a question.
func (c *Computation) Answer(q Question) (*analysis.FlowAnswer, error) {
	from, err := c.finder().findEnd("from", q.From)
	if err != nil {
		return nil, err
	}
	to, err := c.finder().findEnd("to", q.To)
	if err != nil {
		return nil, err
	}
	flow, err := q.flow(to)
	if err != nil {
		return nil, err
	}
	packets, err := c.packets(q, from, to, flow)
	if err != nil {
		return nil, err
	}
	return c.explain(from, to, flow, packets)
}

// flow is the flow asked about, without its ends.
func (q Question) flow(to end) (evaluate.Flow, error) {
	flow := evaluate.Flow{Protocol: policy.Protocol(strings.ToUpper(q.Protocol)), SourcePort: q.SourcePort}
	switch flow.Protocol {
	case policy.TCP, policy.UDP, policy.SCTP:
	case policy.ICMP, icmpv6:
		flow.Protocol, flow.ICMPType, flow.ICMPCode = policy.ICMP, EchoRequest, q.ICMPCode
		if q.ICMPType != nil {
			flow.ICMPType = *q.ICMPType
		}
		return flow, nil
	case policy.IGMP:
		return flow, q.igmp(&flow)
	default:
		return flow, wrong("protocol", " %q: want TCP, UDP, SCTP, ICMP, ICMPv6 or IGMP", q.Protocol)
	}
	if q.Port == "" {
		return flow, wrong("port", " is missing: want the destination port of %s", flow.Protocol)
	}
	if n, err := strconv.ParseUint(q.Port, 10, 16); err == nil && n > 0 {
		flow.Port = uint16(n)
		return flow, nil
	}
	for _, p := range to.ports {
		if p.Name == q.Port && p.Protocol == flow.Protocol {
			flow.Port = uint16(p.Port)
			return flow, nil
		}
	}
	return flow, wrong("port", " %q: want a number from 1 to 65535, or the name of a %s port of the destination", q.Port, flow.Protocol)
}

// icmpv6 is what a user may call the ICMP of IPv6. Rules know it as ICMP.
const icmpv6 policy.Protocol = "ICMPV6"

// igmp sets what a flow has of IGMP.
func (q Question) igmp(flow *evaluate.Flow) error {
	if q.IGMPType == 0 {
		return wrong("igmp-type", " is missing: want the IGMP type, such as 0x11 for a query or 0x16 for a report")
	}
	flow.IGMPType = q.IGMPType
	if q.IGMPGroup == "" {
		return nil
	}
	group, err := netip.ParseAddr(q.IGMPGroup)
	if err != nil || !group.Is4() || !group.IsMulticast() {
		return wrong("igmp-group", " %q: want an IPv4 multicast address", q.IGMPGroup)
	}
	flow.GroupAddress = group
	return nil
}

// packets are what is asked about: one for every pair of addresses of the two ends that are of one
// family and can carry the protocol. An end without any address stands for itself.
func (c *Computation) packets(q Question, from, to end, flow evaluate.Flow) ([]passage, error) {
	only6, only4 := strings.EqualFold(q.Protocol, string(icmpv6)), flow.Protocol == policy.IGMP
	var out []passage
	family := false
	for _, p := range c.pairs(from, to) {
		a, b := p.src.Addr, p.dst.Addr
		if a.IsValid() && b.IsValid() && a.Is4() != b.Is4() {
			continue
		}
		family = true
		is4, is6 := a.Is4() || b.Is4(), a.Is6() || b.Is6()
		if only6 && is4 || only4 && is6 {
			continue
		}
		one := flow
		if flow.Protocol == policy.ICMP && q.ICMPType == nil && (is6 || only6) {
			one.ICMPType = EchoRequestV6
		}
		out = append(out, c.outgoing(p, from, to, one))
	}
	switch {
	case !family:
		return nil, fmt.Errorf("%s and %s have no addresses of the same family: no packet goes from one to the other", c.title(from), c.title(to))
	case len(out) == 0:
		return nil, wrong("protocol", " %q: %s and %s have no addresses of the family that it belongs to", q.Protocol, c.title(from), c.title(to))
	}
	return out, nil
}

// explain asks about every packet. If they are treated alike, as nearly always, there is one
// answer.
func (c *Computation) explain(from, to end, flow evaluate.Flow, packets []passage) (*analysis.FlowAnswer, error) {
	through, note, err := c.services().throughService(to, flow)
	if err != nil {
		return nil, err
	}
	evaluator := c.evaluator()
	out := c.newAnswer(from, to, packets)
	out.evaluator = evaluator
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	out.Notes = append(out.Notes, c.agentNotes(from, to)...)
	out.Notes = append(out.Notes, balancerNotes(packets)...)
	for _, p := range packets {
		if through != nil {
			c.explainThrough(out, evaluator, through, from, p)
			continue
		}
		direct := to.byAddress && to.ref != (policy.EntityRef{})
		p.sent.Direct, p.come.Direct = direct, direct
		out.add(p.sent.Source.Addr, p.sent.Destination.Addr, p, to, nil, evaluated(evaluator, p))
	}
	if through != nil {
		c.tellOfService(out, through)
	}
	out.finish()
	return &out.FlowAnswer, nil
}

// evaluator answers for flows as the enforcers of the policies decide.
func (c *Computation) evaluator() *evaluate.Evaluator {
	return evaluate.New(c.Listing).WithServices(c.services().mayLead).WithDelegated(c.clouds.DelegatedTo)
}

// evaluated is what policies want at each end, of the packet as it is seen there.
func evaluated(evaluator *evaluate.Evaluator, p passage) evaluate.Verdict {
	v := evaluator.Evaluate(p.sent)
	if p.come != p.sent {
		v.Ingress = evaluator.Evaluate(p.come).Ingress
	}
	return v
}

// explainThrough asks about a packet to a Service at every backend that it may be handed to.
func (c *Computation) explainThrough(out *answering, evaluator *evaluate.Evaluator, via *frontend, from end, to passage) {
	family := to.dst.Addr
	if !family.IsValid() {
		family = to.src.Addr
	}
	for _, b := range c.services().behind(via, family) {
		one := to.sent
		one.Port, one.Service = b.port, nameOf(via.service)
		chosen := b.end
		chosen.addresses, chosen.byAddress = []netip.Addr{b.address}, true
		dst := points(chosen)[0]
		if c.clouds != nil {
			dst = c.located(chosen, to.src.Network())[0]
		}
		p := c.outgoing(pair{to.from, dst}, from, b.end, one)
		out.addBackend(to.sent.Source.Addr, to.sent.Destination.Addr, p, b, via.service, evaluated(evaluator, p))
	}
}

// AccountsOf are the cloud accounts, "namespace/name", that enforce policies at two ends, sorted.
// An end that is not found has none.
func (c *Computation) AccountsOf(from, to string) []string {
	var out []string
	for _, text := range []string{from, to} {
		e, err := c.finder().findEnd("", text)
		if err != nil {
			continue
		}
		if key, enforced := strings.CutPrefix(e.enforcer, cloud.EnforcerPrefix); enforced {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
