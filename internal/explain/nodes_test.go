package explain_test

import (
	"testing"
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
)

// TestExplainNodes: what applies to a Node holds for it, for its addresses and for the Pods in its
// network.
func TestExplainNodes(t *testing.T) {
	answers(t, town, map[string]asked{
		"from the Node": {sealed, "node/n2 > a/web TCP 80",
			"Node n2 > Pod a/web: Drop; out Drop by AntreaClusterNetworkPolicy nodes Out[0] out at 250/1; in Allow native"},
		"from its address": {sealed, "192.168.0.2 > a/web TCP 80",
			"Node n2 > Pod a/web: Drop; out Drop by AntreaClusterNetworkPolicy nodes Out[0] out at 250/1; in Allow native"},
		"from in its network": {sealed, "a/hostnet > a/web TCP 80",
			"Pod a/hostnet in the network of Node n2 > Pod a/web: Drop; out Drop by AntreaClusterNetworkPolicy nodes Out[0] out at 250/1; in Allow native"},
		"to the Node": {sealed, "a/web > node/n2 TCP 80",
			"Pod a/web > Node n2: Drop; out Allow native; in Drop by AntreaClusterNetworkPolicy nodes In[0] in at 250/1"},
		"to its address": {sealed, "a/web > 192.168.0.2 TCP 80",
			"Pod a/web > Node n2: Drop; out Allow native; in Drop by AntreaClusterNetworkPolicy nodes In[0] in at 250/1"},
		"into its network": {sealed, "a/web > a/hostnet TCP 80",
			"Pod a/web > Pod a/hostnet in the network of Node n2: Drop; out Allow native; in Drop by AntreaClusterNetworkPolicy nodes In[0] in at 250/1"},
		"the other Node": {sealed, "192.168.0.1 > 198.51.100.1 TCP 80",
			"Node n1 > 198.51.100.1: Allow; out Allow native; in Allow none"},
		"its gateway address": {sealed, "10.1.0.1 > 198.51.100.1 TCP 80",
			"Node n1 > 198.51.100.1: Allow; out Allow native; in Allow none"},
		"no Pod policy for it": {deny, "a/hostnet > node/n1 TCP 80",
			"Pod a/hostnet in the network of Node n2 > Node n1: Allow; out Allow native; in Allow native"},
		"a Node not known": {sealed, "a/web > 192.168.0.3 TCP 80",
			"Pod a/web > Node n3: Allow; out Allow native; in Allow native"},
		"as a peer": {`
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: to-node}
spec: {priority: 1, appliedTo: [{podSelector: {}}], egress: [{name: edge, action: Drop, to: [{nodeSelector: {matchLabels: {role: edge}}}]}]}
`, "a/web > a/hostnet TCP 80",
			"Pod a/web > Pod a/hostnet in the network of Node n2: Drop; out Drop by AntreaClusterNetworkPolicy to-node Out[0] edge at 250/1; in Allow native"},
	})
}

// TestExplainStaysHome: a Node reaches its own Pods, and every end itself, whatever policies say.
func TestExplainStaysHome(t *testing.T) {
	answers(t, town, map[string]asked{
		"own Pod": {deny, "node/n1 > a/web TCP 80",
			"Node n1 > Pod a/web: Allow; out Allow native; in Allow ownNode"},
		"by address": {deny, "192.168.0.1 > 10.1.0.10 TCP 80",
			"Node n1 > Pod a/web: Allow; out Allow native; in Allow ownNode"},
		"from in the network": {deny, "a/hostnet > a/web2 TCP 80",
			"Pod a/hostnet in the network of Node n2 > Pod a/web2: Allow; out Allow native; in Allow ownNode"},
		"a Pod elsewhere": {deny, "node/n1 > a/web2 TCP 80",
			"Node n1 > Pod a/web2: Drop; out Allow native; in Drop isolated of K8sNetworkPolicy a/deny"},
		"a Pod to its Node": {deny, "a/web > node/n1 TCP 80",
			"Pod a/web > Node n1: Drop; out Drop isolated of K8sNetworkPolicy a/deny; in Allow native"},
		"policies of the Node": {sealed + "---" + deny, "node/n2 > a/web2 TCP 80",
			"Node n2 > Pod a/web2: Drop; out Drop by AntreaClusterNetworkPolicy nodes Out[0] out at 250/1; in Allow ownNode"},
		"a Pod to itself": {deny, "a/web > a/web TCP 80",
			"Pod a/web > Pod a/web: Allow; out Allow itself; in Allow itself"},
		"its other address": {deny, "a/web > 10.1.0.10 TCP 80",
			"Pod a/web > Pod a/web: Allow; out Allow itself; in Allow itself"},
		"a Node to itself": {sealed, "a/hostnet > node/n2 TCP 80",
			"Pod a/hostnet in the network of Node n2 > Node n2: Allow; out Allow itself; in Allow itself"},
		"another of the labels": {deny, "a/web > a/web2 TCP 80",
			"Pod a/web > Pod a/web2: Drop; out Drop isolated of K8sNetworkPolicy a/deny; in Drop isolated of K8sNetworkPolicy a/deny"},
	})
}
