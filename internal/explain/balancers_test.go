package explain_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

// TestThroughBalancersIsWhatTheCloudDoes holds what explain says of every hop of flows to load
// balancers against the simulator: on random accounts, before and after random policies on their
// targets are enforced, with client addresses preserved and not.
func TestThroughBalancersIsWhatTheCloudDoes(t *testing.T) {
	t.Parallel()
	draw := func(t *testing.T, random *rand.Rand) hopped { return newBalancedWorld(t, random) }
	compareHopped(t, 6, draw, map[string]int{"Allow": 20, "Drop": 20, "Unknown": 5, "preserved": 20, "not preserved": 20, "not in use": 20, "health cut": 20})
}

// balancedWorld is a VPC with load balancers before its VMs.
type balancedWorld struct{ *previewtest.World }

func newBalancedWorld(t *testing.T, random *rand.Rand) *balancedWorld {
	t.Helper()
	var b strings.Builder
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	b.WriteString("accounts:\n- id: \"111122223333\"\n  regions:\n  - name: us-west-2\n    vpcs:\n    - name: shop\n      id: vpc-00000001\n      cidrs: [10.1.0.0/16]\n      groups:\n")
	machines, fronts := []string{"g0", "g1"}, []string{"g2", "g3"}
	for _, g := range slices.Concat(machines, fronts) {
		rules, from := []string{}, []string{"any", "10.1.0.0/16", "10.1.1.0/24"}
		if slices.Contains(machines, g) { // what groups of balancers refer to keeps machines from being taken over
			from = append(from, "g0", "g2", "g3")
		}
		for range 1 + random.IntN(3) {
			rules = append(rules, strconv.Quote(pick("tcp 80", "tcp 8080", "tcp 8000-9000", "all", "all")+" from "+pick(from...)))
		}
		if random.IntN(3) == 0 {
			rules = append(rules, strconv.Quote(pick("tcp 8080", "all")+" to "+pick("any", "10.1.0.0/17", "10.1.1.0/24")))
		}
		slices.Sort(rules)
		fmt.Fprintf(&b, "      - {name: %s, rules: [%s]}\n", g, strings.Join(slices.Compact(rules), ", "))
	}
	b.WriteString("      vms:\n")
	for i := range 5 {
		fmt.Fprintf(&b, "      - {name: vm-%d, ip: 10.1.1.%d, groups: [%s], tags: {app: %s}}\n", i, 10+i, pick(machines...), pick("web", "db"))
	}
	b.WriteString("      targetGroups:\n")
	for i := range 6 {
		protocol, targets := "HTTP", []string{}
		if i >= 2 {
			protocol = pick("TCP", "TCP", "UDP")
		}
		ip := random.IntN(2) == 0
		for k := range 5 {
			switch {
			case random.IntN(2) == 0:
			case ip:
				targets = append(targets, fmt.Sprintf("10.1.1.%d", 10+k))
			default:
				targets = append(targets, fmt.Sprintf("vm-%d", k))
			}
		}
		more := pick("", ", healthPort: 8081", ", healthPort: 8080")
		if i >= 2 {
			more += pick("", "", ", preserveClientIP: true", ", preserveClientIP: false")
		}
		fmt.Fprintf(&b, "      - {name: t%d, protocol: %s, port: %s, targets: [%s]%s}\n", i, protocol, pick("80", "8080"), strings.Join(targets, ", "), more)
	}
	b.WriteString("      services:\n")
	for i := range 2 {
		fmt.Fprintf(&b, "      - {kind: application-load-balancer, name: app-%d, groups: [%s], listeners: [HTTP 80 to t%d]}\n", i, pick(fronts...), i)
		holds := ""
		if random.IntN(2) == 0 {
			holds = "groups: [" + pick(fronts...) + "], "
		}
		fmt.Fprintf(&b, "      - {kind: network-load-balancer, name: net-%d, %slisteners: [TCP_UDP 80 to t%d, TCP_UDP 81 to t%d]}\n", i, holds, 2+2*i, 3+2*i)
	}
	server := previewtest.Simulated(t, estatetest.Parse(t, b.String()), 1)
	provider := previewtest.AWS(t, server, "us-west-2")
	return &balancedWorld{&previewtest.World{Rand: random, Server: server, Provider: provider, Tags: []string{"web", "db"}}}
}

