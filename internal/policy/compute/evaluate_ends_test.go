package compute_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

func tcpPorts(n int32) []policy.Port { return []policy.Port{{Port: &policy.PortRef{Number: n}}} }

func labelled(k, v string) *policy.Selector {
	return &policy.Selector{MatchLabels: map[string]string{k: v}}
}

func atPod(name, address string) evaluate.Endpoint {
	return evaluate.Endpoint{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: name}, Addr: netip.MustParseAddr(address)}
}

func atNode(name, address string) evaluate.Endpoint {
	return evaluate.Endpoint{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: name}, Addr: netip.MustParseAddr(address)}
}

// village has two Pods on one Node and one on another, and these policies.
func village(t *testing.T, policies ...policy.Policy) *evaluate.Evaluator {
	t.Helper()
	e := compute.New(compute.Options{})
	e.PutNamespace(policy.Namespace{Name: "n"})
	put := func(end evaluate.Endpoint, host string) {
		e.PutEntity(policy.Entity{EntityRef: end.EntityRef, Host: host, Addresses: []netip.Addr{end.Addr}, Labels: map[string]string{"name": end.Name}})
	}
	put(atNode("n1", "192.168.0.1"), "")
	put(atNode("n2", "192.168.0.2"), "")
	put(atPod("a", "10.0.1.1"), "n1")
	put(atPod("b", "10.0.1.2"), "n1")
	put(atPod("c", "10.0.2.1"), "n2")
	put(atPod("twin", "10.0.1.2"), "n2")
	for _, p := range policies {
		e.PutPolicy(p)
	}
	if d := e.Commit(); len(d.Problems) > 0 {
		t.Fatal(d.Problems)
	}
	return evaluate.New(e.Listing())
}

func isolation() policy.Policy {
	return policy.Policy{Kind: policy.KubernetesNetworkPolicy, Namespace: "n", Name: "deny", UID: "deny",
		AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{}}}, PolicyTypes: []policy.Direction{policy.Ingress, policy.Egress}}
}

// TestEvaluateAtHome: no policy is asked about what an end sends to itself, nor at a Pod about what
// comes from its Node.
func TestEvaluateAtHome(t *testing.T) {
	v := village(t, isolation())
	a, b, c := atPod("a", "10.0.1.1"), atPod("b", "10.0.1.2"), atPod("c", "10.0.2.1")
	n1 := atNode("n1", "192.168.0.1")
	second := a
	second.Addr = netip.MustParseAddr("2001:db8::1")
	vm := evaluate.Endpoint{EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "n", Name: "vm"}, Addr: netip.MustParseAddr("10.1.0.1")}
	otherNIC := vm
	otherNIC.Addr = netip.MustParseAddr("10.1.0.2")
	service := policy.NamespacedName{Namespace: "n", Name: "s"}
	for name, tt := range map[string]struct {
		flow            evaluate.Flow
		egress, ingress evaluate.Exemption
		outcome         evaluate.Outcome
	}{
		"own Node":               {evaluate.Flow{Source: n1, Destination: a}, "", evaluate.ExemptOwnNode, evaluate.OutcomeNative},
		"another Node":           {evaluate.Flow{Source: n1, Destination: c}, "", "", evaluate.OutcomeDrop},
		"to the Node":            {evaluate.Flow{Source: a, Destination: n1}, "", "", evaluate.OutcomeDrop},
		"another Pod":            {evaluate.Flow{Source: a, Destination: b}, "", "", evaluate.OutcomeDrop},
		"itself":                 {evaluate.Flow{Source: a, Destination: a}, evaluate.ExemptItself, evaluate.ExemptItself, evaluate.OutcomeNative},
		"its other address":      {evaluate.Flow{Source: a, Destination: second}, evaluate.ExemptItself, evaluate.ExemptItself, evaluate.OutcomeNative},
		"an address to itself":   {evaluate.Flow{Source: evaluate.Endpoint{Addr: a.Addr}, Destination: a}, evaluate.ExemptItself, evaluate.ExemptItself, evaluate.OutcomeNative},
		"itself by a Service":    {evaluate.Flow{Source: a, Destination: a, Service: service}, "", evaluate.ExemptItself, evaluate.OutcomeDrop},
		"a machine to itself":    {evaluate.Flow{Source: vm, Destination: vm}, evaluate.ExemptItself, evaluate.ExemptItself, evaluate.OutcomeNative},
		"from NIC to NIC":        {evaluate.Flow{Source: vm, Destination: otherNIC}, "", "", evaluate.OutcomeNative},
		"nobody known to nobody": {evaluate.Flow{}, "", "", evaluate.OutcomeNative},
	} {
		tt.flow.Protocol, tt.flow.Port = policy.TCP, 80
		got := v.Evaluate(tt.flow)
		if got.Egress.Exempt != tt.egress || got.Ingress.Exempt != tt.ingress || got.Together() != tt.outcome {
			t.Errorf("%s: exempt %q and %q, %s; want %q and %q, %s", name, got.Egress.Exempt, got.Ingress.Exempt, got.Together(), tt.egress, tt.ingress, tt.outcome)
		}
	}
}

