package crd_test

import (
	"fmt"
	"strings"
	"testing"
)

const policyVersion = "crd.antrea.io/v1beta1"

// many returns n entries of a list, numbered.
func many(n int, entry string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(entry, i)
	}
	return strings.Join(out, ", ")
}

// ruleCases apply to both kinds of policy.
func ruleCases() []specCase {
	in := func(rule string) string {
		return `{priority: 1, appliedTo: [{podSelector: {}}], ingress: [` + rule + `]}`
	}
	out := func(rule string) string {
		return `{priority: 1, appliedTo: [{podSelector: {}}], egress: [` + rule + `]}`
	}
	port := func(p string) string { return in(`{action: Allow, ports: [` + p + `]}`) }
	const entity = `externalEntitySelector: {matchLabels: {a: b}}`
	return []specCase{
		{"no rules", `{priority: 1, appliedTo: [{podSelector: {}}]}`, ""},
		{"fractional priority", `{priority: 1.5, appliedTo: [{podSelector: {}}]}`, ""},
		{"entities everywhere", `{priority: 1, ingress: [{action: Drop, appliedTo: [{` + entity + `}], from: [{` + entity + `, namespaceSelector: {}}]}]}`, ""},
		{"no priority", `{appliedTo: [{podSelector: {}}]}`, "spec.priority: Required value"},
		{"priority 0.5", `{priority: 0.5, appliedTo: [{podSelector: {}}]}`, "spec.priority: Invalid value: 0.5"},
		{"priority 10000", `{priority: 10000, appliedTo: [{podSelector: {}}]}`, ""},
		{"priority 10001", `{priority: 10001, appliedTo: [{podSelector: {}}]}`, "spec.priority: Invalid value: 10001"},
		{"no appliedTo", `{priority: 1}`, "spec.appliedTo: Invalid value: appliedTo must be set in spec or in every rule"},
		{"empty appliedTo", `{priority: 1, appliedTo: [], ingress: [{action: Drop}]}`, "appliedTo must be set in spec or in every rule"},
		{"appliedTo in one of two rules", `{priority: 1, ingress: [{action: Drop, appliedTo: [{podSelector: {}}]}, {action: Drop}]}`, "appliedTo must be set in spec or in every rule"},
		{"appliedTo in spec and rule", `{priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, appliedTo: [{podSelector: {}}]}]}`, "spec.appliedTo: Invalid value: appliedTo must not be set both in spec and in rules"},
		{"group and selector applied to", `{priority: 1, appliedTo: [{group: g, podSelector: {}}]}`, "spec.appliedTo[0].group: Invalid value: group must not be combined"},

		{"no action", in(`{ports: [{port: 1}]}`), "spec.ingress[0].action: Required value"},
		{"unknown action", in(`{action: Permit}`), `spec.ingress[0].action: Unsupported value: "Permit"`},
		{"pass", in(`{action: Pass}`), ""},
		{"pass in baseline", `{priority: 1, tier: baseline, appliedTo: [{podSelector: {}}], egress: [{action: Pass}]}`, "spec.tier: Invalid value: the action Pass must not be used in the tier baseline"},
		// Comparing each with each is for the webhook.
		{"same name in one direction", in(`{action: Drop, name: a}, {action: Allow, name: a}`), ""},
		{"unnamed rules", in(`{action: Drop}, {action: Allow, name: ""}, {action: Allow}`), ""},
		{"bad log label", in(`{action: Drop, logLabel: "bad label!"}`), "spec.ingress[0].logLabel"},

		{"port", port(`{port: 80}`), ""},
		{"named port", port(`{protocol: UDP, port: dns-udp}`), ""},
		{"bad name of port", port(`{port: "not a port"}`), "spec.ingress[0].ports[0].port: Invalid value: \"not a port\""},
		{"port range", port(`{port: 80, endPort: 90}`), ""},
		{"range of one", port(`{port: 80, endPort: 80}`), ""},
		{"port 0", port(`{port: 0}`), "spec.ingress[0].ports[0].port: Invalid value: port must be in 1..65535"},
		{"port 65536", port(`{port: 65536}`), "spec.ingress[0].ports[0].port: Invalid value: port must be in 1..65535"},
		{"negative port", port(`{port: -1}`), "spec.ingress[0].ports[0].port: Invalid value: port must be in 1..65535"},
		{"endPort 65536", port(`{port: 1, endPort: 65536}`), "spec.ingress[0].ports[0].endPort"},
		{"endPort alone", port(`{endPort: 90}`), "spec.ingress[0].ports[0].endPort: Invalid value: endPort requires a numeric port"},
		{"endPort below port", port(`{port: 80, endPort: 79}`), "spec.ingress[0].ports[0].endPort: Invalid value: endPort requires a numeric port"},
		{"endPort with name", port(`{port: http, endPort: 80}`), "spec.ingress[0].ports[0].endPort: Invalid value: endPort requires a numeric port"},
		{"source range", port(`{sourcePort: 1024, sourceEndPort: 65535}`), ""},
		{"sourceEndPort alone", port(`{sourceEndPort: 80}`), "spec.ingress[0].ports[0].sourceEndPort"},
		{"unknown protocol", port(`{protocol: ICMP, port: 8}`), "spec.ingress[0].ports[0].protocol: Unsupported value"},

		{"icmp", in(`{action: Allow, protocols: [{icmp: {}}, {icmp: {icmpType: 8, icmpCode: 0}}]}`), ""},
		{"icmp type 256", in(`{action: Allow, protocols: [{icmp: {icmpType: 256}}]}`), "spec.ingress[0].protocols[0].icmp.icmpType"},
		{"icmp code 256", in(`{action: Allow, protocols: [{icmp: {icmpType: 3, icmpCode: 256}}]}`), "spec.ingress[0].protocols[0].icmp.icmpCode"},
		{"icmp code alone", in(`{action: Allow, protocols: [{icmp: {icmpCode: 1}}]}`), "spec.ingress[0].protocols[0].icmp.icmpCode: Invalid value: icmpCode requires icmpType"},
		{"two protocols in one", in(`{action: Allow, protocols: [{icmp: {}, igmp: {}}]}`), "spec.ingress[0].protocols[0]: Invalid value: icmp and igmp must not be in one entry"},
		{"no protocol in one", in(`{action: Allow, protocols: [{}]}`), "spec.ingress[0].protocols[0]: Invalid value: one of icmp and igmp must be set"},
		{"two application protocols in one", in(`{action: Allow, l7Protocols: [{http: {}, tls: {}}]}`), "spec.ingress[0].l7Protocols[0]: Invalid value: http and tls must not be in one entry"},
		{"empty group", in(`{action: Allow, from: [{group: ""}]}`), `spec.ingress[0].from[0].group: Invalid value: ""`},
		{"empty group applied to", `{priority: 1, appliedTo: [{group: ""}]}`, `spec.appliedTo[0].group: Invalid value: ""`},
		{"empty fqdn", out(`{action: Allow, to: [{fqdn: ""}]}`), `spec.egress[0].to[0].fqdn: Invalid value: ""`},
		{"empty Service", out(`{action: Allow, toServices: [{name: "", namespace: n}]}`), `spec.egress[0].toServices[0].name: Invalid value: ""`},
		{"empty entries", `{priority: 1, appliedTo: [{}], ingress: [{action: Allow, from: [{}]}]}`, ""},
		{"many", in(many(300, `{action: Allow, name: r%d, from: [{podSelector: {}}]}`)), ""},
		{"many peers and ports", in(`{action: Allow, from: [` + many(500, `{podSelector: {matchLabels: {a: v%d}}}`) + `], ports: [` + many(200, `{port: 1%d}`) + `]}`), ""},
		{"many exceptions", in(`{action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8, except: [` + many(250, `10.0.%d.0/24`) + `]}}]}`), ""},
		{"igmp query in", in(`{action: Drop, protocols: [{igmp: {igmpType: 17}}]}`), ""},
		{"igmp report in", in(`{action: Drop, protocols: [{igmp: {igmpType: 22}}]}`), "spec.ingress: Invalid value: igmpType of an ingress rule"},
		{"igmp report out", out(`{action: Drop, protocols: [{igmp: {igmpType: 22}}]}`), ""},
		{"igmp query out", out(`{action: Drop, protocols: [{igmp: {igmpType: 17}}]}`), "spec.egress: Invalid value: igmpType of an egress rule"},

		{"ipBlock", in(`{action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}, {ipBlock: {cidr: "2001:db8::/32"}}]}`), ""},
		{"bad cidr", in(`{action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/33}}]}`), "spec.ingress[0].from[0].ipBlock.cidr"},
		{"address for cidr", in(`{action: Allow, from: [{ipBlock: {cidr: 10.0.0.1}}]}`), "spec.ingress[0].from[0].ipBlock.cidr"},
		{"bad except", in(`{action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8, except: [nowhere]}}]}`), "spec.ingress[0].from[0].ipBlock.except[0]"},
		{"no cidr", in(`{action: Allow, from: [{ipBlock: {}}]}`), "spec.ingress[0].from[0].ipBlock.cidr: Required value"},
		{"group and selector", in(`{action: Allow, from: [{group: g, podSelector: {}}]}`), "spec.ingress[0].from[0].group: Invalid value: group must not be combined"},
		{"nodeSelector and ipBlock", in(`{action: Allow, from: [{nodeSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}`), "spec.ingress[0].from[0].nodeSelector"},
		{"unknown scope", in(`{action: Allow, from: [{podSelector: {}, scope: World}]}`), "spec.ingress[0].from[0].scope"},
		{"fqdn", out(`{action: Allow, to: [{fqdn: "*.example.com"}]}`), ""},
		{"bad fqdn", out(`{action: Allow, to: [{fqdn: "a_b"}]}`), "spec.egress[0].to[0].fqdn"},
		{"fqdn in ingress", in(`{action: Allow, from: [{fqdn: example.com}]}`), "spec.ingress: Invalid value: fqdn must not be used in from"},
		{"scope in egress", out(`{action: Allow, to: [{podSelector: {}, scope: ClusterSet}]}`), "spec.egress: Invalid value: scope must not be used in to"},
		{"to in ingress", in(`{action: Allow, to: [{podSelector: {}}]}`), "spec.ingress: Invalid value: an ingress rule must not have to"},
		{"from in egress", out(`{action: Allow, from: [{podSelector: {}}]}`), "spec.egress: Invalid value: an egress rule must not have from"},
		{"toServices and to", out(`{action: Allow, toServices: [{name: s, namespace: ns}], to: [{podSelector: {}}]}`), "spec.egress[0].toServices: Invalid value: toServices must not be combined"},
		{"toServices and ports", out(`{action: Allow, toServices: [{name: s, namespace: ns}], ports: [{port: 1}]}`), "spec.egress[0].toServices: Invalid value: toServices must not be combined"},
		{"l7", in(`{action: Allow, l7Protocols: [{http: {method: GET}}]}`), ""},
		{"l7 drop", in(`{action: Drop, l7Protocols: [{http: {method: GET}}]}`), "spec.ingress[0].l7Protocols: Invalid value: l7Protocols requires the action Allow"},
		{"unknown method", in(`{action: Allow, l7Protocols: [{http: {method: get}}]}`), "spec.ingress[0].l7Protocols[0].http.method"},
		{"misspelt peer", in(`{action: Allow, from: [{externalEntitiesSelector: {}}]}`), `"spec.ingress[0].from[0].externalEntitiesSelector"`},
	}
}

