package realize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register/registertest"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// hasty is a clock on which ten seconds go by in one, and which shows anything.
type hasty struct {
	clock.RealClock
	began, shows time.Time
}

const haste = 10

func newHasty(offset time.Duration) hasty {
	now := time.Now()
	return hasty{began: now, shows: now.Add(offset)}
}

func (h hasty) Now() time.Time                         { return h.shows.Add(haste * time.Since(h.began)) }
func (h hasty) Since(t time.Time) time.Duration        { return h.Now().Sub(t) }
func (h hasty) After(d time.Duration) <-chan time.Time { return time.After(d / haste) }
func (h hasty) Sleep(d time.Duration)                  { time.Sleep(d / haste) }
func (h hasty) NewTimer(d time.Duration) clock.Timer   { return h.RealClock.NewTimer(d / haste) }
func (h hasty) NewTicker(d time.Duration) clock.Ticker { return h.RealClock.NewTicker(d / haste) }

// labHeartbeat and labPause are by the hasty clock.
const (
	labHeartbeat = 10 * time.Second
	labPause     = 2 * time.Second
)

// diary notes which instance changed the cloud, and when by the clock on the wall.
type diary struct {
	mu      sync.Mutex
	entries []entry
}

type entry struct {
	who string
	// term counts how often the instance was told to take over.
	term  int32
	began time.Time
	op    string
}

// writes are the operations of an instance but for its marks, since a moment.
func (d *diary) writes(who string, since time.Time) (out []entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.who == who && !e.began.Before(since) {
			out = append(out, e)
		}
	}
	return out
}

// together is the longest time for which two instances have written side by side: from one's first
// operation after the other's, to the other's last.
func (d *diary) together() (longest time.Duration, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, a := range d.entries {
		for _, b := range d.entries {
			// a writes, and b has written before that and writes after it.
			if a.who == b.who || !b.began.After(a.began) {
				continue
			}
			before := slices.ContainsFunc(d.entries[:i], func(e entry) bool { return e.who == b.who && e.term == b.term })
			if side := haste * b.began.Sub(a.began); before && side > longest {
				longest, text = side, fmt.Sprintf("%s wrote (%s), and after that %s (%s), who had written before", a.who, a.op, b.who, b.op)
			}
		}
	}
	return longest, text
}

// body is what of an instance can be killed: its way to the cloud and to its cluster.
type body struct {
	cloud.Provider
	register.Register
	who   string
	diary *diary
	dead  atomic.Bool
	term  atomic.Int32
	// hold, if set, is called before every operation but marks.
	hold func(cloud.Op)
}

var errDead = errors.New("the process is dead")

func (b *body) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	if b.dead.Load() {
		return nil, errDead
	}
	return b.Provider.Observe(ctx, s)
}

func (b *body) Networks(ctx context.Context, s cloud.Scope) ([]cloud.Network, error) {
	if b.dead.Load() {
		return nil, errDead
	}
	return b.Provider.(cloud.NetworkLister).Networks(ctx, s)
}

func (b *body) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	_, mark := op.Tags[cloud.TagInstance]
	mark = mark && len(op.Tags) == 1
	if b.hold != nil && !mark {
		b.hold(op)
	}
	if b.dead.Load() {
		return "", errDead
	}
	if !mark {
		b.diary.mu.Lock()
		b.diary.entries = append(b.diary.entries, entry{b.who, b.term.Load(), time.Now(), op.String()})
		b.diary.mu.Unlock()
	}
	return b.Provider.Apply(ctx, s, op)
}

func (b *body) Store(ctx context.Context, r tenure.Record, version string) (string, error) {
	if b.dead.Load() {
		return "", errDead
	}
	return b.Register.Store(ctx, r, version)
}

// twin is a cluster with the lab's cluster id, its own objects, and mostly an instance at work.
type twin struct {
	*lab
	name   string
	book   *registertest.Notebook
	diary  *diary
	starts int
	body   *body
	// bare instances have no marks at all, as former versions had none.
	bare bool
	log  *protocol
}

// protocol is the log of an instance.
type protocol struct {
	mu    sync.Mutex
	lines []string
}

func (p *protocol) write(_, args string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, args)
}

// says reports whether some line contains a text.
func (p *protocol) says(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.lines, func(line string) bool { return strings.Contains(line, text) })
}

