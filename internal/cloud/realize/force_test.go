package realize

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// admitPeers lets the guarded admit the peers and nobody else.
func admitPeers(generation int64, priority float64) policy.Policy {
	p := clusterPolicy("admit-peers", generation, priority)
	p.AppliedTo = applied("guarded")
	p.Ingress = []policy.Rule{{Action: policy.Allow, Peers: from("peer")}}
	return p
}

// force puts a value into the annotation.
func (l *lab) force(hash string) {
	l.since = l.options.Clock.Now()
	l.accounts.change(func(a *Account) { a.Force, a.ForcedBy = hash, "alice" })
}

// forWord waits until the realizer has seen the annotations as they are and nothing is left but
// what waits for a word. It returns that word, the interfaces that wait, and what is said.
func (l *lab) forWord() (word string, nics []string, said string) {
	l.Helper()
	l.until("it waits for a word", func() bool {
		acct, _ := l.accounts.Account(labAccount)
		r, _ := l.realizer.Report(labAccount)
		if r.Err != nil || r.Result == nil || !r.Result.Plan.Empty() || r.Brake.Waiting != nil || r.Force != acct.Force || acct.Brake != nil && r.Brake.Given != acct.Confirm {
			return false
		}
		at := slices.IndexFunc(r.Result.Refusals, func(x plan.Refusal) bool { return strings.Contains(x.Message, "nephele.io/force=") })
		if at < 0 {
			return false
		}
		said = r.Result.Refusals[at].Message
		_, rest, _ := strings.Cut(said, "nephele.io/force=")
		word, _, _ = strings.Cut(strings.Trim(rest, `"`), " ")
		for _, vm := range r.Result.VMs {
			for _, n := range vm.Interfaces {
				if slices.Contains(r.Result.Refusals[at].Why.Objects, n.ID) {
					nics = append(nics, n.ID)
				}
			}
		}
		return true
	})
	return word, nics, said
}

// TestForce: of two classes of three VMs, two of each change places while their policy changes, so
// that each class goes on with the group of the other one. No order of that is clean for the two
// that stay, nor for one that comes to the guarded at the same time. The realizer says with which
// word it goes on and what that cuts, and waits: also with the word of another plan, with the right
// one while the brake holds what it would do, and with that confirmed and not forced. With both
// words it goes on closing first, and the record of changes names the word and its author.
func TestForce(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{estate: "testdata/seven.yaml"})
	l.engine.PutPolicy(admitPeers(1, 2))
	l.publish()
	l.start()
	l.settle()
	before := l.wanted()
	l.as(before)

	l.halt() // else it may see the labels before the policy, which would be two changes
	for vm, role := range map[string]string{"peer-1": "guarded", "peer-2": "guarded", "guarded-1": "peer", "guarded-2": "peer", "idle-1": "guarded"} {
		l.relabel(vm, role)
	}
	l.engine.PutPolicy(admitPeers(2, 3))
	l.publish()
	l.start()
	after := l.wanted()
	word, nics, said := l.forWord()
	stuck := []string{"peer-3", "guarded-3", "idle-1"}
	for _, vm := range stuck {
		if !slices.Contains(nics, l.vms[vm].nic) {
			t.Errorf("%s does not wait: %s", vm, said)
		}
	}
	if !strings.Contains(said, "For a moment that may cut") {
		t.Errorf("it does not say what that cuts: %s", said)
	}
	held, changes, attempts := l.holdings(), l.mutations(), len(l.audit.list())
	still := func(what string) {
		t.Helper()
		if d := gocmp.Diff(held, l.holdings()); d != "" || l.mutations() != changes {
			t.Fatalf("%s: %d changes\n%s", what, l.mutations()-changes, d)
		}
	}

	const wrong = "0123456789abcdef"
	l.force(wrong)
	again, _, said := l.forWord()
	if again != word || !strings.Contains(said, fmt.Sprintf("%q, which is of another plan", wrong)) {
		t.Errorf("the word was %s; now it says %q", word, said)
	}
	still("with the word of another plan")

	l.accounts.change(func(a *Account) { a.Brake = &plan.Brake{} })
	l.force(word)
	waiting := l.waits()
	if len(waiting.Guarded) != 1 || waiting.Guarded[0].ID != l.vms["idle-1"].nic {
		t.Errorf("the brake holds %+v", waiting)
	}
	still("forced and not confirmed")
	l.force("")
	l.confirm(waiting.Hash)
	if again, _, _ := l.forWord(); again != word {
		t.Errorf("the word was %s and is %s", word, again)
	}
	still("confirmed and not forced")
	l.confirm("")
	l.force(word)
	l.waits()
	still("forced, and confirmed no more")

	var mu sync.Mutex
	var opened []string
	defer l.server.World().OnMutation(func(m aws.Mutation) {
		mu.Lock()
		defer mu.Unlock()
		for p, got := range l.actual() {
			if got && !before[p] && !after[p] {
				opened = append(opened, fmt.Sprintf("%s %v opened %s", m.Action, m.Resources, p))
			}
		}
	})()
	l.confirm(waiting.Hash)
	l.settle()
	l.as(after)
	mu.Lock()
	defer mu.Unlock()
	for _, wrong := range opened {
		t.Error(wrong)
	}
	forced := fmt.Sprintf("forced by the annotation nephele.io/force=%s, set by alice", word)
	byWord := slices.DeleteFunc(l.audit.list()[attempts:], func(a attempt) bool { return !strings.Contains(a.Reason, forced) })
	for _, vm := range stuck {
		if !slices.ContainsFunc(byWord, func(a attempt) bool { return slices.Contains(a.Objects, l.vms[vm].nic) }) {
			t.Errorf("no record of a change of %s says %q", vm, forced)
		}
	}
	for _, wrong := range l.unaudited() {
		t.Error(wrong)
	}
	l.until("the word is spent", func() bool { r, _ := l.realizer.Report(labAccount); return r.ForceSpent })
}
