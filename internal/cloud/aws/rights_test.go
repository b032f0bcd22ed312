package aws_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	policies "github.com/nephele-io/nephele/internal/cloud/aws/rights"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/iam"
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

// serviceRights are the prefixes of the rights of services, by the packages that call them.
var serviceRights = map[string]string{
	"rds": "rds", "elasticache": "elasticache", "elb": "elasticloadbalancing", "efs": "elasticfilesystem", "lambda": "lambda",
}

// ofRoutes reports whether a call is about the routes to Nodes, for which rights are asked for
// apart.
func ofRoutes(call string) bool { return strings.Contains(call, "Route") }

// onlyExplained is asked by "nephele explain" alone, which says what it does not know where it is
// not permitted.
const onlyExplained = "ec2:DescribeNetworkAcls"

// TestRightsAreWhatIsCalled compares the documented permissions with the calls that this package
// and native can make: none too few, none too many.
func TestRightsAreWhatIsCalled(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	natives, err2 := filepath.Glob("native/*.go")
	if err = errors.Join(err, err2); err != nil || len(natives) == 0 {
		t.Fatal(len(natives), err)
	}
	var calls, serving, routing []string
	for _, f := range append(files, natives...) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if input, ok := n.(*ast.SelectorExpr); ok && strings.HasSuffix(input.Sel.Name, "Input") {
				pkg, ok := input.X.(*ast.Ident)
				call := strings.TrimSuffix(input.Sel.Name, "Input")
				switch {
				case ok && serviceRights[pkg.Name] != "":
					serving = append(serving, serviceRights[pkg.Name]+":"+call)
				case ok && pkg.Name == "ec2" && strings.HasSuffix(strings.TrimSuffix(call, "s"), "VpcEndpoint"):
					serving = append(serving, "ec2:"+call)
				case ok && pkg.Name == "ec2" && ofRoutes(call):
					routing = append(routing, "ec2:"+call)
				case ok && pkg.Name == "ec2":
					calls = append(calls, "ec2:"+call)
				}
			}
			return true
		})
	}
	slices.Sort(calls)
	calls = slices.DeleteFunc(slices.Compact(calls), func(c string) bool { return c == onlyExplained })
	if have := rights(t, "enforce.json").Actions(); !slices.Equal(have, calls) {
		t.Errorf("enforce.json permits\n%q\nand the adapter calls\n%q", have, calls)
	}
	slices.Sort(serving)
	serving = slices.Compact(serving)
	read := func(calls []string) []string {
		return slices.DeleteFunc(slices.Clone(calls), func(c string) bool {
			_, name, _ := strings.Cut(c, ":")
			return !strings.HasPrefix(name, "Describe") && !strings.HasPrefix(name, "Get") && !strings.HasPrefix(name, "List")
		})
	}
	for mode, called := range map[policies.Mode][]string{policies.Plan: read(serving), policies.Enforce: serving} {
		if have := slices.DeleteFunc(written(t, policies.Pins{Mode: mode, Services: true}).Actions(), func(c string) bool { return slices.Contains(calls, c) }); !slices.Equal(have, called) {
			t.Errorf("of services the command permits to %s\n%q\nand the adapter calls\n%q", mode, have, called)
		}
	}
	slices.Sort(routing)
	routing = slices.Compact(routing)
	for mode, called := range map[policies.Mode][]string{policies.Plan: read(routing), policies.Enforce: routing} {
		have := slices.DeleteFunc(written(t, policies.Pins{Mode: mode, RouteTables: []string{"rtb-12345678"}}).Actions(), func(c string) bool { return slices.Contains(calls, c) })
		if !slices.Equal(have, called) {
			t.Errorf("of routes the command permits to %s\n%q\nand the adapter calls\n%q", mode, have, called)
		}
	}
	reading := read(calls)
	if have := rights(t, "plan.json").Actions(); !slices.Equal(have, reading) {
		t.Errorf("plan.json permits\n%q\nand reading calls\n%q", have, reading)
	}
}

// newRestrictedLab is a lab whose credentials have the rights of a file, and a cloud that hides new
// objects for a while.
func newRestrictedLab(t *testing.T, file string) *lab {
	t.Helper()
	return newLabWithRights(t, rights(t, file))
}

func newLabWithRights(t *testing.T, policy *iam.Policy) *lab {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	state.Accounts[0].Regions = append(state.Accounts[0].Regions, elsewhere)
	state.Regions = append(state.Regions, aws.RegionState{Account: state.Accounts[0].ID, Name: elsewhere})
	state.Credentials[0].Policy = policy
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

// elsewhere is a region that rights may be withheld in.
const elsewhere = "eu-west-1"

// TestRightsSuffice does an op of each kind on a group of ours and an interface, with the
// documented rights, and with rights that are pinned to this cluster, this network, this region and
// this account.
func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	for name, pins := range map[string]policies.Pins{"not pinned": {}, "pinned": pinned(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newLabWithRights(t, written(t, pins)).doAll()
		})
	}
}

// pinned are rights to the network of the tests and nothing else.
func pinned(t *testing.T) policies.Pins {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	return policies.Pins{Cluster: "c", Networks: []string{network}, Regions: []string{region}, Account: state.Accounts[0].ID}
}

// written is the policy that the command prints.
func written(t *testing.T, pins policies.Pins) *iam.Policy {
	t.Helper()
	if pins.Mode == "" {
		pins.Mode = policies.Enforce
	}
	if err := pins.Check(); err != nil {
		t.Fatal(err)
	}
	document, err := policies.Document(pins)
	if err != nil {
		t.Fatal(err)
	}
	p, err := iam.Parse(document)
	if err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	return p
}