func (w *balancedWorld) Policies(n int) []string {
	var out []string
	for i := range n {
		var rules []string
		for range 1 + w.IntN(2) {
			peer := []string{
				"externalEntitySelector: {matchLabels: {nephe.antrea.io/kind: cloudnativeservice}}", "ipBlock: {cidr: 10.1.1.0/24}",
				"externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: web}}", "ipBlock: {cidr: 0.0.0.0/0}",
				"externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: db}}",
			}[w.IntN(5)]
			port := []string{"port: 80", "port: 8080", "port: 8000, endPort: 9000"}[w.IntN(3)]
			rules = append(rules, fmt.Sprintf("{action: %s, from: [{%s}], ports: [{protocol: TCP, %s}]}", []string{"Allow", "Allow", "Drop"}[w.IntN(3)], peer, port))
		}
		out = append(out, fmt.Sprintf("---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p%d, namespace: vms}\nspec:\n  priority: %d\n"+
			"  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: %s}}}]\n  ingress: [%s]\n", i, i+1, w.Tags[w.IntN(2)], strings.Join(rules, ", ")))
	}
	return out
}

// Want makes what is wanted the policies, on all VMs, and imports the services.
func (w *balancedWorld) Want(t *testing.T, policies []string) {
	t.Helper()
	const all = "{vpcMatch: {matchID: vpc-00000001}}"
	w.Planner = previewtest.Planner(t, w.Provider, previewtest.Imports("awsConfig: {region: [us-west-2]", all, all, policies...))
}

// compareHops asks about flows from every VM to every front end.
func (w *balancedWorld) compareHops(t *testing.T, when string, seen map[string]int) {
	t.Helper()
	c, err := w.Planner.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snap := c.Computed.Objects.Observed[0].Snapshots[0]
	for _, n := range snap.Interfaces {
		if n.VMID == "" {
			continue
		}
		for _, s := range snap.Services {
			for _, front := range s.Private {
				protocol, port := []string{"TCP", "UDP"}[w.IntN(4)/3], []int{80, 81}[w.IntN(2)]
				q := explain.Question{From: n.PrivateIPs[0].String(), To: front.String(), Protocol: protocol, Port: strconv.Itoa(port)}
				flow := packet.Flow{Src: packet.End{NIC: n.ID, Addr: n.PrivateIPs[0]}, Dst: packet.End{VPC: s.NetworkID, Addr: front}, Protocol: map[string]int{"TCP": 6, "UDP": 17}[protocol], Port: port}
				truth, through, err := w.Server.World().Through(flow)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.Computed.Answer(q)
				if err != nil {
					t.Fatal(err)
				}
				if wrong := differs(got, truth, through, seen); wrong != "" {
					t.Errorf("%s, %s -> %s (%s): %s\nthe simulator: %+v\n%s", when, q.From, q.To, s.Name, wrong, truth, previewtest.JSON(got))
					return
				}
			}
		}
	}
}

