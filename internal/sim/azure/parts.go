package azure

import (
	"net/netip"
	"slices"
	"strings"
)

// Types of resources, in lower case as they are compared.
const (
	typeNSG      = "microsoft.network/networksecuritygroups"
	typeASG      = "microsoft.network/applicationsecuritygroups"
	typeNIC      = "microsoft.network/networkinterfaces"
	typeVNet     = "microsoft.network/virtualnetworks"
	typeSubnet   = "microsoft.network/virtualnetworks/subnets"
	typePeering  = "microsoft.network/virtualnetworks/virtualnetworkpeerings"
	typeRule     = "microsoft.network/networksecuritygroups/securityrules"
	typePublicIP = "microsoft.network/publicipaddresses"
	typeVM       = "microsoft.compute/virtualmachines"
	typeSet      = "microsoft.compute/virtualmachinescalesets"
	typeInstance = "microsoft.compute/virtualmachinescalesets/virtualmachines"
	typeEndpoint = "microsoft.network/privateendpoints"
	typeBalancer = "microsoft.network/loadbalancers"
	typeGateway  = "microsoft.network/applicationgateways"
	typeSetNIC   = "microsoft.compute/virtualmachinescalesets/virtualmachines/networkinterfaces"
)

// network is a virtual network made ready.
type network struct {
	space    []netip.Prefix
	subnets  []subnet
	peerings []peering
}

type subnet struct {
	name     string
	prefixes []netip.Prefix
	nsg      string // key; empty if there is none
	// endpoints tells that the group is about private endpoints as well.
	endpoints bool
	routes    string // key of the route table; empty if there is none
}

type peering struct {
	remote string // key of the other network
	access bool
	// remoteGateways and transit say that the gateways of the other end are used, and that its own
	// are lent.
	remoteGateways, transit bool
}

// nic is a network interface made ready.
type nic struct {
	configurations []configuration
	nsg            string // key; empty if there is none
	endpoint       string // key of the private endpoint that it is of; empty for others
}

type configuration struct {
	name    string
	primary bool
	addr    netip.Addr // invalid if the cloud has yet to choose one
	subnet  string     // key
	public  string     // key of the public address; empty if there is none
	asgs    []string   // keys
	pools   []string   // keys of backend pools of load balancers and application gateways
	v6      bool
}

// network is the key of the virtual network that the interface is in.
func (n *nic) network() string {
	for _, c := range n.configurations {
		if id, ok := ParseID(c.subnet); ok && len(id.Types) == 2 {
			return id.Parent().Key()
		}
	}
	return ""
}

// machine is a virtual machine made ready.
type machine struct {
	nics []string // keys
}

type reference struct {
	ID string `json:"id"`
}

// key is what the reference is compared by; empty if there is none.
func (r *reference) key() string {
	if r == nil || r.ID == "" {
		return ""
	}
	return key(r.ID)
}

func parsePrefixes(one string, many []string) ([]netip.Prefix, error) {
	if one != "" {
		many = append([]string{one}, many...)
	}
	var out []netip.Prefix
	for _, text := range many {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, bad(
				"InvalidAddressPrefixFormat",
				"Address prefix %s of resource is not formatted correctly. It should follow CIDR notation, for example 10.0.0.0/24.",
				text,
			)
		}
		out = append(out, p)
	}
	return out, nil
}

