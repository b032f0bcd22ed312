package inventory

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// account is what is remembered of one account. Reconcile is the only writer and never runs twice
// at a time for one account; the mutex guards the fields against readers of the exported methods.
type account struct {
	key types.NamespacedName

	mu       sync.Mutex
	provider cloud.Provider
	regions  map[string]*region
	refs     map[types.NamespacedName]selection.VMRef
	services map[types.NamespacedName]selection.ServiceRef
	deleting bool
	settings accountspec.Settings
	// triggered asks for an observation at once.
	triggered bool
	// told is what was last said in events about the account and its selectors. Only Reconcile uses
	// it.
	told map[subject]string
	// inputs is what the provider and the selection were last made of; see fingerprint.
	inputs fingerprint
	// secret is what was last found where the account says that its credentials are. Only Reconcile
	// uses it.
	secret credentials
	// whole is the provider as it was opened; provider is it, showing what the selectors need.
	whole  cloud.Provider
	narrow []cloud.NetworkMatch
	// shown are the kinds of services that provider shows.
	shown []cloud.ServiceKind
	feed  feed
	// basis is what the objects were last brought in line with; nil if that is not known. Only
	// Reconcile uses it.
	basis *basis
	// touched says that somebody, perhaps ourselves, has edited an object of the account since they
	// were last listed.
	touched bool
	// edits holds a word while somebody has edited the account, a selector or an object of it, and
	// no pass has looked since.
	edits chan struct{}
	// handed says that a snapshot came by Observed since the last pass.
	handed bool
	// interval is the poll interval.
	interval time.Duration
	// underway is Options.Underway as of the last pass.
	underway bool
}

// credentials is a key of a Secret and what was there.
type credentials struct {
	ref   v1alpha1.SecretReference
	value []byte
}

// region is what is known of one region of an account.
type region struct {
	snapshot *cloud.Snapshot
	// shown says that entities were made of a snapshot. Before that, Latest does not return one:
	// without the entities it looks as if nothing were selected.
	shown bool
	// err is why the latest observation failed; nil if it succeeded or there was none yet.
	err error
	// failures counts the failed observations since the last good one.
	failures int
	// next is when to observe again, decided when that was decided. A clock that shows less than
	// that has been set back, and then next means nothing.
	next, decided time.Time
	// rest is until when a poll that is due may wait while events are proven to come; zero if what
	// is due is no poll, or if the region shows something that no event reports.
	rest time.Time
	// known is as of when everything about the region is known, read or heard of; zero before the
	// first reading.
	known time.Time
	// proven is when the latest call of ours was answered that has come back as an event.
	proven time.Time
	// left is when the account ceased to have the region; zero while it has it. A region that has
	// left is observed until nothing of ours is in it.
	left time.Time
	// hints are the ids that events have named since the last reading began; all asks for
	// everything instead.
	hints map[string]bool
	all   bool
	// patience is until when hints wait, so that a burst of events is one reading; calm the same
	// for hints that ask for everything. misses counts the readings of hints that failed.
	patience, calm time.Time
	misses         int
	// asked counts the readings that Touched and Trigger have asked for and that Observed has
	// brought, and covered how many of them the snapshot is younger than.
	asked, covered uint64
	// renewed is when the last reading of named objects began.
	renewed time.Time
}

// hinted reports whether there is something to read because of events. A region that fails is read
// whole at its own pace.
func (r *region) hinted() bool {
	return (len(r.hints) > 0 || r.all) && r.snapshot != nil && r.failures == 0 && r.left.IsZero()
}

// Keys returns the accounts, "namespace/name", sorted. An account that is being deleted is among
// them until it is released.
func (i *Inventory) Keys() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.accounts))
}

// lookup returns the account, or nil.
func (i *Inventory) lookup(key string) *account {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.accounts[key]
}

// Regions returns the regions of the account, sorted; none if the account is unknown. A region that
// was removed from the account is among them, without entities, until nothing of ours is in it.
func (i *Inventory) Regions(key string) []string {
	a := i.lookup(key)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.regions))
}

