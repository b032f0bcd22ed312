package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nephele-io/nephele/internal/policy"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	files              []string
	from, to           string
	protocol, port     string
	sourcePort         uint16
	icmpType, icmpCode uint8
	igmpType           uint8
	igmpGroup          string
	output             string
	cluster            clusterFlags
	// echo is set if no ICMP type is given: then it is that of an echo request, which depends on the family.
	echo bool
}

// The ICMP types of echo requests.
const (
	echoRequest   = 8
	echoRequestV6 = 128
)

func newExplainCommand() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain [-f FILE_OR_DIR...] --from END --to END --protocol PROTOCOL --port PORT [-o json]",
		Short: "Say whether a flow is allowed, and by which rule",
		Long: `Explain says what the policies do with the first packet of a connection: at its source (egress) and at its destination
(ingress), each with the rule that decides, or the default, and what was passed on the way. The first line is what the
sender sees.

An end is NAMESPACE/NAME of a Pod, an ExternalEntity or a virtual machine (by the name of the object, or its id or name in
the cloud), the same with pod/, ee/ or vm/ before it, node/NAME, or an IP address. For a Pod in the network of its Node the
policies of the Node hold.

The destination may also be svc/NAMESPACE/NAME or an address of a Service: the policies then decide about every Pod behind
it, on the port it hands packets to. A Pod by its name may be reached either way; by its address it is not reached through
a Service.

What an account says goes before the policies of its machines: its failsafe flows are allowed, and in the modes plan and
released and under break-glass policies are not enforced; they are told all the same.

"Native" means that no policy decides: a Pod or Node then lets the packet through; at a virtual machine its own security
groups decide. "Unknown" means that it depends on what a domain name or Service stands for, or whom a Service chooses,
which only the enforcer knows.

With -f everything is read from manifests; without, from the cluster. The exit code is 0 if the policies let the packet
through, 1 if they do not or it is unknown, 2 if the question cannot be answered.`,
		Example: `  nephele explain --from shop/web --to shop/db --protocol TCP --port 5432
  nephele explain -f policies/ -f inventory.yaml --from 203.0.113.7 --to vms/i-0a1b2c3d --protocol TCP --port 22 -o json
  nephele explain --from shop/web --to svc/shop/db --port 5432
  nephele explain --from shop/web --to 10.0.0.7 --protocol ICMP`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runExplain(cmd, f) },
	}
	f.register(c.Flags())
	return c
}

func (f *explainFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	flags.StringVar(&f.from, "from", "", "source")
	flags.StringVar(&f.to, "to", "", "destination")
	flags.StringVar(&f.protocol, "protocol", "TCP", "TCP, UDP, SCTP, ICMP (in IPv6: ICMPv6), ICMPv6 or IGMP")
	flags.StringVar(&f.port, "port", "", "destination port: a number, or the name of a port of the destination")
	flags.Uint16Var(&f.sourcePort, "source-port", 0, "source port; 0 means one that no rule names")
	flags.Uint8Var(&f.icmpType, "icmp-type", echoRequest, "ICMP or ICMPv6 type; without it that of an echo request, which is 128 in IPv6")
	flags.Uint8Var(&f.icmpCode, "icmp-code", 0, "ICMP or ICMPv6 code")
	flags.Uint8Var(&f.igmpType, "igmp-type", 0, "IGMP type: 0x11 for a query; 0x12, 0x16, 0x17 or 0x22 for a report")
	flags.StringVar(&f.igmpGroup, "igmp-group", "", "group address that the IGMP message is about, if it is not sent to that address")
	flags.StringVarP(&f.output, "output", "o", "", "json or yaml, or nothing for text")
	f.cluster.register(flags)
}

func runExplain(cmd *cobra.Command, f explainFlags) error {
	if f.output != "" && f.output != "json" && f.output != "yaml" {
		return fmt.Errorf("--output %q: want json or yaml, or nothing for text", f.output)
	}
	c, err := f.cluster.compute(cmd, f.files)
	if err != nil {
		return err
	}
	f.echo = !cmd.Flags().Changed("icmp-type")
	answer, err := c.answer(f)
	if err != nil {
		return err
	}
	if f.output == "" {
		fmt.Fprint(cmd.OutOrStdout(), answer.text())
	} else if err := printValue(cmd.OutOrStdout(), f.output, answer); err != nil {
		return err
	}
	if !answer.passes() {
		return ErrNo
	}
	return nil
}

// answer answers the question.
func (c *computation) answer(f explainFlags) (*explanation, error) {
	from, err := c.findEnd("from", f.from)
	if err != nil {
		return nil, err
	}
	to, err := c.findEnd("to", f.to)
	if err != nil {
		return nil, err
	}
	flow, err := f.flow(to)
	if err != nil {
		return nil, err
	}
	packets, err := f.packets(from, to, flow)
	if err != nil {
		return nil, err
	}
	return c.explain(from, to, flow, packets)
}