// TestPinnedRightsProtect asks for what is outside of the pins, each by the very op that is
// permitted inside.
func TestPinnedRightsProtect(t *testing.T) {
	t.Parallel()
	const other = "vpc-925131f4" // another network of the same region
	free := newLab(t, sim.Options{})
	s, err := free.provider.Observe(t.Context(), free.scope())
	if err != nil {
		t.Fatal(err)
	}
	nic := func(in string) cloud.Interface {
		i := slices.IndexFunc(s.Interfaces, func(n cloud.Interface) bool { return n.NetworkID == in && !n.Managed })
		if i < 0 {
			t.Fatalf("there is no interface in %s", in)
		}
		return s.Interfaces[i]
	}
	group := func(network, cluster string) cloud.Op {
		op := ourGroup("g")
		op.Group.NetworkID, op.Group.Tags[cloud.TagCluster] = network, cluster
		return op
	}
	rule := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}}
	l := newLabWithRights(t, written(t, pinned(t)))
	// Groups that others have made, with all rights.
	foreign := func(vpc, cluster string) string {
		g, err := l.region().Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "nephele-" + vpc + cluster, Description: "d", VPCID: vpc,
			Tags: aws.Tags{cloud.TagCluster: cluster, cloud.TagKind: cloud.KindClass}})
		if err != nil {
			t.Fatal(err)
		}
		return g.ID
	}
	far, theirs := foreign(other, "c"), foreign(network, "another")
	_ = l.clock.sleep(t.Context(), time.Minute)
	if _, err := l.provider.Observe(t.Context(), l.scope()); err != nil {
		t.Errorf("reading the region: %v", err)
	}
	for name, op := range map[string]cloud.Op{
		"a group in another network":              group(other, "c"),
		"a group of another cluster":              group(network, "another"),
		"rules of ours in another network":        {Kind: cloud.OpAddRules, Target: far, Rules: []cloud.Rule{rule}},
		"rules of another cluster":                {Kind: cloud.OpAddRules, Target: theirs, Rules: []cloud.Rule{rule}},
		"deleting a group of another cluster":     {Kind: cloud.OpDeleteGroup, Target: theirs},
		"an interface in another network":         {Kind: cloud.OpSetInterfaceGroups, Target: nic(other).ID, GroupIDs: nic(other).GroupIDs},
		"a tag of an interface there":             {Kind: cloud.OpTag, Target: nic(other).ID, Tags: map[string]string{cloud.TagFormer: "sg-1"}},
		"claiming another network":                {Kind: cloud.OpTag, Target: other, Tags: map[string]string{cloud.TagClaim: "c"}},
		"the policies of another cluster's group": {Kind: cloud.OpTag, Target: theirs, Tags: map[string]string{cloud.TagPolicies: "x"}},
	} {
		if _, err := l.do(op); cloud.ClassOf(err) != cloud.Auth || !strings.Contains(err.Error(), "is not authorized to perform: ec2:") {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
	there := cloud.Scope{Account: "ns/account", Region: elsewhere}
	if _, err := l.provider.Observe(t.Context(), there); cloud.ClassOf(err) != cloud.Auth || !strings.Contains(err.Error(), "is not authorized to perform: ec2:Describe") {
		t.Errorf("reading another region: %v", err)
	}
	if _, err := l.provider.Apply(t.Context(), there, group(network, "c")); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a group in another region: %v", err)
	}
	// Another account's number in the pins, and nothing of this one may be changed.
	pins := pinned(t)
	pins.Account = "999988887777"
	l = newLabWithRights(t, written(t, pins))
	if _, err := l.do(ourGroup("a")); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("with rights in another account: %v", err)
	}
}

// TestPublishedRights: the files are what the command prints without pins.
func TestPublishedRights(t *testing.T) {
	t.Parallel()
	for file, mode := range map[string]policies.Mode{"enforce.json": policies.Enforce, "plan.json": policies.Plan} {
		want, err := policies.Document(policies.Pins{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(rightsFolder + file)
		if err != nil || string(have) != string(want) {
			t.Errorf("%s differs (%v); write it with: go run ./cmd/nephele iam-policy --mode %s > config/aws/%s", file, err, mode, file)
		}
	}
}

// doAll does an op of each kind.
func (l *lab) doAll() {
	t := l.T
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

	// The answer of the first attempt is lost, and the group that the second one asks for is gone,
	// with the tag that permits to delete it.
	l.server.Faults().Add(ec2.Fault{Action: "DeleteSecurityGroup", Times: 1, LoseAnswer: true})
	l.must(cloud.Op{Kind: cloud.OpDeleteGroup, Target: id})
	l.must(cloud.Op{Kind: cloud.OpDeleteGroup, Target: id})
	l.must(cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: []cloud.Rule{in}})
}

// TestRightsProtect asks for what Nephele never does, with the rights that it has: a mistake of
// ours would be stopped by the cloud.
func TestRightsProtect(t *testing.T) {
	t.Parallel()
	l := newRestrictedLab(t, "enforce.json")
	groups, err := l.region().SecurityGroups()
	if err != nil {
		t.Fatal(err)
	}
	foreign := groups[slices.IndexFunc(groups, func(g aws.SecurityGroup) bool { return g.VPCID == network })].ID
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
