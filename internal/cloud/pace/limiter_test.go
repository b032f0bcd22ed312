package pace

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/seed"
)

const edit = "ModifyNetworkInterfaceAttribute"

var nics = Key{Account: "111122223333", Region: "eu-west-1", Action: edit}

// documented is what EC2 documents for edits.
func documented(string) Rate { return Rate{100, 5} }

func newLimiter(rate func(string) Rate) *Limiter {
	if rate == nil {
		rate = documented
	}
	return New(Options{Now: time.Now, After: time.After, Rate: rate})
}

// service is a cloud with a token bucket of its own.
type service struct {
	mu     sync.Mutex
	rate   Rate
	tokens float64
	at     time.Time
	// served and refused count the calls.
	served, refused int
}

func newService(r Rate) *service { return &service{rate: r, tokens: r.Burst, at: time.Now()} }

func (s *service) call(latency time.Duration) cloud.Class {
	time.Sleep(latency)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.tokens = min(s.rate.Burst, s.tokens+now.Sub(s.at).Seconds()*s.rate.PerSecond)
	s.at = now
	if s.tokens < 1 {
		s.refused++
		return cloud.Throttled
	}
	s.tokens--
	s.served++
	return ""
}

// use makes calls until n were served or ctx ends, as several workers.
func use(ctx context.Context, t *testing.T, l *Limiter, k Key, s *service, workers, n int, latency time.Duration) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	left := n
	for range workers {
		wg.Go(func() {
			for {
				mu.Lock()
				if left == 0 {
					mu.Unlock()
					return
				}
				left--
				mu.Unlock()
				for class := cloud.Throttled; class == cloud.Throttled; {
					done, err := l.Admit(ctx, k)
					if err != nil {
						return
					}
					class = s.call(latency)
					done(class)
				}
			}
		})
	}
	wg.Wait()
}

// TestBucketArithmetic: a thousand edits take what the documented bucket makes of them, and hardly
// any is refused.
func TestBucketArithmetic(t *testing.T) {
	for _, workers := range []int{1, 8, 200} {
		synctest.Test(t, func(t *testing.T) {
			l, s := newLimiter(nil), newService(documented(edit))
			start := time.Now()
			use(t.Context(), t, l, nics, s, workers, 1000, 40*time.Millisecond)
			took, bound := time.Since(start), 180*time.Second
			if took > bound*105/100 {
				t.Errorf("%d workers: 1000 edits took %s, more than 5%% above %s", workers, took, bound)
			}
			if s.refused > 10 {
				t.Errorf("%d workers: %d of 1000 edits were throttled", workers, s.refused)
			}
			t.Logf("%d workers: %s, %d throttled", workers, took, s.refused)
		})
	}
}

// TestLearning: whatever the real bucket is, and however full it is at first, the calls of ten
// minutes come near to what it gives, and few are refused.
func TestLearning(t *testing.T) {
	seed := seed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 40 {
		real := Rate{Burst: 5 + float64(rnd.IntN(200)), PerSecond: 0.5 + 20*rnd.Float64()}
		fill, workers := rnd.Float64(), 1+rnd.IntN(40)
		latency := time.Duration(1+rnd.IntN(100)) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			l, s := newLimiter(nil), newService(real)
			s.tokens *= fill
			possible := s.tokens
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			start := time.Now()
			use(ctx, t, l, nics, s, workers, 1<<30, latency)
			possible += time.Since(start).Seconds() * real.PerSecond
			possible = min(possible, float64(workers)*time.Since(start).Seconds()/latency.Seconds())
			if float64(s.served) < 0.85*possible || s.refused > s.served/4+workers+20 {
				t.Errorf("bucket %+v, %.0f%% full, %d workers, latency %s: served %d of %.0f possible, refused %d",
					real, 100*fill, workers, latency, s.served, possible, s.refused)
			}
		})
	}
}

