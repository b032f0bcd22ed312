package ec2_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	cachetypes "github.com/aws/aws-sdk-go-v2/service/elasticache/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/rds"
	rdstypes "github.com/aws/aws-sdk-go-v2/service/rds/types"

	"github.com/nephele-io/nephele/internal/sim/native"
)

// natives calls every action of the native services' APIs with the official clients.
func (s *story) natives() {
	group := s.group(s.T, s.c, "natives")
	s.aurora(group)
	s.caches(group)
	s.balancers(group)
	s.files(group)
	s.functions(group)
	s.endpoints(group)
}

// holds fails unless all interfaces of a service have exactly this group.
func (f *fixture) holds(t *testing.T, ref native.Ref, group string) {
	t.Helper()
	x, err := f.region(t).Services().Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.NICs()) == 0 {
		t.Errorf("%v has no interface", ref)
	}
	for _, id := range x.NICs() {
		if n := f.nic(t, id); len(n.Groups) != 1 || n.Groups[0].ID != group || !n.RequesterManaged {
			t.Errorf("%v: %s has the groups %v, managed: %v", ref, id, n.Groups, n.RequesterManaged)
		}
	}
}

func (s *story) aurora(group string) {
	s.service(s.T, native.Service{Kind: native.DatabaseCluster, Name: "sales", Engine: "aurora-postgresql", Groups: []string{groupID}})
	for i, name := range []string{"sales-1", "sales-2"} {
		s.service(s.T, native.Service{
			Kind: native.Database, Name: name, Engine: "aurora-postgresql", Parent: "sales", Writer: i == 0, Groups: []string{groupID}, Nodes: oneNode(),
		})
	}
	c := s.rds()
	instances, err := c.DescribeDBInstances(s.ctx, &rds.DescribeDBInstancesInput{
		Filters: []rdstypes.Filter{{Name: aws.String("db-cluster-id"), Values: []string{"sales"}}},
	})
	must(s.T, instances, err)
	if len(instances.DBInstances) != 2 || aws.ToString(instances.DBInstances[0].DBClusterIdentifier) != "sales" {
		s.Errorf("instances of the cluster: %+v", instances.DBInstances)
	}
	clusters, err := c.DescribeDBClusters(s.ctx, &rds.DescribeDBClustersInput{DBClusterIdentifier: aws.String("sales")})
	must(s.T, clusters, err)
	cluster := clusters.DBClusters[0]
	if len(cluster.DBClusterMembers) != 2 || !aws.ToBool(cluster.DBClusterMembers[0].IsClusterWriter) || aws.ToBool(cluster.DBClusterMembers[1].IsClusterWriter) {
		s.Errorf("members %+v", cluster.DBClusterMembers)
	}
	writer, reader := s.World().LookUp(*cluster.Endpoint), s.World().LookUp(*cluster.ReaderEndpoint)
	if len(writer) != 1 || len(reader) != 1 || writer[0] == reader[0] {
		s.Errorf("writer %v, readers %v", writer, reader)
	}
	must[any](s.T, nil, func() error {
		_, err := s.region(s.T).Services().Failover(native.Ref{Kind: native.DatabaseCluster, Name: "sales"})
		return err
	}())
	if w, r := s.World().LookUp(*cluster.Endpoint), s.World().LookUp(*cluster.ReaderEndpoint); !slices.Equal(w, reader) || !slices.Equal(r, writer) {
		s.Errorf("after the failover: writer %v, readers %v", w, r)
	}
	_, err = c.ModifyDBInstance(s.ctx, &rds.ModifyDBInstanceInput{DBInstanceIdentifier: aws.String("sales-1"), VpcSecurityGroupIds: []string{group}})
	if code(s.T, err) != "InvalidParameterCombination" {
		s.Errorf("groups of one member: %v", err)
	}
	_, err = c.ModifyDBInstance(s.ctx, &rds.ModifyDBInstanceInput{DBInstanceIdentifier: aws.String("sales-1"), ApplyImmediately: aws.Bool(true)})
	must[any](s.T, nil, err)
	_, err = c.ModifyDBCluster(s.ctx, &rds.ModifyDBClusterInput{DBClusterIdentifier: aws.String("sales"), VpcSecurityGroupIds: []string{group}, ApplyImmediately: aws.Bool(true)})
	must[any](s.T, nil, err)
	s.holds(s.T, native.Ref{Kind: native.Database, Name: "sales-1"}, group)
	s.holds(s.T, native.Ref{Kind: native.Database, Name: "sales-2"}, group)

	_, err = c.AddTagsToResource(s.ctx, &rds.AddTagsToResourceInput{ResourceName: cluster.DBClusterArn, Tags: []rdstypes.Tag{
		{Key: aws.String("team"), Value: aws.String("sales+more@home")}, {Key: aws.String("gone"), Value: aws.String("")}}})
	must[any](s.T, nil, err)
	_, err = c.RemoveTagsFromResource(s.ctx, &rds.RemoveTagsFromResourceInput{ResourceName: cluster.DBClusterArn, TagKeys: []string{"gone"}})
	must[any](s.T, nil, err)
	tags, err := c.ListTagsForResource(s.ctx, &rds.ListTagsForResourceInput{ResourceName: cluster.DBClusterArn})
	must(s.T, tags, err)
	same(s.T, "tags of a cluster", tags.TagList, []rdstypes.Tag{{Key: aws.String("team"), Value: aws.String("sales+more@home")}})
	_, err = c.AddTagsToResource(s.ctx, &rds.AddTagsToResourceInput{ResourceName: cluster.DBClusterArn, Tags: []rdstypes.Tag{{Key: aws.String("bad"), Value: aws.String("{json}")}}})
	if code(s.T, err) != "InvalidParameterValue" {
		s.Errorf("a tag with braces: %v", err)
	}
}