// differs says in what an answer is not what the simulator says.
func differs(got *analysis.FlowAnswer, truth packet.Passage, through bool, seen map[string]int) string {
	b := got.Balanced
	if !through || b == nil {
		if through != (b != nil) {
			return fmt.Sprintf("through a balancer: %t", b != nil)
		}
		return ""
	}
	seen[got.Verdict]++
	if entry := got.Egress.Outcome == "Allow" && got.Ingress.Outcome == "Allow"; entry != truth.Entry.Allowed {
		return "the way to the front end"
	}
	if len(b.Targets) != len(truth.Targets) {
		return "the number of targets"
	}
	used := map[bool]bool{}
	for _, have := range truth.Targets {
		i := slices.IndexFunc(b.Targets, func(x analysis.BalancedTarget) bool { return sameTarget(x, have) })
		if i < 0 {
			return "no target " + have.Target.ID
		}
		x := b.Targets[i]
		switch {
		case x.Preserved != truth.Preserved || x.Traffic.From != have.From.String() || int(x.Traffic.Port) != have.Port:
			return "from where " + have.Target.ID + " sees it come"
		case (x.Traffic.Verdict == "Allow") != have.Verdict.Allowed:
			return "the way to " + have.Target.ID + ": " + have.Verdict.Reason
		case (x.Health.Verdict == "Allow") != have.Health.Allowed:
			return "health checks of " + have.Target.ID + ": " + have.Health.Reason
		case x.InUse != have.InUse:
			return "in use: " + have.Target.ID
		}
		if x.InUse {
			used[have.Verdict.Allowed] = true
		} else {
			seen["not in use"]++
		}
		if !have.Health.Allowed {
			seen["health cut"]++
		}
		seen[string(x.Traffic.Ingress.Differs)]++
	}
	seen[map[bool]string{true: "preserved", false: "not preserved"}[truth.Preserved]]++
	want := "Drop"
	switch {
	case !truth.Entry.Allowed || !used[true]:
	case used[false]:
		want = "Unknown"
	default:
		want = "Allow"
	}
	if got.Verdict != want {
		return "the verdict is " + got.Verdict + ", want " + want
	}
	if truth.Allowed != (want != "Drop") {
		return "the simulator lets it through otherwise"
	}
	return ""
}

// sameTarget reports whether an answer is about a target of the simulator.
func sameTarget(x analysis.BalancedTarget, have packet.TargetPassage) bool {
	if a, err := netip.ParseAddr(have.Target.ID); err == nil {
		return x.Traffic.To == a.String()
	}
	return x.At.VM != nil && x.At.VM.ID == have.Target.ID
}

