package questions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/halves"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// WrongQuestion says what is wrong with a question. Field is where, below spec.
type WrongQuestion struct{ Field, Text string }

// Error implements error.
func (e *WrongQuestion) Error() string { return "spec." + e.Field + e.Text }

func wrong(field, format string, args ...any) error {
	return &WrongQuestion{field, fmt.Sprintf(format, args...)}
}

// View is what is known of the set.
type View interface {
	// Clusters are the names of all clusters, sorted; Cluster is one of them, nil if there is none.
	Clusters() []string
	Cluster(name string) *setv1alpha1.Cluster
	// Entity is a workload of a cluster, and Each calls with all of them, until it returns false,
	// and with their labels. What is not believed is left out.
	Entity(cluster string, ref wire.Ref) (wire.Entity, bool)
	Each(cluster string, yield func(e *wire.Entity, labels map[string]string) bool)
}

// Set is the set that questions are about.
type Set interface {
	// Look calls look with what is known now. It may hold a lock meanwhile.
	Look(look func(View))
	// Put puts a question to a member, and waits for its answer.
	Put(ctx context.Context, cluster string, q wire.Question) (wire.Answer, error)
}

// splitEnd returns the cluster that the text of an end begins with, if it does, and the rest.
func splitEnd(text string) (cluster, rest string) {
	if _, err := netip.ParseAddr(text); err == nil {
		return "", text
	}
	name, rest, is := strings.Cut(text, ":")
	if !is || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", text
	}
	return name, rest
}

// Asks reports whether a question is about clusters of the set.
func Asks(spec *analysis.FlowReviewSpec) bool {
	from, _ := splitEnd(spec.From)
	to, _ := splitEnd(spec.To)
	return from != "" || to != ""
}

// end is one end of a flow between clusters. Without a cluster it is an address without a known
// owner.
type end struct {
	field, cluster, rest string
	ref                  wire.Ref
	entity               bool
	addresses            []netip.Addr
	ports                []wire.Port
	// labels are there where many are meant. They are only read.
	labels map[string]string
}

func (e *end) title() string {
	if e.cluster == "" {
		return e.rest
	}
	return e.cluster + ":" + e.rest
}

func (e *end) told() analysis.End {
	out := analysis.End{Title: e.title()}
	if e.entity {
		out.Kind = map[wire.Kind]string{wire.Pod: "Pod", wire.Machine: "ExternalEntity", wire.Node: "Node"}[e.ref.Kind]
		out.Namespace, out.Name = e.ref.Namespace, e.ref.Name
	}
	for _, a := range e.addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out
}

// find returns the end that a text names.
func find(v View, field, text string) (*end, error) {
	e := &end{field: field}
	e.cluster, e.rest = splitEnd(text)
	if a, err := netip.ParseAddr(e.rest); err == nil {
		e.addresses = []netip.Addr{a}
	}
	switch {
	case e.cluster == "" && e.addresses == nil:
		return nil, wrong(field, " %q: want the cluster before it, as in east:shop/web, or an address", wire.OneLine(text, 80))
	case e.cluster != "" && v.Cluster(e.cluster) == nil:
		return nil, wrong(field, ": there is no Cluster %q", wire.OneLine(e.cluster, 80))
	case e.addresses != nil:
		return e, nil
	}
	for _, ref := range refsOf(e.rest) {
		if found, is := v.Entity(e.cluster, ref); is && len(found.Addresses) > 0 {
			e.ref, e.entity, e.addresses, e.ports = ref, true, found.Addresses, found.Ports
			return e, nil
		}
	}
	return nil, wrong(field, ": %s has told of no %q with an address that is believed; want NAMESPACE/NAME of a Pod or an ExternalEntity, node/NAME, or an address", e.cluster, wire.OneLine(e.rest, 80))
}

