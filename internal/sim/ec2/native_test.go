package ec2_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/rds"
	rdstypes "github.com/aws/aws-sdk-go-v2/service/rds/types"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/world"
)

func (f *fixture) rds() *rds.Client { return rds.NewFromConfig(f.config(keyID, secret, "")) }

func (f *fixture) elasticache() *elasticache.Client {
	return elasticache.NewFromConfig(f.config(keyID, secret, ""))
}
func (f *fixture) elb() *elb.Client       { return elb.NewFromConfig(f.config(keyID, secret, "")) }
func (f *fixture) efs() *efs.Client       { return efs.NewFromConfig(f.config(keyID, secret, "")) }
func (f *fixture) lambda() *lambda.Client { return lambda.NewFromConfig(f.config(keyID, secret, "")) }

// region is the region that the services of the tests are in.
func (f *fixture) region(t *testing.T) *world.Region {
	t.Helper()
	r, err := f.World().Region(home, region)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// service makes a service in the default VPC.
func (f *fixture) service(t *testing.T, s native.Service) native.Service {
	t.Helper()
	if s.VPCID == "" {
		s.VPCID = defaultID
	}
	if len(s.Subnets) == 0 {
		s.Subnets = []string{subnetID}
	}
	out, err := f.region(t).Services().Create(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (f *fixture) nic(t *testing.T, id string) simaws.NetworkInterface {
	t.Helper()
	found, err := f.region(t).NetworkInterfaces(id)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

func oneNode() []native.Node { return []native.Node{{SubnetID: subnetID}} }

// TestDatabase: what RDS tells of a database is what EC2 tells of its interface, and its groups are
// set through RDS alone.
func TestDatabase(t *testing.T) {
	f := start(t, sim.Options{})
	made := f.service(t, native.Service{
		Kind: native.Database, Name: "orders", Engine: "postgres", Version: "16.3", Groups: []string{groupID}, Nodes: oneNode(),
		Tags: map[string]string{"app": "shop"},
	})
	out, err := f.rds().DescribeDBInstances(f.ctx, &rds.DescribeDBInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.DBInstances) != 1 {
		t.Fatalf("%d databases", len(out.DBInstances))
	}
	db := out.DBInstances[0]
	if got := aws.ToString(db.DBInstanceIdentifier) + " " + aws.ToString(db.Engine) + " " + aws.ToString(db.DBInstanceStatus); got != "orders postgres available" {
		t.Error(got)
	}
	if got, want := aws.ToString(db.DBInstanceArn), "arn:aws:rds:eu-west-1:111111111111:db:orders"; got != want {
		t.Errorf("ARN %s, want %s", got, want)
	}
	if aws.ToInt32(db.Endpoint.Port) != 5432 || aws.ToString(db.DBSubnetGroup.VpcId) != defaultID ||
		aws.ToString(db.DBSubnetGroup.Subnets[0].SubnetIdentifier) != subnetID || aws.ToString(db.AvailabilityZone) != region+"a" {
		t.Errorf("port %d, subnets %+v, zone %s", aws.ToInt32(db.Endpoint.Port), db.DBSubnetGroup, aws.ToString(db.AvailabilityZone))
	}
	if len(db.VpcSecurityGroups) != 1 || aws.ToString(db.VpcSecurityGroups[0].VpcSecurityGroupId) != groupID || aws.ToString(db.VpcSecurityGroups[0].Status) != "active" {
		t.Errorf("groups %+v", db.VpcSecurityGroups)
	}
	if len(db.TagList) != 1 || aws.ToString(db.TagList[0].Key)+"="+aws.ToString(db.TagList[0].Value) != "app=shop" {
		t.Errorf("tags %+v", db.TagList)
	}

	seen, err := f.client().DescribeNetworkInterfaces(f.ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: made.NICs()})
	if err != nil {
		t.Fatal(err)
	}
	nic := seen.NetworkInterfaces[0]
	if got := aws.ToString(nic.Description) + " " + aws.ToString(nic.RequesterId) + " " + string(nic.InterfaceType) + " " + aws.ToString(nic.Attachment.InstanceOwnerId); !aws.ToBool(nic.RequesterManaged) ||
		got != "RDSNetworkInterface amazon-rds interface amazon-rds" {
		t.Errorf("requester managed %v: %s", aws.ToBool(nic.RequesterManaged), got)
	}
	if got, want := f.World().LookUp(aws.ToString(db.Endpoint.Address)), netip.MustParseAddr(aws.ToString(nic.PrivateIpAddress)); !slices.Equal(got, []netip.Addr{want}) {
		t.Errorf("the endpoint leads to %v, its interface has %s", got, want)
	}

	other := f.group(t, f.client(), "db")
	_, err = f.client().ModifyNetworkInterfaceAttribute(f.ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: nic.NetworkInterfaceId, Groups: []string{other}})
	if code(t, err) != "AuthFailure" {
		t.Errorf("EC2 changed the groups of a database: %v", err)
	}
	changed, err := f.rds().ModifyDBInstance(f.ctx, &rds.ModifyDBInstanceInput{
		DBInstanceIdentifier: aws.String("orders"), VpcSecurityGroupIds: []string{other}, ApplyImmediately: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToString(changed.DBInstance.VpcSecurityGroups[0].VpcSecurityGroupId); got != other {
		t.Errorf("the answer has the group %s", got)
	}
	if got := f.nic(t, *nic.NetworkInterfaceId); len(got.Groups) != 1 || got.Groups[0].ID != other {
		t.Errorf("the interface has the groups %v", got.Groups)
	}
	if _, err := f.client().DeleteSecurityGroup(f.ctx, &awsec2.DeleteSecurityGroupInput{GroupId: &other}); code(t, err) != "DependencyViolation" {
		t.Errorf("a group that a database has was deleted: %v", err)
	}
}

// TestDatabasePages walks pages of the least size.
func TestDatabasePages(t *testing.T) {
	f := start(t, sim.Options{})
	for i := range 45 {
		f.service(t, native.Service{Kind: native.Database, Name: fmt.Sprintf("db-%02d", i), Engine: "mysql", Groups: []string{groupID}, Nodes: oneNode()})
	}
	var names []string
	pages := rds.NewDescribeDBInstancesPaginator(f.rds(), &rds.DescribeDBInstancesInput{MaxRecords: aws.Int32(20)})
	n := 0
	for ; pages.HasMorePages(); n++ {
		p, err := pages.NextPage(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range p.DBInstances {
			names = append(names, aws.ToString(db.DBInstanceIdentifier))
		}
	}
	if n != 3 || len(names) != 45 || !slices.IsSorted(names) {
		t.Errorf("%d pages, %d databases", n, len(names))
	}
	for _, bad := range []*rds.DescribeDBInstancesInput{{MaxRecords: aws.Int32(19)}, {MaxRecords: aws.Int32(101)}, {Marker: aws.String("x")},
		{Filters: []rdstypes.Filter{{Name: aws.String("colour"), Values: []string{"red"}}}}} {
		if _, err := f.rds().DescribeDBInstances(f.ctx, bad); code(t, err) != "InvalidParameterValue" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := f.rds().DescribeDBInstances(f.ctx, &rds.DescribeDBInstancesInput{DBInstanceIdentifier: aws.String("nobody")}); code(t, err) != "DBInstanceNotFound" || status(err) != 404 {
		t.Errorf("unknown: %v", err)
	}
}
