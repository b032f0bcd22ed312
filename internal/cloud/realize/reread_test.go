package realize

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// proofreader compares what is read in part with what is read whole at the same moment.
type proofreader struct {
	cloud.Provider
	*testing.T
	parts, wholes atomic.Int32
}

func (p *proofreader) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	p.wholes.Add(1)
	return p.Provider.Observe(ctx, s)
}

func (p *proofreader) Refresh(ctx context.Context, last *cloud.Snapshot, ids []string) (*cloud.Snapshot, error) {
	p.parts.Add(1)
	part, err := p.Provider.(cloud.Refresher).Refresh(ctx, last, ids)
	if err != nil {
		return nil, err
	}
	whole, err := p.Provider.Observe(ctx, last.Scope)
	if err != nil {
		return nil, err
	}
	if d := gocmp.Diff(whole, part, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(cloud.Snapshot{}, "ObservedAt"), gocmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		gocmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		p.Errorf("read after %v (-whole +part):\n%s", ids, d)
	}
	return part, nil
}

// TestRereadAsWhole: after its own changes the worker knows by reading what it touched all that it
// would know by reading everything, in every story and in random ones.
func TestRereadAsWhole(t *testing.T) {
	t.Parallel()
	random, seed := seeded(t)
	told := func(l *lab, names ...string) {
		for _, name := range names {
			l.relabel(name, []string{"web", "db", "ops"}[random.IntN(3)])
		}
	}
	randomStory := story{name: "random", cfg: labConfig{maxPerWave: random.IntN(3)}}
	for i := range 25 {
		randomStory.events = append(randomStory.events, event{name: "random", do: func(l *lab) {
			for _, p := range []policy.Policy{webIn(), webInEdited(), webInMoved(), dbNoShell()} {
				switch random.IntN(4) {
				case 0:
					l.engine.PutPolicy(p)
				case 1:
					l.engine.DeletePolicy(p.UID)
				}
			}
			always := inside()
			always.Generation = int64(10 + i)
			l.engine.PutPolicy(always)
			told(l, []string{"web-1", "web-2", "db-1", "ops-1"}[:random.IntN(4)]...)
		}})
	}
	for _, s := range append(stories(), randomStory) {
		l := newLab(t, s.cfg)
		p := &proofreader{Provider: l.accounts.account.Provider, T: t}
		l.accounts.account.Provider = p
		l.start()
		for _, ev := range s.events {
			if ev.do != nil {
				ev.do(l)
			}
			switch {
			case ev.modes != nil:
				l.since = l.options.Clock.Now()
				l.accounts.change(func(a *Account) {
					a.Modes = map[plan.VMRef]VMMode{}
					for name, m := range ev.modes {
						a.Modes[plan.VMRef{Region: l.vms[name].region, ID: l.vms[name].id}] = VMMode{Mode: m}
					}
				})
			case ev.release:
				l.deleted = true
				l.accounts.change(func(a *Account) { a.Releasing = true })
			}
			l.publish()
			l.settle()
		}
		if p.parts.Load() == 0 {
			t.Errorf("seed %d, %s: nothing was read in part", seed, s.name)
		}
		t.Logf("%s: %d readings in part, %d of a whole region", s.name, p.parts.Load(), p.wholes.Load())
		l.close()
	}
}

// TestRereadOnlyWhatIsKnown: everything is read whole where what was read before says too little.
func TestRereadOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{regions: []string{home, away}})
	l.accounts.observe(t.Context())
	r, err := New(l.options)
	if err != nil {
		t.Fatal(err)
	}
	acct, _ := l.accounts.Account(labAccount)
	w := newWorker(r, acct)
	id := l.groupNamed("web")
	read := func() observation {
		seen, err := w.observe(t.Context(), acct)
		if err != nil {
			t.Fatal(err)
		}
		seen.touched = map[string][]string{home: {id}}
		return seen
	}
	if _, ok := w.reread(t.Context(), acct, read()); !ok {
		t.Error("one group of one region is not read in part")
	}
	for name, spoil := range map[string]func(*observation, *Account){
		"nothing is known":    func(o *observation, _ *Account) { *o = observation{} },
		"an operation failed": func(o *observation, _ *Account) { o.touched = nil },
		"other credentials":   func(_ *observation, a *Account) { a.Provider = &proofreader{Provider: a.Provider} },
		"no partial reading": func(o *observation, a *Account) {
			a.Provider = struct{ cloud.Provider }{a.Provider}
			o.provider = a.Provider
		},
		"the account goes":      func(_ *observation, a *Account) { a.Releasing = true },
		"a region was not read": func(o *observation, _ *Account) { o.unread = map[string]error{away: nil} },
		"a region is new":       func(o *observation, _ *Account) { o.regions = o.regions[:1] },
		"another region": func(_ *observation, a *Account) {
			a.Snapshots = map[string]*cloud.Snapshot{home: a.Snapshots[home], "x": a.Snapshots[away]}
		},
		"too long ago":           func(*observation, *Account) { l.options.Clock.(warp).Step(rereadAge) },
		"the clock was set back": func(*observation, *Account) { l.options.Clock.(warp).Step(-time.Hour) },
		"the region is cut off":  func(*observation, *Account) { l.fault(ec2.Fault{Code: "Unavailable", Times: -1}) },
	} {
		seen, changed := read(), acct
		spoil(&seen, &changed)
		if _, ok := w.reread(t.Context(), changed, seen); ok {
			t.Errorf("%s: read in part", name)
		}
		l.server.Faults().Clear()
	}
}
