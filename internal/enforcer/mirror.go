package enforcer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Follower follows computed objects, for any number of enforcer keys in the same manner.
type Follower struct {
	Source Source
	Clock  clock.Clock
	// Random returns a number of [0, 1), by which watches are begun later than they could be, so
	// that the enforcers that lose a server together do not come back together. Nil represents 0.
	Random func() float64
	// Interval is the least time between two watches of one kind; 0 means DefaultInterval.
	Interval time.Duration
	// Quiet is how long nothing may have come before what a server began with is believed. A server
	// that watches nothing until it has computed everything, as ours, needs none; an Antrea
	// Controller that has just started may begin with less than there is. A server that is never
	// quiet is believed after ten times as long.
	Quiet time.Duration
	// Pack keeps address groups packed, for enforcers that look at few at a time.
	Pack bool
	// Metrics may be nil.
	Metrics *Metrics
	Log     logr.Logger
	// Told, if set, is informed of every mirror when its Run begins, and when it has ended. It must
	// not block.
	Told func(m *Mirror, running bool)
}

// DefaultInterval is Follower.Interval when that is 0: that of an Antrea Agent.
const DefaultInterval = 5 * time.Second

// AntreaQuiet is how long an Antrea Controller must have sent nothing before what it began with is
// taken for everything: unlike ours, it serves while it computes for the first time.
const AntreaQuiet = 2 * time.Second

// Mirror returns a copy for one key, which is empty and incomplete before its Run. changed is
// called after every change and must not block; it may be nil.
func (f Follower) Mirror(key string, changed func()) *Mirror {
	if f.Random == nil {
		f.Random = func() float64 { return 0 }
	}
	if f.Interval == 0 {
		f.Interval = DefaultInterval
	}
	if changed == nil {
		changed = func() {}
	}
	m := &Mirror{how: f, key: key, changed: changed, streams: map[Resource]*StreamState{}, synced: make(chan struct{}), whole: make(chan struct{}, 1)}
	for _, r := range Resources() {
		m.streams[r] = &StreamState{Resource: r}
	}
	return m
}

// Mirror is the local copy of what was computed for one key. See the package comment.
type Mirror struct {
	how     Follower
	key     string
	changed func()

	// whole holds a token when the last of the watches has come in sync.
	whole chan struct{}

	mu sync.Mutex
	// version counts the changes, which last came at latest.
	version uint64
	latest  time.Time
	// believed says that all watches are in sync, and were quiet.
	believed bool
	// last is what Current returned last, lastVersion its version; nothing at first.
	last        *Computed
	lastVersion uint64
	// synced is closed, and renewed, when a watch has come in sync.
	synced   chan struct{}
	streams  map[Resource]*StreamState
	policies policies
	// arrived tells that every group that a policy names is there; sorted are the policies by name,
	// nil if they have changed since.
	arrived bool
	sorted  []*v1beta2.NetworkPolicy
	address groups[AddressGroup]
	applied groups[v1beta2.AppliedToGroup]
}

// StreamState is how the watch of one kind stands.
type StreamState struct {
	Resource Resource
	// Known says that the objects of the kind have been received, be it by an earlier watch.
	Known bool
	// InSync says that the watch that is running has delivered everything that there was when it
	// began.
	InSync bool
	// Begun counts the watches that were tried.
	Begun int
	// Err is what the last watch ended with; nil while one is in sync.
	Err error
}

// Computed is what an enforcer has to enforce at one moment: the objects sorted by name, the
// members of groups by identity.
type Computed struct {
	Policies        []*v1beta2.NetworkPolicy
	AddressGroups   []*AddressGroup
	AppliedToGroups []*v1beta2.AppliedToGroup
}

// Key returns the enforcer key.
func (m *Mirror) Key() string { return m.key }

// Current returns what is to be enforced, and its version: the mirrored objects, or while not all
// kinds are in sync, what it returned last, because kinds that were received at different times do
// not belong together. It fails while the objects are incomplete: before the first bookmark of
// every kind, and while a policy names groups that have not arrived yet (streams of different kinds
// are not ordered among themselves). Of the applied-to groups of a policy only those come that have
// members of this key, so one of them must do.
func (m *Mirror) Current() (Computed, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.believed && m.last != nil {
		return *m.last, m.lastVersion, nil
	}
	if err := m.incomplete(); err != nil {
		return Computed{}, 0, err
	}
	c := m.computed()
	m.last, m.lastVersion = &c, m.version
	return c, m.version, nil
}

// Known returns what is mirrored, complete or not.
func (m *Mirror) Known() Computed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.computed()
}

// computed needs mu.
func (m *Mirror) computed() Computed {
	if m.sorted == nil {
		m.sorted = make([]*v1beta2.NetworkPolicy, 0, len(m.policies))
		for _, name := range slices.Sorted(maps.Keys(m.policies)) {
			m.sorted = append(m.sorted, m.policies[name])
		}
	}
	return Computed{Policies: m.sorted, AddressGroups: m.address.all(), AppliedToGroups: m.applied.all()}
}

