package reach_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
)

// TestUselessRulesDecideNothing: on random worlds, no flow is decided, passed on or left open by a
// rule that is said to be useless, and the rules that do any of that are said to be used.
func TestUselessRulesDecideNothing(t *testing.T) {
	seen := map[reach.Use]int{}
	for seed := range uint64(120) {
		listing, ends := randomWorld(seed, 80)
		w := reach.New(reach.Input{Listing: listing, Endpoints: ends})
		use := map[*policy.ComputedRule]reach.Use{}
		type written struct {
			uid       string
			direction policy.Direction
			index     int
		}
		of := map[written]reach.Use{}
		for _, u := range w.RuleUses() {
			seen[u.Use]++
			of[written{u.Policy.UID, u.Direction, u.Index}] = u.Use
			use[u.Rule] = u.Use
			if u.Use == reach.Shadowed && len(u.By) == 0 {
				t.Fatalf("seed %d: %+v is shadowed by nothing", seed, u.RuleRef)
			}
		}
		evaluator := evaluate.New(listing)
		r := rand.New(rand.NewPCG(seed, 23))
		for range 300 {
			if len(ends) == 0 {
				break
			}
			one, other := &ends[r.IntN(len(ends))], netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(12))})
			if r.IntN(4) == 0 {
				other = netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(3))})
			}
			f, _ := packet(r, false)
			f.Direct = true
			near := evaluate.Endpoint{EntityRef: one.EntityRef, Addr: one.Addresses[0], Semantics: one.Semantics}
			far := evaluate.Endpoint{Addr: other}
			f.Source, f.Destination = near, far
			if r.IntN(2) == 0 {
				f.Source, f.Destination = far, near
			}
			if !near.Addr.Is4() || near.Addr == other {
				continue
			}
			v := evaluator.Evaluate(f)
			for _, d := range []evaluate.Decision{v.Egress, v.Ingress} {
				refs := slices.Concat(d.Passed, d.Uncertain)
				if d.By != nil {
					refs = append(refs, *d.By)
				}
				for _, ref := range refs {
					got, known := of[written{ref.Policy.UID, ref.Direction, ref.Index}]
					if !known || got != reach.Used {
						t.Fatalf("seed %d: %+v is decided by %+v, which is said to be %q", seed, f, ref, got)
					}
				}
			}
		}
	}
	t.Logf("uses: %v", seen)
	for _, u := range []reach.Use{reach.Used, reach.AppliesToNobody, reach.PeersNobody, reach.Shadowed, reach.Skipped} {
		if seen[u] == 0 {
			t.Errorf("no rule is %s", u)
		}
	}
}

// lab computes a few policies over two VMs, web and db, and a Pod.
func lab(t *testing.T, policies ...policy.Policy) (*reach.World, []reach.Endpoint) {
	t.Helper()
	e := compute.New(compute.Options{})
	e.PutNamespace(policy.Namespace{Name: "shop", Labels: map[string]string{"kubernetes.io/metadata.name": "shop"}})
	var ends []reach.Endpoint
	for i, name := range []string{"web", "db"} {
		x := policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "shop", Name: name}, Labels: map[string]string{"app": name},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)})}, Host: "cloud/shop/aws",
		}
		e.PutEntity(x)
		ends = append(ends, reach.Endpoint{EntityRef: x.EntityRef, Name: name, Addresses: x.Addresses, Semantics: evaluate.VMSemantics, Grouped: true})
	}
	pod := policy.Entity{
		EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "shop", Name: "pod"}, Labels: map[string]string{"app": "pod"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.244.0.5")}, Host: "node",
	}
	e.PutEntity(pod)
	ends = append(ends, reach.Endpoint{EntityRef: pod.EntityRef, Name: "pod", Addresses: pod.Addresses, Host: "node"})
	for i, p := range policies {
		p.Kind, p.Namespace, p.UID = policy.AntreaNetworkPolicy, "shop", fmt.Sprint("uid-", i)
		e.PutPolicy(p)
	}
	if problems := e.Commit().Problems; len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return reach.New(reach.Input{Listing: e.Listing(), Endpoints: ends}), ends
}

func selects(app string) *policy.Selector {
	return &policy.Selector{MatchLabels: map[string]string{"app": app}}
}

func tcp(from, to int32) []policy.Port {
	return []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: from}, EndPort: &to}}
}

func onDB(name, tier string, priority float64, ingress ...policy.Rule) policy.Policy {
	return policy.Policy{Name: name, Tier: tier, Priority: priority, Ingress: ingress, AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: selects("db")}}}
}

