package flowscmd_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/flows/recommend"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	simlog "github.com/nephele-io/nephele/internal/sim/flowlog"
)

// TestRecommendedPoliciesCutNothingThatWasSeen: of what machines without policies were seen to do,
// policies are recommended; the simulator, with these enforced, lets in all of it again, and of
// what it had dropped exactly what was told beforehand.
func TestRecommendedPoliciesCutNothingThatWasSeen(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	place := simlog.Place{Account: "111122223333", Region: "eu-west-1"}
	written, again, closed, opened := 0, 0, 0, 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 43))
		e := previewtest.Open(t, previewtest.RandomShop(r, false), previewtest.ShopAccount)
		computed := e.Observed(t)
		lines := e.Traffic(t, rand.New(rand.NewPCG(seed, 44)), 150, at)
		rows, _, _ := e.Rows(t, simlog.Deliver(lines, place, simlog.Full(), simlog.Faults{}, r))
		edges, judged := flowscmd.EdgesOf(rows, judge.New(computed.Computed))
		options := recommend.Options{Namespace: "shop", Tier: "application", Priority: 100, Keys: []string{"nephe.antrea.io/owner-vm"}}
		if seed%2 == 0 {
			options.Keys = []string{"nephe.antrea.io/tag-app"}
		}
		result := recommend.Policies(edges, computed.Computed.Ends, options)
		proof := flowscmd.Prove(computed.Computed, result.Policies, rows, judged)
		if proof.Allowed == 0 || len(proof.Cut) > 0 {
			t.Errorf("seed %d: %+v", seed, proof)
		}
		if slices.ContainsFunc(result.Policies, func(p *v1beta1.NetworkPolicy) bool {
			return !convert.Staged(p) || p.Annotations[recommend.AnnotationEvidence] == ""
		}) {
			t.Errorf("seed %d: a policy is not staged, or says not on what it rests", seed)
		}
		for _, p := range result.Policies {
			p.Annotations = nil
			e.In.Objects.Policies = append(e.In.Objects.Policies, p)
			written++
		}
		planned, err := e.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if refused := planned.Accounts[0].Result.Refusals; len(refused) > 0 {
			t.Logf("seed %d: refused: %v", seed, refused)
			continue
		}
		previewtest.Perform(t, e.Provider, e.Planner)
		after := outcomes(e.Traffic(t, rand.New(rand.NewPCG(seed, 44)), 150, at))
		for seen, accepted := range outcomes(lines) {
			opens := slices.ContainsFunc(proof.Opened, func(r flows.Row) bool {
				return r.Interface == seen.nic && r.Client == seen.from && r.Server == seen.to && int(r.Protocol) == seen.protocol && int(r.Port) == seen.port
			})
			now, there := after[seen]
			switch {
			case accepted:
				again++
				if !now || !there {
					t.Errorf("seed %d: it was let in, and is not any more: %+v", seed, seen)
				}
			case now != opens:
				t.Errorf("seed %d: it was dropped, and is let in: %v, told beforehand: %v: %+v", seed, now, opens, seen)
			case opens:
				opened++
			default:
				closed++
			}
		}
	}
	t.Logf("%d policies; %d let in again, %d dropped again, %d opened", written, again, closed, opened)
	if written < 10 || again < 60 || closed < 100 || opened == 0 {
		t.Errorf("only %d policies, %d let in, %d dropped, %d opened", written, again, closed, opened)
	}
}

// request is what an interface was asked to let in.
type request struct {
	nic                    string
	from, to               netip.Addr
	source, port, protocol int
	at                     int64
}

// outcomes say whether requests were let in, by the interfaces that saw them.
func outcomes(lines []simlog.Line) map[request]bool {
	answered := map[request]bool{}
	for _, l := range lines {
		if l.Egress {
			answered[request{l.Interface, l.Destination, l.Source, l.Port, l.SourcePort, l.Protocol, l.Start.Unix()}] = true
		}
	}
	out := map[request]bool{}
	for _, l := range lines {
		at := request{l.Interface, l.Source, l.Destination, l.SourcePort, l.Port, l.Protocol, l.Start.Unix()}
		if !l.Egress && (!l.Accepted || answered[at]) && l.Flags&16 == 0 && (l.Port < 32768 || l.Protocol == 1) {
			out[at] = l.Accepted
		}
	}
	return out
}
