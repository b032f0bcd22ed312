package crd_test

import "testing"

func TestEgresses(t *testing.T) {
	const web = "appliedTo: {podSelector: {matchLabels: {app: web}}}, "
	runSpecCases(t, "crd.antrea.io/v1beta1", "Egress", []specCase{
		{"an address of a pool", "{" + web + "egressIP: 192.0.2.1, externalIPPool: pool}", ""},
		{"any address of a pool", "{" + web + "externalIPPool: pool}", ""},
		{"an address of a Node", "{appliedTo: {namespaceSelector: {}}, egressIP: \"2001:db8::1\"}", ""},
		{"one of each family", "{" + web + "egressIPs: [192.0.2.1, \"2001:db8::1\"], externalIPPools: [four, six]}", ""},
		{"any of two pools", "{" + web + "externalIPPools: [four, six]}", ""},
		{"nothing that is selected", "{appliedTo: {}, externalIPPool: pool}", "give podSelector or namespaceSelector"},
		{"no address", "{" + web + "egressIP: \"\"}", "give egressIP, or an externalIPPool"},
		{"no text of an address", "{" + web + "egressIP: 192.0.2.256}", "want an IPv4 or IPv6 address"},
		{"no text of one of two", "{" + web + "egressIPs: [web]}", "want an IPv4 or IPv6 address"},
		{"one and two", "{" + web + "egressIP: 192.0.2.1, egressIPs: [192.0.2.2]}", "egressIP or egressIPs"},
		{"one pool and two", "{" + web + "externalIPPool: a, externalIPPools: [b]}", "externalIPPool or externalIPPools"},
		{"more addresses than pools", "{" + web + "egressIPs: [192.0.2.1, \"2001:db8::1\"], externalIPPools: [a]}", "each needs the pool at the same place"},
		{"three", "{" + web + "externalIPPools: [a, b, c]}", "must have at most 2"},
	})
}

func TestExternalIPPools(t *testing.T) {
	const all = "nodeSelector: {}, "
	runSpecCases(t, "crd.antrea.io/v1beta1", "ExternalIPPool", []specCase{
		{"ranges", "{" + all + "ipRanges: [{cidr: 192.0.2.0/24}, {start: \"2001:db8::1\", end: \"2001:db8::9\"}]}", ""},
		{"with its subnet", "{" + all + "ipRanges: [{cidr: 192.0.2.0/24}], subnetInfo: {gateway: 192.0.2.1, prefixLength: 24}}", ""},
		{"no range", "{" + all + "ipRanges: []}", "should have at least 1"},
		{"an empty range", "{" + all + "ipRanges: [{}]}", "give cidr, or start and end"},
		{"both", "{" + all + "ipRanges: [{cidr: 192.0.2.0/24, start: 192.0.2.1, end: 192.0.2.2}]}", "give cidr, or start and end"},
		{"no end", "{" + all + "ipRanges: [{start: 192.0.2.1}]}", "start and end together"},
		{"no prefix", "{" + all + "ipRanges: [{cidr: 192.0.2.0/33}]}", "want ADDRESS/BITS"},
		{"no address", "{" + all + "ipRanges: [{start: a, end: b}]}", "want an IPv4 or IPv6 address"},
		{"a VLAN", "{" + all + "ipRanges: [{cidr: 192.0.2.0/24}], subnetInfo: {gateway: 192.0.2.1, prefixLength: 24, vlan: 4095}}", "4094"},
		{"no selector", "{ipRanges: [{cidr: 192.0.2.0/24}]}", "nodeSelector"},
	})
}
