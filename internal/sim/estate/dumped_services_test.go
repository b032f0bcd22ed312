package estate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// TestDumpedServices reads answers as the command line prints them, and finds the interfaces that
// belong to each service.
func TestDumpedServices(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "eu-west-1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	nic := func(id, subnet, addr, kind, description, groups string) string {
		return `{"NetworkInterfaceId": "` + id + `", "VpcId": "vpc-00000001", "SubnetId": "` + subnet + `", "OwnerId": "111122223333", "AvailabilityZone": "eu-west-1a",
			"InterfaceType": "` + kind + `", "RequesterManaged": true, "Status": "in-use", "PrivateIpAddress": "` + addr + `", "Description": "` + description + `",
			"PrivateIpAddresses": [{"PrivateIpAddress": "` + addr + `", "Primary": true}], "Groups": [` + groups + `]}`
	}
	db, web := `{"GroupId": "sg-00000002", "GroupName": "db"}`, `{"GroupId": "sg-00000003", "GroupName": "web"}`
	for name, content := range map[string]string{
		"describe-vpcs.json":    `{"Vpcs": [{"VpcId": "vpc-00000001", "CidrBlock": "10.0.0.0/16", "OwnerId": "111122223333"}]}`,
		"describe-subnets.json": `{"Subnets": [{"SubnetId": "subnet-00000001", "VpcId": "vpc-00000001", "CidrBlock": "10.0.1.0/24", "AvailabilityZone": "eu-west-1a"}]}`,
		"describe-security-groups.json": `{"SecurityGroups": [
			{"GroupId": "sg-00000002", "GroupName": "db", "Description": "d", "VpcId": "vpc-00000001", "OwnerId": "111122223333"},
			{"GroupId": "sg-00000003", "GroupName": "web", "Description": "d", "VpcId": "vpc-00000001", "OwnerId": "111122223333"}]}`,
		"describe-instances.json": `{"Reservations": []}`,
		"describe-network-interfaces.json": `{"NetworkInterfaces": [` + strings.Join([]string{
			nic("eni-00000001", "subnet-00000001", "10.0.1.11", "interface", "RDSNetworkInterface", web),
			nic("eni-00000002", "subnet-00000001", "10.0.1.12", "interface", "RDSNetworkInterface", db),
			nic("eni-00000003", "subnet-00000001", "10.0.1.13", "interface", "ELB app/front/0123456789abcdef", web),
			nic("eni-00000004", "subnet-00000001", "10.0.1.14", "vpc_endpoint", "VPC Endpoint Interface vpce-00000001", web),
			nic("eni-00000005", "subnet-00000001", "10.0.1.15", "efs", "EFS mount target for fs-00000001 (fsmt-00000001)", db),
			nic("eni-00000006", "subnet-00000001", "10.0.1.16", "lambda", "AWS Lambda VPC ENI-resize-0c6e", web),
			nic("eni-00000007", "subnet-00000001", "10.0.1.17", "interface", "ElastiCache sessions-001", db),
		}, ",") + `]}`,
		"rds-describe-db-instances.json": `{"DBInstances": [
			{"DBInstanceIdentifier": "orders", "Engine": "postgres", "AvailabilityZone": "eu-west-1a", "Endpoint": {"Address": "orders.c1.eu-west-1.rds.amazonaws.com", "Port": 5433},
			 "DBSubnetGroup": {"VpcId": "vpc-00000001", "Subnets": [{"SubnetIdentifier": "subnet-00000001"}]}, "VpcSecurityGroups": [{"VpcSecurityGroupId": "sg-00000002", "Status": "active"}],
			 "TagList": [{"Key": "team", "Value": "shop"}]},
			{"DBInstanceIdentifier": "lost", "Engine": "mysql", "DBSubnetGroup": {"VpcId": "vpc-000000ff"}}]}`,
		"elbv2-describe-load-balancers.json": `{"LoadBalancers": [{"LoadBalancerArn": "arn:aws:elasticloadbalancing:eu-west-1:111122223333:loadbalancer/app/front/0123456789abcdef",
			"LoadBalancerName": "front", "DNSName": "front-1.eu-west-1.elb.amazonaws.com", "Scheme": "internal", "Type": "application", "VpcId": "vpc-00000001",
			"SecurityGroups": ["sg-00000003"], "AvailabilityZones": [{"SubnetId": "subnet-00000001"}]}]}`,
		"describe-listeners.json": `{"Listeners": [{"ListenerArn": "arn:aws:elasticloadbalancing:eu-west-1:111122223333:listener/app/front/0123456789abcdef/00000000000000aa",
			"LoadBalancerArn": "arn:aws:elasticloadbalancing:eu-west-1:111122223333:loadbalancer/app/front/0123456789abcdef", "Port": 80, "Protocol": "HTTP",
			"DefaultActions": [{"Type": "forward", "TargetGroupArn": "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/web/00000000000000bb"}]}]}`,
		"describe-target-groups.json": `{"TargetGroups": [{"TargetGroupArn": "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/web/00000000000000bb",
			"Protocol": "HTTP", "Port": 8080, "VpcId": "vpc-00000001", "TargetType": "ip", "HealthCheckPort": "traffic-port"}]}`,
		"VpcEndpoints.json": `{"VpcEndpoints": [{"VpcEndpointId": "vpce-00000001", "VpcEndpointType": "Interface", "VpcId": "vpc-00000001", "ServiceName": "com.amazonaws.eu-west-1.sqs",
			"SubnetIds": ["subnet-00000001"], "NetworkInterfaceIds": ["eni-00000004"], "Groups": [{"GroupId": "sg-00000003", "GroupName": "web"}]},
			{"VpcEndpointId": "vpce-00000002", "VpcEndpointType": "Gateway", "VpcId": "vpc-00000001", "ServiceName": "com.amazonaws.eu-west-1.s3"}]}`,
		"efs-describe-file-systems.json":  `{"FileSystems": [{"FileSystemId": "fs-00000001", "Tags": [{"Key": "Name", "Value": "homes"}]}]}`,
		"efs-describe-mount-targets.json": `{"MountTargets": [{"MountTargetId": "fsmt-00000001", "FileSystemId": "fs-00000001", "SubnetId": "subnet-00000001", "NetworkInterfaceId": "eni-00000005"}]}`,
		"lambda-list-functions.json": `{"Functions": [{"FunctionName": "resize", "Runtime": "go", "VpcConfig": {"VpcId": "vpc-00000001", "SubnetIds": ["subnet-00000001"], "SecurityGroupIds": ["sg-00000003"]}},
			{"FunctionName": "outside", "Runtime": "go"}]}`,
		"describe-cache-clusters.json": `{"CacheClusters": [{"CacheClusterId": "sessions-001", "Engine": "redis", "NumCacheNodes": 1, "ReplicationGroupId": "sessions",
			"CacheSubnetGroupName": "caches", "SecurityGroups": [{"SecurityGroupId": "sg-00000002", "Status": "active"}]}]}`,
		"describe-cache-subnet-groups.json": `{"CacheSubnetGroups": [{"CacheSubnetGroupName": "caches", "VpcId": "vpc-00000001", "Subnets": [{"SubnetIdentifier": "subnet-00000001"}]}]}`,
		"describe-replication-groups.json": `{"ReplicationGroups": [{"ReplicationGroupId": "sessions", "NodeGroups": [{"PrimaryEndpoint": {"Address": "s.ng.0001.euw1.cache.amazonaws.com", "Port": 6380},
			"NodeGroupMembers": [{"CacheClusterId": "sessions-001", "CurrentRole": "primary"}]}]}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, report, err := estate.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Region("111122223333", "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	for ref, nic := range map[native.Ref]string{
		{Kind: native.Database, Name: "orders"}: "eni-00000002", {Kind: native.AppBalancer, Name: "app/front/0123456789abcdef"}: "eni-00000003",
		{Kind: native.Endpoint, Name: "vpce-00000001"}: "eni-00000004", {Kind: native.MountTarget, Name: "fsmt-00000001"}: "eni-00000005",
		{Kind: native.Function, Name: "resize"}: "eni-00000006", {Kind: native.Cache, Name: "sessions-001"}: "eni-00000007",
		{Kind: native.Function, Name: "outside"}: "", {Kind: native.ReplicationGroup, Name: "sessions"}: "", {Kind: native.FileSystem, Name: "fs-00000001"}: "",
	} {
		x, err := r.Services().Get(ref)
		if got := strings.Join(x.NICs(), " "); err != nil || got != nic {
			t.Errorf("%v has the interfaces %q, want %q (%v)", ref, got, nic, err)
		}
	}
	if got := w.LookUp("orders.c1.eu-west-1.rds.amazonaws.com"); len(got) != 1 || got[0].String() != "10.0.1.12" {
		t.Errorf("the database is at %v", got)
	}
	front, err := r.Services().Get(native.Ref{Kind: native.AppBalancer, Name: "app/front/0123456789abcdef"})
	if err != nil || len(front.Listeners) != 1 || front.Listeners[0].Target != "web/00000000000000bb" {
		t.Errorf("the balancer %+v, %v", front, err)
	}
	if _, err := r.Services().Get(native.Ref{Kind: native.Database, Name: "lost"}); err == nil {
		t.Error("a database of a network that is not told was made up")
	}
	if !slices.ContainsFunc(report.Warnings, func(w source.Warning) bool { return w.Object == "lost" }) {
		t.Errorf("nothing is said of the database that was left out: %v", report.Warnings)
	}
	// Only the interface that no service explains is left alone.
	if n, err := r.NetworkInterfaces("eni-00000001"); err != nil || n[0].Groups[0].ID != "sg-00000003" {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestDatabaseOfARealAccount reads a database as a real account tells it: without its interface,
// which the world makes up in one of its subnets.
func TestDatabaseOfARealAccount(t *testing.T) {
	from, dir := filepath.Join("data", "hybrid-cloud", "us-west-2"), filepath.Join(t.TempDir(), "us-west-2")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "RdsInstances.json"), filepath.Join(dir, "DBInstances.json")); err != nil {
		t.Fatal(err)
	}
	s, report, err := estate.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Region(s.Accounts[0].ID, "us-west-2")
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.Services().Get(native.Ref{Kind: native.Database, Name: "test-rds"})
	if err != nil || x.VPCID != "vpc-b390fad5" || x.Port != 3306 || len(x.NICs()) != 1 || !slices.Equal(x.Groups, []string{"sg-55510831"}) {
		t.Fatalf("%+v, %v; %v", x, err, report.Warnings)
	}
	if got := w.LookUp("test-rds.us-west-2.rds.amazonaws.com"); len(got) != 1 {
		t.Errorf("the database is at %v", got)
	}
}
