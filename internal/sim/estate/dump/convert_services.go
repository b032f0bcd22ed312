package dump

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// This file turns describe answers of native services into services. Their interfaces are the
// interfaces of the dump, found by what the services write on them; one that the dump does not tell
// is made up by the world.

// The types of answers, with the member names that the tools print.

type rawServices struct {
	databases    []rawDatabase
	clusters     []rawCluster
	caches       []rawCache
	replications []rawReplication
	cacheSubnets []rawCacheSubnets
	balancers    []rawBalancer
	listeners    []rawListener
	targetGroups []rawTargetGroup
	endpoints    []rawEndpoint
	fileSystems  []rawFileSystem
	mountTargets []rawMountTarget
	functions    []rawFunction
}

type rawHost struct {
	Address string
	Port    int
}

type rawMembership struct{ VpcSecurityGroupId, SecurityGroupId string }

type rawDatabase struct {
	DBInstanceIdentifier, Engine, EngineVersion, DBInstanceClass, DBClusterIdentifier, AvailabilityZone string
	MultiAZ, PubliclyAccessible                                                                         bool
	Endpoint                                                                                            rawHost
	DBSubnetGroup                                                                                       struct {
		VpcId   string
		Subnets []struct{ SubnetIdentifier string }
	}
	VpcSecurityGroups []rawMembership
	TagList           []rawTag
}

type rawCluster struct {
	DBClusterIdentifier, Engine, EngineVersion, Endpoint string
	Port                                                 int
	VpcSecurityGroups                                    []rawMembership
	DBClusterMembers                                     []struct {
		DBInstanceIdentifier string
		IsClusterWriter      bool
	}
	TagList []rawTag
}

type rawCache struct {
	CacheClusterId, Engine, EngineVersion, CacheNodeType, ReplicationGroupId, CacheSubnetGroupName string
	NumCacheNodes                                                                                  int
	SecurityGroups                                                                                 []rawMembership
	CacheNodes                                                                                     []struct{ Endpoint rawHost }
}

type rawReplication struct {
	ReplicationGroupId string
	NodeGroups         []struct {
		PrimaryEndpoint  rawHost
		NodeGroupMembers []struct{ CacheClusterId, CurrentRole string }
	}
}

type rawCacheSubnets struct {
	CacheSubnetGroupName, VpcId string
	Subnets                     []struct{ SubnetIdentifier string }
}

type rawBalancer struct {
	LoadBalancerArn, DNSName, Scheme, VpcId, Type string
	SecurityGroups                                []string
	AvailabilityZones                             []struct{ SubnetId string }
}

type rawListener struct {
	ListenerArn, LoadBalancerArn, Protocol string
	Port                                   int
	DefaultActions                         []struct{ TargetGroupArn string }
}

type rawTargetGroup struct {
	TargetGroupArn, Protocol, VpcId, TargetType, HealthCheckProtocol, HealthCheckPort string
	Port                                                                              int
}

type rawEndpoint struct {
	VpcEndpointId, VpcEndpointType, VpcId, ServiceName string
	SubnetIds, NetworkInterfaceIds                     []string
	Groups                                             []rawGroupName
	Tags                                               []rawTag
}

type rawFileSystem struct {
	FileSystemId string
	Tags         []rawTag
}

type rawMountTarget struct {
	MountTargetId, FileSystemId, SubnetId, NetworkInterfaceId string
}

type rawFunction struct {
	FunctionName, Runtime string
	VpcConfig             struct {
		VpcId                       string
		SubnetIds, SecurityGroupIds []string
	}
}

// serviceMembers are where the answers of native services go.
func (r *Region) serviceMembers() map[string]any {
	return map[string]any{
		"DBInstances": &r.databases, "DBClusters": &r.clusters, "CacheClusters": &r.caches, "ReplicationGroups": &r.replications,
		"CacheSubnetGroups": &r.cacheSubnets, "LoadBalancers": &r.balancers, "Listeners": &r.listeners, "TargetGroups": &r.targetGroups,
		"VpcEndpoints": &r.endpoints, "FileSystems": &r.fileSystems, "MountTargets": &r.mountTargets, "Functions": &r.functions,
	}
}

