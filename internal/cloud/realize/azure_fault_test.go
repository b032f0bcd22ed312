package realize

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/calls"
)

// azureDisturbance is one way in which a call can go wrong.
type azureDisturbance struct {
	name  string
	fault calls.Fault
	// dies ends the realizer when the call is on its way; a new one begins with nothing but the
	// cloud.
	dies bool
}

func azureDisturbances() []azureDisturbance {
	return []azureDisturbance{
		{name: "etag of somebody else", fault: calls.Fault{Code: "PreconditionFailed", Status: 412}},
		{name: "throttled", fault: calls.Fault{Code: "TooManyRequests", Status: 429, RetryAfter: 7, Times: 2}},
		{name: "busy", fault: calls.Fault{Code: "AnotherOperationInProgress", Status: 409}},
		{name: "referenced one is busy", fault: calls.Fault{Code: "RetryableError", Status: 429, RetryAfter: 1}},
		{name: "server error", fault: calls.Fault{Code: "InternalServerError"}},
		{name: "fails late", fault: calls.Fault{Code: "InternalServerError", Late: true, Times: 2}},
		{name: "connection cut", fault: calls.Fault{Drop: true}},
		{name: "answer lost", fault: calls.Fault{LoseAnswer: true}},
		{name: "answers lost", fault: calls.Fault{LoseAnswer: true, Times: 4}},
		{name: "not allowed for a while", fault: calls.Fault{Code: "AuthorizationFailed", Status: 403, Times: 5}},
		{name: "token expired", fault: calls.Fault{Code: "ExpiredAuthenticationToken", Status: 401, Times: 2}},
		{name: "locked for a while", fault: calls.Fault{Code: "ScopeLocked", Status: 409, Times: 3}},
		{name: "denied by Azure Policy", fault: calls.Fault{Code: "RequestDisallowedByPolicy", Status: 403, Times: 3}},
		{name: "more rules than the quota", fault: calls.Fault{Code: "SecurityRuleCountLimitReached", Status: 400}},
		{name: "no group left", fault: calls.Fault{Code: "NetworkSecurityGroupCountLimitReached", Status: 400}},
		{name: "controller dies before execution", fault: calls.Fault{Drop: true}, dies: true},
		{name: "controller dies after execution", fault: calls.Fault{LoseAnswer: true}, dies: true},
	}
}

// disturb disturbs the k-th call of the realizer.
func (l *azureLab) disturb(d azureDisturbance, k int) {
	f := d.fault
	f.Action = "*"
	if !d.dies {
		f.Nth = k
		f.Match = func(calls.Call) bool { return !l.accounts.reading.Load() }
		l.faults.Add(f)
		return
	}
	var seen atomic.Int32
	f.Match = func(calls.Call) bool {
		if l.accounts.reading.Load() || int(seen.Add(1)) != k {
			return false
		}
		l.stop()
		return true
	}
	l.faults.Add(f)
}

// counting returns how many calls the realizer has made since.
func (l *azureLab) counting() func() int {
	var n atomic.Int32
	l.faults.Add(calls.Fault{Action: "*", Times: -1, Match: func(calls.Call) bool {
		if !l.accounts.reading.Load() {
			n.Add(1)
		}
		return false
	}})
	return func() int { return int(n.Load()) }
}

// TestAzureFaults disturbs single calls of the histories in the ways of Azure: a sample, or with
// -all-faults every call in every way. The verdict is the evaluator's after every event, nothing is
// opened or cut in between, everything is what it was in the end, and the record of changes tells
// all.
func TestAzureFaults(t *testing.T) {
	t.Parallel()
	_, seed := seeded(t)
	t.Logf("seed %d", seed)
	for i, s := range azureStories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			clean := newAzureLab(t, azureConfig{maxPerWave: s.cfg.maxPerWave})
			count := clean.counting()
			clean.live(s.events)
			total, ways := count(), azureDisturbances()
			chosen, each := random.Perm(len(ways)), total
			if !*allFaults {
				chosen, each = sample(len(ways), i, len(azureStories())), 1
			}
			for _, w := range chosen {
				for _, k := range random.Perm(total)[:each] {
					t.Run(fmt.Sprintf("%s at %d of %d", ways[w].name, k+1, total), func(t *testing.T) {
						l := newAzureLab(t, azureConfig{maxPerWave: s.cfg.maxPerWave})
						l.disturb(ways[w], k+1)
						l.live(s.events)
					})
				}
			}
			t.Logf("seed %d: %d calls, %d ways", seed, total, len(chosen))
		})
	}
}

// azureStories are the histories of AWS but for stories of another estate, about rules that name
// groups, of several regions, or stopped in the middle by the simulator of AWS.
func azureStories() (out []story) {
	for _, s := range stories() {
		if s.cfg.estate == "" && s.cfg.follows == nil && s.cfg.regions == nil && s.name != "changed midway" {
			out = append(out, s)
		}
	}
	return out
}
