package cli

import (
	"encoding/json"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

const (
	// pings allows echo requests of both families, and drops everything else.
	pings = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: ping, namespace: a}
spec:
  priority: 1
  appliedTo: [{podSelector: {matchLabels: {app: web}}}]
  ingress:
  - {name: four, action: Allow, protocols: [{icmp: {icmpType: 8}}]}
  - {name: six, action: Allow, protocols: [{icmp: {icmpType: 128}}]}
  - {name: query, action: Allow, protocols: [{igmp: {igmpType: 17, groupAddress: 224.0.0.1}}]}
  - {name: rest, action: Drop}
`
	two = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: two, namespace: a}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{podSelector: {}}], ports: [{port: 1}]}, {from: [{namespaceSelector: {}}], ports: [{port: 2}]}]
  egress: [{ports: [{port: 1}]}, {}]
`
	// clash rejects at the source what the destination drops.
	clash = `
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: clash}
spec:
  priority: 1
  appliedTo: [{podSelector: {}}]
  ingress: [{name: in, action: Drop, ports: [{port: 80}]}, {name: back, action: Reject}]
  egress:
  - {name: out, action: Reject, ports: [{port: 80}]}
  - {name: silent, action: Drop, ports: [{port: 81}]}
  - {name: perhaps, action: Reject, to: [{fqdn: example.com}], ports: [{port: 82}]}
  - {name: surely, action: Reject, to: [{fqdn: example.com}], ports: [{port: 83}]}
`
	// twins are two machines with one address.
	twins = `
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: one, namespace: vms, labels: {role: one}}
spec: {endpoints: [{ip: 10.50.0.1}], externalNode: cloud-a}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: other, namespace: vms, labels: {role: other}}
spec: {endpoints: [{ip: 10.50.0.1}], externalNode: cloud-b}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: db, namespace: vms, labels: {role: db}}
spec: {endpoints: [{ip: 10.50.0.9}], externalNode: cloud-a}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: db, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - {name: twin, action: Allow, from: [{externalEntitySelector: {matchLabels: {role: one}}}], ports: [{port: 80}]}
  - {name: both, action: Allow, from: [{externalEntitySelector: {matchLabels: {role: one}}}, {ipBlock: {cidr: 10.50.0.0/16}}], ports: [{port: 81}]}
`
)

// TestExplainICMP: the type of an echo request depends on the family; rules take types as they are.
func TestExplainICMP(t *testing.T) {
	answer(t, map[string]ask{
		"both families": {pings, "--from a/client --to a/web --protocol icmp", ExitDone, []string{
			"ICMP echo request (type 8 in IPv4, 128 in IPv6) code 0: Allow", `ingress Allow: rule "four"`, `ingress Allow: rule "six"`}},
		"IPv4":               {pings, "--from 10.1.1.20 --to a/web --protocol icmp", ExitDone, []string{"ICMP type 8 code 0: Allow", `rule "four"`}},
		"IPv6":               {pings, "--from fd01::20 --to a/web --protocol ICMP", ExitDone, []string{"ICMP type 128 code 0: Allow", `rule "six"`}},
		"ICMPv6 by its name": {pings, "--from a/client --to a/web --protocol ICMPv6", ExitDone, []string{"ICMP type 128 code 0: Allow", `rule "six"`}},
		"a type as given":    {pings, "--from fd01::20 --to a/web --protocol ICMP --icmp-type 8", ExitDone, []string{"ICMP type 8 code 0: Allow", `rule "four"`}},
		"another type":       {pings, "--from a/client --to a/web --protocol ICMP --icmp-type 3 --icmp-code 1", ExitNo, []string{"ICMP type 3 code 1: Drop", `rule "rest"`}},
	})
}

