package explaincmd

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/review"
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
	cluster            source.ClusterFlags
	clouds             explainClouds
}

// Command is "explain".
func Command() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain [-f FILE_OR_DIR...] --from END --to END --protocol PROTOCOL --port PORT [-o json]",
		Short: "Say whether a flow is allowed, and by which rule",
		Long: `Explain says what happens to the first packet of a connection: at its source (egress) and at its destination (ingress), each
with the rule that decides, or the default, and what was passed on the way. The first line is what the sender sees today.
Where a policy is not enforced as it stands (refused, suspended, pending, kept) that is said, and what would be so otherwise.

An end is NAMESPACE/NAME of a Pod, an ExternalEntity or a virtual machine (by the name of the object, or its id or name in
the cloud), the same with pod/, ee/ or vm/ before it, node/NAME, or an IP address. For a Pod in the network of its Node the
policies of the Node hold.

For virtual machines the cloud is read: their account's, or with --snapshot a description of it as "nephele plan" takes it.
Then the security groups of both ends are told, with the rule that lets the packet through, and what gateways do to it.

The destination may also be svc/NAMESPACE/NAME or an address of a Service: the policies then decide about every Pod behind
it, on the port it hands packets to. A Pod by its name may be reached either way; by its address it is not reached through
a Service.

In the hub of a set an end may have the name of a cluster before it, as in east:shop/web. Each cluster is then asked for its half, for
at most five seconds: its own rules and the rules of the hub decide there. The answer names each cluster that could not be asked; then it is half an answer.

What an account says goes before the policies of its machines: its failsafe flows are allowed, and in the modes plan and
released and under break-glass policies are not enforced; they are told all the same.

"Native" means that the security groups of a virtual machine decide, and were not read. "NoRoute" means that nothing known
connects the networks of two machines. "Unknown" means that it depends on what a domain name or Service stands for, or which Pod a Service
chooses: only the enforcer knows.

With -f everything is read from manifests; without, from the cluster and the cloud. The exit code is 0 if the policies let the packet
through, 1 if they do not or it is unknown, 2 if the question cannot be answered.`,
		Example: `  nephele explain --from shop/web --to shop/db --protocol TCP --port 5432
  nephele explain -f policies/ -f inventory.yaml --from 203.0.113.7 --to vms/i-0a1b2c3d --protocol TCP --port 22 -o json
  nephele explain --from shop/web --to svc/shop/db --port 5432
  nephele explain -f account.yaml -f policies/ --snapshot ./my-account --from shop/app-1 --to shop/db-1 --port 5432
  nephele explain --from shop/web --to 10.0.0.7 --protocol ICMP
  nephele explain --from east:shop/web --to west:shop/db --port 5432`,
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
	flags.Uint8Var(&f.icmpType, "icmp-type", explain.EchoRequest, "ICMP or ICMPv6 type; without it that of an echo request, which is 128 in IPv6")
	flags.Uint8Var(&f.icmpCode, "icmp-code", 0, "ICMP or ICMPv6 code")
	flags.Uint8Var(&f.igmpType, "igmp-type", 0, "IGMP type: 0x11 for a query; 0x12, 0x16, 0x17 or 0x22 for a report")
	flags.StringVar(&f.igmpGroup, "igmp-group", "", "group address that the IGMP message is about, if it is not sent to that address")
	flags.StringVarP(&f.output, "output", "o", "", "json or yaml, or nothing for text")
	f.cluster.Register(flags)
	f.cluster.RegisterLocal(flags)
	f.clouds.register(flags)
}

func runExplain(cmd *cobra.Command, f explainFlags) error {
	if f.output != "" && f.output != "json" && f.output != "yaml" {
		return fmt.Errorf("--output %q: want json or yaml, or nothing for text", f.output)
	}
	if f.ofSet() {
		return explainSet(cmd, f)
	}
	answer, err := f.answer(cmd)
	if err != nil {
		return err
	}
	if f.output == "" {
		fmt.Fprint(terminal.WindowOf(cmd.OutOrStdout()), show.Explanation(answer))
	} else if err := terminal.PrintValue(cmd.OutOrStdout(), f.output, answer); err != nil {
		return err
	}
	if !explain.Passes(answer) {
		return terminal.ErrNo
	}
	return nil
}

// answer asks the controller of the cluster if there is one that answers, and else works the answer
// out here.
func (f *explainFlags) answer(cmd *cobra.Command) (*v1alpha1.FlowAnswer, error) {
	q := f.question(cmd.Flags())
	if len(f.files) == 0 && f.clouds.snapshot == "" && !f.clouds.unread && !f.cluster.Local {
		question := &v1alpha1.FlowReview{Spec: review.SpecOf(q)}
		answered, err := f.cluster.Ask(cmd, question, &question.Status.Seen)
		if err != nil {
			return nil, err
		}
		if answered {
			return &question.Status.FlowAnswer, nil
		}
	}
	c, err := f.read(cmd)
	if err != nil {
		return nil, err
	}
	out, err := c.Computed.Answer(q)
	return out, source.AboutFlag(err)
}

// question is what the flags ask.
func (f *explainFlags) question(flags *pflag.FlagSet) explain.Question {
	q := explain.Question{
		From: f.from, To: f.to, Protocol: f.protocol, Port: f.port, SourcePort: f.sourcePort, ICMPCode: f.icmpCode, IGMPType: f.igmpType, IGMPGroup: f.igmpGroup,
	}
	if flags.Changed("icmp-type") {
		q.ICMPType = &f.icmpType
	}
	return q
}