// Unchanged reports whether the objects are still the ones in a version that Current returned.
func (m *Mirror) Unchanged(version uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version == version || !m.believed && m.last != nil && m.lastVersion == version
}

// Streams returns how the watches stand, one for each of Resources.
func (m *Mirror) Streams() []StreamState {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]StreamState, 0, len(m.streams))
	for _, r := range Resources() {
		out = append(out, *m.streams[r])
	}
	return out
}

// incomplete says what is missing. It needs mu.
func (m *Mirror) incomplete() error {
	for _, r := range Resources() {
		switch s := m.streams[r]; {
		case s.Known:
		case s.Err != nil:
			return fmt.Errorf("waiting for the computed %s of %s: %w", r, m.key, s.Err)
		default:
			return fmt.Errorf("waiting for the computed %s of %s", r, m.key)
		}
	}
	if !m.believed {
		return fmt.Errorf("waiting until no more comes of what was computed for %s", m.key)
	}
	if m.arrived {
		return nil
	}
	for _, p := range m.policies {
		if err := m.missing(p); err != nil {
			return err
		}
	}
	m.arrived = true
	return nil
}

// missing says which group of a policy is not there. It needs mu.
func (m *Mirror) missing(p *v1beta2.NetworkPolicy) error {
	arrived := func(g string) bool { return m.applied.byName[g] != nil }
	applied := slices.ContainsFunc(p.AppliedToGroups, arrived)
	for i := range p.Rules {
		r := &p.Rules[i]
		applied = applied || slices.ContainsFunc(r.AppliedToGroups, arrived)
		for _, groups := range [...][]string{r.From.AddressGroups, r.To.AddressGroups} {
			for _, g := range groups {
				if m.address.byName[g] == nil {
					return fmt.Errorf("policy %s names address group %s, which has not arrived", sourceName(p), g)
				}
			}
		}
	}
	if !applied {
		return fmt.Errorf("no applied-to group of policy %s has arrived", sourceName(p))
	}
	return nil
}

// replace puts what a watch began with in the place of everything that was known of the resource.
func (m *Mirror) replace(r Resource, next table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arrived, m.sorted = false, nil
	switch t := next.(type) {
	case policies:
		m.policies = t
	case groups[AddressGroup]:
		m.address = t
	case groups[v1beta2.AppliedToGroup]:
		m.applied = t
	}
	s := m.streams[r]
	s.Known, s.InSync, s.Err = true, true, nil
	m.version++
	m.latest = m.how.Clock.Now()
	close(m.synced)
	m.synced = make(chan struct{})
	for _, s := range m.streams {
		if !s.InSync {
			return
		}
	}
	if m.how.Quiet == 0 {
		m.believed = true
		return
	}
	select {
	case m.whole <- struct{}{}:
	default:
	}
}

// change applies a live event of a resource that is known.
func (m *Mirror) change(r Resource, ev watch.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	m.latest = m.how.Clock.Now()
	// A patch of a group is of one that is there, and a policy that is changed names what it names.
	m.arrived = m.arrived && (ev.Type == watch.Modified || r == NetworkPolicies)
	if p, ok := ev.Object.(*v1beta2.NetworkPolicy); ok {
		m.arrived = m.arrived && (ev.Type == watch.Deleted || m.missing(p) == nil)
	}
	switch r {
	case AddressGroups:
		return change(m.address, ev)
	case AppliedToGroups:
		return change(m.applied, ev)
	case NetworkPolicies:
		return m.changePolicies(ev)
	}
	return errors.New("no such resource")
}

// changePolicies applies a live event of a policy. It needs mu.
func (m *Mirror) changePolicies(ev watch.Event) error {
	sorted := m.sorted
	m.sorted = nil
	p, ok := ev.Object.(*v1beta2.NetworkPolicy)
	if !ok {
		return unexpected(ev.Object, "a NetworkPolicy")
	}
	former := m.policies[p.Name]
	if err := change(m.policies, ev); err != nil {
		return err
	}
	if at := slices.Index(sorted, former); former != nil && at >= 0 && ev.Type != watch.Deleted {
		m.sorted = slices.Clone(sorted) // the former one is somebody else's
		m.sorted[at] = m.policies[p.Name]
	}
	return nil
}

// sourceName is the printable name of the policy that a computed policy comes from.
func sourceName(p *v1beta2.NetworkPolicy) string {
	switch {
	case p.SourceRef == nil:
		return p.Name
	case p.SourceRef.Namespace == "":
		return p.SourceRef.Name
	}
	return p.SourceRef.Namespace + "/" + p.SourceRef.Name
}
