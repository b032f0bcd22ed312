package reach_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/reach"
)

// randomWorld draws objects and returns their listing and the entities that have addresses as
// endpoints.
func randomWorld(seed uint64, objects int) (*policy.Listing, []reach.Endpoint) {
	r := rand.New(rand.NewPCG(seed, 21))
	draw := policytest.Draw(r.IntN)
	e, w := compute.New(compute.Options{}), policytest.NewWorld()
	for range objects {
		o := draw.Object()
		policytest.Put(e, o)
		w.Put(o)
	}
	e.Commit()
	var ends []reach.Endpoint
	for _, x := range w.Entities {
		if x.HostNetwork || x.Terminated || len(x.Addresses) == 0 {
			continue
		}
		end := reach.Endpoint{EntityRef: x.EntityRef, Name: fmt.Sprint(x.EntityRef), Addresses: x.Addresses, Ports: x.Ports, Host: x.Host}
		if x.Kind == policy.KindExternalEntity {
			end.Semantics, end.Grouped = evaluate.VMSemantics, true
		}
		for i := range end.Ports {
			if end.Ports[i].Protocol == "" {
				end.Ports[i].Protocol = policy.TCP
			}
		}
		ends = append(ends, end)
	}
	slices.SortFunc(ends, func(a, b reach.Endpoint) int { return strings.Compare(a.Name, b.Name) })
	return e.Listing(), ends
}

// packet is a random flow, in the words of both evaluators.
func packet(r *rand.Rand, v6 bool) (evaluate.Flow, flow.Service) {
	port := uint16(79 + r.IntN(5))
	switch r.IntN(8) {
	case 0:
		return evaluate.Flow{Protocol: policy.UDP, Port: port}, reach.Service(cloud.UDP, int(port))
	case 1:
		kind, code := uint8(8*r.IntN(2)), uint8(r.IntN(2))
		number := cloud.ICMP
		if v6 {
			number = cloud.ICMPv6
		}
		return evaluate.Flow{Protocol: policy.ICMP, ICMPType: kind, ICMPCode: code}, reach.Service(number, int(kind)<<8|int(code))
	case 2:
		return evaluate.Flow{Protocol: policy.SCTP, Port: port}, reach.Service(cloud.SCTP, int(port))
	case 3:
		return evaluate.Flow{Protocol: "GRE"}, reach.Service(47, -1)
	}
	return evaluate.Flow{Protocol: policy.TCP, Port: port}, reach.Service(cloud.TCP, int(port))
}

// expected is what the evaluator of single flows says, in the words of this package.
func expected(v evaluate.Verdict, f evaluate.Flow) reach.Outcome {
	for _, x := range []struct {
		d  *evaluate.Decision
		at evaluate.Endpoint
	}{{&v.Egress, f.Source}, {&v.Ingress, f.Destination}} {
		if x.at.Semantics == evaluate.VMSemantics && x.d.Exempt == "" {
			continue
		}
		if x.d.Outcome == evaluate.OutcomeNative {
			x.d.Outcome = evaluate.OutcomeAllow
		}
		for i, o := range x.d.Possible {
			if o == evaluate.OutcomeNative {
				x.d.Possible[i] = evaluate.OutcomeAllow
			}
		}
		slices.Sort(x.d.Possible)
		if x.d.Possible = slices.Compact(x.d.Possible); len(x.d.Possible) == 1 {
			x.d.Outcome = x.d.Possible[0]
		}
	}
	return reach.Outcome(v.Together())
}

