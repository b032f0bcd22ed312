package cli

import (
	"strings"
	"testing"
)

// TestNothingIsSilent: what widens, vanishes or is not done is refused, or told on the standard
// error, offline as by the webhooks.
func TestNothingIsSilent(t *testing.T) {
	acnp := func(spec string) string {
		return "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec: {priority: 1, " + spec + "}\n"
	}
	annp := func(spec string) string {
		return "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\nspec: {priority: 1, " + spec + "}\n"
	}
	const pods = "appliedTo: [{podSelector: {}}], "
	const self = "ingress: [{action: Allow, from: [{namespaces: {match: Self}}]}]"
	for input, c := range map[string]struct {
		code int
		want string
	}{
		annp(`appliedTo: [{group: ""}]`):                              {ExitBadInput, `spec.appliedTo[0].group: Invalid value: ""`},
		annp(pods + `ingress: [{action: Drop, from: [{group: ""}]}]`): {ExitBadInput, `spec.ingress[0].from[0].group: Invalid value: ""`},
		annp(pods + `egress: [{action: Drop, to: [{fqdn: ""}]}]`):     {ExitBadInput, `spec.egress[0].to[0].fqdn: Invalid value: ""`},
		annp(`appliedTo: [{}]`):                                       {ExitDone, "in.yaml:4: NetworkPolicy a/p: spec.appliedTo[0]: got nothing, want a field that selects; without any, the entry means all Pods"},
		acnp(`appliedTo: [{}]`):                                       {ExitDone, "ClusterNetworkPolicy p: spec.appliedTo[0]: got nothing, want a field that selects; without any, the entry means nothing"},
		annp(pods + `ingress: [{action: Drop, from: [{}]}]`):          {ExitDone, "spec.ingress[0].from[0]: got nothing, want"},
		acnp("appliedTo: [{nodeSelector: {}}], " + self):              {ExitBadInput, "spec.appliedTo[0]: got nodeSelector, want no nodeSelector where a rule has peers with namespaces"},
		acnp("appliedTo: [{podSelector: {}}, {nodeSelector: {}}], " + self): {
			ExitBadInput, "spec.appliedTo[1]: got nodeSelector, want no nodeSelector where a rule has peers with namespaces"},
		acnp(pods + "ingress: [{action: Allow, from: [{namespaces: {match: Self}, ipBlock: {cidr: 10.0.0.0/8}}]}]"): {
			ExitBadInput, "spec.ingress[0].from[0]: got namespaces and ipBlock, want either"},
		acnp("appliedTo: [{group: g}], "+self) + "---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\nspec: {ipBlocks: [{cidr: 10.0.0.0/8}]}\n": {
			ExitDone, `spec.appliedTo[0].group: invalid value "g": want a group with members in Namespaces`},
		acnp(pods + "ingress: [{action: Allow, from: [{podSelector: {}, scope: ClusterSet}]}]"): {ExitBadInput, `spec.ingress[0].from[0].scope: invalid value "ClusterSet": want Cluster`},
		acnp(pods + "egress: [{action: Allow, toServices: [{name: s, namespace: a, scope: ClusterSet}]}]"): {
			ExitDone, `spec.egress[0].toServices[0].scope: invalid value "ClusterSet": want Cluster, unless`},
		"apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\nspec: {serviceReference: {name: s, namespace: a}}\n": {
			ExitDone, `in.yaml:4: ClusterGroup g: spec.serviceReference: invalid value "a/s": want an existing Service`},
		"apiVersion: crd.antrea.io/v1alpha1\nkind: ExternalNode\nmetadata: {name: e, namespace: a}\nspec: {interfaces: [{ips: [10.0.0.1]}]}\n---\n" +
			"apiVersion: crd.antrea.io/v1alpha2\nkind: ExternalEntity\nmetadata: {name: e, namespace: a}\nspec: {endpoints: [{ip: 10.0.0.2}]}\n": {
			ExitDone, "ExternalNode a/e: the ExternalEntity e that would stand for it is given already"},
		"apiVersion: crd.antrea.io/v1alpha2\nkind: ExternalEntity\nmetadata: {name: e, namespace: a}\nspec: {endpoints: [{ip: '::ffff:10.0.0.1'}]}\n": {
			ExitBadInput, "an IPv4 address without ::ffff: before it"},
		"apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: p}\nspec: {priority: 1, subject: {namespaces: {}, pods: {namespaceSelector: {}, podSelector: {}}}}\n": {
			ExitBadInput, "spec.subject: Too many: 2: must have at most 1 item: namespaces and pods"},
		annp("appliedTo: [{podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]"): {
			ExitBadInput, `matchExpressions[0].values: invalid value "b": want no values with operator Exists`},
	} {
		r := nephele(t, "", "policy", "compute", "-f", file(t, "in.yaml", input))
		if r.code != c.code || !strings.Contains(r.err, c.want) || strings.Contains(r.err, "<nil>") {
			t.Errorf("%s\nexit %d: %s\nwant exit %d: %s", input, r.code, r.err, c.code, c.want)
		}
	}
}
