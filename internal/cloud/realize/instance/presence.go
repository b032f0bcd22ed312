package instance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Subject is the account that a Presence is about, and the process that works on it. All fields are
// required.
type Subject struct {
	// Account is "namespace/name", and ClusterID marks what is ours in its cloud.
	Account, ClusterID string
	Clock              clock.Clock
	Log                logr.Logger
	Metrics            Metrics
	// View returns what is known of the account now; false if there is no such account any
	// more.
	View func() (View, bool)
	// Halt breaks off what is being written, and Wake says that more may be written than
	// before. Neither may block.
	Halt, Wake func()
}

// View is what a Presence has to know of an account.
type View struct {
	// Provider is nil while the account has none.
	Provider  cloud.Provider
	Snapshots map[string]*cloud.Snapshot
	// TakeOver is the epoch of the instance that this one is to replace in the account; empty if
	// there is none.
	TakeOver string
	// OnlyPlanned promises that nothing is written: every VM of the account is in mode plan.
	OnlyPlanned bool
}

// Metrics counts what presences find. Its methods may be called at any time.
type Metrics interface {
	// Heartbeat counts a mark that was written, or could not be.
	Heartbeat(account string, err error)
	// SoleWriter reports whether this process is the only writer of an account.
	SoleWriter(account string, sole bool)
}

// Presence shows in the cloud that this process works on an account, and finds out whether another
// instance with the same cluster id does. Nothing may be written to the account unless May says so,
// at every step. All methods work on nil, which may everything.
//
// Run is its goroutine; the other methods may be called at any time.
type Presence struct {
	Subject
	g Places
	// rules holds the rules of this process.
	rules tenure.Rules
	// kicked has room for one token: there is a reason to look before the time.
	kicked chan struct{}

	// turn is held while the marks of the account are read and written, and while a claim is
	// made or given up: otherwise a network could be marked that has just been let go.
	turn sync.Mutex

	mu     sync.Mutex
	tenure *tenure.Tenure // nil until the cluster's record is known
	// looked is true after all regions were read once, or have failed.
	looked bool
	// places are the regions with networks that the cluster claims, as far as is known.
	places map[string]bool
	// asked is Account.TakeOver as it was last seen.
	asked string
	// barred are the regions for which somebody waits to write, with the networks that have to
	// be ours.
	barred map[string][]string
	// left are networks that were given up a moment ago; the cloud may still show them as
	// claimed.
	left map[tenure.Network]time.Time
	// slow counts the readings in a row of a region that took too long; pause is the pause
	// after the last failure, which turn guards.
	slow  map[string]int
	pause time.Duration
	// refused says when marking was refused in a region.
	refused map[string]time.Time
	failing map[string]string
	shown   Sole
	// stopped is the stop that was last exchanged with the registrar.
	stopped string
}

const (
	// leaving is how long a network that was given up is not marked even if it looks claimed.
	leaving = 30 * time.Second
	// refusedPause is after what time it is tried again to mark networks where that was
	// refused.
	refusedPause = 5 * time.Minute
	// presencePause is the first pause after a failed reading or mark; the next ones are
	// longer.
	presencePause = time.Second
	// mostSlow is how many slow readings in a row keep a network from being marked that is not
	// ours yet.
	mostSlow = 3
)

// NewPresence returns a Presence that has not looked yet; nil without places.
func NewPresence(g Places, of Subject) *Presence {
	if g == nil {
		return nil
	}
	return &Presence{Subject: of, g: g, rules: g.rules(), kicked: make(chan struct{}, 1), places: map[string]bool{}, barred: map[string][]string{},
		left: map[tenure.Network]time.Time{}, slow: map[string]int{}, refused: map[string]time.Time{}, failing: map[string]string{}}
}

// Run looks until ctx ends.
func (p *Presence) Run(ctx context.Context) {
	if p == nil {
		return
	}
	for {
		wait := p.Cycle(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.kicked:
		case <-p.Clock.After(wait):
		}
	}
}

// Kick makes it look soon.
func (p *Presence) Kick() {
	if p != nil {
		put(p.kicked)
	}
}

// Notice makes it look soon if the account is another in a way that concerns it.
func (p *Presence) Notice(a View) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	news := a.TakeOver != p.asked
	for region, s := range a.Snapshots {
		news = news || !p.places[region] && len(p.claimed(s)) > 0
	}
	if news {
		put(p.kicked)
	}
}

