package admission

import (
	"fmt"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

// dense is a policy of n rules that have nearly the same peers and ports, so many of each.
func dense(n, each int) *policy.Policy {
	p := &policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: "p", Priority: 5}
	for i := range n {
		r := policy.Rule{Name: fmt.Sprint("r", i), Action: policy.Drop}
		for k := range each {
			port := policy.PortRef{Number: int32(1000 + k)}
			r.Ports = append(r.Ports, policy.Port{Protocol: policy.TCP, Port: &port})
			r.Peers = append(r.Peers, policy.Peer{IPBlock: &policy.IPBlock{CIDR: fmt.Sprintf("10.%d.%d.0/24", k/250, k%250)}})
		}
		last := policy.PortRef{Number: int32(30000 + i)}
		r.Ports = append(r.Ports, policy.Port{Protocol: policy.TCP, Port: &last})
		p.Ingress = append(p.Ingress, r)
	}
	return p
}

// TestComparisonsAreBounded: what rules leave one another is told of policies as people write them,
// and not sought for minutes in those that are made to be slow.
func TestComparisonsAreBounded(t *testing.T) {
	small := dense(3, 4)
	small.Ingress = append(small.Ingress, small.Ingress[0])
	if got := NeverMatches(small); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	pairs := &comparison{mostPairs}
	large := dense(mostCompared, 200)
	looked := 0
	for i := range large.Ingress {
		for k := range i {
			if pairs.left >= 0 {
				looked++
			}
			if pairs.takesAll(&large.Ingress[k], &large.Ingress[i]) {
				t.Fatalf("rule %d does not leave rule %d nothing", k, i)
			}
		}
	}
	if looked > 1000 || NeverMatches(large) != nil || OneFamily(large) != nil {
		t.Errorf("%d pairs of rules were compared", looked)
	}
}

// TestLargeSelectorsAreNotTried: a selector of more values than a person writes is compared with no
// entity.
func TestLargeSelectorsAreNotTried(t *testing.T) {
	for values, want := range map[int]int{maxConditions - 1: 1, maxConditions: 0, 100_000: 0} {
		s := &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "app", Operator: "In", Values: make([]string, values)}}}
		p := &policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: "p", AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: s}}}
		seen := 0
		SelectsNobody(p, func(yield func(Entity) bool) {
			for seen = 0; seen < 10 && yield(Entity{Namespace: "n", Labels: map[string]string{"app": "web"}}); seen++ {
			}
		})
		if (seen > 0) != (want > 0) {
			t.Errorf("%d values: compared with %d entities", values, seen)
		}
	}
}

// TestSeekingIsBounded: of selectors without end, and among entities without end, little is sought.
func TestSeekingIsBounded(t *testing.T) {
	p := &policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: "p"}
	for i := range 2000 {
		p.AppliedTo = append(p.AppliedTo, policy.AppliedTo{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}},
			policy.AppliedTo{Group: fmt.Sprint("group-", i)})
	}
	seen := 0
	entities := func(n int) func(yield func(Entity) bool) {
		return func(yield func(Entity) bool) {
			for seen = 0; seen < n; seen++ {
				if !yield(Entity{Namespace: "n", Labels: map[string]string{"app": "web"}}) {
					return
				}
			}
		}
	}
	if got := SelectsNobody(p, entities(100)); len(got) != mostSought {
		t.Errorf("%d selectors are told", len(got))
	}
	if got := SelectsNobody(p, entities(1_000_000)); got != nil || seen > mostLooks {
		t.Errorf("%d were told after %d entities", len(got), seen)
	}
	if got := NoSuchGroup(p, []string{"web"}); len(got) != mostSought {
		t.Errorf("%d groups are told", len(got))
	}
}
