package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/hub/questions"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

const (
	// answerLimit is how long a member may take to answer, mostAsked how many questions may wait
	// for one.
	answerLimit = 5 * time.Second
	mostAsked   = 32
)

// Flow answers a question about clusters of the set. An error about the question is an
// questions.WrongQuestion.
func (h *Hub) Flow(ctx context.Context, spec analysis.FlowReviewSpec) (analysis.FlowReviewStatus, error) {
	return questions.Flow(ctx, asked{h}, spec)
}

// Reach answers a question about who reaches whom among clusters of the set. An error about the
// question is an questions.WrongQuestion.
func (h *Hub) Reach(ctx context.Context, spec analysis.ReachReviewSpec) (analysis.ReachReviewStatus, error) {
	return questions.Reach(ctx, asked{h}, spec)
}

// asked is the hub as the set that questions are about.
type asked struct{ hub *Hub }

// Look implements questions.Set.
func (a asked) Look(look func(questions.View)) {
	a.hub.mu.Lock()
	defer a.hub.mu.Unlock()
	look(seen(a))
}

// Put implements questions.Set.
func (a asked) Put(ctx context.Context, cluster string, q wire.Question) (wire.Answer, error) {
	return a.hub.put(ctx, cluster, q)
}

// seen is what the hub knows of the set. The caller of its methods holds the lock.
type seen struct{ hub *Hub }

// Clusters implements questions.View.
func (s seen) Clusters() []string { return slices.Sorted(maps.Keys(s.hub.clusters)) }

// Cluster implements questions.View.
func (s seen) Cluster(name string) *setv1alpha1.Cluster {
	if m := s.hub.clusters[name]; m != nil {
		return m.cluster
	}
	return nil
}

// Entity implements questions.View.
func (s seen) Entity(cluster string, ref wire.Ref) (wire.Entity, bool) {
	return s.hub.union.Entity(cluster, ref)
}

// Each implements questions.View.
func (s seen) Each(cluster string, yield func(e *wire.Entity, labels map[string]string) bool) {
	s.hub.union.Each(cluster, yield)
}

// put puts a question to a member, and waits for its answer.
func (h *Hub) put(ctx context.Context, cluster string, q wire.Question) (wire.Answer, error) {
	answers, s, id, err := h.post(cluster, q)
	if err != nil {
		return wire.Answer{}, err
	}
	defer h.unpost(s, id)
	timer := h.Clock.NewTimer(answerLimit)
	defer timer.Stop()
	var answer wire.Answer
	select {
	case got, is := <-answers:
		if answer = got; !is {
			return answer, errors.New("it cannot be reached any more")
		}
	case <-timer.C():
		return answer, fmt.Errorf("it has not answered within %s", answerLimit)
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	if answer.Error != "" {
		return answer, errors.New("it says: " + wire.OneLine(answer.Error, 256))
	}
	return answer, nil
}

// post puts a question to a member.
func (h *Hub) post(cluster string, q wire.Question) (<-chan wire.Answer, *session, uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.clusters[cluster]
	switch {
	case m == nil:
		return nil, nil, 0, errors.New("there is no such Cluster any more")
	case m.session == nil:
		last := "it has not joined"
		if !m.heard.IsZero() {
			last = "last heard of at " + m.heard.UTC().Format(time.RFC3339)
		}
		return nil, nil, 0, errors.New("it cannot be reached: " + last)
	case len(q.Map) > 0 && (m.hello == nil || m.hello.Version < wire.VersionMap):
		return nil, nil, 0, errors.New("its program is too old to answer for a map")
	case len(m.session.asked) >= mostAsked:
		return nil, nil, 0, fmt.Errorf("%d questions to it wait for an answer, which is as many as may be", mostAsked)
	}
	s := m.session
	if n := sizeOf(&q); n > mostQuestion {
		return nil, nil, 0, fmt.Errorf("the question has %d bytes, want at most %d: ask about fewer", n, mostQuestion)
	}
	h.lastQuestion++
	answers := make(chan wire.Answer, 1)
	s.asked[h.lastQuestion] = answers
	q.ID = h.lastQuestion
	s.questions = append(s.questions, q)
	s.wake()
	return answers, s, h.lastQuestion, nil
}

// toAsk takes the questions that go into the next record. The caller holds the lock.
func (s *session) toAsk() []wire.Question {
	n, size := 0, 0
	for n < min(len(s.questions), mostAskedAtOnce) {
		if size += sizeOf(&s.questions[n]); size > mostQuestion && n > 0 {
			break
		}
		n++
	}
	asked := s.questions[:n:n]
	s.questions = s.questions[n:]
	return asked
}

// sizeOf is about how long a question is when it is written, in bytes.
func sizeOf(q *wire.Question) int {
	n := 100 + len(q.Flow) + len(q.Map)
	for _, f := range q.Flows {
		n += len(f) + 1
	}
	return n
}

func (h *Hub) unpost(s *session, id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(s.asked, id)
	s.questions = slices.DeleteFunc(s.questions, func(q wire.Question) bool { return q.ID == id })
}

// answered takes over answers. Answers to no question are left out. The caller holds the lock.
func (s *session) answered(all []wire.Answer) {
	for _, a := range all {
		if to := s.asked[a.ID]; to != nil {
			delete(s.asked, a.ID)
			to <- a // there is room for one
		}
	}
}

// unreachable ends the wait for all answers. The caller holds the lock.
func (s *session) unreachable() {
	for id, to := range s.asked {
		delete(s.asked, id)
		close(to)
	}
}
