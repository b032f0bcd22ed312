// Package rights writes the IAM policies that the AWS adapter needs, as wide as they must be and as
// narrow as their user can say.
//
// It owns what each permission is for, and which of AWS's conditions narrows it. It promises that a
// policy permits all that the adapter does in the clusters, networks and regions that it is pinned
// to, and changes nothing elsewhere. Everything here is a pure function.
package rights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Mode says what the policy is for.
type Mode string

// The modes.
const (
	// Plan permits to look only.
	Plan Mode = "plan"
	// Enforce permits everything that is needed.
	Enforce Mode = "enforce"
)

// Pins narrow a policy. What is left out is not narrowed.
type Pins struct {
	Mode Mode
	// Cluster is the id of the cluster whose groups may be changed.
	Cluster string
	// Account is the number of the account that the groups and interfaces belong to.
	Account string
	// Networks are the VPCs in which something may be changed, Regions those in which anything may
	// be done.
	Networks, Regions []string
	// Services also permits to read native services, and in mode Enforce to set their security
	// groups. Without it, or a part of it, they are known by their interfaces only, or are peers of
	// policies only.
	Services bool
	// FlowLogs are the buckets of S3 that flow logs are read out of: BUCKET or BUCKET/PREFIX.
	FlowLogs []string
	// RouteTables are those that routes to Nodes are written into.
	RouteTables []string
	// OnlyServices leaves out everything else, so that these rights are a policy of their own: all
	// in one may be longer than AWS takes.
	OnlyServices bool
}

var (
	clusterForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:/=+@-]{0,254}$`)
	accountForm = regexp.MustCompile(`^[0-9]{12}$`)
	networkForm = regexp.MustCompile(`^vpc-([0-9a-f]{8}|[0-9a-f]{17})$`)
	regionForm  = regexp.MustCompile(`^[a-z]{2,5}(-[a-z]+)+-[0-9]+$`)
	tableForm   = regexp.MustCompile(`^rtb-([0-9a-f]{8}|[0-9a-f]{17})$`)
	bucketForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.'()-]+)*$`)
)

// Check returns what is wrong with pins: "FIELD VALUE: what is expected".
func (p Pins) Check() error {
	for _, f := range []struct {
		field    string
		values   []string
		form     *regexp.Regexp
		expected string
	}{
		{"cluster", present(p.Cluster), clusterForm, "the id of a cluster, which is the uid of its namespace kube-system"},
		{"account-id", present(p.Account), accountForm, "12 digits"},
		{"vpc", p.Networks, networkForm, "the id of a VPC, as vpc-0123456789abcdef0"},
		{"region", p.Regions, regionForm, "the name of a region, as eu-west-1"},
		{"node-routes", p.RouteTables, tableForm, "the id of a route table, as rtb-0123456789abcdef0"},
		{"flow-logs", p.FlowLogs, bucketForm, "a bucket, with the prefix of its flow logs if they have one: acme-flow-logs/prod"},
	} {
		for _, v := range f.values {
			if !f.form.MatchString(v) {
				return fmt.Errorf("%s %q: want %s", f.field, v, f.expected)
			}
		}
	}
	if p.Mode != Plan && p.Mode != Enforce {
		return fmt.Errorf("mode %q: want %s or %s", p.Mode, Plan, Enforce)
	}
	if parts := p.partitions(); len(parts) > 1 {
		return fmt.Errorf("region %q: one policy cannot be for %s", strings.Join(p.Regions, ","), strings.Join(parts, " and "))
	}
	return nil
}

