package document

import (
	"net/netip"
	"slices"
	"strings"
)

// Types of resources, in lower case as they are compared.
const (
	TypeNSG      = "microsoft.network/networksecuritygroups"
	TypeASG      = "microsoft.network/applicationsecuritygroups"
	TypeNIC      = "microsoft.network/networkinterfaces"
	TypeVNet     = "microsoft.network/virtualnetworks"
	TypeSubnet   = "microsoft.network/virtualnetworks/subnets"
	TypePeering  = "microsoft.network/virtualnetworks/virtualnetworkpeerings"
	TypeRule     = "microsoft.network/networksecuritygroups/securityrules"
	TypePublicIP = "microsoft.network/publicipaddresses"
	TypeVM       = "microsoft.compute/virtualmachines"
	TypeSet      = "microsoft.compute/virtualmachinescalesets"
	TypeInstance = "microsoft.compute/virtualmachinescalesets/virtualmachines"
	TypeEndpoint = "microsoft.network/privateendpoints"
	TypeBalancer = "microsoft.network/loadbalancers"
	TypeGateway  = "microsoft.network/applicationgateways"
	TypeSetNIC   = "microsoft.compute/virtualmachinescalesets/virtualmachines/networkinterfaces"
	TypeTable    = "microsoft.network/routetables"
	TypeRoute    = "microsoft.network/routetables/routes"
)

// Network is a virtual network made ready.
type Network struct {
	Space    []netip.Prefix
	Subnets  []Subnet
	Peerings []Peering
}

// Subnet is a subnet of a virtual network.
type Subnet struct {
	Name     string
	Prefixes []netip.Prefix
	NSG      string // key; empty if there is none
	// endpoints tells that the group is about private endpoints as well.
	Endpoints bool
	Routes    string // key of the route table; empty if there is none
}

// Peering is one side of a peering of virtual networks.
type Peering struct {
	Remote string // key of the other network
	Access bool
	// remoteGateways and transit say that the gateways of the other end are used, and that its own
	// are lent.
	RemoteGateways, Transit bool
}

// NIC is a network interface made ready.
type NIC struct {
	Configurations []Configuration
	NSG            string // key; empty if there is none
	Endpoint       string // key of the private endpoint that it is of; empty for others
	Forwards       bool   // takes packets for addresses that are not its own, and sends such
}

// Configuration is an address of an interface, with what it belongs to.
type Configuration struct {
	Name    string
	primary bool
	Addr    netip.Addr // invalid if the cloud has yet to choose one
	Subnet  string     // key
	Public  string     // key of the public address; empty if there is none
	ASGs    []string   // keys
	Pools   []string   // keys of backend pools of load balancers and application gateways
	v6      bool
}

// InNetwork takes the key of a subnet apart: that of its network, and its name. It is false for
// anything else.
func InNetwork(subnet string) (network, name string, ok bool) {
	network, name, ok = strings.Cut(subnet, "/subnets/")
	at := strings.LastIndex(network, "/providers/")
	return network, name, ok && at >= 0 && name != "" && !strings.Contains(name, "/") && strings.HasPrefix(network[at:], "/providers/"+TypeVNet+"/")
}

// Network is the key of the virtual network that the interface is in.
func (n *NIC) Network() string {
	for _, c := range n.Configurations {
		if network, _, ok := InNetwork(c.Subnet); ok {
			return network
		}
	}
	return ""
}

// Machine is a virtual machine made ready.
type Machine struct {
	NICs []string // keys
}

type reference struct {
	ID string `json:"id"`
}

// key is what the reference is compared by; empty if there is none.
func (r *reference) key() string {
	if r == nil || r.ID == "" {
		return ""
	}
	return Key(r.ID)
}

