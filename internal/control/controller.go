package control

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/platform/tracing"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
	// RemoveInformer stops the informer of a kind that is not served any more.
	RemoveInformer(ctx context.Context, obj client.Object) error
}

// Options are what a Controller needs. All fields but Discovery, Store and Workers are required.
type Options struct {
	Informers Informers
	// Client reads (from the cache of the same informers, if it likes) and writes.
	Client client.Client
	// Discovery tells whether the upstream kinds of policies, which may come and go, are served;
	// nil means never.
	Discovery Discovery
	// Recorder takes Events on objects for what a person must know.
	Recorder events.EventRecorder
	Clock    clock.WithTicker
	Logger   logr.Logger
	// Store is published to; nil makes a new one.
	Store *watchstore.Store
	// Workers write to the API; 0 means 4.
	Workers int
	// Metrics may be nil.
	Metrics *Metrics
	// History gets the policies, groups and tiers that come and go; it may be nil.
	History History
	// Tracer makes spans of changes of policies; nil makes none.
	Tracer *tracing.Tracer
	// Remote, if not nil, is closed when all that is on record of other clusters has been given to
	// PutRemote: nothing is computed before.
	Remote <-chan struct{}
}

// Controller is the loop. See the package comment; use New.
type Controller struct {
	Options Options
	engine  *compute.Engine
	parts   convert.Parts
	// addresses holds the addresses of a Pod for the engine.
	addresses []netip.Addr
	intake    *intake
	book      *book
	// upstream are the informers of the upstream kinds of policies.
	upstream *upstream
	// externalNodes are the names of those there are, by namespace; only the loop looks at them.
	externalNodes map[string]map[string]struct{}
	tasks         workqueue.TypedRateLimitingInterface[task]
	// due are the tasks that the present round brings; they are queued when it is over, so that
	// each looks at its result.
	due []task
	// questions are asked between rounds; computed is closed after the first round, ended with the
	// loop.
	questions       chan func(*compute.Engine)
	computed, ended chan struct{}
	directory       *directory
	// takenNames are the ExternalNodes whose ExternalEntity is somebody else's.
	takenNames takenNames
	traced     traced
	// own are the labels of this cluster in its set; only the loop looks at them.
	own ownLabels
	// copies takes how far copies of the hub's policies are realized; nil before it is set.
	copies atomic.Pointer[func(client.Object, v1beta1.NetworkPolicyStatus)]
	// fault is why nothing is computed any more, healAt when that is tried again; suspects are what
	// the engine was given since it last computed something.
	fault    atomic.Pointer[error]
	healAt   time.Time
	suspects map[compute.Input]suspect
}

// New returns a Controller that does nothing until Start.
func New(o Options) (*Controller, error) {
	if o.Informers == nil || o.Client == nil || o.Recorder == nil || o.Clock == nil {
		return nil, fmt.Errorf("policy controller: Informers, Client, Recorder and Clock must be given")
	}
	if o.Store == nil {
		o.Store = watchstore.New(watchstore.Options{})
	}
	if o.Workers == 0 {
		o.Workers = 4
	}
	c := &Controller{
		Options: o,
		engine:  compute.New(compute.Options{}), suspects: map[compute.Input]suspect{},
		intake: newIntake(),
		book: newBook(func(uid types.UID, key string) bool {
			return o.Store.Concerns(watchstore.NetworkPolicies, string(uid), key)
		}, func(uid types.UID) []string { return o.Store.Attended(string(uid)) }),
		questions: make(chan func(*compute.Engine)), computed: make(chan struct{}), ended: make(chan struct{}),
		directory: newDirectory(), externalNodes: map[string]map[string]struct{}{}, traced: traced{Tracer: o.Tracer},
		tasks: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[task](retryFirst, retryMost),
			workqueue.TypedRateLimitingQueueConfig[task]{Name: "policy-status", Clock: o.Clock},
		),
	}
	c.upstream = newUpstream(c)
	o.Store.OnAttendance(c.attended)
	return c, nil
}

// What failed is tried again after retryFirst, then twice as long each time, up to retryMost.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 8 * time.Second
)

// Store returns the store with the computed objects. It is closed until everything known has been
// computed once.
func (c *Controller) Store() *watchstore.Store { return c.Options.Store }

// Start runs until ctx ends. It may be called once. It is a manager.Runnable that needs to lead.
func (c *Controller) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	defer c.tasks.ShutDown()
	defer close(c.ended)
	sources, err := c.listen(ctx)
	if err != nil {
		return err
	}
	if err := c.directory.follow(ctx, c.Options.Informers); err != nil {
		return err
	}
	c.tasks.Add(task{kind: taskTiers})
	for range c.Options.Workers {
		workers.Go(func() { c.statuses().work(ctx) })
	}
	workers.Go(func() {
		recovered.Repeat(ctx, c.Options.Clock, func(err error) {
			c.Options.Logger.Error(err, "Looking for upstream kinds panicked", "stack", recovered.StackOf(err))
		}, func() { c.upstream.follow(ctx) })
	})
	if c.Options.Remote != nil {
		sources = append(sources, source{kindRemote, c.Options.Remote})
	}
	if !c.awaitSources(ctx, sources) {
		return nil
	}
	if c.Options.History != nil {
		c.Options.History.Synced()
	}
	c.guardedRound()
	close(c.computed)
	for {
		select {
		case <-c.intake.wake:
			c.guardedRound()
		case ask := <-c.questions:
			ask(c.engine)
		case <-ctx.Done():
			return nil
		}
	}
}

