package nativeapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
)

func cacheActions() map[string]Action {
	return map[string]Action{
		"DescribeCacheClusters":     describeCacheClusters,
		"DescribeReplicationGroups": describeReplicationGroups,
		"DescribeCacheSubnetGroups": describeCacheSubnetGroups,
		"ModifyCacheCluster":        modifyCacheCluster,
		"ModifyReplicationGroup":    modifyReplicationGroup,
		"ListTagsForResource":       cacheTags,
		"AddTagsToResource":         cacheAddTags,
		"RemoveTagsFromResource":    cacheRemoveTags,
	}
}

// cacheRefusal gives the world's refusals the names of ElastiCache.
func cacheRefusal(k native.Kind, err error) error {
	if k == native.ReplicationGroup {
		return queryRefusal(err, "ReplicationGroupNotFoundFault", "InvalidReplicationGroupState")
	}
	return queryRefusal(err, "CacheClusterNotFound", "InvalidCacheClusterState")
}

func (c *Call) cachePermissions() []iam.Request {
	switch c.Action {
	case "DescribeCacheClusters", "ModifyCacheCluster":
		return []iam.Request{c.askFor(native.Cache, c.Params.String("CacheClusterId"), nil)}
	case "DescribeReplicationGroups", "ModifyReplicationGroup":
		return []iam.Request{c.askFor(native.ReplicationGroup, c.Params.String("ReplicationGroupId"), nil)}
	case "DescribeCacheSubnetGroups":
		return []iam.Request{c.ask("arn:aws:elasticache:"+c.Region.Name()+":"+c.Region.Account()+":subnetgroup:*", nil, nil)}
	}
	return []iam.Request{c.askByARN(c.Params.String("ResourceName"), namedTags(c.Params, "Tags.Tag"), native.Cache, native.ReplicationGroup)}
}

// chosen returns the services of a kind, or the one that is named.
func chosen(c *Call, k native.Kind, id string, refusal func(native.Kind, error) error) ([]native.Service, error) {
	if id == "" {
		return c.Region.Services().List(k), nil
	}
	s, err := c.Region.Services().Get(native.Ref{Kind: k, Name: strings.ToLower(id)})
	return []native.Service{s}, refusal(k, err)
}

func describeCacheClusters(c *Call) (Answer, error) {
	all, err := chosen(c, native.Cache, c.Params.String("CacheClusterId"), cacheRefusal)
	if err != nil {
		return Answer{}, err
	}
	nodes, _, err := c.Params.Bool("ShowCacheNodeInfo")
	if err != nil {
		return Answer{}, err
	}
	if alone, _, err := c.Params.Bool("ShowCacheClustersNotInReplicationGroups"); err != nil {
		return Answer{}, err
	} else if alone {
		all = slices.DeleteFunc(all, func(s native.Service) bool { return s.Parent != "" })
	}
	w, err := c.cacheWriter()
	if err != nil {
		return Answer{}, err
	}
	item := func(s native.Service) []wire.Element { return w.cluster(s, nodes) }
	return pageOf(c, all, "CacheCluster", item)
}

// cacheWriter writes caches.
type cacheWriter struct {
	c       *Call
	zone    func(subnet string) string
	members []native.Service // all caches
}

func (c *Call) cacheWriter() (cacheWriter, error) {
	zones, err := c.zones()
	return cacheWriter{c, func(subnet string) string { return zones[subnet].Name }, c.Region.Services().List(native.Cache)}, err
}

func (w cacheWriter) status(s native.Service) string {
	if w.c.busy(s) {
		return "modifying"
	}
	return "available"
}

func (w cacheWriter) cluster(s native.Service, nodes bool) []wire.Element {
	status := "active"
	if w.c.busy(s) {
		status = "modifying"
	}
	out := []wire.Element{
		wire.Text("CacheClusterId", s.Name), wire.Text("CacheClusterStatus", w.status(s)), wire.Text("ARN", s.ARN()),
		wire.Text("CacheNodeType", cmp.Or(s.Class, "cache.t3.micro")), wire.Text("Engine", s.Engine), wire.Text("EngineVersion", s.Version),
		wire.Int("NumCacheNodes", len(s.Nodes)), wire.Time("CacheClusterCreateTime", s.Created), wire.Text("ReplicationGroupId", s.Parent),
		wire.Text("CacheSubnetGroupName", subnetGroupName(s)), wire.Text("NetworkType", "ipv4"), wire.Node("PendingModifiedValues"),
		list("SecurityGroups", "member", s.Groups, func(id string) []wire.Element {
			return []wire.Element{wire.Text("SecurityGroupId", id), wire.Text("Status", status)}
		}),
	}
	if len(s.Nodes) > 0 {
		out = append(out, wire.Text("PreferredAvailabilityZone", w.zone(s.Nodes[0].SubnetID)))
	}
	if s.Engine == "memcached" {
		out = append(out, endpoint("ConfigurationEndpoint", strings.Replace(s.HostName(), ".0001.", ".cfg.", 1), port(s)))
	}
	if nodes {
		number := 0
		out = append(out, list("CacheNodes", "CacheNode", s.Nodes, func(n native.Node) []wire.Element {
			number++
			id := nodeID(number)
			return []wire.Element{wire.Text("CacheNodeId", id), wire.Text("CacheNodeStatus", w.status(s)),
				endpoint("Endpoint", strings.Replace(s.HostName(), ".0001.", "."+id+".", 1), port(s)),
				wire.Text("CustomerAvailabilityZone", w.zone(n.SubnetID))}
		}))
	}
	return out
}

