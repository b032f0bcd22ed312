package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/review"
)

func newRulesCommand() *cobra.Command {
	var f struct {
		of, output, since string
		unused            bool
		worldFlags
	}
	c := &cobra.Command{
		Use:   "rules [--of END] [--unused] [--since TIME] [-o json]",
		Short: "Say which rules hold for a machine or Pod, and which are good for nothing",
		Long: `Rules lists the rules of the policies in the order in which they are asked.

With --of it lists those that hold for one virtual machine, Pod or Node (NAMESPACE/NAME, as in reach), each with the policy
that it comes from, whom it is about now, and what becomes of the rest. A rule that decides nothing there is marked, with
the rules before it that leave it nothing.

Without, it lists all rules with what they are good for. --unused lists those that decide nothing anywhere: rules before
them decide all they match (shadowed), a Pass rule takes it away (skipped), or nobody is selected. Who is selected changes: a
rule may be for machines that are still to come.

--since adds how many connections each rule has decided about since, and when last, of what the agents of hosts and Nodes have seen;
--unused then also lists the rules that have decided nothing. That is true of that time, and of machines with an agent: of others
flow logs tell, with "nephele flows --rules --logs". Counts go by the name and place of a rule: after a policy was changed, give the
time of the change.

The exit code of --unused is 1 if there are such rules.`,
		Example: "  nephele rules --of shop/db\n  nephele rules -f policies/ -f inventory.yaml --unused\n  nephele rules --unused --since 30d",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"table", "json", "yaml"}, f.output) {
				return fmt.Errorf("--output %q: want table, json or yaml", f.output)
			}
			if f.of != "" && f.unused {
				return fmt.Errorf("--unused is about all rules: leave out --of")
			}
			spec := v1alpha1.EffectiveRulesSpec{Of: f.of, Unused: f.unused}
			since, err := flowscmd.ParseSince("--since", f.since, time.Now())
			switch {
			case err != nil:
				return err
			case f.since == "":
			case f.of != "":
				return fmt.Errorf("--since is about all rules: leave out --of")
			case !f.asksController():
				return fmt.Errorf("--since asks the controller what agents have seen: leave out what is read in place of it, or see \"nephele flows --rules --logs\"")
			default:
				spec.Since = &metav1.MicroTime{Time: since}
			}
			answer, err := f.rules(cmd, spec)
			if err != nil {
				return err
			}
			if f.since != "" {
				notesOfTraffic(cmd, answer.Traffic)
			}
			if f.of != "" {
				return runEffective(terminal.ForPeople(cmd.OutOrStdout(), f.output), answer.Endpoints, f.output)
			}
			return runUses(terminal.ForPeople(cmd.OutOrStdout(), f.output), answer.Rules, f.unused, f.output)
		},
	}
	c.Flags().StringVar(&f.of, "of", "", "list the rules that hold for this machine, Pod or Node")
	c.Flags().BoolVar(&f.unused, "unused", false, "list only rules that decide nothing")
	c.Flags().StringVar(&f.since, "since", "", "count what each rule has decided since: how long ago, such as 30d, or a time such as 2026-03-01T12:00:00Z")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table, json or yaml")
	f.register(c.Flags())
	return c
}

// rules asks the controller of the cluster if there is one that answers, and else works the answer
// out here.
func (f *worldFlags) rules(cmd *cobra.Command, spec v1alpha1.EffectiveRulesSpec) (v1alpha1.EffectiveRulesStatus, error) {
	if f.asksController() {
		question := &v1alpha1.EffectiveRules{Spec: spec}
		if answered, err := f.cluster.Ask(cmd, question, &question.Status.Seen); answered || err != nil {
			return question.Status, err
		}
	}
	if spec.Since != nil {
		return v1alpha1.EffectiveRulesStatus{}, errors.New("no controller of this cluster says what rules have decided: want one of this version that serves the computed API (nephele up, or nephele controller --api)")
	}
	w, err := f.world(cmd)
	if err != nil {
		return v1alpha1.EffectiveRulesStatus{}, err
	}
	answer, err := review.Rules(w, spec)
	return answer, source.AboutFlag(err)
}

// notesOfTraffic says what the counts of rules rest on.
func notesOfTraffic(cmd *cobra.Command, t *v1alpha1.RuleTraffic) {
	if t == nil {
		terminal.Notes(cmd, []string{"the controller does not say what rules have decided: it is of another version"})
		return
	}
	terminal.Notes(cmd, []string{fmt.Sprintf("seen since %s, by %d agents that have reported within the last hour; a rule may be for what happens more rarely, or for machines without an agent",
		t.Since.UTC().Format(time.RFC3339), t.Enforcers)})
	if t.More > 0 {
		terminal.Notes(cmd, []string{fmt.Sprintf("%d entries are not counted, they are of too many rules", t.More)})
	}
}

func runUses(out io.Writer, rows []v1alpha1.RuleUse, unused bool, output string) error {
	var err error
	if output == "table" {
		err = show.RuleUses(out, rows)
	} else {
		err = terminal.PrintValue(out, output, map[string]any{"rules": rows})
	}
	if err == nil && unused && len(rows) > 0 {
		return terminal.ErrNo
	}
	return err
}

func runEffective(out io.Writer, endpoints []v1alpha1.EffectiveEndpoint, output string) error {
	if output != "table" {
		return terminal.PrintValue(out, output, map[string]any{"endpoints": endpoints})
	}
	for _, e := range endpoints {
		if err := show.EffectiveRules(out, e); err != nil {
			return err
		}
	}
	return nil
}
