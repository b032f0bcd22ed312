package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// end is one end of a flow that the tests look at: an interface of the estate, or an address
// outside.
type end struct {
	nic  string
	vm   string // instance of the interface; empty for a detached one
	addr netip.Addr
	vpc  string
}

func (e end) String() string {
	if e.nic == "" {
		return e.addr.String()
	}
	return fmt.Sprintf("%s %s (%s)", e.vm, e.nic, e.addr)
}

// service is what a flow asks for.
type service struct {
	protocol   policy.Protocol
	port       uint16
	icmpType   uint8
	worldProto int
}

func (s service) String() string {
	if s.protocol == policy.ICMP {
		return fmt.Sprintf("ICMP type %d", s.icmpType)
	}
	return fmt.Sprintf("%s %d", s.protocol, s.port)
}

// flow is one question.
type flow struct {
	src, dst end
	svc      service
}

func (f flow) String() string { return fmt.Sprintf("%s -> %s, %s", f.src, f.dst, f.svc) }

func (f flow) inWorld() packet.Flow {
	side := func(e end) packet.End { return packet.End{NIC: e.nic, Addr: e.addr, VPC: e.vpc} }
	out := packet.Flow{Src: side(f.src), Dst: side(f.dst), Protocol: f.svc.worldProto, Port: int(f.svc.port), ICMPType: int(f.svc.icmpType)}
	if f.svc.protocol == policy.ICMP && f.src.addr.Is6() {
		out.Protocol = 58
	}
	return out
}

// oracle says what every flow should get: the policy engine's verdict, and where no policy decides,
// that of the security groups which the interfaces have natively. It knows what the test put into
// the cluster, and nothing of what Nephele made of it.
type oracle struct {
	namespaces []*corev1.Namespace
	entities   []*v1alpha2.ExternalEntity
	policies   []client.Object
	// native are the groups that each interface had before Nephele, by interface id.
	native map[string][]string
}

// copy returns an oracle whose lists may be changed without changing o's.
func (o oracle) copy() oracle {
	o.namespaces, o.entities, o.policies = slices.Clone(o.namespaces), slices.Clone(o.entities), slices.Clone(o.policies)
	return o
}

// evaluator computes the policies from scratch.
func (o oracle) evaluator() (*evaluate.Evaluator, error) {
	e := compute.New(compute.Options{})
	for _, n := range o.namespaces {
		e.PutNamespace(convert.Namespace(n))
	}
	for _, x := range o.entities {
		ent, errs := convert.ExternalEntity(x)
		if len(errs) > 0 {
			return nil, fmt.Errorf("entity %s: %v", x.Name, errs)
		}
		e.PutEntity(ent)
	}
	for _, p := range o.policies {
		switch p := p.(type) {
		case *v1beta1.NetworkPolicy:
			e.PutPolicy(convert.NetworkPolicy(p))
		case *v1beta1.ClusterNetworkPolicy:
			e.PutPolicy(convert.ClusterNetworkPolicy(p))
		default:
			return nil, fmt.Errorf("the oracle does not know %T", p)
		}
	}
	if d := e.Commit(); len(d.Problems) > 0 {
		return nil, fmt.Errorf("the policies of the test have problems: %+v", d.Problems)
	}
	return evaluate.New(e.Listing()), nil
}

// nativeWorld is the cloud as it would be had Nephele never touched an interface.
func (o oracle) nativeWorld(s aws.State) (*world.World, error) {
	for r := range s.Regions {
		names := map[string]string{}
		for _, g := range s.Regions[r].SecurityGroups {
			names[g.ID] = g.Name
		}
		for i := range s.Regions[r].NetworkInterfaces {
			nic := &s.Regions[r].NetworkInterfaces[i]
			nic.Groups = nil
			for _, g := range o.native[nic.ID] {
				nic.Groups = append(nic.Groups, aws.GroupName{ID: g, Name: names[g]})
			}
		}
	}
	return world.New(s, world.Options{Clock: time.Now})
}

// endpoint is an end as the policy engine sees it.
func (o oracle) endpoint(e end) evaluate.Endpoint {
	p := evaluate.Endpoint{Addr: e.addr}
	if e.vm == "" {
		return p
	}
	for _, x := range o.entities {
		if x.Name == cloudv1.EntityNamePrefix+e.vm {
			p.EntityRef = policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: x.Namespace, Name: x.Name}
			p.Semantics = evaluate.VMSemantics
		}
	}
	return p
}