// nodeID is the id of a node: four digits.
func nodeID(n int) string {
	return string([]byte{'0' + byte(n/1000%10), '0' + byte(n/100%10), '0' + byte(n/10%10), '0' + byte(n%10)})
}

func endpoint(name, host string, port int) wire.Element {
	return wire.Node(name, wire.Text("Address", host), wire.Int("Port", port))
}

// subnetGroupName names the group of the subnets of a cache, which the simulator makes up.
func subnetGroupName(s native.Service) string { return cmp.Or(s.Parent, s.Name) }

func describeReplicationGroups(c *Call) (Answer, error) {
	all, err := chosen(c, native.ReplicationGroup, c.Params.String("ReplicationGroupId"), cacheRefusal)
	if err != nil {
		return Answer{}, err
	}
	w, err := c.cacheWriter()
	if err != nil {
		return Answer{}, err
	}
	return pageOf(c, all, "ReplicationGroup", w.group)
}

func (w cacheWriter) group(s native.Service) []wire.Element {
	members := native.MembersOf(s.Ref(), w.members)
	names := make([]string, 0, len(members))
	for _, m := range members {
		names = append(names, m.Name)
	}
	failover := "disabled"
	if len(members) > 1 {
		failover = "enabled"
	}
	return []wire.Element{
		wire.Text("ReplicationGroupId", s.Name), wire.Text("Description", s.Name), wire.Text("Status", w.status(s)), wire.Text("ARN", s.ARN()),
		wire.Text("Engine", s.Engine), wire.Bool("ClusterEnabled", false), wire.Text("AutomaticFailover", failover),
		wire.Text("CacheNodeType", cmp.Or(s.Class, "cache.t3.micro")), texts("MemberClusters", "ClusterId", names),
		wire.Node("NodeGroups", wire.Node("NodeGroup",
			wire.Text("NodeGroupId", "0001"), wire.Text("Status", w.status(s)),
			endpoint("PrimaryEndpoint", s.HostName(), port(s)), endpoint("ReaderEndpoint", s.ReaderHost(), port(s)),
			list("NodeGroupMembers", "NodeGroupMember", members, func(m native.Service) []wire.Element {
				role, zone := "replica", ""
				if m.Writer {
					role = "primary"
				}
				if len(m.Nodes) > 0 {
					zone = w.zone(m.Nodes[0].SubnetID)
				}
				return []wire.Element{wire.Text("CacheClusterId", m.Name), wire.Text("CacheNodeId", "0001"), wire.Text("CurrentRole", role),
					wire.Text("PreferredAvailabilityZone", zone), endpoint("ReadEndpoint", m.HostName(), port(m))}
			}))),
	}
}

// describeCacheSubnetGroups tells where caches are: a cache cluster itself does not name its VPC.
func describeCacheSubnetGroups(c *Call) (Answer, error) {
	type group struct {
		name, vpc string
		subnets   []string
	}
	var all []group
	for _, s := range c.Region.Services().List(native.Cache, native.ReplicationGroup) {
		name := subnetGroupName(s)
		if !slices.ContainsFunc(all, func(g group) bool { return g.name == name }) {
			all = append(all, group{name, s.VPCID, s.Subnets})
		}
	}
	if name := c.Params.String("CacheSubnetGroupName"); name != "" {
		all = slices.DeleteFunc(all, func(g group) bool { return g.name != name })
		if len(all) == 0 {
			return Answer{}, refuse("CacheSubnetGroupNotFoundFault", "Cache Subnet Group %s does not exist.", name)
		}
	}
	p, err := page(c, all, func(g group) string { return g.name }, markerPaging, invalidValue)
	if err != nil {
		return Answer{}, err
	}
	zones, err := c.zones()
	if err != nil {
		return Answer{}, err
	}
	return Answer{XML: []wire.Element{list("CacheSubnetGroups", "CacheSubnetGroup", p.Items, func(g group) []wire.Element {
		return []wire.Element{wire.Text("CacheSubnetGroupName", g.name), wire.Text("CacheSubnetGroupDescription", g.name), wire.Text("VpcId", g.vpc),
			list("Subnets", "Subnet", g.subnets, func(id string) []wire.Element {
				return []wire.Element{wire.Text("SubnetIdentifier", id), wire.Node("SubnetAvailabilityZone", wire.Text("Name", zones[id].Name))}
			})}
	}), wire.Text("Marker", p.Next)}}, nil
}

