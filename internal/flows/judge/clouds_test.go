package judge_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	simlog "github.com/nephele-io/nephele/internal/sim/flowlog"
)

// TestFlowsAreJudgedAsTheCloudDid: in random accounts with policies that are enforced, every record
// that the simulator writes from its own verdicts is judged as the simulator did; and when somebody
// opens or closes groups by hand behind the picture that is judged by, exactly the records that
// became others are told to differ.
func TestFlowsAreJudgedAsTheCloudDid(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	enforced, judged, differing := 0, 0, 0
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 41))
		e := previewtest.Open(t, previewtest.RandomShop(r, false), previewtest.ShopAccount+previewtest.RandomPolicies(r))
		planned, err := e.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(planned.Accounts[0].Result.Refusals) > 0 {
			continue
		}
		enforced++
		previewtest.Perform(t, e.Provider, e.Planner)
		j := judge.New(e.Observed(t).Computed)
		place := simlog.Place{Account: "111122223333", Region: "eu-west-1"}
		lines := e.Traffic(t, r, 600, at)
		fields := [][]string{simlog.Full(), simlog.Default()}[seed%2]
		rows, counts, report := e.Rows(t, simlog.Deliver(lines, place, fields, simlog.Faults{Repeated: 50, Skipped: 20, Empty: 20}, r))
		if counts.Over+counts.Placeless > 0 || counts.Twice == 0 || report.Skipped == 0 || report.NoData == 0 || report.Records != counts.Records {
			t.Errorf("seed %d: %+v, %+v", seed, counts, report)
		}
		for i := range rows {
			got := j.Judge(&rows[i])
			judged++
			if got.Differs != judge.Agrees || got.Verdict == judge.Unknown && !rows[i].Guessed || got.By.Cause == "" {
				t.Errorf("seed %d: %s (%+v): %s %s %+v", seed, &rows[i], rows[i], got.Verdict, got.Differs, got.By)
			}
		}
		changed := tamper(t, e, r)
		if !changed {
			continue
		}
		again, _, _ := e.Rows(t, simlog.Deliver(e.Traffic(t, rand.New(rand.NewPCG(seed, 42)), 600, at), place, simlog.Full(), simlog.Faults{}, r))
		for i := range again {
			got := j.Judge(&again[i])
			now := e.Server.World()
			verdict, err := now.Allowed(packet.Flow{
				Src: end(&again[i], again[i].Client), Dst: end(&again[i], again[i].Server),
				Protocol: int(again[i].Protocol), Port: int(again[i].Port), ICMPType: 8,
			})
			if err != nil {
				t.Fatal(err)
			}
			half := verdict.Egress
			if again[i].Direction == cloud.Ingress {
				half = verdict.Ingress
			}
			if again[i].Guessed {
				continue // the other end may have begun it
			}
			if half.Allowed != again[i].Accepted {
				t.Fatalf("seed %d: %s: the simulator says %+v", seed, &again[i], verdict)
			}
			if want := half.Allowed != (got.Verdict == judge.Allow); want != (got.Differs != judge.Agrees) {
				t.Errorf("seed %d: %s: %+v, the simulator says %+v", seed, &again[i], got, half)
			} else if want {
				differing++
			}
		}
	}
	t.Logf("%d worlds, %d rows judged, %d differ after changes by hand", enforced, judged, differing)
	if enforced < 6 || judged < 2000 || differing < 20 {
		t.Errorf("only %d worlds, %d rows, %d differences", enforced, judged, differing)
	}
}

// end is an end of a row as the simulator knows it.
func end(r *flows.Row, a netip.Addr) packet.End {
	if a == r.Own() {
		return packet.End{NIC: r.Interface, Addr: a}
	}
	return packet.End{Addr: a}
}

// tamper changes rules of groups that interfaces hold, after the picture of the cloud was taken. It
// reports whether there was anything to change.
func tamper(t *testing.T, e *previewtest.Shop, r *rand.Rand) bool {
	t.Helper()
	scope, changed := e.Snapshot.Scope, false
	for range 3 {
		n := &e.Snapshot.Interfaces[r.IntN(len(e.Snapshot.Interfaces))]
		if len(n.GroupIDs) == 0 {
			continue
		}
		id := n.GroupIDs[r.IntN(len(n.GroupIDs))]
		i := slices.IndexFunc(e.Snapshot.Groups, func(g cloud.Group) bool { return g.ID == id })
		ops := []cloud.Op{{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{{
			Direction: cloud.Ingress, Match: cloud.Match{Protocol: cloud.TCP, From: 5432, To: 5432}, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")},
		}}}}
		if rules := e.Snapshot.Groups[i].Rules; len(rules) > 0 {
			ops = append(ops, cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: []cloud.Rule{rules[r.IntN(len(rules))]}})
		}
		for _, op := range ops {
			if _, err := e.Provider.Apply(t.Context(), scope, op); err != nil {
				t.Fatal(err)
			}
			changed = true
		}
	}
	return changed
}
