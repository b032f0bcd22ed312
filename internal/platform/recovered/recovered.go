// Package recovered turns a panic of one unit of work into an error about that unit, so that
// other units go on.
//
// It owns how a panic is reported: one line for users, with the stack for logs. It promises that
// the work ends either way, and that what the work has deferred has run. It recovers nothing that
// Go cannot recover: a stack overflow, a concurrent write to a map, and memory that is used up end
// the process.
//
// Functions may be called concurrently.
package recovered

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
)

// Panic is a panic that was recovered.
type Panic struct {
	// Value is what the work panicked with.
	Value any
	// Stack is the stack at that place.
	Stack string
}

// Error implements error. It says nothing of the stack.
func (p *Panic) Error() string {
	return fmt.Sprintf("a fault of Nephele, please report it: %v", p.Value)
}

// Call does something and returns its error, or the panic that ended it.
func Call(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{Value: value, Stack: string(debug.Stack())}
		}
	}()
	return do()
}

// Do does something that has no error.
func Do(do func()) error {
	return Call(func() error { do(); return nil })
}

// Holding does something while it holds a lock, which is free afterwards also if that panics: what
// recovers the panic would wait for it for ever.
func Holding(l sync.Locker, do func()) {
	l.Lock()
	defer l.Unlock()
	do()
}

// StackOf is the stack of the panic that is behind an error; empty if there is none.
func StackOf(err error) string {
	var p *Panic
	if errors.As(err, &p) {
		return p.Stack
	}
	return ""
}

// Everywhere has the libraries that handle objects of the cluster recover panics, too: they log
// them, leave out the object, and go on. It is for the whole process.
func Everywhere() { utilruntime.ReallyCrash = false }

// The pauses of Repeat.
const (
	firstPause  = time.Second
	longestWait = time.Minute
)

// Repeat does something that ends with the context only, and begins it anew when it panics, after
// pauses that grow. Tell hears of every panic.
func Repeat(ctx context.Context, c clock.Clock, tell func(error), do func()) {
	pause := time.Duration(0)
	for {
		err := Do(do)
		if err == nil || ctx.Err() != nil {
			return
		}
		tell(err)
		pause = min(max(2*pause, firstPause), longestWait)
		select {
		case <-ctx.Done():
			return
		case <-c.After(pause):
		}
	}
}
