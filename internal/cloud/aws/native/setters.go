package native

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/rds"
	rdstypes "github.com/aws/aws-sdk-go-v2/service/rds/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

// This file sets the groups of native services, and writes their former groups into their tags. AWS
// lets only the service itself do either to its interfaces.

// arriveTime is how long the interfaces of a service may take to hold the groups that it was given.
const arriveTime = 3 * time.Minute

// setting does an op on one native service.
type setting struct {
	conn *Conn
	op   cloud.Op
}

// setter is how the groups and tags of one kind of services are set. name is what the calls of the
// service take: the last part of the ARN, or the ARN itself.
type setter struct {
	// prefix is that of the ARNs, behind the partition: service, and after a slash the resource.
	service, resource string
	set               func(s setting, ctx context.Context, name string) error
	tag               func(s setting, ctx context.Context, name string) error
	untag             func(s setting, ctx context.Context, name string) error
}

// setters has a row for each kind of services that fixed lets be changed.
func setters() []setter {
	return []setter{
		{"ec2", "vpc-endpoint/", setting.setEndpoint, setting.tagEndpoint, setting.untagEndpoint},
		{"elasticache", "cluster:", setting.setCache, setting.tagCache, setting.untagCache},
		{"elasticache", "replicationgroup:", setting.setReplicationGroup, setting.tagCache, setting.untagCache},
		{"elasticfilesystem", "file-system/", setting.setFileSystem, setting.tagFileSystem, setting.untagFileSystem},
		{"elasticloadbalancing", "loadbalancer/app/", setting.setBalancer, setting.tagBalancer, setting.untagBalancer},
		{"elasticloadbalancing", "loadbalancer/net/", setting.setBalancer, setting.tagBalancer, setting.untagBalancer},
		{"rds", "cluster:", setting.setCluster, setting.tagDatabase, setting.untagDatabase},
		{"rds", "db:", setting.setDatabase, setting.tagDatabase, setting.untagDatabase},
	}
}

// Is reports whether an ID is that of a native service.
func Is(id string) bool { return strings.HasPrefix(id, "arn:") }

// Apply does an op on its target, which is a native service. What sets the groups of a service says
// only that it will do so; see Services.Complete.
func Apply(ctx context.Context, conn *Conn, op cloud.Op) error {
	s := setting{conn, op}
	parts := strings.SplitN(op.Target, ":", 6)
	if len(parts) != 6 {
		return failure.Refuse(s.op, "%q is not the ARN of a service", s.op.Target)
	}
	for _, row := range setters() {
		if row.service != parts[2] || !strings.HasPrefix(parts[5], row.resource) {
			continue
		}
		name := strings.TrimPrefix(parts[5], row.resource)
		switch s.op.Kind {
		case cloud.OpSetInterfaceGroups:
			return lasting(row.set(s, ctx, name))
		case cloud.OpTag:
			if len(s.op.Tags) == 0 {
				return nil
			}
			return row.tag(s, ctx, name)
		case cloud.OpUntag:
			if len(s.op.Tags) == 0 { // some APIs would remove all
				return nil
			}
			if err := row.untag(s, ctx, name); cloud.ClassOf(err) != cloud.NotFound {
				return err
			}
			return nil
		}
	}
	return failure.Refuse(s.op, "%s: the groups of this service cannot be set", s.op.Target)
}

// lasting is the error of a service that is in no state to be changed: it may stay so for long, and
// nothing else waits for it.
func lasting(err error) error {
	var refused *cloud.Error
	if errors.As(err, &refused) && refused.Class == cloud.Conflict {
		out := *refused
		out.Class = cloud.Terminal
		return &out
	}
	return err
}

