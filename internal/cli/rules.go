package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/reach"
)

func newRulesCommand() *cobra.Command {
	var f struct {
		of, output string
		unused     bool
		worldFlags
	}
	c := &cobra.Command{
		Use:   "rules [--of END] [--unused] [-o json]",
		Short: "Say which rules hold for a machine or Pod, and which are good for nothing",
		Long: `Rules lists the rules of the policies in the order in which they are asked.

With --of it lists those that hold for one virtual machine, Pod or Node (NAMESPACE/NAME, as in reach), each with the policy
that it comes from, whom it is about now, and what becomes of the rest. A rule that decides nothing there is marked, with
the rules before it that leave it nothing.

Without, it lists all rules with what they are good for. --unused lists those that decide nothing anywhere: rules before
them decide all they match (shadowed), a Pass rule takes it away (skipped), or nobody is selected. Who is selected changes: a
rule may be for machines that are still to come.

The exit code of --unused is 1 if there are such rules.`,
		Example: "  nephele rules --of shop/db\n  nephele rules -f policies/ -f inventory.yaml --unused",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"table", "json", "yaml"}, f.output) {
				return fmt.Errorf("--output %q: want table, json or yaml", f.output)
			}
			if f.of != "" && f.unused {
				return fmt.Errorf("--unused is about all rules: leave out --of")
			}
			w, err := f.world(cmd)
			if err != nil {
				return err
			}
			if f.of != "" {
				return runEffective(forPeople(cmd.OutOrStdout(), f.output), w, f.of, f.output)
			}
			return runUses(forPeople(cmd.OutOrStdout(), f.output), w, f.unused, f.output)
		},
	}
	c.Flags().StringVar(&f.of, "of", "", "list the rules that hold for this machine, Pod or Node")
	c.Flags().BoolVar(&f.unused, "unused", false, "list only rules that decide nothing")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table, json or yaml")
	f.register(c.Flags())
	return c
}

// ruleUse is a row of the answer about all rules.
type ruleUse struct {
	Rule      explain.Rule   `json:"rule"`
	Use       reach.Use      `json:"use"`
	Endpoints int            `json:"endpoints"`
	By        []explain.Rule `json:"by,omitempty"`
}

// useWords says what a rule is good for.
func useWords(u reach.Use) string {
	switch u {
	case reach.AppliesToNobody:
		return "nobody is selected by appliedTo"
	case reach.PeersNobody:
		return "nobody is selected at the other end, or has the named port"
	case reach.Shadowed:
		return "shadowed"
	case reach.Skipped:
		return "skipped"
	case reach.Unjudged:
		return "not judged: about source ports or Services"
	}
	return "used"
}

func runUses(out io.Writer, w *explain.World, unused bool, output string) error {
	rows := []ruleUse{}
	useless := 0
	for _, u := range w.RuleUses() {
		if u.Use.Useless() {
			useless++
		} else if unused {
			continue
		}
		row := ruleUse{Rule: explain.RuleOf(u.RuleRef), Use: u.Use, Endpoints: u.Applies}
		for _, by := range u.By {
			row.By = append(row.By, explain.RuleOf(by))
		}
		rows = append(rows, row)
	}
	var err error
	if output == "table" {
		err = printUses(out, rows)
	} else {
		err = printValue(out, output, map[string]any{"rules": rows})
	}
	if err == nil && unused && useless > 0 {
		return ErrNo
	}
	return err
}

func printUses(out io.Writer, rows []ruleUse) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "None.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DIRECTION\tPOLICY\tRULE\tACTION\tENDPOINTS\tUSE")
	for _, r := range rows {
		use := useWords(r.Use)
		if len(r.By) > 0 {
			use += " by " + rulesText(r.By)
		}
		cells := []string{directionWord(r.Rule), policyName(r.Rule), ruleName(r.Rule), string(r.Rule.Action), fmt.Sprint(r.Endpoints), use}
		for i := range cells {
			cells[i] = printable(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func directionWord(r explain.Rule) string {
	if r.Direction == "In" {
		return "ingress"
	}
	return "egress"
}

func policyName(r explain.Rule) string {
	return strings.TrimPrefix(r.Policy.Namespace+"/"+r.Policy.Name, "/")
}

func ruleName(r explain.Rule) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("%s[%d]", directionWord(r), r.Index)
}

// rulesText names rules, and counts those beyond the first few.
func rulesText(rules []explain.Rule) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = policyName(r) + " " + ruleName(r)
	}
	return some(names, mostNamed)
}

