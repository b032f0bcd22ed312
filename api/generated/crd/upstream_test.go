package crd_test

import (
	"fmt"
	"testing"
)

// The definitions of policy.networking.k8s.io that we install have the fields of the experimental channel, and its rules.
func TestUpstreamRules(t *testing.T) {
	const subject = "subject: {namespaces: {}}"
	egress := func(rest string) string {
		return fmt.Sprintf("{priority: 1, %s, egress: [{action: Deny, %s}]}", subject, rest)
	}
	runSpecCases(t, "policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy", []specCase{
		{"nodes", egress("to: [{nodes: {}}]"), ""},
		{"domainNames", egress("to: [{domainNames: ['*.example.com']}]"), ""},
		{"named port of a network", egress("to: [{networks: [10.0.0.0/8]}], ports: [{namedPort: a}]"), "there are no namedPorts"},
		{"no CIDR", egress("to: [{networks: [10.0.0.0]}]"), "Invalid CIDR"},
		{"two fields in a peer", egress("to: [{nodes: {}, namespaces: {}}]"), "at most 1 item"},
		{"priority", "{priority: 1001, " + subject + "}", "less than or equal to 1000"},
	})
	runSpecCases(t, "policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy", []specCase{
		{"its name", "{" + subject + "}", `metadata.name="default"`},
	})
	cnp := func(rest string) string {
		return fmt.Sprintf("{tier: Admin, priority: 1, %s, egress: [{action: Deny, %s}]}", subject, rest)
	}
	runSpecCases(t, "policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", []specCase{
		{"protocol only", cnp("to: [{nodes: {}}], protocols: [{sctp: {destinationPort: {number: 1}}}]"), ""},
		{"range", cnp("to: [{nodes: {}}], protocols: [{tcp: {destinationPort: {range: {start: 2, end: 2}}}}]"), "must be less than"},
		{"tier", "{tier: Other, priority: 1, " + subject + "}", "Unsupported value"},
	})
}
