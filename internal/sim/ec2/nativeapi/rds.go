package nativeapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
)

func rdsActions() map[string]Action {
	return map[string]Action{
		"DescribeDBInstances":    describeDBInstances,
		"DescribeDBClusters":     describeDBClusters,
		"ModifyDBInstance":       modifyDBInstance,
		"ModifyDBCluster":        modifyDBCluster,
		"ListTagsForResource":    rdsTags,
		"AddTagsToResource":      rdsAddTags,
		"RemoveTagsFromResource": rdsRemoveTags,
	}
}

// rdsRefusal gives the world's refusals the names of RDS.
func rdsRefusal(k native.Kind, err error) error {
	if k == native.DatabaseCluster {
		return queryRefusal(err, "DBClusterNotFoundFault", "InvalidDBClusterStateFault")
	}
	return queryRefusal(err, "DBInstanceNotFound", "InvalidDBInstanceState")
}

func (c *Call) rdsPermissions() []iam.Request {
	switch {
	case strings.HasSuffix(c.Action, "DBCluster") || c.Action == "DescribeDBClusters":
		return []iam.Request{c.askFor(native.DatabaseCluster, c.Params.String("DBClusterIdentifier"), nil)}
	case strings.HasSuffix(c.Action, "DBInstance") || c.Action == "DescribeDBInstances":
		return []iam.Request{c.askFor(native.Database, c.Params.String("DBInstanceIdentifier"), nil)}
	}
	return []iam.Request{c.askByARN(c.Params.String("ResourceName"), namedTags(c.Params, "Tags.Tag"), native.Database, native.DatabaseCluster)}
}

// askByARN is ask for whatever the ARN names.
func (c *Call) askByARN(arn string, sets map[string]string, kinds ...native.Kind) iam.Request {
	s, _ := c.byARN(arn, kinds...) // what is not there has no tags
	return c.ask(arn, s.Tags, sets)
}

// rdsFilters reads Filters.Filter.N.Name and .Values.Value.M and keeps what matches.
func rdsFilters(c *Call, all []native.Service, known map[string]func(native.Service) []string) ([]native.Service, error) {
	for _, f := range c.Params.Elements("Filters.Filter") {
		name, values := f.String("Name"), f.Strings("Values.Value")
		of := known[name]
		if of == nil || len(values) == 0 {
			return nil, invalidValue("Unrecognized filter name: %s", name)
		}
		all = slices.DeleteFunc(all, func(s native.Service) bool {
			return !slices.ContainsFunc(of(s), func(v string) bool { return slices.Contains(values, v) })
		})
	}
	return all, nil
}

func describeDBInstances(c *Call) (Answer, error) {
	all, err := rdsFilters(c, c.Region.Services().List(native.Database), map[string]func(native.Service) []string{
		"db-instance-id": func(s native.Service) []string { return []string{s.Name, s.ARN()} },
		"db-cluster-id":  func(s native.Service) []string { return []string{s.Parent} },
		"engine":         func(s native.Service) []string { return []string{s.Engine} },
		"dbi-resource-id": func(s native.Service) []string {
			return []string{resourceID("db", s)}
		},
	})
	if err != nil {
		return Answer{}, err
	}
	if all, err = identified(all, c.Params.String("DBInstanceIdentifier"), "DBInstance", "DBInstanceNotFound"); err != nil {
		return Answer{}, err
	}
	d, err := c.dbWriter()
	if err != nil {
		return Answer{}, err
	}
	return pageOf(c, all, "DBInstance", d.instance)
}

// dbWriter writes databases.
type dbWriter struct {
	c       *Call
	zones   func(subnet string) string
	members []native.Service // all databases
}

func (c *Call) dbWriter() (dbWriter, error) {
	zones, err := c.zones()
	return dbWriter{c, func(subnet string) string { return zones[subnet].Name }, c.Region.Services().List(native.Database)}, err
}

