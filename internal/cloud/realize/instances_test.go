package realize

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register/registertest"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/iam"
)

// TestCopyOfTheCluster: a copy of the cluster is started beside the original, with other objects.
// It writes nothing, says so, gives nothing back when its account is deleted, and the original goes
// on.
func TestCopyOfTheCluster(t *testing.T) {
	t.Parallel()
	first, copied := newTwins(t, labConfig{})
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()

	began := time.Now()
	b := copied("copy", -1000*time.Hour)
	b.publish() // without the policies of the original: to enforce that is to give everything back
	b.start()
	b.stopsFor("first1")
	first.engine.PutPolicy(webIn())
	first.publish()
	first.enforces()
	b.accounts.change(func(a *Account) { a.Releasing = true })
	b.until("it says why the account is not given back", func() bool {
		b.accounts.observe(b.Context())
		r, _ := b.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "another instance of this controller with the same cluster id, first1, writes to this account")
	})
	if b.realizer.Released(labAccount) {
		t.Error("released")
	}
	if w := b.diary.writes("copy1", began); len(w) > 0 {
		t.Errorf("the copy has written: %+v", w)
	}
	if is := first.sole(); is.State != tenure.Sole || !strings.HasPrefix(first.mark(), "first1 ") {
		t.Errorf("the original: %+v, mark %q", is, first.mark())
	}

	// The copy is told to take over. Only from the one that writes.
	b.accounts.change(func(a *Account) { a.Releasing = false })
	b.engine.PutPolicy(dbNoShell())
	b.publish()
	b.takeOver("stranger")
	b.until("a wrong word does nothing", func() bool {
		is := b.sole()
		return is.Asked == "stranger" && is.State == tenure.Stopped
	})
	b.takeOver("first1")
	first.stopsFor("copy1")
	b.enforces()
	took := time.Now()
	first.engine.PutPolicy(webInEdited())
	first.publish()
	first.until("the original says why it enforces nothing more", func() bool {
		first.accounts.observe(first.Context())
		r, _ := first.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "copy1, writes to this account")
	})
	if w := first.diary.writes("first1", took); len(w) > 0 {
		t.Errorf("the original has written: %+v", w)
	}

	// Restarts change nothing about the instance that has stopped, and yesterday's annotation does
	// nothing.
	first.halt()
	first.restart()
	first.stopsFor("copy1")
	b.kill()
	b.restart()
	b.enforces()
	first.stopsFor("copy2")
	b.takeOver("")
	first.takeOver("copy2")
	b.stopsFor("first2")
	first.enforces()
	if d, text := first.diary.together(); d > labHeartbeat {
		t.Errorf("two have written together for %s: %s", d, text)
	}
}

// TestBothStartAtOnce: the original has ended in order and was copied then, and both start at the
// same moment. One of them writes.
func TestBothStartAtOnce(t *testing.T) {
	t.Parallel()
	first, copied := newTwins(t, labConfig{})
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()
	first.halt()
	if r := first.book.Now(); !r.Ended || r.Line[0].Epoch != "first1" {
		t.Fatalf("the record says %+v", r)
	}
	b := copied("copy", 1000*time.Hour)
	began := time.Now()
	for _, w := range []*twin{first, b} {
		w.engine.PutPolicy(dbNoShell())
		w.engine.PutPolicy(webIn())
		w.publish()
	}
	first.provide()
	first.start()
	b.start()
	var winner, loser *twin
	first.until("one of them has stopped", func() bool {
		for _, w := range []*twin{first, b} {
			w.accounts.observe(w.Context())
			if w.sole().State == tenure.Stopped {
				loser = w
			} else {
				winner = w
			}
		}
		return loser != nil
	})
	winner.enforces()
	if w := first.diary.writes(loser.body.who, began); len(w) > 0 {
		t.Errorf("%s has written: %+v", loser.body.who, w)
	}
}