// TestRecovery: somebody else takes most of the account's rate for a while. We give way and come
// back.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(nil), newService(Rate{50, 1})
		phase := func(d time.Duration) (served, refused int) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			s.served, s.refused = 0, 0
			use(ctx, t, l, nics, s, 4, 1<<30, 20*time.Millisecond)
			return s.served, s.refused
		}
		phase(2 * time.Minute)
		if served, refused := phase(5 * time.Minute); served < 285 || refused > served {
			t.Errorf("of 300 calls that were possible %d were served, %d refused", served, refused)
		}
		s.rate.PerSecond = 5
		phase(time.Minute)
		if served, refused := phase(5 * time.Minute); served < 1400 || refused > 20 {
			t.Errorf("afterwards, of 1500 calls that were possible %d were served, %d refused", served, refused)
		}
	})
}

// TestEnforcementFirst: while inventory has a long queue, enforcement waits for its own calls only;
// and while enforcement never stops, inventory gets every tenth turn.
func TestEnforcementFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(func(string) Rate { return Rate{1, 10} })
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		count := map[cloud.Purpose]int{}
		var wg sync.WaitGroup
		work := func(p cloud.Purpose) {
			ctx := cloud.WithPurpose(ctx, p)
			for ctx.Err() == nil {
				done, err := l.Admit(ctx, nics)
				if err != nil {
					return
				}
				mu.Lock()
				count[p]++
				mu.Unlock()
				done("")
			}
		}
		for range 50 {
			wg.Go(func() { work(cloud.Inventory) })
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		if done, err := l.Admit(ctx, nics); err != nil {
			t.Fatal(err)
		} else if done(""); time.Since(start) > 200*time.Millisecond {
			t.Errorf("enforcement waited %s behind inventory", time.Since(start))
		}
		mu.Lock()
		clear(count)
		mu.Unlock()
		for range 20 {
			wg.Go(func() { work(cloud.Enforcement) })
		}
		time.Sleep(20 * time.Second)
		cancel()
		wg.Wait()
		if i, e := count[cloud.Inventory], count[cloud.Enforcement]; i < 18 || i > 22 || e < 175 {
			t.Errorf("in 200 turns inventory got %d and enforcement %d", i, e)
		}
	})
}

// TestOrder: equals are let through as they came.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(func(string) Rate { return Rate{1, 2} })
		var mu sync.Mutex
		var order []int
		for i := range 20 {
			go func() {
				if done, err := l.Admit(t.Context(), nics); err == nil {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					done("")
				}
			}()
			synctest.Wait()
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("came in order, were let through as %v", order)
			}
		}
		if len(order) != 20 {
			t.Errorf("%d of 20 were let through", len(order))
		}
	})
}

// TestGivingUp: a call that is given up takes nothing and holds up nobody.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(func(string) Rate { return Rate{1, 1} })
		admit := func(ctx context.Context) error {
			done, err := l.Admit(ctx, nics)
			if err == nil {
				done("")
			}
			return err
		}
		if err := admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				if err := admit(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("let through with %v", err)
				}
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := admit(t.Context()); err != nil || time.Since(start) > 1001*time.Millisecond {
			t.Errorf("waited %s behind calls that were given up: %v", time.Since(start), err)
		}
	})
}

// TestApart: accounts, regions and actions do not wait for one another.
func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(func(string) Rate { return Rate{1, 0.001} })
		start := time.Now()
		for _, k := range []Key{nics, {Account: "2", Region: nics.Region, Action: edit}, {Account: nics.Account, Region: "us-east-1", Action: edit},
			{Account: nics.Account, Region: nics.Region, Action: "CreateTags"}, {Endpoint: "http://127.0.0.1:1", Account: nics.Account, Region: nics.Region, Action: edit}} {
			done, err := l.Admit(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			done("")
		}
		if time.Since(start) > 0 {
			t.Errorf("waited %s", time.Since(start))
		}
	})
}

