// Package questions answers what the hub asks about a cluster.
//
// It owns the questions of the present stream that wait, and the answers that are to be sent. It
// promises:
//
//   - Questions are answered one after the other, within rate limits. A question beyond the queue
//     is dropped, and the hub gets no answer to it.
//   - Nothing is answered unless the Membership allows it (Allowed).
//   - A question that panics or takes too long is answered with an error, and harms no other.
//
// All methods may be called from anywhere. A caller may hold a lock while it calls Put, Forget or
// Take, which call nothing of the Options. Run may run once at a time.
package questions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/halves"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// answerLimit bounds the work on one question: after that the hub does not wait for it any
	// more.
	answerLimit = 5 * time.Second
	// mostQuestions is how many questions wait at most; mostAnswers how many answers are sent at
	// once.
	mostQuestions = 32
	mostAnswers   = 4
	// questionsPerSecond bounds what a hub can make this cluster work.
	questionsPerSecond, questionsAtOnce = 2, 20
	// flowsAsOne is how many flows of one question count as a question, mapAsQuestions for how many
	// a question for a map counts.
	flowsAsOne     = 250
	mapAsQuestions = 2
)

// Answers answers questions of the hub about this cluster, as of everything that is known here.
type Answers interface {
	// Flow is what becomes of a packet.
	Flow(ctx context.Context, spec analysis.FlowReviewSpec) (analysis.FlowReviewStatus, error)
	// Sides is what is decided here, for a map of the set.
	Sides(ctx context.Context, q *setmap.Question) (json.RawMessage, error)
}

// Options are what a Desk needs. All are required.
type Options struct {
	Answers Answers
	// Allowed fails unless the Membership lets questions be answered.
	Allowed func(ctx context.Context) error
	// Told is called when there is an answer to send.
	Told func()
	Log  logr.Logger
}

// Desk answers questions. See the package comment; use New.
type Desk struct {
	Options
	// news wakes Run.
	news chan struct{}

	mu sync.Mutex
	// waiting are the questions of the present stream, answered what is to be sent.
	waiting  []wire.Question
	answered []wire.Answer
}

// New returns a Desk without questions.
func New(o Options) *Desk { return &Desk{Options: o, news: make(chan struct{}, 1)} }

// Put queues questions of the hub. A question beyond the queue is not answered.
func (d *Desk) Put(all []wire.Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range all {
		if len(d.waiting)+len(d.answered) < mostQuestions {
			d.waiting = append(d.waiting, q)
		}
	}
	if len(all) > 0 {
		select {
		case d.news <- struct{}{}:
		default:
		}
	}
}

// Forget forgets the questions of a former stream, and the answers to thed.
func (d *Desk) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting, d.answered = nil, nil
}

// Take returns answers to send next, as many as go into one record; none if there are none.
func (d *Desk) Take() []wire.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.answered), mostAnswers)
	out := d.answered[:n]
	d.answered = d.answered[n:]
	return out
}

// Run answers the questions of a stream, one after the other, until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	limit := rate.NewLimiter(questionsPerSecond, questionsAtOnce)
	for {
		q, is := d.next()
		if !is {
			select {
			case <-ctx.Done():
				return
			case <-d.news:
			}
			continue
		}
		cost := 1 + min(len(q.Flows), wire.MostFlows)/flowsAsOne
		if len(q.Map) > 0 {
			cost = mapAsQuestions
		}
		if limit.WaitN(ctx, cost) != nil {
			return
		}
		a := wire.Answer{ID: q.ID}
		err := recovered.Call(func() (err error) {
			switch {
			case len(q.Map) > 0:
				a.Map, err = d.sides(ctx, q.Map)
			case len(q.Flows) > 0:
				a.Decided, err = d.flows(ctx, q)
			default:
				a.Flow, err = d.flow(ctx, q.Flow)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case recovered.StackOf(err) != "":
			d.Log.Error(err, "A question of the hub panicked", "stack", recovered.StackOf(err))
			a.Error = "the question could not be answered"
		case err != nil:
			a.Error = wire.Shortened(err.Error())
		}
		d.done(a)
	}
}

func (d *Desk) next() (wire.Question, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		return wire.Question{}, false
	}
	q := d.waiting[0]
	d.waiting = d.waiting[1:]
	return q, true
}

func (d *Desk) done(a wire.Answer) {
	d.mu.Lock()
	d.answered = append(d.answered, a)
	d.mu.Unlock()
	d.Told()
}

// flows answers a question about many flows. What is not known of one is said of that one.
func (d *Desk) flows(ctx context.Context, q wire.Question) (*wire.Decided, error) {
	switch {
	case len(q.Flows) > wire.MostFlows:
		return nil, fmt.Errorf("a question about %d flows, want at most %d", len(q.Flows), wire.MostFlows)
	case q.Side != halves.Egress && q.Side != halves.Ingress:
		return nil, errors.New("the question names no side")
	}
	if err := d.Allowed(ctx); err != nil {
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
		status, err := d.Answers.Flow(ctx, spec)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("the answer takes longer than %s: ask about fewer", answerLimit)
		case err != nil:
			all = append(all, halves.Unknown(wire.Shortened(err.Error())))
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
func (d *Desk) flow(ctx context.Context, question json.RawMessage) (json.RawMessage, error) {
	if err := d.Allowed(ctx); err != nil {
		return nil, err
	}
	var spec analysis.FlowReviewSpec
	if err := json.Unmarshal(question, &spec); err != nil {
		return nil, fmt.Errorf("the question is none: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	status, err := d.Answers.Flow(ctx, spec)
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

// sides answers a question for a map of the set, if the Membership lets it.
func (d *Desk) sides(ctx context.Context, question json.RawMessage) (json.RawMessage, error) {
	if err := d.Allowed(ctx); err != nil {
		return nil, err
	}
	q, err := setmap.ParseQuestion(question)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answer, err := d.Answers.Sides(ctx, q)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the answer takes longer than %s: narrow it with from and to, protocol and port", answerLimit)
	}
	return answer, err
}
