package ec2_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/rds"
	rdstypes "github.com/aws/aws-sdk-go-v2/service/rds/types"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// reads calls each native service's inventory with a client configuration, by service and action.
func reads(ctx context.Context, cfg aws.Config) map[string]func() error {
	return map[string]func() error{
		"rds:DescribeDBInstances": func() error {
			_, err := rds.NewFromConfig(cfg).DescribeDBInstances(ctx, &rds.DescribeDBInstancesInput{})
			return err
		},
		"elasticache:DescribeCacheClusters": func() error {
			_, err := elasticache.NewFromConfig(cfg).DescribeCacheClusters(ctx, &elasticache.DescribeCacheClustersInput{})
			return err
		},
		"elasticloadbalancing:DescribeLoadBalancers": func() error {
			_, err := elb.NewFromConfig(cfg).DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{})
			return err
		},
		"elasticfilesystem:DescribeFileSystems": func() error {
			_, err := efs.NewFromConfig(cfg).DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{})
			return err
		},
		"lambda:ListFunctions": func() error {
			_, err := lambda.NewFromConfig(cfg).ListFunctions(ctx, &lambda.ListFunctionsInput{})
			return err
		},
		"ec2:DescribeVpcEndpoints": func() error {
			_, err := awsec2.NewFromConfig(cfg).DescribeVpcEndpoints(ctx, &awsec2.DescribeVpcEndpointsInput{})
			return err
		},
	}
}

func (f *fixture) once(key, secret string) aws.Config {
	cfg := f.config(key, secret, "")
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return cfg
}

// denied is what a service calls the refusal of somebody who has no right, and stranger that of a
// key that nobody has.
func denied(action string) (right, stranger, forged string) {
	service, _, _ := strings.Cut(action, ":")
	switch service {
	case "ec2":
		return "UnauthorizedOperation", "AuthFailure", "AuthFailure"
	case "elasticfilesystem", "lambda":
		return "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException"
	}
	return "AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch"
}

// TestRightsOfServices: each service is read with the right of its own name, and with no other.
func TestRightsOfServices(t *testing.T) {
	state := startState()
	var actions []string
	for action := range reads(context.Background(), aws.Config{}) {
		actions = append(actions, action)
	}
	slices.Sort(actions)
	for i, action := range actions {
		policy, err := iam.Parse(fmt.Appendf(nil, `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": %q, "Resource": "*"}]}`, action))
		if err != nil {
			t.Fatal(err)
		}
		state.Credentials = append(state.Credentials, simaws.Credential{AccessKeyID: fmt.Sprint("AKIAONLY", i), Secret: secret, Account: home, User: fmt.Sprint("only", i), Policy: policy})
	}
	f := start(t, sim.Options{State: state})
	for i, allowed := range actions {
		for action, call := range reads(f.ctx, f.once(fmt.Sprint("AKIAONLY", i), secret)) {
			want, _, _ := denied(action)
			if action == allowed {
				want = ""
			}
			err := call()
			if got := code(t, err); got != want {
				t.Errorf("%s with the right %s: %v, want %q", action, allowed, err, want)
			}
			if want != "" && (!strings.Contains(err.Error(), action) || action != "ec2:DescribeVpcEndpoints" && status(err) != 403) {
				t.Errorf("the refusal of %s does not name it, or has the status %d: %v", action, status(err), err)
			}
		}
	}
	for action, call := range reads(f.ctx, f.once("AKIANOBODY", secret)) {
		if _, want, _ := denied(action); code(t, call()) != want {
			t.Errorf("%s by a stranger: %v, want %s", action, call(), want)
		}
	}
	for action, call := range reads(f.ctx, f.once(keyID, "forged")) {
		if _, _, want := denied(action); code(t, call()) != want {
			t.Errorf("%s with a forged signature: %v, want %s", action, call(), want)
		}
	}
}

