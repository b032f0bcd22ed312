package inventory

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// maxHints bounds the ids that are read one by one; if events name more, the region is read
	// whole.
	maxHints = 500
	// maxAuthors bounds the objects of an account whose last author is remembered.
	maxAuthors = 10000
)

// feed is what is known of the queues of an account. The account's lock guards it.
type feed struct {
	// turn counts the listeners; what an earlier one still says is not heard.
	turn   int
	cancel context.CancelFunc
	// queues maps the queues to the error of the latest attempt to read them; one that was not read
	// yet is not in it.
	queues map[string]error
	wanted []v1alpha1.AWSEventQueue
	// authors are the last foreign authors of changes to an object, by region and id.
	authors map[objectID]cloud.Author
}

// objectID names an object of an account's region.
type objectID struct{ region, id string }

// end stops the listener, if any. What it says from now on is not heard.
func (f *feed) end() {
	f.turn++
	if f.cancel != nil {
		f.cancel()
		f.cancel = nil
	}
}

// Start listens to the queues of all accounts until ctx ends. The manager calls it; without it
// accounts are only polled.
func (i *Inventory) Start(ctx context.Context) error {
	i.mu.Lock()
	i.feeding = ctx
	var all []*account
	for _, a := range i.accounts {
		all = append(all, a)
	}
	i.mu.Unlock()
	for _, a := range all {
		recovered.Holding(&a.mu, func() { i.listen(a, a.feed.wanted) })
	}
	<-ctx.Done()
	i.mu.Lock()
	i.feeding = nil
	i.mu.Unlock()
	i.feeds.Wait()
	return nil
}

// listen makes the account hear what its queues say, with its present provider, if Start runs. The
// caller holds the account's lock.
func (i *Inventory) listen(a *account, queues []v1alpha1.AWSEventQueue) {
	a.feed.end()
	a.feed.wanted, a.feed.queues = queues, map[string]error{}
	listener, ok := a.whole.(cloud.Listener)
	if !ok || len(queues) == 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.feeding == nil || i.feeding.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(i.feeding)
	a.feed.cancel = cancel
	h := &hearing{inventory: i, account: a, turn: a.feed.turn}
	i.feeds.Go(func() {
		recovered.Repeat(ctx, clock.RealClock{}, func(err error) {
			logr.FromContextOrDiscard(ctx).Error(err, "A panic was recovered", "account", a.key, "in", "events", "stack", recovered.StackOf(err))
		}, func() { listener.Listen(ctx, h) })
	})
}

// hearing takes what one listener hears.
type hearing struct {
	inventory *Inventory
	account   *account
	turn      int
}

var _ cloud.Hearer = (*hearing)(nil)

// Heard implements cloud.Hearer: it remembers what to read again, and the authors of the changes.
func (h *hearing) Heard(changes []cloud.Change) {
	a, first := h.account, false
	recovered.Holding(&a.mu, func() {
		if a.feed.turn == h.turn {
			for _, c := range changes {
				first = a.hint(c) || first
				a.feed.note(c, h.inventory.opts.Now())
			}
		}
	})
	if first {
		h.inventory.enqueue(a.key)
	}
}

// hint notes what a change names and reports whether the region had no hints before.
func (a *account) hint(c cloud.Change) bool {
	r := a.regions[c.Region]
	if r == nil {
		return false // not a region of this account; one queue may serve several
	}
	first := len(r.hints) == 0 && !r.all
	if len(c.IDs) == 0 || len(r.hints)+len(c.IDs) > maxHints {
		r.hints, r.all = nil, true
		return first
	}
	if r.all {
		return false
	}
	if r.hints == nil {
		r.hints = map[string]bool{}
	}
	for _, id := range c.IDs {
		r.hints[id] = true
	}
	return first
}

// note remembers the author of a change. Calls of this process do not come here, because their ids
// are known. So a call with our credentials was made by another holder of them, or is a call of
// ours whose answer was lost. Its author counts if no other one is known. Events come in any order:
// the latest by the cloud's clock counts.
func (f *feed) note(c cloud.Change, now time.Time) {
	if c.Author.Name == "" {
		return
	}
	by := c.Author
	if by.At.IsZero() || by.At.After(now.Add(maxSkew)) {
		by.At = now
	}
	if f.authors == nil {
		f.authors = map[objectID]cloud.Author{}
	}
	for _, id := range c.IDs {
		key := objectID{c.Region, id}
		if old, known := f.authors[key]; known && (by.Ours && !old.Ours || by.Ours == old.Ours && old.At.After(by.At)) {
			continue
		}
		f.authors[key] = by
	}
	if len(f.authors) > maxAuthors {
		f.forgetOldest()
	}
}

// maxSkew is how far the cloud's clock may be ahead of ours before its time is not believed.
const maxSkew = 5 * time.Minute

// forgetOldest drops the older half of the authors.
func (f *feed) forgetOldest() {
	var oldest, newest time.Time
	for _, a := range f.authors {
		if oldest.IsZero() || a.At.Before(oldest) {
			oldest = a.At
		}
		if a.At.After(newest) {
			newest = a.At
		}
	}
	middle := oldest.Add(newest.Sub(oldest) / 2)
	for key, a := range f.authors {
		if !a.At.After(middle) || len(f.authors) > maxAuthors {
			delete(f.authors, key)
		}
	}
}

// Proven implements cloud.Hearer.
func (h *hearing) Proven(region string, at time.Time) {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.regions[region]; r != nil && a.feed.turn == h.turn && at.After(r.proven) {
		r.proven = at
	}
}

// Listening implements cloud.Hearer.
func (h *hearing) Listening(queue string, err error) {
	a := h.account
	a.mu.Lock()
	changed := false
	if a.feed.turn == h.turn {
		old, known := a.feed.queues[queue]
		changed = !known || (old == nil) != (err == nil) || err != nil && cloud.ClassOf(old) != cloud.ClassOf(err)
		if changed {
			a.feed.queues[queue] = err
		}
	}
	a.mu.Unlock()
	if changed {
		h.inventory.enqueue(a.key)
	}
}

// ChangedBy returns the last author of a change to an object of a region, other than this process,
// according to events; false if unknown. The facts are kept in memory only and are bounded; they
// are for messages to people.
func (i *Inventory) ChangedBy(key, regionName, id string) (cloud.Author, bool) {
	a := i.lookup(key)
	if a == nil {
		return cloud.Author{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	by, known := a.feed.authors[objectID{regionName, id}]
	return by, known
}
