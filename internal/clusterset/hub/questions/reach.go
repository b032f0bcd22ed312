package questions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/halves"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

const (
	// mostPairs is how many pairs of workloads one question may be about: each is asked at both
	// ends.
	mostPairs = wire.MostFlows
	// everyCluster means all clusters of the set, as in *:shop/app=web.
	everyCluster = "*"
	// reachRows and mostReachRows are how many rows a page has by default, and at most.
	reachRows, mostReachRows = 500, 5000
)

// AsksReach reports whether a question about who reaches whom is about clusters of the set.
func AsksReach(spec *analysis.ReachReviewSpec) bool {
	from, _ := splitParty(spec.From)
	to, _ := splitParty(spec.To)
	return from != "" || to != ""
}

// splitParty is splitEnd for texts that may mean many.
func splitParty(text string) (cluster, rest string) {
	if rest, is := strings.CutPrefix(text, everyCluster+":"); is {
		return everyCluster, rest
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return "", text
	}
	return splitEnd(text)
}

// route is a flow from one end to another, with what each decides.
type route struct {
	from, to        int
	egress, ingress *half
	told            [2]halves.Told
}

// Reach answers a question about who reaches whom among clusters of the set: each end is asked at
// its cluster, all of one cluster at once. What is not known is told in Unread, by cluster. An
// error about the question is a WrongQuestion.
func Reach(ctx context.Context, set Set, spec analysis.ReachReviewSpec) (analysis.ReachReviewStatus, error) {
	if spec.Grouped {
		return mapped(ctx, set, spec)
	}
	out := analysis.ReachReviewStatus{Flows: []analysis.ReachRow{}}
	froms, tos, pairs, err := pairsOf(set, spec)
	if err != nil {
		return out, err
	}
	decide(ctx, set, pairs)
	if err := ctx.Err(); err != nil {
		return out, err
	}
	why := map[string]bool{}
	for _, p := range pairs {
		for i, x := range []*half{p.egress, p.ingress} {
			if t := &p.told[i]; !t.Known() {
				why[cmp.Or(x.Cluster, x.Side)+": "+t.Why] = true
			}
		}
	}
	rows := rowsOf(spec, froms, tos, pairs)
	limit := int(cmp.Or(spec.Limit, reachRows))
	first := min(max(int(spec.Page)-1, 0)*limit, len(rows))
	out.Unread, out.Total = slices.Sorted(maps.Keys(why)), int32(len(rows))
	out.Flows = append(out.Flows, rows[first:min(first+limit, len(rows))]...)
	return out, nil
}

// pairsOf are those that a question is about.
func pairsOf(set Set, spec analysis.ReachReviewSpec) (froms, tos []*end, pairs []*route, err error) {
	switch {
	case spec.Members != "" || spec.GroupBy != "" || spec.Row != "":
		return nil, nil, nil, errRowsOrMap
	case spec.Limit < 0 || spec.Limit > mostReachRows || spec.Page < 0:
		return nil, nil, nil, wrong("limit", " %d: want the number of rows in a page, at most %d, and no negative page", spec.Limit, mostReachRows)
	}
	flow := analysis.FlowReviewSpec{Protocol: strings.ToUpper(cmp.Or(spec.Protocol, "TCP")), Port: spec.Port}
	switch _, bad := strconv.ParseUint(spec.Port, 10, 16); {
	case spec.Port == "" && (flow.Protocol == "TCP" || flow.Protocol == "UDP" || flow.Protocol == "SCTP"):
		return nil, nil, nil, wrong("port", " is missing: want a port, or a protocol that has none, where clusters of the set are asked")
	case spec.Port != "" && bad != nil:
		return nil, nil, nil, wrong("port", " %q: want the number of one port where clusters of the set are asked", wire.OneLine(spec.Port, 80))
	}
	set.Look(func(v View) { froms, tos, pairs, err = pairsIn(v, spec, flow) })
	return froms, tos, pairs, err
}

// pairsIn are the pairs as of what is known.
func pairsIn(v View, spec analysis.ReachReviewSpec, flow analysis.FlowReviewSpec) (froms, tos []*end, pairs []*route, err error) {
	if froms, err = party(v, "from", spec.From, mostPairs); err != nil {
		return nil, nil, nil, err
	}
	if tos, err = party(v, "to", spec.To, mostPairs); err != nil {
		return nil, nil, nil, err
	}
	if n := len(froms) * len(tos); n > mostPairs {
		return nil, nil, nil, wrong("from", ": %d sources and %d destinations are %d pairs, want at most %d: name a Namespace, labels, or one workload", len(froms), len(tos), n, mostPairs)
	}
	for i, from := range froms {
		for j, to := range tos {
			source, destination, ok := pairOf(from.addresses, to.addresses)
			if from.title() == to.title() || !ok {
				continue
			}
			egress, ingress, _ := divide(v, from, to, source, destination, flow)
			pairs = append(pairs, &route{from: i, to: j, egress: egress, ingress: ingress})
		}
	}
	if len(pairs) == 0 {
		return nil, nil, nil, wrong("to", ": no source and destination have addresses of one family, or they are one workload")
	}
	return froms, tos, pairs, nil
}