// TestRightsByTag: a change is allowed on what has a tag, and of an EFS mount target only together
// with the right of EC2 on its interface.
func TestRightsByTag(t *testing.T) {
	policy, err := iam.Parse([]byte(`{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Action": ["rds:ModifyDBInstance", "elasticfilesystem:ModifyMountTargetSecurityGroups"], "Resource": "*",
		 "Condition": {"StringEquals": {"aws:ResourceTag/team": "shop"}}},
		{"Effect": "Allow", "Action": "rds:AddTagsToResource", "Resource": "*", "Condition": {"StringEquals": {"aws:RequestTag/team": "shop"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	state := startState()
	state.Credentials = append(state.Credentials, simaws.Credential{AccessKeyID: "AKIALIMITED", Secret: secret, Account: home, User: "limited", Policy: policy})
	f := start(t, sim.Options{State: state})
	shop := map[string]string{"team": "shop"}
	mine := f.service(t, native.Service{Kind: native.Database, Name: "mine", Engine: "mysql", Nodes: oneNode(), Tags: shop})
	f.service(t, native.Service{Kind: native.Database, Name: "theirs", Engine: "mysql", Nodes: oneNode()})
	f.service(t, native.Service{Kind: native.FileSystem, Name: "fs-00000001", Tags: shop})
	f.service(t, native.Service{Kind: native.MountTarget, Name: "fsmt-00000001", Parent: "fs-00000001", Nodes: oneNode()})
	c := rds.NewFromConfig(f.once("AKIALIMITED", secret))
	for name, want := range map[string]string{"mine": "", "theirs": "AccessDenied"} {
		_, err := c.ModifyDBInstance(f.ctx, &rds.ModifyDBInstanceInput{DBInstanceIdentifier: &name, VpcSecurityGroupIds: []string{groupID}})
		if code(t, err) != want {
			t.Errorf("modify %s: %v, want %q", name, err, want)
		}
	}
	for tag, want := range map[string]string{"shop": "", "bank": "AccessDenied"} {
		_, err := c.AddTagsToResource(f.ctx, &rds.AddTagsToResourceInput{ResourceName: aws.String(mine.ARN()), Tags: []rdstypes.Tag{{Key: aws.String("team"), Value: &tag}}})
		if code(t, err) != want {
			t.Errorf("tag %s: %v, want %q", tag, err, want)
		}
	}
	_, err = efs.NewFromConfig(f.once("AKIALIMITED", secret)).ModifyMountTargetSecurityGroups(f.ctx,
		&efs.ModifyMountTargetSecurityGroupsInput{MountTargetId: aws.String("fsmt-00000001"), SecurityGroups: []string{groupID}})
	if code(t, err) != "AccessDeniedException" || !strings.Contains(err.Error(), "ec2:ModifyNetworkInterfaceAttribute") {
		t.Errorf("a mount target without the right of EC2: %v", err)
	}
}

// TestServicesAreThrottled: the refusal has each service's own code, which the SDK retries.
func TestServicesAreThrottled(t *testing.T) {
	clock := &testClock{now: time.Now()}
	f := start(t, sim.Options{Throttle: true, Clock: clock.Now})
	for action, call := range reads(f.ctx, f.once(keyID, secret)) {
		service, name, _ := strings.Cut(action, ":")
		f.Throttle().Set(name, ec2.Bucket{Size: 1, Refill: 1})
		want := map[string]string{"ec2": "RequestLimitExceeded", "lambda": "TooManyRequestsException", "elasticfilesystem": "ThrottlingException"}[service]
		if want == "" {
			want = "Throttling"
		}
		if err := call(); err != nil {
			t.Errorf("%s: %v", action, err)
		}
		err := call()
		if code(t, err) != want {
			t.Errorf("%s for the second time: %v, want %s", action, err, want)
		}
		if (retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}).IsErrorThrottle(err) != aws.TrueTernary {
			t.Errorf("the SDK does not take %v for throttling", err)
		}
	}
}

// TestServicesAreDisturbed: faults, the journal and the state of a change of which the answer was
// lost.
func TestServicesAreDisturbed(t *testing.T) {
	f := start(t, sim.Options{})
	f.service(t, native.Service{Kind: native.Database, Name: "orders", Engine: "mysql", Nodes: oneNode()})
	group := f.group(t, f.client(), "db")
	f.Faults().Add(ec2.Fault{Action: "DescribeTags", Service: "elasticloadbalancing", Code: "InternalFailure", Status: 500, Times: -1})
	if _, err := f.client().DescribeTags(f.ctx, &awsec2.DescribeTagsInput{}); err != nil {
		t.Errorf("a fault of another service: %v", err)
	}
	for action, call := range reads(f.ctx, f.once(keyID, secret)) {
		_, name, _ := strings.Cut(action, ":")
		id := f.Faults().Add(ec2.Fault{Action: name, Code: "InternalFailure", Status: 500, Times: -1})
		if err := call(); code(t, err) != "InternalFailure" || status(err) != 500 {
			t.Errorf("%s: %v", action, err)
		}
		f.Faults().Remove(id)
		// A client may repeat a call that only reads on another connection.
		id = f.Faults().Add(ec2.Fault{Action: name, Drop: true, Times: -1})
		if err := call(); err == nil {
			t.Errorf("%s was cut off and answered", action)
		}
		f.Faults().Remove(id)
	}
	f.Faults().Add(ec2.Fault{Action: "ModifyDBInstance", LoseAnswer: true})
	in := &rds.ModifyDBInstanceInput{DBInstanceIdentifier: aws.String("orders"), VpcSecurityGroupIds: []string{group}}
	if _, err := rds.NewFromConfig(f.once(keyID, secret)).ModifyDBInstance(f.ctx, in); err == nil {
		t.Error("an answer that was lost came")
	}
	f.holds(t, native.Ref{Kind: native.Database, Name: "orders"}, group)
	calls := f.Journal().Calls(0)
	last := calls[len(calls)-1]
	if last.Service != "rds" || last.Action != "ModifyDBInstance" || !last.AnswerLost || last.Params["VpcSecurityGroupIds.VpcSecurityGroupId.1"] != group {
		t.Errorf("the journal says %+v", last)
	}
}

// TestModifyingTakesTime: a database that is being modified says so and takes no other change.
func TestModifyingTakesTime(t *testing.T) {
	clock := &testClock{now: time.Now()}
	f := start(t, sim.Options{TransitionDelay: time.Minute, Clock: clock.Now})
	f.service(t, native.Service{Kind: native.Database, Name: "orders", Engine: "mysql", Nodes: oneNode()})
	in := &rds.ModifyDBInstanceInput{DBInstanceIdentifier: aws.String("orders"), VpcSecurityGroupIds: []string{groupID}}
	out, err := f.rds().ModifyDBInstance(f.ctx, in)
	if err != nil || aws.ToString(out.DBInstance.DBInstanceStatus) != "modifying" || aws.ToString(out.DBInstance.VpcSecurityGroups[0].Status) != "adding" {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := f.rds().ModifyDBInstance(f.ctx, in); code(t, err) != "InvalidDBInstanceState" {
		t.Errorf("while it is being modified: %v", err)
	}
	f.Advance(time.Minute)
	if _, err := f.rds().ModifyDBInstance(f.ctx, in); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestRefusedGroups: what each service says of a group that is not there, and of one of another
// network.
func TestRefusedGroups(t *testing.T) {
	f := start(t, sim.Options{})
	far, err := f.client().CreateVpc(f.ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.77.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := f.client().CreateSecurityGroup(f.ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("far"), Description: aws.String("d"), VpcId: far.Vpc.VpcId})
	if err != nil {
		t.Fatal(err)
	}
	app := native.Service{Kind: native.AppBalancer, Name: native.BalancerName(native.AppBalancer, home, region, "a"), Groups: []string{groupID}, Nodes: oneNode()}
	f.service(t, app)
	app.Account, app.Region = home, region
	for _, s := range []native.Service{
		{Kind: native.Database, Name: "x", Engine: "mysql", Nodes: oneNode()}, {Kind: native.Cache, Name: "x", Engine: "redis", Nodes: oneNode()},
		{Kind: native.Endpoint, Name: "vpce-00000001", Engine: "com.amazonaws.eu-west-1.sqs", Nodes: oneNode()}, {Kind: native.Function, Name: "x", Nodes: oneNode()},
		{Kind: native.FileSystem, Name: "fs-00000001"}, {Kind: native.MountTarget, Name: "fsmt-00000001", Parent: "fs-00000001", Nodes: oneNode()},
	} {
		f.service(t, s)
	}
	x := aws.String("x")
	sets := map[string]func(group string) error{
		"database InvalidParameterValue InvalidVPCNetworkStateFault": func(g string) error {
			_, err := f.rds().ModifyDBInstance(f.ctx, &rds.ModifyDBInstanceInput{DBInstanceIdentifier: x, VpcSecurityGroupIds: []string{g}})
			return err
		},
		"cache InvalidParameterValue InvalidVPCNetworkStateFault": func(g string) error {
			_, err := f.elasticache().ModifyCacheCluster(f.ctx, &elasticache.ModifyCacheClusterInput{CacheClusterId: x, SecurityGroupIds: []string{g}})
			return err
		},
		"balancer InvalidSecurityGroup InvalidConfigurationRequest": func(g string) error {
			_, err := f.elb().SetSecurityGroups(f.ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: aws.String(app.ARN()), SecurityGroups: []string{g}})
			return err
		},
		"endpoint InvalidGroup.NotFound InvalidParameter": func(g string) error {
			_, err := f.client().ModifyVpcEndpoint(f.ctx, &awsec2.ModifyVpcEndpointInput{VpcEndpointId: aws.String("vpce-00000001"), AddSecurityGroupIds: []string{g}})
			return err
		},
		"mount target SecurityGroupNotFound SecurityGroupNotFound": func(g string) error {
			_, err := f.efs().ModifyMountTargetSecurityGroups(f.ctx, &efs.ModifyMountTargetSecurityGroupsInput{MountTargetId: aws.String("fsmt-00000001"), SecurityGroups: []string{g}})
			return err
		},
	}
	for name, set := range sets {
		words := strings.Fields(name)
		unknown, elsewhere := words[len(words)-2], words[len(words)-1]
		if err := set("sg-00000000000000bad"); code(t, err) != unknown {
			t.Errorf("%s: a group that is not there: %v, want %s", name, err, unknown)
		}
		if err := set(*foreign.GroupId); code(t, err) != elsewhere {
			t.Errorf("%s: a group of another network: %v, want %s", name, err, elsewhere)
		}
		if err := set(groupID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (s *story) endpoints(group string) {
	e := s.service(s.T, native.Service{Kind: native.Endpoint, Name: "vpce-0123456789abcdef0", Engine: "com.amazonaws.eu-west-1.sqs", Groups: []string{groupID}, Nodes: oneNode()})
	all, err := s.c.DescribeVpcEndpoints(s.ctx, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{e.Name}})
	must(s.T, all, err)
	got := all.VpcEndpoints[0]
	if aws.ToString(got.ServiceName) != e.Engine || !slices.Equal(got.NetworkInterfaceIds, e.NICs()) || !slices.Equal(got.SubnetIds, []string{subnetID}) ||
		aws.ToString(got.Groups[0].GroupId) != groupID || aws.ToString(got.Groups[0].GroupName) != "default" {
		s.Errorf("endpoint %+v", got)
	}
	nic := s.nic(s.T, e.NICs()[0])
	if nic.Description != "VPC Endpoint Interface "+e.Name || nic.InterfaceType != "vpc_endpoint" {
		s.Errorf("the interface of an endpoint is %s, %q", nic.InterfaceType, nic.Description)
	}
	if addr := s.World().LookUp(aws.ToString(got.DnsEntries[0].DnsName)); !slices.Equal(addr, []netip.Addr{nic.PrimaryIP().Addr}) {
		s.Errorf("the endpoint leads to %v", addr)
	}
	_, err = s.c.ModifyVpcEndpoint(s.ctx, &awsec2.ModifyVpcEndpointInput{VpcEndpointId: &e.Name, AddSecurityGroupIds: []string{group}, RemoveSecurityGroupIds: []string{groupID}})
	must[any](s.T, nil, err)
	s.holds(s.T, e.Ref(), group)
	_, err = s.c.ModifyVpcEndpoint(s.ctx, &awsec2.ModifyVpcEndpointInput{VpcEndpointId: &e.Name, RemoveSecurityGroupIds: []string{group}})
	if code(s.T, err) != "InvalidParameter" {
		s.Errorf("an endpoint without groups: %v", err)
	}
	_, err = s.c.CreateTags(s.ctx, &awsec2.CreateTagsInput{Resources: []string{e.Name}, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("shop")}}})
	must[any](s.T, nil, err)
	all, err = s.c.DescribeVpcEndpoints(s.ctx, &awsec2.DescribeVpcEndpointsInput{Filters: []types.Filter{filter("tag:team", "shop")}})
	if must(s.T, all, err); len(all.VpcEndpoints) != 1 {
		s.Errorf("endpoints with the tag: %+v", all.VpcEndpoints)
	}
	for id, want := range map[string]string{"vpce-00000bad": "InvalidVpcEndpointId.NotFound", "vpce-x": "InvalidVpcEndpointId.Malformed"} {
		if _, err := s.c.DescribeVpcEndpoints(s.ctx, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{id}}); code(s.T, err) != want {
			s.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}
