package native

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/rds"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// serviceTime bounds the reading of all services of a region: VMs do not wait longer for it.
	serviceTime = 30 * time.Second
	// recordsPerPage is how many databases, caches and functions are asked for at once.
	recordsPerPage = 50
)

// serviceAPI is an API that describes services.
type serviceAPI struct {
	name string
	// right is what has to be permitted to read it.
	right string
	kinds []cloud.ServiceKind
	read  func(r *serviceReader, ctx context.Context) error
}

// serviceAPIs are all that there are, sorted by name.
func serviceAPIs() []serviceAPI {
	return []serviceAPI{
		{"EC2 VPC endpoints", "ec2:DescribeVpcEndpoints", []cloud.ServiceKind{cloud.VPCEndpoint}, (*serviceReader).endpoints},
		{"EFS", "elasticfilesystem:DescribeFileSystems", []cloud.ServiceKind{cloud.EFSFileSystem}, (*serviceReader).fileSystems},
		{"ElastiCache", "elasticache:DescribeCacheClusters",
			[]cloud.ServiceKind{cloud.ElastiCacheCluster, cloud.ElastiCacheReplicationGroup}, (*serviceReader).caches},
		{balancersAPI, balancersRight,
			[]cloud.ServiceKind{cloud.ApplicationLoadBalancer, cloud.NetworkLoadBalancer, cloud.GatewayLoadBalancer}, (*serviceReader).balancers},
		{"Lambda", "lambda:ListFunctions", []cloud.ServiceKind{cloud.LambdaFunction}, (*serviceReader).functions},
		{"RDS", "rds:DescribeDBInstances", []cloud.ServiceKind{cloud.RDSInstance, cloud.RDSCluster}, (*serviceReader).databases},
	}
}

// serviceBook is what calls about single services of a region have said.
type serviceBook struct {
	balancers balancerBook
	caches    cacheBook
}

// serviceReader reads one API in one region.
type serviceReader struct {
	conn  *Conn
	found []description
	// faults are what could not be read although the services could.
	faults []cloud.ServiceFault
	// missed are kinds that could not be read although the others of the API could.
	missed map[cloud.ServiceKind]bool
	// book is what is known of single services; answers guards it while several calls about them
	// are under way.
	book    *serviceBook
	answers sync.Mutex
}

