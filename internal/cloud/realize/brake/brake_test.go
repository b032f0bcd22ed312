package brake

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

const (
	labAccount = "vms/shop"
	home, away = "eu-west-1", "us-east-1"
)

// weighing is a brake with an account of VMs that it may hold, by number.
type weighing struct {
	*testing.T
	Brake
	acct Asked
	now  time.Time
	all  []int
	held map[int]bool // what policies guard
	// unread are regions that are not read.
	unread map[string]bool
}

func newWeighing(t *testing.T, all, held int) *weighing {
	w := &weighing{T: t, now: time.Unix(1_000_000, 0), held: map[int]bool{}, unread: map[string]bool{},
		acct: Asked{Account: labAccount, Regions: []string{home, away}, Brake: &plan.Brake{Percent: 50, Interfaces: 20}}}
	for i := range all {
		w.all = append(w.all, i)
	}
	for i := range held {
		w.held[i] = true
	}
	w.weighs(0, w.list()...)
	return w
}

// list are the numbers of those that are guarded.
func (w *weighing) list() []int { return slices.Sorted(maps.Keys(w.held)) }

func span(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// ref puts every tenth VM into the other region.
func ref(i int) plan.InterfaceRef {
	region := home
	if i%10 == 9 {
		region = away
	}
	return plan.InterfaceRef{VM: plan.VMRef{Region: region, ID: fmt.Sprintf("i-%04d", i)}, ID: fmt.Sprintf("eni-%04d", i)}
}

func (w *weighing) refs(numbers []int) (out []plan.InterfaceRef) {
	for _, i := range numbers {
		if r := ref(i); !w.unread[r.VM.Region] {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, plan.InterfaceRef.Compare)
	return out
}

func (w *weighing) protection(then []int) *plan.Protection {
	p := &plan.Protection{All: w.refs(w.all), Now: w.refs(w.list()), Then: w.refs(then)}
	for _, r := range w.acct.Regions {
		if !w.unread[r] {
			p.Regions = append(p.Regions, r)
		}
	}
	return p
}

// weighs expects that so many have to wait on the way to what is to be guarded then, and does at
// most that many of the rest: all if it is negative.
func (w *weighing) weighs(waiting int, then ...int) *plan.Waiting {
	w.Helper()
	return w.partly(-1, waiting, then...)
}

func (w *weighing) partly(most, waiting int, then ...int) *plan.Waiting {
	w.Helper()
	w.now = w.now.Add(time.Second)
	p := w.protection(then)
	w.Weigh(w.now, w.acct, p)
	x := w.state.Waiting
	if x == nil {
		x = &plan.Waiting{}
	}
	if got := len(x.Released) + len(x.Guarded); got != waiting {
		w.Fatalf("%d wait (%d to be released, %d to be guarded, gradually: %t), want %d", got, len(x.Released), len(x.Guarded), x.Gradual, waiting)
	}
	byRef := map[plan.InterfaceRef]int{}
	for _, i := range w.all {
		byRef[ref(i)] = i
	}
	for _, r := range slices.Concat(p.Released(), p.Guarded()) {
		if !x.VMs()[r.VM] && most != 0 {
			most--
			if i := byRef[r]; w.held[i] {
				delete(w.held, i)
			} else {
				w.held[i] = true
			}
		}
	}
	return w.state.Waiting
}

func (w *weighing) expect(confirmed, spent bool) {
	w.Helper()
	if (w.state.Confirmed != "") != confirmed || (w.state.Spent != "") != spent {
		w.Fatalf("%+v, want confirmed %t, spent %t", w.state, confirmed, spent)
	}
}

// TestConfirmedRunsToItsEnd: a confirmed change goes on in whatever steps, the confirmation is used
// up then, and does not serve a second time.
func TestConfirmedRunsToItsEnd(t *testing.T) {
	for name, restarts := range map[string]bool{"one process": false, "restarts": true} {
		t.Run(name, func(t *testing.T) {
			w := newWeighing(t, 100, 60)
			x := w.weighs(60)
			if again := w.weighs(60); again.Hash != x.Hash || len(x.Released) != 60 || x.Control != 60 {
				t.Fatalf("%+v, then %+v", x, again)
			}
			w.acct.Confirm = x.Hash
			for left := 60; left > 0; left -= 7 {
				if restarts {
					w.Brake = Brake{}
				}
				w.partly(7, 0)
				w.expect(true, false)
				if w.state.Left != left {
					t.Fatalf("%d are left, want %d", w.state.Left, left)
				}
			}
			w.weighs(0)
			w.expect(false, true)
			if len(w.held) != 0 {
				t.Fatalf("still guarded: %v", w.list())
			}
			for i := range 60 { // guarded again, in small steps, each a long time after the last
				w.now = w.now.Add(time.Hour)
				w.weighs(0, span(0, i+1)...)
			}
			w.now = w.now.Add(time.Hour)
			w.weighs(60)
			w.expect(false, true)
		})
	}
}

// TestConfirmationCoversOneChange: what comes later is weighed by itself, and goes on only if it is
// small; the confirmation of another change is worth nothing.
func TestConfirmationCoversOneChange(t *testing.T) {
	w := newWeighing(t, 100, 100)
	x := w.weighs(60, span(60, 100)...)
	w.acct.Confirm = x.Hash
	w.partly(10, 0, span(60, 100)...)
	w.partly(30, 0, span(70, 100)...) // ten more pass
	w.partly(10, 40)                  // and so many more do not; those that were confirmed go on
	w.expect(true, false)
	for range 3 {
		w.partly(10, 40)
	}
	w.expect(false, true)
	if got := w.list(); len(got) != 40 {
		t.Fatalf("guarded: %v", got)
	}
	// The old hash confirms nothing.
	w.acct.Confirm = ""
	w.weighs(40)
	w.acct.Confirm = x.Hash
	w.weighs(40)
	w.expect(false, false)
	w.acct.Confirm = w.state.Waiting.Hash
	w.weighs(0)
	w.weighs(0)
	w.expect(false, true)
}

// TestConfirmationWithdrawn: what is left waits again.
func TestConfirmationWithdrawn(t *testing.T) {
	w := newWeighing(t, 100, 60)
	w.acct.Confirm = w.weighs(60).Hash
	w.partly(45, 0)
	w.acct.Confirm = ""
	w.weighs(0) // 15 are no longer many
	w = newWeighing(t, 100, 60)
	w.acct.Confirm = w.weighs(60).Hash
	w.partly(30, 0)
	w.acct.Confirm = ""
	w.weighs(30)
}

// TestConfirmedBeforeItIsProposed: a confirmation that is there while there is nothing to confirm
// is spent, though it were the right one.
func TestConfirmedBeforeItIsProposed(t *testing.T) {
	w := newWeighing(t, 100, 60)
	right := w.weighs(60).Hash
	w.weighs(0, span(0, 60)...) // it is called off
	for _, hash := range []string{right, "0123456789abcdef", "yes"} {
		w.acct.Confirm = hash
		w.weighs(0, span(0, 60)...)
		w.expect(false, true)
		w.weighs(60)
		w.expect(false, true)
		w.weighs(0, span(0, 60)...)
	}
	w.acct.Confirm = ""
	w.weighs(60)
	w.acct.Confirm = right
	w.weighs(0)
	w.expect(true, false)
}

// TestVMsComeAndGo: a proposal can be confirmed although VMs have come and gone since, as long as
// the process lives.
func TestVMsComeAndGo(t *testing.T) {
	w := newWeighing(t, 100, 0)
	x := w.weighs(100, span(0, 100)...)
	w.all = append(span(3, 100), 100, 101) // two that are new are guarded at once: they are few
	y := w.weighs(97, w.all...)
	if y.Hash == x.Hash || !w.held[100] || !w.held[101] || len(w.held) != 2 {
		t.Fatalf("%v is guarded", w.list())
	}
	w.acct.Confirm = x.Hash
	w.partly(50, 0, w.all...)
	w.expect(true, false)
	w.all = append(span(10, 100), 100, 101)
	w.weighs(0, w.all...)
	w.weighs(0, w.all...)
	w.expect(false, true)
	if len(w.held) < 92 {
		t.Fatalf("%d are guarded", len(w.held))
	}
}

// TestGradually: many small changes in a short time are a large one, also if they are not waited
// for; in a long time they are not.
func TestGradually(t *testing.T) {
	w := newWeighing(t, 100, 100)
	for i := 5; i <= 50; i += 5 {
		w.weighs(0, span(i, 100)...)
	}
	for i := 55; i <= 100; i += 5 {
		if x := w.weighs(i-50, span(i, 100)...); !x.Gradual {
			t.Fatalf("%+v", x)
		}
		w.now = w.now.Add(time.Hour) // it does not pass by waiting
	}
	w.acct.Confirm = w.state.Waiting.Hash
	w.weighs(0)

	slow := newWeighing(t, 100, 100)
	for i := 5; i < 80; i += 5 {
		slow.now = slow.now.Add(lately)
		slow.weighs(0, span(i, 100)...)
	}

	taken := newWeighing(t, 100, 0)
	for i := 10; i <= 50; i += 10 {
		taken.weighs(0, span(0, i)...)
	}
	taken.weighs(10, span(0, 60)...)
}

// TestNewVMsAreNoFlood: a fleet whose VMs are replaced one after the other is no large change.
func TestNewVMsAreNoFlood(t *testing.T) {
	w := newWeighing(t, 100, 100)
	for i := range 100 {
		w.all = span(i+1, 101+i)
		delete(w.held, i)
		w.weighs(0, w.all...)
	}
	if len(w.held) != 100 {
		t.Fatalf("%d are guarded", len(w.held))
	}
	w.weighs(100) // but to give them back is
}

// TestUnreadRegion: what is done, and what is left, in a region that is not read at present stays
// known; a confirmation is not used up before all regions tell that it is.
func TestUnreadRegion(t *testing.T) {
	w := newWeighing(t, 100, 100)
	w.acct.Confirm = w.weighs(100).Hash
	w.unread[away] = true
	w.weighs(0)
	w.weighs(0)
	w.expect(false, false)
	w.unread[away] = false
	w.weighs(0)
	w.expect(true, false)
	w.weighs(0)
	w.expect(false, true)

	w = newWeighing(t, 100, 100)
	w.acct.Confirm = w.weighs(100).Hash
	w.Brake, w.unread[away] = Brake{}, true // a restart, and one region is the first that is known
	w.weighs(90)
	w.expect(false, false)
	w.unread[away] = false
	w.weighs(0)
	w.expect(true, false)
}

// TestOffAndUnknown: an account without a brake holds nothing, and where nothing is known of a
// change nothing is forgotten.
func TestOffAndUnknown(t *testing.T) {
	w := newWeighing(t, 100, 60)
	w.acct.Confirm = w.weighs(60).Hash
	w.partly(30, 0)
	w.Weigh(w.now, w.acct, nil)
	w.expect(true, false)
	w.weighs(0)
	w = newWeighing(t, 100, 60)
	w.weighs(60)
	w.acct.Brake = &plan.Brake{Percent: 100}
	w.weighs(0)
	w = newWeighing(t, 100, 60)
	w.weighs(60)
	w.acct.Brake = nil
	w.weighs(0)
}