// Latest returns the last whole snapshot of a region and the error of the latest observation. Both
// may be set: then the snapshot is the one from before the failure. Both may be nil: then the
// region was not observed yet, or it is not known yet which entities it has, or it does not belong
// to the account. A later call of Entities or Services returns the objects of the snapshot, or
// newer ones.
func (i *Inventory) Latest(key, regionName string) (*cloud.Snapshot, error) {
	a := i.lookup(key)
	if a == nil {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.regions[regionName]
	switch {
	case r == nil:
		return nil, nil
	case !r.shown:
		return nil, r.err
	}
	return r.snapshot, r.err
}

// Entities returns the VM of every ExternalEntity of the account, including entities of VMs in
// regions that cannot be read. The map must not be changed.
func (i *Inventory) Entities(key string) map[types.NamespacedName]selection.VMRef {
	a := i.lookup(key)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refs
}

// Provider returns the provider of the account; false while its Secret is missing or unusable.
func (i *Inventory) Provider(key string) (cloud.Provider, bool) {
	a := i.lookup(key)
	if a == nil {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.provider, a.provider != nil
}

// Deleting reports whether the account is being deleted: everything that we hold in it is to be
// given back.
func (i *Inventory) Deleting(key string) bool {
	a := i.lookup(key)
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.deleting
}

// Trigger asks for an observation of the account as soon as possible. Regions that are failing keep
// their pace. Calls that come while an observation runs lead to one more observation.
func (i *Inventory) Trigger(key string) {
	a := i.lookup(key)
	if a == nil {
		return
	}
	a.mu.Lock()
	a.triggered = true
	for _, r := range a.regions {
		r.asked++
	}
	a.mu.Unlock()
	i.enqueue(a.key)
}

// Touched tells that the caller has changed these objects of the account, by region, and nothing
// else. They are read again soon, and nothing else is. Until that is done Pending names the
// regions.
func (i *Inventory) Touched(key string, ids map[string][]string) {
	a := i.lookup(key)
	if a == nil {
		return
	}
	recovered.Holding(&a.mu, func() {
		for name, touched := range ids {
			if r := a.regions[name]; r != nil && len(touched) > 0 {
				r.asked++
				a.hint(cloud.Change{Region: name, IDs: touched})
				a.triggered = a.triggered || !r.left.IsZero()
			}
		}
	})
	i.enqueue(a.key)
}

// Observed takes what the caller has read with the account's provider: whole regions, or parts
// brought up to date in an earlier reading of the caller. It takes the place of a reading of ours,
// and the next poll is due an interval after it. It is refused, with false, if anything that is
// known may be newer, or if a region has failed; the caller then has to report its own changes.
func (i *Inventory) Observed(key string, provider cloud.Provider, snapshots []*cloud.Snapshot) bool {
	a := i.lookup(key)
	if a == nil {
		return false
	}
	if !a.take(provider, snapshots, i.opts.Now()) {
		return false
	}
	i.enqueue(a.key)
	return true
}

func (a *account) take(provider cloud.Provider, snapshots []*cloud.Snapshot, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.provider == nil || a.provider != provider {
		return false
	}
	for _, s := range snapshots {
		r := a.regions[s.Region]
		if r == nil || r.snapshot == nil || r.err != nil || !r.left.IsZero() || s.ObservedAt.Before(r.snapshot.ObservedAt) || !s.ObservedAt.After(r.renewed) {
			return false
		}
	}
	for _, s := range snapshots {
		r := a.regions[s.Region]
		r.replace(s)
		r.asked++
		r.covered = r.asked
		a.schedule(r, s.ObservedAt)
		r.decided = now
	}
	a.handed = true
	return true
}

// replace puts a snapshot in the place of the last one, and reports whether it shows something
// else. One that shows the same keeps the parts of the last, so that a loop that has worked with
// them sees that there is nothing to do.
func (r *region) replace(next *cloud.Snapshot) (news bool) {
	if r.snapshot != nil && sameContent(r.snapshot, next) {
		kept := *r.snapshot
		kept.ObservedAt = next.ObservedAt
		r.snapshot = &kept
		return false
	}
	r.snapshot = next
	return true
}

// Pending names the regions whose snapshot is older than the last Touched or Trigger about them.
func (i *Inventory) Pending(key string) map[string]bool {
	a := i.lookup(key)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var out map[string]bool
	for name, r := range a.regions {
		if r.covered < r.asked {
			if out == nil {
				out = map[string]bool{}
			}
			out[name] = true
		}
	}
	return out
}

// Subscribe calls changed with the account whenever a snapshot, the entities, the provider or the
// deletion of an account changed, in the goroutine that made the change: changed must not block. It
// is not called any more once the returned function has returned.
func (i *Inventory) Subscribe(changed func(account string)) (cancel func()) {
	i.subMu.Lock()
	defer i.subMu.Unlock()
	i.nextSub++
	id := i.nextSub
	i.subs[id] = changed
	return func() {
		i.subMu.Lock()
		defer i.subMu.Unlock()
		delete(i.subs, id)
	}
}

func (i *Inventory) notify(key types.NamespacedName) {
	i.subMu.RLock()
	defer i.subMu.RUnlock()
	for _, changed := range i.subs {
		changed(cloud.AccountKey(key.Namespace, key.Name))
	}
}

// snapshots returns the last whole snapshots by region name, without the regions that have left.
func (a *account) snapshots() []*cloud.Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*cloud.Snapshot
	for _, r := range a.regions {
		if r.snapshot != nil && r.left.IsZero() {
			out = append(out, r.snapshot)
		}
	}
	slices.SortFunc(out, func(x, y *cloud.Snapshot) int { return cmp.Compare(x.Region, y.Region) })
	return out
}

// setRegions makes the account have the named regions. Regions that it had stay for now if they are
// to be released first.
func (a *account) setRegions(names []string, had []v1alpha1.RegionStatus, release bool, now time.Time) {
	for _, name := range names {
		if r := a.regions[name]; r == nil {
			a.regions[name] = &region{}
		} else {
			r.left = time.Time{}
		}
	}
	for _, st := range had {
		if a.regions[st.Name] == nil {
			a.regions[st.Name] = &region{}
		}
	}
	for name, r := range a.regions {
		switch {
		case slices.Contains(names, name):
		case !release:
			delete(a.regions, name)
		case r.left.IsZero():
			r.left, r.next, r.rest = now, now, time.Time{}
		}
	}
}

// dropReleased forgets the regions that have left and, some time after, showed nothing of ours; or
// that do not even exist.
func (a *account) dropReleased(grace time.Duration) (dropped bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, r := range a.regions {
		if r.left.IsZero() {
			continue
		}
		clean := r.err == nil && r.snapshot != nil && r.snapshot.ObservedAt.Sub(r.left) >= grace &&
			!slices.ContainsFunc(r.snapshot.Groups, func(g cloud.Group) bool {
				return g.Tags[cloud.TagAccount] == cloud.AccountKey(a.key.Namespace, a.key.Name)
			})
		if clean || errors.Is(r.err, cloud.ErrRegionUnknown) {
			delete(a.regions, name)
			dropped = true
		}
	}
	return dropped
}

// ripe is when hints are read.
func (r *region) ripe() time.Time {
	if r.all {
		return r.calm
	}
	return r.patience
}

// job is one reading of one region: of everything, or of the objects with these ids as they have
// changed since the snapshot.
type job struct {
	region string
	ids    []string
	since  *cloud.Snapshot
	// asked is how many of the readings that were asked for this one is younger than.
	asked uint64
}

// due returns what to read now: all regions if all is set, regions whose time has come, if
// triggered the healthy ones, and in other regions what events have named. A job clears the hints
// that it covers, so an object in an event that arrives while it runs is read again.
func (a *account) due(now time.Time, all bool) []job {
	a.mu.Lock()
	defer a.mu.Unlock()
	var jobs []job
	for name, r := range a.regions {
		j := job{region: name, asked: r.asked}
		switch {
		case all || !now.Before(a.dueAt(r)) || now.Before(r.decided) || (a.triggered && r.failures == 0):
		case r.hinted() && !now.Before(r.ripe()):
			if !r.all {
				j.ids, j.since = slices.Sorted(maps.Keys(r.hints)), r.snapshot
			}
		default:
			continue
		}
		r.hints, r.all = nil, false
		jobs = append(jobs, j)
	}
	a.triggered = false
	slices.SortFunc(jobs, func(x, y job) int { return cmp.Compare(x.region, y.region) })
	return jobs
}

// onlyHints reports whether jobs read named objects only, or nothing because a snapshot was handed
// over, and no object of the account was touched. It forgets that one was touched, because the
// caller looks at all of them if the answer is no.
func (a *account) onlyHints(jobs []job) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	only := !a.touched && (len(jobs) > 0 || a.handed) && !slices.ContainsFunc(jobs, func(j job) bool { return len(j.ids) == 0 })
	a.touched, a.handed = false, false
	return only
}