// selectorCases concern label selectors, which are the same everywhere.
func selectorCases() []specCase {
	with := func(selector string) string {
		return `{priority: 1, appliedTo: [{externalEntitySelector: ` + selector + `}]}`
	}
	const path = "spec.appliedTo[0].externalEntitySelector."
	return []specCase{
		{"all operators", with(`{matchExpressions: [{key: a, operator: In, values: [b]}, {key: x.io/a, operator: NotIn, values: [b, ""]}, {key: a, operator: Exists}, {key: a, operator: DoesNotExist, values: []}]}`), ""},
		{"label value", with(`{matchLabels: {a: "not a value!"}}`), path + "matchLabels.a"},
		{"long label value", with(`{matchLabels: {a: ` + strings.Repeat("v", 64) + `}}`), path + "matchLabels.a"},
		{"operator", with(`{matchExpressions: [{key: a, operator: Equals, values: [b]}]}`), path + "matchExpressions[0].operator: Unsupported value"},
		{"key", with(`{matchExpressions: [{key: "a b", operator: Exists}]}`), path + "matchExpressions[0].key"},
		{"value", with(`{matchExpressions: [{key: a, operator: In, values: ["b c"]}]}`), path + "matchExpressions[0].values[0]"},
		{"In without values", with(`{matchExpressions: [{key: a, operator: In}]}`), path + "matchExpressions[0]\" must not validate"},
		{"In with empty values", with(`{matchExpressions: [{key: a, operator: In, values: []}]}`), path + "matchExpressions[0]\" must not validate"},
		{"Exists with values", with(`{matchExpressions: [{key: a, operator: Exists, values: [b]}]}`), path + "matchExpressions[0]\" must not validate"},
	}
}

