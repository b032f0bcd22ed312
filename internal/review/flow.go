package review

import (
	"fmt"
	"math"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
)

// maxText bounds each text of a question, in bytes: names of Kubernetes have at most 253, selectors
// some more.
const maxText = 1024

// WrongError says what is wrong with a question. Field is where, below spec; empty if it is about
// no single field.
type WrongError struct {
	Field, Text string
}

// Error implements error.
func (e *WrongError) Error() string {
	if e.Field == "" {
		return e.Text
	}
	return "spec." + e.Field + e.Text
}

func wrong(field, format string, args ...any) error {
	return &WrongError{field, fmt.Sprintf(format, args...)}
}

// short fails if a text is longer than any question needs.
func short(texts map[string]string) error {
	for field, text := range texts {
		if len(text) > maxText {
			return wrong(field, ": it has %d bytes, want at most %d", len(text), maxText)
		}
	}
	return nil
}

// Flow answers a FlowReview, but for what it was made from. An error about the question is a
// WrongError.
func Flow(c *explain.Computation, spec v1alpha1.FlowReviewSpec) (v1alpha1.FlowReviewStatus, error) {
	var out v1alpha1.FlowReviewStatus
	q, err := question(spec)
	if err != nil {
		return out, err
	}
	answer, err := c.Answer(q)
	if err != nil {
		return out, aboutField(err)
	}
	out.FlowAnswer = *answer
	return out, nil
}

// SpecOf is a question as the API takes it.
func SpecOf(q explain.Question) v1alpha1.FlowReviewSpec {
	out := v1alpha1.FlowReviewSpec{
		From: q.From, To: q.To, Protocol: q.Protocol, Port: q.Port, SourcePort: int32(q.SourcePort), ICMPCode: int32(q.ICMPCode), IGMPType: int32(q.IGMPType),
		IGMPGroup: q.IGMPGroup,
	}
	if q.ICMPType != nil {
		t := int32(*q.ICMPType)
		out.ICMPType = &t
	}
	return out
}

func question(spec v1alpha1.FlowReviewSpec) (explain.Question, error) {
	q := explain.Question{From: spec.From, To: spec.To, Protocol: spec.Protocol, Port: spec.Port, IGMPGroup: spec.IGMPGroup}
	if q.Protocol == "" {
		q.Protocol = "TCP"
	}
	if err := short(map[string]string{"from": spec.From, "to": spec.To, "protocol": spec.Protocol, "port": spec.Port, "igmpGroup": spec.IGMPGroup}); err != nil {
		return q, err
	}
	small := func(field string, n int32, into *uint8) error {
		if n < 0 || n > math.MaxUint8 {
			return wrong(field, " %d: want a number from 0 to 255", n)
		}
		*into = uint8(n)
		return nil
	}
	if spec.SourcePort < 0 || spec.SourcePort > math.MaxUint16 {
		return q, wrong("sourcePort", " %d: want a number from 1 to 65535, or 0 for one that no rule names", spec.SourcePort)
	}
	q.SourcePort = uint16(spec.SourcePort)
	if spec.ICMPType != nil {
		q.ICMPType = new(uint8)
		if err := small("icmpType", *spec.ICMPType, q.ICMPType); err != nil {
			return q, err
		}
	}
	if err := small("icmpCode", spec.ICMPCode, &q.ICMPCode); err != nil {
		return q, err
	}
	return q, small("igmpType", spec.IGMPType, &q.IGMPType)
}