func (s *story) caches(group string) {
	s.service(s.T, native.Service{Kind: native.ReplicationGroup, Name: "sessions", Engine: "redis", Groups: []string{groupID}})
	for i, name := range []string{"sessions-001", "sessions-002"} {
		s.service(s.T, native.Service{Kind: native.Cache, Name: name, Engine: "redis", Parent: "sessions", Writer: i == 0, Groups: []string{groupID}, Nodes: oneNode()})
	}
	lone := s.service(s.T, native.Service{Kind: native.Cache, Name: "pages", Engine: "memcached", Groups: []string{groupID}, Nodes: append(oneNode(), oneNode()...)})
	c := s.elasticache()
	all, err := c.DescribeCacheClusters(s.ctx, &elasticache.DescribeCacheClustersInput{ShowCacheNodeInfo: aws.Bool(true), ShowCacheClustersNotInReplicationGroups: aws.Bool(true)})
	must(s.T, all, err)
	if len(all.CacheClusters) != 1 || len(all.CacheClusters[0].CacheNodes) != 2 || aws.ToInt32(all.CacheClusters[0].CacheNodes[1].Endpoint.Port) != 11211 ||
		aws.ToString(all.CacheClusters[0].SecurityGroups[0].SecurityGroupId) != groupID {
		s.Errorf("lone caches: %+v", all.CacheClusters)
	}
	if got := s.nic(s.T, lone.Nodes[0].NIC); got.Description != "ElastiCache pages" || got.RequesterID != "amazon-elasticache" {
		s.Errorf("the interface of a cache is %q of %s", got.Description, got.RequesterID)
	}
	groups, err := c.DescribeReplicationGroups(s.ctx, &elasticache.DescribeReplicationGroupsInput{})
	must(s.T, groups, err)
	shard := groups.ReplicationGroups[0].NodeGroups[0]
	if len(groups.ReplicationGroups[0].MemberClusters) != 2 || len(shard.NodeGroupMembers) != 2 || aws.ToString(shard.NodeGroupMembers[0].CurrentRole) != "primary" {
		s.Errorf("replication groups: %+v", groups.ReplicationGroups)
	}
	if got := s.World().LookUp(*shard.PrimaryEndpoint.Address); len(got) != 1 {
		s.Errorf("the primary endpoint leads to %v", got)
	}
	where, err := c.DescribeCacheSubnetGroups(s.ctx, &elasticache.DescribeCacheSubnetGroupsInput{CacheSubnetGroupName: all.CacheClusters[0].CacheSubnetGroupName})
	must(s.T, where, err)
	if aws.ToString(where.CacheSubnetGroups[0].VpcId) != defaultID {
		s.Errorf("subnet group: %+v", where.CacheSubnetGroups)
	}
	_, err = c.ModifyCacheCluster(s.ctx, &elasticache.ModifyCacheClusterInput{CacheClusterId: aws.String("pages"), SecurityGroupIds: []string{group}, ApplyImmediately: aws.Bool(true)})
	must[any](s.T, nil, err)
	s.holds(s.T, lone.Ref(), group)
	_, err = c.ModifyCacheCluster(s.ctx, &elasticache.ModifyCacheClusterInput{CacheClusterId: aws.String("sessions-001"), SecurityGroupIds: []string{group}})
	if code(s.T, err) != "InvalidParameterCombination" {
		s.Errorf("groups of one member: %v", err)
	}
	_, err = c.ModifyReplicationGroup(s.ctx, &elasticache.ModifyReplicationGroupInput{ReplicationGroupId: aws.String("sessions"), SecurityGroupIds: []string{group}})
	must[any](s.T, nil, err)
	s.holds(s.T, native.Ref{Kind: native.Cache, Name: "sessions-002"}, group)
	arn := aws.String(lone.ARN())
	_, err = c.AddTagsToResource(s.ctx, &elasticache.AddTagsToResourceInput{ResourceName: arn, Tags: []cachetypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")}}})
	must[any](s.T, nil, err)
	_, err = c.RemoveTagsFromResource(s.ctx, &elasticache.RemoveTagsFromResourceInput{ResourceName: arn, TagKeys: []string{"a"}})
	must[any](s.T, nil, err)
	tags, err := c.ListTagsForResource(s.ctx, &elasticache.ListTagsForResourceInput{ResourceName: arn})
	must(s.T, tags, err)
	same(s.T, "tags of a cache", tags.TagList, []cachetypes.Tag{{Key: aws.String("b"), Value: aws.String("2")}})
}

func (s *story) balancers(group string) {
	services := s.region(s.T).Services()
	targets := native.TargetGroup{Name: "web/" + native.Hex("web"), VPCID: defaultID, Type: "ip", Protocol: "HTTP", Port: 8080, Targets: []native.Target{{ID: "10.0.200.200"}}}
	must[any](s.T, nil, services.PutTargetGroup(targets))
	app := s.service(s.T, native.Service{
		Kind: native.AppBalancer, Name: native.BalancerName(native.AppBalancer, home, region, "front"), Groups: []string{groupID}, Nodes: oneNode(),
		Listeners: []native.Listener{{ID: native.Hex("l"), Protocol: "HTTP", Port: 80, Target: targets.Name}},
	})
	pass := s.service(s.T, native.Service{Kind: native.NetBalancer, Name: native.BalancerName(native.NetBalancer, home, region, "pass"),
		Nodes: []native.Node{{SubnetID: subnetID, Addr: netip.MustParseAddr("10.0.7.7")}}})
	c := s.elb()
	all, err := c.DescribeLoadBalancers(s.ctx, &elb.DescribeLoadBalancersInput{})
	must(s.T, all, err)
	if len(all.LoadBalancers) != 2 {
		s.Fatalf("%d balancers", len(all.LoadBalancers))
	}
	lb := all.LoadBalancers[0]
	if aws.ToString(lb.LoadBalancerName) != "front" || lb.Type != "application" || lb.Scheme != "internal" || !slices.Equal(lb.SecurityGroups, []string{groupID}) ||
		aws.ToString(lb.AvailabilityZones[0].SubnetId) != subnetID || lb.State.Code != "active" {
		s.Errorf("balancer %+v", lb)
	}
	if addr := all.LoadBalancers[1].AvailabilityZones[0].LoadBalancerAddresses; aws.ToString(addr[0].PrivateIPv4Address) != "10.0.7.7" {
		s.Errorf("addresses of a network load balancer: %+v", addr)
	}
	if got := s.nic(s.T, app.Nodes[0].NIC); got.Description != "ELB "+app.Name || got.InterfaceType != "interface" || got.RequesterID != "amazon-elb" {
		s.Errorf("the interface of an application load balancer is %q, %s of %s", got.Description, got.InterfaceType, got.RequesterID)
	}
	if got := s.nic(s.T, pass.Nodes[0].NIC); got.InterfaceType != "network_load_balancer" || len(got.Groups) != 0 {
		s.Errorf("the interface of a network load balancer is %s with %v", got.InterfaceType, got.Groups)
	}
	listeners, err := c.DescribeListeners(s.ctx, &elb.DescribeListenersInput{LoadBalancerArn: lb.LoadBalancerArn})
	must(s.T, listeners, err)
	if aws.ToInt32(listeners.Listeners[0].Port) != 80 || aws.ToString(listeners.Listeners[0].DefaultActions[0].TargetGroupArn) == "" {
		s.Errorf("listeners %+v", listeners.Listeners)
	}
	groups, err := c.DescribeTargetGroups(s.ctx, &elb.DescribeTargetGroupsInput{LoadBalancerArn: lb.LoadBalancerArn})
	must(s.T, groups, err)
	tg := groups.TargetGroups[0]
	if tg.TargetType != "ip" || aws.ToInt32(tg.Port) != 8080 || !slices.Equal(tg.LoadBalancerArns, []string{*lb.LoadBalancerArn}) || aws.ToString(tg.HealthCheckPort) != "traffic-port" {
		s.Errorf("target group %+v", tg)
	}
	attributes, err := c.DescribeTargetGroupAttributes(s.ctx, &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: tg.TargetGroupArn})
	must(s.T, attributes, err)
	health, err := c.DescribeTargetHealth(s.ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: tg.TargetGroupArn})
	must(s.T, health, err)
	if h := health.TargetHealthDescriptions[0]; h.TargetHealth.State != "unhealthy" || aws.ToString(h.Target.Id) != "10.0.200.200" {
		s.Errorf("health of a target that is not there: %+v", h)
	}
	set, err := c.SetSecurityGroups(s.ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: lb.LoadBalancerArn, SecurityGroups: []string{group}})
	must(s.T, set, err)
	s.holds(s.T, app.Ref(), group)
	for _, refused := range []struct {
		lb, group, want string
	}{{pass.ARN(), group, "InvalidConfigurationRequest"}, {app.ARN(), "sg-00000000000000bad", "InvalidSecurityGroup"}, {app.ARN() + "0", group, "LoadBalancerNotFound"}} {
		_, err = c.SetSecurityGroups(s.ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: &refused.lb, SecurityGroups: []string{refused.group}})
		if code(s.T, err) != refused.want || status(err) != 400 {
			s.Errorf("set %s on %s: %v, want %s", refused.group, refused.lb, err, refused.want)
		}
	}
	arns := []string{app.ARN()}
	_, err = c.AddTags(s.ctx, &elb.AddTagsInput{ResourceArns: arns, Tags: []elbtypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")}}})
	must[any](s.T, nil, err)
	_, err = c.RemoveTags(s.ctx, &elb.RemoveTagsInput{ResourceArns: arns, TagKeys: []string{"a"}})
	must[any](s.T, nil, err)
	tags, err := c.DescribeTags(s.ctx, &elb.DescribeTagsInput{ResourceArns: append(arns, *tg.TargetGroupArn)})
	must(s.T, tags, err)
	same(s.T, "tags of a balancer", tags.TagDescriptions[0].Tags, []elbtypes.Tag{{Key: aws.String("b"), Value: aws.String("2")}})

	before := s.World().LookUp(*lb.DNSName)
	grown, err := services.Scale(app.Ref(), 3)
	must(s.T, grown, err)
	s.holds(s.T, app.Ref(), group)
	if got := s.World().LookUp(*lb.DNSName); len(before) != 1 || len(got) != 3 {
		s.Errorf("the balancer had %v and has %v", before, got)
	}
	shrunk, err := services.Scale(app.Ref(), 1)
	must(s.T, shrunk, err)
	if got := s.World().LookUp(*lb.DNSName); len(got) != 1 || got[0] == before[0] {
		s.Errorf("after growing and shrinking the balancer has %v, before %v", got, before)
	}
}

func (s *story) files(group string) {
	fs := s.service(s.T, native.Service{Kind: native.FileSystem, Name: "fs-0123456789abcdef0", Tags: map[string]string{"Name": "homes"}})
	target := s.service(s.T, native.Service{Kind: native.MountTarget, Name: "fsmt-0123456789abcdef0", Parent: fs.Name, Groups: []string{groupID}, Nodes: oneNode()})
	c := s.efs()
	all, err := c.DescribeFileSystems(s.ctx, &efs.DescribeFileSystemsInput{})
	must(s.T, all, err)
	if len(all.FileSystems) != 1 || aws.ToString(all.FileSystems[0].Name) != "homes" || all.FileSystems[0].NumberOfMountTargets != 1 {
		s.Errorf("file systems %+v", all.FileSystems)
	}
	targets, err := c.DescribeMountTargets(s.ctx, &efs.DescribeMountTargetsInput{FileSystemId: &fs.Name})
	must(s.T, targets, err)
	mt := targets.MountTargets[0]
	nic := s.nic(s.T, *mt.NetworkInterfaceId)
	if aws.ToString(mt.IpAddress) != nic.PrimaryIP().Addr.String() || nic.InterfaceType != "efs" || nic.Description != "EFS mount target for "+fs.Name+" ("+target.Name+")" {
		s.Errorf("mount target %+v with the interface %+v", mt, nic)
	}
	groups, err := c.DescribeMountTargetSecurityGroups(s.ctx, &efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: mt.MountTargetId})
	must(s.T, groups, err)
	same(s.T, "groups of a mount target", groups.SecurityGroups, []string{groupID})
	_, err = c.ModifyMountTargetSecurityGroups(s.ctx, &efs.ModifyMountTargetSecurityGroupsInput{MountTargetId: mt.MountTargetId, SecurityGroups: []string{group}})
	must[any](s.T, nil, err)
	s.holds(s.T, target.Ref(), group)
	_, err = c.ModifyMountTargetSecurityGroups(s.ctx, &efs.ModifyMountTargetSecurityGroupsInput{MountTargetId: mt.MountTargetId, SecurityGroups: []string{"sg-00000000000000bad"}})
	if code(s.T, err) != "SecurityGroupNotFound" {
		s.Errorf("an unknown group: %v", err)
	}
	_, err = c.TagResource(s.ctx, &efs.TagResourceInput{ResourceId: &fs.Name, Tags: []efstypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}}})
	must[any](s.T, nil, err)
	_, err = c.UntagResource(s.ctx, &efs.UntagResourceInput{ResourceId: aws.String(fs.ARN()), TagKeys: []string{"Name"}})
	must[any](s.T, nil, err)
	tags, err := c.ListTagsForResource(s.ctx, &efs.ListTagsForResourceInput{ResourceId: aws.String(fs.ARN())})
	must(s.T, tags, err)
	same(s.T, "tags of a file system", tags.Tags, []efstypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}})
	for id, want := range map[string]string{"fsmt-00000000": "MountTargetNotFound", "": "BadRequest"} {
		in := &efs.DescribeMountTargetsInput{MountTargetId: &id}
		if id == "" {
			in.MountTargetId = nil
		}
		if _, err = c.DescribeMountTargets(s.ctx, in); code(s.T, err) != want {
			s.Errorf("mount target %q: %v, want %s", id, err, want)
		}
	}
}

