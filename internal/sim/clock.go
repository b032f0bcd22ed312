package sim

import (
	"sync"
	"time"
)

// clock is the simulated time: a base clock that can be moved forward. It is safe for concurrent
// use.
type clock struct {
	base func() time.Time

	mu     sync.Mutex
	offset time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base().Add(c.offset)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}
