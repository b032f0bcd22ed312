package native

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// This file makes native services of interfaces and of what the APIs of services describe. Only the
// cloud is believed about the service that an interface belongs to: the requester and the type of
// an interface are the cloud's to set, and so is the description of an interface that it has made
// itself.

// Region is what reads and refreshes a region without its services.
type Region interface {
	Observe(ctx context.Context, scope cloud.Scope) (*cloud.Snapshot, error)
	Refresh(ctx context.Context, last *cloud.Snapshot, ids []string) (*cloud.Snapshot, error)
}

// Services are the native services of an account. A service with a group of a Nephele controller is
// shown whatever was asked for. It remembers what the APIs of services have described: an API that
// fails is no reason to forget, and an event about an interface none to ask again.
type Services struct {
	inner   Region
	connect func(region string) *Conn
	kinds   map[cloud.ServiceKind]bool

	mu      sync.Mutex
	regions map[string]knowledge
	books   map[string]*serviceBook // by region
	// written are the services that were written to and not described since, by ID, with the number
	// of the last writing; writings counts these.
	written  map[string]int
	writings int
}

// knowledge is what is remembered of a region. It is never written to, but replaced.
type knowledge struct {
	described *described // nil before the first reading
	// held are the kinds of the services that hold a group of ours, or remember former ones.
	held map[cloud.ServiceKind]bool
	// whose are the services that interfaces were found to be of, by ID: an interface is never that
	// of another one later. It is the cluster where only that is known. nics are the interfaces of
	// each service.
	whose map[string]string
	nics  map[string][]string
}

// New shows services of the kinds beside what inner reads.
func New(inner Region, connect func(region string) *Conn, kinds []cloud.ServiceKind) *Services {
	s := &Services{
		inner: inner, connect: connect,
		kinds: map[cloud.ServiceKind]bool{}, regions: map[string]knowledge{}, written: map[string]int{}, books: map[string]*serviceBook{},
	}
	for _, k := range kinds {
		s.kinds[k] = true
	}
	return s
}

// Observe reads a region with its services.
func (s *Services) Observe(ctx context.Context, scope cloud.Scope) (*cloud.Snapshot, error) {
	var d *described
	var wg sync.WaitGroup
	services, cancel := context.WithCancel(ctx)
	defer cancel()
	var fault error
	wg.Go(func() {
		fault = recovered.Do(func() { d = s.describe(services, scope.Region, s.asked(scope.Region)) })
	})
	snap, err := s.inner.Observe(ctx, scope)
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err = cmp.Or(err, fault); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, s.connect(scope.Region).classify("Observe", ctx.Err())
	}
	held := kindsHeld(snap)
	maps.DeleteFunc(held, func(k cloud.ServiceKind, _ bool) bool { return d.kinds[k] })
	if len(held) > 0 {
		d = d.and(s.describe(ctx, scope.Region, held))
	}
	return s.with(scope.Region, snap, d)
}

// Refresh brings a snapshot up to date. What the APIs of services say is as old as the last reading
// of the whole region, but for the services that are named; which interfaces there are, and what
// addresses they have, is not.
func (s *Services) Refresh(ctx context.Context, last *cloud.Snapshot, ids []string) (*cloud.Snapshot, error) {
	known := s.known(last.Region)
	d, again := known.described, map[cloud.ServiceKind]bool{}
	if d == nil {
		d, again = &described{}, s.asked(last.Region)
	}
	var objects []string
	for _, id := range ids {
		if !Is(id) {
			objects = append(objects, id)
			continue
		}
		objects = append(objects, known.nics[id]...)
		for i := range d.services {
			if d.services[i].ID == id {
				again[d.services[i].Kind] = true
			}
		}
	}
	snap, err := s.inner.Refresh(ctx, last, objects)
	if err != nil {
		return nil, err
	}
	if !snap.ObservedAt.Equal(last.ObservedAt) { // it was read whole
		again = s.asked(last.Region)
	}
	if len(again) > 0 {
		d = d.and(s.describe(ctx, last.Region, again))
	}
	if ctx.Err() != nil {
		return nil, s.connect(last.Region).classify("Refresh", ctx.Err())
	}
	return s.with(last.Region, snap, d)
}

func (s *Services) known(region string) knowledge {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.regions[region]
}

// asked are the kinds to be read in a region.
func (s *Services) asked(region string) map[cloud.ServiceKind]bool {
	out := maps.Clone(s.kinds)
	maps.Copy(out, s.known(region).held)
	return out
}

