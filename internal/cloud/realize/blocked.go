package realize

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

const (
	// longestBlock is how long an interface that the cloud refuses to change is left alone at
	// most. What puts it right, such as another policy in the cloud, does not tell us.
	longestBlock = 10 * time.Minute
	// mostBlocked is how many interfaces and groups the cloud may refuse to change in one
	// round. If there are more, something is wrong that is no matter of single ones.
	mostBlocked = 64
)

// errBlocked ends a plan in which the cloud refused to change some interfaces. The next one leaves
// them out.
var errBlocked = &cloud.Error{Class: cloud.Conflict, Err: errors.New("the cloud refuses to change some interfaces, which are left out now")}

// blocked is an interface that the cloud refuses to change.
type blocked struct {
	why string
	// groups are those whose rules the cloud refuses, as far as that is the reason.
	groups []string
	pause  time.Duration
	until  time.Time
}

// blocks are the interfaces that the cloud refuses to change. They are left out of plans for a
// pause that grows, and then tried again. A restart tries them at once.
type blocks struct {
	mu sync.Mutex
	at map[plan.InterfaceKey]*blocked
	// fresh counts the refusals in this round.
	fresh int
}

// active are those to be left out now, with the cloud's words.
func (b *blocks) active(now time.Time) map[plan.InterfaceKey]string {
	return b.words(func(x *blocked) bool { return x.until.After(now) })
}

// all are those that were refused and have not been changed since, with the cloud's words.
func (b *blocks) all() map[plan.InterfaceKey]string {
	return b.words(func(*blocked) bool { return true })
}

// groups are those whose rules the cloud refuses to change, as far as interfaces are to be left out
// for them now.
func (b *blocks) groups(now time.Time) map[plan.GroupKey]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[plan.GroupKey]bool{}
	for key, x := range b.at {
		if x.until.After(now) {
			for _, id := range x.groups {
				out[plan.GroupKey{Region: key.Region, ID: id}] = true
			}
		}
	}
	return out
}

func (b *blocks) words(of func(*blocked) bool) map[plan.InterfaceKey]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out map[plan.InterfaceKey]string
	for key, x := range b.at {
		if of(x) {
			if out == nil {
				out = map[plan.InterfaceKey]string{}
			}
			out[key] = x.why
		}
	}
	return out
}

// count counts a refusal in this round, and reports whether there are too many of them.
func (b *blocks) count() (tooMany bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh++
	return b.fresh > mostBlocked
}

// add notes that an interface is refused, because of the rules of a group unless that is empty. It
// may have several such groups: none is tried again before the pause is over.
func (b *blocks) add(key plan.InterfaceKey, why, group string, now time.Time, most time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[plan.InterfaceKey]*blocked{}
	}
	x := b.at[key]
	if x == nil {
		x = &blocked{}
		b.at[key] = x
	}
	if !x.until.After(now) {
		x.groups = nil
	}
	if group != "" && !slices.Contains(x.groups, group) {
		x.groups = append(x.groups, group)
	}
	x.why, x.pause = why, min(max(2*x.pause, firstPause), most)
	x.until = now.Add(x.pause)
}

// changed forgets interfaces that were changed.
func (b *blocks) changed(region string, ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		delete(b.at, plan.InterfaceKey{Region: region, ID: id})
	}
}

// begin starts a round, and end forgets at its end those that need no change any more: they are not
// left out, and yet nothing is left to do.
func (b *blocks) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = 0
}

func (b *blocks) end(leftOut map[plan.InterfaceKey]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.at {
		if _, out := leftOut[key]; !out {
			delete(b.at, key)
		}
	}
}