func parseNetwork(id ID, properties map[string]any) (*network, error) {
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
	out := &network{}
	var err error
	if out.space, err = parsePrefixes("", d.AddressSpace.AddressPrefixes); err != nil {
		return nil, err
	}
	if a, b, overlap := overlapping(out.space); overlap {
		return nil, bad("NetcfgInvalidVirtualNetworkSite", "Address prefixes %s and %s of virtual network %s overlap.", a, b, id.Name())
	}
	names := map[string]bool{}
	for _, s := range d.Subnets {
		if err := checkName(s.Name); err != nil {
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
			for _, space := range out.space {
				inside = inside || space.Bits() <= p.Bits() && space.Contains(p.Addr())
			}
			if !inside {
				return nil, bad("NetcfgInvalidSubnet", "Subnet '%s' is not valid because its IP address range is outside the IP address range of "+
					"virtual network '%s'.", s.Name, id.Name())
			}
			for _, other := range out.subnets {
				for _, q := range other.prefixes {
					if p.Overlaps(q) {
						return nil, bad("NetcfgSubnetRangesOverlap", "Subnet '%s' is not valid because its IP address range overlaps with that of an "+
							"existing subnet in virtual network '%s'.", s.Name, id.Name())
					}
				}
			}
		}
		out.subnets = append(out.subnets, subnet{
			s.Name, prefixes, s.Properties.NSG.key(), s.Properties.Endpoints == "Enabled" || s.Properties.Endpoints == "NetworkSecurityGroupEnabled",
			s.Properties.Routes.key(),
		})
	}
	for _, p := range d.Peerings {
		if p.Properties.Remote.key() == "" {
			return nil, badFormat("InvalidJson", "Peering "+p.Name+" names no remote virtual network.")
		}
		out.peerings = append(out.peerings, peering{p.Properties.Remote.key(), p.Properties.Access == nil || *p.Properties.Access, p.Properties.Uses, p.Properties.Transit})
	}
	return out, nil
}

func parseNIC(id ID, properties map[string]any) (*nic, error) {
	var d struct {
		NSG            *reference `json:"networkSecurityGroup"`
		Endpoint       *reference `json:"privateEndpoint"`
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
	out := &nic{nsg: d.NSG.key(), endpoint: d.Endpoint.key()}
	if len(d.Configurations) == 0 {
		return nil, bad("NetworkInterfaceMustHaveAtLeastOneIpConfiguration", "Network interface %s must have at least one IP configuration.", id)
	}
	names := map[string]bool{}
	for _, c := range d.Configurations {
		if err := checkName(c.Name); err != nil {
			return nil, err
		}
		if names[strings.ToLower(c.Name)] {
			return nil, badFormat("DuplicateResourceName", "Resource "+id.String()+" has two child resources with the same name ("+c.Name+").")
		}
		names[strings.ToLower(c.Name)] = true
		p := &c.Properties
		if p.Subnet.key() == "" {
			return nil, bad("SubnetIsRequired", "IP configuration %s of network interface %s has no subnet.", c.Name, id)
		}
		x := configuration{
			name: c.Name, primary: p.Primary != nil && *p.Primary, subnet: p.Subnet.key(), public: p.Public.key(), v6: strings.EqualFold(p.Version, "IPv6"),
		}
		if p.Address != "" {
			a, err := netip.ParseAddr(p.Address)
			if err != nil {
				return nil, bad("InvalidIPAddressFormat", "IP address %s of %s is not formatted correctly.", p.Address, c.Name)
			}
			x.addr = a
		}
		for i := range p.ASGs {
			x.asgs = append(x.asgs, p.ASGs[i].key())
		}
		for _, pool := range slices.Concat(p.Pools, p.Gateway) {
			x.pools = append(x.pools, pool.key())
		}
		out.configurations = append(out.configurations, x)
	}
	return out, nil
}

func parseMachine(properties map[string]any) (*machine, error) {
	var d struct {
		NetworkProfile struct {
			NetworkInterfaces []reference `json:"networkInterfaces"`
		} `json:"networkProfile"`
	}
	if err := decode(properties, &d); err != nil {
		return nil, err
	}
	out := &machine{}
	for i := range d.NetworkProfile.NetworkInterfaces {
		out.nics = append(out.nics, d.NetworkProfile.NetworkInterfaces[i].key())
	}
	return out, nil
}

// parse makes the properties of a resource ready; nil for types that nothing depends on.
func parse(id ID, properties map[string]any) (any, error) {
	switch id.Type() {
	case typeNSG:
		return parseSecurityGroup(id, properties)
	case typeVNet:
		return parseNetwork(id, properties)
	case typeNIC, typeSetNIC:
		return parseNIC(id, properties)
	case typeVM, typeInstance:
		return parseMachine(properties)
	case typeBalancer:
		return parseBalancer(properties)
	case typeGateway:
		return parseGateway(properties)
	}
	return nil, nil
}
