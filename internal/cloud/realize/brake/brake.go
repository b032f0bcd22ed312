package brake

import (
	"maps"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

const (
	// lately is how long what has changed counts together with what changes now: labels that a
	// tool removes one after the other, or selectors that somebody deletes one after the other,
	// are one change.
	lately = 10 * time.Minute
	// proposals is how many of the last proposed changes are remembered, so that a user can confirm
	// one while VMs come and go.
	proposals = 8
)

// Asked is what an account says about its brake.
type Asked struct {
	// Account is "namespace/name".
	Account string
	// Brake bounds what is done at once without a confirmation; nil means no bound. Confirm is
	// the hash of what somebody has confirmed.
	Brake   *plan.Brake
	Confirm string
	// Regions are all of the account. Early is set while some are still to be read for the
	// first time.
	Regions []string
	Early   bool
}

// State is what the brake of an account does at present.
type State struct {
	// Waiting is what waits for a confirmation; nil if nothing does.
	Waiting *plan.Waiting
	// Confirmed is the hash of a confirmed change that is on its way, and Left how many
	// interfaces it still concerns; empty if there is none.
	Confirmed string
	Left      int
	// Given is the confirmation on the account. Spent is the same if it confirms nothing (any
	// more).
	Given, Spent string
	// Early is set while regions of the account are still to be read for the first time, so
	// that none of this is worth telling yet.
	Early bool
}

// flip is an interface that policies cease or begin to guard.
type flip struct {
	plan.InterfaceRef
	guard bool
}

// Brake holds what is too large a change of an account until somebody confirms it. See
// docs/decisions/0014-brake.md.
//
// Its memory is a convenience. After a restart a confirmation counts that fits what is to be
// guarded in the end, which is the same all along; what has changed lately is forgotten, and a
// change that was confirmed and has become another one meanwhile has to be confirmed again. The
// zero value knows nothing yet.
type Brake struct {
	// agreed is the change that agreedTo confirms, without what of it is done.
	agreed   map[flip]bool
	agreedTo string
	// spent is a confirmation that has served its purpose, or had none. It is worth nothing
	// until it has been away.
	spent string
	// held is what waits.
	held map[flip]bool
	// proposed are the last proposals since something has been waiting, the newest last.
	proposed []proposal
	// base is what the regions were like some time ago.
	base map[string]*baseline
	// state is the outcome of the last weighing.
	state State
}

// proposal is a change that was proposed for confirmation.
type proposal struct {
	hash  string
	flips map[flip]bool
}

// baseline is what was guarded in a region at some time, and what was there.
type baseline struct {
	at       time.Time
	now, all map[plan.InterfaceRef]bool
}

// State is the outcome of the last weighing.
func (b *Brake) State() State { return b.state }

// Weigh decides what of a change has to wait. Where nothing is known of the change, it leaves all
// as it was.
func (b *Brake) Weigh(now time.Time, a Asked, p *plan.Protection) State {
	if p != nil {
		b.weigh(now, a, p)
	}
	return b.state
}

func (b *Brake) weigh(now time.Time, a Asked, p *plan.Protection) {
	if a.Brake == nil {
		*b = Brake{}
		return
	}
	flips := flipsOf(p)
	whole := !slices.ContainsFunc(a.Regions, func(r string) bool { return !slices.Contains(p.Regions, r) })
	b.confirm(a, p, flips, whole)
	b.rebase(now, p)
	w := b.waiting(a, p, flips)
	b.state = State{Waiting: w, Given: a.Confirm, Early: a.Early}
	left := 0
	for t := range b.agreed {
		if flips[t] {
			left++
		}
	}
	switch {
	case left > 0:
		b.state.Confirmed, b.state.Left = b.agreedTo, left
	case whole && b.agreedTo != "":
		b.spent, b.agreedTo, b.agreed = b.agreedTo, "", nil
	case whole && w == nil:
		b.spent = a.Confirm
	}
	if b.spent != "" && b.spent == a.Confirm {
		b.state.Spent = b.spent
	}
}

func flipsOf(p *plan.Protection) map[flip]bool {
	out := map[flip]bool{}
	for _, r := range p.Released() {
		out[flip{r, false}] = true
	}
	for _, r := range p.Guarded() {
		out[flip{r, true}] = true
	}
	return out
}

// confirm finds out which change the confirmation on the account is about: one that was proposed,
// or the one that leads to what is to be guarded now, once the whole account is known. It covers
// that change and nothing that came later, and of it not what is done.
func (b *Brake) confirm(a Asked, p *plan.Protection, flips map[flip]bool, whole bool) {
	b.forgetDone(p)
	if a.Confirm != b.agreedTo {
		b.agreed, b.agreedTo = nil, ""
	}
	if a.Confirm != b.spent {
		b.spent = ""
	}
	if a.Confirm == "" || a.Confirm == b.spent || b.agreedTo != "" {
		return
	}
	if whole && len(flips) > 0 && a.Confirm == p.Hash(a.Account) {
		b.agreed, b.agreedTo = maps.Clone(flips), a.Confirm
		return
	}
	for _, x := range b.proposed {
		if x.hash == a.Confirm {
			b.agreed, b.agreedTo = maps.Clone(x.flips), a.Confirm
			b.forgetDone(p)
		}
	}
}

// forgetDone forgets what is done of a confirmed change. It does not count with what comes after
// it.
func (b *Brake) forgetDone(p *plan.Protection) {
	if len(b.agreed) == 0 {
		return
	}
	guarded := set(p.Now)
	maps.DeleteFunc(b.agreed, func(t flip, _ bool) bool {
		done := slices.Contains(p.Regions, t.VM.Region) && guarded[t.InterfaceRef] == t.guard
		if base := b.base[t.VM.Region]; done && base != nil {
			base.now[t.InterfaceRef] = t.guard
		}
		return done
	})
}

// rebase makes what is there now the base of regions of which nothing is known, or something old.
// While something waits because of what was done before, the base stays, so that it does not pass
// by waiting.
func (b *Brake) rebase(now time.Time, p *plan.Protection) {
	if b.base == nil {
		b.base = map[string]*baseline{}
	}
	needed := b.state.Waiting != nil && b.state.Waiting.Gradual
	fresh := map[string]*baseline{}
	for _, region := range p.Regions {
		if old := b.base[region]; old == nil || !needed && now.Sub(old.at) > lately {
			fresh[region] = &baseline{now, map[plan.InterfaceRef]bool{}, map[plan.InterfaceRef]bool{}}
			b.base[region] = fresh[region]
		}
	}
	for _, r := range p.Now {
		if x := fresh[r.VM.Region]; x != nil {
			x.now[r] = true
		}
	}
	for _, r := range p.All {
		if x := fresh[r.VM.Region]; x != nil {
			x.all[r] = true
		}
	}
}

// waiting weighs what is not confirmed, what is given back and what is taken each for itself. What
// waits is proposed.
func (b *Brake) waiting(a Asked, p *plan.Protection, flips map[flip]bool) *plan.Waiting {
	then := set(p.Then)
	given, taken := &scale{brake: *a.Brake}, &scale{brake: *a.Brake}
	given.of, taken.of, taken.ofBase = len(p.Now), len(p.All), len(p.All)
	for _, r := range p.All {
		base := b.base[r.VM.Region]
		f := flip{r, then[r]}
		if base.now[r] {
			given.ofBase++
		}
		on := given
		if f.guard {
			on = taken
		}
		switch since := base.now[r] != f.guard && (!f.guard || base.all[r]); {
		case b.agreed[f]:
		case flips[f]:
			on.add(r, b.held[f], since)
		case since:
			on.done++
		}
	}
	w := &plan.Waiting{Account: a.Account, Brake: *a.Brake, Control: len(p.Now), All: len(p.All)}
	gradual := [2]bool{}
	w.Released, gradual[0] = given.waits()
	w.Guarded, gradual[1] = taken.waits()
	w.Gradual = gradual[0] || gradual[1]
	b.held = map[flip]bool{}
	for _, r := range w.Released {
		b.held[flip{r, false}] = true
	}
	for _, r := range w.Guarded {
		b.held[flip{r, true}] = true
	}
	switch {
	case len(b.held) == 0:
		b.proposed = nil
		return nil
	case len(w.Guarded) > 0:
		w.Refused = p.Refused
	}
	w.Hash = p.Hash(a.Account)
	b.proposed = slices.DeleteFunc(b.proposed, func(x proposal) bool { return x.hash == w.Hash })
	b.proposed = append(b.proposed, proposal{w.Hash, flips})
	b.proposed = b.proposed[max(0, len(b.proposed)-proposals):]
	return w
}

// scale weighs what is given back, or what is taken.
type scale struct {
	brake plan.Brake
	// held are those that waited before, and fresh those that have come since.
	held, fresh []plan.InterfaceRef
	// done, heldSince and freshSince count those for which it is a change since the base: one
	// that is done, and of held and fresh.
	done, heldSince, freshSince int
	// of is how many there are, and ofBase how many there were.
	of, ofBase int
}

func (s *scale) add(r plan.InterfaceRef, held, since bool) {
	n := 0
	if since {
		n = 1
	}
	if held {
		s.held, s.heldSince = append(s.held, r), s.heldSince+n
	} else {
		s.fresh, s.freshSince = append(s.fresh, r), s.freshSince+n
	}
}

// waits returns those that have to wait, by themselves or together with what is done since the
// base. What comes while others wait is weighed without these, so that a new VM need not wait for
// them.
func (s *scale) waits() (out []plan.InterfaceRef, gradual bool) {
	over := func(n, since int) bool {
		alone := s.brake.Holds(n, s.of)
		gradual = gradual || !alone && n > 0 && s.brake.Holds(since, s.ofBase)
		return alone || n > 0 && s.brake.Holds(since, s.ofBase)
	}
	if over(len(s.held), s.done+s.heldSince) {
		out = s.held
		if over(len(s.fresh), s.done+s.freshSince) {
			out = append(out, s.fresh...)
		}
	} else if all := append(s.held, s.fresh...); over(len(all), s.done+s.heldSince+s.freshSince) {
		out = all
	}
	slices.SortFunc(out, plan.InterfaceRef.Compare)
	return out, gradual
}

func set(refs []plan.InterfaceRef) map[plan.InterfaceRef]bool {
	out := make(map[plan.InterfaceRef]bool, len(refs))
	for _, r := range refs {
		out[r] = true
	}
	return out
}
