package aws

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

// services does an op on native services.
type services struct{ w writer }

// setter is how the groups and tags of one kind of services are set. name is what the calls of the
// service take: the last part of the ARN, or the ARN itself.
type setter struct {
	// prefix is that of the ARNs, behind the partition: service, and after a slash the resource.
	service, resource string
	set               func(s services, ctx context.Context, name string) error
	tag               func(s services, ctx context.Context, name string) error
	untag             func(s services, ctx context.Context, name string) error
}

// setters has a row for each kind of services that fixed lets be changed.
func setters() []setter {
	return []setter{
		{"ec2", "vpc-endpoint/", services.setEndpoint, services.tagEndpoint, services.untagEndpoint},
		{"elasticache", "cluster:", services.setCache, services.tagCache, services.untagCache},
		{"elasticache", "replicationgroup:", services.setReplicationGroup, services.tagCache, services.untagCache},
		{"elasticfilesystem", "file-system/", services.setFileSystem, services.tagFileSystem, services.untagFileSystem},
		{"elasticloadbalancing", "loadbalancer/app/", services.setBalancer, services.tagBalancer, services.untagBalancer},
		{"elasticloadbalancing", "loadbalancer/net/", services.setBalancer, services.tagBalancer, services.untagBalancer},
		{"rds", "cluster:", services.setCluster, services.tagDatabase, services.untagDatabase},
		{"rds", "db:", services.setDatabase, services.tagDatabase, services.untagDatabase},
	}
}

// isService reports whether an ID is that of a native service.
func isService(id string) bool { return strings.HasPrefix(id, "arn:") }

// eachService does the op for one service after the other, and returns the error of the first one
// that fails.
func (s services) eachService(ctx context.Context) (first error) {
	for _, id := range s.w.op.Subjects() {
		one := services{s.w}
		one.w.op.Target, one.w.op.Others = id, nil
		if err := one.service(withOp(ctx, s.w.scope, one.w.op)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (s services) service(ctx context.Context) error {
	parts := strings.SplitN(s.w.op.Target, ":", 6)
	if len(parts) != 6 {
		return failure.Refuse(s.w.op, "%q is not the ARN of a service", s.w.op.Target)
	}
	for _, row := range setters() {
		if row.service != parts[2] || !strings.HasPrefix(parts[5], row.resource) {
			continue
		}
		name := strings.TrimPrefix(parts[5], row.resource)
		switch s.w.op.Kind {
		case cloud.OpSetInterfaceGroups:
			if err := s.w.checkGroups("a service"); err != nil {
				return err
			}
			return s.lasting(row.set(s, ctx, name))
		case cloud.OpTag:
			if len(s.w.op.Tags) == 0 {
				return nil
			}
			return row.tag(s, ctx, name)
		case cloud.OpUntag:
			if len(s.w.op.Tags) == 0 { // some APIs would remove all
				return nil
			}
			if err := row.untag(s, ctx, name); cloud.ClassOf(err) != cloud.NotFound {
				return err
			}
			return nil
		}
	}
	return failure.Refuse(s.w.op, "%s: the groups of this service cannot be set", s.w.op.Target)
}

// lasting is the error of a service that is in no state to be changed: it may stay so for long, and
// nothing else waits for it.
func (s services) lasting(err error) error {
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
func (s services) given(ctx context.Context, call string, do func() error) error {
	return s.w.visible(ctx, call, s.w.op.GroupIDs, func() error {
		err := s.w.classify(call, do())
		if code := failure.CodeOf(err); (code == "InvalidSecurityGroup" || code == "InvalidParameterValue" || code == "SecurityGroupNotFound") && s.w.p.isFresh(s.w.op.GroupIDs) {
			return &cloud.Error{Class: cloud.NotFound, Call: call, Code: code, Err: err}
		}
		return err
	})
}

// setEndpoint gives an endpoint the groups, which EC2 only takes as additions and removals.
func (s services) setEndpoint(ctx context.Context, id string) error {
	out, err := s.w.api.DescribeVpcEndpoints(ctx, &ec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{id}})
	if err != nil {
		return s.w.classify("DescribeVpcEndpoints", err)
	}
	if len(out.VpcEndpoints) != 1 {
		return &cloud.Error{Class: cloud.NotFound, Call: "DescribeVpcEndpoints", Err: fmt.Errorf("the endpoint %s is not there", id)}
	}
	var has []string
	for _, g := range out.VpcEndpoints[0].Groups {
		has = append(has, awssdk.ToString(g.GroupId))
	}
	in := &ec2.ModifyVpcEndpointInput{VpcEndpointId: awssdk.String(id), AddSecurityGroupIds: beside(s.w.op.GroupIDs, has), RemoveSecurityGroupIds: beside(has, s.w.op.GroupIDs)}
	if len(in.AddSecurityGroupIds)+len(in.RemoveSecurityGroupIds) == 0 {
		return nil
	}
	return s.given(ctx, "ModifyVpcEndpoint", func() error {
		_, err := s.w.api.ModifyVpcEndpoint(ctx, in)
		return err
	})
}

// beside are the elements of a that are not in b.
func beside(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return slices.Contains(b, x) })
}

func (s services) tagEndpoint(ctx context.Context, id string) error {
	_, err := s.w.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: values.TagList(s.w.op.Tags)})
	return s.w.classify("CreateTags", err)
}