// errRowsOrMap is why a question about clusters of the set is none.
var errRowsOrMap = wrong("grouped", ": clusters of the set are asked for rows, or for a map")

// party is the list of workloads that a text means, at most limit.
func party(v View, field, text string, limit int) ([]*end, error) {
	if text == "" || text == "any" {
		text = everyCluster + ":*/*"
	}
	cluster, rest := splitParty(text)
	clusters := []string{cluster}
	if cluster == everyCluster {
		clusters = v.Clusters()
	}
	if _, err := netip.ParseAddr(rest); err == nil || cluster == "" {
		e, err := find(v, field, text)
		return []*end{e}, err
	}
	chosen, err := chooser(rest)
	if err != nil {
		return nil, wrong(field, " %q: %v", wire.OneLine(text, 80), err)
	}
	var out []*end
	for _, name := range clusters {
		if v.Cluster(name) == nil {
			return nil, wrong(field, ": there is no Cluster %q", wire.OneLine(name, 80))
		}
		full := false
		v.Each(name, func(e *wire.Entity, set map[string]string) bool {
			if len(e.Addresses) == 0 || !chosen(e.Ref, set) {
				return true
			}
			found := &end{field: field, cluster: name, rest: nameOf(e.Ref), ref: e.Ref, entity: true, addresses: e.Addresses, ports: e.Ports, labels: set}
			out = append(out, found)
			full = len(out) > limit
			return !full
		})
		if full {
			return nil, wrong(field, ": %q means more than %d workloads: name a Namespace, labels, or one workload", wire.OneLine(text, 80), limit)
		}
	}
	if len(out) == 0 {
		return nil, wrong(field, ": no cluster has told of a workload that %q means, with an address that is believed", wire.OneLine(text, 80))
	}
	slices.SortStableFunc(out, func(a, b *end) int { return strings.Compare(a.title(), b.title()) })
	return out, nil
}

// nameOf is how a member is asked about one of its workloads.
func nameOf(r wire.Ref) string {
	switch r.Kind {
	case wire.Node:
		return "node/" + r.Name
	case wire.Machine:
		return "ee/" + r.Namespace + "/" + r.Name
	}
	return "pod/" + r.Namespace + "/" + r.Name
}

// chooser reads which workloads a text means: NAMESPACE/NAME, NAMESPACE/* or */* for all,
// NAMESPACE/SELECTOR for those with labels, or one kind of them before it: pod/, ee/ or node/.
func chooser(text string) (func(wire.Ref, map[string]string) bool, error) {
	const want = "want CLUSTER:NAMESPACE/NAME, CLUSTER:NAMESPACE/* or CLUSTER:NAMESPACE/SELECTOR such as east:shop/app=db, node/NAME, or an address"
	kinds := []wire.Kind{wire.Pod, wire.Machine}
	head, rest, is := strings.Cut(text, "/")
	switch head {
	case "node":
		if !is || rest == "" {
			return nil, fmt.Errorf("%s", want)
		}
		return func(r wire.Ref, _ map[string]string) bool {
			return r.Kind == wire.Node && (rest == "*" || r.Name == rest)
		}, nil
	case "pod", "ee":
		if strings.Contains(rest, "/") && !strings.ContainsAny(rest[:strings.Index(rest, "/")], "=!") {
			kinds = []wire.Kind{map[string]wire.Kind{"pod": wire.Pod, "ee": wire.Machine}[head]}
			head, rest, _ = strings.Cut(rest, "/")
		}
	}
	if !is || head == "" || rest == "" {
		return nil, fmt.Errorf("%s", want)
	}
	selector, name := labels.Everything(), ""
	switch {
	case rest == "*":
	case strings.ContainsAny(rest, "=!, ("):
		var err error
		if selector, err = labels.Parse(rest); err != nil {
			return nil, err
		}
	case strings.Contains(rest, "/"):
		return nil, fmt.Errorf("%s", want)
	default:
		name = rest
	}
	return func(r wire.Ref, set map[string]string) bool {
		return slices.Contains(kinds, r.Kind) && (head == "*" || r.Namespace == head) && (name == "" || r.Name == name) && selector.Matches(labels.Set(set))
	}, nil
}