// TestNextInstance: in one cluster the next instance goes on right after an orderly end and a
// heartbeat after a crash; and with a backup that knows nothing of what came after it when the
// marks have stood still.
func TestNextInstance(t *testing.T) {
	t.Parallel()
	first, copied := newTwins(t, labConfig{})
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()
	backup := copied("backup", time.Hour)
	policies := 0
	next := func(w *twin) time.Duration {
		t.Helper()
		began := time.Now()
		w.engine.PutPolicy(dbNoShell())
		if policies++; policies%2 == 0 {
			w.engine.PutPolicy(webInEdited())
		} else {
			w.engine.PutPolicy(webIn())
		}
		w.publish()
		w.start()
		w.enforces()
		writes := w.diary.writes(w.body.who, began)
		if len(writes) == 0 {
			t.Fatalf("%s has written nothing", w.body.who)
		}
		return haste * writes[0].began.Sub(began)
	}
	const waits = "may still be at work"
	first.halt()
	first.provide()
	orderly := next(first)
	if first.log.says(waits) {
		t.Error("it has waited although the last one had ended in order")
	}
	first.kill()
	first.provide()
	crashed := next(first)
	if !first.log.says(waits) {
		t.Error("it does not say what it waits for")
	}
	if is := first.sole(); is.Succeeded != "" {
		t.Errorf("the next one of the same cluster took the last one for a stranger: %+v", is)
	}
	first.kill()
	restored := next(backup)
	if is := backup.sole(); is.Succeeded != "first3" {
		t.Errorf("it does not say that it has taken over: %+v", is)
	}
	t.Logf("until the first write: after an orderly end %s, after a crash %s, after a restored backup %s; heartbeat %s", orderly, crashed, restored, labHeartbeat)
	if crashed < labHeartbeat || restored < 3*labHeartbeat {
		t.Errorf("the waits are %s and %s", crashed, restored)
	}
}

// TestTakenOverMidway: a plan is on its way when another instance takes over. The operation that is
// on its way ends, and no other one begins.
func TestTakenOverMidway(t *testing.T) {
	t.Parallel()
	first, copied := newTwins(t, labConfig{})
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()
	b := copied("copy", 0)
	b.engine.PutPolicy(dbNoShell())
	b.publish()
	b.start()
	b.stopsFor("first1")

	held, goOn := make(chan struct{}), make(chan struct{})
	first.body.hold = func(cloud.Op) {
		select {
		case <-held:
		default:
			close(held)
			<-goOn
		}
	}
	first.engine.PutPolicy(inside())
	first.engine.PutPolicy(webIn())
	first.publish()
	<-held
	b.takeOver("first1")
	first.stopsFor("copy1")
	stopped := time.Now()
	close(goOn)
	b.enforces()
	first.until("the original gives up", func() bool {
		r, _ := first.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "another instance")
	})
	if w := first.diary.writes("first1", stopped); len(w) > 1 {
		t.Errorf("after it was taken over it has begun more than what was on its way: %+v", w)
	}
}

// TestMarksOfALife: the mark comes with the claim, moves, and goes with the claim; to write it
// again is no drift.
func TestMarksOfALife(t *testing.T) {
	t.Parallel()
	first, _ := newTwins(t, labConfig{})
	before := first.holdings()
	first.publish()
	first.start()
	for _, e := range history() {
		e.do(first.lab)
		first.publish()
		first.enforces()
		if r, _ := first.realizer.Report(labAccount); len(r.Result.Drift) > 0 {
			t.Errorf("after %q: drift %+v", e.name, r.Result.Drift)
		}
		if e.name == "all out" {
			continue
		}
		m, ok := tenure.ParseMark(first.mark())
		if !ok || m.Epoch != "first1" {
			t.Errorf("after %q the network is marked %q", e.name, first.mark())
		}
		first.until("it moves", func() bool {
			next, _ := tenure.ParseMark(first.mark())
			return next.Sequence > m.Sequence
		})
		if r := first.book.Now(); r.Line[0].Sequence < m.Sequence {
			t.Errorf("the record is behind the cloud: %+v, %+v", r.Line[0], m)
		}
	}
	first.halt()
	if d := gocmp.Diff(before, first.holdings()); d != "" {
		t.Errorf("something is left (-before +after):\n%s", d)
	}
}

// TestFormerVersion: what a version without marks has enforced goes on being enforced, and is
// marked.
func TestFormerVersion(t *testing.T) {
	t.Parallel()
	first, _ := newTwins(t, labConfig{})
	first.bare = true
	first.provide()
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()
	first.halt()
	if first.mark() != "" {
		t.Fatal("it is marked")
	}
	first.bare = false
	first.provide()
	first.engine.PutPolicy(webIn())
	first.publish()
	first.start()
	first.enforces()
	if is := first.sole(); is.State != tenure.Sole || is.Succeeded != "" || !strings.HasPrefix(first.mark(), first.body.who) {
		t.Errorf("%+v, mark %q", is, first.mark())
	}
}