// TestEvaluateServices: toServices match what is sent to the Service; what applies to one holds for
// clients outside the cluster.
func TestEvaluateServices(t *testing.T) {
	shop, other := policy.NamespacedName{Namespace: "n", Name: "shop"}, policy.NamespacedName{Namespace: "n", Name: "other"}
	v := village(t, policy.Policy{
		Kind: policy.AntreaClusterNetworkPolicy, Name: "p", UID: "p", Priority: 1,
		Egress: []policy.Rule{{Name: "to", Action: policy.Drop, ToServices: []policy.ServicePeer{{Namespace: "n", Name: "shop"}},
			AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{}, NamespaceSelector: &policy.Selector{}}}}},
		Ingress: []policy.Rule{{Name: "at", Action: policy.Reject, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "0.0.0.0/0"}}},
			AppliedTo: []policy.AppliedTo{{Service: &shop}}}},
	})
	a, c, outside := atPod("a", "10.0.1.1"), atPod("c", "10.0.2.1"), evaluate.Endpoint{Addr: netip.MustParseAddr("203.0.113.1")}
	knows := v.WithServices(func(_ policy.NamespacedName, f *evaluate.Flow) bool { return f.Port == 80 })
	for name, tt := range map[string]struct {
		v    *evaluate.Evaluator
		flow evaluate.Flow
		want string
	}{
		"perhaps":               {v, evaluate.Flow{Source: a, Destination: c, Protocol: policy.TCP, Port: 81}, "Unknown - Native: Unknown"},
		"not on this port":      {knows, evaluate.Flow{Source: a, Destination: c, Protocol: policy.TCP, Port: 81}, "Native - Native: Native"},
		"perhaps on this":       {knows, evaluate.Flow{Source: a, Destination: c, Protocol: policy.TCP, Port: 80}, "Unknown - Native: Unknown"},
		"not by a Service":      {v, evaluate.Flow{Source: a, Destination: c, Protocol: policy.TCP, Port: 80, Direct: true}, "Native - Native: Native"},
		"ICMP":                  {v, evaluate.Flow{Source: a, Destination: c, Protocol: policy.ICMP, ICMPType: 8}, "Native - Native: Native"},
		"by the Service":        {v, evaluate.Flow{Source: a, Destination: c, Protocol: policy.TCP, Port: 8080, Service: shop}, "Drop - Native: Drop"},
		"by another":            {v, evaluate.Flow{Source: a, Destination: c, Protocol: policy.TCP, Port: 8080, Service: other}, "Native - Native: Native"},
		"from outside":          {v, evaluate.Flow{Source: outside, Destination: c, Protocol: policy.TCP, Port: 8080, Service: shop}, "Native Reject Native: Reject"},
		"from outside, another": {v, evaluate.Flow{Source: outside, Destination: c, Protocol: policy.TCP, Port: 8080, Service: other}, "Native - Native: Native"},
		"from outside, direct":  {v, evaluate.Flow{Source: outside, Destination: c, Protocol: policy.TCP, Port: 8080}, "Native - Native: Native"},
	} {
		got := tt.v.Evaluate(tt.flow)
		at := "-"
		if got.Service != nil {
			at = string(got.Service.Outcome)
		}
		if s := fmt.Sprintf("%s %s %s: %s", got.Egress.Outcome, at, got.Ingress.Outcome, got.Together()); s != tt.want {
			t.Errorf("%s: %s, want %s", name, s, tt.want)
		}
	}
}

