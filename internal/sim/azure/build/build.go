package build

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Builder describes an estate in Go. Names that it is given must be good ones; azure.New says which
// are not. The zero value is not usable; see New.
type Builder struct {
	State        azure.State
	subscription string
	location     string
	// interfaces counts the interfaces of machines; their MAC addresses are made from it.
	interfaces int
}

// New begins an estate of one subscription in one location. Ids are made from the names.
func New(tenant, subscription, location string) *Builder {
	return &Builder{
		State: azure.State{
			Tenants:       []azure.Tenant{{ID: tenant, Domain: "nephele.example"}},
			Subscriptions: []azure.Subscription{{ID: subscription, Tenant: tenant, Name: "Nephele"}},
		},
		subscription: subscription, location: location,
	}
}

// GUIDOf is an id that depends on a text alone.
func GUIDOf(text string) string {
	d := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}

// Principal adds an application with a client secret and returns its client id. No assignments mean
// every right.
func (b *Builder) Principal(name, secret string, assignments ...azure.Assignment) string {
	p := azure.Principal{Tenant: b.State.Tenants[0].ID, ClientID: GUIDOf("client " + name), ObjectID: GUIDOf("object " + name), Name: name, Assignments: assignments}
	if secret != "" {
		p.Secrets = []string{secret}
	}
	b.State.Principals = append(b.State.Principals, p)
	return p.ClientID
}

// Group adds a resource group, if it is not there, and returns its id.
func (b *Builder) Group(name string) string {
	g := azure.ResourceGroup{Subscription: b.subscription, Name: name, Location: b.location}
	if !slices.ContainsFunc(b.State.Groups, func(o azure.ResourceGroup) bool { return o.ID().Key() == g.ID().Key() }) {
		b.State.Groups = append(b.State.Groups, g)
	}
	return g.ID().String()
}

// Add adds a resource of a type, with its properties as they are in JSON, and returns its id.
func (b *Builder) Add(group, kind, name string, properties map[string]any, tags map[string]string) string {
	id := b.Group(group) + "/providers/" + kind + "/" + name
	p, _ := azure.PlainValue(properties).(map[string]any)
	if p == nil {
		p = map[string]any{}
	}
	if p["resourceGuid"] == nil {
		p["resourceGuid"] = GUIDOf(id)
	}
	b.State.Resources = append(b.State.Resources, azure.Resource{ID: id, Type: kind, Location: b.location, Tags: tags, Properties: p})
	return id
}

// Network adds a virtual network. A subnet is its name, its prefix, and perhaps the id of its
// network security group.
func (b *Builder) Network(group, name string, space []string, subnets ...[]string) string {
	var list []any
	for _, s := range subnets {
		p := map[string]any{"addressPrefix": s[1]}
		if len(s) > 2 {
			p["networkSecurityGroup"] = map[string]any{"id": s[2]}
		}
		list = append(list, map[string]any{"name": s[0], "properties": p})
	}
	return b.Add(group, "Microsoft.Network/virtualNetworks", name, map[string]any{"addressSpace": map[string]any{"addressPrefixes": space}, "subnets": list}, nil)
}

// RouteTable adds a route table without routes, of the subnets that it names by their ids.
func (b *Builder) RouteTable(group, name string, subnets ...string) string {
	id := b.Add(group, "Microsoft.Network/routeTables", name, map[string]any{"disableBgpRoutePropagation": false, "routes": []any{}}, nil)
	for _, s := range subnets {
		at, _ := document.ParseID(s) // made from the id of a network of this builder
		list, _ := b.find(at.Parent().String()).Properties["subnets"].([]any)
		for _, x := range list {
			if subnet, _ := x.(map[string]any); subnet["name"] == at.Name() {
				subnet["properties"].(map[string]any)["routeTable"] = map[string]any{"id": id}
			}
		}
	}
	return id
}

// Peer connects two networks.
func (b *Builder) Peer(one, other string) {
	for _, pair := range [][2]string{{one, other}, {other, one}} {
		r := b.find(pair[0])
		list, _ := r.Properties["virtualNetworkPeerings"].([]any)
		to, _ := document.ParseID(pair[1]) // made by this builder
		r.Properties["virtualNetworkPeerings"] = append(list, map[string]any{"name": "to-" + to.Name(), "properties": map[string]any{
			"remoteVirtualNetwork": map[string]any{"id": pair[1]}, "allowVirtualNetworkAccess": true,
		}})
	}
}

func (b *Builder) find(id string) *azure.Resource {
	for i := range b.State.Resources {
		if b.State.Resources[i].ID == id {
			return &b.State.Resources[i]
		}
	}
	return nil
}

// Rule is a rule of a network security group in JSON. Words are as in Azure; "" for an address or
// port means *.
func Rule(name, direction string, priority int, access, protocol, source, destination, ports string) map[string]any {
	star := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	return map[string]any{"name": name, "properties": map[string]any{
		"direction": direction, "priority": priority, "access": access, "protocol": star(protocol), "sourcePortRange": "*", "destinationPortRange": star(ports),
		"sourceAddressPrefix": star(source), "destinationAddressPrefix": star(destination),
		"sourcePortRanges": []any{}, "destinationPortRanges": []any{}, "sourceAddressPrefixes": []any{}, "destinationAddressPrefixes": []any{},
	}}
}

