package realize

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
)

// newBrakedLab is a lab whose account holds what concerns at least two interfaces and more than
// half.
func newBrakedLab(t *testing.T, cfg labConfig) *lab {
	t.Helper()
	l := newLab(t, cfg)
	l.accounts.account.Brake = &plan.Brake{Percent: 50, Interfaces: 2}
	return l
}

// waits waits until the realizer has nothing else to do than to wait for a confirmation of what
// there is to do now, and returns what it waits with.
func (l *lab) waits() *plan.Waiting {
	l.Helper()
	var out *plan.Waiting
	l.until("it waits for a confirmation", func() bool {
		worker := l.realizer.worker(labAccount)
		if worker == nil {
			return false
		}
		mirrored, _, err := worker.mirror.Current()
		acct, _ := l.accounts.Account(labAccount)
		r, _ := l.realizer.Report(labAccount)
		out = r.Brake.Waiting
		if err != nil || r.Err != nil || out == nil || !r.Result.Plan.Empty() || r.Brake.Given != acct.Confirm ||
			!gocmp.Equal(l.published(), mirrored, wholeGroups, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion")) {
			return false
		}
		var regions []plan.Region
		for _, region := range slices.Sorted(maps.Keys(acct.Snapshots)) {
			limits, err := acct.Provider.Limits(l.Context(), acct.Snapshots[region].Scope)
			if err != nil {
				l.Fatal(err)
			}
			regions = append(regions, plan.Region{Snapshot: acct.Snapshots[region], Limits: limits})
		}
		p := plan.Compute(acct.PlanInput(l.options.ClusterID, mirrored, regions), lower.AWS{}).Protection
		return p.Hash(labAccount) == out.Hash
	})
	return out
}

// confirm puts a value into the annotation; "" removes it.
func (l *lab) confirm(hash string) {
	l.since = l.options.Clock.Now()
	l.accounts.change(func(a *Account) { a.Confirm = hash })
}

// spent waits until the confirmation is said to be used up.
func (l *lab) spent() {
	l.Helper()
	l.until("the confirmation is spent", func() bool {
		r, _ := l.realizer.Report(labAccount)
		acct, _ := l.accounts.Account(labAccount)
		return acct.Confirm != "" && r.Brake.Spent == acct.Confirm
	})
}

// enforced begins with all VMs under control, by confirmation, which is taken away then.
func (l *lab) enforced(policies ...policy.Policy) {
	l.Helper()
	for _, p := range policies {
		l.engine.PutPolicy(p)
	}
	l.publish()
	l.start()
	l.confirm(l.waits().Hash)
	l.settle()
	l.spent()
	l.confirm("")
	l.as(l.wanted())
}

// as expects verdicts.
func (l *lab) as(want verdicts) {
	l.Helper()
	if d := compare(l.actual(), want); d != "" {
		l.Fatal(d)
	}
}

// TestFirstImportWaits: a policy for all VMs is computed, told and not enforced before it is
// confirmed; what is small goes on.
func TestFirstImportWaits(t *testing.T) {
	t.Parallel()
	l := newBrakedLab(t, labConfig{})
	l.engine.PutPolicy(inside())
	l.publish()
	l.start()
	w := l.waits()
	if len(w.Guarded) != 4 || len(w.Released) != 0 || w.All != 4 || w.Control != 0 || l.mutations() != 0 {
		t.Fatalf("%+v after %d changes", w, l.mutations())
	}
	r, _ := l.realizer.Report(labAccount)
	if p := r.Result.Policies[0]; len(p.Suspended) != 4 || len(p.Realized)+len(p.Pending) != 0 || r.Result.VMs[0].Mode != plan.Braked || !r.RealizedAt.IsZero() {
		t.Errorf("%+v, %+v, realized %v", p, r.Result.VMs[0], r.RealizedAt)
	}
	for _, wrong := range []string{"yes", strings.Repeat("0", 16), w.Hash[:15]} {
		l.confirm(wrong)
		if again := l.waits(); again.Hash != w.Hash || l.mutations() != 0 {
			t.Fatalf("%q: %+v after %d changes", wrong, again, l.mutations())
		}
	}
	l.confirm(w.Hash)
	l.settle()
	l.as(l.wanted())
	l.spent()
}