// awaitSources waits until every source has delivered what it began with; false means that ctx has
// ended. What has arrived goes to the engine at once: that way it is taken in while the rest is
// still read and decoded.
func (c *Controller) awaitSources(ctx context.Context, sources []source) bool {
	ticker := c.Options.Clock.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for _, s := range sources {
		for waiting := true; waiting; {
			select {
			case <-s.synced:
				waiting = false
			case <-c.intake.wake:
				c.absorb()
			case <-ticker.C():
				c.Options.Logger.Info("Waiting for the first listing before policies are computed", "kind", s.name)
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// absorb gives the engine what has arrived, and returns how much that was.
func (c *Controller) absorb() int {
	var few [1][]input // most that arrives alone is in one piece
	batch, n := c.intake.take(few[:0]), 0
	for i, piece := range batch {
		for j := range piece {
			c.traced.seen(piece[j], c.begun())
			in := piece[j]
			if fault := recovered.Do(func() { c.suspecting(in); c.apply(in) }); fault != nil {
				c.unreadable(in, fault)
			}
		}
		n += len(piece)
		batch[i] = nil
		c.intake.done(piece)
	}
	return n
}

// begun reports whether everything known has been computed once.
func (c *Controller) begun() bool {
	select {
	case <-c.computed:
		return true
	default:
		return false
	}
}

// later notes a task for the end of the round.
func (c *Controller) later(t task) { c.due = append(c.due, t) }

// maxNote is the longest text that the API takes for an Event.
const maxNote = 1024

// event records an Event on an object.
func (c *Controller) event(o client.Object, eventType, reason, action, note string) {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	c.Options.Recorder.Eventf(o, nil, eventType, reason, action, "%s", note)
}

// maxDueKept is the length up to which the list of tasks is used again.
const maxDueKept = 1024

// guardedRound is round that goes on after a panic without the objects that it is about. Where it
// cannot, nothing more is computed for a while: what was published stays in force, and Faulty says
// so.
func (c *Controller) guardedRound() {
	fault := c.Faulty()
	switch {
	case fault == nil:
		if fault = recovered.Do(c.round); fault == nil {
			return
		}
		c.Options.Logger.Error(fault, "Computing policies panicked, looking for what it is about", "stack", recovered.StackOf(fault))
	default:
		c.absorb()
		if c.Options.Clock.Now().Before(c.healAt) {
			return
		}
		fault = *c.fault.Load()
	}
	if err := recovered.Call(func() error { return c.heal(fault) }); err != nil {
		c.fault.Store(&fault)
		c.healAt = c.Options.Clock.Now().Add(healAgain)
		c.Options.Logger.Error(err, "Policies cannot be computed: what was computed stays in force, trying again when something changes", "stack", recovered.StackOf(err))
		return
	}
	c.fault.Store(nil)
}

// Faulty says why nothing is computed any more; nil while it is.
func (c *Controller) Faulty() error {
	if fault := c.fault.Load(); fault != nil {
		return fmt.Errorf("policies are not computed any more since %w", *fault)
	}
	return nil
}

// unreadable leaves out an object that a fault of ours keeps from being read. An earlier version
// that is known stays.
func (c *Controller) unreadable(in input, fault error) {
	c.Options.Logger.Error(fault, "An object is left out, because reading it panicked", "kind", in.kind, "stack", recovered.StackOf(fault))
	if o, is := in.object.(client.Object); is && in.gone == nil {
		c.event(o, corev1.EventTypeWarning, "NotRead", "ComputePolicies", "it is left out: "+fault.Error())
	}
}

// queueDue queues the tasks that a round has brought.
func (c *Controller) queueDue() {
	for _, t := range c.due {
		c.tasks.Add(t)
	}
	// The list of the first round may be as long as there are policies: it is not kept.
	if c.due = c.due[:0]; cap(c.due) > maxDueKept {
		c.due = nil
	}
}

// round gives the engine what has arrived, publishes what that changes and notes whose status may
// change.
func (c *Controller) round() {
	begin := c.Options.Clock.Now()
	inputs := c.absorb()
	span := c.traced.begin()
	changes := c.engine.CommitChanges()
	c.due = c.book.record(c.due, changes)
	if !c.begun() {
		policies, addressGroups, appliedToGroups, _ := changes.Size()
		c.Options.Store.Expect(policies, addressGroups, appliedToGroups)
	}
	c.Options.Store.PublishParts(c.parts.Of(changes))
	clear(c.suspects)
	c.queueDue()
	span.Number("inputs", inputs)
	span.End("")
	c.traced.end()
	c.Options.Metrics.round(inputs, changes, c.Options.Clock.Since(begin))
	if log := c.Options.Logger.V(1); log.Enabled() && !changes.Empty() {
		policies, addressGroups, appliedToGroups, problems := changes.Size()
		log.Info("Computed policies", "inputs", inputs, "policies", policies,
			"addressGroups", addressGroups, "appliedToGroups", appliedToGroups, "problems", problems)
	}
}
