package calls

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// Call is one request as the simulator saw it.
type Call struct {
	// Seq numbers the calls from 1 in the order of their arrival.
	Seq int `json:"seq"`
	// Time is the simulated time of arrival.
	Time    time.Time `json:"time"`
	Service string    `json:"service"`
	Action  string    `json:"action"`
	Account string    `json:"account,omitempty"`
	Region  string    `json:"region,omitempty"`
	// Agent is what the client calls itself.
	Agent string `json:"-"`
	// Params are the wire parameters without Action and Version.
	Params map[string]string `json:"params,omitempty"`
	// Ignored names the parameters that the simulator accepted without giving them a meaning.
	Ignored []string `json:"ignored,omitempty"`
	// Code is the error code answered, "" for success. A call that was cut off before it was
	// executed has CodeDropped.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"`
	// AnswerLost means that the call was executed and the connection cut instead of answering.
	AnswerLost bool `json:"answerLost,omitempty"`
}

// RequestID is the name of the request in the answer.
func (c Call) RequestID() string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", c.Seq) }

// CodeDropped stands in Call.Code for a call that was cut off before it was executed.
const CodeDropped = "ConnectionDropped"

// Journal remembers the latest calls and counts all of them. It is safe for concurrent use.
type Journal struct {
	mu     sync.Mutex
	seq    int
	size   int
	calls  []Call
	first  int
	counts map[string]int
}

// NewJournal returns an empty journal that keeps the latest size calls.
func NewJournal(size int) *Journal {
	return &Journal{size: max(size, 1), counts: map[string]int{}}
}

// Next numbers a call that has just arrived and counts it.
func (j *Journal) Next(action string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	j.counts[action]++
	return j.seq
}

// Add files a finished call. The journal is in the order of completion; Seq tells the order of
// arrival.
func (j *Journal) Add(c Call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.calls) < j.size {
		j.calls = append(j.calls, c)
		return
	}
	j.calls[j.first] = c
	j.first = (j.first + 1) % j.size
}

// Calls returns the remembered calls with a sequence number above after, in the order in which they
// finished.
func (j *Journal) Calls(after int) []Call {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Call, 0, len(j.calls))
	for i := range j.calls {
		c := j.calls[(j.first+i)%len(j.calls)]
		if c.Seq > after {
			out = append(out, c)
		}
	}
	return out
}

// Counts returns how often each action was called since the start or the last Reset, failed calls
// included.
func (j *Journal) Counts() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.counts)
}

// Total returns how many calls have arrived since the start.
func (j *Journal) Total() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq
}

// Reset forgets the calls and their counts. Sequence numbers go on.
func (j *Journal) Reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls, j.first, j.counts = nil, 0, map[string]int{}
}
