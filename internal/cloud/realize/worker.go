package realize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/realize/brake"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/realize/past"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/cloud/realize/wire"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// Limits of one round of work. A round that does not come to an empty plan within maxPlans goes on
// after a pause, so that a cloud that keeps changing under our hands cannot hold the worker
// forever. Of these plans, up to maxRestarts are given up because computed objects came while the
// cloud was being observed.
const (
	maxPlans    = 12
	maxRestarts = 3
	firstPause  = time.Second
	longestWait = time.Minute
	// maxMoments bounds how often Options.Settle is waited for while changes keep coming.
	maxMoments = 5
)

// worker realizes one account.
type worker struct {
	r       *Realizer
	key     string
	mirror  *enforcer.Mirror
	signals *signals
	// last is the account as the last round saw it; only run's goroutine uses it.
	last Account

	// past is what is known of the account from before; only run's goroutine uses it.
	past *past.Past
	// notSigned is Report.NotSigned; only run's goroutine uses it.
	notSigned bool
	// latest is the last computation that led to a report; only run's goroutine uses it.
	latest computed
	// limits holds the limits of the regions that were ever planned for; only run's goroutine uses
	// them.
	limits map[string]cloud.Limits
	// faults holds the faults of the last computation; only run's goroutine uses them.
	faults map[string]bool
	// brake holds what waits for a confirmation; only run's goroutine uses it.
	brake brake.Brake
	// blocks are the interfaces that the cloud refuses to change, and unmarkable the networks
	// on which it refuses cloud.TagRevision.
	blocks, unmarkable blocks
	// stuck is what has failed in this round; only run's goroutine uses it.
	stuck stuck
	// wires are what may not be in force yet, by part; only run's goroutine uses the map.
	wires wire.Wires[part]
	// owed is what this worker has changed and not shared yet; nil if there is nothing. Only run's
	// goroutine uses it.
	owed *owed
	// agents is what became of the VMs that selectors hand to agents; only run's goroutine uses
	// it.
	agents map[plan.VMRef]handover.State
	// traced are the generations of the policies as the last round knew them, if anybody wants
	// traces; only run's goroutine uses it.
	traced map[string]int64
	// life is when the round that is under way last came on, in nanoseconds since 1970; 0
	// between rounds.
	life atomic.Int64
	// books keep count of what is done.
	books bookkeeping
	// presence decides whether anything may be written at all; nil decides nothing.
	presence *instance.Presence

	// work is the task that is under way, and told the last report of the account.
	work work
	told said
}

func newWorker(r *Realizer, acct Account) *worker {
	w := &worker{r: r, key: acct.Key, signals: newSignals(), told: said{report: status.Report{Account: acct.Key}},
		past: past.New(r.ClusterID, acct.Key), wires: wire.Wires[part]{}}
	w.presence = instance.NewPresence(r.places, instance.Subject{
		Account: acct.Key, ClusterID: r.ClusterID, Clock: r.Clock, Log: r.Log, Metrics: r.Metrics, Halt: w.work.halt, Wake: func() { put(w.signals.wake) },
		View: func() (instance.View, bool) {
			now, exists := r.Accounts.Account(acct.Key)
			return now.view(), exists
		},
	})
	w.mirror = r.Follower.Mirror(acct.EnforcerKey, func() { put(w.signals.wake) })
	return w
}

// run works until ctx ends: a round per wake-up, and repeated rounds with growing pauses after
// failures.
func (w *worker) run(ctx context.Context) {
	var streams sync.WaitGroup
	defer streams.Wait()
	// Whatever panics below, the streams end, and so does this.
	ctx, end := context.WithCancel(ctx)
	defer end()
	forever := func(part string, do func()) {
		streams.Go(func() { recovered.Repeat(ctx, w.r.Clock, func(err error) { w.tellFault(part, err) }, do) })
	}
	forever("mirror", func() { w.mirror.Run(ctx) })
	forever("presence", func() { w.presence.Run(ctx) })
	pause := time.Duration(0)
	for w.await(ctx, pause) {
		done, err := w.guardedRound(ctx)
		w.r.Metrics.round(w.key, err)
		switch {
		case ctx.Err() != nil:
			return
		case done:
			pause = 0
		default:
			pause = min(max(2*pause, firstPause), longestWait)
			if err != nil {
				w.r.Log.Error(err, "Realization failed, will be repeated", "account", w.key, "in", pause.String())
			}
		}
	}
}