// tagKeysOnly are the documented rights, with these keys of tags instead of all that begin with
// nephele.io/, as somebody may have given them by hand.
func tagKeysOnly(t *testing.T, keys ...string) *iam.Policy {
	t.Helper()
	document, err := os.ReadFile("../../../config/aws/enforce.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(document, &all); err != nil {
		t.Fatal(err)
	}
	limited := 0
	for _, s := range all["Statement"].([]any) {
		if s := s.(map[string]any); s["Sid"] == "RememberInInterfaces" || s["Sid"] == "RememberInNetworks" {
			s["Condition"].(map[string]any)["ForAllValues:StringLike"] = map[string]any{"aws:TagKeys": keys}
			limited++
		}
	}
	if limited != 2 {
		t.Fatalf("%d statements about tags are limited, want 2", limited)
	}
	if document, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	p, err := iam.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMarkingIsRefused: with rights that were given by hand, to the former tags, an account has its
// policies enforced and given back, and is told.
func TestMarkingIsRefused(t *testing.T) {
	t.Parallel()
	first, copied := newTwins(t, labConfig{policy: tagKeysOnly(t, cloud.TagFormer+"*", cloud.TagSignature, cloud.TagClaim)})
	before := first.holdings()
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	if is := first.sole(); !is.Unmarked || first.mark() != "" || !strings.Contains(is.Text(labAccount), "policies are enforced, but another instance") {
		t.Errorf("%+v, mark %q", is, first.mark())
	}
	// The instance with the right is seen.
	if err := first.region(home).CreateTags([]string{homeVPC}, tagOf(tenure.Mark{Epoch: "somebody", Sequence: 1}.String())); err != nil {
		t.Fatal(err)
	}
	first.stopsFor("somebody")
	first.takeOver("somebody")
	first.engine.PutPolicy(webIn())
	first.publish()
	first.enforces()
	b := copied("copy", 0)
	if r := b.book.Now(); len(r.Stopped) > 0 {
		t.Errorf("the record still says that the account is stopped: %+v", r)
	}
	if err := first.region(home).DeleteTags([]string{homeVPC}, []aws.TagKey{{Key: cloud.TagInstance}}); err != nil {
		t.Fatal(err)
	}
	out(first.lab)
	first.publish()
	first.enforces()
	first.halt()
	if d := gocmp.Diff(before, first.holdings()); d != "" {
		t.Errorf("something is left (-before +after):\n%s", d)
	}
}

// TestRecordIsRefused: without the right to the record an account has its policies enforced all the
// same; the next start waits until marks stand still.
func TestRecordIsRefused(t *testing.T) {
	t.Parallel()
	first, _ := newTwins(t, labConfig{})
	first.book.Denied = true
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()
	first.halt()
	first.engine.PutPolicy(webIn())
	first.publish()
	first.restart()
	first.enforces()
	if is := first.sole(); is.Succeeded != "first1" {
		t.Errorf("%+v", is)
	}
}

// TestMarksCannotBeRead: an instance that has not seen its marks for a heartbeat writes nothing
// until it sees them again.
func TestMarksCannotBeRead(t *testing.T) {
	t.Parallel()
	first, _ := newTwins(t, labConfig{})
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()
	blind := &blinded{body: first.body}
	blind.is.Store(true)
	first.accounts.change(func(a *Account) { a.Provider = blind })
	p := first.realizer.worker(labAccount).presence
	first.until("the last reading is too old", func() bool { return !p.May(home, homeVPC) })
	began := time.Now()
	first.engine.PutPolicy(webIn())
	first.publish()
	first.until("the plan waits", func() bool {
		r, _ := first.realizer.Report(labAccount)
		return r.Result != nil && !r.Result.Plan.Empty() && len(r.Result.Policies) == 2
	})
	first.until("it is tried again", func() bool { return blind.tries.Load() > 3 })
	if w := first.diary.writes("first1", began); len(w) > 0 {
		t.Errorf("it has written: %+v", w)
	}
	blind.is.Store(false)
	first.enforces()
}

// TestNothingIsMarkedInModePlan: where everything is only planned for, nothing is written, no mark
// either; and it goes on when that is over.
func TestNothingIsMarkedInModePlan(t *testing.T) {
	t.Parallel()
	first, _ := newTwins(t, labConfig{})
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	first.enforces()
	first.watchShut()
	first.turn(modesOf(plan.Planned, slices.Sorted(maps.Keys(first.vms))...))
	p := first.realizer.worker(labAccount).presence
	first.until("nobody looks any more", func() bool { return !p.May(home, homeVPC) })
	mutations := first.mutations()
	first.engine.PutPolicy(webIn())
	first.publish()
	last := first.book.Now().Line[0].Sequence
	first.until("some beats have gone by", func() bool { return first.book.Now().Line[0].Sequence > last+3 })
	if n := first.mutations() - mutations; n > 0 {
		t.Errorf("%d calls that change something", n)
	}
	first.turn(nil)
	first.enforces()
}

func modesOf(m plan.Mode, names ...string) map[string]plan.Mode {
	modes := map[string]plan.Mode{}
	for _, n := range names {
		modes[n] = m
	}
	return modes
}

// TestRegionWithACopy: what is found in one region holds for the whole account.
func TestRegionWithACopy(t *testing.T) {
	t.Parallel()
	first, _ := newTwins(t, labConfig{regions: []string{home, away}})
	first.engine.PutPolicy(everywhere())
	first.publish()
	first.start()
	first.enforces()
	id := first.server.Faults().Add(ec2.Fault{Region: home, Action: "DescribeVpcs", Code: "Unavailable", Times: -1})
	first.until("it has stopped", func() bool {
		// A mark that was on its way may be written over this one.
		if err := first.region(away).CreateTags([]string{"vpc-00000002"}, tagOf("stranger 5 10s")); err != nil {
			t.Fatal(err)
		}
		is := first.sole()
		return is.State == tenure.Stopped && is.Region == away
	})
	first.server.Faults().Remove(id)
	began := time.Now()
	first.engine.PutPolicy(webInEdited())
	first.publish()
	first.until("the plan waits", func() bool {
		first.accounts.observe(first.Context())
		r, _ := first.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "stranger")
	})
	if w := first.diary.writes("first1", began); len(w) > 0 {
		t.Errorf("it has written: %+v", w)
	}
	if r := first.book.Now(); r.Stopped[labAccount] != "stranger" {
		t.Errorf("the record does not say so: %+v", r)
	}
	first.accounts.remove()
	first.until("an account that is gone is stopped no more", func() bool { return len(first.book.Now().Stopped) == 0 })
}

