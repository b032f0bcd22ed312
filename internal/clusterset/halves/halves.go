// Package halves is the verdict of one end of a flow, as a member sends it and the hub reads it.
//
// Everything here is pure. Values that are given are not changed.
package halves

import (
	"encoding/json"
	"fmt"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// The sides of a flow.
const (
	Egress  = "Egress"
	Ingress = "Ingress"
)

// mostText bounds why a decision is not known, and mostDecision all that is said of it, in bytes: a
// hub may show it with each pair of workloads.
const mostText, mostDecision = 256, 16 << 10

// Of is what one side of an answer decides, or why that is not known.
func Of(answer *analysis.FlowReviewStatus, side string) (decision *analysis.Decision, why string) {
	of := func(egress, ingress *analysis.Decision) *analysis.Decision {
		if side == Ingress {
			return ingress
		}
		return egress
	}
	decision = of(answer.Egress, answer.Ingress)
	if len(answer.Flows) > 0 { // a Service, or several addresses
		decision = of(answer.Flows[0].Egress, answer.Flows[0].Ingress)
		for _, f := range answer.Flows[1:] {
			if other := of(f.Egress, f.Ingress); decision == nil || other == nil || other.Outcome != decision.Outcome {
				return nil, "it depends on which of several addresses it is: ask there"
			}
		}
	}
	if decision == nil {
		return nil, "it says nothing of it"
	}
	return decision, ""
}

// Told is what a member says of one of many flows: why, if it is not known.
type Told struct {
	analysis.ReachDecision
	Why string `json:"why,omitempty"`
}

// Known reports whether there is a decision.
func (t *Told) Known() bool { return t.Why == "" }

// Unanswered is the outcome without any answer.
const Unanswered = "Unanswered"

// Unknown is a decision that is not known, and why.
func Unknown(why string) Told {
	return Told{ReachDecision: analysis.ReachDecision{Outcome: Unanswered}, Why: why}
}

// Short is a decision without what leads to it.
func Short(d *analysis.Decision) Told {
	t := Told{ReachDecision: analysis.ReachDecision{
		Outcome: d.Outcome, Rule: d.DecidedBy, Isolated: d.DecidedBy == nil && len(d.IsolatedBy) > 0, Failsafe: d.Failsafe, HostFailsafe: d.HostFailsafe,
		Groups: d.DecidedBy == nil && (d.Groups != nil || d.Native != nil),
	}}
	if d.Outcome == "Unknown" {
		t.Why = "it depends on what is not known there: ask with explain"
	}
	return t
}

// Pack puts decisions, in the order of the flows, into an answer, each once.
func Pack(all []Told) (*wire.Decided, error) {
	out := &wire.Decided{Of: make([]int, 0, len(all))}
	at := map[string]int{}
	size := 8 * len(all)
	for i := range all {
		text, err := json.Marshal(&all[i])
		if err != nil {
			return nil, err
		}
		n, known := at[string(text)]
		if !known {
			n = len(out.Decisions)
			at[string(text)] = n
			out.Decisions = append(out.Decisions, text)
			if size += len(text); size > wire.MostAnswer {
				return nil, fmt.Errorf("the answer has more than %d bytes: ask about fewer", wire.MostAnswer)
			}
		}
		out.Of = append(out.Of, n)
	}
	return out, nil
}

// Unpack is what Pack has put together about so many flows. It fails unless there is one decision
// for each.
func Unpack(in *wire.Decided, flows int) ([]Told, error) {
	if in == nil || len(in.Of) != flows {
		return nil, fmt.Errorf("its answer is none: want decisions about %d flows", flows)
	}
	kinds := make([]Told, len(in.Decisions))
	for i, text := range in.Decisions {
		if len(text) > mostDecision {
			return nil, fmt.Errorf("its answer is none: a decision of %d bytes, want at most %d", len(text), mostDecision)
		}
		if err := json.Unmarshal(text, &kinds[i]); err != nil {
			return nil, fmt.Errorf("its answer is none: a decision cannot be read")
		}
		if len(kinds[i].Why) > mostText {
			kinds[i].Why = kinds[i].Why[:mostText]
		}
		switch kinds[i].Outcome {
		case "Allow", "Drop", "Reject", "Native", "Unknown", Unanswered:
		default:
			return nil, fmt.Errorf("its answer is none: %.40q is no outcome", kinds[i].Outcome)
		}
	}
	out := make([]Told, flows)
	for i, n := range in.Of {
		if n < 0 || n >= len(kinds) {
			return nil, fmt.Errorf("its answer is none: it names a decision that it does not tell")
		}
		out[i] = kinds[n]
	}
	return out, nil
}