// describe reads the APIs of the kinds beside one another. What one that fails has said before, as
// far as there is any, stays; what we have written to since is not known then.
func (s *Services) describe(ctx context.Context, region string, kinds map[cloud.ServiceKind]bool) *described {
	conn := s.connect(region)
	ctx, cancel := context.WithTimeout(ctx, serviceTime)
	defer cancel()
	kinds = maps.Clone(kinds)
	for _, whole := range []cloud.ServiceKind{cloud.RDSCluster, cloud.ElastiCacheReplicationGroup} {
		if part := partOf(whole); kinds[part] || kinds[whole] { // an interface does not tell which it is of
			kinds[part], kinds[whole] = true, true
		}
	}
	s.mu.Lock()
	before, start, book := s.regions[region].described, s.writings, s.book(region)
	s.mu.Unlock()
	type answer struct {
		found  []description
		faults []cloud.ServiceFault
		missed map[cloud.ServiceKind]bool
		err    error
	}
	apis := slices.DeleteFunc(serviceAPIs(), func(a serviceAPI) bool {
		return !slices.ContainsFunc(a.kinds, func(k cloud.ServiceKind) bool { return kinds[k] })
	})
	answers := make([]answer, len(apis))
	var wg sync.WaitGroup
	for i, api := range apis {
		wg.Go(func() {
			r := &serviceReader{conn: conn, book: book}
			err := recovered.Call(func() error { return api.read(r, ctx) })
			answers[i] = answer{r.found, r.faults, r.missed, err}
		})
	}
	wg.Wait()
	out := &described{kinds: kinds}
	for i, api := range apis {
		got := answers[i]
		if got.err != nil {
			out.faults = append(out.faults, cloud.ServiceFault{API: api.name, Right: api.right, Kinds: api.kinds, Err: got.err})
		} else {
			out.faults = append(out.faults, got.faults...)
		}
		lost := func(k cloud.ServiceKind) bool { return got.err != nil || got.missed[k] }
		if before != nil {
			for _, d := range before.services {
				if slices.Contains(api.kinds, d.Kind) && kinds[d.Kind] && lost(d.Kind) {
					if s.stale(d.ID) {
						d.unknown()
					}
					out.services = append(out.services, d)
				}
			}
		}
		for _, d := range got.found {
			if kinds[d.Kind] && !lost(d.Kind) {
				if d.untold {
					d.Tags = before.tagsOf(d.ID)
				}
				if !d.Unread {
					s.seen(d.ID, start)
				}
				out.services = append(out.services, d)
			}
		}
	}
	for i := range out.services {
		d := &out.services[i]
		d.Behind = d.Unread && s.stale(d.ID)
	}
	slices.SortStableFunc(out.services, func(a, b description) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// tagsOf are the tags that a service was described with, nil if it was not.
func (d *described) tagsOf(id string) map[string]string {
	if d == nil {
		return nil
	}
	if x := cloud.Find(d.services, id, func(x *description) string { return x.ID }); x != nil {
		return x.Tags
	}
	return nil
}

// book is what is kept about single services of a region. The caller holds the lock.
func (s *Services) book(region string) *serviceBook {
	b := s.books[region]
	if b == nil {
		b = &serviceBook{}
		s.books[region] = b
	}
	return b
}

// wrote notes that services are, or were, written to: whatever was read of them before the end of
// that may be older.
func (s *Services) wrote(region string, ids []string) {
	s.mu.Lock()
	s.writings++
	for _, id := range ids {
		s.written[id] = s.writings
	}
	book := s.book(region)
	s.mu.Unlock()
	book.balancers.mu.Lock() // after a reading that is under way
	defer book.balancers.mu.Unlock()
	book.caches.mu.Lock()
	defer book.caches.mu.Unlock()
	for _, id := range ids {
		delete(book.balancers.tags.said, id)
		delete(book.caches.tags.said, id)
	}
}

// stale reports whether we have written to a service that was not described since.
func (s *Services) stale(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written[id] > 0
}

// seen notes that a service was described after so many writings.
func (s *Services) seen(id string, writings int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written[id] <= writings {
		delete(s.written, id)
	}
}

// add keeps a service; it fails if there are too many.
func (r *serviceReader) add(d description) error {
	d.Fixed = cmp.Or(fixed(d.Kind), d.Fixed)
	slices.Sort(d.GroupIDs)
	r.found = append(r.found, d)
	if bound := r.conn.Bounds.Objects; len(r.found) > bound {
		return &cloud.BoundError{What: "the account has", Bound: int64(bound), Unit: "services of a kind", Flag: bounds.FlagObjects}
	}
	return nil
}

// paged calls for pages until there is no further one; next returns the mark of the next page.
func (r *serviceReader) paged(call string, next func(mark *string) (*string, error)) error {
	var mark *string
	for n := 0; ; n++ {
		if bound := r.conn.Bounds.Pages; n == bound {
			return r.conn.classify(call, &cloud.BoundError{What: "the listing has", Bound: int64(bound), Unit: "pages", Flag: bounds.FlagPages})
		}
		var err error
		if mark, err = next(mark); err != nil {
			return r.conn.classify(call, err)
		}
		if awssdk.ToString(mark) == "" {
			return nil
		}
	}
}

func (r *serviceReader) databases(ctx context.Context) error {
	api := rds.NewFromConfig(r.conn.Base, func(o *rds.Options) { o.Region = r.conn.Region })
	networks := map[string]string{} // of clusters, by their IDs
	if err := r.instances(ctx, api, networks); err != nil || len(networks) == 0 {
		return err
	}
	n := len(r.found)
	if err := r.clusters(ctx, api, networks); err != nil {
		r.found = r.found[:n]
		r.missed = map[cloud.ServiceKind]bool{cloud.RDSCluster: true}
		r.faults = append(r.faults, cloud.ServiceFault{API: "RDS clusters", Right: "rds:DescribeDBClusters", Kinds: []cloud.ServiceKind{cloud.RDSCluster}, Err: err})
	}
	return nil
}

// clusters reads the clusters that databases are members of.
func (r *serviceReader) clusters(ctx context.Context, api *rds.Client, networks map[string]string) error {
	return r.paged("DescribeDBClusters", func(mark *string) (*string, error) {
		out, err := api.DescribeDBClusters(ctx, &rds.DescribeDBClustersInput{Marker: mark, MaxRecords: awssdk.Int32(recordsPerPage)})
		if err != nil {
			return nil, err
		}
		for _, x := range out.DBClusters {
			d := description{Service: cloud.Service{
				ID: awssdk.ToString(x.DBClusterArn), Kind: cloud.RDSCluster, Name: awssdk.ToString(x.DBClusterIdentifier), DNSName: awssdk.ToString(x.Endpoint), Alone: true,
			}}
			if d.NetworkID = networks[d.ID]; d.NetworkID == "" {
				continue
			}
			for _, g := range x.VpcSecurityGroups {
				d.GroupIDs = append(d.GroupIDs, awssdk.ToString(g.VpcSecurityGroupId))
			}
			for _, t := range x.TagList {
				d.tag(t.Key, t.Value)
			}
			d.listens(portName(awssdk.ToString(x.Engine)), cloud.TCP, awssdk.ToInt32(x.Port))
			if err := r.add(d); err != nil {
				return nil, err
			}
		}
		return out.Marker, nil
	})
}

// instances reads databases, and notes the networks of the clusters that they are members of.
func (r *serviceReader) instances(ctx context.Context, api *rds.Client, networks map[string]string) error {
	return r.paged("DescribeDBInstances", func(mark *string) (*string, error) {
		out, err := api.DescribeDBInstances(ctx, &rds.DescribeDBInstancesInput{Marker: mark, MaxRecords: awssdk.Int32(recordsPerPage)})
		if err != nil {
			return nil, err
		}
		for _, x := range out.DBInstances {
			if x.DBSubnetGroup == nil {
				continue
			}
			d := description{Service: cloud.Service{
				ID: awssdk.ToString(x.DBInstanceArn), Kind: cloud.RDSInstance, Name: awssdk.ToString(x.DBInstanceIdentifier), NetworkID: awssdk.ToString(x.DBSubnetGroup.VpcId),
				Alone: true,
			}, subnets: []string{}}
			if cluster := awssdk.ToString(x.DBClusterIdentifier); cluster != "" {
				d.Fixed = "its security groups belong to its cluster " + cloud.Words(cluster) + ", which is a service of its own"
				d.cluster = strings.TrimSuffix(d.ID, "db:"+d.Name) + "cluster:" + cluster
				networks[d.cluster] = d.NetworkID
			}
			zones := []string{awssdk.ToString(x.AvailabilityZone), awssdk.ToString(x.SecondaryAvailabilityZone)}
			for _, subnet := range x.DBSubnetGroup.Subnets {
				if zones[0] == "" || subnet.SubnetAvailabilityZone == nil || slices.Contains(zones, awssdk.ToString(subnet.SubnetAvailabilityZone.Name)) {
					d.subnets = append(d.subnets, awssdk.ToString(subnet.SubnetIdentifier))
				}
			}
			for _, g := range x.VpcSecurityGroups {
				d.GroupIDs = append(d.GroupIDs, awssdk.ToString(g.VpcSecurityGroupId))
				d.changing = d.changing || awssdk.ToString(g.Status) != "active"
			}
			for _, t := range x.TagList {
				d.tag(t.Key, t.Value)
			}
			if x.Endpoint != nil {
				d.DNSName = awssdk.ToString(x.Endpoint.Address)
				d.listens(portName(awssdk.ToString(x.Engine)), cloud.TCP, awssdk.ToInt32(x.Endpoint.Port))
			}
			if err := r.add(d); err != nil {
				return nil, err
			}
		}
		return out.Marker, nil
	})
}

// portName is the name of the port of a database or cache, by its engine.
func portName(engine string) string {
	for _, e := range []struct{ part, name string }{
		{"postgres", "postgres"}, {"aurora", "mysql"}, {"mysql", "mysql"}, {"mariadb", "mysql"}, {"oracle", "oracle"}, {"sqlserver", "sqlserver"},
		{"docdb", "mongodb"}, {"valkey", "redis"}, {"redis", "redis"}, {"memcached", "memcached"},
	} {
		if strings.Contains(engine, e.part) {
			return e.name
		}
	}
	return "service"
}

func (r *serviceReader) endpoints(ctx context.Context) error {
	api := r.conn.EC2
	return r.paged("DescribeVpcEndpoints", func(mark *string) (*string, error) {
		out, err := api.DescribeVpcEndpoints(ctx, &ec2.DescribeVpcEndpointsInput{
			NextToken: mark, MaxResults: awssdk.Int32(r.conn.PageSize), Filters: []types.Filter{filter("vpc-endpoint-type", string(types.VpcEndpointTypeInterface))},
		})
		if err != nil {
			return nil, err
		}
		for _, x := range out.VpcEndpoints {
			id := awssdk.ToString(x.VpcEndpointId)
			d := description{Service: cloud.Service{
				ID: arn("ec2", r.conn.Region, cmp.Or(awssdk.ToString(x.OwnerId), r.conn.Owner()), "vpc-endpoint/"+id), Kind: cloud.VPCEndpoint,
				NetworkID: awssdk.ToString(x.VpcId), Tags: values.TagMap(x.Tags),
			}, nics: append([]string{}, x.NetworkInterfaceIds...)}
			d.Name = cmp.Or(d.Tags[values.NameTag], id)
			if awssdk.ToBool(x.RequesterManaged) {
				d.Fixed = "a service of AWS manages it"
			}
			for _, g := range x.Groups {
				d.GroupIDs = append(d.GroupIDs, awssdk.ToString(g.GroupId))
			}
			if len(x.DnsEntries) > 0 {
				d.DNSName = awssdk.ToString(x.DnsEntries[0].DnsName)
			}
			// The cloud's own services listen there, other services where their owners like.
			if service := awssdk.ToString(x.ServiceName); strings.HasPrefix(service, "com.amazonaws.") && !strings.Contains(service, ".vpce.") {
				d.listens("https", cloud.TCP, 443)
			}
			if err := r.add(d); err != nil {
				return nil, err
			}
		}
		return out.NextToken, nil
	})
}

func (r *serviceReader) functions(ctx context.Context) error {
	api := lambda.NewFromConfig(r.conn.Base, func(o *lambda.Options) { o.Region = r.conn.Region })
	return r.paged("ListFunctions", func(mark *string) (*string, error) {
		out, err := api.ListFunctions(ctx, &lambda.ListFunctionsInput{Marker: mark, MaxItems: awssdk.Int32(recordsPerPage)})
		if err != nil {
			return nil, err
		}
		for _, x := range out.Functions {
			if x.VpcConfig == nil || awssdk.ToString(x.VpcConfig.VpcId) == "" {
				continue
			}
			if err := r.add(description{Service: cloud.Service{
				ID: awssdk.ToString(x.FunctionArn), Kind: cloud.LambdaFunction, Name: awssdk.ToString(x.FunctionName), NetworkID: awssdk.ToString(x.VpcConfig.VpcId),
				GroupIDs: slices.Clone(x.VpcConfig.SecurityGroupIds),
			}, subnets: append([]string{}, x.VpcConfig.SubnetIds...), shared: true}); err != nil {
				return nil, err
			}
		}
		return out.NextMarker, nil
	})
}

// unknown notes that the tags of a service are not known.
func (d *description) unknown() {
	d.untold = true
	if d.Fixed == "" {
		d.Fixed, d.Unread = unread, true
	}
}

// tag gives a service a tag.
func (d *description) tag(key, value *string) {
	if d.Tags == nil {
		d.Tags = map[string]string{}
	}
	d.Tags[awssdk.ToString(key)] = awssdk.ToString(value)
}

// listens gives a service a port, and reports whether it is one that the service did not have.
func (d *description) listens(name string, protocol int, port int32) bool {
	if port < 1 || port > 0xffff || slices.ContainsFunc(d.Ports, func(p cloud.ServicePort) bool { return p.Name == name }) {
		return false
	}
	d.Ports = append(d.Ports, cloud.ServicePort{Name: name, Protocol: protocol, Port: uint16(port)})
	return true
}