// TestCopiesAtRandom kills, ends, starts and copies instances, tells them to take over and changes
// their policies, at random. Nobody opens what all of them want closed, and no two write side by
// side for longer than a heartbeat.
func TestCopiesAtRandom(t *testing.T) {
	t.Parallel()
	_, seed := seeded(t)
	t.Logf("seed %d (repeat with -args -fault-seed %d)", seed, seed)
	random := rand.New(rand.NewPCG(seed, 7))
	first, copied := newTwins(t, labConfig{})
	all := []*twin{first}
	running := map[*twin]bool{}
	want := func(w *twin) {
		w.engine.PutPolicy(dbNoShell())
		p := []policy.Policy{webIn(), webInEdited(), webInMoved()}[random.IntN(3)]
		if random.IntN(4) == 0 {
			w.engine.DeletePolicy(p.UID)
		} else {
			w.engine.PutPolicy(p)
		}
		w.publish()
	}
	start := func(w *twin) {
		w.provide()
		w.start()
		running[w] = true
	}
	want(first)
	start(first)
	first.enforces()
	first.watchShut()
	for range 25 {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // the moments are what is random
		w := all[random.IntN(len(all))]
		switch n := random.IntN(10); {
		case n < 2 && running[w]:
			w.kill()
			delete(running, w)
		case n == 2 && running[w]:
			w.halt()
			delete(running, w)
		case n < 5 && !running[w]:
			start(w)
		case n == 5 && len(all) < 3:
			c := copied("copy"+string(rune('a'+len(all))), time.Duration(random.IntN(2000)-1000)*time.Hour)
			want(c)
			all = append(all, c)
			start(c)
		case n == 6 && running[w]:
			w.takeOver(w.sole().Other)
		case running[w]:
			want(w)
			w.accounts.observe(t.Context())
		}
	}
	if d, text := first.diary.together(); d > labHeartbeat {
		t.Errorf("two have written together for %s: %s", d, text)
	}
	for w := range running {
		w.kill()
	}
	last := all[random.IntN(len(all))]
	last.takeOver("")
	start(last)
	want(last)
	last.until("it knows where it stands", func() bool {
		if by := last.book.Now().Stopped[labAccount]; by != "" {
			last.takeOver(by)
			return true
		}
		return last.sole().State == tenure.Sole && last.realizer.worker(labAccount).presence.May(home)
	})
	last.enforces()
}

// blinded is a body that cannot read networks alone, and is told from the one before it by that.
type blinded struct {
	*body
	is    atomic.Bool
	tries atomic.Int32
}

func (b *blinded) Networks(ctx context.Context, s cloud.Scope) ([]cloud.Network, error) {
	if b.is.Load() {
		b.tries.Add(1)
		return nil, &cloud.Error{Class: cloud.Unavailable, Call: "DescribeVpcs", Err: errDead}
	}
	return b.body.Networks(ctx, s)
}

// TestFaultsWithMarks disturbs single calls of a history that has marks, those that mark among
// them, as TestFaults does for those without.
func TestFaultsWithMarks(t *testing.T) {
	t.Parallel()
	random, seed := seeded(t)
	t.Logf("seed %d", seed)
	for i, d := range disturbances() {
		if !*allFaults && random.IntN(3) > 0 {
			continue
		}
		k := 1 + random.IntN(110)
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := story{"marked", labConfig{clock: newHasty(time.Duration(i-6) * 1000 * time.Hour), book: &registertest.Notebook{}}, history()}
			if got := live(t, s, d.at(k)); len(got.wrong) > 0 {
				t.Errorf("call %d: %s", k, got)
			}
		})
	}
}