// buildServices makes the services, parents first.
func (b *builder) buildServices() {
	b.claimed = map[string]bool{}
	b.buildTargetGroups()
	b.buildDatabases()
	b.buildCaches()
	b.buildBalancers()
	for i := range b.raw.endpoints {
		raw := &b.raw.endpoints[i]
		if raw.VpcEndpointType != "Interface" {
			continue // gateways have no interface, and no groups
		}
		var groups []string
		for _, g := range raw.Groups {
			groups = append(groups, g.GroupId)
		}
		// An endpoint names its interfaces, so none is made up for those that the dump lacks.
		own := func(n *aws.NetworkInterface) bool { return slices.Contains(raw.NetworkInterfaceIds, b.rawID(n.ID)) }
		there := 0
		for _, n := range b.nics {
			if own(n) {
				there++
			}
		}
		if there == 0 {
			b.warn("VpcEndpoints", raw.VpcEndpointId, "none of its interfaces is in the dump; left out")
			continue
		}
		s := native.Service{Kind: native.Endpoint, Name: raw.VpcEndpointId, Engine: raw.ServiceName, Tags: tagsOf(raw.Tags)}
		b.add("VpcEndpoints", s, raw.VpcId, raw.SubnetIds, groups, there, own)
	}
	for i := range b.raw.fileSystems {
		raw := &b.raw.fileSystems[i]
		b.keep("FileSystems", native.Service{Kind: native.FileSystem, Name: raw.FileSystemId, Tags: tagsOf(raw.Tags)})
	}
	for i := range b.raw.mountTargets {
		raw := &b.raw.mountTargets[i]
		s := native.Service{Kind: native.MountTarget, Name: raw.MountTargetId, Parent: raw.FileSystemId}
		vpc := ""
		if sub := b.subnets[b.id("subnet", raw.SubnetId)]; sub != nil {
			vpc = sub.VPCID
		}
		var groups []string // EFS does not list them: the target has the interface's groups
		if n := b.nics[b.id("eni", raw.NetworkInterfaceId)]; n != nil {
			for _, g := range n.Groups {
				groups = append(groups, g.ID)
			}
		}
		b.add("MountTargets", s, vpc, []string{raw.SubnetId}, groups, 1, func(n *aws.NetworkInterface) bool { return b.rawID(n.ID) == raw.NetworkInterfaceId })
	}
	for i := range b.raw.functions {
		raw := &b.raw.functions[i]
		s := native.Service{Kind: native.Function, Name: raw.FunctionName, Engine: raw.Runtime}
		if raw.VpcConfig.VpcId == "" {
			b.keep("Functions", s)
			continue
		}
		b.add("Functions", s, raw.VpcConfig.VpcId, raw.VpcConfig.SubnetIds, raw.VpcConfig.SecurityGroupIds, len(raw.VpcConfig.SubnetIds),
			func(n *aws.NetworkInterface) bool {
				return strings.HasPrefix(n.Description, "AWS Lambda VPC ENI-"+raw.FunctionName+"-")
			})
	}
	b.orphans()
}

// rawID is the id that an interface had in the dump.
func (b *builder) rawID(id string) string {
	for raw, mapped := range b.l.Report.Renamed {
		if mapped == id {
			return raw
		}
	}
	return id
}

// keep stores a service, unless no cloud can have it.
func (b *builder) keep(member string, s native.Service) {
	s.Account, s.Region, s.Created = b.account, b.raw.name, defaults.LaunchTime()
	if err := s.Check(); err != nil {
		b.warn(member, s.Name, "left out: %v", err)
		return
	}
	b.services = append(b.services, s)
}

// add completes a service of a VPC with what the dump has of it: its subnets, groups and
// interfaces. Of the latter it wants a number; those that mine finds are taken first.
func (b *builder) add(member string, s native.Service, vpc string, subnets, groups []string, wanted int, mine func(*aws.NetworkInterface) bool) {
	v := b.vpcs[b.id("vpc", cmp.Or(vpc, "unnamed"))]
	if v == nil {
		b.warn(member, s.Name, "is in VPC %q, which is not in the dump; left out", vpc)
		return
	}
	s.VPCID = v.ID
	for _, id := range subnets {
		if sub := b.subnets[b.id("subnet", id)]; sub != nil && sub.VPCID == v.ID {
			s.Subnets = append(s.Subnets, sub.ID)
		}
	}
	for _, id := range groups {
		if g := b.groups[b.id("sg", id)]; g != nil && g.VPCID == v.ID {
			s.Groups = append(s.Groups, g.ID)
		} else {
			b.warn(member, s.Name, "has group %s, which is not in the dump; left out", id)
		}
	}
	if len(s.Groups) == 0 && s.Kind != native.NetBalancer && s.Kind != native.GatewayBalancer {
		s.Groups = []string{b.defaultGroupID(v.ID)}
	}
	for _, id := range slices.Sorted(maps.Keys(b.nics)) {
		n := b.nics[id]
		if n.VPCID != v.ID || b.claimed[id] || !mine(n) || s.Kind == native.Database && len(s.Nodes) > 0 {
			continue
		}
		b.claimed[id] = true
		n.RequesterManaged = true
		s.Nodes = append(s.Nodes, native.Node{SubnetID: n.SubnetID, NIC: id})
		if !slices.Contains(s.Subnets, n.SubnetID) {
			s.Subnets = append(s.Subnets, n.SubnetID)
		}
	}
	if len(s.Subnets) == 0 && wanted > 0 {
		b.warn(member, s.Name, "none of its subnets is in the dump; it has no interface")
	}
	for i := 0; len(s.Nodes) < wanted && len(s.Subnets) > 0; i++ {
		s.Nodes = append(s.Nodes, native.Node{SubnetID: s.Subnets[i%len(s.Subnets)]})
	}
	b.keep(member, s)
}