// newTwins returns a cluster whose policies close SSH to the database, and a function that makes a
// copy of it with what its record says then.
func newTwins(t *testing.T, cfg labConfig) (first *twin, copied func(name string, offset time.Duration) *twin) {
	t.Helper()
	cfg.clock = newHasty(0)
	first = &twin{lab: newLab(t, cfg), name: "first", book: &registertest.Notebook{}, diary: &diary{}}
	first.options.ClaimPause = labPause
	first.provide()
	return first, func(name string, offset time.Duration) *twin {
		c := &twin{lab: first.second(labCluster), name: name, book: first.book.Copied(), diary: first.diary}
		c.options.Clock = newHasty(offset)
		c.options.Follower.Clock = newHasty(offset)
		c.newProvider = first.newProvider
		c.cluster = copyKey(t, first.cluster)
		c.provide()
		return c
	}
}

// copyKey returns what of a cluster its copy has for signing records.
func copyKey(t *testing.T, of client.Client) client.Client {
	t.Helper()
	var secrets corev1.SecretList
	if err := of.List(t.Context(), &secrets); err != nil {
		t.Fatal(err)
	}
	c := labObjects(t)
	for i := range secrets.Items {
		s := &secrets.Items[i]
		s.ResourceVersion = ""
		if err := c.Create(t.Context(), s); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return c
}

// provide gives the instance that starts next a body.
func (w *twin) provide() {
	w.starts++
	w.log = &protocol{}
	w.options.Log = funcr.New(w.log.write, funcr.Options{})
	w.body = &body{Provider: w.newProvider(), Register: w.book, who: fmt.Sprintf("%s%d", w.name, w.starts), diary: w.diary}
	w.accounts.change(func(a *Account) { a.Provider = w.body })
	w.options.Instance = &instance.Process{Epoch: w.body.who, Heartbeat: labHeartbeat, Register: w.body}
	if w.bare {
		w.options.Instance = nil
	}
}

// restart starts the next instance.
func (w *twin) restart() {
	w.Helper()
	w.provide()
	w.start()
}

// kill ends the instance as a power cut would.
func (w *twin) kill() {
	w.body.dead.Store(true)
	w.halt()
}

// sole is what the instance says about others.
func (w *twin) sole() instance.Sole {
	if p := w.realizer.worker(labAccount); p != nil {
		return p.presence.Sole()
	}
	return instance.Sole{}
}

// stopsFor waits until the instance has stopped because of another one.
func (w *twin) stopsFor(other string) {
	w.Helper()
	w.until(w.body.who+" stops for "+other, func() bool {
		w.accounts.observe(w.Context())
		is := w.sole()
		return is.State == tenure.Stopped && is.Other == other
	})
}

// takeOver tells the instance to take over, as the annotation does.
func (w *twin) takeOver(other string) {
	if other != "" {
		w.body.term.Add(1)
	}
	w.accounts.change(func(a *Account) { a.TakeOver = other })
}

// enforces waits until the cloud is as this instance wants it.
func (w *twin) enforces() {
	w.Helper()
	w.until(w.body.who+" enforces what it wants", func() bool {
		w.accounts.observe(w.Context())
		return w.unsettled() == "" && compare(w.actual(), w.wanted()) == ""
	})
}

// shut are flows that nobody's policies allow in these tests.
func shut() []probe {
	return []probe{{"web-1", "db-1", 22}, {"web-2", "db-1", 22}, {"ops-1", "db-1", 22}}
}

// watchShut fails the test at every change of the cloud after which one of the flows is open. They
// have to be closed already.
func (w *twin) watchShut() {
	w.Helper()
	look := func(m aws.Mutation) {
		for _, p := range shut() {
			if w.passes(p) {
				w.Errorf("%s %v opened %s", m.Action, m.Resources, p)
			}
		}
	}
	look(aws.Mutation{Action: "before"})
	w.Cleanup(w.server.World().OnMutation(look))
}

// mark is the mark that the lab's network carries.
func (w *twin) mark() string {
	w.Helper()
	vpcs, err := w.region(home).VPCs()
	if err != nil {
		w.Fatal(err)
	}
	for _, v := range vpcs {
		if v.ID == homeVPC {
			return v.Tags[cloud.TagInstance]
		}
	}
	return ""
}

func tagOf(mark string) []aws.Tag { return []aws.Tag{{Key: cloud.TagInstance, Value: mark}} }