// TestClockJumps: a clock that jumps neither blocks the bucket nor opens it.
func TestClockJumps(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := newBucket(Rate{10, 1}, now)
	take := func() (n int) {
		for {
			w := &waiter{turn: make(chan struct{}, 1)}
			b.join(w, now)
			if ok, wait := b.ask(w, now); !ok {
				b.leave(w)
				if wait > 1100*time.Millisecond {
					t.Fatalf("would wait %s", wait)
				}
				return n
			}
			n++
		}
	}
	if n := take(); n != 10 {
		t.Errorf("a full bucket gave %d", n)
	}
	now = now.Add(-24 * time.Hour)
	if n := take(); n != 0 {
		t.Errorf("a step back gave %d", n)
	}
	now = now.Add(time.Second)
	if n := take(); n != 1 {
		t.Errorf("a second after the step back gave %d", n)
	}
	now = now.Add(365 * 24 * time.Hour)
	if n := take(); n != 10 {
		t.Errorf("a leap ahead gave %d", n)
	}
}

// TestShared: calls of different actions wait for a bucket that they share, and for no other.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(func(action string) Rate {
			if action == "writes" {
				return Rate{1, 1}
			}
			return Rate{}
		})
		writes := Key{Account: "1", Action: "writes"}
		start := time.Now()
		for i, action := range []string{"a", "b", "c"} {
			done, err := l.Admit(t.Context(), Key{Account: "1", Action: action}, writes)
			if err != nil {
				t.Fatal(err)
			}
			done("")
			if took, want := time.Since(start), time.Duration(i)*time.Second; took < want || took > want+10*time.Millisecond {
				t.Errorf("call %d was let through after %s, want %s", i, took, want)
			}
		}
		done, err := l.Admit(t.Context(), Key{Account: "1", Action: "d"})
		if err != nil || time.Since(start) > 2010*time.Millisecond {
			t.Errorf("a call that shares nothing waited: %v", err)
		}
		done("")
	})
}

// TestPause: nobody is let through a bucket for as long as the cloud has asked for, and not for
// ever, whatever it asks for.
func TestPause(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{17 * time.Second: 17 * time.Second, 1000 * time.Hour: LongestPause} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(nil)
			start := time.Now()
			l.Pause(asked, nics)
			l.Pause(time.Second, nics)
			done, err := l.Admit(t.Context(), nics)
			if err != nil {
				t.Fatal(err)
			}
			done("")
			if took := time.Since(start); took != want {
				t.Errorf("let through after %s, want %s", took, want)
			}
		})
	}
}

// TestTheScarcestIsBlamed: of several buckets that a throttled call takes from, the one that was
// nearly empty is slowed down; what another one has saved up is not lost.
func TestTheScarcestIsBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		few, many := Key{Action: "few"}, Key{Action: "many"}
		l := newLimiter(func(action string) Rate {
			return map[string]Rate{"few": {10, 1}, "many": {1000, 1}}[action]
		})
		for i := range 8 {
			done, err := l.Admit(t.Context(), Key{Action: "none"}, many, few)
			if err != nil {
				t.Fatal(err)
			}
			if done(""); i == 7 {
				done, err = l.Admit(t.Context(), Key{Action: "none"}, many, few)
				if err != nil {
					t.Fatal(err)
				}
				done(cloud.Throttled)
			}
		}
		if is := l.PerSecond(few); is >= 1 {
			t.Errorf("the empty bucket goes on with %v a second", is)
		}
		if is := l.PerSecond(many); is != 1 {
			t.Errorf("the full bucket is slowed down to %v a second", is)
		}
		begin := time.Now()
		for range 900 { // what it has left comes at once
			done, err := l.Admit(t.Context(), Key{Action: "none"}, many)
			if err != nil {
				t.Fatal(err)
			}
			done("")
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the full bucket was emptied: 900 calls took %s", took)
		}
	})
}
