package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// This file makes native services of private endpoints: the interfaces by which databases, storage
// and other services of Azure are reached from a virtual network. Whose an interface is, it says
// itself, which only the cloud can set; what service it leads to, the endpoint says.

const typePrivateEndpoint = "microsoft.network/privateendpoints"

const fixedEndpoint = "a private endpoint has no network security group of its own; that of its subnet filters it where the subnet has network policies for private endpoints"

// Show implements cloud.ServiceShower.
func (a *Account) Show(kinds []cloud.ServiceKind) cloud.Provider {
	if !slices.Contains(kinds, cloud.PrivateEndpoint) {
		return a
	}
	return &shown{a}
}

// shown is an account whose snapshots show services.
type shown struct{ *Account }

// Observe implements cloud.Provider.
func (s *shown) Observe(ctx context.Context, scope cloud.Scope) (*cloud.Snapshot, error) {
	return s.observe(ctx, scope, true)
}

// endpoint is a private endpoint.
type endpoint struct {
	row
	Links  []link `json:"privateLinkServiceConnections"`
	Manual []link `json:"manualPrivateLinkServiceConnections"`
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

// readEndpoints reads the private endpoints of a region. Resource Graph leaves out those that the
// role may not read, without a word: these are known by their interfaces.
func (a *Account) readEndpoints(ctx context.Context, region string) (map[string]*endpoint, error) {
	rows, err := a.rows(ctx, query(region, typePrivateEndpoint))
	if err != nil {
		return nil, err
	}
	out := map[string]*endpoint{}
	for i := range rows {
		e := &endpoint{row: rows[i]}
		if len(e.Properties) > 0 {
			if err := json.Unmarshal(e.Properties, e); err != nil {
				return nil, &cloud.Error{Class: cloud.Unavailable, Call: callGraph, Err: fmt.Errorf("%s: %w", cloud.Words(e.ID), err)}
			}
		}
		out[strings.ToLower(e.ID)] = e
	}
	return out, nil
}

// services are the private endpoints that interfaces of a snapshot belong to, sorted by ID. One
// without an interface in sight has no address, and is not told.
func (w *world) services(snap *cloud.Snapshot, endpoints map[string]*endpoint) []cloud.Service {
	at := map[string]*cloud.Service{}
	for i := range snap.Interfaces {
		nic := &snap.Interfaces[i]
		id := w.nics[nic.ID].PrivateEndpoint.key()
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
	}
	var out []cloud.Service
	for _, id := range sortedKeys(at) {
		out = append(out, *at[id])
	}
	return out
}

// describe gives a service what its endpoint says.
func (e *endpoint) describe(s *cloud.Service) {
	s.Name, s.Tags = cmp.Or(e.Name, s.Name), portTags(e.Tags)
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
