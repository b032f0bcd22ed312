package azure

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// index is what depends on what. It is built on demand and thrown away by every change.
type index struct {
	groupNICs    map[string][]string // network security group -> ids of interfaces
	groupSubnets map[string][]string // network security group -> ids of subnets
	tableSubnets map[string][]string // route table -> ids of subnets
	subnetUsers  map[string][]string // subnet -> ids of IP configurations
	members      map[string][]located
	mentions     map[string][]string // application security group -> ids of rules
	machineOf    map[string]string   // interface -> id of its virtual machine
	publicUser   map[string]string   // public address -> id of the IP configuration
	private      map[networkAddress]located
	public       map[netip.Addr]located
	leads        []*Resource // what leads out of networks
	// spaces is what VirtualNetwork means at interfaces, as far as it was asked for: a []space by
	// *document.NIC.
	spaces sync.Map
}

// space is a block that VirtualNetwork means, and whether that is a default route.
type space struct {
	block     netip.Prefix
	byDefault bool
}

type networkAddress struct {
	network string
	addr    netip.Addr
}

// located is an IP configuration and the interface that has it.
type located struct {
	resource *Resource
	nic      *document.NIC
	at       *document.Configuration
}

func buildIndex(resources map[string]*Resource) *index {
	x := &index{
		groupNICs: map[string][]string{}, groupSubnets: map[string][]string{}, tableSubnets: map[string][]string{}, subnetUsers: map[string][]string{},
		members: map[string][]located{}, mentions: map[string][]string{}, machineOf: map[string]string{}, publicUser: map[string]string{},
		private: map[networkAddress]located{}, public: map[netip.Addr]located{},
	}
	for _, k := range slices.Sorted(maps.Keys(resources)) {
		r := resources[k]
		if leads(r.id.Type()) {
			x.leads = append(x.leads, r)
		}
		switch p := r.parsed.(type) {
		case *document.Machine:
			for _, n := range p.NICs {
				x.machineOf[n] = r.ID
			}
		case *document.Network:
			for i := range p.Subnets {
				if g := p.Subnets[i].NSG; g != "" {
					x.groupSubnets[g] = append(x.groupSubnets[g], r.id.Child("subnets", p.Subnets[i].Name).String())
				}
				if t := p.Subnets[i].Routes; t != "" {
					x.tableSubnets[t] = append(x.tableSubnets[t], r.id.Child("subnets", p.Subnets[i].Name).String())
				}
			}
		case *document.SecurityGroup:
			for i := range p.Rules {
				for _, g := range slices.Concat(p.Rules[i].From.Groups, p.Rules[i].To.Groups) {
					x.mentions[g] = append(x.mentions[g], r.id.Child("securityRules", p.Rules[i].Name).String())
				}
			}
		case *document.NIC:
			x.addNIC(r, p, resources)
		}
	}
	return x
}

// groupsOf are the keys of the application security groups that a private endpoint is in.
func groupsOf(endpoint *Resource) (out []string) {
	if endpoint == nil {
		return nil
	}
	list, _ := endpoint.Properties["applicationSecurityGroups"].([]any)
	for _, x := range list {
		at, _ := x.(map[string]any)
		text, _ := at["id"].(string)
		if id, ok := document.ParseID(text); ok {
			out = append(out, id.Key())
		}
	}
	return out
}

func (x *index) addNIC(r *Resource, n *document.NIC, resources map[string]*Resource) {
	if n.NSG != "" {
		x.groupNICs[n.NSG] = append(x.groupNICs[n.NSG], r.ID)
	}
	network := n.Network()
	for i := range n.Configurations {
		c := &n.Configurations[i]
		id := r.id.Child("ipConfigurations", c.Name).String()
		at := located{r, n, c}
		x.subnetUsers[c.Subnet] = append(x.subnetUsers[c.Subnet], id)
		if c.Addr.IsValid() {
			x.private[networkAddress{network, c.Addr}] = at
		}
		for _, g := range slices.Concat(c.ASGs, groupsOf(resources[n.Endpoint])) {
			x.members[g] = append(x.members[g], at)
		}
		if c.Public != "" {
			x.publicUser[c.Public] = id
			if p := resources[c.Public]; p != nil {
				if a := publicAddress(p); a.IsValid() {
					x.public[a] = at
				}
			}
		}
	}
}

func publicAddress(r *Resource) netip.Addr {
	text, _ := r.Properties["ipAddress"].(string)
	a, _ := netip.ParseAddr(text) // an address that is not assigned yet is none
	return a
}

// now returns the index of what there is. It is a read.
func (c *Cloud) now() *index {
	if x := c.current.Load(); x != nil {
		return x
	}
	x := buildIndex(c.resources)
	c.current.Store(x)
	return x
}
