package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

func RuleUses(out io.Writer, rows []v1alpha1.RuleUse) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "None.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	header := "DIRECTION\tPOLICY\tRULE\tACTION\tENDPOINTS\tUSE"
	if rows[0].Connections != nil {
		header += "\tCONNECTIONS\tLAST"
	}
	fmt.Fprintln(w, header)
	for _, r := range rows {
		use := UseWords(r.Use)
		if len(r.By) > 0 {
			use += " by " + review.RulesText(r.By)
		}
		cells := []string{review.DirectionWord(r.Rule), review.PolicyName(r.Rule), review.RuleName(r.Rule), string(r.Rule.Action), fmt.Sprint(r.Endpoints), use}
		if r.Connections != nil {
			cells = append(cells, decidedCells(&r)...)
		}
		for i := range cells {
			cells[i] = terminal.Printable(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func EffectiveRules(out io.Writer, e v1alpha1.EffectiveEndpoint) error {
	name := e.Name
	if e.Interface != "" {
		name += " (" + e.Interface + ")"
	}
	fmt.Fprintln(out, terminal.Printable(name))
	for _, d := range []struct {
		word, peers string
		v1alpha1.EffectiveDirection
	}{{"ingress", "FROM", e.Ingress}, {"egress", "TO", e.Egress}} {
		fmt.Fprintf(out, "  %s\n", d.word)
		if d.NotEnforced != "" {
			fmt.Fprintf(out, "    not enforced: %s\n", terminal.Printable(d.NotEnforced))
		}
		if d.Failsafe != "" {
			fmt.Fprintf(out, "    first the failsafe flows of account %s\n", d.Failsafe)
		}
		if d.HostFailsafe != "" {
			fmt.Fprintf(out, "    first the failsafe flows of host %s, which its agent lets through\n", d.HostFailsafe)
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		if len(d.Rules) > 0 {
			fmt.Fprintf(w, "    ACTION\tTRAFFIC\t%s\tPOLICY\tRULE\t\n", d.peers)
		}
		for _, r := range d.Rules {
			peers := review.PeersText(r, 3)
			if peers == "" {
				peers = "nobody"
			}
			note := ""
			switch {
			case r.Decides:
			case len(r.By) > 0:
				note = "decides nothing: before it come " + review.RulesText(r.By)
			default:
				note = "decides nothing"
			}
			cells := []string{string(r.Rule.Action), r.Traffic, peers, review.PolicyName(r.Rule), review.RuleName(r.Rule), note}
			for i := range cells {
				cells[i] = terminal.Printable(cells[i])
			}
			fmt.Fprintln(w, "    "+strings.Join(cells, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		rest := "    the rest: " + string(d.Default)
		if len(d.IsolatedBy) > 0 {
			rest += ", isolated by " + policiesText(d.IsolatedBy)
		}
		fmt.Fprintln(out, terminal.Printable(rest))
	}
	return nil
}

// UseWords says what a rule is good for.
func UseWords(u string) string {
	switch reach.Use(u) {
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

// decidedCells say what a rule has decided.
func decidedCells(r *v1alpha1.RuleUse) []string {
	n, last := fmt.Sprint(*r.Connections), "-"
	if r.Together {
		n += " by all its rules"
	}
	if r.Last != nil {
		last = r.Last.UTC().Format("01-02 15:04:05")
	}
	return []string{n, last}
}

// policiesText names policies.
func policiesText(list []v1alpha1.Policy) string {
	return explain.PoliciesText(list)
}
