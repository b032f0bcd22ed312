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
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

// Map prints a map as a table, a graph (dot), or as values in JSON or YAML.
func Map(out io.Writer, format string, m *v1alpha1.ReachMap) error {
	switch format {
	case "table":
		return mapTable(terminal.WindowOf(out), m)
	case "dot":
		return mapDot(out, m)
	}
	return terminal.PrintValue(out, format, m)
}

// Passes reports whether anything gets through, or may.
func Passes(m *v1alpha1.ReachMap) bool {
	return slices.ContainsFunc(m.Edges, func(e v1alpha1.MapEdge) bool {
		return e.Verdict != string(reach.Drop) && e.Verdict != string(reach.Reject)
	})
}

// mapTable prints a table of which class reaches which, and how much of it is left out.
func mapTable(out io.Writer, m *v1alpha1.ReachMap) error {
	if len(m.Edges) == 0 {
		_, err := fmt.Fprintln(out, "Nobody.")
		return err
	}
	names := classNames(m)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FROM\tTO\tTRAFFIC\tVERDICT\tBY")
	for _, e := range sortedEdges(m, names) {
		cells := []string{names[e.From], names[e.To], e.Traffic, e.Verdict, behindText(e)}
		for i := range cells {
			cells[i] = terminal.Printable(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	machines := slices.DeleteFunc(slices.Clone(m.Nodes), func(n v1alpha1.MapNode) bool { return n.Kind == v1alpha1.NodeAddresses })
	if more := int(m.Total) - len(machines); more > 0 || m.MoreEdges > 0 {
		_, err := fmt.Fprintf(out, "Left out: %d of %d classes, the smallest, and %d rows.\n", more, m.Total, m.MoreEdges)
		return err
	}
	return nil
}

// classNames are what to call the classes of a map, by their keys; each name is that of one.
func classNames(m *v1alpha1.ReachMap) map[string]string {
	out, taken := map[string]string{}, map[string]int{}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		name := n.Label
		if n.Namespace != "" {
			name = n.Namespace + "/" + name
		} else if n.Kind == v1alpha1.NodeNode {
			name = "node/" + name
		}
		if n.Cluster != "" {
			name = n.Cluster + ":" + name
		}
		if n.Count > 1 {
			name += fmt.Sprintf(" (%d)", n.Count)
		}
		if taken[name]++; taken[name] > 1 {
			name += fmt.Sprintf(" #%d", taken[name])
		}
		out[n.Key] = name
	}
	return out
}

func sortedEdges(m *v1alpha1.ReachMap, names map[string]string) []v1alpha1.MapEdge {
	edges := slices.Clone(m.Edges)
	slices.SortStableFunc(edges, func(a, b v1alpha1.MapEdge) int {
		return cmp.Or(strings.Compare(names[a.To], names[b.To]), strings.Compare(names[a.From], names[b.From]))
	})
	return edges
}

// behindText says what decides an edge.
func behindText(e v1alpha1.MapEdge) string {
	var names []string
	for _, p := range e.Policies {
		name := review.PolicyName(v1alpha1.Rule{Policy: p})
		if p.Cluster != "" {
			name = p.Cluster + ":" + name
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		return review.Some(names, mostNamed)
	}
	switch e.By {
	case v1alpha1.ByPolicies:
		return "isolated"
	case v1alpha1.ByGroups:
		return "own groups"
	case v1alpha1.ByUnknown:
		return "not known"
	}
	return "-"
}

// mapDot prints a map as a graph for Graphviz: a box for each class, in a frame for its cluster.
func mapDot(out io.Writer, m *v1alpha1.ReachMap) error {
	names := classNames(m)
	var b strings.Builder
	b.WriteString("digraph reach {\n  rankdir=LR;\n  node [shape=box];\n")
	for i := 0; i < len(m.Nodes); {
		cluster, first := m.Nodes[i].Cluster, i
		for ; i < len(m.Nodes) && m.Nodes[i].Cluster == cluster; i++ {
		}
		if cluster != "" {
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", first, dotName(cluster))
		}
		for _, n := range m.Nodes[first:i] {
			fmt.Fprintf(&b, "  %s;\n", dotName(names[n.Key]))
		}
		if cluster != "" {
			b.WriteString("  }\n")
		}
	}
	styles := map[string]string{string(reach.Native): "dashed", string(reach.Unknown): "dotted"}
	for _, e := range sortedEdges(m, names) {
		color := "black"
		if e.Verdict == string(reach.Drop) || e.Verdict == string(reach.Reject) {
			color = "red"
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%s, style=%s, color=%s];\n", dotName(names[e.From]), dotName(names[e.To]), dotName(e.Traffic), cmp.Or(styles[e.Verdict], "solid"), color)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(out, b.String())
	return err
}