// TestAgainstEvaluator: on random worlds, every packet between two ends is in exactly one of the
// flows that are told, with the outcome that the evaluator of single flows gives it and the rules
// that it names.
func TestAgainstEvaluator(t *testing.T) {
	seen := map[reach.Outcome]int{}
	for seed := range uint64(150) {
		listing, ends := randomWorld(seed, 70)
		w := reach.New(reach.Input{Listing: listing, Endpoints: ends})
		all := w.Reach(reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true})
		evaluator := evaluate.New(listing)
		r := rand.New(rand.NewPCG(seed, 22))
		pick := func() (*reach.Endpoint, evaluate.Endpoint) {
			i := r.IntN(len(ends) + 1)
			if i == len(ends) {
				a := netip.MustParseAddr([]string{"10.0.0.4", "192.0.2.1", "172.16.3.4", "2001:db8::99"}[r.IntN(4)])
				if slices.ContainsFunc(ends, func(e reach.Endpoint) bool { return slices.Contains(e.Addresses, a) }) {
					return nil, evaluate.Endpoint{}
				}
				return nil, evaluate.Endpoint{Addr: a}
			}
			e := &ends[i]
			return e, evaluate.Endpoint{EntityRef: e.EntityRef, Addr: e.Addresses[r.IntN(len(e.Addresses))], Semantics: e.Semantics}
		}
		for range 200 {
			from, source := pick()
			to, destination := pick()
			if !source.Addr.IsValid() || !destination.Addr.IsValid() || source.Addr.Is4() != destination.Addr.Is4() || from == to {
				continue
			}
			f, s := packet(r, source.Addr.Is6())
			f.Source, f.Destination, f.Direct = source, destination, true
			verdict := evaluator.Evaluate(f)
			if verdict.Egress.Exempt == evaluate.ExemptItself {
				continue // two endpoints with one address
			}
			var found []reach.Flows
			for _, x := range all {
				if x.Holds(from, to, source.Addr, destination.Addr, s) {
					found = append(found, x)
				}
			}
			if len(found) != 1 {
				t.Fatalf("seed %d: %+v is in %d of the flows: %+v", seed, f, len(found), found)
			}
			got := found[0]
			want := expected(verdict, f)
			seen[want]++
			if got.Outcome != want {
				t.Fatalf("seed %d: %+v (%v): %s, want %s (%+v; told as %+v)", seed, f, s, got.Outcome, want, verdict, got)
			}
			for _, x := range []struct {
				got  *evaluate.RuleRef
				want *evaluate.RuleRef
			}{{got.Egress.Rule, verdict.Egress.By}, {got.Ingress.Rule, verdict.Ingress.By}} {
				if (x.got == nil) != (x.want == nil) || x.got != nil && (x.got.Rule != x.want.Rule || x.got.Index != x.want.Index) {
					t.Fatalf("seed %d: %+v: decided by %+v, want %+v", seed, f, x.got, x.want)
				}
			}
		}
	}
	t.Logf("outcomes: %v", seen)
	for _, o := range []reach.Outcome{reach.Allow, reach.Drop, reach.Reject, reach.Native, reach.Unknown} {
		if seen[o] == 0 {
			t.Errorf("no flow with outcome %s", o)
		}
	}
}

// TestQuestionsArePartsOfTheWhole: the answer about a part is that part of the whole answer.
func TestQuestionsArePartsOfTheWhole(t *testing.T) {
	listing, ends := randomWorld(3, 90)
	w := reach.New(reach.Input{Listing: listing, Endpoints: ends})
	all := w.Reach(reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true})
	nobodys := func(a netip.Addr) bool {
		return !slices.ContainsFunc(ends, func(e reach.Endpoint) bool { return slices.Contains(e.Addresses, a) })
	}
	web := reach.Service(cloud.TCP, 80)
	for i := range ends {
		one := reach.Party{Chosen: func(e *reach.Endpoint) bool { return e == &ends[i] }}
		some := w.Reach(reach.Question{From: reach.Party{Addresses: addrset.All()}, To: one, Services: []flow.Service{web}, Refused: true})
		for _, from := range []string{"10.0.0.4", "172.16.3.4", "192.0.2.200"} {
			a := netip.MustParseAddr(from)
			for _, to := range ends[i].Addresses {
				if !nobodys(a) || to.Is6() {
					continue
				}
				var outcomes [2][]reach.Outcome
				for k, list := range [][]reach.Flows{all, some} {
					for _, f := range list {
						if f.Holds(nil, &ends[i], a, to, web) {
							outcomes[k] = append(outcomes[k], f.Outcome)
						}
					}
				}
				if !slices.Equal(outcomes[0], outcomes[1]) {
					t.Errorf("from %s to %s: %v in the whole, %v alone", a, ends[i].Name, outcomes[0], outcomes[1])
				}
			}
		}
	}
}
