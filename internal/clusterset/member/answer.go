package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/halves"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// answerLimit bounds the work on one question: later nobody waits for it any more.
	answerLimit = 5 * time.Second
	// mostQuestions is how many wait for an answer or to be answered; mostAnswers how many are told
	// at once.
	mostQuestions = 32
	mostAnswers   = 4
	// questionsPerSecond bounds what a hub can make this cluster work.
	questionsPerSecond, questionsAtOnce = 2, 20
	// flowsAsOne is how many flows of one question count as a question.
	flowsAsOne = 250
)

// asked takes over questions of the hub. Those beyond what may wait are not answered. The caller
// holds the lock.
func (m *Member) asked(all []wire.Question) {
	for _, q := range all {
		if len(m.questions)+len(m.answers) < mostQuestions {
			m.questions = append(m.questions, q)
		}
	}
	if len(all) > 0 {
		wake(m.asking)
	}
}

// forgetQuestions forgets those of a former stream. The caller holds the lock.
func (m *Member) forgetQuestions() { m.questions, m.answers = nil, nil }

// answer answers the questions of a stream, one after the other.
func (m *Member) answer(ctx context.Context) {
	limit := rate.NewLimiter(questionsPerSecond, questionsAtOnce)
	for {
		q, is := m.question()
		if !is {
			select {
			case <-ctx.Done():
				return
			case <-m.asking:
			}
			continue
		}
		if limit.WaitN(ctx, 1+min(len(q.Flows), wire.MostFlows)/flowsAsOne) != nil {
			return
		}
		a := wire.Answer{ID: q.ID}
		err := recovered.Call(func() (err error) {
			if len(q.Flows) > 0 {
				a.Decided, err = m.flows(ctx, q)
			} else {
				a.Flow, err = m.flow(ctx, q.Flow)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case recovered.StackOf(err) != "":
			m.Log.Error(err, "A question of the hub panicked", "stack", recovered.StackOf(err))
			a.Error = "the question could not be answered"
		case err != nil:
			a.Error = shortened(err.Error())
		}
		m.answered(a)
	}
}

func (m *Member) question() (wire.Question, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.questions) == 0 {
		return wire.Question{}, false
	}
	q := m.questions[0]
	m.questions = m.questions[1:]
	return q, true
}

func (m *Member) answered(a wire.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = append(m.answers, a)
	wake(m.told)
}

// mayAnswer fails unless the Membership lets questions be answered.
func (m *Member) mayAnswer(ctx context.Context) error {
	membership, err := m.membership(ctx)
	if err != nil || membership == nil {
		return errors.Join(errLeft, err)
	}
	if accept := membership.Spec.Accept.Questions; accept != nil && !*accept {
		return errors.New("its Membership answers no questions")
	}
	return nil
}

// flows answers a question about many flows. What is not known of one is said of that one.
func (m *Member) flows(ctx context.Context, q wire.Question) (*wire.Decided, error) {
	switch {
	case len(q.Flows) > wire.MostFlows:
		return nil, fmt.Errorf("a question about %d flows, want at most %d", len(q.Flows), wire.MostFlows)
	case q.Side != halves.Egress && q.Side != halves.Ingress:
		return nil, errors.New("the question names no side")
	}
	if err := m.mayAnswer(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	all := make([]halves.Told, 0, len(q.Flows))
	for _, question := range q.Flows {
		var spec analysis.FlowReviewSpec
		if err := json.Unmarshal(question, &spec); err != nil {
			return nil, fmt.Errorf("the question is none: %w", err)
		}
		status, err := m.Flow(ctx, spec)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("the answer takes longer than %s: ask about fewer", answerLimit)
		case err != nil:
			all = append(all, halves.Unknown(shortened(err.Error())))
			continue
		}
		decision, why := halves.Of(&status, q.Side)
		if decision == nil {
			all = append(all, halves.Unknown(why))
			continue
		}
		all = append(all, halves.Short(decision))
	}
	return halves.Pack(all)
}

// flow answers a question about a flow, if the Membership lets it.
func (m *Member) flow(ctx context.Context, question json.RawMessage) (json.RawMessage, error) {
	if err := m.mayAnswer(ctx); err != nil {
		return nil, err
	}
	var spec analysis.FlowReviewSpec
	if err := json.Unmarshal(question, &spec); err != nil {
		return nil, fmt.Errorf("the question is none: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	status, err := m.Flow(ctx, spec)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(status)
	if err == nil && len(raw) > wire.MostAnswer {
		err = fmt.Errorf("the answer has %d bytes, want at most %d: ask there", len(raw), wire.MostAnswer)
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}
