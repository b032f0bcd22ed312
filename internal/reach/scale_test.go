package reach_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
)

// wide is a world of a few Pods under two policies, one of n rules for ingress and one for egress.
func wide(n int, rule func(i int) (cidr string, from, to int)) *reach.World {
	e := compute.New(compute.Options{})
	e.PutNamespace(policy.Namespace{Name: "shop"})
	var rules []policy.Rule
	for i := range n {
		cidr, from, to := rule(i)
		rules = append(rules, policy.Rule{
			Name: fmt.Sprint("r", i), Action: []policy.Action{policy.Allow, policy.Drop}[i%2], Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: cidr}}},
			Ports: tcp(int32(from), int32(to)),
		})
	}
	all := []policy.AppliedTo{{PodSelector: &policy.Selector{}}}
	e.PutPolicy(policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "shop", Name: "in", UID: "in", Priority: 5, AppliedTo: all, Ingress: rules})
	e.PutPolicy(policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "shop", Name: "out", UID: "out", Priority: 5, AppliedTo: all, Egress: rules})
	var ends []reach.Endpoint
	for i := range 4 {
		x := policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "shop", Name: fmt.Sprint("web-", i)}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i), 5})}, Host: "n1"}
		e.PutEntity(x)
		ends = append(ends, reach.Endpoint{EntityRef: x.EntityRef, Name: x.Name, Addresses: x.Addresses, Semantics: evaluate.PodSemantics})
	}
	e.Commit()
	return reach.New(reach.Input{Listing: e.Listing(), Endpoints: ends})
}

// The kinds of rules that there may be many of: for a port and block each, for one port and many
// blocks, and for ranges of ports that lie in one another.
func eachItsPort(i int) (string, int, int) {
	cidr := fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)
	if i%5 == 0 {
		cidr = "0.0.0.0/0"
	}
	return cidr, 1000 + 7*i, 1000 + 7*i + i%9
}

func nested(i int) (string, int, int) {
	return fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), 1000 + i, 60000 - i
}

func everything() reach.Question {
	return reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true}
}

// TestCostOfRules: twice as many rules cost a little more than twice as much.
func TestCostOfRules(t *testing.T) {
	for name, ask := range map[string]func(*reach.World){
		"reach":     func(w *reach.World) { w.Reach(everything()) },
		"uses":      func(w *reach.World) { w.RuleUses() },
		"overrides": func(w *reach.World) { w.Overrides("") },
		"alike":     func(w *reach.World) { w.Alike(func(*reach.Endpoint) bool { return true }) },
	} {
		var former int64
		for _, n := range []int{250, 500, 1000} {
			w, b := wide(n, eachItsPort), work.New(1<<40, nil)
			ask(w.Within(b))
			cost := 1<<40 - b.Left()
			if former > 0 && float64(cost) > 2.4*float64(former) {
				t.Errorf("%s: %d rules cost %d, half of them %d", name, n, cost, former)
			}
			former = cost
		}
	}
}

// TestTooMuch: what costs more than it may ends, and so does what nobody waits for.
func TestTooMuch(t *testing.T) {
	w := wide(60, nested)
	whole := w.Reach(everything())
	gone, cancel := context.WithCancel(t.Context())
	for name, ask := range map[string]func(*reach.World){
		"reach": func(w *reach.World) { w.Reach(everything()) }, "uses": func(w *reach.World) { w.RuleUses() },
		"overrides": func(w *reach.World) { w.Overrides("") }, "alike": func(w *reach.World) { w.Alike(func(*reach.Endpoint) bool { return true }) },
	} {
		if err := work.Within(func() error { ask(w.Within(work.New(100, nil))); return nil }); !errors.Is(err, work.ErrTooMuch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancel()
	if err := work.Within(func() error { w.Within(work.New(1<<40, gone.Err)).Reach(everything()); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
	if again := w.Reach(everything()); !reflect.DeepEqual(again, whole) {
		t.Error("the world is not what it was")
	}
}
