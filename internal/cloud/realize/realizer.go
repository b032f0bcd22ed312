package realize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// Options is what a Realizer needs. All fields but Metrics and the durations are required.
type Options struct {
	// ClusterID marks everything we own in the cloud. It must never change for a cluster.
	ClusterID string
	// Follower keeps copies of the computed objects of the accounts' enforcer keys.
	Follower enforcer.Follower
	Accounts Accounts
	Lowerer  plan.Lowerer
	// Sink takes the outcome of every round.
	Sink  Sink
	Clock clock.Clock
	Log   logr.Logger
	// Agents, if set, knows the agents in VMs; without it no VM is handed to one.
	Agents Agents
	// Records, if set, has records of former groups signed, and believes no others; see its
	// comment.
	Records Records
	// Tracer links what is done to the change that caused it; nil makes no spans.
	Tracer *tracing.Tracer
	// Metrics, if set, counts what is done.
	Metrics *Metrics
	// Settle is how long a worker waits after a change for more changes, so that they become
	// one plan.
	Settle time.Duration
	// ClaimPause is how long a claim of a network must have stood before it is read again and
	// trusted. Of two controllers that claim a network at the same time, both read the later
	// claim after that, and the other one has done nothing yet.
	ClaimPause time.Duration
	// Heartbeat is after how long without any news an account is looked at all the same, on
	// what is known of it, in case a wake-up was lost. 0 means never.
	Heartbeat time.Duration
	// Instance, if set, makes sure that of several processes with this cluster id one writes to
	// an account. Nil trusts that there is one.
	Instance *instance.Process
}

// Realizer runs one worker per account. See the package comment.
type Realizer struct {
	Options
	// places is nil without Options.Instance.
	places instance.Places

	mu      sync.Mutex
	workers map[string]*running
}

// running is a worker and how to end it.
type running struct {
	worker *worker
	cancel context.CancelFunc
	done   chan struct{}
}

// New checks the options and returns a Realizer that does nothing before Start.
func New(o Options) (*Realizer, error) {
	switch {
	case o.ClusterID == "":
		return nil, errors.New("realize: ClusterID is empty; it would mark objects in the cloud as nobody's")
	case o.Follower.Source == nil || o.Follower.Clock == nil || o.Accounts == nil || o.Lowerer == nil || o.Sink == nil || o.Clock == nil:
		return nil, errors.New("realize: Follower, Accounts, Lowerer, Sink and Clock are required")
	}
	r := &Realizer{Options: o, workers: map[string]*running{}}
	if o.Instance != nil {
		var err error
		if r.places, err = instance.Open(*o.Instance, o.ClaimPause, o.Clock, o.Log); err != nil {
			return nil, fmt.Errorf("realize: Options.Instance: %w", err)
		}
	}
	return r, nil
}

// Start works until ctx ends and returns after all workers have stopped.
func (r *Realizer) Start(ctx context.Context) error {
	queue := workqueue.NewTyped[string]()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	cancel := r.Accounts.Subscribe(func(key string) { queue.Add(key) })
	defer cancel()
	if r.places != nil {
		go r.forever(ctx, "places", func() { r.places.Run(ctx, r.kickAll) })
		defer r.places.End(ctx) // when all workers have stopped
	}
	defer r.stopAll()
	for _, key := range r.Accounts.Keys() {
		queue.Add(key)
	}
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { r.forever(ctx, "heartbeat", func() { r.watch(ctx, queue.Add) }) })
	for {
		key, ended := queue.Get()
		if ended || ctx.Err() != nil {
			return nil
		}
		if fault := recovered.Do(func() { r.touch(ctx, key) }); fault != nil {
			r.Log.Error(fault, "A panic was recovered", "account", key, "stack", recovered.StackOf(fault))
			go func() {
				select {
				case <-ctx.Done():
				case <-r.Clock.After(longestWait):
					queue.Add(key)
				}
			}()
		}
		queue.Done(key)
	}
}

// watch looks at every heartbeat for changes without a wake-up, until ctx ends.
func (r *Realizer) watch(ctx context.Context, changed func(key string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.beat():
		}
		r.tellStalled(ctx)
		for _, key := range r.unnoticed() {
			changed(key)
		}
	}
}

// forever does something until ctx ends, whatever panics in it.
func (r *Realizer) forever(ctx context.Context, part string, do func()) {
	recovered.Repeat(ctx, r.Clock, func(err error) {
		r.Log.Error(err, "A panic was recovered", "in", part, "stack", recovered.StackOf(err))
	}, do)
}

// kickAll makes the presence of every worker look soon.
func (r *Realizer) kickAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		w.worker.presence.Kick()
	}
}

// mine reports whether an account is this process's.
func (r *Realizer) mine(account string) bool {
	return r.Instance == nil || r.Instance.Shares == nil || r.Instance.Shares.Mine(account)
}

// beat ticks once, a heartbeat from now.
func (r *Realizer) beat() <-chan time.Time {
	if r.Heartbeat <= 0 {
		return nil
	}
	return r.Clock.After(r.Heartbeat)
}

// unnoticed returns the accounts that have no worker and those that have one without being there.
func (r *Realizer) unnoticed() []string {
	keys := r.Accounts.Keys()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.DeleteFunc(slices.Sorted(maps.Keys(r.workers)), func(key string) bool { return slices.Contains(keys, key) })
	for _, key := range keys {
		if r.workers[key] == nil {
			out = append(out, key)
		}
	}
	return out
}

// touch starts, wakes or ends the worker of an account, as the account's existence demands.
func (r *Realizer) touch(ctx context.Context, key string) {
	acct, exists := r.Accounts.Account(key)
	w := r.workerFor(ctx, key, acct, exists)
	switch {
	case exists:
		w.worker.work.look(acct)
		w.worker.presence.Notice(acct.view())
		w.worker.signals.touch()
	case w != nil:
		w.cancel()
		<-w.done
		r.Metrics.forget(key)
		if r.places != nil {
			r.places.Stop(key, "")
		}
	}
}

// workerFor is the worker of an account, which it starts if the account exists; else the one that
// is to be ended, if there is one.
func (r *Realizer) workerFor(ctx context.Context, key string, acct Account, exists bool) *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[key]
	if !exists {
		delete(r.workers, key)
	} else if w == nil {
		w = r.launch(ctx, acct)
		r.workers[key] = w
	}
	return w
}

func (r *Realizer) launch(ctx context.Context, acct Account) *running {
	w := newWorker(r, acct)
	wctx, cancel := context.WithCancel(ctx)
	run := &running{worker: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		r.forever(wctx, acct.Key, func() { w.run(wctx) })
	}()
	return run
}

func (r *Realizer) stopAll() {
	r.mu.Lock()
	workers := r.workers
	r.workers = map[string]*running{}
	r.mu.Unlock()
	for _, w := range workers {
		w.cancel()
		<-w.done
	}
}

// Reconsider makes all workers plan again, after something has changed that neither the accounts
// nor the computed objects show, such as what Agents know.
func (r *Realizer) Reconsider() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		put(w.worker.signals.wake)
	}
}

// Released reports whether an account that is being deleted has been given back completely: no
// interface, group or tag of ours is left.
func (r *Realizer) Released(key string) bool {
	w := r.worker(key)
	if w == nil {
		return false
	}
	return w.told.isReleased()
}

// Report returns the last report on an account.
func (r *Realizer) Report(key string) (status.Report, bool) {
	w := r.worker(key)
	if w == nil {
		return status.Report{}, false
	}
	return w.told.last(), true
}

func (r *Realizer) worker(key string) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.workers[key]; run != nil {
		return run.worker
	}
	return nil
}