// refsOf are what a text may mean.
func refsOf(text string) []wire.Ref {
	parts := strings.Split(text, "/")
	kinds := []wire.Kind{wire.Pod, wire.Machine}
	switch {
	case len(parts) == 2 && parts[0] == "node":
		return []wire.Ref{{Kind: wire.Node, Name: parts[1]}}
	case len(parts) == 3 && parts[0] == "pod":
		kinds, parts = []wire.Kind{wire.Pod}, parts[1:]
	case len(parts) == 3 && parts[0] == "ee":
		kinds, parts = []wire.Kind{wire.Machine}, parts[1:]
	}
	if len(parts) != 2 {
		return nil
	}
	var out []wire.Ref
	for _, k := range kinds {
		out = append(out, wire.Ref{Kind: k, Namespace: parts[0], Name: parts[1]})
	}
	return out
}

// half is what one cluster is asked.
type half struct {
	analysis.FlowHalf
	spec analysis.FlowReviewSpec
	ask  bool
}

// Flow answers a question about clusters of the set: each is asked for its half, as long as it may
// take. An error about the question is a WrongQuestion.
func Flow(ctx context.Context, set Set, spec analysis.FlowReviewSpec) (analysis.FlowReviewStatus, error) {
	out, halves, err := halvesOf(set, spec)
	if err != nil {
		return out, err
	}
	var asking sync.WaitGroup
	for _, x := range halves {
		if x.ask {
			asking.Go(func() { fill(ctx, set, x) })
		}
	}
	asking.Wait()
	if err := ctx.Err(); err != nil {
		return out, err
	}
	for _, x := range halves {
		out.Halves = append(out.Halves, x.FlowHalf)
	}
	out.Verdict, out.Reason = sum(out.Halves)
	out.Wanted = out.Verdict
	return out, nil
}

// halvesOf divides a question by what is known now.
func halvesOf(set Set, spec analysis.FlowReviewSpec) (out analysis.FlowReviewStatus, halves []*half, err error) {
	set.Look(func(v View) { out, halves, err = halvesIn(v, spec) })
	return out, halves, err
}

// halvesIn divides a question.
func halvesIn(v View, spec analysis.FlowReviewSpec) (out analysis.FlowReviewStatus, halves []*half, err error) {
	from, err := find(v, "from", spec.From)
	if err != nil {
		return out, nil, err
	}
	to, err := find(v, "to", spec.To)
	if err != nil {
		return out, nil, err
	}
	source, destination, ok := pairOf(from.addresses, to.addresses)
	if !ok {
		return out, nil, wrong("to", ": %s and %s have no addresses of one family", from.title(), to.title())
	}
	if out.Protocol = strings.ToUpper(spec.Protocol); out.Protocol == "" {
		out.Protocol = "TCP"
	}
	if spec.Port, err = portOf(spec.Port, out.Protocol, to); err != nil {
		return out, nil, err
	}
	if n, err := strconv.ParseUint(spec.Port, 10, 16); err == nil {
		out.Port = int32(n)
	}
	out.From, out.To = from.told(), to.told()
	if len(from.addresses) > 1 || len(to.addresses) > 1 {
		out.Notes = append(out.Notes, fmt.Sprintf("asked about %s to %s; they have more addresses", source, destination))
	}
	egress, ingress, notes := divide(v, from, to, source, destination, spec)
	out.Notes = append(out.Notes, notes...)
	return out, []*half{egress, ingress}, nil
}

// divide makes two halves of a flow from one address to another.
func divide(v View, from, to *end, source, destination netip.Addr, spec analysis.FlowReviewSpec) (egress, ingress *half, notes []string) {
	egress = &half{FlowHalf: analysis.FlowHalf{Cluster: from.cluster, Side: halves.Egress, From: from.told(), To: addressEnd(destination)}, spec: spec, ask: from.cluster != ""}
	egress.spec.From, egress.spec.To = from.rest, destination.String()
	ingress = &half{FlowHalf: analysis.FlowHalf{Cluster: to.cluster, Side: halves.Ingress, To: to.told()}, spec: spec, ask: to.cluster != ""}
	seen := source
	if from.cluster != "" && (!from.entity || from.ref.Kind == wire.Pod) && from.cluster != to.cluster {
		if as, hidden := peers.HiddenAt(v.Cluster(from.cluster), destination); hidden {
			words := peers.HiddenWords(from.cluster, to.title(), as)
			notes = append(notes, words)
			var ok bool
			if seen, ok = seenBy(as, destination); !ok {
				ingress.ask, ingress.Why = false, "it is not known by which address: "+words
			}
		}
	}
	ingress.From = addressEnd(seen)
	ingress.spec.From, ingress.spec.To = seen.String(), to.rest
	if from.cluster == to.cluster { // one cluster knows both
		ingress.spec.From, egress.spec.To = from.rest, to.rest
		ingress.From, egress.To = from.told(), to.told()
	}
	for _, x := range []*half{egress, ingress} {
		if x.Cluster == "" {
			x.Why = "nobody of the set is asked about an address that is no cluster's"
		}
	}
	return egress, ingress, notes
}