// expect returns the verdict on every flow. Flows that make no sense to the world (other family)
// are false on both sides.
func (o oracle) expect(s aws.State, flows []flow) ([]bool, error) {
	eval, err := o.evaluator()
	if err != nil {
		return nil, err
	}
	native, err := o.nativeWorld(s)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(flows))
	for i, f := range flows {
		nv, err := native.Allowed(f.inWorld())
		if err != nil {
			continue
		}
		v := eval.Evaluate(evaluate.Flow{Source: o.endpoint(f.src), Destination: o.endpoint(f.dst),
			Protocol: f.svc.protocol, Port: f.svc.port, ICMPType: f.svc.icmpType})
		egress, err := half(v.Egress, nv.Egress)
		if err != nil {
			return nil, fmt.Errorf("%s: egress: %w", f, err)
		}
		ingress, err := half(v.Ingress, nv.Ingress)
		if err != nil {
			return nil, fmt.Errorf("%s: ingress: %w", f, err)
		}
		out[i] = egress && ingress
		if f.src.nic != "" && f.src.nic == f.dst.nic {
			out[i] = true // an interface never filters itself
		}
	}
	return out, nil
}

func half(d evaluate.Decision, native packet.Half) (bool, error) {
	switch d.Outcome {
	case evaluate.OutcomeAllow:
		return true, nil
	case evaluate.OutcomeDrop, evaluate.OutcomeReject:
		return false, nil
	case evaluate.OutcomeNative:
		return native.Allowed, nil
	}
	return false, fmt.Errorf("outcome %q cannot be checked", d.Outcome)
}

// observe asks the simulator about every flow as the cloud is now.
func observe(w *world.World, flows []flow) []bool {
	out := make([]bool, len(flows))
	for i, f := range flows {
		passes, err := w.Passes(f.inWorld())
		out[i] = err == nil && passes
	}
	return out
}

// differences describes the first few flows whose verdicts differ.
func differences(flows []flow, want, got []bool) (n int, text string) {
	var b strings.Builder
	for i := range flows {
		if want[i] != got[i] {
			if n++; n <= 8 {
				fmt.Fprintf(&b, "\n  %s: want allowed=%v, the cloud says %v", flows[i], want[i], got[i])
			}
		}
	}
	return n, b.String()
}

// ends lists the interfaces of a world, with their first address of each family.
func ends(s aws.State) []end {
	var out []end
	for _, r := range s.Regions {
		for _, n := range r.NetworkInterfaces {
			e := end{nic: n.ID, vpc: n.VPCID}
			if n.Attachment != nil {
				e.vm = n.Attachment.InstanceID
			}
			if len(n.PrivateIPs) > 0 {
				e.addr = n.PrimaryIP().Addr
				out = append(out, e)
			}
			if len(n.IPv6) > 0 {
				e.addr = n.IPv6[0]
				out = append(out, e)
			}
		}
	}
	return out
}

// flowsOf crosses all ordered pairs of ends, and every interface with every outside address, with
// the services. Pairs of interfaces in different VPCs are left out when there is no private path
// between them, and so are two interfaces of one VM: no packet with these addresses exists on the
// network.
func flowsOf(s aws.State, outside []netip.Addr, services []service) []flow {
	inside := ends(s)
	var pairs [][2]end
	for _, a := range inside {
		for _, b := range inside {
			if a.vm != "" && a.vm == b.vm && a.nic != b.nic {
				continue
			}
			if a.addr.Is4() == b.addr.Is4() && (a.vpc == b.vpc || peered(s, a.vpc, b.vpc)) {
				pairs = append(pairs, [2]end{a, b})
			}
		}
		for _, o := range outside {
			if o.Is4() == a.addr.Is4() {
				pairs = append(pairs, [2]end{a, {addr: o}}, [2]end{{addr: o}, a})
			}
		}
	}
	var out []flow
	for _, p := range pairs {
		for _, svc := range services {
			out = append(out, flow{p[0], p[1], svc})
		}
	}
	return out
}

func peered(s aws.State, a, b string) bool {
	return slices.ContainsFunc(s.Peerings, func(p aws.PeeringConnection) bool {
		x, y := p.Requester.VPCID, p.Accepter.VPCID
		return p.Status == aws.PeeringActive && (x == a && y == b || x == b && y == a)
	})
}

// boundaryServices are the services around every edge of the given TCP and UDP ports, some ICMP
// types, and SCTP.
func boundaryServices(ports ...int) []service {
	edges := map[int]bool{0: true, 65535: true}
	for _, p := range ports {
		for _, e := range []int{p - 1, p, p + 1} {
			if e >= 0 && e <= 65535 {
				edges[e] = true
			}
		}
	}
	var out []service
	for e := range edges {
		out = append(out, service{protocol: policy.TCP, port: uint16(e), worldProto: 6}, service{protocol: policy.UDP, port: uint16(e), worldProto: 17})
	}
	slices.SortFunc(out, func(a, b service) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, t := range []uint8{0, 3, 8} {
		out = append(out, service{protocol: policy.ICMP, icmpType: t, worldProto: 1})
	}
	return append(out, service{protocol: policy.SCTP, port: 3868, worldProto: 132})
}