func (b *builder) defaultGroupID(vpc string) string {
	for _, id := range slices.Sorted(maps.Keys(b.groups)) {
		if g := b.groups[id]; g.VPCID == vpc && g.Name == defaults.GroupName {
			return id
		}
	}
	return ""
}

func memberships(all []rawMembership) (out []string) {
	for _, m := range all {
		out = append(out, cmp.Or(m.VpcSecurityGroupId, m.SecurityGroupId))
	}
	return out
}

// buildDatabases: an interface of a database does not name it. One in a subnet of its zone with its
// groups is taken for its own.
func (b *builder) buildDatabases() {
	for i := range b.raw.clusters {
		raw := &b.raw.clusters[i]
		s := native.Service{Kind: native.DatabaseCluster, Name: raw.DBClusterIdentifier, Engine: raw.Engine, Version: raw.EngineVersion,
			Host: raw.Endpoint, Port: raw.Port, Tags: tagsOf(raw.TagList)}
		vpc, subnets := "", []string(nil)
		for k := range b.raw.databases {
			if d := &b.raw.databases[k]; d.DBClusterIdentifier == raw.DBClusterIdentifier {
				vpc = d.DBSubnetGroup.VpcId
				for _, sub := range d.DBSubnetGroup.Subnets {
					if !slices.Contains(subnets, sub.SubnetIdentifier) {
						subnets = append(subnets, sub.SubnetIdentifier)
					}
				}
			}
		}
		b.add("DBClusters", s, vpc, subnets, memberships(raw.VpcSecurityGroups), 0, func(*aws.NetworkInterface) bool { return false })
	}
	for i := range b.raw.databases {
		raw := &b.raw.databases[i]
		s := native.Service{
			Kind: native.Database, Name: raw.DBInstanceIdentifier, Engine: raw.Engine, Version: raw.EngineVersion, Class: raw.DBInstanceClass,
			Host: raw.Endpoint.Address, Port: raw.Endpoint.Port, Public: raw.PubliclyAccessible, MultiZone: raw.MultiAZ,
			Parent: raw.DBClusterIdentifier, Writer: b.writes(raw), Tags: tagsOf(raw.TagList),
		}
		var subnets []string
		for _, sub := range raw.DBSubnetGroup.Subnets {
			subnets = append(subnets, sub.SubnetIdentifier)
		}
		groups := memberships(raw.VpcSecurityGroups)
		b.add("DBInstances", s, raw.DBSubnetGroup.VpcId, subnets, groups, 1, func(n *aws.NetworkInterface) bool {
			if n.Description != "RDSNetworkInterface" || raw.AvailabilityZone != "" && n.Zone != "" && n.Zone != raw.AvailabilityZone || len(n.Groups) != len(groups) {
				return false
			}
			return !slices.ContainsFunc(groups, func(id string) bool { return !n.HasGroup(b.id("sg", id)) })
		})
	}
}

func (b *builder) writes(d *rawDatabase) bool {
	for i := range b.raw.clusters {
		for _, m := range b.raw.clusters[i].DBClusterMembers {
			if m.DBInstanceIdentifier == d.DBInstanceIdentifier {
				return m.IsClusterWriter
			}
		}
	}
	return false
}

