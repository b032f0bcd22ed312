// Package sqs holds the standard queues of the simulated accounts: messages that are delivered at
// least once, in no order that may be relied on, and that come back unless they are deleted within
// their visibility timeout. It knows no protocol; package ec2 speaks it.
//
// What it promises: a message that was accepted is handed out until it is deleted or its retention
// is over. Time comes from the injected clock, so that moving the simulated time forward makes
// hidden messages visible; only the waiting of Receive follows the real one, because a client waits
// in real time.
//
// Concurrency: Queues may be used from any number of goroutines. It starts none. Receive is the
// only method that waits, and ends with its context.
package sqs

import (
	"crypto/md5" // the protocol checks bodies with it
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The limits and defaults of the service.
const (
	MaxMessages = 10
	MaxWait     = 20 * time.Second
	MaxBody     = 1 << 20

	defaultVisibility = 30 * time.Second
	defaultRetention  = 4 * 24 * time.Hour
)

// Error is a refusal in the words of the service. Code is the one of the older query protocol,
// which clients still see; Type is the name of the shape in the JSON protocol.
type Error struct {
	Code, Type, Message string
}

// Error returns code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

func noQueue() *Error {
	return &Error{"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "The specified queue does not exist."}
}

func invalid(format string, args ...any) *Error {
	return &Error{"InvalidParameterValue", "InvalidParameterValueException", fmt.Sprintf(format, args...)}
}

// Ref names a queue.
type Ref struct {
	Account, Region, Name string
}

// Path is the path of the queue's URL.
func (r Ref) Path() string { return "/" + r.Account + "/" + r.Name }

// ARN is the Amazon resource name of the queue.
func (r Ref) ARN() string { return "arn:aws:sqs:" + r.Region + ":" + r.Account + ":" + r.Name }

// Options are the parts and knobs of Queues.
type Options struct {
	// Clock tells the simulated time; nil means time.Now.
	Clock func() time.Time
	// Shuffle hands messages out in a random order, driven by Seed; else in the order in which they
	// became visible.
	Shuffle bool
	Seed    uint64
}

// Queues are all queues of the simulated cloud. Make it with New.
type Queues struct {
	clock   func() time.Time
	shuffle bool

	mu      sync.Mutex
	random  *rand.Rand
	queues  map[Ref]*queue
	counter uint64
	// changed is closed, and replaced, whenever a message may have become visible.
	changed chan struct{}
}

type queue struct {
	attributes map[string]string
	messages   []*message
}

type message struct {
	Message
	visible time.Time
}

// Message is a message as Receive hands it out.
type Message struct {
	ID, Body string
	// Handle is what this delivery is deleted by.
	Handle string
	// Sent is when it was accepted; Received counts the deliveries.
	Sent     time.Time
	Received int
	// First is when it was delivered for the first time.
	First time.Time
}

// Digest is the checksum that goes with a body.
func Digest(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// New returns no queues.
func New(o Options) *Queues {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Queues{
		clock: o.Clock, shuffle: o.Shuffle, random: rand.New(rand.NewPCG(o.Seed, 0x5351)),
		queues: map[Ref]*queue{}, changed: make(chan struct{}),
	}
}

var queueName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// Create makes a queue; one that exists with the same attributes is fine. The attributes
// VisibilityTimeout and MessageRetentionPeriod, in seconds, have a meaning; others are kept.
func (q *Queues) Create(ref Ref, attributes map[string]string) error {
	if strings.HasSuffix(ref.Name, ".fifo") {
		return &Error{"InvalidParameterValue", "InvalidParameterValueException", "The simulator has standard queues only."}
	}
	if !queueName.MatchString(ref.Name) {
		return invalid("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	for _, key := range []string{"VisibilityTimeout", "MessageRetentionPeriod"} {
		if v, ok := attributes[key]; ok {
			if n, err := strconv.Atoi(v); err != nil || n < 0 {
				return &Error{"InvalidAttributeValue", "InvalidAttributeValue", "Invalid value for the parameter " + key + "."}
			}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if old := q.queues[ref]; old != nil {
		for k, v := range attributes {
			if old.attributes[k] != v {
				return &Error{"QueueAlreadyExists", "QueueNameExists", "A queue already exists with the same name and a different value for attribute " + k}
			}
		}
		return nil
	}
	kept := map[string]string{}
	for k, v := range attributes {
		kept[k] = v
	}
	q.queues[ref] = &queue{attributes: kept}
	return nil
}

// Delete removes a queue with all its messages.
func (q *Queues) Delete(ref Ref) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queues[ref] == nil {
		return noQueue()
	}
	delete(q.queues, ref)
	q.wake()
	return nil
}

// Exists reports whether there is such a queue.
func (q *Queues) Exists(ref Ref) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queues[ref] != nil
}

// Refs lists the queues by account, region and name.
func (q *Queues) Refs() []Ref {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]Ref, 0, len(q.queues))
	for ref := range q.queues {
		out = append(out, ref)
	}
	slices.SortFunc(out, func(a, b Ref) int { return strings.Compare(a.ARN(), b.ARN()) })
	return out
}

// Depth counts the messages that can be received now, and those that are hidden: on their way, or
// handed out and not deleted yet.
func (q *Queues) Depth(ref Ref) (visible, hidden int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.queues[ref]
	if u == nil {
		return 0, 0, noQueue()
	}
	now := q.clock()
	for _, m := range u.messages {
		if m.visible.After(now) {
			hidden++
		} else {
			visible++
		}
	}
	return visible, hidden, nil
}

// Send puts a message into a queue, to be seen after the delay, and returns its id.
func (q *Queues) Send(ref Ref, body string, delay time.Duration) (string, error) {
	if body == "" || len(body) > MaxBody {
		return "", invalid("One or more parameters are invalid. Reason: Message must be 1 to %d bytes long.", MaxBody)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.queues[ref]
	if u == nil {
		return "", noQueue()
	}
	now := q.clock()
	m := &message{Message: Message{ID: q.newID(), Body: body, Sent: now}, visible: now.Add(delay)}
	u.messages = append(u.messages, m)
	q.wake()
	return m.ID, nil
}

// newID makes up an id in the form of the service. The caller holds the lock.
func (q *Queues) newID() string {
	q.counter++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", q.random.Uint32(), q.counter)
}

// wake lets those that wait look again. The caller holds the lock.
func (q *Queues) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}