// TestPlanWarnsOfCutBalancers: a policy on the targets of a load balancer that lets in their
// clients and not the balancer is warned of, with all that it takes to mend it; one that lets in
// the balancer is not.
func TestPlanWarnsOfCutBalancers(t *testing.T) {
	t.Parallel()
	server := previewtest.Simulated(t, estatetest.Parse(t, balancedEstate), 1)
	provider := previewtest.AWS(t, server, "us-west-2")
	w := &balancedWorld{&previewtest.World{Server: server, Provider: provider}}
	policy := func(peer string, ports ...string) []string {
		var text []string
		for _, p := range ports {
			text = append(text, "{protocol: TCP, port: "+p+"}")
		}
		return []string{"---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: vms}\nspec:\n  priority: 5\n" +
			"  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: web}}}]\n  ingress: [{action: Allow, from: [" + peer + "], ports: [" + strings.Join(text, ", ") + "]}]\n"}
	}
	clients := "{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: client}}}"
	balancer := "{externalEntitySelector: {matchLabels: {nephe.antrea.io/kind: cloudnativeservice}}}"
	for _, c := range []struct {
		name   string
		policy []string
		want   []string
	}{
		{"clients only", policy(clients, "8080"), []string{
			"NetworkPolicy vms/web: what the load balancer front hands on is not let in to", "TCP port 8080 from 10.1.", "the health checks of the load balancer front",
			"the health checks of the load balancer pass", "target group direct",
		}},
		{"the port of the traffic only", policy(balancer+", "+clients, "8080"), []string{"the health checks of the load balancer front", "the health checks of the load balancer pass"}},
		{"the balancer", policy(balancer+", "+clients, "8080", "8081"), nil},
	} {
		w.Want(t, c.policy)
		made, err := w.Planner.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		answer := w.Planner.Answer(made)
		for i, text := range answer.Warnings {
			if answer.WarningReasons[i] == "CutsBalancer" {
				got = append(got, text)
			}
		}
		all := strings.Join(got, "\n")
		for _, part := range c.want {
			if !strings.Contains(all, part) {
				t.Errorf("%s: no %q in\n%s", c.name, part, all)
			}
		}
		if len(c.want) == 0 && all != "" {
			t.Errorf("%s: %s", c.name, all)
		}
		if strings.Contains(all, "what the load balancer pass hands on") {
			t.Errorf("%s: its targets see the client\n%s", c.name, all)
		}
	}
	// What explain says of the same.
	w.Want(t, policy(clients, "8080"))
	w.Perform(t, -1)
	w.Want(t, policy(clients, "8080"))
	computed, err := w.Planner.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name, port string) *analysis.FlowAnswer {
		t.Helper()
		services := computed.Computed.Objects.Observed[0].Snapshots[0].Services
		i := slices.IndexFunc(services, func(s cloud.Service) bool { return s.Name == name })
		answer, err := computed.Computed.Answer(explain.Question{From: "vms/client", To: services[i].Private[0].String(), Protocol: "TCP", Port: port})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	target := func(x *analysis.FlowAnswer, name string) *analysis.BalancedTarget {
		t.Helper()
		i := slices.IndexFunc(x.Balanced.Targets, func(b analysis.BalancedTarget) bool { return b.At.VM.Name == name })
		if i < 0 {
			t.Fatalf("no target %s in %s", name, previewtest.JSON(x))
		}
		return &x.Balanced.Targets[i]
	}
	front := ask("front", "80")
	if web := target(front, "web-1"); front.Verdict != "Drop" || front.Egress.Outcome != "Allow" || front.Ingress.Outcome != "Allow" || len(front.Balanced.Targets) != 2 ||
		front.Balanced.Balancer != "front" || web.Group != "web" || web.Preserved || web.Traffic.From == "10.1.1.20" || web.Traffic.Port != 8080 || web.Traffic.Verdict != "Drop" ||
		!isolatedBy(web.Traffic.Ingress, "web") || web.Health == nil || web.Health.Port != 8081 || web.Health.Verdict != "Drop" {
		t.Errorf("%s", previewtest.JSON(front))
	}
	// The policy lets the client in by its label, which becomes a rule that names its group.
	pass := ask("pass", "80")
	if web := target(pass, "web-1"); web.Group != "direct" || !web.Preserved || web.Traffic.From != "10.1.1.20" || web.Traffic.Port != 8080 || web.Traffic.Verdict != "Drop" ||
		web.Traffic.Wanted != "Allow" || web.Traffic.Ingress.Differs != explain.DiffersBalanced {
		t.Errorf("%s", previewtest.JSON(pass))
	}
	unheard := ask("front", "443")
	if unheard.Balanced != nil || !slices.ContainsFunc(unheard.Notes, func(n string) bool { return strings.Contains(n, "does not listen at TCP port 443") }) {
		t.Errorf("%s", previewtest.JSON(unheard))
	}
}

// isolatedBy reports whether a direction is isolated by the policy of a name, and by no other.
func isolatedBy(d *analysis.Decision, name string) bool {
	if d.Default == "" && d.IfEnforced != nil {
		d = d.IfEnforced
	}
	return d.Default == "isolated" && len(d.IsolatedBy) == 1 && d.IsolatedBy[0].Name == name
}

// balancedEstate has a web tier behind an application and a network load balancer.
const balancedEstate = `
accounts:
- id: "111122223333"
  regions:
  - name: us-west-2
    vpcs:
    - name: shop
      id: vpc-00000001
      cidrs: [10.1.0.0/16]
      groups:
      - {name: web, rules: ["tcp 1-65535 from any"]}
      vms:
      - {name: web-1, ip: 10.1.1.10, groups: [web], tags: {app: web}}
      - {name: web-2, ip: 10.1.1.11, groups: [web], tags: {app: web}}
      - {name: client, ip: 10.1.1.20, groups: [web], tags: {app: client}}
      targetGroups:
      - {name: web, protocol: HTTP, port: 8080, targets: [web-1, web-2], healthPort: 8081}
      - {name: direct, protocol: TCP, port: 8080, targets: [web-1], healthPort: 8081}
      services:
      - {kind: application-load-balancer, name: front, groups: [web], listeners: [HTTP 80 to web]}
      - {kind: network-load-balancer, name: pass, listeners: [TCP 80 to direct]}
`