// await waits for a reason to work; false if ctx ended. That nothing was heard for a heartbeat is
// one, in case something was missed. After a failure, a pause is such a reason. New snapshots then
// are none: our own operations lead to them, so a failing round would bring about the next one at
// once.
func (w *worker) await(ctx context.Context, pause time.Duration) bool {
	again := w.r.beat()
	if pause > 0 {
		again = w.r.Clock.After(pause)
	}
	var retry <-chan time.Time // what the cloud refused
	if wait := sooner(w.blocks.next(w.r.Clock.Now()), w.unmarkable.next(w.r.Clock.Now())); wait > 0 && pause == 0 {
		retry = w.r.Clock.After(wait)
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again:
			return true
		case <-retry:
			return true
		case <-w.signals.wake:
			return w.settle(ctx)
		case <-w.signals.touched:
			if pause == 0 || w.accountChanged() {
				return w.settle(ctx)
			}
		}
	}
}

// accountChanged reports whether the account is another than in the last round, apart from its
// snapshots. That is looked at once after each time that something about it may have changed.
func (w *worker) accountChanged() bool {
	news := w.signals.news.Load()
	if w.signals.unmoved.Load() == news {
		return false
	}
	now, ok := w.r.Accounts.Account(w.key)
	changed := !ok || now.Provider != w.last.Provider || now.Releasing != w.last.Releasing || !slices.Equal(now.Regions, w.last.Regions) ||
		!maps.Equal(now.Entities, w.last.Entities) || !maps.Equal(now.Shared, w.last.Shared) || !maps.Equal(now.Services, w.last.Services) ||
		!maps.Equal(now.Modes, w.last.Modes) || !maps.Equal(now.Agents, w.last.Agents) ||
		!maps.EqualFunc(now.Confirmed, w.last.Confirmed, slices.Equal) || now.brakesOtherwise(w.last)
	if !changed {
		w.signals.unmoved.Store(news)
	}
	return changed
}

// settle waits a moment, and while changes keep coming for some more, so that changes that come
// together become one plan; false if ctx ended.
func (w *worker) settle(ctx context.Context) bool {
	for more, n := true, 0; more && n < maxMoments; n++ {
		if w.r.Settle > 0 {
			select {
			case <-ctx.Done():
				return false
			case <-w.r.Clock.After(w.r.Settle):
			}
		}
		more = w.signals.drain() && w.r.Settle > 0
	}
	return true
}

// task is what a plan is made for.
type task struct {
	acct Account
	want enforcer.Computed
	// version is that of want.
	version uint64
	// urgent is closed when nothing more may be done for the task.
	urgent <-chan struct{}
	// seal is that of the records of former groups.
	seal *plan.Seal
}

// task returns what is to be done now. It is false if nothing may be done; what has to come first
// will wake the worker. The task is empty then, unless it is the account that cannot be read.
func (w *worker) task() (t task, ok bool) {
	if t.acct, ok = w.r.Accounts.Account(w.key); !ok {
		return task{}, false
	}
	t.urgent = w.work.takeUp(t.acct)
	if now, ok := w.r.Accounts.Account(w.key); ok {
		w.work.look(now) // what came before is not told again
	}
	if t.acct.Provider != w.last.Provider {
		w.past.Forget()
	}
	w.last = t.acct
	if t.acct.Releasing {
		t.acct.Entities, t.acct.Modes, t.acct.Agents = nil, nil, nil
	} else {
		w.told.setReleased(false)
		var err error
		if t.want, t.version, err = w.mirror.Current(); err != nil {
			w.told.setWaiting(err.Error())
			return task{}, false
		}
	}
	if t.acct.Provider == nil || len(t.acct.Snapshots) == 0 || t.acct.Releasing && len(t.acct.Snapshots) < len(t.acct.Regions) {
		w.told.setWaiting("waiting for the first whole observation of the account")
		return t, false
	}
	return t, true
}