// compute computes from manifests, or from the cluster if there are none. From manifests everything must be accepted, or
// the answers would be about something else than what stands there; in a cluster the controller goes on as well.
func (f clusterFlags) compute(cmd *cobra.Command, files []string) (*computation, error) {
	if len(files) > 0 {
		in, err := loadInputs(files, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		c := compute(in)
		notes(cmd, in.notes)
		return c, reportRefused(cmd, in.refused)
	}
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	in, err := readInputs(cmd.Context(), client)
	if err != nil {
		return nil, err
	}
	var slices discoveryv1.EndpointSliceList
	if err := client.List(cmd.Context(), &slices); err != nil {
		in.notes = append(in.notes, fmt.Sprintf("who is behind Services is told by their selectors, because EndpointSlices cannot be read: %v", err))
	}
	in.slices = pointers(slices.Items)
	c := compute(in)
	for _, r := range in.refused {
		in.notes = append(in.notes, "left out, as by the controller: "+r.String())
	}
	notes(cmd, in.notes)
	return c, nil
}

// flow is the flow asked about, without its ends.
func (f explainFlags) flow(to end) (policy.Flow, error) {
	flow := policy.Flow{Protocol: policy.Protocol(strings.ToUpper(f.protocol)), SourcePort: f.sourcePort}
	switch flow.Protocol {
	case policy.TCP, policy.UDP, policy.SCTP:
	case policy.ICMP, icmpv6:
		flow.Protocol, flow.ICMPType, flow.ICMPCode = policy.ICMP, f.icmpType, f.icmpCode
		return flow, nil
	case policy.IGMP:
		return flow, f.igmp(&flow)
	default:
		return flow, fmt.Errorf("--protocol %q: want TCP, UDP, SCTP, ICMP, ICMPv6 or IGMP", f.protocol)
	}
	if f.port == "" {
		return flow, fmt.Errorf("--port is missing: want the destination port of %s", flow.Protocol)
	}
	if n, err := strconv.ParseUint(f.port, 10, 16); err == nil && n > 0 {
		flow.Port = uint16(n)
		return flow, nil
	}
	for _, p := range to.ports {
		if p.Name == f.port && p.Protocol == flow.Protocol {
			flow.Port = uint16(p.Port)
			return flow, nil
		}
	}
	return flow, fmt.Errorf("--port %q: want a number from 1 to 65535, or the name of a %s port of the destination", f.port, flow.Protocol)
}

// icmpv6 is what a user may call the ICMP of IPv6. Rules know it as ICMP.
const icmpv6 policy.Protocol = "ICMPV6"

// igmp sets what a flow has of IGMP.
func (f explainFlags) igmp(flow *policy.Flow) error {
	if f.igmpType == 0 {
		return errors.New("--igmp-type is missing: want the IGMP type, such as 0x11 for a query or 0x16 for a report")
	}
	flow.IGMPType = f.igmpType
	if f.igmpGroup == "" {
		return nil
	}
	group, err := netip.ParseAddr(f.igmpGroup)
	if err != nil || !group.Is4() || !group.IsMulticast() {
		return fmt.Errorf("--igmp-group %q: want an IPv4 multicast address", f.igmpGroup)
	}
	flow.GroupAddress = group
	return nil
}

// packets are the flows to ask about: one for every pair of addresses of the two ends that are of one family and can carry the
// protocol. An end without any address stands for itself.
func (f explainFlags) packets(from, to end, flow policy.Flow) ([]policy.Flow, error) {
	only6, only4 := strings.EqualFold(f.protocol, string(icmpv6)), flow.Protocol == policy.IGMP
	var out []policy.Flow
	family := false
	for _, a := range orNone(from.addresses) {
		for _, b := range orNone(to.addresses) {
			if a.IsValid() && b.IsValid() && a.Is4() != b.Is4() {
				continue
			}
			family = true
			is4, is6 := a.Is4() || b.Is4(), a.Is6() || b.Is6()
			if only6 && is4 || only4 && is6 {
				continue
			}
			one := flow
			one.Source, one.Destination = from.endpoint(a), to.endpoint(b)
			if flow.Protocol == policy.ICMP && f.echo && (is6 || only6) {
				one.ICMPType = echoRequestV6
			}
			out = append(out, one)
		}
	}
	switch {
	case !family:
		return nil, fmt.Errorf("%s and %s have no addresses of the same family: no packet goes from one to the other", from, to)
	case len(out) == 0:
		return nil, fmt.Errorf("--protocol %q: %s and %s have no addresses of the family that it belongs to", f.protocol, from, to)
	}
	return out, nil
}

// explain asks about every packet. If they are treated alike, as nearly always, there is one answer.
func (c *computation) explain(from, to end, flow policy.Flow, packets []policy.Flow) (*explanation, error) {
	through, note, err := c.throughService(to, flow)
	if err != nil {
		return nil, err
	}
	evaluator := policy.NewEvaluator(c.listing).WithServices(c.mayLead)
	out := c.newExplanation(from, to, packets)
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	for _, one := range packets {
		if through != nil {
			c.explainThrough(out, evaluator, through, one)
			continue
		}
		one.Direct = to.byAddress && to.ref != (policy.EntityRef{})
		out.add(one, one, to, evaluator.Evaluate(one))
	}
	if through != nil {
		c.tellOfService(out, through)
	}
	out.finish()
	return out, nil
}

// explainThrough asks about a packet to a Service at every backend that it may be handed to.
func (c *computation) explainThrough(out *explanation, evaluator *policy.Evaluator, via *frontend, packet policy.Flow) {
	family := packet.Destination.Addr
	if !family.IsValid() {
		family = packet.Source.Addr
	}
	for _, b := range c.behind(via, family) {
		one := packet
		one.Destination, one.Port, one.Service = b.endpoint(b.address), b.port, nameOf(via.service)
		out.addBackend(packet, one, b, evaluator.Evaluate(one))
	}
}

func orNone(addrs []netip.Addr) []netip.Addr {
	if len(addrs) == 0 {
		return []netip.Addr{{}}
	}
	return addrs
}
