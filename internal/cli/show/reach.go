package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/clusterset/halves"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

// mostNamed is how many ends a cell of a table names.
const mostNamed = 4

// Reach prints a table, in which rows that differ in public addresses only are one.
func Reach(out io.Writer, rows []v1alpha1.ReachRow) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "Nobody.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FROM\tTO\tTRAFFIC\tVERDICT\tBY")
	seen := map[string]bool{}
	for _, f := range rows {
		cells := []string{sideText(f.From, mostNamed), sideText(f.To, mostNamed), f.Traffic, verdictText(f), reasonText(f)}
		for i := range cells {
			cells[i] = terminal.Printable(cells[i])
		}
		row := strings.Join(cells, "\t")
		key := strings.ReplaceAll(row, publicMark, "")
		if seen[key] {
			continue
		}
		seen[key] = true
		fmt.Fprintln(w, row)
	}
	return w.Flush()
}

// publicMark is added to a machine that is meant by its public addresses.
const publicMark = " (public address)"

// ReachLine says in a line what a row says.
func ReachLine(f v1alpha1.ReachRow) string {
	return fmt.Sprintf("%s: %s from %s to %s, by %s", verdictText(f), f.Traffic, sideText(f.From, mostNamed), sideText(f.To, mostNamed), reasonText(f))
}

// sideText names an end, and at most some of those in it.
func sideText(s v1alpha1.ReachSide, most int) string {
	if len(s.Endpoints) > 0 {
		var names []string
		for _, e := range s.Endpoints {
			name := e.Name
			if e.Partly {
				name += " (" + strings.Join(e.Addresses, ", ") + ")"
			}
			if e.Public {
				name += publicMark
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return review.Some(names, most)
	}
	return review.AddressesText(s, most)
}

func verdictText(f v1alpha1.ReachRow) string {
	if f.NoPeering {
		return f.Verdict + ", no peering known"
	}
	return f.Verdict
}

// reasonText says why: what refuses it, or else both ends where they have something to say.
func reasonText(f v1alpha1.ReachRow) string {
	passes := func(outcome string) bool { return outcome == string(reach.Allow) }
	egress, ingress := decisionText(f.Egress), decisionText(f.Ingress)
	switch {
	case !passes(f.Egress.Outcome) && passes(f.Ingress.Outcome):
		ingress = ""
	case passes(f.Egress.Outcome) && !passes(f.Ingress.Outcome):
		egress = ""
	}
	var parts []string
	if egress != "" {
		parts = append(parts, "egress "+egress)
	}
	if ingress != "" {
		parts = append(parts, "ingress "+ingress)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "; ")
}

func decisionText(d v1alpha1.ReachDecision) string {
	switch {
	case d.Rule != nil:
		name := d.Rule.Name
		if name == "" {
			name = fmt.Sprintf("rule %d", d.Rule.Index)
		}
		return review.PolicyName(*d.Rule) + " " + name
	case d.Isolated:
		return "isolated"
	case d.Failsafe != "":
		return "failsafe of " + d.Failsafe
	case d.HostFailsafe != "":
		return "failsafe of host " + d.HostFailsafe
	case d.Groups:
		return "own groups"
	case d.Outcome == string(reach.Native):
		return "own groups, not known"
	case d.Outcome == halves.Unanswered:
		return "not answered"
	case d.Outcome == string(reach.Unknown):
		return "a domain name"
	}
	return ""
}

// ReachDot prints a graph for Graphviz: an edge for each row, from and to boxes with all the names.
func ReachDot(out io.Writer, rows []v1alpha1.ReachRow) error {
	var b strings.Builder
	b.WriteString("digraph reach {\n  rankdir=LR;\n  node [shape=box];\n")
	styles := map[string]string{string(reach.Native): "dashed", string(reach.Unknown): "dotted"}
	seen := map[string]bool{}
	for _, f := range rows {
		color := "black"
		if f.Verdict == string(reach.Drop) || f.Verdict == string(reach.Reject) {
			color = "red"
		}
		edge := fmt.Sprintf("  %s -> %s [label=%s, style=%s, color=%s];\n", dotName(sideText(f.From, 20)), dotName(sideText(f.To, 20)),
			dotName(f.Traffic), cmp.Or(styles[f.Verdict], "solid"), color)
		if key := strings.ReplaceAll(edge, publicMark, ""); !seen[key] {
			seen[key] = true
			b.WriteString(edge)
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// dotName quotes a text. Names come from tags in the cloud, so nothing of them may end the quotes
// or begin an escape.
func dotName(text string) string {
	text = terminal.Printable(text)
	text = strings.ReplaceAll(text, `\`, `\\`)
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}