// resourceID is a DbiResourceId or DbClusterResourceId, which never changes.
func resourceID(prefix string, s native.Service) string {
	return prefix + "-" + strings.ToUpper(native.Hex(s.Account, s.Region, s.Name)+native.Hex(s.Name)[:10])
}

func (d dbWriter) status(s native.Service) string {
	if d.c.busy(s) {
		return "modifying"
	}
	return "available"
}

func (d dbWriter) instance(s native.Service) []wire.Element {
	zone := ""
	if len(s.Nodes) > 0 {
		zone = d.zones(s.Nodes[0].SubnetID)
	}
	return []wire.Element{
		wire.Text("DBInstanceIdentifier", s.Name), wire.Text("DBInstanceClass", cmp.Or(s.Class, "db.t3.medium")),
		wire.Text("Engine", s.Engine), wire.Text("EngineVersion", s.Version), wire.Text("DBInstanceStatus", d.status(s)),
		wire.Node("Endpoint", wire.Text("Address", s.HostName()), wire.Int("Port", port(s)), wire.Text("HostedZoneId", "Z2R2ITUGPM61AM")),
		wire.Time("InstanceCreateTime", s.Created), wire.Text("AvailabilityZone", zone), wire.Bool("MultiAZ", s.MultiZone),
		wire.Bool("PubliclyAccessible", s.Public), wire.Text("DBClusterIdentifier", s.Parent),
		wire.Node("DBSecurityGroups"), d.groups(s), d.subnetGroup(s), wire.Node("PendingModifiedValues"),
		wire.Text("NetworkType", "IPV4"), wire.Int("DbInstancePort", 0), wire.Text("DbiResourceId", resourceID("db", s)),
		wire.Text("DBInstanceArn", s.ARN()), tagList("TagList", "Tag", s.Tags),
	}
}

func port(s native.Service) int { return cmp.Or(s.Port, native.DefaultPort(s.Engine)) }

func (d dbWriter) groups(s native.Service) wire.Element {
	status := "active"
	if d.c.busy(s) {
		status = "adding"
	}
	return list("VpcSecurityGroups", "VpcSecurityGroupMembership", s.Groups, func(id string) []wire.Element {
		return []wire.Element{wire.Text("VpcSecurityGroupId", id), wire.Text("Status", status)}
	})
}

// subnetGroup is made up of the subnets of the database: the simulator has no such groups.
func (d dbWriter) subnetGroup(s native.Service) wire.Element {
	name := cmp.Or(s.Parent, s.Name)
	return wire.Node("DBSubnetGroup",
		wire.Text("DBSubnetGroupName", name), wire.Text("DBSubnetGroupDescription", name), wire.Text("VpcId", s.VPCID),
		wire.Text("SubnetGroupStatus", "Complete"),
		list("Subnets", "Subnet", s.Subnets, func(id string) []wire.Element {
			return []wire.Element{wire.Text("SubnetIdentifier", id), wire.Text("SubnetStatus", "Active"),
				wire.Node("SubnetAvailabilityZone", wire.Text("Name", d.zones(id)))}
		}))
}

func describeDBClusters(c *Call) (Answer, error) {
	all, err := rdsFilters(c, c.Region.Services().List(native.DatabaseCluster), map[string]func(native.Service) []string{
		"db-cluster-id": func(s native.Service) []string { return []string{s.Name, s.ARN()} },
		"engine":        func(s native.Service) []string { return []string{s.Engine} },
	})
	if err != nil {
		return Answer{}, err
	}
	if all, err = identified(all, c.Params.String("DBClusterIdentifier"), "DBCluster", "DBClusterNotFoundFault"); err != nil {
		return Answer{}, err
	}
	d, err := c.dbWriter()
	if err != nil {
		return Answer{}, err
	}
	return pageOf(c, all, "DBCluster", d.cluster)
}

