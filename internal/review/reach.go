package review

import (
	"errors"
	"net/netip"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// How many rows a page has.
const (
	defaultRows = 500
	maxRows     = 5000
)

// Reach answers a ReachReview, but for what it was made from. An error about the question is a
// WrongError.
func Reach(w *explain.World, spec v1alpha1.ReachReviewSpec) (v1alpha1.ReachReviewStatus, error) {
	var out v1alpha1.ReachReviewStatus
	if err := short(map[string]string{"from": spec.From, "to": spec.To, "protocol": spec.Protocol, "port": spec.Port, "members": spec.Members,
		"groupBy": spec.GroupBy, "row": spec.Row, "column": spec.Column}); err != nil {
		return out, err
	}
	if spec.To == "" && (spec.Grouped || spec.Members != "" || spec.GroupBy != "") {
		spec.To = "any"
	}
	switch {
	case spec.To == "":
		return out, wrong("to", " is missing: want the destination, such as shop/db, shop/app=db, 10.0.0.0/8 or any")
	case spec.Limit < 0 || spec.Limit > maxRows:
		return out, wrong("limit", " %d: want the number of rows in a page, at most %d, or 0 for %d", spec.Limit, maxRows, defaultRows)
	case spec.FirstRow < 0:
		return out, wrong("firstRow", " %d: want 0 or more", spec.FirstRow)
	case spec.FirstColumn < 0:
		return out, wrong("firstColumn", " %d: want 0 or more", spec.FirstColumn)
	case spec.Rows < 0 || spec.Rows > maxMatrix:
		return out, wrong("rows", " %d: want a number of rows, at most %d, or 0 for %d", spec.Rows, maxMatrix, defaultMatrix)
	case spec.Columns < 0 || spec.Columns > maxMatrix:
		return out, wrong("columns", " %d: want a number of columns, at most %d, or 0 for %d", spec.Columns, maxMatrix, defaultMatrix)
	case (spec.Row == "") != (spec.Column == ""), spec.Row != "" && spec.GroupBy == "":
		return out, wrong("row", ": want row and column together, and groupBy")
	case spec.Ends < 0:
		return out, wrong("ends", " %d: want a number of endpoints, or 0 for all", spec.Ends)
	case spec.Page < 0:
		return out, wrong("page", " %d: want 1 for the first page, and so on", spec.Page)
	}
	out.Flows = []v1alpha1.ReachRow{}
	switch {
	case spec.Members != "":
		out.Members, out.Total = page(Members(w, spec.Members), spec)
		return out, nil
	case spec.Grouped:
		q, err := questionOf(w, spec)
		if err != nil {
			return out, err
		}
		out.Map = Map(w, nil, MapQuestion{q, true})
		out.Total = out.Map.Total
		return out, nil
	}
	q, err := questionOf(w, spec)
	if err != nil {
		return out, err
	}
	if spec.GroupBy != "" && spec.Row == "" {
		out.Matrix = Matrix(w, q, spec)
		out.Total = out.Matrix.TotalRows
		return out, nil
	}
	if spec.Row != "" {
		g := grouping{w, spec.GroupBy}
		q.From, q.To = g.party(q.From, spec.Row), g.party(q.To, spec.Column)
	}
	some, total := page(w.Reach(q), spec)
	out.Flows, out.Total = rowsOf(w, some, int(spec.Ends)), total
	return out, nil
}

// page is the part of a list that is asked for, and how long the list is.
func page[T any](list []T, spec v1alpha1.ReachReviewSpec) ([]T, int32) {
	limit := int(spec.Limit)
	if limit == 0 {
		limit = defaultRows
	}
	first := min(max(int(spec.Page)-1, 0)*limit, len(list))
	return list[first:min(first+limit, len(list))], int32(len(list))
}

// Rows are all rows of the answer.
func Rows(w *explain.World, spec v1alpha1.ReachReviewSpec) ([]v1alpha1.ReachRow, error) {
	q, err := questionOf(w, spec)
	if err != nil {
		return nil, err
	}
	return rowsOf(w, w.Reach(q), int(spec.Ends)), nil
}

func questionOf(w *explain.World, spec v1alpha1.ReachReviewSpec) (reach.Question, error) {
	services, bad := expect.Services(spec.Protocol, spec.Port)
	if bad != nil {
		return reach.Question{}, aboutField(bad)
	}
	from := spec.From
	if from == "" {
		from = "any"
	}
	q := reach.Question{Services: services, Refused: spec.Refused}
	var err error
	if q.From, err = w.Party("from", from); err != nil {
		return q, aboutField(err)
	}
	if q.To, err = w.Party("to", spec.To); err != nil {
		return q, aboutField(err)
	}
	return q, nil
}

// RowsOf writes flows as rows. Without a world everything may be seen.
func RowsOf(w *explain.World, flows []reach.Flows) []v1alpha1.ReachRow { return rowsOf(w, flows, 0) }

// rowsOf names at most so many endpoints at each end, all if that is 0.
func rowsOf(w *explain.World, flows []reach.Flows, ends int) []v1alpha1.ReachRow {
	rows := []v1alpha1.ReachRow{}
	for _, f := range flows {
		rows = append(rows, rowOf(w, f, ends))
	}
	return rows
}

// aboutField names the field of the question that an error is about.
func aboutField(err error) error {
	if q := (*explain.QuestionError)(nil); errors.As(err, &q) {
		return &WrongError{fieldOf(q.Part), q.Text}
	}
	if f := (*policy.FieldError)(nil); errors.As(err, &f) {
		return &WrongError{f.Field, ": " + f.Detail()}
	}
	return &WrongError{"", err.Error()}
}

// fieldOf is the field of a spec that is called otherwise on the command line.
func fieldOf(part string) string {
	switch part {
	case "igmp-type":
		return "igmpType"
	case "igmp-group":
		return "igmpGroup"
	}
	return part
}

func rowOf(w *explain.World, f reach.Flows, ends int) v1alpha1.ReachRow {
	packets := forecast.PacketsOf(f.Services, f.Possible)
	row := v1alpha1.ReachRow{
		From: sideOf(f.From, ends), To: sideOf(f.To, ends), Traffic: packets.Text, Except: packets.Except, Verdict: string(f.Outcome),
		Egress: decisionOf(w, f.Egress), Ingress: decisionOf(w, f.Ingress), NoPeering: f.Apart,
	}
	row.Ranges = RangesOf(packets.Ranges)
	return row
}

// RangesOf are ranges as the API has them.
func RangesOf(ranges []forecast.Range) []v1alpha1.ReachRange {
	out := make([]v1alpha1.ReachRange, len(ranges))
	for i, r := range ranges {
		out[i] = v1alpha1.ReachRange{Protocol: int32(r.Protocol), From: int32(r.From), To: int32(r.To)}
	}
	return out
}

func sideOf(s reach.Side, ends int) v1alpha1.ReachSide {
	out := v1alpha1.ReachSide{Rest: s.Rest}
	for _, m := range s.Members {
		if ends > 0 && len(out.Endpoints) == ends {
			out.More++
			continue
		}
		e := endOf(m.Endpoint, m.Addresses, m.Blocks.Prefixes())
		e.Partly = m.Partly()
		out.Endpoints = append(out.Endpoints, e)
	}
	for _, p := range s.Addresses {
		out.Addresses = append(out.Addresses, p.String())
	}
	out.AddressesText = AddressesText(out, mostBlocks)
	return out
}

// endOf is an endpoint with some of its addresses, and of the blocks that are delegated to it.
func endOf(m *reach.Endpoint, addresses []netip.Addr, blocks []netip.Prefix) v1alpha1.ReachEnd {
	e := v1alpha1.ReachEnd{Name: m.Name, Interface: m.Interface, Public: m.Public, Addresses: []string{}}
	if m.Kind != 0 {
		e.Kind, e.Namespace, e.Object = m.Kind.String(), m.Namespace, m.EntityRef.Name
	}
	for _, a := range addresses {
		e.Addresses = append(e.Addresses, a.String())
	}
	for _, p := range blocks {
		e.Addresses = append(e.Addresses, p.String())
	}
	return e
}

func decisionOf(w *explain.World, d reach.Decision) v1alpha1.ReachDecision {
	out := v1alpha1.ReachDecision{Outcome: string(d.Outcome), Isolated: d.Isolated, Failsafe: d.Openings.Account, HostFailsafe: d.Openings.Host, Groups: d.Groups}
	if d.Rule != nil {
		r := ruleOf(w, *d.Rule)
		out.Rule = &r
	}
	for _, p := range d.Passed {
		out.Passed = append(out.Passed, ruleOf(w, *p))
	}
	return out
}