// given repeats a call that gives groups to a service while it does not see one of them that this
// provider has created moments ago. Services call that by other names than EC2.
func (s setting) given(ctx context.Context, call string, do func() error) error {
	return s.conn.Visible(ctx, call, s.op.GroupIDs, func() error {
		err := s.conn.classify(call, do())
		if code := failure.CodeOf(err); (code == "InvalidSecurityGroup" || code == "InvalidParameterValue" || code == "SecurityGroupNotFound") && s.conn.Fresh(s.op.GroupIDs) {
			return &cloud.Error{Class: cloud.NotFound, Call: call, Code: code, Err: err}
		}
		return err
	})
}

// setEndpoint gives an endpoint the groups, which EC2 only takes as additions and removals.
func (s setting) setEndpoint(ctx context.Context, id string) error {
	out, err := s.conn.EC2.DescribeVpcEndpoints(ctx, &ec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{id}})
	if err != nil {
		return s.conn.classify("DescribeVpcEndpoints", err)
	}
	if len(out.VpcEndpoints) != 1 {
		return &cloud.Error{Class: cloud.NotFound, Call: "DescribeVpcEndpoints", Err: fmt.Errorf("the endpoint %s is not there", id)}
	}
	var has []string
	for _, g := range out.VpcEndpoints[0].Groups {
		has = append(has, awssdk.ToString(g.GroupId))
	}
	in := &ec2.ModifyVpcEndpointInput{VpcEndpointId: awssdk.String(id), AddSecurityGroupIds: beside(s.op.GroupIDs, has), RemoveSecurityGroupIds: beside(has, s.op.GroupIDs)}
	if len(in.AddSecurityGroupIds)+len(in.RemoveSecurityGroupIds) == 0 {
		return nil
	}
	return s.given(ctx, "ModifyVpcEndpoint", func() error {
		_, err := s.conn.EC2.ModifyVpcEndpoint(ctx, in)
		return err
	})
}

// beside are the elements of a that are not in b.
func beside(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return slices.Contains(b, x) })
}

func (s setting) tagEndpoint(ctx context.Context, id string) error {
	_, err := s.conn.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: values.TagList(s.op.Tags)})
	return s.conn.classify("CreateTags", err)
}

func (s setting) untagEndpoint(ctx context.Context, id string) error {
	var keys []types.Tag
	for _, k := range s.keys() {
		keys = append(keys, types.Tag{Key: awssdk.String(k)})
	}
	_, err := s.conn.EC2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: keys})
	return s.conn.classify("DeleteTags", err)
}

// keys returns the keys of the op's tags, sorted.
func (s setting) keys() []string { return slices.Sorted(maps.Keys(s.op.Tags)) }

// tagsOf are the op's tags in the form of a service's API, sorted.
func tagsOf[T any](s setting, made func(key, value *string) T) []T {
	var out []T
	for _, k := range s.keys() {
		out = append(out, made(awssdk.String(k), awssdk.String(s.op.Tags[k])))
	}
	return out
}

func (s setting) balancers() *elb.Client {
	return elb.NewFromConfig(s.conn.Base, func(o *elb.Options) { o.Region = s.conn.Region })
}

func (s setting) setBalancer(ctx context.Context, _ string) error {
	return s.given(ctx, "SetSecurityGroups", func() error {
		_, err := s.balancers().SetSecurityGroups(ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: awssdk.String(s.op.Target), SecurityGroups: s.op.GroupIDs})
		return err
	})
}

func (s setting) tagBalancer(ctx context.Context, _ string) error {
	tags := tagsOf(s, func(k, v *string) elbtypes.Tag { return elbtypes.Tag{Key: k, Value: v} })
	_, err := s.balancers().AddTags(ctx, &elb.AddTagsInput{ResourceArns: []string{s.op.Target}, Tags: tags})
	return s.conn.classify("AddTags", err)
}

func (s setting) untagBalancer(ctx context.Context, _ string) error {
	_, err := s.balancers().RemoveTags(ctx, &elb.RemoveTagsInput{ResourceArns: []string{s.op.Target}, TagKeys: s.keys()})
	return s.conn.classify("RemoveTags", err)
}

