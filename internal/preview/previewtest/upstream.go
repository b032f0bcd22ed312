package previewtest

import "strings"

// UpstreamWorld has what policies of the upstream kinds select.
const UpstreamWorld = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ops, labels: {team: b}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {role: web}}
spec: {nodeName: n1, containers: [{name: c, image: x, ports: [{name: http, containerPort: 80}]}]}
status: {podIPs: [{ip: 10.244.1.1}, {ip: "fd00::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {role: db}}
spec: {nodeName: n2, containers: [{name: c, image: x, ports: [{name: dns, containerPort: 53, protocol: UDP}]}]}
status: {podIPs: [{ip: 10.244.2.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: tool, namespace: ops, labels: {role: tool}}
spec: {nodeName: n2, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 10.244.2.2}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: x}}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}
---
`

// UpstreamPolicy is a manifest of a policy whose subject is the Namespaces of team a, with these
// rules.
func UpstreamPolicy(kind, rules string) string {
	switch kind {
	case "cnp":
		return "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: default}, " +
			"spec: {tier: Admin, priority: 7, subject: {namespaces: {matchLabels: {team: a}}}, " + rules + "}}"
	case "baseline":
		return strings.Replace(UpstreamPolicy("cnp", rules), "tier: Admin", "tier: Baseline", 1)
	case "anp":
		return "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: default}, " +
			"spec: {priority: 7, subject: {namespaces: {matchLabels: {team: a}}}, " + rules + "}}"
	}
	return "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}, " +
		"spec: {subject: {namespaces: {matchLabels: {team: a}}}, " + rules + "}}"
}
