package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/clusterset/hub/questions"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

// reachFlags are the flags of reach.
type reachFlags struct {
	from, to       string
	protocol, port string
	refused        bool
	grouped        bool
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
can, 2 if the question cannot be answered.

In the hub of a set CLUSTER: before WHO asks that cluster, as in east:shop/app=web, and *: before it all of them. Each end of
a flow is then decided by its own cluster, for one port, and who cannot be reached is named.

--grouped tells it by classes of workloads that are alike, as the map of the console does, for all ports and for as many
workloads as there are: of a set 4,000, without addresses that no workload has.`,
		Example: `  nephele reach --to shop/db --port 5432
  nephele reach --to shop/app=db --from any -o json
  nephele reach -f policies/ -f account.yaml --snapshot ./my-account --to shop/db -o dot | dot -Tsvg > db.svg
  nephele reach --from shop/web --to 0.0.0.0/0
  nephele reach --from '*:shop/app=web' --to west:shop/db --port 5432
  nephele reach --grouped --from '*:*/*' -o dot | dot -Tsvg > set.svg`,
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
	flags.BoolVar(&f.grouped, "grouped", false, "tell it by classes of workloads that are alike; without --to, of everybody")
	flags.StringVarP(&f.output, "output", "o", "table", "table, json, yaml or dot")
	f.worldFlags.register(flags)
}

func runReach(cmd *cobra.Command, f *reachFlags) error {
	switch f.output {
	case "table", "json", "yaml", "dot":
	default:
		return fmt.Errorf("--output %q: want table, json, yaml or dot", f.output)
	}
	if f.grouped {
		return f.runMap(cmd)
	}
	if f.to == "" {
		return fmt.Errorf("--to is missing: want the destination, such as shop/db, shop/app=db, 10.0.0.0/8 or any")
	}
	rows, err := f.rows(cmd)
	if err != nil {
		return err
	}
	switch f.output {
	case "table":
		err = show.Reach(terminal.WindowOf(cmd.OutOrStdout()), rows)
	case "dot":
		err = show.ReachDot(cmd.OutOrStdout(), rows)
	default:
		err = terminal.PrintValue(cmd.OutOrStdout(), f.output, map[string]any{"flows": rows})
	}
	if err != nil {
		return err
	}
	if !anybody(rows) {
		return terminal.ErrNo
	}
	return nil
}

// rows asks the controller of the cluster if there is one that answers, and else works the answer
// out here.
func (f *reachFlags) rows(cmd *cobra.Command) ([]v1alpha1.ReachRow, error) {
	spec := v1alpha1.ReachReviewSpec{From: f.from, To: f.to, Protocol: f.protocol, Port: f.port, Refused: f.refused, Limit: source.ReviewPage}
	if questions.AsksReach(&spec) {
		return f.rowsOfSet(cmd, spec)
	}
	if f.asksController() {
		if rows, answered, err := f.cluster.AskReach(cmd, spec); answered || err != nil {
			return rows, err
		}
	}
	w, err := f.world(cmd)
	if err != nil {
		return nil, err
	}
	rows, err := review.Rows(w, spec)
	return rows, source.AboutFlag(err)
}

// runMap prints which class reaches which.
func (f *reachFlags) runMap(cmd *cobra.Command) error {
	m, err := f.askMap(cmd)
	if err != nil {
		return err
	}
	if err := show.Map(cmd.OutOrStdout(), f.output, m); err != nil {
		return err
	}
	if !show.Passes(m) {
		return terminal.ErrNo
	}
	return nil
}

// askMap asks the controller of the cluster, or of the hub, or works the answer out here.
func (f *reachFlags) askMap(cmd *cobra.Command) (*v1alpha1.ReachMap, error) {
	spec := v1alpha1.ReachReviewSpec{From: f.from, To: f.to, Protocol: f.protocol, Port: f.port, Refused: f.refused, Grouped: true}
	question := &v1alpha1.ReachReview{Spec: spec}
	if questions.AsksReach(&spec) {
		if err := f.askHub(cmd, question); err != nil {
			return nil, err
		}
		return question.Status.Map, nil
	}
	if f.asksController() {
		if answered, err := f.cluster.Ask(cmd, question, &question.Status.Seen); answered || err != nil {
			return question.Status.Map, err
		}
	}
	w, err := f.world(cmd)
	if err != nil {
		return nil, err
	}
	status, err := review.Reach(w, spec)
	return status.Map, source.AboutFlag(err)
}

// rowsOfSet asks the controller of the hub, which asks the clusters of the ends.
func (f *reachFlags) rowsOfSet(cmd *cobra.Command, spec v1alpha1.ReachReviewSpec) ([]v1alpha1.ReachRow, error) {
	question := &v1alpha1.ReachReview{Spec: spec}
	if err := f.askHub(cmd, question); err != nil {
		return nil, err
	}
	return question.Status.Flows, nil
}

// askHub asks the controller of the hub, and prints which half is not known.
func (f *reachFlags) askHub(cmd *cobra.Command, question *v1alpha1.ReachReview) error {
	if !f.asksController() {
		return errors.New("a question about clusters of the set is answered by the controller of their hub: leave out --filename, --snapshot, --local and the like")
	}
	answered, err := f.cluster.Ask(cmd, question, &v1alpha1.Seen{})
	if err != nil {
		return err
	}
	if !answered {
		return errors.New("the controller of the hub does not answer, and nobody else knows of its clusters")
	}
	for _, why := range question.Status.Unread {
		terminal.Notes(cmd, []string{"half an answer: " + why})
	}
	return nil
}

// anybody reports whether anything gets through, or may.
func anybody(rows []v1alpha1.ReachRow) bool {
	return slices.ContainsFunc(rows, func(r v1alpha1.ReachRow) bool {
		return r.Verdict != string(reach.Drop) && r.Verdict != string(reach.Reject)
	})
}
