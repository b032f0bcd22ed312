package review

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

const (
	// mostEffects is how many affected flows an answer names.
	mostEffects = 500
	// effectsAtOnce is how many flows are judged before it is looked whether anybody still waits.
	effectsAtOnce = 100
)

// Effects says what would become of connections that were seen, with the policies of after in the
// place of the policies of before. Both times everything counts as enforced as it stands, so that
// nothing is informed of what the policies do not change. The flows are those that the caller may
// see, and so are both computations. Given says, now and then, why no one waits for the answer any
// more.
func Effects(given func() error, before, after *explain.Computation, seen []v1alpha1.SeenFlow) (*v1alpha1.FlowEffects, error) {
	out := &v1alpha1.FlowEffects{Affected: []v1alpha1.FlowEffect{}}
	places := map[effectKey]*v1alpha1.FlowEffect{}
	var order []effectKey
	for i := range seen {
		x := &seen[i]
		if x.Verdict != "Allow" && x.Verdict != "Drop" && x.Verdict != "Reject" {
			continue // it only ended
		}
		// Both ends see a connection, and a denied one is tried again.
		k := effectKey{x.From.Address, x.To.Address, x.Protocol, x.Port, x.Verdict == "Allow"}
		e := places[k]
		if e == nil {
			e = &v1alpha1.FlowEffect{From: x.From, To: x.To, Protocol: x.Protocol, Port: x.Port, Seen: x.Verdict}
			places[k], order = e, append(order, k)
		}
		e.Connections = max(e.Connections, x.Connections)
		if e.Last.Before(&x.Last) {
			e.Last = x.Last
		}
	}
	for i, k := range order {
		if i%effectsAtOnce == 0 {
			if err := given(); err != nil {
				return nil, err
			}
		}
		e := places[k]
		out.Judged++
		switch e.Effect = effectOn(before, after, e); e.Effect {
		case v1alpha1.EffectNone:
			out.Unaffected++
		case v1alpha1.EffectUnknown:
			out.CannotTell++
		default:
			if e.Effect == v1alpha1.EffectCut {
				out.Cut++
			} else {
				out.Opened++
			}
			out.Affected = append(out.Affected, *e)
		}
	}
	slices.SortStableFunc(out.Affected, func(a, b v1alpha1.FlowEffect) int {
		return cmp.Or(
			cmp.Compare(a.Effect, b.Effect), cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.From.Address, b.From.Address),
			cmp.Compare(a.To.Address, b.To.Address),
		)
	})
	if more := len(out.Affected) - mostEffects; more > 0 {
		out.More, out.Affected = int64(more), out.Affected[:mostEffects]
	}
	return out, nil
}

// effectKey tells flows apart.
type effectKey struct {
	from, to, protocol string
	port               int32
	accepted           bool
}

// effectOn judges one flow, and notes what decides about it then.
func effectOn(before, after *explain.Computation, e *v1alpha1.FlowEffect) string {
	was, err := before.Answer(questionAbout(e))
	if err != nil {
		return v1alpha1.EffectUnknown
	}
	will, err := after.Answer(questionAbout(e))
	if err != nil {
		return v1alpha1.EffectUnknown
	}
	accepted := e.Seen == "Allow"
	drops := func(verdict string) bool {
		return verdict == string(evaluate.OutcomeDrop) || verdict == string(evaluate.OutcomeReject)
	}
	switch {
	case was.Wanted == will.Wanted:
		return v1alpha1.EffectNone
	case drops(will.Wanted) && accepted:
		e.By = decides(will)
		return v1alpha1.EffectCut
	case will.Wanted == string(evaluate.OutcomeAllow) && !accepted, will.Wanted == string(evaluate.OutcomeNative) && drops(was.Wanted) && !accepted:
		e.By = decides(will)
		return v1alpha1.EffectOpened
	case drops(will.Wanted), will.Wanted == string(evaluate.OutcomeAllow):
		return v1alpha1.EffectNone // as it was seen
	}
	return v1alpha1.EffectUnknown
}

// questionAbout asks about a flow by the names of its ends, or the addresses of those that have
// none.
func questionAbout(e *v1alpha1.FlowEffect) explain.Question {
	name := func(x v1alpha1.FlowEnd) string {
		switch x.Kind {
		case policy.KindPod.String():
			return "pod/" + x.Namespace + "/" + x.Name
		case policy.KindExternalEntity.String():
			return "ee/" + x.Namespace + "/" + x.Name
		case policy.KindNode.String():
			return "node/" + x.Name
		}
		return x.Address
	}
	q := explain.Question{From: name(e.From), To: name(e.To), Protocol: strings.ToUpper(e.Protocol)}
	if e.Port != 0 {
		q.Port = strconv.Itoa(int(e.Port))
	}
	return q
}

// decides is the rule that decides, or the policies that isolate, on the side that stops the packet
// or, where none does, that has one.
func decides(x *v1alpha1.FlowAnswer) v1alpha1.EffectCause {
	var out v1alpha1.EffectCause
	for _, d := range []*v1alpha1.Decision{x.Egress, x.AtService, x.Ingress} {
		if d == nil {
			continue
		}
		if d.IfEnforced != nil {
			d = d.IfEnforced
		}
		if d.DecidedBy != nil {
			out = v1alpha1.EffectCause{Rule: d.DecidedBy}
		} else if len(d.IsolatedBy) > 0 {
			out = v1alpha1.EffectCause{IsolatedBy: d.IsolatedBy}
		}
		if o := evaluate.Outcome(d.Outcome); o == evaluate.OutcomeDrop || o == evaluate.OutcomeReject {
			return out
		}
	}
	return out
}
