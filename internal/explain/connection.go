package explain

import (
	"errors"
	"fmt"
	"net/netip"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Seen is the first packet of a connection as an interface of a cloud saw it.
type Seen struct {
	// Interface is the ID of the interface, or its MAC address.
	Interface string
	// Direction is which way the packet crossed the interface, Own the address at the interface and
	// Other the one at the far end.
	Direction  cloud.Direction
	Own, Other netip.Addr
	// Protocol is the number of IANA. ICMP is taken for an echo request.
	Protocol uint8
	Port     uint16
}

// The reasons why nothing can be said about a packet that was seen.
var (
	// ErrNotRead: no account was read that has the interface.
	ErrNotRead = errors.New("the interface is in no account that was read")
	// ErrSharedVM: several entities stand for the VM, and policies may select each.
	ErrSharedVM = errors.New("several entities stand for the VM")
	// ErrProtocol: policies cannot say anything of the protocol.
	ErrProtocol = errors.New("policies know nothing of the protocol")
)

// Witness answers about packets that interfaces saw. It may be asked by many goroutines at once, as
// a Computation.
type Witness struct {
	c         *Computation
	evaluator *evaluate.Evaluator
}

// Witness returns a Witness, which answers about packets that interfaces saw.
func (c *Computation) Witness() *Witness {
	return &Witness{c, c.evaluator()}
}

// Explain says what happens to a packet at both of its ends. The error is one of ErrNotRead,
// ErrSharedVM and ErrProtocol, wrapped.
func (w *Witness) Explain(s Seen) (*analysis.FlowAnswer, error) {
	c := w.c
	if c.clouds == nil {
		return nil, fmt.Errorf("%s: %w", s.Interface, ErrNotRead)
	}
	at, found := c.clouds.Now.Interface(s.Interface, s.Own)
	if !found {
		return nil, fmt.Errorf("%s: %w", s.Interface, ErrNotRead)
	}
	packet, err := packetOf(s)
	if err != nil {
		return nil, err
	}
	own, err := c.endAt(at)
	if err != nil {
		return nil, err
	}
	far := c.clouds.Now.At(s.Other, at.Network())
	other, err := c.endAt(far)
	if err != nil {
		return nil, err
	}
	if far.Interface != nil && !far.Public.IsValid() && !c.clouds.Now.Connected(at.Network(), far.Network()) {
		// It kept its private address on a way that is not in sight, such as a transit gateway.
		far = trace.Point{Addr: s.Other}
	}
	p, from, to := pair{at, far}, own, other
	if s.Direction == cloud.Ingress {
		p, from, to = pair{far, at}, other, own
		if trace.Global(s.Other) {
			p.dst = c.reached(far, at)
		}
	}
	passed := c.passageOf(p, from, to, packet)
	out := c.newAnswer(from, to, []passage{passed})
	out.evaluator = w.evaluator
	out.add(passed.sent.Source.Addr, passed.sent.Destination.Addr, passed, to, nil, evaluated(w.evaluator, passed))
	out.finish()
	return &out.FlowAnswer, nil
}

// endAt is the end that has an address where an interface is: the entity that represents the VM,
// else the holder of the address, else the address alone.
func (c *Computation) endAt(p trace.Point) (end, error) {
	alone := end{addresses: []netip.Addr{p.Addr}, byAddress: true}
	if p.Interface != nil && p.VM != nil {
		refs := c.clouds.EntitiesOf(p.Region(), p.VM.ID)
		switch len(refs) {
		case 0:
			return alone, nil
		case 1:
			out := c.endOf(c.Ends[refs[0]])
			out.addresses, out.byAddress = alone.addresses, true
			return out, nil
		}
		return end{}, fmt.Errorf("%s: %w", p.VM.ID, ErrSharedVM)
	}
	found, err := c.finder().findAddress("", p.Addr)
	if err != nil { // several have it, and which one is meant the address does not tell
		return alone, nil
	}
	return found, nil
}

// packetOf is the packet, without its ends.
func packetOf(s Seen) (evaluate.Flow, error) {
	switch s.Protocol {
	case cloud.TCP:
		return evaluate.Flow{Protocol: policy.TCP, Port: s.Port}, nil
	case cloud.UDP:
		return evaluate.Flow{Protocol: policy.UDP, Port: s.Port}, nil
	case cloud.SCTP:
		return evaluate.Flow{Protocol: policy.SCTP, Port: s.Port}, nil
	case cloud.ICMP:
		return evaluate.Flow{Protocol: policy.ICMP, ICMPType: EchoRequest}, nil
	case cloud.ICMPv6:
		return evaluate.Flow{Protocol: policy.ICMP, ICMPType: EchoRequestV6}, nil
	}
	return evaluate.Flow{}, fmt.Errorf("protocol %d: %w", s.Protocol, ErrProtocol)
}

// Rules returns the rules of all policies, each once, in the order in which they are asked. The
// rule that nobody wrote, by which a Kubernetes NetworkPolicy isolates, is not among them.
func (w *Witness) Rules() []analysis.Rule {
	var out []analysis.Rule
	type place struct {
		analysis.Policy
		direction string
		index     int32
	}
	seen := map[place]bool{}
	for _, ref := range w.evaluator.Rules() {
		r := explainRule(ref)
		if at := (place{r.Policy, r.Direction, r.Index}); r.Index >= 0 && !seen[at] {
			seen[at] = true
			out = append(out, r)
		}
	}
	return out
}
