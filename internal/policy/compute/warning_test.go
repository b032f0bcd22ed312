package compute_test

import (
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// warnings returns what a Commit warns of, of a policy or group each; an empty text if its former
// warnings are gone.
func warnings(d *policy.Delta) []string {
	var out []string
	for _, p := range d.Problems {
		out = append(out, policy.JoinErrors(p.Warnings))
	}
	return out
}

func wantWarning(t *testing.T, step string, d *policy.Delta, want string) {
	t.Helper()
	if got := warnings(d); len(got) != 1 || got[0] != want {
		t.Errorf("%s: %q, want %q", step, got, want)
	}
}

// TestServiceReferences: a group tells whether there is a Service behind it whose Pods can be
// known.
func TestServiceReferences(t *testing.T) {
	e := compute.New(compute.Options{})
	name := policy.NamespacedName{Namespace: "n", Name: "s"}
	e.PutGroup(policy.Group{Name: "g", UID: "g", ServiceReference: &name})
	wantWarning(t, "missing", e.Commit(), `spec.serviceReference: invalid value "n/s": want an existing Service`)
	e.PutService(policy.Service{Namespace: "n", Name: "s"})
	wantWarning(t, "without selector", e.Commit(), `spec.serviceReference: invalid value "n/s": want a Service with a selector: which Pods are behind this one is not known`)
	e.PutService(policy.Service{Namespace: "n", Name: "s", Selector: map[string]string{"a": "b"}})
	wantWarning(t, "there", e.Commit(), "")
	e.DeleteService(name)
	wantWarning(t, "gone", e.Commit(), `spec.serviceReference: invalid value "n/s": want an existing Service`)
}

// TestRelativePeersOfGroupsWithoutNamespace: a rule with peers in "the same Namespace" that is
// applied to what is in none does not vanish without a word.
func TestRelativePeersOfGroupsWithoutNamespace(t *testing.T) {
	e := compute.New(compute.Options{})
	e.PutNamespace(policy.Namespace{Name: "n"})
	e.PutGroup(policy.Group{Name: "blocks", UID: "b", IPBlocks: []policy.IPBlock{{CIDR: "10.0.0.0/8"}}})
	e.PutPolicy(policy.Policy{
		Kind: policy.AntreaClusterNetworkPolicy, Name: "p", UID: "p", Priority: 1, AppliedTo: []policy.AppliedTo{{Group: "blocks"}},
		Ingress: []policy.Rule{{Name: "r", Action: policy.Allow, Peers: []policy.Peer{{Namespaces: &policy.PeerNamespaces{Match: "Self"}}}}},
	})
	const want = `spec.appliedTo[0].group: invalid value "blocks": want a group with members in Namespaces: rules with namespaces in their peers do not apply to this one`
	wantWarning(t, "ipBlocks", e.Commit(), want)
	e.PutGroup(policy.Group{Name: "blocks", UID: "b", PodSelector: &policy.Selector{}})
	wantWarning(t, "Pods", e.Commit(), "")
	e.PutGroup(policy.Group{Name: "blocks", UID: "b", NodeSelector: &policy.Selector{}})
	wantWarning(t, "Nodes", e.Commit(), want)
}
