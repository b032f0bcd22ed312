package aws

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// Options are the injected parts and the knobs of a World.
type Options struct {
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// Seed drives the ids that the World makes up. A State that was saved keeps its own seed.
	Seed uint64
	// VisibilityDelay is how long a created object stays NotFound in describes and in mutations
	// that name it.
	VisibilityDelay time.Duration
	// TransitionDelay is how long pending, stopping, shutting-down and *-in-progress states last.
	// With 0 the answer of the call still shows them, and the next call sees the final state.
	TransitionDelay time.Duration
	// OperationDelay and GraphLag are those of azure.Settings.
	OperationDelay time.Duration
	GraphLag       time.Duration
	// Effects say how long an edit takes until the interfaces have it in force; see package effect.
	// The zero value leaves it to the State.
	Effects effect.Delay
}

// World is the state of the simulated cloud. See the package comment for its promises and its
// concurrency contract.
type World struct {
	clock func() time.Time

	commit sync.Mutex   // held over a whole mutation with its hooks; taken before state
	state  sync.RWMutex // guards everything below

	seed, counter, seq uint64
	visibility         time.Duration
	transition         time.Duration
	accounts           map[string]*Account
	credentials        map[string]*Credential // by access key id
	roles              map[string]*Role       // by ARN
	regions            map[scope]*regionData
	peerings           map[string]*PeeringConnection
	due                []Transition // by time
	shared             bool         // whether any subnet is shared
	index              atomic.Pointer[addressIndex]
	azure              *azure.Cloud
	effects            *effect.Log // of both clouds

	hooks    []hook     // guarded by state
	turns    []turnHook // guarded by state
	nextHook int
}

type hook struct {
	id int
	f  func(Mutation)
}

// scope names the region data of one account.
type scope struct{ account, region string }

// regionData is what one account has in one region, by id.
type regionData struct {
	zones       []Zone
	vpcs        map[string]*VPC
	subnets     map[string]*Subnet
	groups      map[string]*SecurityGroup
	nics        map[string]*NetworkInterface
	instances   map[string]*Instance
	prefixLists map[string]*PrefixList
	listTokens  map[string]string // ClientToken of CreateManagedPrefixList -> id
	runTokens   map[string]runToken
	sharedTags  map[string]*Tags // the account's own tags on what others share with it
	fabric
	serviceData
}

// runToken remembers a RunInstances call for its ClientToken.
type runToken struct {
	Request     string   `json:"request"` // digest of the parameters
	Reservation string   `json:"reservation"`
	Instances   []string `json:"instances"`
}

func newRegionData(zones []Zone) *regionData {
	return &regionData{
		zones: zones,
		vpcs:  map[string]*VPC{}, subnets: map[string]*Subnet{}, groups: map[string]*SecurityGroup{},
		nics: map[string]*NetworkInterface{}, instances: map[string]*Instance{}, prefixLists: map[string]*PrefixList{},
		listTokens: map[string]string{}, runTokens: map[string]runToken{}, sharedTags: map[string]*Tags{},
		fabric: newFabric(), serviceData: newServices(),
	}
}

// Region is a handle to the objects of one account in one region. Handles are cheap and stay good
// as long as their World.
//
// The calls are its own methods where they are about instances, interfaces, security groups,
// networks and tags; the others are the calls of its parts.
type Region struct{ *site }

// site is what all parts of a region work on.
type site struct {
	w     *World
	at    scope
	data  *regionData
	cause *Cause
}

// Region returns the handle for a region of an account. An unknown account gives AuthFailure, a
// region that is not enabled for it OptInRequired.
func (w *World) Region(account, region string) (*Region, error) {
	w.state.RLock()
	defer w.state.RUnlock()
	a, ok := w.accounts[account]
	if !ok {
		return nil, &Error{"AuthFailure", "AWS was not able to validate the provided access credentials", 401}
	}
	at := scope{account, region}
	data, ok := w.regions[at]
	if !ok || !slices.Contains(a.Regions, region) {
		return nil, &Error{"OptInRequired", "You are not subscribed to this service. Region '" + region + "' is not enabled for account " + account + ".", 401}
	}
	return &Region{&site{w: w, at: at, data: data}}, nil
}