// next is how long it takes until one is to be tried again; 0 if there is none.
func (b *blocks) next(now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.at {
		if left := max(x.until.Sub(now), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// refuses tells the errors by which the cloud refuses a change of one object, however often it is
// asked: for want of a right, because of a quota, or because of what the object is like.
func refuses(err error) bool {
	c := cloud.ClassOf(err)
	return c == cloud.Auth || c == cloud.Quota || c == cloud.Terminal
}

// isolated deals with a step that failed: the interfaces that the cloud refuses to change, or that
// need a group that it refuses to change, are noted, so that the rest can go on without them. A
// call about several is repeated for each.
func (e *execution) isolated(ctx context.Context, step plan.Step, op cloud.Op, err error) error {
	if !refuses(err) {
		return err
	}
	ids := step.Interfaces()
	if len(ids) == 0 {
		return e.withoutGroup(step, op, err)
	}
	tooMany := false
	for _, id := range ids {
		why := err
		if len(ids) > 1 {
			one := step.Op
			one.Target, one.Others = id, nil
			if _, why = e.patiently(ctx, step.Scope, one); why == nil {
				continue
			}
			if !refuses(why) {
				return why
			}
		}
		e.w.r.Log.Error(why, "The cloud refuses to change an interface, which is left alone for a while", "account", e.w.key, "region", step.Scope.Region, "interface", id)
		e.block(step, id, cloud.FailureText(why), "")
		tooMany = e.w.blocks.count() || tooMany
	}
	if tooMany {
		return err
	}
	return errBlocked
}

// block leaves an interface alone for a while.
func (e *execution) block(step plan.Step, id, why, group string) {
	most := longestBlock
	if step.Urgent {
		most = longestWait
	}
	e.w.blocks.add(plan.InterfaceKey{Region: step.Scope.Region, ID: id}, why, group, e.w.r.Clock.Now(), most)
}

// withoutGroup deals with the rules of a group that the cloud refuses, as a policy of the cloud may
// do for what they allow: the interfaces that hold the group, or are to hold it, stay as they are,
// and the rest goes on. Where the plan is about nothing else, that the group is refused is what is
// to be said of the account.
func (e *execution) withoutGroup(step plan.Step, op cloud.Op, err error) error {
	var x *cloud.Error
	switch {
	case errors.As(err, &x) && x.Class == cloud.Auth && !x.Denied, op.Target == "":
		return err
	case op.Kind != cloud.OpSetRules && op.Kind != cloud.OpAddRules && op.Kind != cloud.OpReplaceRules:
		return err
	}
	need, others := plan.Needing(e.steps, step, op.Target, e.seen[step.Scope.Region])
	if !others || len(need) == 0 {
		return err
	}
	e.w.r.Log.Error(err, "The cloud refuses the rules of a group, whose interfaces are left alone for a while", "account", e.w.key, "region", step.Scope.Region, "group", op.Subject(),
		"interfaces", len(need))
	for _, id := range need {
		e.block(step, id, "the rules of its group "+op.Subject()+": "+cloud.FailureText(err), op.Target)
	}
	if e.w.blocks.count() {
		return err
	}
	return errBlocked
}

// stillBlocked says of policies on VMs whose interfaces are being tried again what it was that the
// cloud said, until they are changed: that something is tried is no news.
func (w *worker) stillBlocked(res *plan.Result) {
	refused := w.blocks.all()
	if len(refused) == 0 {
		return
	}
	var moved []plan.VMStatus
	for i := range res.VMs {
		vm := &res.VMs[i]
		why := ""
		for _, n := range vm.Interfaces {
			if text := refused[plan.InterfaceKey{Region: vm.VM.Region, ID: n.ID}]; text != "" && why == "" {
				why = "the cloud refuses to change the interface " + n.ID + ": " + text
			}
		}
		if why == "" || vm.Mode != plan.Enforce {
			continue
		}
		now := plan.VMStatus{VM: vm.VM}
		for k := range vm.Policies {
			if p := &vm.Policies[k]; !p.Realized && p.Message == "" {
				p.Message = why
				now.Policies = append(now.Policies, *p)
			}
		}
		if len(now.Policies) > 0 {
			moved = append(moved, now)
		}
	}
	for i := range res.Policies {
		p := &res.Policies[i]
		for _, vm := range moved {
			if slices.ContainsFunc(vm.Policies, func(on plan.VMPolicy) bool { return on.PolicyRef == p.PolicyRef }) {
				p.Pending = slices.DeleteFunc(p.Pending, func(ref plan.VMRef) bool { return ref == vm.VM })
			}
		}
	}
	join(&plan.Result{Policies: res.Policies}, moved)
}
