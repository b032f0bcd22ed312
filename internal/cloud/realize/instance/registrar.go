package instance

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// Process says which process this is among those that have the same cluster id.
type Process struct {
	// Epoch names the process. It is random, and a tenure.ValidEpoch.
	Epoch string
	// Heartbeat is the longest time in which it shows that it lives.
	Heartbeat time.Duration
	// Register is the cluster's own record.
	Register register.Register
	// Shares, if set, divides the accounts between the processes of the cluster. It takes the
	// place of Register.
	Shares Shares
}

const (
	// recordLimit bounds a call to the register, and endLimit the last one.
	recordLimit = 10 * time.Second
	endLimit    = 5 * time.Second
	// recordPause is the pause after a failed one.
	recordPause = time.Second
)

// registrar keeps the process in its cluster's record: it finds the former leader, leads, counts,
// and reports when leadership ends. It sets the pace of the accounts' presences.
//
// Run and End belong to one goroutine; the other methods may be called at any time.
type registrar struct {
	inst      Process
	beats     tenure.Rules
	clock     clock.Clock
	log       logr.Logger
	candidacy tenure.Candidacy
	version   string
	failing   string
	// denied is true if the record may not be used: the process then works without one.
	denied bool
	done   chan struct{}

	mu       sync.Mutex
	standing standing
	// told are the accounts of which this process has said itself whether they are stopped.
	told map[string]bool
	// dirty has room for one token: something is to be stored.
	dirty chan struct{}
}

// standing is where the process stands in its cluster.
type standing struct {
	// before is what the record said before the process led; it is known as soon as it was
	// read.
	before tenure.Record
	known  bool
	// leading is true while the process may write marks; deposed for good if another one of the
	// cluster leads by now.
	leading, deposed bool
	// mark is what is stored in the record and may be written in the cloud.
	mark tenure.Mark
	// stopped is tenure.Record.Stopped.
	stopped map[string]string
}

func newRegistrar(inst Process, pause time.Duration, clk clock.Clock, log logr.Logger) *registrar {
	rules := inst.rules(pause)
	return &registrar{inst: inst, beats: rules, clock: clk, log: log, candidacy: tenure.Candidacy{Rules: rules},
		standing: standing{mark: tenure.Mark{Epoch: inst.Epoch, Heartbeat: inst.Heartbeat}, stopped: map[string]string{}},
		told:     map[string]bool{}, dirty: make(chan struct{}, 1), done: make(chan struct{})}
}

// at implements Places: the process has all accounts or none.
func (g *registrar) at(string) standing { return g.now() }

// now returns the standing.
func (g *registrar) now() standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.standing
	out.stopped = maps.Clone(out.stopped)
	return out
}

// Stop implements Places.
func (g *registrar) Stop(account, epoch string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.standing.stopped[account] == epoch {
		return
	}
	g.told[account] = true
	if epoch == "" {
		delete(g.standing.stopped, account)
	} else {
		g.standing.stopped[account] = epoch
	}
	put(g.dirty)
}

// Run implements Places: it works until ctx ends. beat is called after every attempt at the record.
func (g *registrar) Run(ctx context.Context, beat func()) {
	defer close(g.done)
	for {
		wait := g.step(ctx)
		if ctx.Err() != nil {
			return
		}
		beat()
		select {
		case <-ctx.Done():
			return
		case <-g.clock.After(wait):
		case <-g.dirty:
		}
	}
}

// step does what is to be done about the record now, and returns after what time to do the next.
func (g *registrar) step(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	if !g.now().leading {
		return g.apply(ctx)
	}
	if err := g.store(ctx, g.next(), false); err != nil {
		return min(recordPause, g.beats.Beat())
	}
	return g.beats.Beat()
}

