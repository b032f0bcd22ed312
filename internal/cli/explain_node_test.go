package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
)

// town has two Nodes with Pods of all kinds.
const town = `
apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {role: plain}}
spec: {podCIDR: 10.1.0.0/24}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {role: edge}}
status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: a, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c, image: x, ports: [{name: http, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.1.0.10}, {ip: "fd01::10"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web2, namespace: a, labels: {app: web}}
spec: {nodeName: n2, containers: [{name: c, image: x, ports: [{name: http, containerPort: 9090}]}]}
status: {podIPs: [{ip: 10.1.1.11}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: a, labels: {app: client}}
spec: {nodeName: n2, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 10.1.1.20}, {ip: "fd01::20"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: hostnet, namespace: a, labels: {app: host}}
spec: {nodeName: n2, hostNetwork: true, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 192.168.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stray, namespace: a, labels: {app: host}}
spec: {nodeName: n3, hostNetwork: true, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 192.168.0.3}]}
---
`

// ask is what explain is asked and what it must answer.
type ask struct {
	policies string
	args     string
	code     int
	want     []string
}

// answer asks explain, without reading the same manifests again for every question.
func answer(t *testing.T, asks map[string]ask) {
	t.Helper()
	read := map[string]*preview.Computation{}
	for name, c := range asks {
		if read[c.policies] == nil {
			read[c.policies] = inTown(t, c.policies)
		}
		t.Run(name, func(t *testing.T) {
			got, err := question(t, read[c.policies], c.args)
			if err != nil {
				t.Fatal(err)
			}
			if passes := c.code == ExitDone; explain.Passes(got) != passes {
				t.Errorf("passes: %t, want %t", explain.Passes(got), passes)
			}
			for _, want := range c.want {
				if text := show.Explanation(got); !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

// inTown computes the manifests in the town.
func inTown(t *testing.T, manifests string) *preview.Computation {
	t.Helper()
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(town+manifests))
	if err != nil {
		t.Fatal(err)
	}
	c := preview.Compute(in)
	if len(in.Refused) > 0 {
		t.Fatal(in.Refused)
	}
	return c
}

// question asks what a command line asks.
func question(t *testing.T, c *preview.Computation, args string) (*analysis.FlowAnswer, error) {
	t.Helper()
	var f explainFlags
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	f.register(flags)
	if err := flags.Parse(strings.Fields(args)); err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	a, err := c.Computed.Answer(f.question(flags))
	return a, aboutFlag(err)
}

const (
	// sealed is applied to a Node.
	sealed = `
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: nodes}
spec:
  priority: 1
  appliedTo: [{nodeSelector: {matchLabels: {role: edge}}}]
  ingress: [{name: in, action: Drop}]
  egress: [{name: out, action: Drop}]
`
	// deny isolates every Pod, in both directions.
	deny = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: a}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
`
	edgeIn  = `ingress Drop: rule "in" (AntreaClusterNetworkPolicy nodes, tier 250, priority 1, rule 0)`
	edgeOut = `egress  Drop: rule "out" (AntreaClusterNetworkPolicy nodes, tier 250, priority 1, rule 0)`
	ownNode = "ingress Allow: it comes from the Pod's own Node, which is always let in"
)

// TestExplainNodes: what applies to a Node holds for it, for its addresses and for the Pods in its
// network.
func TestExplainNodes(t *testing.T) {
	answer(t, map[string]ask{
		"from the Node":        {sealed, "--from node/n2 --to a/web --port 80", ExitNo, []string{"Node n2 -> Pod a/web, TCP port 80: Drop", edgeOut}},
		"from its address":     {sealed, "--from 192.168.0.2 --to a/web --port 80", ExitNo, []string{"Node n2 -> Pod a/web", edgeOut}},
		"from in its network":  {sealed, "--from a/hostnet --to a/web --port 80", ExitNo, []string{"Pod a/hostnet in the network of Node n2 -> Pod a/web", edgeOut}},
		"to the Node":          {sealed, "--from a/web --to node/n2 --port 80", ExitNo, []string{": Drop", edgeIn}},
		"to its address":       {sealed, "--from a/web --to 192.168.0.2 --port 80", ExitNo, []string{"-> Node n2", edgeIn}},
		"into its network":     {sealed, "--from a/web --to a/hostnet --port 80", ExitNo, []string{"-> Pod a/hostnet in the network of Node n2", edgeIn}},
		"the other Node":       {sealed, "--from 192.168.0.1 --to 198.51.100.1 --port 80", ExitDone, []string{"Node n1 -> 198.51.100.1, TCP port 80: Allow"}},
		"its gateway address":  {sealed, "--from 10.1.0.1 --to 198.51.100.1 --port 80", ExitDone, []string{"Node n1 -> "}},
		"no Pod policy for it": {deny, "--from a/hostnet --to node/n1 --port 80", ExitDone, []string{": Allow"}},
		"a Node not known":     {sealed, "--from a/web --to 192.168.0.3 --port 80", ExitDone, []string{"-> Node n3", "ingress Allow: no policy decides"}},
		"as a peer": {`
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: to-node}
spec: {priority: 1, appliedTo: [{podSelector: {}}], egress: [{name: edge, action: Drop, to: [{nodeSelector: {matchLabels: {role: edge}}}]}]}
`, "--from a/web --to a/hostnet --port 80", ExitNo, []string{`egress  Drop: rule "edge" (AntreaClusterNetworkPolicy to-node, tier 250, priority 1, rule 0)` + "\n"}},
	})
}

// TestExplainStaysHome: a Node reaches its own Pods, and everybody itself, whatever policies say.
func TestExplainStaysHome(t *testing.T) {
	answer(t, map[string]ask{
		"own Pod":               {deny, "--from node/n1 --to a/web --port 80", ExitDone, []string{": Allow", ownNode}},
		"by address":            {deny, "--from 192.168.0.1 --to 10.1.0.10 --port 80", ExitDone, []string{": Allow", ownNode}},
		"from in the network":   {deny, "--from a/hostnet --to a/web2 --port 80", ExitDone, []string{": Allow", ownNode}},
		"a Pod elsewhere":       {deny, "--from node/n1 --to a/web2 --port 80", ExitNo, []string{": Drop", "isolated by K8sNetworkPolicy a/deny"}},
		"a Pod to its Node":     {deny, "--from a/web --to node/n1 --port 80", ExitNo, []string{": Drop", "egress  Drop: no rule allows it"}},
		"policies of the Node":  {sealed + "---" + deny, "--from node/n2 --to a/web2 --port 80", ExitNo, []string{edgeOut, ownNode}},
		"a Pod to itself":       {deny, "--from a/web --to a/web --port 80", ExitDone, []string{": Allow", "egress  Allow: it goes to where it comes from; no policy is asked"}},
		"its other address":     {deny, "--from a/web --to 10.1.0.10 --port 80", ExitDone, []string{": Allow"}},
		"a Node to itself":      {sealed, "--from a/hostnet --to node/n2 --port 80", ExitDone, []string{": Allow"}},
		"another of the labels": {deny, "--from a/web --to a/web2 --port 80", ExitNo, []string{": Drop"}},
	})
}