// round observes, plans and applies until the plan is empty. It reports whether the account is as
// wanted, or can only become so by a change that wakes the worker.
func (w *worker) round(ctx context.Context) (_ bool, failed error) {
	var last error
	var span tracing.Span
	defer func() { span.End(failureClass(failed)) }()
	var known observation // what of the cloud is known, but for what was touched since
	ignored := ""         // what was changed and is not to be seen
	w.books.ledgers = nil
	w.blocks.begin()
	w.unmarkable.begin()
	w.stuck = stuck{}
	defer w.confess()
	allowed := maxPlans
	for n := 0; n < allowed; n++ {
		w.alive()
		t, ok := w.task()
		if !ok {
			if len(t.acct.Unread) > 0 {
				w.publishUnread(ctx, t, t.acct.Unread, errors.Join(slices.Collect(maps.Values(t.acct.Unread))...))
			}
			return true, nil
		}
		if t.seal, last = w.seal(ctx); last != nil {
			w.fail(ctx, last)
			return false, last
		}
		if n == 0 {
			causes := w.causes(t)
			c, ok := w.planOnLatest(ctx, t)
			if ok {
				w.latest = c
			}
			if ok && c.result.Plan.Empty() {
				w.complete(ctx, t, &c, observation{})
				return w.done(ctx, t, c, snapshots(t.acct))
			}
			w.told.begin(w.r.Clock.Now())
			ctx, span = w.r.Tracer.Because(ctx, "realize", causes)
			span.Text("account", w.key)
		}
		seen, err := w.see(ctx, t.acct, known)
		known = observation{}
		if err != nil {
			w.publishUnread(ctx, t, seen.unread, err)
			return false, err
		}
		w.share(t.acct, seen)
		ignored = w.books.ignored(seen)
		if n < maxRestarts && !t.acct.Releasing && !w.mirror.Unchanged(t.version) {
			seen.touched = map[string][]string{}
			known = seen
			continue // objects that belong together may have come in part
		}
		planned := w.tracePlans(ctx, seen.regions)
		c := w.compute(ctx, t, seen.regions)
		res := c.result
		planned(res)
		if res.Stopped {
			return false, ctx.Err()
		}
		if err := w.planFaults(res); err != nil {
			w.fail(ctx, err)
			return false, err
		}
		w.latest, w.stuck.parts = c, c.parts
		w.complete(ctx, t, &c, seen)
		if res.Plan.Empty() {
			done, err := w.done(ctx, t, c, seen.snapshots())
			return done && seen.whole(), err
		}
		if n == 0 && t.acct.MaxPerWave > 0 {
			allowed += len(res.Plan.Steps) // every wave has a step
		}
		permitted, why := w.presence.Permitted(res.Plan, seen.snapshots())
		if len(permitted.Steps) == 0 {
			w.publish(ctx, t.acct, &c, why) // the presence wakes us
			return seen.whole(), nil
		}
		seen.touched, last = w.realize(ctx, t, c, permitted, seen)
		switch {
		case last == nil:
			known = seen
		case errors.Is(last, errOutdated), errors.Is(last, errBlocked):
			// There is something newer, and something was done; or there are fewer and
			// fewer that can be blocked.
			known = seen
			allowed++
			last = nil
		case !replannable(last) && len(w.stuck.rest(res.Plan).Steps) > 0:
			// The rest can go on.
		case !replannable(last):
			w.publish(ctx, t.acct, &c, last)
			return false, last
		}
	}
	err := notAsPlanned(last, ignored)
	w.fail(ctx, err)
	return false, err
}

// realize applies what is permitted of a plan, or the first part of it. It returns what it has
// changed or may have, by region, if nothing else can be different because of it; else nil.
func (w *worker) realize(ctx context.Context, t task, c computed, permitted plan.Plan, seen observation) (map[string][]string, error) {
	if err := errors.Join(w.noteSigned(ctx, t, c), w.announceWider(ctx, t)); err != nil {
		return nil, err
	}
	c.underway = true
	w.publish(ctx, t.acct, &c, nil)
	w.past.Written(permitted.Steps)
	w.books.ledgers = ledgers(seen)
	// Where the glass is broken, nothing else comes before that, neither a limit nor a claim.
	// If it fails, the other regions need not wait.
	doable := w.stuck.rest(permitted)
	if len(doable.Steps) == 0 {
		return nil, w.stuck.failure()
	}
	urgent, rest := doable.Urgent()
	if len(urgent.Steps) > 0 {
		_, err := w.apply(ctx, t, c, urgent)
		w.owe(nil)
		if err == nil || len(rest.Steps) == 0 || replannable(err) || errors.Is(err, errOutdated) {
			return nil, err
		}
		_, also := w.part(ctx, t, c, rest, seen)
		return nil, errors.Join(err, also)
	}
	return w.part(ctx, t, c, rest, seen)
}