func (d dbWriter) cluster(s native.Service) []wire.Element {
	members := native.MembersOf(s.Ref(), d.members)
	zones := map[string]bool{}
	for _, id := range s.Subnets {
		zones[d.zones(id)] = true
	}
	return []wire.Element{
		wire.Text("DBClusterIdentifier", s.Name), wire.Text("DBClusterArn", s.ARN()), wire.Text("Status", d.status(s)),
		wire.Text("Engine", s.Engine), wire.Text("EngineVersion", s.Version), wire.Text("EngineMode", "provisioned"),
		wire.Text("Endpoint", s.HostName()), wire.Text("ReaderEndpoint", s.ReaderHost()), wire.Int("Port", port(s)),
		wire.Bool("MultiAZ", len(members) > 1), wire.Text("DBSubnetGroup", s.Name), d.groups(s),
		texts("AvailabilityZones", "AvailabilityZone", slices.Sorted(maps.Keys(zones))),
		list("DBClusterMembers", "DBClusterMember", members, func(m native.Service) []wire.Element {
			return []wire.Element{wire.Text("DBInstanceIdentifier", m.Name), wire.Bool("IsClusterWriter", m.Writer),
				wire.Text("DBClusterParameterGroupStatus", "in-sync"), wire.Int("PromotionTier", 1)}
		}),
		wire.Time("ClusterCreateTime", s.Created), wire.Text("DbClusterResourceId", resourceID("cluster", s)),
		wire.Text("NetworkType", "IPV4"), tagList("TagList", "Tag", s.Tags),
	}
}

const databaseGroups = "VpcSecurityGroupIds.VpcSecurityGroupId"

// memberOfCluster: "The associated list of EC2 VPC security groups is managed by the DB cluster."
func memberOfCluster(native.Service) error {
	return refuse("InvalidParameterCombination", "The requested DB Instance will be a member of a DB Cluster. Set vpc security groups for the DB Cluster.")
}

func modifyDBInstance(c *Call) (Answer, error) {
	ref := native.Ref{Kind: native.Database, Name: c.Params.String("DBInstanceIdentifier")}
	s, err := c.setGroups(ref, databaseGroups, memberOfCluster, rdsRefusal)
	return modified(s, err, c.dbWriter, "DBInstance", dbWriter.instance)
}

func modifyDBCluster(c *Call) (Answer, error) {
	ref := native.Ref{Kind: native.DatabaseCluster, Name: c.Params.String("DBClusterIdentifier")}
	s, err := c.setGroups(ref, databaseGroups, nil, rdsRefusal)
	return modified(s, err, c.dbWriter, "DBCluster", dbWriter.cluster)
}

func (c *Call) database() (native.Service, error) {
	arn := c.Params.String("ResourceName")
	s, ok := c.byARN(arn, native.Database, native.DatabaseCluster)
	switch {
	case ok:
		return s, nil
	case strings.Contains(arn, ":cluster:"):
		return s, withStatus(http.StatusNotFound, "DBClusterNotFoundFault", "DBCluster %s not found.", arn)
	case strings.HasPrefix(arn, "arn:aws:rds:"):
		return s, withStatus(http.StatusNotFound, "DBInstanceNotFound", "DBInstance %s not found.", arn)
	}
	return s, invalidValue("Invalid resource name: %s", arn)
}

func rdsTags(c *Call) (Answer, error) {
	s, err := c.database()
	return Answer{XML: []wire.Element{tagList("TagList", "Tag", s.Tags)}}, err
}

func rdsAddTags(c *Call) (Answer, error) {
	return Answer{}, c.setDatabaseTags(requestTags(c.Params, "Tags.Tag"), nil)
}

func rdsRemoveTags(c *Call) (Answer, error) {
	return Answer{}, c.setDatabaseTags(nil, c.Params.Strings("TagKeys.member"))
}

func (c *Call) setDatabaseTags(set map[string]string, remove []string) error {
	s, err := c.database()
	if err == nil {
		err = c.Region.Services().SetTags(c.Action, s.Ref(), set, remove)
	}
	return rdsRefusal(s.Kind, err)
}
