package sqs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// look is how often a waiting Receive looks at the clock: messages become visible without anybody
// doing anything.
const look = 20 * time.Millisecond

// ReceiveInput are the parameters of Receive.
type ReceiveInput struct {
	// Max is the most messages to return, 1..10; 0 means 1.
	Max int
	// Wait is how long to wait for the first message, at most MaxWait, in real time.
	Wait time.Duration
	// Visibility hides what is handed out; nil means the queue's own time.
	Visibility *time.Duration
	// Before, if set, is called before each look, so that queues can be filled on demand.
	Before func()
}

// Receive hands out up to Max messages. It returns early when ctx ends, with its error.
func (q *Queues) Receive(ctx context.Context, ref Ref, in ReceiveInput) ([]Message, error) {
	if in.Max == 0 {
		in.Max = 1
	}
	if in.Max < 1 || in.Max > MaxMessages {
		return nil, invalid("Value %d for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.", in.Max)
	}
	if in.Wait < 0 || in.Wait > MaxWait {
		return nil, invalid("Value %d for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.", int(in.Wait.Seconds()))
	}
	end := time.NewTimer(in.Wait)
	defer end.Stop()
	for {
		if in.Before != nil {
			in.Before()
		}
		out, changed, err := q.take(ref, in)
		if err != nil || len(out) > 0 || in.Wait == 0 {
			return out, err
		}
		again := time.NewTimer(look)
		select {
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		case <-end.C:
			again.Stop()
			return nil, nil
		case <-changed:
		case <-again.C:
		}
		again.Stop()
	}
}

func (q *Queues) take(ref Ref, in ReceiveInput) ([]Message, <-chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.queues[ref]
	if u == nil {
		return nil, nil, noQueue()
	}
	now := q.clock()
	u.messages = slices.DeleteFunc(u.messages, func(m *message) bool { return now.Sub(m.Sent) > u.retention() })
	var ready []*message
	for _, m := range u.messages {
		if !m.visible.After(now) {
			ready = append(ready, m)
		}
	}
	if q.shuffle {
		q.random.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	} else {
		slices.SortStableFunc(ready, func(a, b *message) int { return a.visible.Compare(b.visible) })
	}
	hide := u.seconds("VisibilityTimeout", defaultVisibility)
	if in.Visibility != nil {
		hide = *in.Visibility
	}
	var out []Message
	for _, m := range ready[:min(in.Max, len(ready))] {
		m.Received++
		if m.First.IsZero() {
			m.First = now
		}
		m.visible = now.Add(hide)
		m.Handle = fmt.Sprintf("%s#%d", m.ID, m.Received)
		out = append(out, m.Message)
	}
	return out, q.changed, nil
}

func (u *queue) retention() time.Duration {
	return u.seconds("MessageRetentionPeriod", defaultRetention)
}

func (u *queue) seconds(attribute string, otherwise time.Duration) time.Duration {
	if n, err := strconv.Atoi(u.attributes[attribute]); err == nil {
		return time.Duration(n) * time.Second
	}
	return otherwise
}

// DeleteMessage removes the message of a delivery. As in the service any handle of the message is
// good, also after its time, and one of a message that is gone is fine.
func (q *Queues) DeleteMessage(ref Ref, handle string) error {
	return q.withMessage(ref, handle, func(u *queue, at int) {
		if at >= 0 {
			u.messages = slices.Delete(u.messages, at, at+1)
		}
	})
}

// ChangeVisibility hides the message of a delivery for so long from now.
func (q *Queues) ChangeVisibility(ref Ref, handle string, d time.Duration) error {
	return q.withMessage(ref, handle, func(u *queue, at int) {
		if at >= 0 {
			u.messages[at].visible = q.clock().Add(d)
			q.wake()
		}
	})
}

func (q *Queues) withMessage(ref Ref, handle string, do func(u *queue, at int)) error {
	id, number, ok := strings.Cut(handle, "#")
	if _, err := strconv.Atoi(number); !ok || err != nil {
		return &Error{"ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", fmt.Sprintf("The input receipt handle %q is not a valid receipt handle.", handle)}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.queues[ref]
	if u == nil {
		return noQueue()
	}
	do(u, slices.IndexFunc(u.messages, func(m *message) bool { return m.ID == id }))
	return nil
}