func parsePrefixes(one string, many []string) ([]netip.Prefix, error) {
	if one != "" {
		many = append([]string{one}, many...)
	}
	var out []netip.Prefix
	for _, text := range many {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, BadRequest(
				"InvalidAddressPrefixFormat",
				"Address prefix %s of resource is not formatted correctly. It should follow CIDR notation, for example 10.0.0.0/24.",
				text,
			)
		}
		out = append(out, p)
	}
	return out, nil
}

func parseNetwork(id ID, properties map[string]any) (*Network, error) {
	var d struct {
		AddressSpace struct {
			AddressPrefixes []string `json:"addressPrefixes"`
		} `json:"addressSpace"`
		Subnets []struct {
			Name       string `json:"name"`
			Properties struct {
				AddressPrefix   string     `json:"addressPrefix"`
				AddressPrefixes []string   `json:"addressPrefixes"`
				NSG             *reference `json:"networkSecurityGroup"`
				Routes          *reference `json:"routeTable"`
				Endpoints       string     `json:"privateEndpointNetworkPolicies"`
			} `json:"properties"`
		} `json:"subnets"`
		Peerings []struct {
			Name       string `json:"name"`
			Properties struct {
				Remote *reference `json:"remoteVirtualNetwork"`
				Access *bool      `json:"allowVirtualNetworkAccess"`
				// Uses and Transit say whose gateways lead on.
				Uses    bool `json:"useRemoteGateways"`
				Transit bool `json:"allowGatewayTransit"`
			} `json:"properties"`
		} `json:"virtualNetworkPeerings"`
	}
	if err := decode(properties, &d); err != nil {
		return nil, err
	}
	out := &Network{}
	var err error
	if out.Space, err = parsePrefixes("", d.AddressSpace.AddressPrefixes); err != nil {
		return nil, err
	}
	if a, b, overlap := overlapping(out.Space); overlap {
		return nil, BadRequest("NetcfgInvalidVirtualNetworkSite", "Address prefixes %s and %s of virtual network %s overlap.", a, b, id.Name())
	}
	names := map[string]bool{}
	for _, s := range d.Subnets {
		if err := CheckName(s.Name); err != nil {
			return nil, err
		}
		prefixes, err := parsePrefixes(s.Properties.AddressPrefix, s.Properties.AddressPrefixes)
		if err != nil {
			return nil, err
		}
		if names[strings.ToLower(s.Name)] || len(prefixes) == 0 {
			return nil, badFormat("InvalidSubnet", "Subnet "+s.Name+" appears twice or has no address prefix.")
		}
		names[strings.ToLower(s.Name)] = true
		for _, p := range prefixes {
			inside := false
			for _, space := range out.Space {
				inside = inside || space.Bits() <= p.Bits() && space.Contains(p.Addr())
			}
			if !inside {
				return nil, BadRequest("NetcfgInvalidSubnet", "Subnet '%s' is not valid because its IP address range is outside the IP address range of "+
					"virtual network '%s'.", s.Name, id.Name())
			}
			for _, other := range out.Subnets {
				for _, q := range other.Prefixes {
					if p.Overlaps(q) {
						return nil, BadRequest("NetcfgSubnetRangesOverlap", "Subnet '%s' is not valid because its IP address range overlaps with that of an "+
							"existing subnet in virtual network '%s'.", s.Name, id.Name())
					}
				}
			}
		}
		out.Subnets = append(out.Subnets, Subnet{
			s.Name, prefixes, s.Properties.NSG.key(), s.Properties.Endpoints == "Enabled" || s.Properties.Endpoints == "NetworkSecurityGroupEnabled",
			s.Properties.Routes.key(),
		})
	}
	for _, p := range d.Peerings {
		if p.Properties.Remote.key() == "" {
			return nil, badFormat("InvalidJson", "Peering "+p.Name+" names no remote virtual network.")
		}
		out.Peerings = append(out.Peerings, Peering{p.Properties.Remote.key(), p.Properties.Access == nil || *p.Properties.Access, p.Properties.Uses, p.Properties.Transit})
	}
	return out, nil
}

