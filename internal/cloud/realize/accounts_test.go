package realize

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// labAccounts is the inventory of one account: it observes when it is asked to.
type labAccounts struct {
	// reading is true while it calls the cloud for itself.
	reading  atomic.Bool
	triggers atomic.Int32

	looking sync.Mutex // held while something is read and kept, so that no reading takes the place of a later one
	mu      sync.Mutex
	account Account
	gone    bool
	subs    map[int]func(string)
	next    int
}

func (a *labAccounts) Keys() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return nil
	}
	return []string{a.account.Key}
}

func (a *labAccounts) Account(key string) (Account, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.account
	out.Snapshots, out.Entities = maps.Clone(out.Snapshots), maps.Clone(out.Entities)
	return out, key == out.Key && !a.gone
}

// failsafe are the failsafe flows of the account.
func (a *labAccounts) failsafe() []plan.FailsafeFlow {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.account.Failsafe
}

func (a *labAccounts) Subscribe(changed func(string)) (cancel func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	id := a.next
	a.subs[id] = changed
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.subs, id)
	}
}

// Observed keeps what is younger than what is known, as the inventory does.
func (a *labAccounts) Observed(_ string, provider cloud.Provider, snapshots []*cloud.Snapshot) bool {
	a.looking.Lock()
	defer a.looking.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range snapshots {
		known := a.account.Snapshots[s.Region]
		if provider != a.account.Provider || a.account.Unread[s.Region] != nil || known == nil || s.ObservedAt.Before(known.ObservedAt) {
			return false
		}
	}
	a.account.Snapshots, a.account.Pending = maps.Clone(a.account.Snapshots), maps.Clone(a.account.Pending)
	for _, s := range snapshots {
		a.account.Snapshots[s.Region] = s
		delete(a.account.Pending, s.Region)
	}
	return true
}

// Trigger observes at once; that makes the order of calls the same in every run.
func (a *labAccounts) Trigger(string) {
	a.triggers.Add(1)
	a.observe(context.Background())
}

// Touched reads these objects at once. If that is not possible, all is read the next time.
func (a *labAccounts) Touched(key string, ids map[string][]string) {
	a.mu.Lock()
	refresher, able := a.account.Provider.(cloud.Refresher)
	a.mu.Unlock()
	if !able {
		a.Trigger(key)
		return
	}
	a.looking.Lock()
	defer a.looking.Unlock()
	a.mu.Lock()
	snaps := maps.Clone(a.account.Snapshots)
	a.mu.Unlock()
	a.triggers.Add(1)
	a.reading.Store(true)
	missed := map[string]bool{}
	for _, region := range slices.Sorted(maps.Keys(ids)) {
		if s, err := refresher.Refresh(context.Background(), snaps[region], ids[region]); err == nil {
			snaps[region] = s
		} else {
			missed[region] = true
		}
	}
	a.reading.Store(false)
	a.change(func(acct *Account) {
		for region := range ids {
			acct.Snapshots[region] = snaps[region]
		}
		acct.Pending = missed
	})
}

// observe reads all regions; one that cannot be read keeps its snapshot, as the inventory does it.
func (a *labAccounts) observe(ctx context.Context) {
	a.looking.Lock()
	defer a.looking.Unlock()
	a.reading.Store(true)
	a.mu.Lock()
	provider, regions := a.account.Provider, a.account.Regions
	a.mu.Unlock()
	snaps, unread := map[string]*cloud.Snapshot{}, map[string]error{}
	for _, r := range regions {
		if s, err := provider.Observe(ctx, cloud.Scope{Account: a.account.Key, Region: r}); err == nil {
			snaps[r] = s
		} else {
			unread[r] = err
		}
	}
	a.reading.Store(false)
	a.change(func(acct *Account) {
		maps.Copy(acct.Snapshots, snaps)
		acct.Pending, acct.Unread = map[string]bool{}, unread
		for _, r := range regions {
			acct.Pending[r] = snaps[r] == nil
		}
	})
}

// change edits the account and tells.
func (a *labAccounts) change(edit func(*Account)) {
	a.mu.Lock()
	next := a.account
	next.Snapshots, next.Entities = maps.Clone(next.Snapshots), maps.Clone(next.Entities)
	edit(&next)
	a.account = next
	subs := slices.Collect(maps.Values(a.subs))
	a.mu.Unlock()
	for _, f := range subs {
		f(a.account.Key)
	}
}

func (a *labAccounts) remove() {
	a.mu.Lock()
	a.gone = true
	subs := slices.Collect(maps.Values(a.subs))
	a.mu.Unlock()
	for _, f := range subs {
		f(a.account.Key)
	}
}
