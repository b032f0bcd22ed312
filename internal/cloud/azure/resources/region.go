package resources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/lower"
)

// Region is what has been read of a region, by ids in lower case: ids are the same in any case, and
// Azure itself writes them in several.
type Region struct {
	subscription string
	Networks     map[string]*vnet
	NICs         map[string]*NIC
	Groups       map[string]*NSG
	asgs         map[string]*Row
	publics      map[string]*public
	vms          map[string]*vm
	Sets         map[string]bool // scale sets whose instances have no resources of their own
	tables       map[string]*routeTable
	gateways     map[string]*networkGateway
	locals       map[string]*localGateway
	connections  map[string]*connection
	room         Room
	Former       map[string][]string // groups that interfaces may have had
	Absent       map[string]bool     // what is named somewhere and does not exist, in lower case
}

// NewRegion returns a region of a subscription in which nothing is described yet.
func NewRegion(subscription string, r Room) *Region {
	return &Region{
		subscription: strings.ToLower(subscription), Networks: map[string]*vnet{}, NICs: map[string]*NIC{}, Groups: map[string]*NSG{}, asgs: map[string]*Row{},
		publics: map[string]*public{}, vms: map[string]*vm{}, Sets: map[string]bool{}, Absent: map[string]bool{}, room: r,
		tables: map[string]*routeTable{}, gateways: map[string]*networkGateway{}, locals: map[string]*localGateway{}, connections: map[string]*connection{},
	}
}

// Reference is how a document names another resource.
type Reference struct {
	ID string `json:"id"`
}

// key is what a reference is compared by; empty for none.
func (r *Reference) key() string {
	if r == nil {
		return ""
	}
	return strings.ToLower(r.ID)
}

type vnet struct {
	Row
	GUID         string `json:"resourceGuid"`
	AddressSpace struct {
		AddressPrefixes []string `json:"addressPrefixes"`
	} `json:"addressSpace"`
	Subnets []struct {
		Name       string `json:"name"`
		Properties struct {
			Prefix   string     `json:"addressPrefix"`
			Prefixes []string   `json:"addressPrefixes"`
			NSG      *Reference `json:"networkSecurityGroup"`
			Routes   *Reference `json:"routeTable"`
			// Configurations are the addresses of what is in the subnet and no interface.
			Configurations []Reference `json:"ipConfigurations"`
			// EndpointPolicies says whether the group is about private endpoints, too.
			EndpointPolicies string `json:"privateEndpointNetworkPolicies"`
		} `json:"properties"`
	} `json:"subnets"`
	Peerings []struct {
		ID         string `json:"id"`
		Name       string `json:"name"`
		Properties struct {
			State        string     `json:"peeringState"`
			Access       *bool      `json:"allowVirtualNetworkAccess"`
			Remote       *Reference `json:"remoteVirtualNetwork"`
			RemoteRegion string     `json:"remoteVirtualNetworkLocation"`
			// UseRemoteGateways says that what is behind gateways of the other network is reached
			// by it.
			UseRemoteGateways bool `json:"useRemoteGateways"`
			RemoteSpace       struct {
				AddressPrefixes []string `json:"addressPrefixes"`
			} `json:"remoteAddressSpace"`
		} `json:"properties"`
	} `json:"virtualNetworkPeerings"`
}

// NIC is a network interface.
type NIC struct {
	Row
	MAC             string      `json:"macAddress"`
	NSG             *Reference  `json:"networkSecurityGroup"`
	VM              *Reference  `json:"virtualMachine"`
	PrivateEndpoint *Reference  `json:"privateEndpoint"`
	LinkService     *Reference  `json:"privateLinkService"`
	Workloads       []string    `json:"hostedWorkloads"`
	Configurations  []ipAddress `json:"ipConfigurations"`
}

type ipAddress struct {
	ID         string `json:"id"`
	Properties struct {
		Primary *bool       `json:"primary"`
		Address string      `json:"privateIPAddress"`
		Subnet  *Reference  `json:"subnet"`
		Public  *Reference  `json:"publicIPAddress"`
		ASGs    []Reference `json:"applicationSecurityGroups"`
		Pools   []Reference `json:"loadBalancerBackendAddressPools"`
		// GatewayPools are the pools of application gateways.
		GatewayPools []Reference `json:"applicationGatewayBackendAddressPools"`
	} `json:"properties"`
}

// NSG is a network security group with its rules.
type NSG struct {
	Row
	Rules []lower.Document `json:"securityRules"`
}

