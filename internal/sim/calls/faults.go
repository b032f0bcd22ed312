package calls

import (
	"slices"
	"sync"
	"time"
)

// Fault disturbs chosen calls. The zero effect (no delay, no error, no cut) changes nothing.
type Fault struct {
	// Action is the action to disturb, "*" for every one.
	Action string `json:"action"`
	// Nth is the number of the matching call, counted from 1 since the fault was added, at which it
	// starts; 0 means 1.
	Nth int `json:"nth,omitempty"`
	// Times is how many matching calls in a row are disturbed; 0 means 1, a negative number all
	// from Nth on.
	Times int `json:"times,omitempty"`
	// Service, Account and Region restrict the fault; "" means any.
	Service string `json:"service,omitempty"`
	Account string `json:"account,omitempty"`
	Region  string `json:"region,omitempty"`
	// Params restricts the fault to calls that carry exactly these wire parameters (others may be
	// present).
	Params map[string]string `json:"params,omitempty"`
	// Match, when set, must also hold. It may be called concurrently and must not call back into
	// the simulator.
	Match func(Call) bool `json:"-"`

	// Delay is waited before anything else happens.
	Delay time.Duration `json:"delay,omitempty"`
	// Code, when set, is answered instead of executing the call, with HTTP status Status (0: the
	// usual one of the code) and Message.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"`
	// Drop cuts the connection before the call is executed.
	Drop bool `json:"drop,omitempty"`
	// LoseAnswer executes the call and then cuts the connection: the client cannot know what became
	// of it.
	LoseAnswer bool `json:"loseAnswer,omitempty"`
	// Late accepts the call and lets the operation that it has begun fail with Code, where a cloud
	// has such operations (Azure).
	Late bool `json:"late,omitempty"`
	// RetryAfter is what an answer with Code asks the client to wait, where a cloud says so
	// (Azure), in whole seconds.
	RetryAfter int `json:"retryAfter,omitempty"`
}

// Faults is the set of faults in force. It is safe for concurrent use; the zero value has none.
type Faults struct {
	mu     sync.Mutex
	nextID int
	active []*activeFault
}

type activeFault struct {
	id    int
	fault Fault
	seen  int
}

// Add puts a fault in force and returns its id, for Remove.
func (f *Faults) Add(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextID++
	f.active = append(f.active, &activeFault{id: f.nextID, fault: fault})
	return f.nextID
}

// Remove takes back one fault; an unknown id is ignored.
func (f *Faults) Remove(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = slices.DeleteFunc(f.active, func(a *activeFault) bool { return a.id == id })
}

// Clear takes back all faults.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = nil
}

// List returns the faults in force by id.
func (f *Faults) List() map[int]Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[int]Fault, len(f.active))
	for _, a := range f.active {
		out[a.id] = a.fault
	}
	return out
}

// Strike counts the call against every matching fault and returns the effects together: the delays
// added up, and of each other effect the first one found.
func (f *Faults) Strike(c Call) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out Fault
	for _, a := range f.active {
		if !a.fault.matches(c) {
			continue
		}
		a.seen++
		if !a.fault.due(a.seen) {
			continue
		}
		out.Delay += a.fault.Delay
		out.Drop = out.Drop || a.fault.Drop
		out.LoseAnswer = out.LoseAnswer || a.fault.LoseAnswer
		if out.Code == "" {
			out.Code, out.Message, out.Status = a.fault.Code, a.fault.Message, a.fault.Status
			out.Late, out.RetryAfter = a.fault.Late, a.fault.RetryAfter
		}
	}
	f.active = slices.DeleteFunc(f.active, func(a *activeFault) bool { return a.fault.spent(a.seen) })
	return out
}

func (f Fault) matches(c Call) bool {
	if f.Action != "*" && f.Action != c.Action ||
		f.Service != "" && f.Service != c.Service ||
		f.Account != "" && f.Account != c.Account ||
		f.Region != "" && f.Region != c.Region {
		return false
	}
	for k, v := range f.Params {
		if got, ok := c.Params[k]; !ok || got != v {
			return false
		}
	}
	return f.Match == nil || f.Match(c)
}

// due reports whether the fault strikes at its seen-th matching call.
func (f Fault) due(seen int) bool {
	first := max(f.Nth, 1)
	return seen >= first && (f.Times < 0 || seen < first+max(f.Times, 1))
}

func (f Fault) spent(seen int) bool {
	return f.Times >= 0 && seen >= max(f.Nth, 1)+max(f.Times, 1)-1
}