// kindsHeld are the kinds of the services whose interfaces hold a group of a controller of ours.
func kindsHeld(snap *cloud.Snapshot) map[cloud.ServiceKind]bool {
	ours, out := map[string]bool{}, map[cloud.ServiceKind]bool{}
	for i := range snap.Groups {
		if snap.Groups[i].Tags[cloud.TagCluster] != "" {
			ours[snap.Groups[i].ID] = true
		}
	}
	for i := range snap.Interfaces {
		n := &snap.Interfaces[i]
		if !n.Managed || !slices.ContainsFunc(n.GroupIDs, func(id string) bool { return ours[id] }) {
			continue
		}
		if m, ok := makerOf(n, snap.Region); ok {
			out[m.kind] = true
		}
	}
	return out
}

// with adds the services to a snapshot.
func (s *Services) with(region string, snap *cloud.Snapshot, d *described) (*cloud.Snapshot, error) {
	out := *snap
	out.Services, out.ServiceFaults = servicesOf(snap, d, s.known(region).whose), d.faults
	k := knowledge{described: d, held: kindsHeld(snap), whose: map[string]string{}, nics: map[string][]string{}}
	for i := range out.Services {
		x := &out.Services[i]
		if cloud.FormerGroups(x.Tags) != nil {
			k.held[x.Kind] = true
		}
		k.nics[x.ID] = x.Interfaces
		for _, id := range x.Interfaces {
			if id != x.ID && (partOf(x.Kind) == "" || k.whose[id] == "") { // else it is anybody's that is told later
				k.whose[id] = x.ID
			}
		}
	}
	s.mu.Lock()
	s.regions[region] = k
	s.mu.Unlock()
	n := 0
	for i := range out.Services {
		n += bounds.Weight(&out.Services[i])
	}
	if bound := s.connect(region).Bounds.Objects; n > bound {
		return nil, &cloud.Error{Class: cloud.Terminal, Call: "Observe", Err: &cloud.BoundError{What: "the services of the account are", Bound: int64(bound), Unit: "objects", Flag: bounds.FlagObjects}}
	}
	return &out, nil
}

// described is what the APIs of services have said of a region.
type described struct {
	kinds    map[cloud.ServiceKind]bool // that were asked for
	services []description              // sorted by ID
	faults   []cloud.ServiceFault
}