// decide asks the clusters of both ends of all pairs, as long as they may take.
func decide(ctx context.Context, set Set, pairs []*route) {
	type question struct{ cluster, side string }
	asked := map[question][]int{} // 2*route, and 1 more for ingress
	for i, p := range pairs {
		for side, x := range []*half{p.egress, p.ingress} {
			if x.ask {
				q := question{x.Cluster, x.Side}
				asked[q] = append(asked[q], 2*i+side)
			} else {
				p.told[side] = halves.Unknown(x.Why)
			}
		}
	}
	var asking sync.WaitGroup
	for q, which := range asked {
		asking.Go(func() {
			specs := make([]json.RawMessage, 0, len(which))
			for _, n := range which {
				x := [2]*half{pairs[n/2].egress, pairs[n/2].ingress}[n%2]
				text, err := json.Marshal(x.spec)
				if err != nil { // plain texts and numbers
					text = nil
				}
				specs = append(specs, text)
			}
			all, err := askMany(ctx, set, q.cluster, wire.Question{Flows: specs, Side: q.side})
			for k, n := range which {
				told := &pairs[n/2].told[n%2] // nobody else's
				if err != nil {
					*told = halves.Unknown(err.Error())
				} else {
					*told = all[k]
				}
			}
		})
	}
	asking.Wait()
}

// askMany asks a member about many flows.
func askMany(ctx context.Context, set Set, cluster string, q wire.Question) ([]halves.Told, error) {
	answer, err := set.Put(ctx, cluster, q)
	if err != nil {
		return nil, err
	}
	return halves.Unpack(answer.Decided, len(q.Flows))
}

// verdict is what the sender of a pair sees.
func (p *route) verdict() string {
	out := "Allow"
	for i := range p.told {
		switch t := &p.told[i]; {
		case t.Outcome == "Drop" || t.Outcome == "Reject":
			return t.Outcome
		case !t.Known():
			out = "Unknown"
		case t.Outcome != "Allow" && out == "Allow":
			out = t.Outcome
		}
	}
	return out
}

// rowsOf puts pairs together: in a row everybody of the one side has the same to expect of
// everybody of the other.
func rowsOf(spec analysis.ReachReviewSpec, froms, tos []*end, pairs []*route) []analysis.ReachRow {
	kinds, numbers := []*route{nil}, map[string]int{}
	cells := make([][]int, len(froms)) // 0 where there is no pair
	for i := range cells {
		cells[i] = make([]int, len(tos))
	}
	for _, p := range pairs {
		text, err := json.Marshal(p.told)
		if err != nil {
			continue // it came as JSON
		}
		n, known := numbers[string(text)]
		if !known {
			n = len(kinds)
			numbers[string(text)], kinds = n, append(kinds, p)
		}
		cells[p.from][p.to] = n
	}
	across := make([][]int, len(tos))
	for j := range across {
		for i := range froms {
			across[j] = append(across[j], cells[i][j])
		}
	}
	rows := []analysis.ReachRow{}
	for _, sources := range alike(cells) {
		for _, destinations := range alike(across) {
			p := kinds[cells[sources[0]][destinations[0]]]
			if p == nil {
				continue
			}
			verdict := p.verdict()
			if !spec.Refused && (verdict == "Drop" || verdict == "Reject") {
				continue
			}
			row := analysis.ReachRow{From: sideOf(froms, sources), To: sideOf(tos, destinations), Verdict: verdict}
			row.Egress, row.Ingress = p.told[0].ReachDecision, p.told[1].ReachDecision
			row.Traffic, row.Ranges = traffic(p.egress.spec)
			rows = append(rows, row)
		}
	}
	return rows
}

// alike puts lines together that are equal, in the order of the first of each.
func alike(lines [][]int) [][]int {
	var out [][]int
	at := map[string]int{}
	for i, line := range lines {
		key := fmt.Sprint(line)
		n, known := at[key]
		if !known {
			n = len(out)
			at[key], out = n, append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

func sideOf(ends []*end, which []int) analysis.ReachSide {
	var out analysis.ReachSide
	for _, i := range which {
		told := ends[i].told()
		if !ends[i].entity {
			out.Addresses = append(out.Addresses, told.Addresses...)
			continue
		}
		title := ends[i].cluster + ":" + cmp.Or(ends[i].ref.Namespace, "node") + "/" + ends[i].ref.Name
		out.Endpoints = append(out.Endpoints, analysis.ReachEnd{Name: title, Kind: told.Kind, Namespace: told.Namespace, Object: told.Name, Addresses: told.Addresses})
	}
	return out
}

// traffic is what a question is about, in words and numbers.
func traffic(spec analysis.FlowReviewSpec) (string, []analysis.ReachRange) {
	number, is := map[string]int32{"TCP": 6, "UDP": 17, "SCTP": 132}[spec.Protocol]
	port, err := strconv.ParseUint(spec.Port, 10, 16)
	if !is || err != nil {
		return spec.Protocol, nil
	}
	return spec.Protocol + " " + spec.Port, []analysis.ReachRange{{Protocol: number, From: int32(port), To: int32(port)}}
}