func addressEnd(a netip.Addr) analysis.End {
	return analysis.End{Title: a.String(), Addresses: []string{a.String()}}
}

// seenBy is an address by which Pods are seen, of the family of the viewer.
func seenBy(as *setv1alpha1.SeenAs, viewer netip.Addr) (netip.Addr, bool) {
	for _, text := range as.Addresses {
		if a, err := netip.ParseAddr(text); err == nil && a.Is4() == viewer.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func pairOf(from, to []netip.Addr) (source, destination netip.Addr, ok bool) {
	for _, a := range from {
		for _, b := range to {
			if a.Is4() == b.Is4() {
				return a, b, true
			}
		}
	}
	return netip.Addr{}, netip.Addr{}, false
}

// portOf is the number of a port: the source's cluster does not know the names of others'.
func portOf(port, protocol string, to *end) (string, error) {
	if _, err := strconv.ParseUint(port, 10, 16); err == nil || port == "" {
		return port, nil
	}
	i := slices.IndexFunc(to.ports, func(p wire.Port) bool { return p.Name == port && p.Protocol == protocol })
	if i < 0 {
		return "", wrong("port", " %q: %s has no such port", wire.OneLine(port, 80), to.title())
	}
	return strconv.Itoa(int(to.ports[i].Port)), nil
}

// fill asks a cluster for its half.
func fill(ctx context.Context, set Set, x *half) {
	answer, err := ask(ctx, set, x.Cluster, x.spec)
	if err != nil {
		x.Why = err.Error()
		return
	}
	if x.Decision, x.Why = halves.Of(answer, x.Side); x.Decision != nil {
		x.Notes = answer.Notes
	}
}

// sum is what two halves come to. Where one of them drops the packet the other does not matter.
func sum(halves []analysis.FlowHalf) (verdict, reason string) {
	verdict = "Allow"
	for i := range halves {
		x := &halves[i]
		switch {
		case x.Decision == nil && x.Cluster == "" && verdict == "Allow":
			reason = "half an answer: " + x.Why
			verdict = "Unknown"
		case x.Decision == nil && verdict == "Allow":
			reason = fmt.Sprintf("half an answer: %s: %s", x.Cluster, x.Why)
			verdict = "Unknown"
		case x.Decision == nil:
		case x.Decision.Outcome == "Drop" || x.Decision.Outcome == "Reject":
			return x.Decision.Outcome, ""
		case x.Decision.Outcome != "Allow" && verdict == "Allow":
			verdict = x.Decision.Outcome
		}
	}
	return verdict, reason
}

// ask asks a member, and waits for its answer.
func ask(ctx context.Context, set Set, cluster string, spec analysis.FlowReviewSpec) (*analysis.FlowReviewStatus, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("write the question: %w", err)
	}
	answer, err := set.Put(ctx, cluster, wire.Question{Flow: raw})
	if err != nil {
		return nil, err
	}
	var out analysis.FlowReviewStatus
	if len(answer.Flow) > wire.MostAnswer {
		return nil, errors.New("its answer is none: it is too long")
	}
	if err := json.Unmarshal(answer.Flow, &out); err != nil {
		return nil, fmt.Errorf("its answer is none: %s", wire.OneLine(err.Error(), 200))
	}
	clean(&out)
	return &out, nil
}

// clean makes texts of a member such as can be shown.
func clean(s *analysis.FlowReviewStatus) {
	s.Notes = s.Notes[:min(len(s.Notes), 20)]
	for i := range s.Notes {
		s.Notes[i] = wire.OneLine(s.Notes[i], 512)
	}
}