// Account is the id of the owning account.
func (r *Region) Account() string { return r.at.account }

// Name is the name of the region.
func (r *Region) Name() string { return r.at.region }

// Accounts returns all accounts by id, with their effective quotas.
func (w *World) Accounts() []Account {
	w.state.RLock()
	defer w.state.RUnlock()
	out := make([]Account, 0, len(w.accounts))
	for _, id := range slices.Sorted(maps.Keys(w.accounts)) {
		a := *w.accounts[id]
		a.Regions = slices.Clone(a.Regions)
		a.Quotas = a.Quotas.withDefaults()
		out = append(out, a)
	}
	return out
}

// Regions lists the regions enabled for an account, by name; nil for an unknown account.
func (w *World) Regions(account string) []RegionInfo {
	w.state.RLock()
	defer w.state.RUnlock()
	a, ok := w.accounts[account]
	if !ok {
		return nil
	}
	var out []RegionInfo
	for _, name := range slices.Sorted(slices.Values(a.Regions)) {
		out = append(out, RegionInfo{name, "ec2." + name + ".amazonaws.com", "opt-in-not-required"})
	}
	return out
}

// SetVisibilityDelay changes Options.VisibilityDelay for objects created from now on.
func (w *World) SetVisibilityDelay(d time.Duration) {
	w.state.Lock()
	defer w.state.Unlock()
	w.visibility = d
}

// OnMutation adds a hook that runs after every committed mutation, in the order of commits, before
// the call returns to its caller. See the package comment for what a hook may do. The returned
// function removes the hook.
func (w *World) OnMutation(f func(Mutation)) (remove func()) {
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

// errNothingChanged ends a mutation that is a success without a change (an idempotent repetition):
// no hook runs.
var errNothingChanged = errors.New("nothing changed")

// mutate runs f under the write lock and, if f succeeds, the hooks. f must check everything before
// it changes anything.
func (w *World) mutate(at scope, action string, f func(now time.Time) (touched []string, err error)) error {
	return w.mutateFor(nil, at, action, f)
}

func (w *World) mutateFor(c *Cause, at scope, action string, f func(now time.Time) (touched []string, err error)) error {
	w.commit.Lock()
	defer w.commit.Unlock()
	m, hooks, err := w.change(at, action, f)
	m.Cause = c
	if errors.Is(err, errNothingChanged) {
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

func (w *World) change(at scope, action string, f func(time.Time) ([]string, error)) (Mutation, []hook, error) {
	w.state.Lock()
	defer w.state.Unlock()
	now := w.clock()
	w.settle(now)
	before := w.wholes(at)
	touched, err := f(now)
	if err != nil {
		return Mutation{}, nil, err
	}
	after := w.wholes(at)
	for whole, parts := range before {
		w.effects.Record(whole, parts, after[whole])
	}
	w.seq++
	w.index.Store(nil)
	m := Mutation{Seq: w.seq, Time: now, Account: at.account, Region: at.region, Action: action, Resources: touched}
	return m, w.hooks, nil
}

// read runs f under the read lock, after transitions that are due have been made.
func (w *World) read(f func(now time.Time)) {
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

func seen(visible, now time.Time) bool { return !visible.After(now) }

// byID returns the visible objects of a map in the order of their ids, or only those with the given
// ids; an id that is malformed or unknown is an error, as in every Describe call.
func byID[T any](prefix string, all map[string]*T, ids []string, visible func(*T) bool, clone func(*T) T) ([]T, error) {
	keys := slices.Clone(ids)
	if len(ids) == 0 {
		keys = slices.Collect(maps.Keys(all))
	}
	slices.SortFunc(keys, cmp.Compare[string])
	keys = slices.Compact(keys)
	out := make([]T, 0, len(keys))
	for _, id := range keys {
		if err := CheckID(prefix, id); err != nil {
			return nil, err
		}
		o, ok := all[id]
		if !ok || !visible(o) {
			if len(ids) > 0 {
				return nil, NotFound(id)
			}
			continue
		}
		out = append(out, clone(o))
	}
	return out, nil
}
