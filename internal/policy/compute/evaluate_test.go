package compute_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestEvaluateAgainstNaive holds the evaluator against the naive one: over the oracle's listing,
// not the engine's.
func TestEvaluateAgainstNaive(t *testing.T) {
	seen := map[evaluate.Outcome]int{}
	exempt := map[evaluate.Exemption]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 11))
		draw := policytest.Draw(r.IntN)
		e, w := compute.New(compute.Options{}), policytest.NewWorld()
		for range 80 {
			o := draw.Object()
			policytest.Put(e, o)
			w.Put(o)
		}
		e.Commit()
		evaluator, oracle := evaluate.New(e.Listing()), policytest.Compute(w)
		var ends []evaluate.Endpoint
		for _, x := range w.Entities {
			end := evaluate.Endpoint{EntityRef: x.EntityRef}
			if x.HostNetwork {
				end.EntityRef = policy.EntityRef{Kind: policy.KindNode, Name: x.Host}
			}
			if len(x.Addresses) > 0 && r.IntN(4) > 0 {
				end.Addr = x.Addresses[0]
			}
			if x.Kind == policy.KindExternalEntity {
				end.Semantics = evaluate.VMSemantics
			}
			ends = append(ends, end)
		}
		for _, a := range []string{"10.0.0.4", "192.0.2.1"} {
			ends = append(ends, evaluate.Endpoint{Addr: netip.MustParseAddr(a)})
		}
		slices.SortFunc(ends, func(a, b evaluate.Endpoint) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for range 100 {
			f := evaluate.Flow{
				Source: ends[r.IntN(len(ends))], Destination: ends[r.IntN(len(ends))], SourcePort: uint16(999 + r.IntN(3)),
				Port: uint16(79 + r.IntN(5)), ICMPType: uint8(8 * r.IntN(2)),
				Protocol: []policy.Protocol{policy.TCP, policy.TCP, policy.UDP, policy.ICMP, policy.IGMP}[r.IntN(5)], IGMPType: 0x16,
			}
			switch r.IntN(4) {
			case 0:
				f.Direct = true
			case 1:
				if named := toServices(oracle); len(named) > 0 {
					f.Service = named[r.IntN(len(named))]
				}
			}
			got := evaluator.Evaluate(f)
			exempt[got.Ingress.Exempt]++
			for d, outcome := range map[policy.Direction]evaluate.Decision{policy.Egress: got.Egress, policy.Ingress: got.Ingress} {
				seen[outcome.Outcome]++
				if want := policytest.Decide(oracle, f, d); outcome.Outcome != want {
					t.Fatalf("seed %d, %s of %+v: %s, want %s (%+v)", seed, d, f, outcome.Outcome, want, outcome)
				}
			}
		}
	}
	t.Logf("outcomes: %v, exempt: %v", seen, exempt)
	if exempt[evaluate.ExemptItself] == 0 || exempt[evaluate.ExemptOwnNode] == 0 {
		t.Errorf("exempt at the destination were only %v", exempt)
	}
	for _, o := range []evaluate.Outcome{
		evaluate.OutcomeAllow, evaluate.OutcomeDrop, evaluate.OutcomeReject, evaluate.OutcomeNative, evaluate.OutcomeUnknown,
	} {
		if seen[o] == 0 {
			t.Errorf("no flow with outcome %s", o)
		}
	}
}

// toServices are the Services that rules name.
func toServices(l *policy.Listing) []policy.NamespacedName {
	var out []policy.NamespacedName
	for _, p := range l.Policies {
		for _, r := range p.Rules {
			out = append(out, r.ToServices...)
		}
	}
	return out
}