func TestNetworkPolicyRules(t *testing.T) {
	runSpecCases(t, policyVersion, "NetworkPolicy", append(append(ruleCases(), selectorCases()...), []specCase{
		{"namespaceSelector applied to", `{priority: 1, appliedTo: [{externalEntitySelector: {}, namespaceSelector: {}}]}`, "spec.appliedTo: Invalid value: appliedTo of a NetworkPolicy"},
		{"nodeSelector applied to", `{priority: 1, appliedTo: [{nodeSelector: {}}]}`, "spec.appliedTo: Invalid value: appliedTo of a NetworkPolicy"},
		{"service applied to in rule", `{priority: 1, ingress: [{action: Drop, appliedTo: [{service: {name: s, namespace: ns}}]}]}`, "spec.ingress: Invalid value: appliedTo of a NetworkPolicy"},
		{"namespaces peer", `{priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Self}}]}]}`, "spec.ingress: Invalid value: from of a NetworkPolicy"},
		{"serviceAccount peer", `{priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, to: [{serviceAccount: {name: s, namespace: ns}}]}]}`, "spec.egress: Invalid value: to of a NetworkPolicy"},
		{"toServices of own namespace", `{priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, toServices: [{name: s}]}]}`, ""},
	}...))
}

func TestClusterNetworkPolicyRules(t *testing.T) {
	runSpecCases(t, policyVersion, "ClusterNetworkPolicy", append(append(ruleCases(), selectorCases()...), []specCase{
		{"entities of namespaces", `{priority: 1, appliedTo: [{externalEntitySelector: {}, namespaceSelector: {matchLabels: {a: b}}}]}`, ""},
		{"nodes", `{priority: 1, appliedTo: [{nodeSelector: {}}], egress: [{action: Drop}]}`, ""},
		{"service account", `{priority: 1, appliedTo: [{serviceAccount: {name: s, namespace: ns}}]}`, ""},
		{"service", `{priority: 1, appliedTo: [{service: {name: s, namespace: ns}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}`, ""},
		{"service and egress", `{priority: 1, appliedTo: [{service: {name: s, namespace: ns}}], egress: [{action: Drop}]}`, "spec.appliedTo: Invalid value: service must not be used"},
		{"service in egress rule", `{priority: 1, egress: [{action: Drop, appliedTo: [{service: {name: s, namespace: ns}}]}]}`, "spec.egress: Invalid value: an egress rule must not be applied to a service"},
		{"service and selector mixed", `{priority: 1, appliedTo: [{service: {name: s, namespace: ns}}, {podSelector: {}}]}`, "spec.appliedTo: Invalid value: service must not be mixed"},
		{"service from selector", `{priority: 1, appliedTo: [{service: {name: s, namespace: ns}}], ingress: [{action: Drop, from: [{podSelector: {}}]}]}`, "spec.ingress: Invalid value: rules applied to a service"},
		{"rule of service from selector", `{priority: 1, ingress: [{action: Drop, appliedTo: [{service: {name: s, namespace: ns}}], from: [{podSelector: {}}]}]}`, "spec.ingress: Invalid value: a rule applied to a service"},
		{"two selectors of nodes", `{priority: 1, appliedTo: [{nodeSelector: {}, podSelector: {}}]}`, "spec.appliedTo[0].nodeSelector: Invalid value"},
		{"same namespace", `{priority: 1, appliedTo: [{namespaceSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Self}}, {namespaces: {sameLabels: [a]}, podSelector: {}}]}]}`, ""},
		{"both relations", `{priority: 1, appliedTo: [{namespaceSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Self, sameLabels: [a]}}]}]}`, "spec.ingress[0].from[0].namespaces: Invalid value: match and sameLabels must not be combined"},
		{"relation and selector", `{priority: 1, appliedTo: [{namespaceSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Self}, namespaceSelector: {}}]}]}`, "spec.ingress[0].from[0].namespaces: Invalid value: namespaces must not be combined"},
		{"toServices without namespace", `{priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, toServices: [{name: s}]}]}`, "spec.egress: Invalid value: toServices of a ClusterNetworkPolicy must have a namespace"},
	}...))
}

