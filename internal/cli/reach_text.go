package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/reach"
)

// mostNamed is how many ends a cell of a table names.
const mostNamed = 4

func packetsOf(f reach.Flows) forecast.Packets { return forecast.PacketsOf(f.Services, f.Possible) }

// printReach prints a table, in which rows that differ in public addresses only are one.
func printReach(out io.Writer, a reachAnswer) error {
	if len(a.Flows) == 0 {
		_, err := fmt.Fprintln(out, "Nobody.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FROM\tTO\tTRAFFIC\tVERDICT\tBY")
	seen := map[string]bool{}
	for _, f := range a.Flows {
		cells := []string{f.From.text(mostNamed), f.To.text(mostNamed), f.Traffic, f.verdict(), f.by()}
		for i := range cells {
			cells[i] = printable(cells[i])
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

// text names an end, and at most some of those in it.
func (s reachSide) text(most int) string {
	if len(s.Endpoints) > 0 {
		var names []string
		for _, e := range s.Endpoints {
			name := e.Name
			if e.partly {
				name += " (" + strings.Join(e.Addresses, ", ") + ")"
			}
			if e.Public {
				name += publicMark
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return some(names, most)
	}
	text := some(s.Addresses, most)
	both := slices.Contains(s.Addresses, "0.0.0.0/0") && slices.Contains(s.Addresses, "::/0")
	switch {
	case both && s.Rest:
		return "anywhere else"
	case both:
		return "anywhere"
	case s.Rest:
		return "the rest of " + text
	}
	return text
}

// some lists names, and counts those beyond the most that are named.
func some(names []string, most int) string {
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func (f reachFlow) verdict() string {
	if f.NoPeering {
		return string(f.Verdict) + ", no peering known"
	}
	return string(f.Verdict)
}

// by says why: what refuses it, or else both ends where they have something to say.
func (f reachFlow) by() string {
	passes := func(o reach.Outcome) bool { return o == reach.Allow }
	egress, ingress := f.Egress.text(), f.Ingress.text()
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

func (d reachDecision) text() string {
	switch {
	case d.Rule != nil:
		name := d.Rule.Name
		if name == "" {
			name = fmt.Sprintf("rule %d", d.Rule.Index)
		}
		return strings.TrimPrefix(d.Rule.Policy.Namespace+"/"+d.Rule.Policy.Name, "/") + " " + name
	case d.Isolated:
		return "isolated"
	case d.Failsafe != "":
		return "failsafe of " + d.Failsafe
	case d.Groups:
		return "own groups"
	case d.Outcome == reach.Native:
		return "own groups, not known"
	case d.Outcome == reach.Unknown:
		return "a domain name"
	}
	return ""
}

// printDot prints a graph for Graphviz: an edge for each row, from and to boxes with all the names.
func printDot(out io.Writer, a reachAnswer) error {
	var b strings.Builder
	b.WriteString("digraph reach {\n  rankdir=LR;\n  node [shape=box];\n")
	styles := map[reach.Outcome]string{reach.Allow: "solid", reach.Native: "dashed", reach.Unknown: "dotted", reach.Drop: "solid", reach.Reject: "solid"}
	seen := map[string]bool{}
	for _, f := range a.Flows {
		color := "black"
		if f.Verdict == reach.Drop || f.Verdict == reach.Reject {
			color = "red"
		}
		edge := fmt.Sprintf("  %s -> %s [label=%s, style=%s, color=%s];\n", dotName(f.From.text(20)), dotName(f.To.text(20)),
			dotName(f.Traffic), styles[f.Verdict], color)
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
	text = printable(text)
	text = strings.ReplaceAll(text, `\`, `\\`)
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}