// TestReleaseWaits: whatever would give most of the VMs back waits, and they stay exactly as they
// are; what is small, repairs, and other policies go on. With the confirmation they are given back.
func TestReleaseWaits(t *testing.T) {
	t.Parallel()
	deselect := func(names ...string) func(*lab) {
		return func(l *lab) {
			l.accounts.change(func(a *Account) {
				for _, name := range names {
					delete(a.Entities, plan.EntityRef{Namespace: labNamespace, Name: name})
					l.engine.DeleteEntity(entityRef(name))
				}
			})
		}
	}
	all := []string{"web-1", "web-2", "db-1", "ops-1"}
	for name, c := range map[string]struct {
		do       func(*lab)
		released int
	}{
		"policy deleted":      {func(l *lab) { l.engine.DeletePolicy(inside().UID) }, 4},
		"selector deleted":    {deselect(all...), 4},
		"most are deselected": {deselect("web-1", "web-2", "ops-1"), 3},
		"labels lost":         {func(l *lab) { l.relabel("web-1", "idle"); l.relabel("web-2", "idle"); l.relabel("ops-1", "idle") }, 3},
		"mode released":       {func(l *lab) { l.setModes(plan.Released, all...) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newBrakedLab(t, labConfig{})
			before := l.holdings().NICs
			l.enforced(inside())
			held := l.holdings().NICs
			c.do(l)
			l.publish()
			w := l.waits()
			if len(w.Released) != c.released || len(w.Guarded) != 0 {
				t.Fatalf("%d released, %d guarded", len(w.Released), len(w.Guarded))
			}
			if again := l.waits(); again.Hash != w.Hash {
				t.Errorf("%s is %s now", w.Hash, again.Hash)
			}
			now := l.holdings().NICs
			for _, r := range w.Released {
				if d := gocmp.Diff(held[r.ID], now[r.ID]); d != "" {
					t.Errorf("%s has changed:\n%s", r, d)
				}
			}
			l.confirm(w.Hash)
			l.settle()
			l.spent()
			now = l.holdings().NICs
			for _, r := range w.Released {
				if d := gocmp.Diff(before[r.ID], now[r.ID]); d != "" {
					t.Errorf("%s is not as it was:\n%s", r, d)
				}
			}
		})
	}
}

// TestOthersGoOn: while much waits, what is small is done, and what somebody breaks elsewhere is
// put right.
func TestOthersGoOn(t *testing.T) {
	t.Parallel()
	l := newBrakedLab(t, labConfig{})
	l.enforced(inside())
	for _, name := range []string{"web-1", "web-2", "ops-1"} {
		l.relabel(name, "idle")
	}
	l.publish()
	w := l.waits()
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.until("another policy is realized", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return slices.ContainsFunc(r.Result.Policies, func(p plan.PolicyStatus) bool { return p.Name == dbNoShell().Name && len(p.Realized) == 1 })
	})
	l.waits()
	guarded := l.actual()
	l.setGroups("db-1", l.groupNamed("db"))
	if compare(l.actual(), guarded) == "" {
		t.Fatal("it makes no difference")
	}
	l.accounts.observe(t.Context())
	l.until("what somebody did is undone", func() bool { return compare(l.actual(), guarded) == "" })
	if again := l.waits(); again.Hash != w.Hash || len(again.Released) != 3 {
		t.Errorf("%+v", again)
	}
}

// TestBrakeInTwoRegions: what is weighed is the account, not a region; a region that is taken out
// of the account is given back only when that is confirmed.
func TestBrakeInTwoRegions(t *testing.T) {
	t.Parallel()
	l := newBrakedLab(t, labConfig{regions: []string{home, away}})
	l.accounts.account.Brake = &plan.Brake{Percent: 20, Interfaces: 1}
	before := l.holdings().NICs
	l.enforced(everywhere())
	far := l.vms["far-1"].nic
	held := l.holdings().NICs[far]
	l.accounts.change(func(a *Account) { delete(a.Entities, plan.EntityRef{Namespace: labNamespace, Name: "far-1"}) })
	l.engine.DeleteEntity(entityRef("far-1"))
	l.publish()
	w := l.waits()
	if len(w.Released) != 1 || w.Control != 3 || w.Released[0].VM.Region != away || gocmp.Diff(held, l.holdings().NICs[far]) != "" {
		t.Fatalf("%+v", w)
	}
	l.confirm(w.Hash)
	l.settle()
	if d := gocmp.Diff(before[far], l.holdings().NICs[far]); d != "" {
		t.Error(d)
	}
}