// A policy with as many rules as there may be is checked within the limits that kube-apiserver sets to the cost of the rules.
func TestLargePolicyIsAccepted(t *testing.T) {
	rules := func(direction, peers string) string {
		var out []string
		for i := range 256 {
			var list []string
			for j := range 32 {
				list = append(list, fmt.Sprintf("{ipBlock: {cidr: 10.%d.%d.0/24}}", i, j))
			}
			name := fmt.Sprintf("%s-%s-%d", strings.Repeat("rule", 10), direction, i)
			out = append(out, fmt.Sprintf("{action: Allow, name: %s, %s: [%s], ports: [{port: %d, endPort: 65535}]}", name, peers, strings.Join(list, ","), i+1))
		}
		return direction + ": [" + strings.Join(out, ",") + "]"
	}
	spec := "{priority: 1, appliedTo: [{podSelector: {}}], " + rules("ingress", "from") + ", " + rules("egress", "to") + "}"
	// A NetworkPolicy is checked by more rules than a ClusterNetworkPolicy.
	_, err := newServer(t).create(withSpec(t, policyVersion, "NetworkPolicy", spec))
	check(t, err, "")
}

func TestTierRules(t *testing.T) {
	runSpecCases(t, policyVersion, "Tier", []specCase{
		{"lowest", `{priority: 0}`, ""},
		{"highest", `{priority: 255, description: last}`, ""},
		{"none", `{description: x}`, "spec.priority: Required value"},
		{"negative", `{priority: -1}`, "spec.priority: Invalid value: -1"},
		{"too high", `{priority: 256}`, "spec.priority: Invalid value: 256"},
		{"fraction", `{priority: 1.5}`, "spec.priority"},
	})
}