// part applies the claims of a plan, or without claims as much of it as may be done at once.
func (w *worker) part(ctx context.Context, t task, c computed, p plan.Plan, seen observation) (map[string][]string, error) {
	if claims, pending := p.Claims(); pending {
		touched, err := w.claim(ctx, t, c, claims)
		w.owe(nil)
		return touched, err // others may have claimed the networks meanwhile, so they are read again
	}
	wave, more := p.Wave(t.acct.MaxPerWave, seen.vmOf)
	if more {
		w.r.Log.Info("Applying a part of a plan, the rest after that is seen to be done", "account", w.key, "steps", len(wave.Steps), "of", len(p.Steps))
	}
	sum := wave.Summary()
	w.r.Log.Info("Applying a plan", "account", w.key, "operations", sum.Steps, "groupsCreated", sum.GroupsCreated, "groupsDeleted", sum.GroupsDeleted,
		"rulesAdded", sum.RulesAdded, "rulesRemoved", sum.RulesRemoved, "interfaceEdits", sum.InterfaceEdits, "refusals", len(c.result.Refusals), "drift", len(c.result.Drift))
	touched, err := w.apply(ctx, t, c, wave)
	w.owe(touched)
	return touched, err
}

// done ends a round that has nothing left to do on these snapshots. An account that is being
// deleted is released then; if something of ours is left that the planner refuses to touch, that is
// a failure.
func (w *worker) done(ctx context.Context, t task, c computed, on []*cloud.Snapshot) (bool, error) {
	w.blocks.end(c.input.Blocked)
	w.unmarkable.end(c.unmarked)
	releasing := t.acct.Releasing && w.brake.State().Waiting == nil
	if releasing {
		if err := w.leftover(on, c.result); err != nil {
			w.publish(ctx, t.acct, &c, err)
			return false, err
		}
	}
	if err := errors.Join(w.noteSigned(ctx, t, c), w.announce(ctx, t, c, on)); err != nil {
		return false, err
	}
	w.publish(ctx, t.acct, &c, nil)
	if releasing && w.told.setReleased(true) {
		w.r.Accounts.Trigger(w.key)
	}
	return true, nil
}

// leftover says what of ours is still there and why it stays, as far as that is known.
func (w *worker) leftover(on []*cloud.Snapshot, res *plan.Result) error {
	var ids []string
	why := ""
	for _, s := range on {
		for i := range s.Groups {
			g := &s.Groups[i]
			if !g.OwnedBy(w.r.ClusterID) || g.Tags[cloud.TagAccount] != w.key {
				continue
			}
			ids = append(ids, s.Region+"/"+g.ID)
			for _, n := range res.Notes {
				if why == "" && n.Region == s.Region && n.Object == g.ID {
					why = ": " + g.ID + ": " + n.Message
				}
			}
		}
	}
	refused := w.blocks.all()
	for _, s := range on {
		if id := behind(s); id != "" {
			ids, why = append(ids, s.Region+"/"+id), ": what it remembers was changed, and it cannot be read since"
		}
		for i := range s.Interfaces {
			n := &s.Interfaces[i]
			if _, is := refused[plan.InterfaceKey{Region: s.Region, ID: n.ID}]; is && plan.Former(n) != nil {
				ids = append(ids, s.Region+"/"+n.ID)
			}
		}
	}
	unmarkable := w.unmarkable.all()
	for _, s := range on {
		for i := range s.Networks {
			n := &s.Networks[i]
			_, marked := n.Tags[plan.Mark(w.key)]
			if words, refused := unmarkable[plan.InterfaceKey{Region: s.Region, ID: n.ID}]; marked && refused {
				ids, why = append(ids, s.Region+"/"+n.ID), ": the cloud refuses to remove its tag "+plan.Mark(w.key)+": "+words
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if why == "" && len(res.Refusals) > 0 {
		why = ": " + res.Refusals[0].Message
	}
	if u := res.Records.Unproven; len(u) > 0 {
		why = ": " + u[0].Interface + ": " + u[0].Message
	}
	if blocked := status.BlockedText(refused); blocked != "" {
		why = ": the cloud refuses to change interfaces: " + blocked
	}
	return fmt.Errorf("the account cannot be given back yet, something of ours is left (%s)%s", strings.Join(ids[:min(len(ids), 5)], ", "), why)
}

// replannable tells the errors after which a new observation and plan is the right answer at once.
func replannable(err error) bool {
	c := cloud.ClassOf(err)
	return c == cloud.Conflict || c == cloud.NotFound
}