// TestDeletionWaits: an account that is deleted is not given back before that is confirmed,
// whatever its credentials are, and however often the controller is started again.
func TestDeletionWaits(t *testing.T) {
	t.Parallel()
	l := newBrakedLab(t, labConfig{})
	before := l.holdings()
	l.enforced(inside())
	held := l.holdings()
	l.since = l.options.Clock.Now()
	l.accounts.change(func(a *Account) { a.Releasing = true })
	waits := func(when string) *plan.Waiting {
		t.Helper()
		w := l.waits()
		if len(w.Released) != 4 || l.realizer.Released(labAccount) {
			t.Fatalf("%s: %+v, released: %t", when, w, l.realizer.Released(labAccount))
		}
		if d := gocmp.Diff(held, l.holdings()); d != "" {
			t.Fatalf("%s: changed\n%s", when, d)
		}
		return w
	}
	first := waits("deleted")
	l.exchange()
	waits("with other credentials")
	l.halt()
	l.since = l.options.Clock.Now()
	l.start()
	if w := waits("after a restart"); w.Hash != first.Hash {
		t.Errorf("%s is %s after a restart", first.Hash, w.Hash)
	}
	l.deleted = true
	l.confirm(first.Hash)
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("not as before:\n%s", d)
	}
}

// TestBreakGlassIsNotHeld: neither on few nor on all VMs at once, and not if something waits.
func TestBreakGlassIsNotHeld(t *testing.T) {
	t.Parallel()
	l := newBrakedLab(t, labConfig{maxPerWave: 1})
	before := l.holdings().NICs
	l.enforced(inside())
	l.accounts.change(func(a *Account) { a.Brake = &plan.Brake{} })
	l.engine.DeletePolicy(inside().UID)
	l.publish()
	l.waits()
	l.setModes(plan.BreakGlass, "web-1", "web-2", "db-1", "ops-1")
	l.settle()
	if d := gocmp.Diff(before, l.holdings().NICs); d != "" {
		t.Error(d)
	}
}

// dying is a provider that does so many changes of interfaces and then fails.
type dying struct {
	cloud.Provider
	left atomic.Int32
}

func (d *dying) Apply(ctx context.Context, scope cloud.Scope, op cloud.Op) (string, error) {
	if op.Kind == cloud.OpSetInterfaceGroups && d.left.Add(-1) < 0 {
		return "", &cloud.Error{Class: cloud.Unavailable, Call: string(op.Kind), Err: fmt.Errorf("it is dead")}
	}
	return d.Provider.Apply(ctx, scope, op)
}

// TestConfirmedOverRestarts: a confirmed release goes on where it was when the controller is
// started again, in waves, and what is left of one that is confirmed no more waits.
func TestConfirmedOverRestarts(t *testing.T) {
	t.Parallel()
	for name, withdrawn := range map[string]bool{"goes on": false, "is withdrawn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newBrakedLab(t, labConfig{maxPerWave: 1})
			d := &dying{Provider: l.accounts.account.Provider}
			d.left.Store(1000)
			l.accounts.account.Provider = d
			before := l.holdings().NICs
			l.enforced(inside())
			l.engine.DeletePolicy(inside().UID)
			l.publish()
			w := l.waits()
			d.left.Store(1)
			l.confirm(w.Hash)
			l.until("it dies midway", func() bool {
				r, _ := l.realizer.Report(labAccount)
				back := 0
				for id, groups := range l.holdings().NICs {
					if slices.Equal(groups, before[id]) {
						back++
					}
				}
				return r.Err != nil && r.Brake.Confirmed == w.Hash && back == 2 // one in the other region, which is none of the account's
			})
			l.halt()
			d.left.Store(1000)
			if withdrawn {
				l.confirm("")
			}
			l.since = l.options.Clock.Now()
			l.start()
			if withdrawn {
				midway := l.holdings().NICs
				if w := l.waits(); len(w.Released) < 3 || gocmp.Diff(midway, l.holdings().NICs) != "" {
					t.Errorf("%+v", w)
				}
				return
			}
			l.settle()
			l.spent()
			if d := gocmp.Diff(before, l.holdings().NICs); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestConfirmationIsUsedUp: one that has served its purpose, or was there before there was anything
// to confirm, does not let the same change pass again, as long as it is not taken away and given
// anew.
func TestConfirmationIsUsedUp(t *testing.T) {
	t.Parallel()
	l := newBrakedLab(t, labConfig{})
	l.enforced(inside())
	l.engine.DeletePolicy(inside().UID)
	l.publish()
	hash := l.waits().Hash
	l.engine.PutPolicy(inside()) // called off
	l.publish()
	l.settle()
	l.confirm(hash)
	l.spent()
	held := l.holdings().NICs
	l.engine.DeletePolicy(inside().UID)
	l.publish()
	if w := l.waits(); w.Hash != hash || gocmp.Diff(held, l.holdings().NICs) != "" {
		t.Fatalf("%+v", w)
	}
	l.confirm("")
	l.waits()
	l.confirm(hash)
	l.settle()
	l.spent()
}