func present(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// partitions returns the partitions of AWS that the regions are in.
func (p Pins) partitions() []string {
	found := map[string]bool{}
	for _, r := range p.Regions {
		partition := "aws"
		for _, x := range []struct{ prefix, name string }{
			{"cn-", "aws-cn"}, {"us-gov-", "aws-us-gov"}, {"us-iso-", "aws-iso"}, {"us-isob-", "aws-iso-b"}, {"eu-isoe-", "aws-iso-e"},
			{"us-isof-", "aws-iso-f"}, {"eusc-", "aws-eusc"},
		} {
			if strings.HasPrefix(r, x.prefix) {
				partition = x.name
			}
		}
		found[partition] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// document is an IAM policy.
type document struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid       string
	Effect    string
	Action    values
	Resource  values
	Condition conditions `json:",omitempty"`
}

// values are written as a list only if there are several.
type values []string

// MarshalJSON implements json.Marshaler.
func (v values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

// conditions map operators to keys to values.
type conditions map[string]map[string]values

func (c conditions) with(operator, key string, v ...string) conditions {
	if c[operator] == nil {
		c[operator] = map[string]values{}
	}
	c[operator][key] = v
	return c
}

// Document returns the policy as JSON. p.Check must have found nothing wrong.
func Document(p Pins) ([]byte, error) {
	d := document{Version: "2012-10-17"}
	if !p.OnlyServices {
		d.Statement = append(d.Statement, p.read())
	}
	if p.Services || p.OnlyServices {
		d.Statement = append(d.Statement, readServices())
	}
	if p.Mode == Enforce && !p.OnlyServices {
		d.Statement = append(d.Statement, p.write()...)
	}
	if p.Mode == Enforce && (p.Services || p.OnlyServices) {
		d.Statement = append(d.Statement, p.writeServices()...)
	}
	if len(p.RouteTables) > 0 {
		d.Statement = append(d.Statement, p.nodeRoutes()...)
	}
	if len(p.Regions) > 0 {
		for i := range d.Statement {
			s := &d.Statement[i]
			if s.Condition == nil {
				s.Condition = conditions{}
			}
			s.Condition.with("StringEquals", "aws:RequestedRegion", sorted(p.Regions)...)
		}
	}
	d.Statement = append(d.Statement, p.flowLogs()...) // the bucket may be elsewhere
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("write the policy: %w", err)
	}
	return out.Bytes(), nil
}

func sorted(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

// Length is how long AWS takes a policy for: without white space.
func Length(policy []byte) int {
	var compact bytes.Buffer
	if json.Compact(&compact, policy) != nil {
		return len(policy)
	}
	return compact.Len()
}

// arn is a pattern of resources of EC2 of a kind. owner is the account that they belong to.
func (p Pins) arn(kind, id, owner string) string { return p.arnOf("ec2", kind+"/"+id, owner) }

// arnOf is a pattern of resources of a service.
func (p Pins) arnOf(service, resource, owner string) string {
	partition := "aws"
	if parts := p.partitions(); len(parts) > 0 {
		partition = parts[0]
	}
	if owner == "" {
		owner = "*"
	}
	return "arn:" + partition + ":" + service + ":*:" + owner + ":" + resource
}

// networks are the VPCs. One that is shared belongs to another account.
func (p Pins) networks() values {
	if len(p.Networks) == 0 {
		return values{p.arn("vpc", "*", "")}
	}
	var out values
	for _, id := range sorted(p.Networks) {
		out = append(out, p.arn("vpc", id, ""))
	}
	return out
}

// within adds the condition that a resource is in one of the VPCs.
func (p Pins) within(c conditions) conditions {
	if len(p.Networks) == 0 {
		return c
	}
	return c.with("ArnLike", "ec2:Vpc", p.networks()...)
}

// ours adds the condition that a key, of a request or a resource, says that the group is of the
// cluster.
func (p Pins) ours(c conditions, key string) conditions {
	if p.Cluster == "" {
		return c.with("StringLike", key+"/"+cloud.TagCluster, "*")
	}
	return c.with("StringEquals", key+"/"+cloud.TagCluster, p.Cluster)
}

// tagged adds the condition that a call names tags, and such only.
func tagged(c conditions, pattern string) conditions {
	return c.with("ForAllValues:StringLike", "aws:TagKeys", pattern).with("Null", "aws:TagKeys", "false")
}

const (
	ofRequest  = "aws:RequestTag"
	ofResource = "aws:ResourceTag"
)

func allow(sid string, c conditions, resources values, actions ...string) statement {
	for i := range actions {
		actions[i] = "ec2:" + actions[i]
	}
	return statement{Sid: sid, Effect: "Allow", Action: actions, Resource: resources, Condition: c}
}

func (p Pins) read() statement {
	return allow("Read", nil, values{"*"},
		"DescribeInstances", "DescribeManagedPrefixLists", "DescribeNetworkInterfaces", "DescribeRegions", "DescribeSecurityGroupReferences",
		"DescribeSecurityGroupRules", "DescribeSecurityGroups", "DescribeVpcPeeringConnections", "DescribeVpcs", "GetManagedPrefixListEntries")
}

// nodeRoutes permits to write routes to Nodes. PutInterfacesIntoGroups permits to change their
// interfaces.
func (p Pins) nodeRoutes() []statement {
	out := []statement{allow("ReadRouteTables", nil, values{"*"}, "DescribeRouteTables")}
	if p.Mode != Enforce {
		return out
	}
	var tables values
	for _, id := range sorted(p.RouteTables) {
		tables = append(tables, p.arn("route-table", id, p.Account))
	}
	return append(out,
		allow("RouteToNodes", nil, tables, "CreateRoute", "DeleteRoute", "ReplaceRoute"),
		allow("ClaimRouteTables", tagged(conditions{}, cloud.TagNodeRoutes), tables, "CreateTags", "DeleteTags"),
	)
}

// flowLogs permits to read what AWS writes into buckets, and nothing else that is there.
func (p Pins) flowLogs() (out []statement) {
	var objects values
	prefixes := map[string]values{}
	for _, at := range sorted(p.FlowLogs) {
		bucket, prefix, _ := strings.Cut(at, "/")
		if prefix != "" {
			prefix += "/"
		}
		arn := strings.Replace(p.arnOf("s3", bucket, ""), ":*:*:", ":::", 1)
		prefixes[arn] = append(prefixes[arn], prefix+"AWSLogs/*")
		objects = append(objects, arn+"/"+prefix+"AWSLogs/*")
	}
	for i, arn := range slices.Sorted(maps.Keys(prefixes)) {
		out = append(out, statement{
			Sid: fmt.Sprintf("ListFlowLogs%d", i+1), Effect: "Allow", Action: values{"s3:ListBucket"}, Resource: values{arn},
			Condition: conditions{}.with("StringLike", "s3:prefix", prefixes[arn]...),
		})
	}
	if len(objects) > 0 {
		out = append(out, statement{Sid: "ReadFlowLogs", Effect: "Allow", Action: values{"s3:GetObject"}, Resource: objects})
	}
	return out
}

// readServices permits to read native services. Each right is for one kind of them, and each may be
// left out.
func readServices() statement {
	return statement{Sid: "ReadServices", Effect: "Allow", Resource: values{"*"}, Action: values{
		"ec2:DescribeVpcEndpoints", "elasticache:DescribeCacheClusters", "elasticache:DescribeReplicationGroups",
		"elasticache:ListTagsForResource", "elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeMountTargets",
		"elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeLoadBalancers", "elasticloadbalancing:DescribeTags",
		"elasticloadbalancing:DescribeTargetGroupAttributes", "elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth",
		"lambda:ListFunctions", "rds:DescribeDBClusters", "rds:DescribeDBInstances",
	}}
}

// writeServices permits to set the security groups of native services, and to remember in their
// tags what they had. Each statement but the last is for one kind of them, and each may be left
// out. Where a right lets more be done than that, the service must have its owner's tag.
func (p Pins) writeServices() []statement {
	endpoint, database := values{p.arn("vpc-endpoint", "*", p.Account)}, values{p.arnOf("rds", "cluster:*", p.Account), p.arnOf("rds", "db:*", p.Account)}
	balancers := values{p.arnOf("elasticloadbalancing", "loadbalancer/app/*", p.Account), p.arnOf("elasticloadbalancing", "loadbalancer/net/*", p.Account)}
	caches := values{p.arnOf("elasticache", "cluster:*", p.Account), p.arnOf("elasticache", "replicationgroup:*", p.Account)}
	files := values{p.arnOf("elasticfilesystem", "file-system/*", p.Account)}
	guarded := func() conditions { return conditions{}.with("Null", ofResource+"/"+cloud.TagGuard, "false") }
	record := func() conditions { return tagged(conditions{}, "nephele.io/former-*") }
	return []statement{
		{"GuardBalancers", "Allow", values{"elasticloadbalancing:SetSecurityGroups"}, balancers, nil},
		{"RememberInBalancers", "Allow", values{"elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"}, balancers, record()},
		{"GuardCaches", "Allow", values{"elasticache:ModifyCacheCluster", "elasticache:ModifyReplicationGroup"}, caches, guarded()},
		{"RememberInCaches", "Allow", values{"elasticache:AddTagsToResource", "elasticache:RemoveTagsFromResource"}, caches, record()},
		{"GuardFileSystems", "Allow", values{"elasticfilesystem:ModifyMountTargetSecurityGroups"}, files, nil},
		{"RememberInFileSystems", "Allow", values{"elasticfilesystem:TagResource", "elasticfilesystem:UntagResource"}, files, record()},
		{"GuardDatabases", "Allow", values{"rds:ModifyDBCluster", "rds:ModifyDBInstance"}, database, guarded()},
		{"RememberInDatabases", "Allow", values{"rds:AddTagsToResource", "rds:RemoveTagsFromResource"}, database, record()},
		allow("GuardEndpoints", guarded(), endpoint, "ModifyVpcEndpoint"),
		allow("RememberInEndpoints", record(), endpoint, "CreateTags", "DeleteTags"),
		allow("UseGroupsForEndpoints", nil, values{p.arn("security-group", "*", "")}, "ModifyVpcEndpoint"),
	}
}

func (p Pins) write() []statement {
	group := values{p.arn("security-group", "*", p.Account)}
	nic := values{p.arn("network-interface", "*", p.Account)}
	return []statement{
		allow("CreateGroups", p.ours(conditions{}, ofRequest), group, "CreateSecurityGroup"),
		allow("CreateGroupsInNetworks", nil, p.networks(), "CreateSecurityGroup"),
		allow("TagGroupsWhenCreated", conditions{}.with("StringEquals", "ec2:CreateAction", "CreateSecurityGroup"), group, "CreateTags"),
		allow("ChangeOwnGroups", p.within(p.ours(conditions{}, ofResource)), group,
			"AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress", "DeleteSecurityGroup", "ModifySecurityGroupRules",
			"RevokeSecurityGroupEgress", "RevokeSecurityGroupIngress"),
		// Its owner has said so by the tag; deleting and tagging it are not among it.
		allow("AddToGroupsThatFollow", p.within(conditions{}.with("Null", ofResource+"/"+cloud.TagFollow, "false")), group,
			"AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress", "ModifySecurityGroupRules", "RevokeSecurityGroupEgress", "RevokeSecurityGroupIngress"),
		// The group that a rule is in must be permitted as well.
		allow("ChangeRulesInPlace", nil, values{p.arn("security-group-rule", "*", p.Account)}, "ModifySecurityGroupRules"),
		allow("RememberInInterfaces", p.within(tagged(conditions{}, "nephele.io/*")), nic, "CreateTags", "DeleteTags"),
		allow("RememberInNetworks", tagged(conditions{}, "nephele.io/*"), p.networks(), "CreateTags", "DeleteTags"),
		allow("RememberInOwnGroups", p.within(tagged(p.ours(conditions{}, ofResource), cloud.TagPolicies+"*")), group, "CreateTags", "DeleteTags"),
		allow("PutInterfacesIntoGroups", p.within(conditions{}), nic, "ModifyNetworkInterfaceAttribute"),
		// An interface holds groups of its own VPC only, which may be shared by other accounts.
		allow("UseGroups", nil, values{p.arn("security-group", "*", "")}, "ModifyNetworkInterfaceAttribute"),
	}
}
