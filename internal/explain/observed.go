package explain

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/explain/imported"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// WithACLs returns the computation with the network ACLs of accounts that were observed in place of
// those that it knew. It shares everything else with the original.
func (c *Computation) WithACLs(acls []cloud.NetworkACL) *Computation {
	if c.clouds == nil {
		return c
	}
	out := *c
	out.clouds = c.clouds.WithACLs(acls)
	return &out
}

// pair is one way to choose the addresses of two ends.
type pair struct{ src, dst trace.Point }

// pairs are the addresses that packets between two ends can have. A VM sends from its private
// addresses; it is reached by these where its network is, and elsewhere by its public ones.
func (c *Computation) pairs(from, to end) []pair {
	sources, destinations := points(from), points(to)
	if c.clouds != nil {
		fromNetwork, toNetwork := c.networkOf(from), c.networkOf(to)
		sources, destinations = c.located(from, cmp.Or(fromNetwork, toNetwork)), c.located(to, cmp.Or(toNetwork, fromNetwork))
		if to.ref == (policy.EntityRef{}) && toNetwork == "" && len(sources) > 0 {
			destinations = c.located(to, sources[0].Network())
		}
	}
	var out []pair
	seen := map[pair]bool{}
	for _, src := range sources {
		for _, dst := range destinations {
			p := pair{src, c.reached(src, dst)}
			if !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}

// networkOf is the network that an end is in; empty for others, and for one with interfaces in
// several.
func (c *Computation) networkOf(e end) string {
	var out string
	for _, p := range c.clouds.PointsOf(e.ref) {
		if out != "" && out != p.Network() {
			return ""
		}
		out = p.Network()
	}
	return out
}

// points are the addresses of an end where nothing is known of interfaces. An end without any
// address stands for itself.
func points(e end) []trace.Point {
	var out []trace.Point
	for _, a := range orNone(e.addresses) {
		out = append(out, trace.Point{Addr: a})
	}
	return out
}

// located finds the interfaces of an end. For an end known only by its address, the search starts
// from a network.
func (c *Computation) located(e end, network string) []trace.Point {
	seats := c.clouds.PointsOf(e.ref)
	if c.clouds.IsImported(e.ref) && !e.byAddress && len(seats) > 0 {
		return seats
	}
	var out []trace.Point
	for _, p := range points(e) {
		switch {
		case !p.Addr.IsValid():
		case e.ref == (policy.EntityRef{}):
			p = c.clouds.Now.At(p.Addr, network)
		default:
			if i := slices.IndexFunc(seats, func(s trace.Point) bool { return s.Addr == p.Addr || s.Public == p.Addr }); i >= 0 {
				p = seats[i]
			} else if i := slices.IndexFunc(seats, func(s trace.Point) bool { return s.Interface.HasPrivate(p.Addr) }); i >= 0 {
				delegated := p.Addr
				p = seats[i]
				p.Addr = delegated
			} else if i := slices.IndexFunc(seats, func(s trace.Point) bool {
				return slices.Contains(s.Interface.PublicIPs, p.Addr) && s.Addr.Is4() == p.Addr.Is4()
			}); i >= 0 {
				public := p.Addr
				p = seats[i]
				p.Public = public
			}
		}
		out = append(out, p)
	}
	return out
}

// reached is the destination with its public address, if packets to its private one do not get
// there.
func (c *Computation) reached(src, dst trace.Point) trace.Point {
	if dst.Interface == nil || dst.Public.IsValid() || src.Interface != nil && c.clouds.Now.Connected(src.Network(), dst.Network()) ||
		src.Interface == nil && !trace.Global(src.Addr) {
		return dst
	}
	for _, a := range dst.Interface.PublicIPs {
		if a.Is4() == dst.Addr.Is4() {
			dst.Public = a
			break
		}
	}
	return dst
}

// serviceOf is what the rules of a cloud see of a packet.
func serviceOf(f *evaluate.Flow, v6 bool) flow.Service {
	one := func(protocol int, at uint16) flow.Service { return flow.Service{Protocol: protocol, From: at, To: at} }
	switch f.Protocol {
	case policy.TCP:
		return one(cloud.TCP, f.Port)
	case policy.UDP:
		return one(cloud.UDP, f.Port)
	case policy.SCTP:
		return one(cloud.SCTP, f.Port)
	case policy.ICMP:
		protocol := cloud.ICMP
		if v6 {
			protocol = cloud.ICMPv6
		}
		return one(protocol, uint16(f.ICMPType)<<8|uint16(f.ICMPCode))
	}
	return flow.Whole(igmp)
}

// igmp is the number of the protocol.
const igmp = 2

// somewhere stands for an address of the Internet that is not known. It is one that nobody has.
func somewhere() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 1}) }