// TestEvaluateNamesRules: by their place as the author wrote them, and by the entity that they
// match.
func TestEvaluateNamesRules(t *testing.T) {
	knp := isolation()
	knp.Ingress = []policy.Rule{{Ports: tcpPorts(1)}, {Ports: tcpPorts(2)}}
	knp.Egress = []policy.Rule{{Ports: tcpPorts(9)}, {Ports: tcpPorts(1)}, {Ports: tcpPorts(2)}}
	v := village(t, knp)
	a, c := atPod("a", "10.0.1.1"), atPod("c", "10.0.2.1")
	for port, want := range map[uint16][2]int{1: {1, 0}, 2: {2, 1}} {
		got := v.Evaluate(evaluate.Flow{Source: a, Destination: c, Protocol: policy.TCP, Port: port})
		if got.Egress.By.Index != want[0] || got.Ingress.By.Index != want[1] {
			t.Errorf("port %d: egress rule %d, ingress rule %d, want %v", port, got.Egress.By.Index, got.Ingress.By.Index, want)
		}
	}
	v = village(t, policy.Policy{
		Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: "p", UID: "p", Priority: 1, AppliedTo: []policy.AppliedTo{{PodSelector: labelled("name", "c")}},
		Ingress: []policy.Rule{
			{Name: "by group", Action: policy.Allow, Peers: []policy.Peer{{PodSelector: labelled("name", "b")}}, Ports: tcpPorts(1)},
			{Name: "by block", Action: policy.Drop, Peers: []policy.Peer{{PodSelector: labelled("name", "b")}, {IPBlock: &policy.IPBlock{CIDR: "10.0.1.2/32"}}}},
		},
	})
	for name, tt := range map[string]struct {
		from    evaluate.Endpoint
		port    uint16
		through []policy.EntityRef
	}{
		"itself":          {atPod("b", "10.0.1.2"), 1, nil},
		"another":         {atPod("twin", "10.0.1.2"), 1, []policy.EntityRef{atPod("b", "10.0.1.2").EntityRef}},
		"another's block": {atPod("twin", "10.0.1.2"), 2, nil},
		"an address":      {evaluate.Endpoint{Addr: netip.MustParseAddr("10.0.1.2")}, 1, nil},
	} {
		got := v.Evaluate(evaluate.Flow{Source: tt.from, Destination: c, Protocol: policy.TCP, Port: tt.port})
		if got.Ingress.By == nil || !slices.Equal(got.Ingress.By.Through, tt.through) {
			t.Errorf("%s: %+v, want a rule that matches through %v", name, got.Ingress.By, tt.through)
		}
	}
}

// TestTogether: the sender sees the first decision on the way that does not let the packet pass.
func TestTogether(t *testing.T) {
	is := func(list ...evaluate.Outcome) evaluate.Decision {
		if len(list) > 1 {
			return evaluate.Decision{Outcome: evaluate.OutcomeUnknown, Possible: list}
		}
		return evaluate.Decision{Outcome: list[0]}
	}
	const allow, drop, reject, native = evaluate.OutcomeAllow, evaluate.OutcomeDrop, evaluate.OutcomeReject, evaluate.OutcomeNative
	closed := is(drop)
	for _, tt := range []struct {
		v    evaluate.Verdict
		want evaluate.Outcome
	}{
		{evaluate.Verdict{Egress: is(allow), Ingress: is(allow)}, allow},
		{evaluate.Verdict{Egress: is(native), Ingress: is(allow)}, native},
		{evaluate.Verdict{Egress: is(allow), Ingress: is(native)}, native},
		{evaluate.Verdict{Egress: is(reject), Ingress: is(drop)}, reject},
		{evaluate.Verdict{Egress: is(drop), Ingress: is(reject)}, drop},
		{evaluate.Verdict{Egress: is(native), Ingress: is(reject)}, reject},
		{evaluate.Verdict{Egress: is(native), Service: &closed, Ingress: is(reject)}, drop},
		{evaluate.Verdict{Egress: is(reject), Service: &closed, Ingress: is(allow)}, reject},
		{evaluate.Verdict{Egress: is(drop, native), Ingress: is(drop)}, drop},
		{evaluate.Verdict{Egress: is(drop, native), Ingress: is(reject)}, evaluate.OutcomeUnknown},
		{evaluate.Verdict{Egress: is(drop, native), Ingress: is(allow)}, evaluate.OutcomeUnknown},
		{evaluate.Verdict{Egress: is(allow, native), Ingress: is(native)}, native},
		{evaluate.Verdict{Egress: is(drop), Ingress: is(allow, reject)}, drop},
		{evaluate.Verdict{Egress: is(allow), Ingress: is(drop, reject)}, evaluate.OutcomeUnknown},
	} {
		if got := tt.v.Together(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.v, got, tt.want)
		}
	}
}