func TestExplainIGMP(t *testing.T) {
	answer(t, map[string]ask{
		"query": {
			pings,
			"--from 10.1.0.99 --to a/web --protocol IGMP --igmp-type 0x11 --igmp-group 224.0.0.1",
			ExitDone,
			[]string{"IGMP type 0x11 about 224.0.0.1: Allow", `ingress Allow: rule "query"`},
		},
		"of another group": {pings, "--from 10.1.0.99 --to a/web --protocol IGMP --igmp-type 0x11 --igmp-group 224.0.0.2", ExitNo, []string{`ingress Drop: rule "rest"`}},
		"report": {`
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: report, namespace: a}
spec:
  priority: 1
  appliedTo: [{podSelector: {}}]
  egress: [{name: join, action: Drop, protocols: [{igmp: {igmpType: 22, groupAddress: 239.1.1.1}}]}]
`, "--from a/web --to 239.1.1.1 --protocol igmp --igmp-type 0x16", ExitNo, []string{"IGMP type 0x16: Drop", `egress  Drop: rule "join"`}},
	})
}

// TestExplainRulesWithoutNames: the place of a rule names it.
func TestExplainRulesWithoutNames(t *testing.T) {
	answer(t, map[string]ask{
		"first": {
			two,
			"--from a/client --to a/web --port 1",
			ExitDone,
			[]string{"egress  Allow: rule egress[0] (K8sNetworkPolicy a/two)", "ingress Allow: rule ingress[0] (K8sNetworkPolicy a/two)"},
		},
		"second": {
			two,
			"--from a/client --to a/web --port 2",
			ExitDone,
			[]string{"egress  Allow: rule egress[1] (K8sNetworkPolicy a/two)", "ingress Allow: rule ingress[1] (K8sNetworkPolicy a/two)"},
		},
		"upstream": {`
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: admin}
spec:
  priority: 3
  subject: {namespaces: {}}
  ingress:
  - {action: Deny, from: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP, port: 1}}]}
  - {action: Deny, from: [{namespaces: {}}]}
`, "--from a/client --to a/web --port 2", ExitNo, []string{"ingress Drop: rule ingress[1] (AdminNetworkPolicy admin, tier 251, priority 3)"}},
	})
	r := nephele(t, town+two, "explain", "-f", "-", "--from", "a/client", "--to", "a/web", "--port", "2", "-o", "json")
	var got analysis.FlowAnswer
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || got.Ingress.DecidedBy.Index != 1 || got.Egress.DecidedBy.Index != 1 {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestExplainWhatTheSenderSees: what is refused at the source never reaches the destination.
func TestExplainWhatTheSenderSees(t *testing.T) {
	answer(t, map[string]ask{
		"reject before drop": {clash, "--from a/client --to a/web2 --port 80", ExitNo, []string{"TCP port 80: Reject", `egress  Reject: rule "out"`, `ingress Drop: rule "in"`}},
		"drop before reject": {clash, "--from a/client --to a/web2 --port 81", ExitNo, []string{"TCP port 81: Drop", `egress  Drop: rule "silent"`, `ingress Reject: rule "back"`}},
		"rejected either way": {clash, "--from a/client --to a/web2 --port 82", ExitNo, []string{
			"TCP port 82: Reject", "egress  Unknown: only the enforcer knows: Allow or Reject", `ingress Reject: rule "back"`}},
	})
}

// TestExplainSharedAddress: enforcers tell machines by their addresses only.
func TestExplainSharedAddress(t *testing.T) {
	twin := `ingress Allow: rule "twin" (AntreaNetworkPolicy vms/db, tier 250, priority 5, rule 0)`
	answer(t, map[string]ask{
		"by the twin":        {twins, "--from vms/other --to vms/db --port 80", ExitDone, []string{twin + ", by the same address of ExternalEntity vms/one\n"}},
		"itself":             {twins, "--from vms/one --to vms/db --port 80", ExitDone, []string{twin + "\n"}},
		"by the block, too":  {twins, "--from vms/other --to vms/db --port 81", ExitDone, []string{"tier 250, priority 5, rule 1)\n"}},
		"not by its address": {twins, "--from vms/other --to vms/db --port 82", ExitNo, []string{"isolated by AntreaNetworkPolicy vms/db"}},
	})
}
