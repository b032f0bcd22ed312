package show

import (
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
)

// TestHiddenIsSaid: where a member that the caller may not see decides, the answer does not say
// that only the enforcer knows.
func TestHiddenIsSaid(t *testing.T) {
	d := &analysis.Decision{Outcome: "Unknown", Possible: []string{"Allow", "Drop"}, Uncertain: []analysis.Rule{{DependsOn: []string{explain.DependsOnUnseen}}}}
	if got, want := reason(d, analysis.End{Title: "10.0.0.1"}), "it depends on members that you may not see: Allow or Drop"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestExplanation: each kind of answer has its own line.
func TestExplanation(t *testing.T) {
	pod := func(name string) analysis.End {
		return analysis.End{Kind: "Pod", Namespace: "a", Name: name, Title: "Pod a/" + name, Enforcer: "n1"}
	}
	vm := analysis.End{Kind: "ExternalEntity", Namespace: "vms", Name: "db", Title: "VM vms/db", Enforcer: "cloud/vms/shop", VM: &analysis.VM{ID: "i-1"}}
	address := analysis.End{Title: "203.0.113.7"}
	rule := func(kind, name, direction string, index int32, text string) *analysis.Rule {
		return &analysis.Rule{Policy: analysis.Policy{Type: kind, Namespace: "a", Name: name}, Direction: direction, Name: text, Index: index, TierPriority: 250, Priority: 1}
	}
	open := &analysis.Decision{Outcome: "Allow", Default: explain.DefaultNone}
	shut := &analysis.Decision{Outcome: "Drop", DecidedBy: rule("AntreaNetworkPolicy", "closed", "Out", 0, "shut")}
	through := *rule("AntreaNetworkPolicy", "db", "In", 0, "twin")
	through.Through = []string{"ExternalEntity vms/one"}
	unnamed := rule("K8sNetworkPolicy", "two", "In", 1, "")
	unnamed.TierPriority = 0
	uncertain := *rule("AntreaNetworkPolicy", "closed", "Out", 0, "shut")
	uncertain.DependsOn = []string{"Service a/shop", "Service a/late"}
	backends := []analysis.Backend{{Kind: "Pod", Namespace: "a", Name: "web", Address: "10.1.0.10", Port: 8080}, {Address: "203.0.113.9", Port: 6443}}
	shop := &analysis.Service{Namespace: "a", Name: "shop", Backends: backends}
	number := func(n int32) *int32 { return &n }
	answer := func(from, to analysis.End, egress, ingress *analysis.Decision) analysis.FlowAnswer {
		return analysis.FlowAnswer{From: from, To: to, Protocol: "TCP", Port: 80, Verdict: ingress.Outcome, Wanted: ingress.Outcome, Egress: egress, Ingress: ingress}
	}
	in := func(d analysis.Decision) analysis.FlowAnswer { return answer(address, pod("web"), open, &d) }
	with := func(x analysis.FlowAnswer, change func(*analysis.FlowAnswer)) analysis.FlowAnswer {
		change(&x)
		return x
	}
	for name, c := range map[string]struct {
		answer analysis.FlowAnswer
		want   []string
	}{
		"an address":      {in(*open), []string{"203.0.113.7 -> Pod a/web, TCP port 80: Allow\n", "egress  Allow: an address; no policy applies there\n"}},
		"its own Node":    {in(analysis.Decision{Outcome: "Allow", Default: "ownNode"}), []string{"ingress Allow: it comes from the Pod's own Node, which is always let in\n"}},
		"itself":          {in(analysis.Decision{Outcome: "Allow", Default: "itself"}), []string{"ingress Allow: it goes to where it comes from; no policy is asked\n"}},
		"no policy":       {in(analysis.Decision{Outcome: "Allow", Default: "native"}), []string{"ingress Allow: no policy decides; it is let through\n"}},
		"failsafe":        {in(analysis.Decision{Outcome: "Allow", Failsafe: "vms/shop"}), []string{"ingress Allow: allowed by failsafe of account vms/shop, before any rule\n"}},
		"a rule":          {answer(pod("web"), address, shut, open), []string{`egress  Drop: rule "shut" (AntreaNetworkPolicy a/closed, tier 250, priority 1, rule 0)` + "\n"}},
		"an unnamed rule": {in(analysis.Decision{Outcome: "Allow", DecidedBy: unnamed}), []string{"ingress Allow: rule ingress[1] (K8sNetworkPolicy a/two)\n"}},
		"a shared address": {in(analysis.Decision{Outcome: "Allow", DecidedBy: &through}), []string{
			`rule "twin" (AntreaNetworkPolicy a/db, tier 250, priority 1, rule 0), by the same address of ExternalEntity vms/one` + "\n"}},
		"unknown": {answer(pod("web"), address, &analysis.Decision{Outcome: "Unknown", Possible: []string{"Allow", "Drop"}, Uncertain: []analysis.Rule{uncertain}}, open), []string{
			"egress  Unknown: only the enforcer knows: Allow or Drop\n",
			`may match, depending on a name or Service: rule "shut" (AntreaNetworkPolicy a/closed, tier 250, priority 1, rule 0), if the destination is Service a/shop or Service a/late` + "\n"}},
		"suspended": {answer(address, vm, open, &analysis.Decision{Outcome: "Native", NotEnforced: "break-glass (VirtualMachine vms/i-1: fire)", IfEnforced: shut}), []string{
			"ingress Native: not enforced: break-glass (VirtualMachine vms/i-1: fire); the security groups that the machine holds decide\n", `if enforced: Drop: rule "shut"`}},
		"an echo request": {with(in(*open), func(x *analysis.FlowAnswer) { x.Protocol, x.ICMPCode = "ICMP", number(0) }), []string{"ICMP echo request (type 8 in IPv4, 128 in IPv6) code 0: Allow\n"}},
		"a type of ICMP":  {with(in(*open), func(x *analysis.FlowAnswer) { x.Protocol, x.ICMPType, x.ICMPCode = "ICMP", number(3), number(1) }), []string{"ICMP type 3 code 1: Allow\n"}},
		"a report":        {with(in(*open), func(x *analysis.FlowAnswer) { x.Protocol, x.IGMPType = "IGMP", number(0x16) }), []string{"IGMP type 0x16: Allow\n"}},
		"a query":         {with(in(*open), func(x *analysis.FlowAnswer) { x.Protocol, x.IGMPType, x.IGMPGroup = "IGMP", number(0x11), "224.0.0.1" }), []string{"IGMP type 0x11 about 224.0.0.1: Allow\n"}},
		"a Service": {with(in(*open), func(x *analysis.FlowAnswer) {
			x.To, x.Service, x.AtService, x.Notes = analysis.End{Title: "10.96.0.10"}, shop, &analysis.Decision{Outcome: "Drop", DecidedBy: rule("AntreaNetworkPolicy", "at", "In", 0, "ban")}, []string{"it says so"}
		}), []string{"-> 10.96.0.10 (Service a/shop), TCP port 80", "Service a/shop hands it to Pod a/web (10.1.0.10 port 8080) or 203.0.113.9 port 6443\n", "  note: it says so\n", `  service Drop: rule "ban"`}},
		"two endpoints": {with(in(*open), func(x *analysis.FlowAnswer) {
			x.Verdict, x.Reason, x.Egress, x.Ingress, x.Service = "Unknown", "it depends on the endpoint", nil, nil, shop
			x.Flows = []analysis.Flow{{From: "10.1.1.20", To: "10.96.0.10", Backend: &backends[0], Verdict: "Allow", Egress: open, Ingress: open}, {From: "10.1.1.20", Backend: &backends[1], Verdict: "Drop", Egress: shut, Ingress: open}}
		}), []string{": Unknown\n", "  it depends on the endpoint\n", "  10.1.1.20 -> 10.96.0.10 at Pod a/web (10.1.0.10 port 8080): Allow\n", "  10.1.1.20 -> 203.0.113.9 port 6443: Drop\n    egress  Drop: rule \"shut\""}},
		"a load balancer": {with(in(*open), func(x *analysis.FlowAnswer) {
			hop := analysis.Hop{From: "10.1.0.5", To: "10.1.1.10", Port: 8080, Verdict: "Drop", Wanted: "Allow", Egress: open, Ingress: shut}
			health := hop
			health.Port = 8081
			x.Balanced = &analysis.Balanced{Balancer: "front", Targets: []analysis.BalancedTarget{
				{Group: "web", At: vm, Traffic: hop, Health: &health, InUse: true}, {Group: "direct", At: vm, Preserved: true, Traffic: hop},
			}}
		}), []string{
			"load balancer front hands it on:\n", "to VM vms/db (target group web), TCP port 8080, from 10.1.0.5 (the balancer's address): Drop\n", "if everything were enforced: Allow\n",
			"health checks, TCP port 8081, from 10.1.0.5 (the balancer's address): Drop\n", "(target group direct), TCP port 8080, from 10.1.0.5 (the client's address, which is preserved): Drop\n",
			"the health checks fail, so the balancer sends it nothing"}},
	} {
		text := Explanation(&c.answer)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
}
