package cni

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	nodenet "github.com/nephele-io/nephele/internal/agent/network"
)

// connect makes the network of a Pod: the agent says which addresses it has, the plugin makes the
// link with its end in the Pod, and the agent does the rest when it hears that this is done.
func (p plugin) connect(args *skel.CmdArgs, c *config) error {
	if c.PrevResult != nil {
		return types.NewError(types.ErrInvalidNetworkConfig, Type+` with "network" makes the network of Pods: it must be the first one of its list`, "")
	}
	about, err := podOf(args.Args)
	if err != nil {
		return types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_ARGS: "+err.Error(), "")
	}
	about.Container, about.Interface = args.ContainerID, args.IfName
	var got Assigned
	if err := c.outcome(ask(p.ctx, c.Socket, PathAssign, Wanted{about, Protocol}, &got, askLimit)); err != nil {
		return err
	}
	if err := got.check(); err != nil {
		return types.NewError(codeRefused, "the agent of this Node: "+err.Error(), "")
	}
	about.Addresses = got.Addresses
	result, err := makePod(args, &got)
	if err != nil {
		err = types.NewError(types.ErrInternal, err.Error(), "")
	} else {
		err = c.outcome(ask(p.ctx, c.Socket, PathAdd, about, nil, AddLimit+askLimit))
	}
	if err != nil {
		p.undo(c, &about)
		return err
	}
	return types.PrintResult(result, c.CNIVersion)
}

// undo takes back what was made. Whatever of it fails, a runtime asks for it again by DEL.
func (p plugin) undo(c *config, about *Attachment) {
	if err := removePod(about.Container, about.Interface); err != nil {
		fmt.Fprintln(os.Stderr, Type+":", err)
		return
	}
	if err := ask(p.ctx, c.Socket, PathDelete, about, nil, askLimit); err != nil {
		fmt.Fprintln(os.Stderr, Type+": the agent does not know that the Pod has no network:", err)
	}
}

// resultOf is what a runtime is told of a Pod.
func resultOf(args *skel.CmdArgs, got *Assigned, outside, inside net.HardwareAddr) *current.Result {
	one := 1
	out := &current.Result{CNIVersion: current.ImplementedSpecVersion, Interfaces: []*current.Interface{
		{Name: endName(args), Mac: outside.String(), Mtu: got.MTU}, {Name: args.IfName, Mac: inside.String(), Mtu: got.MTU, Sandbox: args.Netns},
	}}
	for _, a := range got.Addresses {
		out.IPs = append(out.IPs, &current.IPConfig{Interface: &one, Address: *network(netip.PrefixFrom(a, a.BitLen())), Gateway: gatewayOf(got, a.Is6()).AsSlice()})
	}
	for _, g := range got.Gateways {
		out.Routes = append(out.Routes, &types.Route{Dst: *network(netip.PrefixFrom(anywhere(g.Is6()), 0)), GW: g.AsSlice()})
	}
	return out
}

// endName is the name of the link at the Node.
func endName(args *skel.CmdArgs) string { return nodenet.EndName(args.ContainerID, args.IfName) }

func gatewayOf(got *Assigned, six bool) netip.Addr {
	for _, g := range got.Gateways {
		if g.Is6() == six {
			return g
		}
	}
	return netip.Addr{}
}

// anywhere is the unspecified address of a family.
func anywhere(six bool) netip.Addr {
	if six {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
