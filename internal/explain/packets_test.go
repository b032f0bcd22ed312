package explain_test

import (
	"testing"
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
	answers(t, town, map[string]asked{
		"both families": {pings, "a/client > a/web icmp",
			"Pod a/client > Pod a/web echo request: Allow; 10.1.1.20 > 10.1.0.10 Allow; out Allow native; in Allow by AntreaNetworkPolicy a/ping In[0] four at 250/1; fd01::20 > fd01::10 Allow; out Allow native; in Allow by AntreaNetworkPolicy a/ping In[1] six at 250/1"},
		"IPv4": {pings, "10.1.1.20 > a/web icmp",
			"Pod a/client > Pod a/web type 8/0: Allow; out Allow native; in Allow by AntreaNetworkPolicy a/ping In[0] four at 250/1"},
		"IPv6": {pings, "fd01::20 > a/web ICMP",
			"Pod a/client > Pod a/web type 128/0: Allow; out Allow native; in Allow by AntreaNetworkPolicy a/ping In[1] six at 250/1"},
		"ICMPv6 by its name": {pings, "a/client > a/web ICMPv6",
			"Pod a/client > Pod a/web type 128/0: Allow; out Allow native; in Allow by AntreaNetworkPolicy a/ping In[1] six at 250/1"},
		"a type as given": {pings, "fd01::20 > a/web ICMP 8",
			"Pod a/client > Pod a/web type 8/0: Allow; out Allow native; in Allow by AntreaNetworkPolicy a/ping In[0] four at 250/1"},
		"another type": {pings, "a/client > a/web ICMP 3/1",
			"Pod a/client > Pod a/web type 3/1: Drop; out Allow native; in Drop by AntreaNetworkPolicy a/ping In[3] rest at 250/1"},
	})
}

func TestExplainIGMP(t *testing.T) {
	answers(t, town, map[string]asked{
		"query": {pings, "10.1.0.99 > a/web IGMP 0x11 224.0.0.1",
			`10.1.0.99 > Pod a/web type 0x11 about "224.0.0.1": Allow; out Allow none; in Allow by AntreaNetworkPolicy a/ping In[2] query at 250/1`},
		"of another group": {pings, "10.1.0.99 > a/web IGMP 0x11 224.0.0.2",
			`10.1.0.99 > Pod a/web type 0x11 about "224.0.0.2": Drop; out Allow none; in Drop by AntreaNetworkPolicy a/ping In[3] rest at 250/1`},
		"report": {`
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: report, namespace: a}
spec:
  priority: 1
  appliedTo: [{podSelector: {}}]
  egress: [{name: join, action: Drop, protocols: [{igmp: {igmpType: 22, groupAddress: 239.1.1.1}}]}]
`, "a/web > 239.1.1.1 igmp 0x16",
			`Pod a/web > 239.1.1.1 type 0x16 about "": Drop; out Drop by AntreaNetworkPolicy a/report Out[0] join at 250/1; in Allow none`},
	})
}

// TestExplainRulesWithoutNames: the place of a rule names it.
func TestExplainRulesWithoutNames(t *testing.T) {
	answers(t, town, map[string]asked{
		"first": {two, "a/client > a/web TCP 1",
			"Pod a/client > Pod a/web: Allow; out Allow by K8sNetworkPolicy a/two Out[0] of K8sNetworkPolicy a/two; in Allow by K8sNetworkPolicy a/two In[0] of K8sNetworkPolicy a/two"},
		"second": {two, "a/client > a/web TCP 2",
			"Pod a/client > Pod a/web: Allow; out Allow by K8sNetworkPolicy a/two Out[1] of K8sNetworkPolicy a/two; in Allow by K8sNetworkPolicy a/two In[1] of K8sNetworkPolicy a/two"},
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
`, "a/client > a/web TCP 2",
			"Pod a/client > Pod a/web: Drop; out Allow native; in Drop by AdminNetworkPolicy admin In[1] at 251/3"},
	})
}

// TestExplainWhatTheSenderSees: what is refused at the source never reaches the destination.
func TestExplainWhatTheSenderSees(t *testing.T) {
	answers(t, town, map[string]asked{
		"reject before drop": {clash, "a/client > a/web2 TCP 80",
			"Pod a/client > Pod a/web2: Reject; out Reject by AntreaClusterNetworkPolicy clash Out[0] out at 250/1; in Drop by AntreaClusterNetworkPolicy clash In[0] in at 250/1"},
		"drop before reject": {clash, "a/client > a/web2 TCP 81",
			"Pod a/client > Pod a/web2: Drop; out Drop by AntreaClusterNetworkPolicy clash Out[1] silent at 250/1; in Reject by AntreaClusterNetworkPolicy clash In[1] back at 250/1"},
		"rejected either way": {clash, "a/client > a/web2 TCP 82",
			"Pod a/client > Pod a/web2: Reject; out Unknown perhaps by AntreaClusterNetworkPolicy clash Out[2] perhaps at 250/1 if example.com of Allow|Reject; in Reject by AntreaClusterNetworkPolicy clash In[1] back at 250/1"},
	})
}

// TestExplainSharedAddress: enforcers tell machines by their addresses only.
func TestExplainSharedAddress(t *testing.T) {
	answers(t, town, map[string]asked{
		"by the twin": {twins, "vms/other > vms/db TCP 80",
			"ExternalEntity vms/other > ExternalEntity vms/db: Native; out Native native; in Allow by AntreaNetworkPolicy vms/db In[0] twin at 250/5 through ExternalEntity vms/one of AntreaNetworkPolicy vms/db"},
		"itself": {twins, "vms/one > vms/db TCP 80",
			"ExternalEntity vms/one > ExternalEntity vms/db: Native; out Native native; in Allow by AntreaNetworkPolicy vms/db In[0] twin at 250/5 of AntreaNetworkPolicy vms/db"},
		"by the block, too": {twins, "vms/other > vms/db TCP 81",
			"ExternalEntity vms/other > ExternalEntity vms/db: Native; out Native native; in Allow by AntreaNetworkPolicy vms/db In[1] both at 250/5 of AntreaNetworkPolicy vms/db"},
		"not by its address": {twins, "vms/other > vms/db TCP 82",
			"ExternalEntity vms/other > ExternalEntity vms/db: Drop; out Native native; in Drop isolated of AntreaNetworkPolicy vms/db"},
	})
}
