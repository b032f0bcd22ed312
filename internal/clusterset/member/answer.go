package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
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
		if limit.Wait(ctx) != nil {
			return
		}
		a := wire.Answer{ID: q.ID}
		err := recovered.Call(func() (err error) {
			a.Flow, err = m.flow(ctx, q.Flow)
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

// flow answers a question about a flow, if the Membership lets it.
func (m *Member) flow(ctx context.Context, question json.RawMessage) (json.RawMessage, error) {
	membership, err := m.membership(ctx)
	if err != nil || membership == nil {
		return nil, errors.Join(errLeft, err)
	}
	if accept := membership.Spec.Accept.Questions; accept != nil && !*accept {
		return nil, errors.New("its Membership answers no questions")
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
