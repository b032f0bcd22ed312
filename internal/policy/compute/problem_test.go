package compute_test

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// valid is a policy that applies to all ExternalEntities of its Namespace.
func valid(name string) policy.Policy {
	return policy.Policy{
		Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: name, UID: "uid-" + name, Priority: 1,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{}}},
		Ingress:   []policy.Rule{{Action: policy.Allow, Name: "r"}},
	}
}

// TestProblems puts a policy with one invalid part beside a valid one: the error names field, value
// and expectation, the valid one is computed all the same, and when the part is mended the problem
// goes.
func TestProblems(t *testing.T) {
	port := func(n, end int32) []policy.Port {
		return []policy.Port{{Port: &policy.PortRef{Number: n}, EndPort: &end}}
	}
	for _, c := range []struct {
		name  string
		spoil func(*policy.Policy)
		want  string
	}{
		{"tier", func(p *policy.Policy) { p.Tier = "gold" },
			`spec.tier: invalid value "gold": want the name of an existing Tier`},
		{"action", func(p *policy.Policy) { p.Ingress[0].Action = "Permit" },
			`spec.ingress[0].action: invalid value "Permit": want one of Allow, Drop, Reject, Pass`},
		{"cidr", func(p *policy.Policy) {
			p.Ingress[0].Peers = []policy.Peer{{}, {IPBlock: &policy.IPBlock{CIDR: "10.0.0.0/99"}}}
		}, `spec.ingress[0].from[1].ipBlock.cidr: invalid value "10.0.0.0/99": want a CIDR, for example 10.0.0.0/8 or 2001:db8::/32`},
		{"mapped cidr", func(p *policy.Policy) {
			p.Ingress[0].Peers = []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "::ffff:10.0.0.0/104"}}}
		}, `spec.ingress[0].from[0].ipBlock.cidr: invalid value "::ffff:10.0.0.0/104": want an IPv4 CIDR without ::ffff:`},
		{"except", func(p *policy.Policy) {
			p.Ingress[0].Peers = []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"11.0.0.0/9"}}}}
		}, `spec.ingress[0].from[0].ipBlock.except[0]: invalid value "11.0.0.0/9": want a strict subset of 10.0.0.0/8`},
		{"operator", func(p *policy.Policy) {
			p.AppliedTo[0].ExternalEntitySelector = &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "a", Operator: "Is"}}}
		}, `spec.appliedTo[0].externalEntitySelector.matchExpressions[0].operator: invalid value "Is": want one of In, NotIn, Exists, DoesNotExist`},
		{"label", func(p *policy.Policy) {
			p.AppliedTo[0].ExternalEntitySelector = &policy.Selector{MatchLabels: map[string]string{"a": "b c"}}
		}, `spec.appliedTo[0].externalEntitySelector.matchLabels[a]: invalid value "b c": want a label value`},
		{"port", func(p *policy.Policy) { p.Ingress[0].Ports = port(70000, 70001) },
			`spec.ingress[0].ports[0].port: invalid value "70000": want a number from 1 to 65535`},
		{"range", func(p *policy.Policy) { p.Ingress[0].Ports = port(10, 9) },
			`spec.ingress[0].ports[0].endPort: invalid value "9": want a number from 10 to 65535`},
		{"fqdn", func(p *policy.Policy) { p.Ingress[0].Peers = []policy.Peer{{FQDN: "a.example.com"}} },
			`spec.ingress[0].from[0].fqdn: invalid value "a.example.com": want no fqdn in an ingress rule`},
		{"nowhere", func(p *policy.Policy) { p.AppliedTo = nil },
			`spec.appliedTo: got nothing, want appliedTo in spec or in every rule`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := compute.New(compute.Options{})
			bad := valid("bad")
			c.spoil(&bad)
			e.PutPolicy(bad)
			e.PutPolicy(valid("good"))
			d := e.Commit()
			if len(d.Policies) != 1 || d.Policies[0].Policy.Source.Name != "good" {
				t.Errorf("policies: %+v", d.Policies)
			}
			if len(d.Problems) != 1 || d.Problems[0].Policy.Name != "bad" || !strings.HasPrefix(policy.JoinErrors(d.Problems[0].Errors), c.want) {
				t.Errorf("problems: %+v, want %s", d.Problems, c.want)
			}
			e.PutPolicy(valid("bad"))
			d = e.Commit()
			if len(d.Policies) != 1 || len(d.Problems) != 1 || len(d.Problems[0].Errors) != 0 {
				t.Errorf("after mending: %+v", d)
			}
		})
	}
}

// TestLateTier holds that a policy waits for its Tier and loses its computed form with it.
func TestLateTier(t *testing.T) {
	e := compute.New(compute.Options{})
	p := valid("p")
	p.Tier = "gold"
	e.PutPolicy(p)
	if d := e.Commit(); len(d.Policies) != 0 || len(d.Problems) != 1 {
		t.Fatalf("without tier: %+v", d)
	}
	e.PutTier(policy.Tier{Name: "gold", Priority: 7})
	d := e.Commit()
	if len(d.Policies) != 1 || *d.Policies[0].Policy.TierPriority != 7 || len(d.Problems) != 1 || len(d.Problems[0].Errors) != 0 {
		t.Fatalf("with tier: %+v", d)
	}
	e.DeleteTier("gold")
	if d := e.Commit(); len(d.Policies) != 1 || d.Policies[0].Change != policy.Removed || len(d.Problems) != 1 {
		t.Fatalf("tier deleted: %+v", d)
	}
	e.DeletePolicy(p.UID)
	if d := e.Commit(); len(d.Problems) != 1 || len(d.Problems[0].Errors) != 0 {
		t.Fatalf("policy deleted: %+v", d)
	}
}

// TestGroupProblems holds that missing groups are warned of and nested ones refused.
func TestGroupProblems(t *testing.T) {
	e := compute.New(compute.Options{})
	p := valid("p")
	p.Ingress[0].Peers = []policy.Peer{{Group: "outer"}}
	e.PutPolicy(p)
	d := e.Commit()
	if len(d.Policies) != 1 || len(d.Problems) != 1 || len(d.Problems[0].Errors) != 0 ||
		policy.JoinErrors(d.Problems[0].Warnings) != `spec.ingress[0].from[0].group: invalid value "outer": want an existing group` {
		t.Fatalf("group missing: %+v", d.Problems)
	}
	e.PutGroup(policy.Group{Namespace: "vms", Name: "outer", ChildGroups: []string{"inner"}})
	e.PutGroup(policy.Group{Namespace: "vms", Name: "inner", ChildGroups: []string{"innermost"}})
	e.PutGroup(policy.Group{Namespace: "vms", Name: "innermost", PodSelector: &policy.Selector{}})
	d = e.Commit()
	want := `spec.childGroups[0]: invalid value "inner": want a group without child groups: groups nest one level only`
	if len(d.Problems) != 2 || d.Problems[0].Group.Name != "outer" || policy.JoinErrors(d.Problems[0].Errors) != want {
		t.Fatalf("nested: %+v", d.Problems)
	}
	if len(d.AddressGroups) != 0 {
		t.Fatalf("the nested group has members: %+v", d.AddressGroups)
	}
	e.PutGroup(policy.Group{Namespace: "vms", Name: "inner", PodSelector: &policy.Selector{}})
	d = e.Commit()
	if len(d.AddressGroups) != 1 || d.AddressGroups[0].Name != "vms/outer" || len(d.Problems) != 1 || len(d.Problems[0].Errors) != 0 {
		t.Fatalf("no longer nested: %+v", d)
	}
}
