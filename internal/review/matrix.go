package review

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/reach"
)

// The bounds of the part of a matrix that one answer has.
const (
	defaultMatrix = 60
	maxMatrix     = 200
)

// The groups that are made of nothing that has a label.
const (
	groupOutside = "outside"
	groupNone    = "(none)"
	groupWithout = "(without)"
)

// mostTexts is how many kinds of traffic a cell names.
const mostTexts = 3

// verdictsByWeight are the verdicts, the strongest first: it is the one that a cell shows.
var verdictsByWeight = [...]reach.Outcome{reach.Allow, reach.Native, reach.Unknown, reach.Reject, reach.Drop}

// grouping puts endpoints into groups.
type grouping struct {
	w  *explain.World
	by string
}

// of is the group of an endpoint.
func (g grouping) of(e *reach.Endpoint) string {
	switch g.by {
	case "machine":
		return e.Name
	case "namespace":
		return cmp.Or(e.Namespace, groupNone)
	case "kind":
		if e.Kind == 0 {
			return groupNone
		}
		return e.Kind.String()
	}
	return cmp.Or(g.w.Label(e, g.by), groupWithout)
}

// ofAddresses is the group of addresses that no one known has.
func (g grouping) ofAddresses(s reach.Side) string {
	if g.by == "machine" && len(s.Addresses) == 1 {
		return s.Addresses[0].String()
	}
	return groupOutside
}

// party is the part of a party that is in a group.
func (g grouping) party(p reach.Party, group string) reach.Party {
	chosen := p.Chosen
	out := reach.Party{Chosen: func(e *reach.Endpoint) bool { return chosen != nil && chosen(e) && g.of(e) == group }}
	if group == groupOutside {
		out.Addresses = p.Addresses
	} else if _, err := netip.ParsePrefix(group); err == nil {
		if meant, err := g.w.Party("row", group); err == nil {
			out.Addresses = p.Addresses.Intersect(meant.Addresses)
		}
	}
	return out
}

// Matrix tells which endpoint reaches which by groups: rows are sources, columns destinations. Only
// the part is given that the question asks for; its cost is that of the flows, and not that of all
// cells.
func Matrix(w *explain.World, q reach.Question, spec v1alpha1.ReachReviewSpec) *v1alpha1.ReachMatrix {
	g := grouping{w, spec.GroupBy}
	flows := w.Reach(q)
	from, to := newAxis(), newAxis()
	for i := range flows {
		from.add(g, flows[i].From)
		to.add(g, flows[i].To)
	}
	out := &v1alpha1.ReachMatrix{Cells: []v1alpha1.MatrixCell{}}
	out.Rows, out.TotalRows = from.window(spec.FirstRow, spec.Rows)
	out.Columns, out.TotalColumns = to.window(spec.FirstColumn, spec.Columns)
	cells := make([]cell, len(out.Rows)*len(out.Columns))
	for i := range flows {
		f := &flows[i]
		rows, columns := from.places(g, f.From), to.places(g, f.To)
		if len(rows) == 0 || len(columns) == 0 {
			continue
		}
		text := forecast.PacketsOf(f.Services, f.Possible).Text
		for _, r := range rows {
			for _, c := range columns {
				if own := &out.Rows[r]; own.Name == out.Columns[c].Name && own.Count == 1 && out.Columns[c].Count == 1 && own.Name != groupOutside {
					continue // what it sends to itself is not meant
				}
				cells[r*len(out.Columns)+c].add(f.Outcome, text)
			}
		}
	}
	for i := range cells {
		if cells[i].verdicts != 0 {
			out.Cells = append(out.Cells, cells[i].told(i/len(out.Columns), i%len(out.Columns)))
		}
	}
	return out
}

// axis are the groups on one side of a matrix.
type axis struct {
	groups map[string]*axisGroup
	// of remembers the groups of endpoints.
	of map[*reach.Endpoint]*axisGroup
}

type axisGroup struct {
	name    string
	members map[*reach.Endpoint]bool
	// place is where it stands in the window, -1 if it is outside of it.
	place int
}

func newAxis() *axis { return &axis{map[string]*axisGroup{}, map[*reach.Endpoint]*axisGroup{}} }

// group finds one, or makes it.
func (a *axis) group(name string) *axisGroup {
	g := a.groups[name]
	if g == nil {
		g = &axisGroup{name: name, members: map[*reach.Endpoint]bool{}, place: -1}
		a.groups[name] = g
	}
	return g
}

// add takes a side in.
func (a *axis) add(by grouping, s reach.Side) {
	if len(s.Addresses) > 0 {
		a.group(by.ofAddresses(s))
	}
	for _, m := range s.Members {
		if a.of[m.Endpoint] == nil {
			g := a.group(by.of(m.Endpoint))
			a.of[m.Endpoint], g.members[m.Endpoint] = g, true
		}
	}
}

// window puts some of the groups in their places, and returns these and how many there are.
func (a *axis) window(first, most int32) ([]v1alpha1.MatrixGroup, int32) {
	all := make([]*axisGroup, 0, len(a.groups))
	for _, g := range a.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(x, y *axisGroup) int { return compareGroups(x.name, y.name) })
	if most == 0 {
		most = defaultMatrix
	}
	out := []v1alpha1.MatrixGroup{}
	for _, g := range all[min(int(first), len(all)):min(int(first)+int(most), len(all))] {
		g.place = len(out)
		row := v1alpha1.MatrixGroup{Name: g.name, Count: int32(len(g.members))}
		if len(g.members) == 1 {
			for e := range g.members {
				end := endOf(e, e.Addresses, e.Blocks.Prefixes())
				row.End = &end
			}
		}
		out = append(out, row)
	}
	return out, int32(len(all))
}

// places are where the groups of a side stand in the window, each once.
func (a *axis) places(by grouping, s reach.Side) []int {
	var out []int
	seen := map[*axisGroup]bool{}
	take := func(g *axisGroup) {
		if g.place >= 0 && !seen[g] {
			seen[g] = true
			out = append(out, g.place)
		}
	}
	if len(s.Addresses) > 0 {
		take(a.groups[by.ofAddresses(s)])
	}
	for _, m := range s.Members {
		take(a.of[m.Endpoint])
	}
	return out
}

// cell is what goes from one group to another: the verdicts as bits, and what has each.
type cell struct {
	verdicts int
	texts    [len(verdictsByWeight)][]string
}

func (c *cell) add(o reach.Outcome, text string) {
	v := slices.Index(verdictsByWeight[:], o)
	c.verdicts |= 1 << v
	if !slices.Contains(c.texts[v], text) {
		c.texts[v] = append(c.texts[v], text)
	}
}

func (c *cell) told(row, column int) v1alpha1.MatrixCell {
	out := v1alpha1.MatrixCell{Row: int32(row), Column: int32(column)}
	for v, o := range verdictsByWeight {
		if c.verdicts&(1<<v) == 0 {
			continue
		}
		if out.Verdict != "" {
			out.Mixed = true
			break
		}
		out.Verdict, out.Text = string(o), Some(c.texts[v], mostTexts)
		if slices.Contains(c.texts[v], "everything") {
			out.Text = "everything"
		}
	}
	return out
}

// compareGroups orders the names of groups: groups without the label come last, and numbers in
// names count as numbers.
func compareGroups(a, b string) int {
	special := func(name string) int {
		if name == groupOutside || strings.HasPrefix(name, "(") {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(special(a), special(b)), compareNatural(a, b), strings.Compare(a, b))
}

func compareNatural(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingDigits(a), leadingDigits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
			return c
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingDigits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