const cacheGroups = "SecurityGroupIds.SecurityGroupId"

// memberOfGroup: a member of a replication group has the groups of the whole.
func memberOfGroup(s native.Service) error {
	return refuse("InvalidParameterCombination", "Cache cluster %s is part of replication group %s: use ModifyReplicationGroup.", s.Name, s.Parent)
}

func modifyCacheCluster(c *Call) (Answer, error) {
	s, err := c.setGroups(native.Ref{Kind: native.Cache, Name: c.Params.String("CacheClusterId")}, cacheGroups, memberOfGroup, cacheRefusal)
	return modified(s, err, c.cacheWriter, "CacheCluster", func(w cacheWriter, s native.Service) []wire.Element { return w.cluster(s, true) })
}

func modifyReplicationGroup(c *Call) (Answer, error) {
	s, err := c.setGroups(native.Ref{Kind: native.ReplicationGroup, Name: c.Params.String("ReplicationGroupId")}, cacheGroups, nil, cacheRefusal)
	return modified(s, err, c.cacheWriter, "ReplicationGroup", cacheWriter.group)
}

func (c *Call) cache() (native.Service, error) {
	arn := c.Params.String("ResourceName")
	s, ok := c.byARN(arn, native.Cache, native.ReplicationGroup)
	switch {
	case ok:
		return s, nil
	case strings.Contains(arn, ":replicationgroup:"):
		return s, withStatus(http.StatusNotFound, "ReplicationGroupNotFoundFault", "%s not found.", arn)
	case strings.HasPrefix(arn, "arn:aws:elasticache:"):
		return s, withStatus(http.StatusNotFound, "CacheClusterNotFound", "%s is either not present or not available.", arn)
	}
	return s, refuse("InvalidARN", "%s is no ARN of ElastiCache", arn)
}

// tagged finds what a call about tags names. A cache that is being changed is refused (API
// reference, ListTagsForResource: "If the cluster is not in the available state,
// ListTagsForResource returns an error").
func (c *Call) tagged() (native.Service, error) {
	s, err := c.cache()
	switch {
	case err != nil || !c.busy(s):
		return s, err
	case s.Kind == native.ReplicationGroup:
		return s, refuse("InvalidReplicationGroupState", "Replication group %s is not in a valid state to be processed.", s.Name)
	}
	return s, withStatus(http.StatusNotFound, "CacheClusterNotFound", "%s is either not present or not available.", s.Name)
}

// setCacheTags sets and removes tags of a cache. Tags of a replication group go to its members as
// well (API reference, AddTagsToResource).
func (c *Call) setCacheTags(set map[string]string, remove []string) (Answer, error) {
	s, err := c.tagged()
	if err != nil {
		return Answer{}, err
	}
	services := c.Region.Services()
	refs := []native.Ref{s.Ref()}
	for _, m := range native.MembersOf(s.Ref(), services.List(native.Cache)) {
		refs = append(refs, m.Ref())
	}
	for _, ref := range refs {
		if err = services.SetTags(c.Action, ref, set, remove); err != nil {
			break
		}
	}
	return c.tagAnswer(s.Ref(), err)
}

// tagAnswer is that of all calls about tags: what the service has then.
func (c *Call) tagAnswer(ref native.Ref, err error) (Answer, error) {
	if err != nil {
		return Answer{}, cacheRefusal(ref.Kind, err)
	}
	s, err := c.Region.Services().Get(ref)
	return Answer{XML: []wire.Element{tagList("TagList", "Tag", s.Tags)}}, cacheRefusal(ref.Kind, err)
}

func cacheTags(c *Call) (Answer, error) {
	s, err := c.tagged()
	return c.tagAnswer(s.Ref(), err)
}

func cacheAddTags(c *Call) (Answer, error) {
	return c.setCacheTags(requestTags(c.Params, "Tags.Tag"), nil)
}

func cacheRemoveTags(c *Call) (Answer, error) {
	return c.setCacheTags(nil, c.Params.Strings("TagKeys.member"))
}