// effectiveAnswer is what holds for the endpoints that were asked about.
type effectiveAnswer struct {
	Endpoints []effectiveEndpoint `json:"endpoints"`
}

type effectiveEndpoint struct {
	Name      string             `json:"name"`
	Interface string             `json:"interface,omitempty"`
	Ingress   effectiveDirection `json:"ingress"`
	Egress    effectiveDirection `json:"egress"`
}

type effectiveDirection struct {
	NotEnforced string           `json:"notEnforced,omitempty"`
	Failsafe    string           `json:"failsafe,omitempty"`
	Rules       []effectiveRule  `json:"rules,omitempty"`
	Default     reach.Outcome    `json:"default"`
	IsolatedBy  []explain.Policy `json:"isolatedBy,omitempty"`
}

type effectiveRule struct {
	Rule    explain.Rule   `json:"rule"`
	Peers   []string       `json:"peers,omitempty"`
	Names   []string       `json:"names,omitempty"`
	Traffic string         `json:"traffic"`
	Decides bool           `json:"decides"`
	By      []explain.Rule `json:"by,omitempty"`
}

func runEffective(out io.Writer, w *explain.World, of, output string) error {
	p, err := w.Party("of", of)
	if err != nil {
		return aboutFlag(err)
	}
	var answer effectiveAnswer
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		if p.Chosen == nil || !p.Chosen(e) || e.Public {
			continue // the public addresses of a machine are treated as the others
		}
		holds := w.Effective(e)
		answer.Endpoints = append(answer.Endpoints, effectiveEndpoint{e.Name, e.Interface, effectiveOf(holds.Ingress), effectiveOf(holds.Egress)})
	}
	if output != "table" {
		return printValue(out, output, answer)
	}
	for _, e := range answer.Endpoints {
		if err := printEffective(out, e); err != nil {
			return err
		}
	}
	return nil
}

func effectiveOf(d reach.EffectiveDirection) effectiveDirection {
	out := effectiveDirection{NotEnforced: d.Suspended, Failsafe: d.Openings, Default: d.Default}
	for _, p := range d.IsolatedBy {
		out.IsolatedBy = append(out.IsolatedBy, explain.Policy{Type: p.Kind, Namespace: p.Namespace, Name: p.Name})
	}
	for _, r := range d.Rules {
		row := effectiveRule{Rule: explain.RuleOf(r.RuleRef), Names: r.Names, Decides: r.Decides, Traffic: r.Traffic()}
		for _, p := range r.Peers.Prefixes() {
			row.Peers = append(row.Peers, p.String())
		}
		for _, by := range r.By {
			row.By = append(row.By, explain.RuleOf(by))
		}
		out.Rules = append(out.Rules, row)
	}
	return out
}

func printEffective(out io.Writer, e effectiveEndpoint) error {
	name := e.Name
	if e.Interface != "" {
		name += " (" + e.Interface + ")"
	}
	fmt.Fprintln(out, printable(name))
	for _, d := range []struct {
		word, peers string
		effectiveDirection
	}{{"ingress", "FROM", e.Ingress}, {"egress", "TO", e.Egress}} {
		fmt.Fprintf(out, "  %s\n", d.word)
		if d.NotEnforced != "" {
			fmt.Fprintf(out, "    not enforced: %s\n", printable(d.NotEnforced))
		}
		if d.Failsafe != "" {
			fmt.Fprintf(out, "    first the failsafe flows of account %s\n", d.Failsafe)
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		if len(d.Rules) > 0 {
			fmt.Fprintf(w, "    ACTION\tTRAFFIC\t%s\tPOLICY\tRULE\t\n", d.peers)
		}
		for _, r := range d.Rules {
			peers := some(append(slices.Clone(r.Names), r.Peers...), 3)
			if peers == "" {
				peers = "nobody"
			}
			note := ""
			switch {
			case r.Decides:
			case len(r.By) > 0:
				note = "decides nothing: before it come " + rulesText(r.By)
			default:
				note = "decides nothing"
			}
			cells := []string{string(r.Rule.Action), r.Traffic, peers, policyName(r.Rule), ruleName(r.Rule), note}
			for i := range cells {
				cells[i] = printable(cells[i])
			}
			fmt.Fprintln(w, "    "+strings.Join(cells, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		rest := "    the rest: " + string(d.Default)
		if len(d.IsolatedBy) > 0 {
			rest += ", isolated by " + explain.PoliciesText(d.IsolatedBy)
		}
		fmt.Fprintln(out, printable(rest))
	}
	return nil
}
