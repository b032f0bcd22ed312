package aws_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const rightsFolder = "../../../config/aws/"

func rights(t *testing.T, name string) *iam.Policy {
	t.Helper()
	document, err := os.ReadFile(rightsFolder + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := iam.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRightsAreWhatIsCalled compares the documented permissions with the calls that this package can make: none too few, none too many.
func TestRightsAreWhatIsCalled(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if input, ok := n.(*ast.SelectorExpr); ok && strings.HasSuffix(input.Sel.Name, "Input") {
				if pkg, ok := input.X.(*ast.Ident); ok && pkg.Name == "ec2" {
					calls = append(calls, "ec2:"+strings.TrimSuffix(input.Sel.Name, "Input"))
				}
			}
			return true
		})
	}
	slices.Sort(calls)
	calls = slices.Compact(calls)
	if have := rights(t, "enforce.json").Actions(); !slices.Equal(have, calls) {
		t.Errorf("enforce.json permits\n%q\nand the adapter calls\n%q", have, calls)
	}
	reading := slices.DeleteFunc(slices.Clone(calls), func(c string) bool {
		return !strings.HasPrefix(c, "ec2:Describe") && !strings.HasPrefix(c, "ec2:Get")
	})
	if have := rights(t, "plan.json").Actions(); !slices.Equal(have, reading) {
		t.Errorf("plan.json permits\n%q\nand reading calls\n%q", have, reading)
	}
}

// newRestrictedLab is a lab whose credentials have the rights of a file, and a cloud that hides new objects for a while.
func newRestrictedLab(t *testing.T, file string) *lab {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	state.Credentials[0].Policy = rights(t, file)
	l := newLab(t, sim.Options{State: state})
	l.server.World().SetVisibilityDelay(3 * time.Second)
	return l
}

func ourGroup(name string) cloud.Op {
	return cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{Name: cloud.NamePrefix + name, Description: "d", NetworkID: network,
		Tags: map[string]string{cloud.TagCluster: "c", cloud.TagKind: cloud.KindClass}}}
}

func (l *lab) do(op cloud.Op) (string, error) { return l.provider.Apply(l.Context(), l.scope(), op) }

func (l *lab) must(op cloud.Op) string {
	l.Helper()
	id, err := l.do(op)
	if err != nil {
		l.Fatalf("%s: %v", op.Kind, err)
	}
	return id
}

// TestRightsSuffice does an op of each kind on a group of ours and an interface, with the documented rights.
func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	l := newRestrictedLab(t, "enforce.json")
	s, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	nic := s.Interfaces[slices.IndexFunc(s.Interfaces, func(n cloud.Interface) bool { return n.NetworkID == network })]
	id := l.must(ourGroup("a"))
	in := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}}
	out, changed := in, in
	out.Direction, changed.Match = cloud.Egress, cloud.NewMatch(cloud.TCP, 81, 81)
	l.must(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{in, out}})
	l.must(cloud.Op{Kind: cloud.OpReplaceRules, Target: id, Replaced: []cloud.Rule{in}, Rules: []cloud.Rule{changed}})
	l.must(cloud.Op{Kind: cloud.OpTag, Target: nic.ID, Tags: map[string]string{cloud.TagFormer: "sg-1"}})
	l.must(cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{cloud.TagClaim: "c"}})
	l.must(cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{cloud.TagInstance: "abc 7 15s"}})
	l.must(cloud.Op{Kind: cloud.OpTag, Target: id, Tags: map[string]string{cloud.TagPolicies: "a", cloud.TagPolicies + ".1": "b"}})
	l.must(cloud.Op{Kind: cloud.OpUntag, Target: id, Tags: map[string]string{cloud.TagPolicies + ".1": ""}})
	l.must(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: []string{id}})
	l.must(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: nic.GroupIDs})
	l.must(cloud.Op{Kind: cloud.OpUntag, Target: nic.ID, Tags: map[string]string{cloud.TagFormer: ""}})
	l.must(cloud.Op{Kind: cloud.OpUntag, Target: network, Tags: map[string]string{cloud.TagClaim: "", cloud.TagInstance: ""}})
	l.must(cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: []cloud.Rule{changed, out}})

	// The answer of the first attempt is lost, and the group that the second one asks for is gone, with the tag that permits to delete it.
	l.server.Faults().Add(ec2.Fault{Action: "DeleteSecurityGroup", Times: 1, LoseAnswer: true})
	l.must(cloud.Op{Kind: cloud.OpDeleteGroup, Target: id})
	l.must(cloud.Op{Kind: cloud.OpDeleteGroup, Target: id})
	l.must(cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: []cloud.Rule{in}})
}

// TestRightsProtect asks for what Nephele never does, with the rights that it has: a mistake of ours would be stopped by the cloud.
func TestRightsProtect(t *testing.T) {
	t.Parallel()
	l := newRestrictedLab(t, "enforce.json")
	groups, err := l.region().SecurityGroups()
	if err != nil {
		t.Fatal(err)
	}
	foreign := groups[slices.IndexFunc(groups, func(g world.SecurityGroup) bool { return g.VPCID == network })].ID
	nics, err := l.region().NetworkInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	instances, err := l.region().Instances()
	if err != nil {
		t.Fatal(err)
	}
	rule := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}}
	untagged := ourGroup("b")
	untagged.Group.Tags = map[string]string{"Name": "b"}
	for name, op := range map[string]cloud.Op{
		"open a foreign group":         {Kind: cloud.OpAddRules, Target: foreign, Rules: []cloud.Rule{rule}},
		"close a foreign group":        {Kind: cloud.OpRemoveRules, Target: foreign, Rules: []cloud.Rule{rule}},
		"delete a foreign group":       {Kind: cloud.OpDeleteGroup, Target: foreign},
		"make a foreign group ours":    {Kind: cloud.OpTag, Target: foreign, Tags: map[string]string{cloud.TagCluster: "c"}},
		"remember in a foreign group":  {Kind: cloud.OpTag, Target: foreign, Tags: map[string]string{cloud.TagPolicies: ""}},
		"make a group that is nobodys": untagged,
		"rename an interface":          {Kind: cloud.OpTag, Target: nics[0].ID, Tags: map[string]string{"Name": "x"}},
		"remove a tag of the user":     {Kind: cloud.OpUntag, Target: nics[0].ID, Tags: map[string]string{"Name": "", cloud.TagFormer: ""}},
		"tag an instance":              {Kind: cloud.OpTag, Target: instances[0].ID, Tags: map[string]string{cloud.TagFormer: "x"}},
	} {
		if _, err := l.do(op); cloud.ClassOf(err) != cloud.Auth || !strings.Contains(err.Error(), "is not authorized to perform: ec2:") {
			t.Errorf("%s: %v, want a refusal that names the call", name, err)
		}
	}
}

// TestRightsToPlan reads with the rights for reading, and can do nothing else.
func TestRightsToPlan(t *testing.T) {
	t.Parallel()
	l := newRestrictedLab(t, "plan.json")
	if _, err := l.provider.Observe(t.Context(), l.scope()); err != nil {
		t.Error(err)
	}
	if _, err := l.do(ourGroup("a")); cloud.ClassOf(err) != cloud.Auth || !strings.Contains(err.Error(), "ec2:CreateSecurityGroup") {
		t.Errorf("CreateSecurityGroup: %v, want a refusal that names the call", err)
	}
}
