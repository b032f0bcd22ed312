package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/reach"
)

// reachFlags are the flags of reach.
type reachFlags struct {
	from, to       string
	protocol, port string
	refused        bool
	output         string
	worldFlags
}

func newReachCommand() *cobra.Command {
	var f reachFlags
	c := &cobra.Command{
		Use:   "reach --to WHO [--from WHO] [--protocol PROTOCOL] [--port PORT] [-o json|table|dot]",
		Short: "Say who can reach whom",
		Long: `Reach says who can reach whom, by which ports and by which rules: for everybody at once, where explain answers for one
flow.

WHO is NAMESPACE/NAME of a Pod, an ExternalEntity or a virtual machine, the same after pod/, ee/ or vm/, node/NAME,
NAMESPACE/* or */* for all, NAMESPACE/SELECTOR for those with labels (shop/app=db), cloud/NAME for a machine in the snapshot
that no policy is about, an address or a range, or any.

The verdict of a row is Allow; Native, where the policies leave it to the security groups of a machine and these are not
known; or Unknown, where a domain name decides. --refused adds what is dropped and rejected. With --snapshot the machines'
own security groups are known and decide.

Between two machines their private addresses are told, and public ones apart; what is sent to a Service is not told: ask
explain.

With -f everything is read from manifests; without, from the cluster. The exit code is 0 if anybody can reach, 1 if nobody
can, 2 if the question cannot be answered.`,
		Example: `  nephele reach --to shop/db --port 5432
  nephele reach --to shop/app=db --from any -o json
  nephele reach -f policies/ -f account.yaml --snapshot ./my-account --to shop/db -o dot | dot -Tsvg > db.svg
  nephele reach --from shop/web --to 0.0.0.0/0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runReach(cmd, &f) },
	}
	f.register(c.Flags())
	return c
}

func (f *reachFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.to, "to", "", "destination (required)")
	flags.StringVar(&f.from, "from", "any", "source")
	flags.StringVar(&f.protocol, "protocol", "", "TCP, UDP, SCTP, ICMP, ICMPv6 or a number; empty means all, with --port TCP")
	flags.StringVar(&f.port, "port", "", "destination port, or a range of them (8000-8100)")
	flags.BoolVar(&f.refused, "refused", false, "tell what is dropped and rejected, too")
	flags.StringVarP(&f.output, "output", "o", "table", "table, json, yaml or dot")
	f.worldFlags.register(flags)
}

func runReach(cmd *cobra.Command, f *reachFlags) error {
	switch f.output {
	case "table", "json", "yaml", "dot":
	default:
		return fmt.Errorf("--output %q: want table, json, yaml or dot", f.output)
	}
	if f.to == "" {
		return fmt.Errorf("--to is missing: want whom to reach, such as shop/db, shop/app=db, 10.0.0.0/8 or any")
	}
	services, wrong := expect.Services(f.protocol, f.port)
	if wrong != nil {
		return fmt.Errorf("--%w", *wrong)
	}
	w, err := f.world(cmd)
	if err != nil {
		return err
	}
	q := reach.Question{Services: services, Refused: f.refused}
	if q.From, err = w.Party("from", f.from); err != nil {
		return aboutFlag(err)
	}
	if q.To, err = w.Party("to", f.to); err != nil {
		return aboutFlag(err)
	}
	answer := reachAnswerOf(w.Reach(q))
	switch f.output {
	case "table":
		err = printReach(windowOf(cmd.OutOrStdout()), answer)
	case "dot":
		err = printDot(cmd.OutOrStdout(), answer)
	default:
		err = printValue(cmd.OutOrStdout(), f.output, answer)
	}
	if err != nil {
		return err
	}
	if !answer.anybody() {
		return ErrNo
	}
	return nil
}

// reachAnswer is the answer as programs read it.
type reachAnswer struct {
	Flows []reachFlow `json:"flows"`
}

// reachFlow is a row of the answer.
type reachFlow struct {
	From    reachSide     `json:"from"`
	To      reachSide     `json:"to"`
	Traffic string        `json:"traffic"`
	Except  bool          `json:"except,omitempty"`
	Ranges  []reachRange  `json:"ranges,omitempty"`
	Verdict reach.Outcome `json:"verdict"`
	Egress  reachDecision `json:"egress"`
	Ingress reachDecision `json:"ingress"`
	// NoPeering tells that the ends are in networks without a peering that is known.
	NoPeering bool `json:"noPeering,omitempty"`
}

// reachSide is one end of a row.
type reachSide struct {
	Endpoints []reachEnd `json:"endpoints,omitempty"`
	Addresses []string   `json:"addresses,omitempty"`
	Rest      bool       `json:"rest,omitempty"`
}

// reachEnd is one of the endpoints.
type reachEnd struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Object    string   `json:"object,omitempty"`
	Interface string   `json:"interface,omitempty"`
	Addresses []string `json:"addresses"`
	Public    bool     `json:"public,omitempty"`
	partly    bool
}

// reachRange is a range of ports; of ICMP type*256+code.
type reachRange struct {
	Protocol int `json:"protocol"`
	From     int `json:"from"`
	To       int `json:"to"`
}

// reachDecision is what one end decides, and why.
type reachDecision struct {
	Outcome  reach.Outcome  `json:"outcome"`
	Rule     *explain.Rule  `json:"rule,omitempty"`
	Passed   []explain.Rule `json:"passed,omitempty"`
	Isolated bool           `json:"isolated,omitempty"`
	Failsafe string         `json:"failsafe,omitempty"`
	Groups   bool           `json:"groups,omitempty"`
}

func reachAnswerOf(flows []reach.Flows) reachAnswer {
	out := reachAnswer{Flows: []reachFlow{}}
	for _, f := range flows {
		packets := packetsOf(f)
		row := reachFlow{
			From: reachSideOf(f.From), To: reachSideOf(f.To), Traffic: packets.Text, Except: packets.Except, Verdict: f.Outcome,
			Egress: reachDecisionOf(f.Egress), Ingress: reachDecisionOf(f.Ingress), NoPeering: f.Apart,
		}
		for _, r := range packets.Ranges {
			row.Ranges = append(row.Ranges, reachRange(r))
		}
		out.Flows = append(out.Flows, row)
	}
	return out
}

func reachSideOf(s reach.Side) reachSide {
	out := reachSide{Rest: s.Rest}
	for _, m := range s.Members {
		e := reachEnd{Name: m.Name, Interface: m.Interface, Public: m.Public, partly: m.Partly()}
		if m.Kind != 0 {
			e.Kind, e.Namespace, e.Object = m.Kind.String(), m.Namespace, m.EntityRef.Name
		}
		for _, a := range m.Addresses {
			e.Addresses = append(e.Addresses, a.String())
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	for _, p := range s.Addresses {
		out.Addresses = append(out.Addresses, p.String())
	}
	return out
}

func reachDecisionOf(d reach.Decision) reachDecision {
	out := reachDecision{Outcome: d.Outcome, Isolated: d.Isolated, Failsafe: d.Openings, Groups: d.Groups}
	if d.Rule != nil {
		r := explain.RuleOf(*d.Rule)
		out.Rule = &r
	}
	for _, p := range d.Passed {
		out.Passed = append(out.Passed, explain.RuleOf(*p))
	}
	return out
}

// anybody reports whether anything gets through, or may.
func (a reachAnswer) anybody() bool {
	for _, f := range a.Flows {
		if f.Verdict != reach.Drop && f.Verdict != reach.Reject {
			return true
		}
	}
	return false
}