// touch notes that an object of the account was edited.
func (i *Inventory) touch(key types.NamespacedName) {
	if a := i.lookup(cloud.AccountKey(key.Namespace, key.Name)); a != nil {
		a.mu.Lock()
		a.touched = true
		a.mu.Unlock()
		a.edited()
	}
}

// interrupt is touch for an account or a selector, which are read by every pass.
func (i *Inventory) interrupt(key types.NamespacedName) {
	if a := i.lookup(cloud.AccountKey(key.Namespace, key.Name)); a != nil {
		a.edited()
	}
}

// edited lets a pass that waits for the cloud look at what somebody has edited.
func (a *account) edited() {
	select {
	case a.edits <- struct{}{}:
	default: // it will look
	}
}

// wait returns how long from now until there is something to read.
func (a *account) wait(now time.Time, longest time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := longest
	for _, r := range a.regions {
		d = min(d, a.dueAt(r).Sub(now))
		if r.hinted() {
			d = min(d, r.ripe().Sub(now))
		}
	}
	return max(d, time.Millisecond)
}

// Settings returns what the account says about enforcement.
func (i *Inventory) Settings(key string) accountspec.Settings {
	a := i.lookup(key)
	if a == nil {
		return accountspec.Settings{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settings
}

// settle keeps the account's settings and reports whether they are others than before. The caller
// holds the account's lock.
func (p *pass) settle(a *account) (changed bool) {
	s := accountspec.SettingsOf(p.cpa, p.loop.opts.Propagation)
	changed = !equality.Semantic.DeepEqual(a.settings, s)
	a.settings = s
	return changed
}
