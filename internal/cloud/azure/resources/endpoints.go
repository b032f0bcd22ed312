package resources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// This file reads native services, and makes the services of private endpoints: the interfaces by
// which databases, storage and other services of Azure are reached from a virtual network. Whose an
// interface is, it says itself, which only the cloud can set; what service it leads to, the
// endpoint says.

const typePrivateEndpoint = "microsoft.network/privateendpoints"

const fixedEndpoint = "a private endpoint has no network security group of its own; that of its subnet filters it where the subnet has network policies for private endpoints"

// ServiceKind is what is read of a kind of services: the type of its resources, and the right that
// it takes.
type ServiceKind struct {
	kind              cloud.ServiceKind
	name, Type, right string
}

// serviceKinds are all of Azure.
func serviceKinds() []ServiceKind {
	return []ServiceKind{
		{cloud.PrivateEndpoint, "private endpoints", typePrivateEndpoint, "Microsoft.Network/privateEndpoints/read"},
		{cloud.LoadBalancer, "load balancers", TypeBalancer, "Microsoft.Network/loadBalancers/read"},
		{cloud.ApplicationGateway, "application gateways", TypeGateway, "Microsoft.Network/applicationGateways/read"},
	}
}

// Among returns the kinds that Azure has.
func Among(kinds []cloud.ServiceKind) []ServiceKind {
	return slices.DeleteFunc(serviceKinds(), func(k ServiceKind) bool { return !slices.Contains(kinds, k.kind) })
}

// IsService reports whether resources of a type, in lower case, are services.
func IsService(typ string) bool {
	return slices.ContainsFunc(serviceKinds(), func(k ServiceKind) bool { return k.Type == typ })
}

// endpoint is a private endpoint.
type endpoint struct {
	Row
	Links []link `json:"privateLinkServiceConnections"`
	// ASGs are the application security groups that its addresses are members of.
	ASGs   []Reference `json:"applicationSecurityGroups"`
	Manual []link      `json:"manualPrivateLinkServiceConnections"`
	DNS    []struct {
		FQDN string `json:"fqdn"`
	} `json:"customDnsConfigs"`
}

// link is the way from an endpoint to a service.
type link struct {
	Properties struct {
		// GroupIDs are the parts of the service that it leads to.
		GroupIDs []string `json:"groupIds"`
	} `json:"properties"`
}

// linkPorts are the ports of parts of services, by the group ids that Azure documents as
// "sub-resources" of private link resources, in lower case. Parts that are not here have no port
// that is known.
var linkPorts = map[string]cloud.ServicePort{
	"sqlserver": {Name: "sqlserver", Protocol: cloud.TCP, Port: 1433}, "sqlondemand": {Name: "sqlserver", Protocol: cloud.TCP, Port: 1433},
	"managedinstance": {Name: "sqlserver", Protocol: cloud.TCP, Port: 1433}, "postgresqlserver": {Name: "postgres", Protocol: cloud.TCP, Port: 5432},
	"mysqlserver": {Name: "mysql", Protocol: cloud.TCP, Port: 3306}, "mariadbserver": {Name: "mysql", Protocol: cloud.TCP, Port: 3306},
	"rediscache": {Name: "redis", Protocol: cloud.TCP, Port: 6380}, "file": {Name: "smb", Protocol: cloud.TCP, Port: 445},
	"blob": https(), "table": https(), "queue": https(), "web": https(), "dfs": https(), "vault": https(), "registry": https(), "sites": https(),
}

func https() cloud.ServicePort {
	return cloud.ServicePort{Name: "https", Protocol: cloud.TCP, Port: 443}
}