func (b *builder) buildCaches() {
	subnetsOf := map[string]*rawCacheSubnets{}
	for i := range b.raw.cacheSubnets {
		subnetsOf[b.raw.cacheSubnets[i].CacheSubnetGroupName] = &b.raw.cacheSubnets[i]
	}
	place := func(group string) (vpc string, subnets []string) {
		g := subnetsOf[group]
		if g == nil {
			return "", nil
		}
		for _, s := range g.Subnets {
			subnets = append(subnets, s.SubnetIdentifier)
		}
		return g.VpcId, subnets
	}
	primary := map[string]bool{}
	for i := range b.raw.replications {
		raw := &b.raw.replications[i]
		s := native.Service{Kind: native.ReplicationGroup, Name: raw.ReplicationGroupId}
		for _, shard := range raw.NodeGroups {
			s.Host, s.Port = cmp.Or(s.Host, shard.PrimaryEndpoint.Address), cmp.Or(s.Port, shard.PrimaryEndpoint.Port)
			for _, m := range shard.NodeGroupMembers {
				primary[m.CacheClusterId] = m.CurrentRole == "primary"
			}
		}
		vpc, subnets, groups := "", []string(nil), []string(nil)
		for k := range b.raw.caches {
			if c := &b.raw.caches[k]; c.ReplicationGroupId == raw.ReplicationGroupId {
				s.Engine, s.Version, groups = c.Engine, c.EngineVersion, memberships(c.SecurityGroups)
				vpc, subnets = place(c.CacheSubnetGroupName)
			}
		}
		b.add("ReplicationGroups", s, vpc, subnets, groups, 0, func(*aws.NetworkInterface) bool { return false })
	}
	for i := range b.raw.caches {
		raw := &b.raw.caches[i]
		s := native.Service{Kind: native.Cache, Name: raw.CacheClusterId, Engine: raw.Engine, Version: raw.EngineVersion, Class: raw.CacheNodeType,
			Parent: raw.ReplicationGroupId, Writer: primary[raw.CacheClusterId]}
		if len(raw.CacheNodes) > 0 {
			s.Host, s.Port = raw.CacheNodes[0].Endpoint.Address, raw.CacheNodes[0].Endpoint.Port
		}
		vpc, subnets := place(raw.CacheSubnetGroupName)
		b.add("CacheClusters", s, vpc, subnets, memberships(raw.SecurityGroups), max(raw.NumCacheNodes, 1), func(n *aws.NetworkInterface) bool {
			return n.Description == "ElastiCache "+raw.CacheClusterId || strings.HasPrefix(n.Description, "ElastiCache "+raw.CacheClusterId+" ")
		})
	}
}

// after is what stands behind the marker in an ARN.
func after(arn, marker string) string {
	_, name, _ := strings.Cut(arn, marker)
	return name
}

func (b *builder) buildTargetGroups() {
	for i := range b.raw.targetGroups {
		raw := &b.raw.targetGroups[i]
		g := native.TargetGroup{
			Name: after(raw.TargetGroupArn, ":targetgroup/"), Account: b.account, Region: b.raw.name, VPCID: b.id("vpc", cmp.Or(raw.VpcId, "unnamed")),
			Type: raw.TargetType, Protocol: raw.Protocol, Port: raw.Port, HealthProtocol: raw.HealthCheckProtocol,
		}
		if n, err := strconv.Atoi(raw.HealthCheckPort); err == nil {
			g.HealthPort = n // otherwise it is traffic-port
		}
		if err := g.Check(); err != nil {
			b.warn("TargetGroups", raw.TargetGroupArn, "left out: %v", err)
			continue
		}
		b.targetGroups = append(b.targetGroups, g)
	}
}

func (b *builder) buildBalancers() {
	for i := range b.raw.balancers {
		raw := &b.raw.balancers[i]
		kind := map[string]native.Kind{"application": native.AppBalancer, "network": native.NetBalancer, "gateway": native.GatewayBalancer}[raw.Type]
		s := native.Service{Kind: kind, Name: after(raw.LoadBalancerArn, ":loadbalancer/"), Host: raw.DNSName, Public: raw.Scheme == "internet-facing"}
		for _, l := range b.raw.listeners {
			if l.LoadBalancerArn != raw.LoadBalancerArn || len(l.DefaultActions) == 0 {
				continue
			}
			target := after(l.DefaultActions[0].TargetGroupArn, ":targetgroup/")
			if !slices.ContainsFunc(b.targetGroups, func(g native.TargetGroup) bool { return g.Name == target }) {
				b.warn("Listeners", l.ListenerArn, "hands its flows to no target group of the dump; left out")
				continue
			}
			s.Listeners = append(s.Listeners, native.Listener{ID: l.ListenerArn[strings.LastIndex(l.ListenerArn, "/")+1:], Protocol: l.Protocol, Port: l.Port, Target: target})
		}
		var subnets []string
		for _, z := range raw.AvailabilityZones {
			subnets = append(subnets, z.SubnetId)
		}
		b.add("LoadBalancers", s, raw.VpcId, subnets, raw.SecurityGroups, len(subnets), func(n *aws.NetworkInterface) bool { return n.Description == "ELB "+s.Name })
	}
}

// orphans drops members whose parent the dump does not tell from it.
func (b *builder) orphans() {
	have := map[native.Ref]bool{}
	for i := range b.services {
		have[b.services[i].Ref()] = true
	}
	var out []native.Service
	for _, s := range b.services {
		if s.Parent != "" && !have[s.ParentRef()] {
			b.warn("", s.Name, "is a member of %s, which is not in the dump; taken as alone", s.Parent)
			if s.Kind == native.MountTarget {
				continue
			}
			s.Parent = ""
		}
		if slices.ContainsFunc(out, func(o native.Service) bool { return o.Ref() == s.Ref() }) {
			b.warn("", s.Name, "appears again; the first one is kept")
			continue
		}
		out = append(out, s)
	}
	b.services = out
}
