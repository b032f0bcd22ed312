package cli

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/policy"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	files              []string
	from, to           string
	protocol, port     string
	sourcePort         uint16
	icmpType, icmpCode uint8
	output             string
	cluster            clusterFlags
}

func newExplainCommand() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain [-f FILE_OR_DIR...] --from END --to END --protocol PROTOCOL --port PORT [-o json]",
		Short: "Say whether a flow is allowed, and by which rule",
		Long: `Explain says what the policies do with the first packet of a connection: at its source (egress) and at its destination
(ingress), each with the rule that decides, or the default, and what was passed on the way.

An end is NAMESPACE/NAME of a Pod, an ExternalEntity or a virtual machine (by the name of the object, or its id or name in
the cloud), the same with pod/, ee/ or vm/ before it, node/NAME, or an IP address.

"Native" means that no policy decides: a Pod or Node then lets the packet through; at a virtual machine its own security
groups decide. "Unknown" means that it depends on what a domain name or Service stands for, which only the enforcer
knows.

With -f everything is read from manifests; without, from the cluster. The exit code is 0 if the policies let the packet
through, 1 if they do not or it is unknown, 2 if the question cannot be answered.`,
		Example: `  nephele explain --from shop/web --to shop/db --protocol TCP --port 5432
  nephele explain -f policies/ -f inventory.yaml --from 203.0.113.7 --to vms/i-0a1b2c3d --protocol TCP --port 22 -o json
  nephele explain --from shop/web --to 10.0.0.7 --protocol ICMP --icmp-type 8`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runExplain(cmd, f) },
	}
	flags := c.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	flags.StringVar(&f.from, "from", "", "source")
	flags.StringVar(&f.to, "to", "", "destination")
	flags.StringVar(&f.protocol, "protocol", "TCP", "TCP, UDP, SCTP or ICMP")
	flags.StringVar(&f.port, "port", "", "destination port: a number, or the name of a port of the destination")
	flags.Uint16Var(&f.sourcePort, "source-port", 0, "source port; 0 means one that no rule names")
	flags.Uint8Var(&f.icmpType, "icmp-type", 8, "ICMP type")
	flags.Uint8Var(&f.icmpCode, "icmp-code", 0, "ICMP code")
	flags.StringVarP(&f.output, "output", "o", "", "json or yaml, or nothing for text")
	f.cluster.register(flags)
	return c
}

func runExplain(cmd *cobra.Command, f explainFlags) error {
	if f.output != "" && f.output != "json" && f.output != "yaml" {
		return fmt.Errorf("--output %q: want json or yaml, or nothing for text", f.output)
	}
	c, err := f.cluster.compute(cmd, f.files)
	if err != nil {
		return err
	}
	from, err := c.findEnd("from", f.from)
	if err != nil {
		return err
	}
	to, err := c.findEnd("to", f.to)
	if err != nil {
		return err
	}
	flow, err := f.flow(to)
	if err != nil {
		return err
	}
	answer, err := c.explain(from, to, flow)
	if err != nil {
		return err
	}
	if f.output == "" {
		fmt.Fprint(cmd.OutOrStdout(), answer.text())
	} else if err := printValue(cmd.OutOrStdout(), f.output, answer); err != nil {
		return err
	}
	if answer.Verdict != string(policy.OutcomeAllow) && answer.Verdict != string(policy.OutcomeNative) {
		return ErrNo
	}
	return nil
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
	case policy.ICMP:
		flow.ICMPType, flow.ICMPCode = f.icmpType, f.icmpCode
		return flow, nil
	default:
		return flow, fmt.Errorf("--protocol %q: want TCP, UDP, SCTP or ICMP", f.protocol)
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

// explain asks for every pair of addresses of the two ends. If they are treated alike, as nearly always, there is one
// answer.
func (c *computation) explain(from, to end, flow policy.Flow) (*explanation, error) {
	evaluator := policy.NewEvaluator(c.listing)
	out := newExplanation(from, to, flow)
	for _, pair := range addressPairs(from, to) {
		one := flow
		one.Source, one.Destination = from.endpoint(pair[0]), to.endpoint(pair[1])
		out.add(pair, evaluator.Evaluate(one))
	}
	if len(out.Flows) == 0 {
		return nil, fmt.Errorf("%s and %s have no addresses of the same family: no packet goes from one to the other", from, to)
	}
	out.finish()
	return out, nil
}

// addressPairs are the pairs of addresses of one family. An end without any address stands for itself.
func addressPairs(from, to end) [][2]netip.Addr {
	var out [][2]netip.Addr
	for _, a := range orNone(from.addresses) {
		for _, b := range orNone(to.addresses) {
			if !a.IsValid() || !b.IsValid() || a.Is4() == b.Is4() {
				out = append(out, [2]netip.Addr{a, b})
			}
		}
	}
	return out
}

func orNone(addrs []netip.Addr) []netip.Addr {
	if len(addrs) == 0 {
		return []netip.Addr{{}}
	}
	return addrs
}