func groupCases() []specCase {
	return []specCase{
		{"empty", `{}`, ""},
		{"pods of namespaces", `{podSelector: {}, namespaceSelector: {}}`, ""},
		{"entities of namespaces", `{externalEntitySelector: {matchLabels: {a: b}}, namespaceSelector: {}}`, ""},
		{"namespaces", `{namespaceSelector: {}}`, ""},
		{"blocks", `{ipBlocks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.0/16]}, {cidr: "fd00::/8"}]}`, ""},
		{"service", `{serviceReference: {name: s, namespace: ns}}`, ""},
		{"children", `{childGroups: [b, c]}`, ""},
		{"pods and entities", `{podSelector: {}, externalEntitySelector: {}}`, "spec: Invalid value: at most one of"},
		{"blocks and children", `{ipBlocks: [{cidr: 10.0.0.0/8}], childGroups: [b]}`, "spec: Invalid value: at most one of"},
		{"blocks and namespaces", `{ipBlocks: [{cidr: 10.0.0.0/8}], namespaceSelector: {}}`, "spec.namespaceSelector: Invalid value"},
		{"bad cidr", `{ipBlocks: [{cidr: 10.0.0.256/8}]}`, "spec.ipBlocks[0].cidr"},
		{"except outside, which the webhook refuses", `{ipBlocks: [{cidr: 10.0.0.0/8, except: [11.0.0.0/16]}]}`, ""},
		{"many blocks", `{ipBlocks: [` + strings.Repeat(`{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}, `, 1500) + `]}`, ""},
		{"own child", `{childGroups: [b, a]}`, "spec.childGroups: Invalid value: a group must not be its own child"},
		{"label value", `{podSelector: {matchLabels: {a: "b c"}}}`, "spec.podSelector.matchLabels.a"},
	}
}