// passage is one packet: as policies see it at each end, and as a cloud does.
type passage struct {
	// sent is the packet as it leaves its source, and come as it gets to its destination.
	sent, come evaluate.Flow
	src, dst   trace.Point
	// from is where it begins: src, unless it leaves the cluster from another place.
	from trace.Point
	// leaving is how it leaves the cluster; nil if no Egress applies to it.
	leaving *analysis.Leaving
	// now and native are what the groups do with it, and would do without us; nil where no
	// interface has part in it.
	now, native *trace.Path
	// crossings are the network ACLs that it passes, up to one that does not let it through.
	crossings []trace.Crossing
}

// passageOf follows a packet, which has no addresses yet.
func (c *Computation) passageOf(p pair, from, to end, f evaluate.Flow) passage {
	out := passage{src: p.src, dst: p.dst, from: p.src, sent: f}
	out.sent.Source, out.sent.Destination = from.endpoint(p.src.Addr), to.endpoint(p.dst.Addr)
	// What an interface sends to its own public address is taken as what it sends to itself, as
	// everywhere where paths are followed.
	itself := p.src.Interface != nil && p.dst.Interface != nil && p.src.Interface.ID == p.dst.Interface.ID
	if p.dst.Public.IsValid() && !itself {
		out.sent.Destination.Addr = p.dst.Public
	}
	out.come = out.sent
	out.come.Destination.Addr = p.dst.Addr
	if p.src.Interface != nil || p.dst.Interface != nil {
		s := serviceOf(&f, p.src.Addr.Is6() || p.dst.Addr.Is6())
		now := c.clouds.Now.Follow(p.src, p.dst, s)
		native := c.clouds.Native.Follow(c.clouds.Native.Same(p.src), c.clouds.Native.Same(p.dst), s)
		out.now, out.native = &now, &native
		out.crossings = c.clouds.Borders.Crosses(p.src, p.dst, now, s)
		out.come.Source.Addr = now.SeenSource
		if !now.SeenSource.IsValid() && p.src.Addr.IsValid() { // some address of the Internet, which is nobody's that is known
			out.come.Source = evaluate.Endpoint{Addr: somewhere()}
		}
	}
	return out
}

// vmObject returns the VirtualMachine of an entity; nil if there is none.
func (c *Computation) vmObject(ref policy.EntityRef) *cloudv1alpha1.VirtualMachine {
	name, imported := strings.CutPrefix(ref.Name, cloudv1alpha1.EntityNamePrefix)
	if ref.Kind != policy.KindExternalEntity || !imported {
		return nil
	}
	return c.vmObjects[types.NamespacedName{Namespace: ref.Namespace, Name: name}]
}

// describeVM says which VM an entity is; nil if it is none of a cloud.
func (c *Computation) describeVM(e end) *analysis.VM {
	if !e.isCloudVM() {
		return nil
	}
	object, imported := strings.CutPrefix(e.ref.Name, cloudv1alpha1.EntityNamePrefix)
	labels := c.Ends[e.ref].Labels
	if !imported && labels[cloudv1alpha1.LabelOwnerVM] == "" {
		return nil
	}
	out := &analysis.VM{ID: object, Name: labels[cloudv1alpha1.LabelCloudVMName]}
	if vm := c.vmObject(e.ref); vm != nil {
		if vm.Status.CloudId != "" {
			out.ID = vm.Status.CloudId
		}
		if vm.Status.CloudName != "" {
			out.Name = vm.Status.CloudName
		}
		out.Region, out.Network = vm.Status.Region, vm.Status.CloudVpcId
	}
	if c.clouds == nil {
		return out
	}
	ref, known := c.clouds.VMs[e.ref]
	if points := c.clouds.Now.VM(ref.Region, ref.VMID); known && len(points) > 0 {
		p := points[0]
		out.ID, out.Region, out.Network = p.VM.ID, ref.Region, p.Network()
		if p.VM.Name != "" {
			out.Name = p.VM.Name
		}
	}
	return out
}

// title is what people call an end.
func (c *Computation) title(e end) string {
	vm := c.describeVM(e)
	if vm == nil {
		if of := imported.KindOf(e.ref); e.isCloudVM() && of != imported.VM {
			return of.Title(c.Ends[e.ref])
		}
		return e.String()
	}
	name := vm.Name
	if name == "" {
		name = vm.ID
	} else if c.shared(e.ref, name) {
		name += " (" + vm.ID + ")"
	}
	return "VM " + e.ref.Namespace + "/" + name
}

// shared reports whether another VM of the namespace has the name, too.
func (c *Computation) shared(ref policy.EntityRef, name string) bool {
	for other, e := range c.Ends {
		if other != ref && other.Kind == ref.Kind && other.Namespace == ref.Namespace && strings.EqualFold(e.Labels[cloudv1alpha1.LabelCloudVMName], name) {
			return true
		}
	}
	return false
}

func orNone(addrs []netip.Addr) []netip.Addr {
	if len(addrs) == 0 {
		return []netip.Addr{{}}
	}
	return addrs
}