// SecurityGroup adds a network security group.
func (b *Builder) SecurityGroup(group, name string, rules ...map[string]any) string {
	return b.Add(group, "Microsoft.Network/networkSecurityGroups", name, map[string]any{"securityRules": rules}, nil)
}

// ApplicationGroup adds an application security group.
func (b *Builder) ApplicationGroup(group, name string) string {
	return b.Add(group, "Microsoft.Network/applicationSecurityGroups", name, nil, nil)
}

// ScaleSet adds a scale set in Uniform orchestration with one running instance for each address.
// nsg may be empty. It returns the ids of the interfaces.
func (b *Builder) ScaleSet(group, name, subnet, nsg string, addresses ...string) (nics []string) {
	const kind = "Microsoft.Compute/virtualMachineScaleSets"
	set := b.Add(group, kind, name, map[string]any{"orchestrationMode": "Uniform"}, nil)
	for i, address := range addresses {
		instance := fmt.Sprintf("%s/virtualMachines/%d", set, i)
		p := map[string]any{
			"virtualMachine": map[string]any{"id": instance},
			"ipConfigurations": []any{map[string]any{"name": "ipconfig1", "properties": map[string]any{
				"primary": true, "privateIPAddress": address, "privateIPAllocationMethod": "Dynamic", "privateIPAddressVersion": "IPv4", "subnet": map[string]any{"id": subnet},
			}}},
		}
		if nsg != "" {
			p["networkSecurityGroup"] = map[string]any{"id": nsg}
		}
		nic := instance + "/networkInterfaces/nic"
		b.State.Resources = append(b.State.Resources,
			azure.Resource{ID: instance, Type: kind + "/virtualMachines", Location: b.location, Power: "running", Properties: map[string]any{
				"vmId": GUIDOf("vm " + instance), "instanceId": fmt.Sprint(i),
				"networkProfile": map[string]any{"networkInterfaces": []any{map[string]any{"id": nic, "properties": map[string]any{"primary": true}}}},
			}},
			azure.Resource{ID: nic, Type: kind + "/virtualMachines/networkInterfaces", Properties: p})
		nics = append(nics, nic)
	}
	return nics
}

// Endpoint adds a private endpoint with its interface. It leads to the part of a service that
// groupID names, such as sqlServer or blob.
func (b *Builder) Endpoint(group, name, subnet, address, groupID string, tags map[string]string) (endpoint, nic string) {
	endpoint = b.Add(group, "Microsoft.Network/privateEndpoints", name, map[string]any{
		"subnet": map[string]any{"id": subnet}, "customDnsConfigs": []any{map[string]any{"fqdn": name + ".privatelink.example", "ipAddresses": []any{address}}},
		"privateLinkServiceConnections": []any{map[string]any{"name": name, "properties": map[string]any{"groupIds": []any{groupID}}}},
	}, tags)
	nic = b.Add(group, "Microsoft.Network/networkInterfaces", name+".nic", map[string]any{
		"privateEndpoint": map[string]any{"id": endpoint},
		"ipConfigurations": []any{map[string]any{"name": "privateEndpointIpConfig", "properties": map[string]any{
			"primary": true, "privateIPAddress": address, "privateIPAllocationMethod": "Dynamic", "privateIPAddressVersion": "IPv4", "subnet": map[string]any{"id": subnet},
		}}},
	}, nil)
	b.find(endpoint).Properties["networkInterfaces"] = []any{map[string]any{"id": nic}}
	return endpoint, nic
}

// Machine adds a running virtual machine with one interface. nsg may be empty.
func (b *Builder) Machine(group, name, subnet, address, nsg string, asgs ...string) (machine, nic string) {
	c := map[string]any{
		"primary":                   true,
		"privateIPAddress":          address,
		"privateIPAllocationMethod": "Static",
		"privateIPAddressVersion":   "IPv4",
		"subnet":                    map[string]any{"id": subnet},
	}
	var refs []any
	for _, a := range asgs {
		refs = append(refs, map[string]any{"id": a})
	}
	if refs != nil {
		c["applicationSecurityGroups"] = refs
	}
	b.interfaces++
	p := map[string]any{
		"ipConfigurations": []any{map[string]any{"name": "ipconfig1", "properties": c}}, "macAddress": fmt.Sprintf("00-0D-3A-00-%02X-%02X", b.interfaces>>8, b.interfaces&0xff), "enableAcceleratedNetworking": true,
		"enableIPForwarding": false, "dnsSettings": map[string]any{"dnsServers": []any{"10.9.9.9"}, "appliedDnsServers": []any{}},
		"nicType": "Standard", "auxiliaryMode": "None", "auxiliarySku": "None",
	}
	if nsg != "" {
		p["networkSecurityGroup"] = map[string]any{"id": nsg}
	}
	nic = b.Add(group, "Microsoft.Network/networkInterfaces", name+"-nic", p, map[string]string{"owner": "somebody"})
	machine = b.Add(group, "Microsoft.Compute/virtualMachines", name, map[string]any{
		"vmId": GUIDOf("vm " + name), "hardwareProfile": map[string]any{"vmSize": "Standard_B1s"},
		"networkProfile": map[string]any{"networkInterfaces": []any{map[string]any{"id": nic, "properties": map[string]any{"primary": true}}}},
	}, map[string]string{"app": name})
	b.find(machine).Power = "running"
	delete(b.find(machine).Properties, "resourceGuid")
	return machine, nic
}
