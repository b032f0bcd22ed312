package enforcer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// rarest is how many intervals apart watches are begun after many failures in a row.
	rarest = 6
	// spread is the part of a wait by which Random lengthens it.
	spread = 0.2
)

// Run keeps the copy current until ctx ends, and returns when its goroutines have ended.
func (m *Mirror) Run(ctx context.Context) {
	if m.how.Told != nil {
		m.how.Told(m, true)
		defer m.how.Told(m, false)
	}
	var running sync.WaitGroup
	for _, r := range Resources() {
		running.Go(func() { m.forever(ctx, func() { m.run(ctx, r) }) })
	}
	running.Go(func() { m.forever(ctx, func() { m.believe(ctx) }) })
	running.Wait()
	m.how.Metrics.forget(m.key)
}

// forever does something until ctx ends, whatever panics in it: what comes from a server is
// somebody else's.
func (m *Mirror) forever(ctx context.Context, do func()) {
	recovered.Repeat(ctx, m.how.Clock, func(err error) {
		m.how.Log.Error(err, "A panic was recovered", "key", m.key, "stack", recovered.StackOf(err))
	}, do)
}

// run begins watches of one resource until ctx ends. What is known stays in force between them.
func (m *Mirror) run(ctx context.Context, r Resource) {
	log := m.how.Log.WithValues("key", m.key, "resource", r)
	told := ""
	for wait := m.how.Interval; ctx.Err() == nil; {
		begun := m.how.Clock.Now()
		err := m.follow(ctx, r, func() {
			wait = m.how.Interval
			if told != "" {
				log.Info("Computed objects are received again")
			}
			told = ""
		})
		if ctx.Err() != nil {
			return
		}
		m.ended(r, err)
		if text := err.Error(); text != told {
			log.Info("The watch of computed objects has ended, what is known stays in force", "reason", text)
			told = text
		}
		m.pause(ctx, begun, wait)
		wait = min(2*wait, rarest*m.how.Interval)
	}
}

// pause waits until a watch may be begun when the last one was begun at a time. A watch of another
// kind that comes in sync shows that there is a server again, so from then on the interval is
// enough.
func (m *Mirror) pause(ctx context.Context, begun time.Time, wait time.Duration) {
	m.mu.Lock()
	synced := m.synced
	m.mu.Unlock()
	later := func(wait time.Duration) time.Duration {
		return max(wait-m.how.Clock.Since(begun), 0) + time.Duration(m.how.Random()*spread*float64(wait))
	}
	if m.sleep(ctx, later(wait), synced) {
		m.sleep(ctx, later(m.how.Interval), nil)
	}
}

// sleep waits for a time. It reports whether it was woken before.
func (m *Mirror) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return false
	}
	timer := m.how.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-wake:
		return true
	}
	return false
}

// believe waits, whenever all watches have come in sync, until it has been quiet.
func (m *Mirror) believe(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.whole:
		}
		begun := m.how.Clock.Now()
		for {
			rest, whole := m.noise(begun)
			if !whole {
				break
			}
			if rest <= 0 {
				m.changed()
				break
			}
			m.sleep(ctx, rest, nil)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// noise returns how long it takes until what was received is believed, if nothing more comes, and
// does so if that is now. It is false if a watch is not in sync any more.
func (m *Mirror) noise(begun time.Time) (rest time.Duration, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.streams {
		if !s.InSync {
			return 0, false
		}
	}
	rest = min(m.how.Quiet-m.how.Clock.Since(m.latest), 10*m.how.Quiet-m.how.Clock.Since(begun))
	if rest <= 0 {
		m.believed = true
		m.version++
	}
	return rest, true
}

// follow handles one watch from its beginning to its end, which is always an error.
func (m *Mirror) follow(ctx context.Context, r Resource, onSync func()) error {
	m.begins(r)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := m.how.Source.Watch(ctx, r, m.key)
	if err != nil {
		return err
	}
	defer stream.Stop()
	initial, inSync := newTable(r, m.how.Pack), false
	for {
		ev, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		m.how.Metrics.event(r, ev.Type)
		switch {
		case ev.Type == watch.Error:
			return fmt.Errorf("the server ended the watch: %w", statusError(ev.Object))
		case ev.Type == watch.Bookmark && inSync:
			return errors.New("a second bookmark")
		case ev.Type == watch.Bookmark:
			m.replace(r, initial)
			initial, inSync = nil, true
			m.how.Metrics.inSync(m.key, r, true)
			onSync()
		case inSync:
			if err := m.change(r, ev); err != nil {
				return err
			}
		case ev.Type == watch.Added:
			if err := initial.put(ev.Object); err != nil {
				return err
			}
			continue
		default:
			return fmt.Errorf("a %s event before the bookmark", ev.Type)
		}
		m.changed()
	}
}

func (m *Mirror) begins(r Resource) {
	m.how.Metrics.begins(m.key, r)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams[r].Begun++
}

func (m *Mirror) ended(r Resource, err error) {
	m.how.Metrics.inSync(m.key, r, false)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[r]
	s.InSync, s.Err, m.believed = false, err, false
}