// apply reads the record, and leads if no other instance does.
func (g *registrar) apply(ctx context.Context) time.Duration {
	soon := min(recordPause, g.beats.Beat())
	from := g.clock.Now()
	r, version, err := g.inst.Register.Load(ctx)
	to := g.clock.Now()
	if errors.Is(err, register.ErrDenied) {
		g.goWithout(err, g.next())
		return g.beats.Beat()
	}
	if err != nil {
		g.fail(err)
		return soon
	}
	g.learn(r)
	if !g.candidacy.Saw(r, from, to) {
		return max(min(g.candidacy.Next().Sub(g.clock.Now()), g.beats.Beat()), time.Millisecond)
	}
	g.version = version
	if err := g.store(ctx, g.next(), false); err != nil {
		return soon
	}
	return g.beats.Beat()
}

// learn takes what the record says before this process leads. What it says of accounts counts
// unless this process knows better.
func (g *registrar) learn(r tenure.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.standing.before, g.standing.known = r, true
	for account, epoch := range r.Stopped {
		if !g.told[account] {
			g.standing.stopped[account] = epoch
		}
	}
}

// next is the mark after the present one.
func (g *registrar) next() tenure.Mark {
	m := g.now().mark
	m.Sequence++
	return m
}

// store writes that this process leads and has counted to m, or at last that it has ended, and lets
// m be written in the cloud. If somebody has written the record meanwhile, it finds out whether he
// leads.
func (g *registrar) store(ctx context.Context, m tenure.Mark, ended bool) error {
	if g.denied {
		g.lead(m)
		return nil
	}
	is := g.now()
	if is.deposed {
		return nil
	}
	r := is.before.Led(m)
	r.Ended, r.Stopped = ended, is.stopped
	version, err := g.inst.Register.Store(ctx, r, g.version)
	if errors.Is(err, register.ErrOvertaken) {
		err = g.overtaken(ctx)
	}
	if errors.Is(err, register.ErrDenied) {
		g.goWithout(err, m)
		return nil
	}
	if err != nil {
		g.fail(err)
		return err
	}
	if version != "" {
		g.version, g.failing = version, ""
		g.lead(m)
	}
	return nil
}

// overtaken finds out why the record is not the one that was stored last. A process of the cluster
// that leads now has this one in its line: then it is over. Otherwise an answer was lost, or
// somebody has brought an older record back: then it is to be stored again.
func (g *registrar) overtaken(ctx context.Context) error {
	r, version, err := g.inst.Register.Load(ctx)
	if err != nil {
		return err
	}
	if !g.now().leading {
		g.learn(r)
		return register.ErrOvertaken // and to be waited for, perhaps
	}
	if r.Follows(g.inst.Epoch) {
		g.mu.Lock()
		g.standing.deposed = true
		g.mu.Unlock()
		g.log.Error(nil, "Another process of this cluster leads by now; this one writes nothing to any cloud any more",
			"epoch", g.inst.Epoch, "other", r.Line[0].Epoch)
		return nil
	}
	g.version = version
	return register.ErrOvertaken
}

// goWithout makes the process work without a record.
func (g *registrar) goWithout(err error, m tenure.Mark) {
	g.denied = true
	g.log.Error(err, "The cluster's record of instances may not be used; the next start will count as that of a stranger, "+
		"and wait until the marks of this one stand still")
	g.lead(m)
}

// rules implements Places.
func (g *registrar) rules() tenure.Rules { return g.beats }

// writes implements Places.
func (g *registrar) writes(string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.standing.leading && !g.standing.deposed
}

func (g *registrar) lead(m tenure.Mark) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.standing.leading, g.standing.known, g.standing.mark = true, true, m
}

// fail logs why the record cannot be used, once for each reason.
func (g *registrar) fail(err error) {
	if errors.Is(err, register.ErrOvertaken) || g.failing == err.Error() {
		return
	}
	g.failing = err.Error()
	g.log.Error(err, "The cluster's record of instances cannot be used, will be repeated")
}

// End implements Places: it waits for Run, and says in the record that this process writes nothing
// any more.
func (g *registrar) End(ctx context.Context) {
	<-g.done
	if is := g.now(); !is.leading || is.deposed || g.denied {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	err := g.store(ctx, g.now().mark, true)
	if errors.Is(err, register.ErrOvertaken) {
		err = g.store(ctx, g.now().mark, true)
	}
	if err != nil {
		g.log.Error(err, "The next instance will wait for a heartbeat, because the cluster's record does not say that this one has ended in order")
	}
}