// and returns what is described, with other kinds, or the same ones as they are described later.
func (d *described) and(later *described) *described {
	out := &described{kinds: maps.Clone(later.kinds), services: slices.Clone(later.services), faults: slices.Clone(later.faults)}
	for k := range d.kinds {
		out.kinds[k] = true
	}
	for i := range d.services {
		if !later.kinds[d.services[i].Kind] {
			out.services = append(out.services, d.services[i])
		}
	}
	for _, f := range d.faults {
		if !slices.ContainsFunc(f.Kinds, func(k cloud.ServiceKind) bool { return later.kinds[k] }) {
			out.faults = append(out.faults, f)
		}
	}
	slices.SortStableFunc(out.services, func(a, b description) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(out.faults, func(a, b cloud.ServiceFault) int { return cmp.Compare(a.API, b.API) })
	return out
}

// description is a service without its interfaces, and how to know these.
type description struct {
	cloud.Service
	// nics are the IDs of its interfaces, if the API tells them.
	nics []string
	// subnets, if the API tells no interfaces, are those in which its interfaces may be; these hold
	// exactly its groups then. Others may look the same.
	subnets []string
	// shared is true if services with the same subnets and groups have the same interfaces.
	shared bool
	// cluster is the ID of the cluster whose groups it has; empty if it has its own.
	cluster string
	// untold is true if its tags are not known at present: they stay as they were last told.
	untold bool
	// changing is true if its groups are being changed, so that its interfaces may hold any.
	changing bool
}

// claims reports whether an interface may be one of the service. whose is the service that it was
// found to be of before, empty if none.
func (d *description) claims(n *cloud.Interface, m made, whose string) bool {
	switch {
	case m.kind != d.Kind || d.NetworkID != "" && n.NetworkID != d.NetworkID:
		return false
	case d.nics != nil:
		return slices.Contains(d.nics, n.ID)
	case d.subnets != nil && whose != "" && !d.shared:
		return whose == d.ID || whose == d.cluster
	case d.subnets != nil:
		return slices.Contains(d.subnets, n.SubnetID) && (d.changing || slices.Equal(n.GroupIDs, d.GroupIDs))
	}
	return m.id == d.ID
}

// made is what an interface says of the service that it is made for.
type made struct {
	kind cloud.ServiceKind
	// id is the ARN of the service, and name its name; both are empty if the interface does not
	// tell, or not surely.
	id, name string
}

// maker is how the interfaces of a kind of services look.
type maker struct {
	kind cloud.ServiceKind
	// requester is the maker of such interfaces, empty if that differs from region to region;
	// ifType is their type, which users cannot choose for interfaces of their own.
	requester, ifType string
	description       *regexp.Regexp
	// arn is the service and the resource of the ARN, and name the name, of what the description
	// says; arn is empty if the description does not say which service it is.
	arn, name string
}

// makers has a row for each kind. The source of requesters, types and descriptions is
// "Requester-managed network interfaces" in the user guide of EC2, and its API reference.
var makers = []maker{
	{kind: cloud.RDSInstance, requester: "amazon-rds", ifType: "interface", description: regexp.MustCompile(`^RDSNetworkInterface$`)},
	{kind: cloud.ElastiCacheCluster, requester: "amazon-elasticache", ifType: "interface", description: regexp.MustCompile(`^ElastiCache ([A-Za-z0-9-]+)$`),
		arn: "elasticache:cluster:$1", name: "$1"},
	{kind: cloud.ApplicationLoadBalancer, requester: "amazon-elb", ifType: "interface", description: regexp.MustCompile(`^ELB (app/([A-Za-z0-9-]+)/[0-9a-f]+)$`),
		arn: "elasticloadbalancing:loadbalancer/$1", name: "$2"},
	{kind: cloud.NetworkLoadBalancer, ifType: "network_load_balancer", description: regexp.MustCompile(`^ELB (net/([A-Za-z0-9-]+)/[0-9a-f]+)$`),
		arn: "elasticloadbalancing:loadbalancer/$1", name: "$2"},
	{kind: cloud.GatewayLoadBalancer, ifType: "gateway_load_balancer", description: regexp.MustCompile(`^ELB (gwy/([A-Za-z0-9-]+)/[0-9a-f]+)$`),
		arn: "elasticloadbalancing:loadbalancer/$1", name: "$2"},
	{kind: cloud.VPCEndpoint, ifType: "vpc_endpoint", description: regexp.MustCompile(`^VPC Endpoint Interface (vpce-[0-9a-f]+)$`),
		arn: "ec2:vpc-endpoint/$1", name: "$1"},
	{kind: cloud.EFSFileSystem, ifType: "efs", description: regexp.MustCompile(`^EFS mount target for (fs-[0-9a-f]+) \(fsmt-[0-9a-f]+\)$`),
		arn: "elasticfilesystem:file-system/$1", name: "$1"},
	{kind: cloud.LambdaFunction, ifType: "lambda", description: regexp.MustCompile(`^AWS Lambda VPC ENI-[A-Za-z0-9-_]+$`)},
}

// makerOf says which service an interface is made for; false if none that we know.
func makerOf(n *cloud.Interface, region string) (made, bool) {
	if !n.Managed || n.Requester == "" {
		return made{}, false
	}
	for _, m := range makers {
		if n.Type != m.ifType || m.requester != "" && n.Requester != m.requester {
			continue
		}
		parts := m.description.FindStringSubmatchIndex(n.Description)
		if parts == nil {
			continue
		}
		out := made{kind: m.kind}
		if m.arn != "" {
			service, resource, _ := strings.Cut(m.arn, ":")
			out.id = arn(service, region, n.OwnerID, string(m.description.ExpandString(nil, resource, n.Description, parts)))
			out.name = string(m.description.ExpandString(nil, m.name, n.Description, parts))
		}
		return out, true
	}
	return made{}, false
}

// arn is the ARN of a resource.
func arn(service, region, account, resource string) string {
	partition := "aws"
	switch {
	case strings.HasPrefix(region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return strings.Join([]string{"arn", partition, service, region, account, resource}, ":")
}

// unread says why the groups of a service are not set whose API was not read.
const unread = "its API is not read now, so what it remembers of its own groups is not known"

// servicesOf returns the services of a region that were asked for, sorted by ID: the services that
// APIs have described, and the services that only interfaces show.
func servicesOf(snap *cloud.Snapshot, d *described, whose map[string]string) []cloud.Service {
	var nics []*cloud.Interface
	var madeFor []made
	for i := range snap.Interfaces {
		if m, ok := makerOf(&snap.Interfaces[i], snap.Region); ok && d.kinds[m.kind] {
			nics, madeFor = append(nics, &snap.Interfaces[i]), append(madeFor, m)
		}
	}
	var out []cloud.Service
	known := map[string]bool{} // IDs of described services
	told := make([]bool, len(nics))
	claimed := claimsOn(d, nics, madeFor, whose)
	for i := range d.services {
		known[d.services[i].ID] = true
		s := d.services[i].Service
		var mine []*cloud.Interface
		for k, by := range claimed {
			if partOf(s.Kind) != "" {
				by = d.ofCluster(s.ID, by, i)
			}
			switch {
			case !slices.Contains(by, i):
			case len(by) > 1 && !d.services[i].shared:
				other := by[0]
				if other == i {
					other = by[1]
				}
				told[k], s.Ambiguous = true, "interface "+nics[k].ID+" may be its or that of "+cloud.Words(cmp.Or(d.services[other].Name, d.services[other].ID))
			default:
				told[k], mine = true, append(mine, nics[k])
			}
		}
		if s.Ambiguous != "" {
			mine = nil
		}
		settle(&s, mine)
		out = append(out, s)
	}
	at := map[string]int{}
	for k, nic := range nics {
		if told[k] {
			continue
		}
		m := madeFor[k]
		id := cmp.Or(m.id, nic.ID)
		if known[id] {
			continue
		}
		i, seen := at[id]
		if !seen {
			i = len(out)
			at[id] = i
			out = append(out, cloud.Service{ID: id, Kind: m.kind, Name: m.name, NetworkID: nic.NetworkID, Fixed: cmp.Or(fixed(m.kind), unread), Unread: fixed(m.kind) == ""})
		}
		mine := []*cloud.Interface{nic}
		for _, known := range out[i].Interfaces {
			mine = append(mine, nics[slices.IndexFunc(nics, func(n *cloud.Interface) bool { return n.ID == known })])
		}
		settle(&out[i], mine)
	}
	slices.SortFunc(out, func(a, b cloud.Service) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// ofCluster are the services that claim an interface, with the members of a cluster as one: the
// cluster, at place i.
func (d *described) ofCluster(id string, by []int, i int) []int {
	var out []int
	for _, x := range by {
		if d.services[x].cluster == id {
			x = i
		}
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// claimsOn returns, for every interface, the places of the descriptions whose it may be.
func claimsOn(d *described, nics []*cloud.Interface, madeFor []made, whose map[string]string) [][]int {
	byNIC, byID, byPlace := map[string][]int{}, map[string][]int{}, map[string][]int{}
	for i := range d.services {
		s := &d.services[i]
		switch {
		case s.nics != nil:
			for _, id := range s.nics {
				byNIC[id] = append(byNIC[id], i)
			}
		case s.subnets != nil:
			for _, id := range s.subnets {
				byPlace[id] = append(byPlace[id], i)
			}
		default:
			byID[s.ID] = append(byID[s.ID], i)
		}
	}
	out := make([][]int, len(nics))
	for k, nic := range nics {
		for _, i := range slices.Concat(byNIC[nic.ID], byID[madeFor[k].id], byPlace[nic.SubnetID]) {
			if d.services[i].claims(nic, madeFor[k], whose[nic.ID]) {
				out[k] = append(out[k], i)
			}
		}
	}
	return out
}

// settle gives a service its interfaces, and what follows from them.
func settle(s *cloud.Service, nics []*cloud.Interface) {
	slices.SortFunc(nics, func(a, b *cloud.Interface) int { return cmp.Compare(a.ID, b.ID) })
	s.Interfaces, s.Private, s.Public = nil, nil, nil
	groups := s.GroupIDs
	for _, n := range nics {
		s.Interfaces = append(s.Interfaces, n.ID)
		s.Private, s.Public = addAddrs(s.Private, n.PrivateIPs), addAddrs(s.Public, n.PublicIPs)
		groups = append(slices.Clip(groups), n.GroupIDs...)
		s.NetworkID = cmp.Or(s.NetworkID, n.NetworkID)
	}
	groups = slices.Sorted(slices.Values(groups))
	s.GroupIDs = slices.Compact(groups)
	if s.Kind == cloud.EFSFileSystem && s.Fixed == "" && differ(s, nics) {
		s.Fixed = differing
	}
}

func addAddrs(to, from []netip.Addr) []netip.Addr {
	for _, a := range from {
		if !slices.Contains(to, a) {
			to = append(to, a)
		}
	}
	return to
}

// fixed says why the groups of services of a kind cannot be set; empty if they can, by the calls of
// setters.
func fixed(k cloud.ServiceKind) string {
	switch k {
	case cloud.GatewayLoadBalancer:
		return "gateway load balancers have no security groups"
	case cloud.LambdaFunction:
		return "the security groups of a function are part of its configuration, and functions with the same ones share interfaces"
	}
	return ""
}

// partOf is the kind of the members of services of a kind: these have the interfaces, and the whole
// has what sets their groups. It is empty if services of the kind have no members.
func partOf(k cloud.ServiceKind) cloud.ServiceKind {
	switch k {
	case cloud.RDSCluster:
		return cloud.RDSInstance
	case cloud.ElastiCacheReplicationGroup:
		return cloud.ElastiCacheCluster
	}
	return ""
}