// claimed are the networks of a snapshot that the cluster claims.
func (p *Presence) claimed(s *cloud.Snapshot) (ids []string) {
	for i := range s.Networks {
		if s.Networks[i].Tags[cloud.TagClaim] == p.ClusterID {
			ids = append(ids, s.Networks[i].ID)
		}
	}
	return ids
}

// May reports whether a region may be written to now, where these networks are claimed, as far as
// is known.
func (p *Presence) May(region string, claimed ...string) bool {
	if p == nil {
		return true
	}
	now := p.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looked && p.g.writes(p.Account) && p.tenure.May(region, now, claimed...)
}

// Cycle reads the marks of the account and writes ours where that is right. It returns after what
// time at the latest to look again.
func (p *Presence) Cycle(ctx context.Context) time.Duration {
	if p == nil {
		return 0
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	rules := p.rules
	wait := rules.Beat() * 5 / 4 // the registrar kicks before that
	is := p.g.at(p.Account)
	acct, exists := p.View()
	if !exists || !is.known {
		return wait
	}
	p.prepare(acct, is)
	regions := p.regions(acct)
	var wg sync.WaitGroup
	errs := make([]error, len(regions))
	for i, region := range regions {
		wg.Go(func() { errs[i] = recovered.Call(func() error { return p.visit(ctx, acct, region, is) }) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return wait
	}
	if errors.Join(errs...) != nil {
		p.pause = max(2*p.pause, presencePause)
		wait = min(wait, p.pause)
	} else {
		p.pause = 0
	}
	next := p.conclude(acct)
	if !next.IsZero() {
		wait = min(wait, max(next.Sub(p.Clock.Now()), time.Millisecond))
	}
	return wait
}

// prepare brings the tenure in line with what the cluster's record and the account say.
func (p *Presence) prepare(acct View, is standing) {
	now := p.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	stopped := is.stopped[p.Account]
	if p.tenure == nil || !is.leading && stopped != "" && p.tenure.StoppedBy() == "" { // the process that leads has found somebody
		p.stopped = stopped
		p.tenure = tenure.New(p.rules, is.before, stopped)
	}
	p.tenure.Know(is.before)
	p.asked = acct.TakeOver
	if p.tenure.TakeOver(acct.TakeOver, now) {
		p.Log.Info("Taking the account over from another instance, as it was told to", "account", p.Account, "epoch", p.rules.Epoch, "from", acct.TakeOver)
	}
}

// regions are those to read: where something is claimed. An account in which nothing may be written
// is left alone.
func (p *Presence) regions(acct View) []string {
	if acct.Provider == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if acct.OnlyPlanned && len(p.barred) == 0 {
		return nil
	}
	all := maps.Clone(p.places)
	for region, s := range acct.Snapshots {
		all[region] = all[region] || len(p.claimed(s)) > 0
	}
	for region, claimed := range p.barred {
		all[region] = all[region] || len(claimed) > 0
	}
	maps.DeleteFunc(all, func(_ string, there bool) bool { return !there })
	return slices.Sorted(maps.Keys(all))
}

// visit reads the marks of a region and writes ours.
func (p *Presence) visit(ctx context.Context, acct View, region string, is standing) error {
	scope := cloud.Scope{Account: p.Account, Region: region}
	from := p.Clock.Now()
	networks, err := networksOf(ctx, acct.Provider, scope)
	if p.failed(ctx, region, "read", err) {
		return err
	}
	to := p.Clock.Now()
	marks := map[string]string{}
	p.mu.Lock()
	for _, n := range networks {
		at := tenure.Network{Region: region, ID: n.ID}
		if since, gone := p.left[at]; gone && to.Sub(since) > leaving {
			delete(p.left, at)
		}
		if _, gone := p.left[at]; n.Tags[cloud.TagClaim] == p.ClusterID && !gone {
			marks[n.ID] = n.Tags[cloud.TagInstance]
		}
	}
	p.places[region] = len(marks) > 0
	p.tenure.Read(region, from, to, marks)
	if waiting, barred := p.barred[region]; barred {
		p.barred[region] = slices.DeleteFunc(waiting, func(id string) bool { _, claimed := marks[id]; return !claimed })
	}
	// A process that reads so slowly might overwrite a mark that came meanwhile. But a process that
	// is always slow has to go on: the other one sees what it overwrites.
	hesitate := to.Sub(from) > p.rules.Pause && !p.tenure.Ours(region) && p.slow[region] < mostSlow
	p.slow[region]++
	if !hesitate {
		p.slow[region] = 0
	}
	p.mu.Unlock()
	if hesitate {
		return errSlow
	}
	return p.mark(ctx, acct.Provider, scope, is)
}

var errSlow = errors.New("reading took too long")

// networksOf reads the networks of a region.
func networksOf(ctx context.Context, provider cloud.Provider, scope cloud.Scope) ([]cloud.Network, error) {
	if lister, able := provider.(cloud.NetworkLister); able {
		return lister.Networks(ctx, scope)
	}
	s, err := provider.Observe(ctx, scope)
	if err != nil {
		return nil, err
	}
	return s.Networks, nil
}

// mark writes our mark on the networks of a region that are to have it.
func (p *Presence) mark(ctx context.Context, provider cloud.Provider, scope cloud.Scope, is standing) error {
	region := scope.Region
	p.mu.Lock()
	ids := p.tenure.ToMark(region)
	since, refused := p.refused[region]
	refused = refused && !p.tenure.Ours(region) // a mark of ours that stands still would soon be taken for that of a dead one
	p.mu.Unlock()
	if !is.leading || is.deposed || len(ids) == 0 {
		return nil
	}
	if refused && p.Clock.Since(since) < refusedPause {
		p.mu.Lock()
		p.tenure.Refused(region, ids...)
		p.mu.Unlock()
		return nil
	}
	_, err := provider.Apply(ctx, scope, cloud.Op{Kind: cloud.OpTag, Target: ids[0], Others: slices.Clip(ids[1:]),
		Tags: map[string]string{cloud.TagInstance: is.mark.String()}, Reason: "this instance works here"})
	p.Metrics.Heartbeat(p.Account, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && refusal(err) {
		p.refused[region] = p.Clock.Now()
		p.tenure.Refused(region, ids...)
		p.say(region, "mark", err, "Networks cannot be marked, so that other instances do not see this one; policies are enforced all the same")
		return nil
	}
	// A call that failed may have taken effect; the next reading tells.
	p.tenure.Marked(region, p.Clock.Now(), ids...)
	if err == nil {
		delete(p.refused, region)
		delete(p.failing, region+" mark")
		return nil
	}
	if ctx.Err() == nil {
		p.say(region, "mark", err, "Networks could not be marked, will be repeated")
	}
	return err
}

// refusal reports whether an error will be the same the next time.
func refusal(err error) bool {
	c := cloud.ClassOf(err)
	return c == cloud.Auth || c == cloud.Quota || c == cloud.Terminal
}

// failed reports whether there is an error, and logs it.
func (p *Presence) failed(ctx context.Context, region, what string, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.failing, region+" "+what)
		return false
	}
	if ctx.Err() == nil {
		p.say(region, what, err, "The marks of networks cannot be read; nothing is written while that is so for longer than a heartbeat")
	}
	return true
}

// say logs a failure, once for each reason. It needs mu.
func (p *Presence) say(region, what string, err error, text string) {
	if kind := cloud.FailureKind(err); p.failing[region+" "+what] != kind {
		p.failing[region+" "+what] = kind
		p.Log.Error(err, text, "account", p.Account, "region", region)
	}
}

// conclude lets everybody know what was found, and returns when something may be found next.
func (p *Presence) conclude(acct View) (next time.Time) {
	now := p.Clock.Now()
	var sole, was Sole
	var changed, wake, writes bool
	recovered.Holding(&p.mu, func() {
		p.looked = true
		sole, was = p.sole(acct, now), p.shown
		changed = sole != was
		p.shown = sole
		wake = changed
		writes = p.g.writes(p.Account)
		for region, claimed := range p.barred {
			if writes && p.tenure.May(region, now, claimed...) {
				delete(p.barred, region)
				wake = true
			}
		}
		if by := p.tenure.StoppedBy(); by != p.stopped {
			p.stopped = by
			p.g.Stop(p.Account, by)
		}
		next = p.tenure.Next()
	})
	if !writes || sole.State != tenure.Sole {
		p.Halt()
	}
	if changed {
		p.tell(was, sole)
	}
	if wake {
		p.Wake()
	}
	return next
}

// tell logs what has changed, and counts.
func (p *Presence) tell(was, is Sole) {
	p.Metrics.SoleWriter(p.Account, is.State == tenure.Sole)
	if is.State != was.State || is.Other != was.Other {
		switch is.State {
		case tenure.Stopped:
			p.Log.Error(nil, is.Text(p.Account), "account", p.Account, "epoch", is.Epoch, "other", is.Other)
		case tenure.Waiting:
			p.Log.Info(is.Text(p.Account), "account", p.Account, "epoch", is.Epoch, "other", is.Other)
		}
	}
	if is.Succeeded != was.Succeeded && is.Succeeded != "" {
		p.Log.Info("Took the account over from an instance whose mark stood still", "account", p.Account, "epoch", is.Epoch, "from", is.Succeeded)
	}
}

// sole is what there is to be told about the account. It needs mu.
func (p *Presence) sole(acct View, now time.Time) Sole {
	out := Sole{State: p.tenure.State(now), Epoch: p.rules.Epoch, Unmarked: p.tenure.Unmarked(), Succeeded: p.tenure.Succeeded(), Asked: acct.TakeOver}
	if out.State != tenure.Sole {
		var at tenure.Network
		out.Other, at = p.tenure.Other()
		out.Region, out.Network = at.Region, at.ID
	} else if is := p.g.at(p.Account); !is.leading && len(is.before.Line) > 0 {
		out.State, out.Other = tenure.Waiting, is.before.Line[0].Epoch
	}
	out.Present = slices.Contains(slices.Collect(maps.Values(p.places)), true)
	return out
}

// Sole is what the last look has shown.
func (p *Presence) Sole() Sole {
	if p == nil {
		return Sole{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown
}

// Permitted returns the part of a plan that may be applied now, and why the rest has to wait; it
// May be all or nothing of it.
func (p *Presence) Permitted(pl plan.Plan, seen []*cloud.Snapshot) (plan.Plan, error) {
	if p == nil {
		return pl, nil
	}
	claimed := map[string][]string{}
	p.mu.Lock()
	for _, s := range seen {
		claimed[s.Region] = slices.DeleteFunc(p.claimed(s), func(id string) bool {
			_, gone := p.left[tenure.Network{Region: s.Region, ID: id}]
			return gone
		})
	}
	p.mu.Unlock()
	open := map[string]bool{}
	for _, s := range pl.Steps {
		region := s.Scope.Region
		if _, asked := open[region]; asked {
			continue
		}
		if open[region] = p.May(region, claimed[region]...); !open[region] {
			p.mu.Lock()
			p.barred[region] = claimed[region]
			p.mu.Unlock()
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(open)), false) {
		return pl, nil
	}
	p.Kick()
	out := plan.Plan{Account: pl.Account, Partial: true}
	for _, s := range pl.Steps {
		if open[s.Scope.Region] {
			out.Steps = append(out.Steps, s)
		}
	}
	if is := p.Sole(); is.State == tenure.Stopped {
		return out, &stoppedError{is.Text(p.Account)}
	}
	return out, nil
}

// stoppedError says that nothing is written because somebody else does.
type stoppedError struct{ text string }

func (e *stoppedError) Error() string { return e.text }

// Claims marks the networks that the plan has just claimed.
func (p *Presence) Claims(ctx context.Context, provider cloud.Provider, claims plan.Plan) {
	if p == nil {
		return
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	regions := map[string][]string{}
	for _, s := range claims.Steps {
		regions[s.Scope.Region] = append(regions[s.Scope.Region], s.Op.Target)
	}
	is := p.g.at(p.Account)
	for _, region := range slices.Sorted(maps.Keys(regions)) {
		p.mu.Lock()
		if p.tenure == nil {
			p.mu.Unlock()
			return
		}
		for _, id := range regions[region] {
			delete(p.left, tenure.Network{Region: region, ID: id})
		}
		p.places[region] = true
		p.tenure.Claimed(region, p.Clock.Now(), regions[region]...)
		p.mu.Unlock()
		// What goes wrong is repeated by the next cycle, and until the mark stands nothing
		// else is written.
		_ = p.mark(ctx, provider, cloud.Scope{Account: p.Account, Region: region}, is)
	}
}

// LetGo adds to the operation that gives up a claim that the mark goes too. The function that it
// returns is to be called when it was tried; until then no network is marked.
func (p *Presence) LetGo(region string, op cloud.Op) (cloud.Op, func(error)) {
	if p == nil || op.Kind != cloud.OpUntag || op.Tags[cloud.TagClaim] == "" {
		return op, func(error) {}
	}
	p.turn.Lock()
	p.mu.Lock()
	marked := p.tenure == nil || p.tenure.Carries(tenure.Network{Region: region, ID: op.Target})
	p.mu.Unlock()
	if marked { // where marking was always refused, to remove a mark would be refused too
		op.Tags = maps.Clone(op.Tags)
		op.Tags[cloud.TagInstance] = ""
	}
	return op, func(err error) {
		if err == nil {
			p.mu.Lock()
			p.left[tenure.Network{Region: region, ID: op.Target}] = p.Clock.Now()
			p.mu.Unlock()
		}
		p.turn.Unlock()
	}
}