// story is a small world with everything an explanation can show.
func story(t *testing.T) *evaluate.Evaluator {
	t.Helper()
	e := compute.New(compute.Options{})
	e.PutNamespace(policy.Namespace{Name: "vms"})
	role := func(r string) *policy.Selector { return &policy.Selector{MatchLabels: map[string]string{"role": r}} }
	for i, name := range []string{"web", "db", "other"} {
		e.PutEntity(policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: name},
			Labels:    map[string]string{"role": name}, Host: "cloud",
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)})},
		})
	}
	add := func(name, tier string, priority float64, applied string, ingress, egress []policy.Rule) {
		e.PutPolicy(policy.Policy{
			Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: name, UID: name, Tier: tier, Priority: priority,
			AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: role(applied)}}, Ingress: ingress, Egress: egress,
		})
	}
	port := func(n int32) []policy.Port { return []policy.Port{{Port: &policy.PortRef{Number: n}}} }
	add("skip", "emergency", 1, "db", []policy.Rule{
		{Name: "pass-web", Action: policy.Pass, Peers: []policy.Peer{{ExternalEntitySelector: role("web")}}, Ports: port(5432)},
		{Name: "drop-ssh", Action: policy.Drop, Ports: port(22)},
	}, nil)
	add("allow", "application", 5, "db", []policy.Rule{
		{Name: "from-web", Action: policy.Allow, Peers: []policy.Peer{{ExternalEntitySelector: role("web")}}},
	}, nil)
	add("base", "baseline", 5, "db", []policy.Rule{{Name: "reject-web", Action: policy.Reject, Ports: port(5432)}}, nil)
	add("names", "application", 5, "web", nil, []policy.Rule{
		{Name: "to-name", Action: policy.Drop, Peers: []policy.Peer{{FQDN: "*.example.com"}}, Ports: port(443)},
	})
	if d := e.Commit(); len(d.Problems) > 0 {
		t.Fatal(d.Problems)
	}
	return evaluate.New(e.Listing())
}

func TestEvaluateExplains(t *testing.T) {
	v := story(t)
	vm := func(name string, last byte) evaluate.Endpoint {
		return evaluate.Endpoint{
			EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: name},
			Addr:      netip.AddrFrom4([4]byte{10, 0, 0, last}), Semantics: evaluate.VMSemantics,
		}
	}
	web, db, other := vm("web", 1), vm("db", 2), vm("other", 3)
	outside := evaluate.Endpoint{Addr: netip.MustParseAddr("192.0.2.1")}
	for _, c := range []struct {
		name            string
		flow            evaluate.Flow
		egress, ingress string
	}{
		{"passed, then baseline", evaluate.Flow{Source: web, Destination: db, Protocol: policy.TCP, Port: 5432},
			"Native by -", "Reject by base/reject-web passed skip/pass-web isolated by allow"},
		{"allowed", evaluate.Flow{Source: web, Destination: db, Protocol: policy.UDP, Port: 53},
			"Native by -", "Allow by allow/from-web isolated by allow"},
		{"first match drops", evaluate.Flow{Source: web, Destination: db, Protocol: policy.TCP, Port: 22},
			"Native by -", "Drop by skip/drop-ssh isolated by allow"},
		{"isolated by an Allow rule", evaluate.Flow{Source: other, Destination: db, Protocol: policy.UDP, Port: 53},
			"Native by -", "Drop by - isolated by allow"},
		{"a name may decide", evaluate.Flow{Source: web, Destination: outside, Protocol: policy.TCP, Port: 443},
			"Unknown by - uncertain names/to-name", "Native by -"},
		{"a name cannot decide", evaluate.Flow{Source: web, Destination: outside, Protocol: policy.TCP, Port: 80},
			"Native by -", "Native by -"},
	} {
		got := v.Evaluate(c.flow)
		if s := explain(got.Egress); s != c.egress {
			t.Errorf("%s: egress %q, want %q", c.name, s, c.egress)
		}
		if s := explain(got.Ingress); s != c.ingress {
			t.Errorf("%s: ingress %q, want %q", c.name, s, c.ingress)
		}
	}
	// The same Allow rule does not isolate a Pod.
	db.Semantics = evaluate.PodSemantics
	got := v.Evaluate(evaluate.Flow{Source: other, Destination: db, Protocol: policy.UDP, Port: 53})
	if s := explain(got.Ingress); s != "Native by -" {
		t.Errorf("Pod semantics: %q", s)
	}
}

func explain(d evaluate.Decision) string {
	name := func(r evaluate.RuleRef) string { return r.Policy.Name + "/" + r.Rule.Name }
	s := string(d.Outcome) + " by "
	if d.By == nil {
		s += "-"
	} else {
		s += name(*d.By)
	}
	for _, p := range d.Passed {
		s += " passed " + name(p)
	}
	for _, u := range d.Uncertain {
		s += " uncertain " + name(u)
	}
	for _, p := range d.IsolatedBy {
		s += " isolated by " + p.Name
	}
	return s
}
