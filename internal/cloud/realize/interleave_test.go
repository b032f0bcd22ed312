package realize

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// schedule is an order of the first calls of two controllers that both want a network: the number
// of the next one, 0 or 1.
type schedule struct {
	turns []int
	// slow is true if one of them takes longer from reading to claiming than the other one
	// waits after its claim.
	slow bool
}

func (s schedule) String() string {
	text := strings.Trim(strings.NewReplacer("0", "A", "1", "B", " ", "").Replace(fmt.Sprint(s.turns)), "[]")
	if s.slow {
		text += " slow"
	}
	return text
}

// schedules lists all orders. Each controller reads, claims unless it has read a claim, and reads
// again.
func schedules() []schedule {
	type state struct {
		done  [2]int // calls of each: 1 read, 2 claimed, 3 read again; 3 at once if the first reading showed a claim
		claim bool
	}
	var out []schedule
	var walk func(state, schedule)
	walk = func(at state, s schedule) {
		if at.done == [2]int{3, 3} {
			out = append(out, schedule{slices.Clone(s.turns), s.slow})
			return
		}
		for who := range 2 {
			next, then := at, schedule{append(slices.Clone(s.turns), who), s.slow}
			switch at.done[who] {
			case 0:
				if next.done[who] = 1; at.claim {
					next.done[who] = 3
				}
			case 1:
				next.done[who], next.claim = 2, true
			case 2:
				next.done[who] = 3
				then.slow = then.slow || at.done[1-who] == 1
			default:
				continue
			}
			walk(next, then)
		}
	}
	walk(state{}, schedule{})
	return out
}

// standstill is how long a call waits for its turn. If the one whose turn it is makes fewer calls
// than the order foresees, for example because it has already seen the other's claim, the rest of
// the order means nothing, and all go on freely.
const standstill = 2 * time.Second

// turnstile lets the calls of two controllers pass in a given order, and freely when it is through.
type turnstile struct {
	mu    sync.Mutex
	moved *sync.Cond
	turns []int
}

func newTurnstile(turns []int) *turnstile {
	t := &turnstile{turns: slices.Clone(turns)}
	t.moved = sync.NewCond(&t.mu)
	return t
}

func (t *turnstile) pass(who int, call func()) {
	t.mu.Lock()
	giveUp := time.AfterFunc(standstill, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.turns = nil
		t.moved.Broadcast()
	})
	defer giveUp.Stop()
	for len(t.turns) > 0 && t.turns[0] != who {
		t.moved.Wait()
	}
	if len(t.turns) == 0 {
		t.mu.Unlock()
		call()
		return
	}
	defer t.mu.Unlock()
	call()
	t.turns = t.turns[1:]
	t.moved.Broadcast()
}

// queued is the provider of one of the controllers.
type queued struct {
	cloud.Provider
	l   *lab
	who int
	at  *turnstile
}

func (q *queued) Observe(ctx context.Context, s cloud.Scope) (snap *cloud.Snapshot, err error) {
	if q.l.accounts.reading.Load() {
		return q.Provider.Observe(ctx, s)
	}
	q.at.pass(q.who, func() { snap, err = q.Provider.Observe(ctx, s) })
	return snap, err
}

func (q *queued) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (id string, err error) {
	q.at.pass(q.who, func() { id, err = q.Provider.Apply(ctx, s, op) })
	return id, err
}

// second returns a controller of another cluster on the same cloud, with an engine of its own.
func (l *lab) second(cluster string) *lab {
	l.Helper()
	o := &lab{T: l.T, server: l.server, account: l.account, engine: compute.New(compute.Options{}), store: watchstore.New(watchstore.Options{}),
		sink: &reports{}, vms: map[string]labVM{}, probes: l.probes, native: l.native, options: l.options}
	acct := l.accounts.account
	acct.Snapshots, acct.Entities = maps.Clone(acct.Snapshots), maps.Clone(acct.Entities)
	o.accounts = &labAccounts{subs: map[int]func(string){}, account: acct}
	o.findVMs([]string{home})
	o.options.ClusterID, o.options.Follower.Source, o.options.Accounts, o.options.Sink = cluster, storeSource{o.store}, o.accounts, o.sink
	return o
}

// TestClaimInterleaved lets two controllers claim a network in every order of their calls. One of
// them has it in the end and enforces; the other one has done nothing but claim, or if it was so
// slow that the first one had begun, nothing on interfaces that the first one holds.
func TestClaimInterleaved(t *testing.T) {
	t.Parallel()
	all := schedules()
	if len(all) < 8 {
		t.Fatalf("only %d schedules", len(all))
	}
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			a := newLab(t, labConfig{})
			b := a.second(rivalCluster)
			gate := newTurnstile(s.turns)
			labs := []*lab{a, b}
			for i, l := range labs {
				l.accounts.account.Provider = &queued{l.accounts.account.Provider, l, i, gate}
				l.engine.PutPolicy(webIn())
				l.publish()
			}
			a.start()
			b.start()
			winner := ""
			a.until("one enforces, the other one steps back", func() bool {
				claims := map[string]int{}
				for _, l := range labs {
					l.accounts.observe(t.Context())
					r, _ := l.realizer.Report(labAccount)
					if r.Err != nil || r.Result == nil || !r.Result.Plan.Empty() {
						return false
					}
					claims[r.Claims[homeVPC]]++
					winner = r.Claims[homeVPC]
				}
				return len(claims) == 1 && (winner == labCluster || winner == rivalCluster) && compare(a.actual(), a.wanted()) == ""
			})
			holders := map[string]map[string]bool{} // clusters by interface
			clusters := map[string]bool{}
			for _, g := range a.ours() {
				clusters[g.Tags[cloud.TagCluster]] = true
				for name, vm := range a.vms {
					if vm.region == home && slices.Contains(a.held(name), g.ID) {
						if holders[name] == nil {
							holders[name] = map[string]bool{}
						}
						holders[name][g.Tags[cloud.TagCluster]] = true
					}
				}
			}
			for name, by := range holders {
				if len(by) > 1 {
					t.Errorf("%s is held by %v", name, by)
				}
			}
			if !s.slow && (len(clusters) != 1 || !clusters[winner]) {
				t.Errorf("%s has the network, and there are groups of %v", winner, clusters)
			}
		})
	}
}