// Join puts interfaces of private endpoints into the application security groups that their
// endpoints name, so that rules which name these groups are read to mean them.
func (w *Region) Join(rows []Row) {
	// What cannot be read of an endpoint is reported when its service is added.
	endpoints, _ := partsOf[endpoint](rows, typePrivateEndpoint, func(e *endpoint) *Row { return &e.Row })
	for _, n := range w.NICs {
		e := endpoints[n.PrivateEndpoint.key()]
		if e == nil {
			continue
		}
		for i := range n.Configurations {
			p := &n.Configurations[i].Properties
			for _, g := range e.ASGs {
				if w.asgs[g.key()] != nil && !slices.ContainsFunc(p.ASGs, func(o Reference) bool { return o.key() == g.key() }) {
					p.ASGs = append(p.ASGs, g)
				}
			}
		}
	}
}

// AddServices adds the services of some kinds that rows tell, and what is missing of them. kept are
// rows of an earlier answer that this one leaves out: they are shown, and missing none the less.
func (w *Region) AddServices(snap *cloud.Snapshot, kinds []ServiceKind, rows, kept []Row) {
	for _, k := range kinds {
		fault := w.addKind(snap, k.kind, rows, kept)
		if fault == nil {
			continue
		}
		f := cloud.ServiceFault{API: k.name, Right: k.right, Err: fault}
		if k.kind != cloud.PrivateEndpoint {
			f.Kinds = []cloud.ServiceKind{k.kind}
		}
		snap.ServiceFaults = append(snap.ServiceFaults, f)
	}
	slices.SortFunc(snap.Services, func(a, b cloud.Service) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(snap.Interfaces, func(a, b cloud.Interface) int { return cmp.Compare(a.ID, b.ID) })
}

// addKind adds the services of a kind that rows tell. It returns why some are missing.
func (w *Region) addKind(snap *cloud.Snapshot, kind cloud.ServiceKind, rows, kept []Row) error {
	switch kind {
	case cloud.LoadBalancer:
		return cmp.Or(w.addBalancers(snap, slices.Concat(rows, kept)), w.leftOut(TypeBalancer, rows))
	case cloud.ApplicationGateway:
		return cmp.Or(w.addGateways(snap, slices.Concat(rows, kept)), w.leftOut(TypeGateway, rows))
	}
	endpoints, err := partsOf[endpoint](rows, typePrivateEndpoint, func(e *endpoint) *Row { return &e.Row })
	snap.Services = append(snap.Services, w.endpointServices(snap, endpoints)...)
	return err
}

func (w *Region) addBalancers(snap *cloud.Snapshot, rows []Row) error {
	all, err := partsOf[balancer](rows, TypeBalancer, func(b *balancer) *Row { return &b.Row })
	behind := w.backends()
	for _, k := range slices.Sorted(maps.Keys(all)) {
		s, stands := all[k].service(w, behind)
		snap.Services, snap.Interfaces = append(snap.Services, s), append(snap.Interfaces, stands...)
	}
	return err
}

func (w *Region) addGateways(snap *cloud.Snapshot, rows []Row) error {
	all, err := partsOf[gateway](rows, TypeGateway, func(g *gateway) *Row { return &g.Row })
	behind, shared := w.backends(), sharedSubnets(all)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		s, stands := all[k].service(w, behind, shared)
		snap.Services, snap.Interfaces = append(snap.Services, s), append(snap.Interfaces, stands...)
	}
	return err
}

// sharedSubnets are the subnets with several gateways, also if some of these are not told any more.
func sharedSubnets(all map[string]*gateway) map[string]bool {
	seen, out := map[string]bool{}, map[string]bool{}
	for _, g := range all {
		for _, s := range g.subnets() {
			out[s] = out[s] || seen[s] || g.shared
			seen[s] = true
		}
	}
	return out
}

// leftOut is an error if an interface is behind a service of a type that rows do not tell.
func (w *Region) leftOut(typ string, rows []Row) error {
	out := w.Unseen(typ, rows)
	for _, id := range slices.Sorted(maps.Keys(out)) {
		return &cloud.Error{Class: cloud.Auth, Denied: true, Call: CallGraph, Err: fmt.Errorf("%s names %s, which the answer leaves out", out[id], cloud.Words(id))}
	}
	return nil
}