func (s services) untagEndpoint(ctx context.Context, id string) error {
	var keys []types.Tag
	for _, k := range s.w.keys() {
		keys = append(keys, types.Tag{Key: awssdk.String(k)})
	}
	_, err := s.w.api.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: keys})
	return s.w.classify("DeleteTags", err)
}

// keys are the keys of the op's tags, sorted.
func (w writer) keys() []string { return slices.Sorted(maps.Keys(w.op.Tags)) }

// tagsOf are the op's tags in the form of a service's API, sorted.
func tagsOf[T any](w writer, made func(key, value *string) T) []T {
	var out []T
	for _, k := range w.keys() {
		out = append(out, made(awssdk.String(k), awssdk.String(w.op.Tags[k])))
	}
	return out
}

func (s services) balancers() *elb.Client {
	return elb.NewFromConfig(s.w.p.base, func(o *elb.Options) { o.Region = s.w.scope.Region })
}

func (s services) setBalancer(ctx context.Context, _ string) error {
	return s.given(ctx, "SetSecurityGroups", func() error {
		_, err := s.balancers().SetSecurityGroups(ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: awssdk.String(s.w.op.Target), SecurityGroups: s.w.op.GroupIDs})
		return err
	})
}

func (s services) tagBalancer(ctx context.Context, _ string) error {
	tags := tagsOf(s.w, func(k, v *string) elbtypes.Tag { return elbtypes.Tag{Key: k, Value: v} })
	_, err := s.balancers().AddTags(ctx, &elb.AddTagsInput{ResourceArns: []string{s.w.op.Target}, Tags: tags})
	return s.w.classify("AddTags", err)
}

func (s services) untagBalancer(ctx context.Context, _ string) error {
	_, err := s.balancers().RemoveTags(ctx, &elb.RemoveTagsInput{ResourceArns: []string{s.w.op.Target}, TagKeys: s.w.keys()})
	return s.w.classify("RemoveTags", err)
}

func (s services) rds() *rds.Client {
	return rds.NewFromConfig(s.w.p.base, func(o *rds.Options) { o.Region = s.w.scope.Region })
}

// setDatabase gives a database the groups. RDS applies that as soon as possible in any case.
// ApplyImmediately would apply, too, what the owner has put off to the next maintenance window,
// such as a restart.
func (s services) setDatabase(ctx context.Context, name string) error {
	return s.given(ctx, "ModifyDBInstance", func() error {
		_, err := s.rds().ModifyDBInstance(ctx, &rds.ModifyDBInstanceInput{DBInstanceIdentifier: awssdk.String(name), VpcSecurityGroupIds: s.w.op.GroupIDs})
		return err
	})
}

// setCluster gives a cluster, and so all its members, the groups; see setDatabase.
func (s services) setCluster(ctx context.Context, name string) error {
	return s.given(ctx, "ModifyDBCluster", func() error {
		_, err := s.rds().ModifyDBCluster(ctx, &rds.ModifyDBClusterInput{DBClusterIdentifier: awssdk.String(name), VpcSecurityGroupIds: s.w.op.GroupIDs})
		return err
	})
}

func (s services) tagDatabase(ctx context.Context, _ string) error {
	tags := tagsOf(s.w, func(k, v *string) rdstypes.Tag { return rdstypes.Tag{Key: k, Value: v} })
	_, err := s.rds().AddTagsToResource(ctx, &rds.AddTagsToResourceInput{ResourceName: awssdk.String(s.w.op.Target), Tags: tags})
	return s.w.classify("AddTagsToResource", err)
}

func (s services) untagDatabase(ctx context.Context, _ string) error {
	_, err := s.rds().RemoveTagsFromResource(ctx, &rds.RemoveTagsFromResourceInput{ResourceName: awssdk.String(s.w.op.Target), TagKeys: s.w.keys()})
	return s.w.classify("RemoveTagsFromResource", err)
}

// Apply implements cloud.Provider. What sets the groups of a service says only that it will do so;
// the op is done when its interfaces hold them.
func (s *Shown) Apply(ctx context.Context, scope cloud.Scope, op cloud.Op) (string, error) {
	if isService(op.Target) {
		s.wrote(scope.Region, op.Subjects())
		defer s.wrote(scope.Region, op.Subjects())
	}
	id, err := s.Provider.Apply(ctx, scope, op)
	if err == nil && op.Kind == cloud.OpSetInterfaceGroups && isService(op.Target) {
		err = s.arrive(ctx, scope.Region, op)
	}
	return id, err
}

// arrive waits until the interfaces of a service hold its groups. Those that go meanwhile do not
// count; new ones are made with what it has.
func (s *Shown) arrive(ctx context.Context, region string, op cloud.Op) error {
	nics := s.known(region).nics[op.Target]
	wait, deadline := firstWait, s.cfg.Now().Add(arriveTime)
	for len(nics) > 0 {
		out, err := s.region(region).DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{filter("network-interface-id", nics...)}})
		if err != nil {
			return failure.Classify("DescribeNetworkInterfaces", err, s.cfg.Now())
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
		if !s.cfg.Now().Before(deadline) {
			return &cloud.Error{Class: cloud.Unavailable, Call: "DescribeNetworkInterfaces", Err: fmt.Errorf("%s has taken its groups, and its interface %s does not hold them after %s", op.Target, behind, arriveTime)}
		}
		if err := s.cfg.Sleep(ctx, wait); err != nil {
			return failure.Classify("DescribeNetworkInterfaces", err, s.cfg.Now())
		}
		wait = min(2*wait, maxWait)
	}
	return nil
}
