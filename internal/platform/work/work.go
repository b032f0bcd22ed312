// Package work bounds what one answer may cost. An evaluator spends from a Budget at every
// step; when nothing is left, or the caller has gone, the work ends there.
//
// Ending is a panic that Within turns into an error: evaluators that are nested deep have nothing
// to hand through, and cannot go on with half of a result by mistake. Spend is therefore only to be
// called below Within, by the goroutine that has called it. What is shared with others, such as a
// cache that is being filled, must not be worked out with a Budget.
//
// A Budget may be spent from concurrently. There is no clock and no I/O.
package work

import (
	"errors"
	"sync/atomic"
)

// ErrTooMuch tells that the budget is used up.
var ErrTooMuch = errors.New("this takes more work than one answer may")

// patience is after how much work it is asked whether somebody still waits.
const patience = 4096

// Budget is what may still be spent. nil has no end.
type Budget struct {
	left, until atomic.Int64
	ended       func() error
}

// New returns a budget of so many units. Ended is asked now and then; work ends with its error. It
// may be nil.
func New(units int64, ended func() error) *Budget {
	b := &Budget{ended: ended}
	b.left.Store(units)
	b.until.Store(units - patience)
	return b
}

// exceeded is what Spend panics with.
type exceeded struct{ err error }

// Spend takes from the budget, a unit being what some dozens of instructions and bytes are.
func (b *Budget) Spend(units int) {
	if b == nil {
		return
	}
	left := b.left.Add(-int64(units))
	if left < 0 {
		panic(exceeded{ErrTooMuch})
	}
	if b.ended != nil && left < b.until.Load() {
		b.until.Store(left - patience)
		if err := b.ended(); err != nil {
			panic(exceeded{err})
		}
	}
}

// Left is what may still be spent.
func (b *Budget) Left() int64 { return b.left.Load() }

// Within does something that spends, and returns its error, or why it has ended.
func Within(do func() error) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case exceeded:
			err = v.err
		default:
			panic(v)
		}
	}()
	return do()
}