// Unseen are the services of a type and of the subscription that interfaces are behind and rows do
// not tell, each with such an interface.
func (w *Region) Unseen(typ string, rows []Row) map[string]string {
	told, out := map[string]bool{}, map[string]string{}
	for i := range rows {
		told[strings.ToLower(rows[i].ID)] = true
	}
	for _, k := range slices.Sorted(maps.Keys(w.NICs)) {
		n := w.NICs[k]
		for i := range n.Configurations {
			pools := n.Configurations[i].Properties.Pools
			if typ == TypeGateway {
				pools = n.Configurations[i].Properties.GatewayPools
			}
			for _, p := range pools {
				id, _, found := strings.Cut(p.key(), "/backendaddresspools/")
				if found && !told[id] && out[id] == "" && strings.HasPrefix(id, "/subscriptions/"+w.subscription+"/") {
					out[id] = k
				}
			}
		}
	}
	return out
}

// partsOf reads those rows that are of a type, by their ids in lower case. It goes on after one
// that cannot be read, and returns its error.
func partsOf[T any](rows []Row, typ string, header func(*T) *Row) (map[string]*T, error) {
	out := map[string]*T{}
	var bad error
	for i := range rows {
		if !strings.EqualFold(rows[i].Type, typ) {
			continue
		}
		x := new(T)
		*header(x) = rows[i]
		if len(rows[i].Properties) > 0 {
			if err := json.Unmarshal(rows[i].Properties, x); err != nil {
				bad = cmp.Or(bad, error(&cloud.Error{Class: cloud.Unavailable, Call: CallGraph, Err: fmt.Errorf("%s: %w", cloud.Words(rows[i].ID), err)}))
				continue
			}
		}
		out[strings.ToLower(rows[i].ID)] = x
	}
	return out, bad
}

// endpointServices are the private endpoints that interfaces of a snapshot belong to, sorted by ID.
// One without an interface in sight has no address, and is not told.
func (w *Region) endpointServices(snap *cloud.Snapshot, endpoints map[string]*endpoint) []cloud.Service {
	at := map[string]*cloud.Service{}
	for i := range snap.Interfaces {
		nic := &snap.Interfaces[i]
		id := w.NICs[nic.ID].PrivateEndpoint.key()
		if id == "" || !strings.HasPrefix(id, "/subscriptions/"+w.subscription+"/") {
			continue
		}
		s := at[id]
		if s == nil {
			s = &cloud.Service{ID: id, Kind: cloud.PrivateEndpoint, Name: id[strings.LastIndex(id, "/")+1:], NetworkID: nic.NetworkID, Fixed: fixedEndpoint}
			if e := endpoints[id]; e != nil {
				e.describe(s)
			}
			at[id] = s
		}
		s.Interfaces = append(s.Interfaces, nic.ID)
		s.Private = append(s.Private, nic.PrivateIPs...)
		for _, g := range nic.GroupIDs {
			if !slices.Contains(s.GroupIDs, g) {
				s.GroupIDs = append(s.GroupIDs, g)
			}
		}
		slices.Sort(s.GroupIDs)
	}
	var out []cloud.Service
	for _, id := range slices.Sorted(maps.Keys(at)) {
		out = append(out, *at[id])
	}
	return out
}

// describe gives a service what its endpoint says.
func (e *endpoint) describe(s *cloud.Service) {
	s.Name, s.Tags = cmp.Or(e.Name, s.Name), PortTags(e.Tags)
	if len(e.DNS) > 0 {
		s.DNSName = e.DNS[0].FQDN
	}
	for _, l := range slices.Concat(e.Links, e.Manual) {
		for _, part := range l.Properties.GroupIDs {
			// Of storage in a second region the part has a name of its own: blob_secondary.
			part, _, _ = strings.Cut(strings.ToLower(part), "_")
			p, known := linkPorts[part]
			if known && !slices.ContainsFunc(s.Ports, func(o cloud.ServicePort) bool { return o.Name == p.Name }) {
				s.Ports = append(s.Ports, p)
			}
		}
	}
	slices.SortFunc(s.Ports, func(a, b cloud.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Name, b.Name))
	})
}
