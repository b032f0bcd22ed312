package work_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nephele-io/nephele/internal/platform/work"
)

func TestBudget(t *testing.T) {
	var none *work.Budget
	none.Spend(1 << 40)
	b, done := work.New(100, nil), 0
	err := work.Within(func() error {
		for range 200 {
			b.Spend(1)
			done++
		}
		return nil
	})
	if !errors.Is(err, work.ErrTooMuch) || done != 100 {
		t.Errorf("%v after %d", err, done)
	}
	gone, cancel := context.WithCancel(t.Context())
	b = work.New(1<<40, gone.Err)
	done = 0
	err = work.Within(func() error {
		for {
			b.Spend(10)
			if done++; done == 1000 {
				cancel()
			}
		}
	})
	if !errors.Is(err, context.Canceled) || done > 3000 {
		t.Errorf("%v after %d", err, done)
	}
	own := errors.New("own")
	if err := work.Within(func() error { return own }); !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
	defer func() {
		if recover() != "a fault" {
			t.Error("a panic of others is swallowed")
		}
	}()
	_ = work.Within(func() error { panic("a fault") })
}