func (s *story) functions(group string) {
	f := s.service(s.T, native.Service{Kind: native.Function, Name: "resize", Groups: []string{groupID}, Nodes: oneNode()})
	c := s.lambda()
	all, err := c.ListFunctions(s.ctx, &lambda.ListFunctionsInput{MaxItems: aws.Int32(50)})
	must(s.T, all, err)
	if len(all.Functions) != 1 || !slices.Equal(all.Functions[0].VpcConfig.SecurityGroupIds, []string{groupID}) || aws.ToString(all.Functions[0].VpcConfig.VpcId) != defaultID {
		s.Errorf("functions %+v", all.Functions)
	}
	if got := s.nic(s.T, f.Nodes[0].NIC); got.InterfaceType != "lambda" || len(got.Description) < len("AWS Lambda VPC ENI-resize-") {
		s.Errorf("the interface of a function is %s, %q", got.InterfaceType, got.Description)
	}
	_, err = c.UpdateFunctionConfiguration(s.ctx, &lambda.UpdateFunctionConfigurationInput{FunctionName: &f.Name, VpcConfig: &lambdatypes.VpcConfig{SecurityGroupIds: []string{group}, SubnetIds: []string{subnetID}}})
	must[any](s.T, nil, err)
	s.holds(s.T, f.Ref(), group)
	arn := aws.String(f.ARN())
	one, err := c.GetFunctionConfiguration(s.ctx, &lambda.GetFunctionConfigurationInput{FunctionName: arn})
	must(s.T, one, err)
	same(s.T, "groups of a function", one.VpcConfig.SecurityGroupIds, []string{group})
	_, err = c.TagResource(s.ctx, &lambda.TagResourceInput{Resource: arn, Tags: map[string]string{"a": "1", "b": "2"}})
	must[any](s.T, nil, err)
	_, err = c.UntagResource(s.ctx, &lambda.UntagResourceInput{Resource: arn, TagKeys: []string{"a"}})
	must[any](s.T, nil, err)
	tags, err := c.ListTags(s.ctx, &lambda.ListTagsInput{Resource: arn})
	must(s.T, tags, err)
	same(s.T, "tags of a function", tags.Tags, map[string]string{"b": "2"})
	if _, err = c.GetFunctionConfiguration(s.ctx, &lambda.GetFunctionConfigurationInput{FunctionName: aws.String("nobody")}); code(s.T, err) != "ResourceNotFoundException" || status(err) != 404 {
		s.Errorf("an unknown function: %v", err)
	}
}