func TestUsesInOrder(t *testing.T) {
	web, nobody := []policy.Peer{{ExternalEntitySelector: selects("web")}}, []policy.Peer{{ExternalEntitySelector: selects("none")}}
	block := []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "10.0.0.0/24"}}}
	w, _ := lab(t,
		onDB("early", "securityops", 1,
			policy.Rule{Name: "low", Action: policy.Drop, Peers: block, Ports: tcp(1, 5000)},
			policy.Rule{Name: "high", Action: policy.Drop, Peers: block, Ports: tcp(5001, 65535)},
			policy.Rule{Name: "pass-udp", Action: policy.Pass, Peers: block, Ports: []policy.Port{{Protocol: policy.UDP}}},
		),
		onDB("late", "application", 1,
			policy.Rule{Name: "postgres", Action: policy.Allow, Peers: web, Ports: tcp(4000, 6000)},
			policy.Rule{Name: "dns", Action: policy.Allow, Peers: web, Ports: []policy.Port{{Protocol: policy.UDP}}},
			policy.Rule{Name: "nobody", Action: policy.Allow, Peers: nobody},
			policy.Rule{Name: "anywhere", Action: policy.Allow, Ports: tcp(443, 443)},
		),
		policy.Policy{
			Name: "lost", Tier: "application", Priority: 2, AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: selects("none")}},
			Ingress: []policy.Rule{{Name: "any", Action: policy.Allow}},
		},
	)
	want := map[string]string{
		"early/low": "Used []", "early/high": "Used []", "early/pass-udp": "Used []",
		"late/postgres": "Shadowed [low high]", "late/dns": "Skipped [pass-udp]", "late/nobody": "PeersNobody []", "late/anywhere": "Used []",
		"lost/any": "AppliesToNobody []",
	}
	for _, u := range w.RuleUses() {
		var by []string
		for _, r := range u.By {
			by = append(by, r.Rule.Name)
		}
		key, got := u.Policy.Name+"/"+u.Rule.Name, fmt.Sprint(u.Use, " ", by)
		if want[key] != got {
			t.Errorf("%s: %s, want %s", key, got, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("nothing is told of %v", want)
	}

	var got []string
	for _, o := range w.Overrides("uid-0") {
		got = append(got, fmt.Sprint(o.Winner.Rule.Name, " over ", o.Loser.Rule.Name, " ", o.Skips, " at ", o.Endpoints[0].Name, " from ", o.Peers.Prefixes()))
	}
	if want := []string{
		"low over postgres false at db from [10.0.0.10/32]", "high over postgres false at db from [10.0.0.10/32]",
		"pass-udp over dns true at db from [10.0.0.10/32]", "low over anywhere false at db from [10.0.0.0/24]",
	}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if late := w.Overrides("uid-1"); len(late) > 0 {
		t.Errorf("the later policy overrides %+v", late)
	}
}

// TestEffectiveTellsTheOrigin: what applies to one endpoint, in order, what decides there, and why
// the rest is dropped.
func TestEffectiveTellsTheOrigin(t *testing.T) {
	w, ends := lab(t,
		onDB("b", "application", 5, policy.Rule{Name: "web", Action: policy.Allow, Peers: []policy.Peer{{ExternalEntitySelector: selects("web")}}, Ports: tcp(5432, 5432)}),
		onDB("a", "emergency", 5, policy.Rule{Name: "all", Action: policy.Drop, Ports: tcp(1, 65535)}),
	)
	db := w.Effective(&ends[1])
	if len(db.Ingress.Rules) != 2 || db.Ingress.Rules[0].Rule.Name != "all" || !db.Ingress.Rules[0].Decides {
		t.Fatalf("%+v", db.Ingress.Rules)
	}
	if r := db.Ingress.Rules[1]; r.Decides || len(r.By) != 1 || r.By[0].Rule.Name != "all" {
		t.Errorf("the second rule: %+v", r)
	}
	if db.Ingress.Default != reach.Drop || len(db.Ingress.IsolatedBy) != 1 || db.Ingress.IsolatedBy[0].Name != "b" {
		t.Errorf("default %s by %v", db.Ingress.Default, db.Ingress.IsolatedBy)
	}
	if db.Egress.Default != reach.Native || len(db.Egress.Rules) != 0 {
		t.Errorf("egress: %+v", db.Egress)
	}
	suspended := ends[1]
	suspended.Suspended = "mode plan"
	if got := w.Effective(&suspended); got.Ingress.Suspended != "mode plan" || len(got.Ingress.Rules) != 2 {
		t.Errorf("a suspended machine: %+v", got.Ingress)
	}
}

// TestNobodyIsToldToReachHimself: where all that is left of a row is what somebody sends to
// himself, there is no row.
func TestNobodyIsToldToReachHimself(t *testing.T) {
	w, ends := lab(t, onDB("p", "application", 5,
		policy.Rule{Name: "web", Action: policy.Allow, Peers: []policy.Peer{{ExternalEntitySelector: selects("web")}}}))
	machines := func(e *reach.Endpoint) bool { return e.Kind == policy.KindExternalEntity }
	flows := w.Reach(reach.Question{
		From: reach.Party{Chosen: machines}, To: reach.Party{Chosen: func(e *reach.Endpoint) bool { return e == &ends[1] }}, Refused: true,
	})
	for _, f := range flows {
		if f.Outcome != reach.Native || len(f.From.Members) != 1 || f.From.Members[0].Name != "web" {
			t.Errorf("%s from %+v to %+v", f.Outcome, f.From, f.To)
		}
	}
	if len(flows) != 1 {
		t.Errorf("%d rows, want the one from web", len(flows))
	}
}