// public is a public address.
type public struct {
	addrs []netip.Addr
	basic bool
}

type vm struct {
	Row
	VMID           string `json:"vmId"`
	Created        string `json:"timeCreated"`
	NetworkProfile struct {
		Interfaces []struct {
			ID         string `json:"id"`
			Properties struct {
				Primary *bool `json:"primary"`
			} `json:"properties"`
		} `json:"networkInterfaces"`
	} `json:"networkProfile"`
	Extended struct {
		InstanceView struct {
			PowerState struct {
				Code string `json:"code"`
			} `json:"powerState"`
		} `json:"instanceView"`
	} `json:"extended"`
}

// Add takes one resource.
func (w *Region) Add(r *Row) error {
	key := strings.ToLower(r.ID)
	if !strings.HasPrefix(key, "/subscriptions/"+w.subscription+"/") {
		return fmt.Errorf("it is not of the subscription %s", w.subscription)
	}
	read := func(into any) error {
		if len(r.Properties) == 0 {
			return nil
		}
		return json.Unmarshal(r.Properties, into)
	}
	switch strings.ToLower(r.Type) {
	case TypeVNet:
		v := &vnet{Row: *r}
		w.Networks[key] = v
		return read(v)
	case TypeNIC:
		n := &NIC{Row: *r}
		w.NICs[key] = n
		return read(n)
	case TypeNSG:
		g := &NSG{Row: *r}
		w.Groups[key] = g
		return read(g)
	case TypeRouteTable:
		t := &routeTable{Row: *r}
		w.tables[key] = t
		return read(t)
	case typeNetworkGateway:
		g := &networkGateway{Row: *r}
		w.gateways[key] = g
		return read(g)
	case typeLocalGateway:
		l := &localGateway{Row: *r}
		w.locals[key] = l
		return read(l)
	case typeConnection:
		c := &connection{Row: *r}
		w.connections[key] = c
		return read(c)
	case TypeASG:
		w.asgs[key] = &Row{ID: r.ID, Name: r.Name, Tags: r.Tags}
	case TypeSet:
		var p struct {
			Mode string `json:"orchestrationMode"`
		}
		if err := read(&p); err != nil {
			return err
		}
		w.Sets[key] = !strings.EqualFold(p.Mode, "Flexible")
	case typeVM, TypeInstance:
		v := &vm{Row: *r}
		w.vms[key] = v
		return read(v)
	case typePublicIP:
		var p struct {
			Address string `json:"ipAddress"`
		}
		if err := read(&p); err != nil {
			return err
		}
		x := &public{basic: r.SKU != nil && strings.EqualFold(r.SKU.Name, "Basic")}
		if a, err := netip.ParseAddr(p.Address); err == nil { // one that is not assigned has none
			x.addrs = append(x.addrs, a)
		}
		w.publics[key] = x
	}
	return nil
}