func (s setting) rds() *rds.Client {
	return rds.NewFromConfig(s.conn.Base, func(o *rds.Options) { o.Region = s.conn.Region })
}

// setDatabase gives a database the groups. RDS applies that as soon as possible in any case.
// ApplyImmediately would apply, too, what the owner has put off to the next maintenance window,
// such as a restart.
func (s setting) setDatabase(ctx context.Context, name string) error {
	return s.given(ctx, "ModifyDBInstance", func() error {
		_, err := s.rds().ModifyDBInstance(ctx, &rds.ModifyDBInstanceInput{DBInstanceIdentifier: awssdk.String(name), VpcSecurityGroupIds: s.op.GroupIDs})
		return err
	})
}

// setCluster gives a cluster, and so all its members, the groups; see setDatabase.
func (s setting) setCluster(ctx context.Context, name string) error {
	return s.given(ctx, "ModifyDBCluster", func() error {
		_, err := s.rds().ModifyDBCluster(ctx, &rds.ModifyDBClusterInput{DBClusterIdentifier: awssdk.String(name), VpcSecurityGroupIds: s.op.GroupIDs})
		return err
	})
}

func (s setting) tagDatabase(ctx context.Context, _ string) error {
	tags := tagsOf(s, func(k, v *string) rdstypes.Tag { return rdstypes.Tag{Key: k, Value: v} })
	_, err := s.rds().AddTagsToResource(ctx, &rds.AddTagsToResourceInput{ResourceName: awssdk.String(s.op.Target), Tags: tags})
	return s.conn.classify("AddTagsToResource", err)
}

func (s setting) untagDatabase(ctx context.Context, _ string) error {
	_, err := s.rds().RemoveTagsFromResource(ctx, &rds.RemoveTagsFromResourceInput{ResourceName: awssdk.String(s.op.Target), TagKeys: s.keys()})
	return s.conn.classify("RemoveTagsFromResource", err)
}

// Complete does an op on services by apply, and ends when their interfaces hold the groups that the
// op gives them.
func (s *Services) Complete(ctx context.Context, region string, op cloud.Op, apply func() error) error {
	s.wrote(region, op.Subjects())
	defer s.wrote(region, op.Subjects())
	if err := apply(); err != nil || op.Kind != cloud.OpSetInterfaceGroups {
		return err
	}
	return s.arrive(ctx, region, op)
}

// arrive waits until the interfaces of a service hold its groups. Interfaces that are deleted
// meanwhile do not count; new ones are made with what it has.
func (s *Services) arrive(ctx context.Context, region string, op cloud.Op) error {
	conn := s.connect(region)
	nics := s.known(region).nics[op.Target]
	wait, deadline := conn.FirstWait, conn.Now().Add(arriveTime)
	for len(nics) > 0 {
		out, err := conn.EC2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{filter("network-interface-id", nics...)}})
		if err != nil {
			return conn.classify("DescribeNetworkInterfaces", err)
		}
		behind := ""
		for _, n := range out.NetworkInterfaces {
			var has []string
			for _, g := range n.Groups {
				has = append(has, awssdk.ToString(g.GroupId))
			}
			if len(has) != len(op.GroupIDs) || len(beside(has, op.GroupIDs)) > 0 {
				behind = awssdk.ToString(n.NetworkInterfaceId)
			}
		}
		if behind == "" {
			return nil
		}
		if !conn.Now().Before(deadline) {
			return &cloud.Error{Class: cloud.Unavailable, Call: "DescribeNetworkInterfaces", Err: fmt.Errorf("%s has taken its groups, and its interface %s does not hold them after %s", op.Target, behind, arriveTime)}
		}
		if err := conn.Sleep(ctx, wait); err != nil {
			return conn.classify("DescribeNetworkInterfaces", err)
		}
		wait = min(2*wait, conn.MaxWait)
	}
	return nil
}