func parseNIC(id ID, properties map[string]any) (*NIC, error) {
	var d struct {
		NSG            *reference `json:"networkSecurityGroup"`
		Endpoint       *reference `json:"privateEndpoint"`
		Forwards       bool       `json:"enableIPForwarding"`
		Configurations []struct {
			Name       string `json:"name"`
			Properties struct {
				Primary *bool       `json:"primary"`
				Address string      `json:"privateIPAddress"`
				Version string      `json:"privateIPAddressVersion"`
				Subnet  *reference  `json:"subnet"`
				Public  *reference  `json:"publicIPAddress"`
				ASGs    []reference `json:"applicationSecurityGroups"`
				Pools   []reference `json:"loadBalancerBackendAddressPools"`
				Gateway []reference `json:"applicationGatewayBackendAddressPools"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	}
	if err := decode(properties, &d); err != nil {
		return nil, err
	}
	out := &NIC{NSG: d.NSG.key(), Endpoint: d.Endpoint.key(), Forwards: d.Forwards}
	if len(d.Configurations) == 0 {
		return nil, BadRequest("NetworkInterfaceMustHaveAtLeastOneIpConfiguration", "Network interface %s must have at least one IP configuration.", id)
	}
	names := map[string]bool{}
	for _, c := range d.Configurations {
		if err := CheckName(c.Name); err != nil {
			return nil, err
		}
		if names[strings.ToLower(c.Name)] {
			return nil, badFormat("DuplicateResourceName", "Resource "+id.String()+" has two child resources with the same name ("+c.Name+").")
		}
		names[strings.ToLower(c.Name)] = true
		p := &c.Properties
		if p.Subnet.key() == "" {
			return nil, BadRequest("SubnetIsRequired", "IP configuration %s of network interface %s has no subnet.", c.Name, id)
		}
		x := Configuration{
			Name: c.Name, primary: p.Primary != nil && *p.Primary, Subnet: p.Subnet.key(), Public: p.Public.key(), v6: strings.EqualFold(p.Version, "IPv6"),
		}
		if p.Address != "" {
			a, err := netip.ParseAddr(p.Address)
			if err != nil {
				return nil, BadRequest("InvalidIPAddressFormat", "IP address %s of %s is not formatted correctly.", p.Address, c.Name)
			}
			x.Addr = a
		}
		for i := range p.ASGs {
			x.ASGs = append(x.ASGs, p.ASGs[i].key())
		}
		for _, pool := range slices.Concat(p.Pools, p.Gateway) {
			x.Pools = append(x.Pools, pool.key())
		}
		out.Configurations = append(out.Configurations, x)
	}
	return out, nil
}

func parseMachine(properties map[string]any) (*Machine, error) {
	var d struct {
		NetworkProfile struct {
			NetworkInterfaces []reference `json:"networkInterfaces"`
		} `json:"networkProfile"`
	}
	if err := decode(properties, &d); err != nil {
		return nil, err
	}
	out := &Machine{}
	for i := range d.NetworkProfile.NetworkInterfaces {
		out.NICs = append(out.NICs, d.NetworkProfile.NetworkInterfaces[i].key())
	}
	return out, nil
}

// Parse makes the properties of a resource ready; nil for types that nothing depends on.
func Parse(id ID, properties map[string]any) (any, error) {
	switch id.Type() {
	case TypeNSG:
		return parseSecurityGroup(id, properties)
	case TypeVNet:
		return parseNetwork(id, properties)
	case TypeNIC, TypeSetNIC:
		return parseNIC(id, properties)
	case TypeVM, TypeInstance:
		return parseMachine(properties)
	case TypeTable:
		return parseRouteTable(id, properties)
	case TypeBalancer:
		return parseBalancer(properties)
	case TypeGateway:
		return parseGateway(properties)
	}
	return nil, nil
}

// Text is a JSON string; empty for anything else.
func Text(v any) string {
	s, _ := v.(string)
	return s
}
