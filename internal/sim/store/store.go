package store

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// Options are the injected parts and the knobs of a Store.
type Options struct {
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// Seed drives the ids that the Store makes up. A State that was saved keeps its own seed.
	Seed uint64
	// VisibilityDelay is how long a created object stays NotFound in describes and in mutations
	// that name it.
	VisibilityDelay time.Duration
	// TransitionDelay is how long pending, stopping, shutting-down and *-in-progress states last.
	// With 0 the answer of the call still shows them, and the next call sees the final state.
	TransitionDelay time.Duration
	// OperationDelay and GraphLag go into azure.Settings.
	OperationDelay time.Duration
	GraphLag       time.Duration
	// Effects say how long an edit takes until the interfaces have it in force; see package effect.
	// The zero value leaves it to the State.
	Effects effect.Delay
}

// Store keeps what the simulated clouds hold. See the package comment for its promises and its
// concurrency contract.
type Store struct {
	clock func() time.Time

	commit sync.Mutex   // held over a whole mutation with its hooks; taken before state
	state  sync.RWMutex // guards everything below

	seed, counter, seq uint64
	visibility         time.Duration
	transition         time.Duration
	accounts           map[string]*aws.Account
	credentials        map[string]*aws.Credential // by access key id
	roles              map[string]*aws.Role       // by ARN
	regions            map[scope]*holdings
	peerings           map[string]*aws.PeeringConnection
	due                []aws.Transition             // by time
	shared             bool                         // whether any subnet is shared
	packets            atomic.Pointer[packet.Judge] // of the present resources; nil if they changed
	azure              *azure.Cloud
	effects            *effect.Log // of both clouds

	hooks    []hook     // guarded by state
	turns    []turnHook // guarded by state
	nextHook int
}

type hook struct {
	id int
	f  func(aws.Mutation)
}

// scope names the holdings of one account in one region.
type scope struct{ account, region string }

// holdings are what one account has in one region.
type holdings struct {
	aws.Resources
	zones        []aws.Zone
	listTokens   map[string]string // ClientToken of CreateManagedPrefixList -> id
	runTokens    map[string]aws.RunToken
	clientTokens map[string]string    // see FabricState.ClientTokens
	sharedTags   map[string]*aws.Tags // the account's own tags on what others share with it
}

func newHoldings(zones []aws.Zone) *holdings {
	return &holdings{
		Resources: aws.NewResources(), zones: zones,
		listTokens: map[string]string{}, runTokens: map[string]aws.RunToken{}, clientTokens: map[string]string{}, sharedTags: map[string]*aws.Tags{},
	}
}

// Accounts returns all accounts by id, with their effective quotas.
func (w *Store) Accounts() []aws.Account {
	w.state.RLock()
	defer w.state.RUnlock()
	out := make([]aws.Account, 0, len(w.accounts))
	for _, id := range slices.Sorted(maps.Keys(w.accounts)) {
		a := *w.accounts[id]
		a.Regions = slices.Clone(a.Regions)
		a.Quotas = a.Quotas.WithDefaults()
		out = append(out, a)
	}
	return out
}

// Regions lists the regions enabled for an account, by name; nil for an unknown account.
func (w *Store) Regions(account string) []aws.RegionInfo {
	w.state.RLock()
	defer w.state.RUnlock()
	a, ok := w.accounts[account]
	if !ok {
		return nil
	}
	var out []aws.RegionInfo
	for _, name := range slices.Sorted(slices.Values(a.Regions)) {
		out = append(out, aws.RegionInfo{Name: name, Endpoint: "ec2." + name + ".amazonaws.com", OptInStatus: "opt-in-not-required"})
	}
	return out
}

// SetVisibilityDelay changes Options.VisibilityDelay for objects created from now on.
func (w *Store) SetVisibilityDelay(d time.Duration) {
	w.state.Lock()
	defer w.state.Unlock()
	w.visibility = d
}

// OnMutation adds a hook that runs after every committed mutation, in the order of commits, before
// the call returns to its caller. See the package comment for what a hook may do. The returned
// function removes the hook.
func (w *Store) OnMutation(f func(aws.Mutation)) (remove func()) {
	w.state.Lock()
	defer w.state.Unlock()
	w.nextHook++
	id := w.nextHook
	w.hooks = append(slices.Clone(w.hooks), hook{id, f})
	return func() {
		w.state.Lock()
		defer w.state.Unlock()
		w.hooks = slices.DeleteFunc(slices.Clone(w.hooks), func(h hook) bool { return h.id == id })
	}
}

// ErrNothingChanged ends a mutation that is a success without a change (an idempotent repetition):
// no hook runs.
var ErrNothingChanged = errors.New("nothing changed")

// mutate runs f under the write lock and, if f succeeds, the hooks. f must check everything before
// it changes anything.
func (w *Store) mutate(at scope, action string, f func(now time.Time) (touched []string, err error)) error {
	return w.mutateFor(nil, at, action, f)
}

func (w *Store) mutateFor(c *aws.Cause, at scope, action string, f func(now time.Time) (touched []string, err error)) error {
	w.commit.Lock()
	defer w.commit.Unlock()
	m, hooks, err := w.change(at, action, f)
	m.Cause = c
	if errors.Is(err, ErrNothingChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, h := range hooks {
		h.f(m)
	}
	return nil
}

func (w *Store) change(at scope, action string, f func(time.Time) ([]string, error)) (aws.Mutation, []hook, error) {
	w.state.Lock()
	defer w.state.Unlock()
	now := w.clock()
	w.settle(now)
	before := w.wholes(at)
	touched, err := f(now)
	if err != nil {
		return aws.Mutation{}, nil, err
	}
	after := w.wholes(at)
	for whole, parts := range before {
		w.effects.Record(whole, parts, after[whole])
	}
	w.seq++
	w.packets.Store(nil)
	m := aws.Mutation{Seq: w.seq, Time: now, Account: at.account, Region: at.region, Action: action, Resources: touched}
	return m, w.hooks, nil
}

// read runs f under the read lock, after transitions that are due have been made.
func (w *Store) read(f func(now time.Time)) {
	now := w.clock()
	w.state.RLock()
	if len(w.due) > 0 && !w.due[0].At.After(now) || w.azure.Due(now) {
		w.state.RUnlock()
		w.state.Lock()
		w.settle(now)
		w.state.Unlock()
		w.state.RLock()
	}
	defer w.state.RUnlock()
	f(now)
}