// Missing are the ids of what something names and nothing tells, in order.
func (w *Region) Missing() []string {
	out := map[string]bool{}
	need := func(id string, there bool) {
		if id != "" && !there && strings.HasPrefix(id, "/subscriptions/"+w.subscription+"/") {
			out[id] = true
		}
	}
	for _, v := range w.vms {
		for _, n := range v.NetworkProfile.Interfaces {
			id := strings.ToLower(n.ID)
			need(id, w.NICs[id] != nil || OfSet(id)) // the latter are read with their sets
		}
	}
	for _, n := range w.NICs {
		network := n.network()
		need(network, w.Networks[network] != nil)
		need(n.NSG.key(), w.Groups[n.NSG.key()] != nil)
		for _, id := range n.asgs() {
			need(id, w.asgs[id] != nil)
		}
		for _, id := range formerGroups(n) {
			need(id, w.Groups[id] != nil)
		}
		for _, id := range w.Former[strings.ToLower(n.ID)] {
			if at, ok := ParsePlace(id); ok && at.Kind == TypeNSG {
				need(id, w.Groups[id] != nil)
			}
		}
	}
	for _, v := range w.Networks {
		for i := range v.Subnets {
			id := v.Subnets[i].Properties.NSG.key()
			need(id, w.Groups[id] != nil)
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// OnlyRemembered reports whether nothing but tags names a group.
func (w *Region) OnlyRemembered(group string) bool {
	for _, n := range w.NICs {
		if n.NSG.key() == group {
			return false
		}
	}
	for _, v := range w.Networks {
		for i := range v.Subnets {
			if v.Subnets[i].Properties.NSG.key() == group {
				return false
			}
		}
	}
	return w.asgs[group] == nil && strings.Contains(group, NSGPart)
}

// network is the key of the virtual network of the interface; empty if it has none.
func (n *NIC) network() string {
	for i := range n.Configurations {
		if network, _, ok := strings.Cut(n.Configurations[i].Properties.Subnet.key(), "/subnets/"); ok {
			return network
		}
	}
	return ""
}

// asgs are the keys of the application security groups that all configurations have, sorted.
func (n *NIC) asgs() []string {
	out := map[string]bool{}
	for i := range n.Configurations {
		for k := range n.Configurations[i].Properties.ASGs {
			if id := n.Configurations[i].Properties.ASGs[k].key(); id != "" {
				out[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// moment reads a time, to seconds as objects have it; zero if it is none, as with what is very old.
func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Second)
}

// Snapshot is the region in the words of the port.
func (w *Region) Snapshot() *cloud.Snapshot {
	snap := &cloud.Snapshot{}
	owner := map[string]string{} // interface -> virtual machine
	for _, k := range slices.Sorted(maps.Keys(w.vms)) {
		v := w.vms[k]
		m := cloud.VM{
			ID: k, UID: strings.ToLower(v.VMID), Created: moment(v.Created), Name: v.Name,
			State: powerState(v.Extended.InstanceView.PowerState.Code), Tags: PortTags(v.Tags),
		}
		list := slices.Clone(v.NetworkProfile.Interfaces)
		slices.SortStableFunc(list, func(a, b struct {
			ID         string `json:"id"`
			Properties struct {
				Primary *bool `json:"primary"`
			} `json:"properties"`
		}) int {
			return cmp.Compare(rank(a.Properties.Primary), rank(b.Properties.Primary))
		})
		for _, x := range list {
			id := strings.ToLower(x.ID)
			if w.NICs[id] == nil {
				continue
			}
			owner[id] = k
			m.Interfaces = append(m.Interfaces, id)
			if m.NetworkID == "" {
				m.NetworkID = w.NICs[id].network()
			}
		}
		snap.VMs = append(snap.VMs, m)
	}
	v := newViews(w)
	for _, k := range slices.Sorted(maps.Keys(w.NICs)) {
		i := w.port(k, w.NICs[k])
		if i.VMID = owner[k]; i.VMID == "" {
			i.VMID = w.NICs[k].VM.key()
		}
		v.interfaceGroups(&i, w.NICs[k])
		if OfSet(k) {
			i.Untouchable = "it is of an instance of a scale set in Uniform orchestration, whose interfaces are all as the model of the set says; instances in Flexible orchestration can be guarded"
		}
		snap.Interfaces = append(snap.Interfaces, i)
	}
	snap.Networks = w.CloudNetworks()
	snap.Groups, snap.PrefixLists = v.all()
	snap.Peerings, snap.ACLs = w.peerings(), v.borders()
	snap.GroupsBeside = w.room.beside(len(w.Groups), len(w.asgs), snap.CountedGroups())
	return snap
}

func rank(primary *bool) int {
	if primary != nil && *primary {
		return 0
	}
	return 1
}

// port is an interface in the words of the port.
func (w *Region) port(key string, n *NIC) cloud.Interface {
	out := cloud.Interface{ID: key, NetworkID: n.network(), OwnerID: w.subscription, MAC: strings.ToLower(strings.ReplaceAll(n.MAC, "-", ":")), Tags: PortTags(n.Tags)}
	out.Managed = n.PrivateEndpoint.key() != "" || n.LinkService.key() != "" || len(n.Workloads) > 0
	list := slices.Clone(n.Configurations)
	slices.SortStableFunc(list, func(a, b ipAddress) int {
		return cmp.Compare(rank(a.Properties.Primary), rank(b.Properties.Primary))
	})
	for i := range list {
		p := &list[i].Properties
		if out.SubnetID == "" {
			out.SubnetID = p.Subnet.key()
		}
		if a, err := netip.ParseAddr(p.Address); err == nil { // a configuration without an address has none yet
			out.PrivateIPs = append(out.PrivateIPs, a)
		}
		if x := w.publics[p.Public.key()]; x != nil {
			out.PublicIPs = append(out.PublicIPs, x.addrs...)
		}
	}
	if n.PrivateEndpoint.key() != "" && !w.filtersEndpoints(out.SubnetID) {
		out.SubnetID = "" // no filter of a subnet is about it
	}
	return out
}

// filtersEndpoints reports whether the group of a subnet is about private endpoints in it, which it
// is not unless somebody has said so.
func (w *Region) filtersEndpoints(subnet string) bool {
	network, name, _ := strings.Cut(subnet, "/subnets/")
	v := w.Networks[network]
	if v == nil {
		return false
	}
	for i := range v.Subnets {
		if strings.EqualFold(v.Subnets[i].Name, name) {
			p := v.Subnets[i].Properties.EndpointPolicies
			return strings.EqualFold(p, "Enabled") || strings.EqualFold(p, "NetworkSecurityGroupEnabled")
		}
	}
	return false
}

// powerState is the state of a virtual machine by the code of its power state.
func powerState(code string) cloud.VMState {
	switch strings.TrimPrefix(strings.ToLower(code), "powerstate/") {
	case "running":
		return cloud.VMRunning
	case "starting":
		return cloud.VMPending
	case "stopping", "deallocating":
		return cloud.VMStopping
	case "stopped", "deallocated":
		return cloud.VMStopped
	}
	return cloud.VMUnknown
}

func prefixes(all []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range all {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// peerings are the connections that carry traffic, each once: Azure keeps one half at each network.
func (w *Region) peerings() []cloud.Peering {
	seen := map[[2]string]bool{}
	var out []cloud.Peering
	for _, k := range slices.Sorted(maps.Keys(w.Networks)) {
		v := w.Networks[k]
		for i := range v.Peerings {
			p := &v.Peerings[i]
			remote := p.Properties.Remote.key()
			if !strings.EqualFold(p.Properties.State, "Connected") || p.Properties.Access != nil && !*p.Properties.Access || remote == "" || seen[[2]string{remote, k}] ||
				seen[[2]string{k, remote}] {
				continue
			}
			seen[[2]string{k, remote}] = true
			far := cloud.PeeringEnd{
				NetworkID: remote,
				OwnerID:   SubscriptionOf(remote),
				Region:    p.Properties.RemoteRegion,
				CIDRs:     prefixes(p.Properties.RemoteSpace.AddressPrefixes),
			}
			if n := w.Networks[remote]; n != nil {
				far.Region, far.CIDRs = strings.ToLower(n.Location), prefixes(n.AddressSpace.AddressPrefixes)
			}
			id := strings.ToLower(p.ID)
			if id == "" {
				id = k + "/virtualnetworkpeerings/" + strings.ToLower(p.Name)
			}
			out = append(
				out,
				cloud.Peering{
					ID:        id,
					A:         cloud.PeeringEnd{NetworkID: k, OwnerID: w.subscription, Region: strings.ToLower(v.Location), CIDRs: prefixes(v.AddressSpace.AddressPrefixes)},
					B:         far,
					ByAddress: true,
				},
			)
		}
	}
	slices.SortFunc(out, func(a, b cloud.Peering) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// SubscriptionOf is the subscription that an id in lower case is of, or empty.
func SubscriptionOf(id string) string {
	rest, _ := strings.CutPrefix(id, "/subscriptions/")
	owner, _, _ := strings.Cut(rest, "/")
	return owner
}

// CloudNetworks are the networks in the words of the port.
func (w *Region) CloudNetworks() []cloud.Network {
	var out []cloud.Network
	for _, k := range slices.Sorted(maps.Keys(w.Networks)) {
		n := w.Networks[k]
		out = append(
			out,
			cloud.Network{ID: k, UID: strings.ToLower(n.GUID), Name: n.Name, OwnerID: w.subscription, CIDRs: prefixes(n.AddressSpace.AddressPrefixes), Tags: PortTags(n.Tags)},
		)
	}
	return out
}

// Undescribed are the ids of virtual machines and public addresses that interfaces name and nothing
// tells. In a subscription that is read they are gone.
func (w *Region) Undescribed() []string {
	out := map[string]bool{}
	need := func(id, kind string, there bool) {
		if at, ok := ParsePlace(id); ok && at.Kind == kind && !there && SubscriptionOf(id) == w.subscription {
			out[id] = true
		}
	}
	for _, n := range w.NICs {
		need(n.VM.key(), typeVM, w.vms[n.VM.key()] != nil)
		for i := range n.Configurations {
			id := n.Configurations[i].Properties.Public.key()
			need(id, typePublicIP, w.publics[id] != nil)
		}
	}
	return slices.Sorted(maps.Keys(out))
}
