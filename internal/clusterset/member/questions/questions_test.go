package questions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// answers answers about flows from one address, and panics about others.
type answers struct{}

func (answers) Flow(_ context.Context, spec analysis.FlowReviewSpec) (analysis.FlowReviewStatus, error) {
	if spec.From != "10.0.0.1" {
		panic("not this one")
	}
	var out analysis.FlowReviewStatus
	out.Verdict = "Allow"
	return out, nil
}

func (answers) Sides(context.Context, *setmap.Question) (json.RawMessage, error) {
	return nil, errors.New("no map")
}

// TestAnswers: a question that panics is answered with an error and harms no other. Questions
// beyond the bound are left out, and without the word of the Membership nothing is answered.
func TestAnswers(t *testing.T) {
	var refused error
	told := make(chan struct{}, 2*mostQuestions)
	d := New(Options{Answers: answers{}, Allowed: func(context.Context) error { return refused }, Told: func() { told <- struct{}{} }, Log: logr.Discard()})
	ask := func(n int) []wire.Answer {
		t.Helper()
		d.Forget()
		var all []wire.Question
		for i := range n {
			all = append(all, wire.Question{ID: uint64(i + 1), Flow: json.RawMessage(fmt.Sprintf(`{"from":"10.0.0.%d"}`, 1+i%2))})
		}
		d.Put(all)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.Run(ctx) }()
		for range min(n, questionsAtOnce) {
			<-told
		}
		cancel()
		<-ended
		var out []wire.Answer
		for {
			some := d.Take()
			if len(some) > mostAnswers {
				t.Errorf("%d answers at once", len(some))
			}
			if out = append(out, some...); len(some) == 0 {
				return out
			}
		}
	}
	got := ask(2)
	if len(got) != 2 || got[0].Error != "" || len(got[0].Flow) == 0 || got[1].Error != "the question could not be answered" || got[1].ID != 2 {
		t.Errorf("%+v", got)
	}
	d = New(d.Options)
	refused = errors.New("it answers no questions")
	if got := ask(1); len(got) != 1 || got[0].Error != refused.Error() {
		t.Errorf("%+v, want %v", got, refused)
	}
	d.Put(make([]wire.Question, mostQuestions+5))
	if n := len(d.waiting); n != mostQuestions {
		t.Errorf("%d questions wait, want %d", n, mostQuestions)
	}
}