func TestGroupRules(t *testing.T) {
	runSpecCases(t, policyVersion, "Group", append(groupCases(),
		specCase{"nodes", `{nodeSelector: {}}`, "spec.nodeSelector: Invalid value: a Group must not have nodeSelector"}))
	runSpecCases(t, policyVersion, "ClusterGroup", append(groupCases(), specCase{"nodes", `{nodeSelector: {}}`, ""}))
}

func TestEntityRules(t *testing.T) {
	runSpecCases(t, "crd.antrea.io/v1alpha2", "ExternalEntity", []specCase{
		{"both families", `{endpoints: [{ip: 10.0.0.1}, {ip: "2001:db8::1", name: eth0}], externalNode: cloud}`, ""},
		{"ports", `{ports: [{port: 80, name: http}, {protocol: UDP, port: 53, name: dns}]}`, ""},
		{"bad address", `{endpoints: [{ip: 10.0.0.256}]}`, "ip must be an IPv4 or IPv6 address"},
		{"range for address", `{endpoints: [{ip: 10.0.0.0/8}]}`, "ip must be an IPv4 or IPv6 address"},
		{"port 0", `{ports: [{port: 0}]}`, "spec.ports[0].port"},
		{"protocol", `{ports: [{protocol: tcp, port: 1}]}`, "spec.ports[0].protocol"},
	})
	for _, kind := range []string{"NetworkPolicy", "ClusterNetworkPolicy"} { // as before Antrea 1.13
		runSpecCases(t, "crd.antrea.io/v1alpha1", kind, append(ruleCases(), selectorCases()...))
	}
	runSpecCases(t, "crd.antrea.io/v1alpha3", "ClusterGroup", groupCases())
	runSpecCases(t, "crd.antrea.io/v1alpha2", "ClusterGroup", []specCase{
		{"one block, which a webhook makes a list", `{ipBlock: {cidr: 10.0.0.0/8}}`, "spec.ipBlock: Invalid value: ipBlock is a list since v1alpha3"},
		{"blocks", `{ipBlocks: [{cidr: 10.0.0.0/8}]}`, ""},
	})
	runSpecCases(t, "crd.antrea.io/v1alpha1", "ExternalNode", []specCase{
		{"one interface", `{interfaces: [{name: eth0, ips: [10.0.0.1, "fd00::1"]}]}`, ""},
		{"no interface", `{interfaces: []}`, "spec.interfaces"},
		{"no interfaces field", `{}`, "spec.interfaces: Required value"},
		{"two interfaces", `{interfaces: [{ips: [10.0.0.1]}, {ips: [10.0.0.2]}]}`, "spec.interfaces"},
		{"no address", `{interfaces: [{ips: []}]}`, "spec.interfaces[0].ips"},
		{"bad address", `{interfaces: [{ips: [eth0]}]}`, "spec.interfaces[0].ips: Invalid value: ips must be"},
	})
}
