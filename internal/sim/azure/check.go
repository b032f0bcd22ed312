package azure

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// limits are the quotas of the subscription of a resource.
func (c checks) limits(id document.ID) Limits {
	return c.cloud.subscriptions[strings.ToLower(id.Subscription)].Limits.withDefaults()
}

// check refuses a resource that does not go with the others.
func (c checks) check(w Write, prev, next *Resource) error {
	switch p := next.parsed.(type) {
	case *document.SecurityGroup:
		return c.checkSecurityGroup(w, prev, next, p)
	case *document.NIC:
		return c.checkNIC(w, prev, next, p)
	case *document.Network:
		return c.checkNetwork(w, prev, next, p)
	case *document.Machine:
		return c.checkMachine(next, p)
	case *document.RouteTable:
		limits := c.limits(next.id)
		switch {
		case prev == nil && c.count(next) >= limits.RouteTables:
			return document.BadRequest("RouteTableCountLimitReached", "Cannot create more than %d route tables for this subscription in this region.", limits.RouteTables)
		case len(p.Routes) > limits.RoutesPerTable:
			return document.BadRequest("RouteCountLimitReached", "Route table %s cannot have more than %d routes.", next.ID, limits.RoutesPerTable)
		}
		return nil
	}
	if next.id.Type() == document.TypeASG && prev == nil {
		if most := c.limits(next.id).ApplicationSecurityGroups; c.count(next) >= most {
			return document.BadRequest("ApplicationSecurityGroupCountLimitReached", "Cannot create more than %d application security groups for this subscription in this region.", most)
		}
	}
	return nil
}

// count is how many resources of the same type the subscription has in the region.
func (c checks) count(like *Resource) int {
	n := 0
	for _, r := range c.cloud.resources {
		if r.id.Type() == like.id.Type() && strings.EqualFold(r.id.Subscription, like.id.Subscription) && r.Location == like.Location {
			n++
		}
	}
	return n
}

func (c checks) checkSecurityGroup(w Write, prev, next *Resource, g *document.SecurityGroup) error {
	limits := c.limits(next.id)
	if prev == nil && c.count(next) >= limits.NetworkSecurityGroups {
		return document.BadRequest(
			"NetworkSecurityGroupCountLimitReached",
			"Cannot create more than %d network security groups for this subscription in this region.",
			limits.NetworkSecurityGroups,
		)
	}
	if len(g.Rules) > limits.RulesPerGroup {
		return document.BadRequest("SecurityRuleCountLimitReached", "A security group cannot have more than %d security rules.", limits.RulesPerGroup)
	}
	sources, targets := 0, 0
	mentioned := map[string]bool{}
	for i := range g.Rules {
		r := &g.Rules[i]
		id := next.id.Child("securityRules", r.Name)
		sources, targets = sources+len(r.From.Prefixes), targets+len(r.To.Prefixes)
		for _, s := range []document.Side{r.From, r.To} {
			if len(s.Groups) > limits.ASGsPerRuleSide {
				return document.BadRequest("NumberOfApplicationSecurityGroupsReferencedInSecurityRuleLimitReached", "Security rule %s references %d application security "+
					"groups on one side. At most %d are allowed.", id, len(s.Groups), limits.ASGsPerRuleSide)
			}
		}
		for _, k := range slices.Concat(r.From.Groups, r.To.Groups) {
			asg, err := access(c).referTo(k, id.String(), next.Location, next.id)
			if err != nil {
				return err
			}
			if err := w.By.link("Microsoft.Network/applicationSecurityGroups/joinNetworkSecurityRule/action", id.String(), asg.ID); err != nil {
				return err
			}
			mentioned[k] = true
		}
		if err := c.oneNetwork(id, slices.Concat(r.From.Groups, r.To.Groups), nil); err != nil {
			return err
		}
	}
	switch {
	case sources > limits.PrefixesPerSide || targets > limits.PrefixesPerSide:
		return document.BadRequest("SecurityRuleAddressPrefixCountLimitReached", "Network security group %s has %d source and %d destination address prefixes. At most %d of "+
			"each are allowed.", next.ID, sources, targets, limits.PrefixesPerSide)
	case len(mentioned) > limits.ASGsPerGroup:
		return document.BadRequest("NumberOfApplicationSecurityGroupsReferencedInNetworkSecurityGroupLimitReached", "Network security group %s references %d application "+
			"security groups. At most %d are allowed.", next.ID, len(mentioned), limits.ASGsPerGroup)
	}
	return nil
}

// oneNetwork refuses a rule whose application security groups have members in several networks.
// joining is a network that gets a member in one of the groups.
func (c checks) oneNetwork(rule document.ID, groups, joining []string) error {
	networks := slices.Clone(joining)
	for _, g := range groups {
		for _, m := range c.cloud.now().members[g] {
			if n := m.nic.Network(); !slices.Contains(networks, n) {
				networks = append(networks, n)
			}
		}
	}
	if len(networks) < 2 {
		return nil
	}
	for i := range networks {
		if r := c.cloud.resources[networks[i]]; r != nil {
			networks[i] = r.ID
		}
	}
	return document.BadRequest("AllApplicationSecurityGroupsInSecurityRuleMustBeFromSameVnet", "Security Rule %s has Application Security Groups (ASGs) from multiple virtual "+
		"networks (%s). All ASGs on the Security Rule must be from the same virtual network.", rule, strings.Join(networks, ", "))
}

func (c checks) checkNIC(w Write, prev, next *Resource, n *document.NIC) error {
	home := n.Network()
	for i := range n.Configurations {
		x := &n.Configurations[i]
		at := next.id.Child("ipConfigurations", x.Name)
		id, ok := document.ParseID(x.Subnet)
		if !ok || id.Type() != document.TypeSubnet {
			return document.MissingReference(x.Subnet, at.String())
		}
		network, err := access(c).referTo(id.Parent().Key(), at.String(), next.Location, next.id)
		if err != nil {
			return err
		}
		where := c.subnetOf(x.Subnet)
		if where == nil {
			return document.MissingReference(x.Subnet, at.String())
		}
		if id.Parent().Key() != home {
			return document.BadRequest("IpConfigurationsOnNicMustBelongToTheSameVnet", "All IP configurations of network interface %s must be in the same virtual network.", next.ID)
		}
		if err := w.By.link("Microsoft.Network/virtualNetworks/subnets/join/action", next.ID, network.id.Child("subnets", where.Name).String()); err != nil {
			return err
		}
		if x.Public != "" {
			p, err := access(c).referTo(x.Public, at.String(), next.Location, next.id)
			if err != nil {
				return err
			}
			if err := w.By.link("Microsoft.Network/publicIPAddresses/join/action", next.ID, p.ID); err != nil {
				return err
			}
			if user := c.cloud.now().publicUser[x.Public]; user != "" && !strings.EqualFold(user, at.String()) {
				return document.BadRequest("PublicIPAddressInUse", "Resource %s is referencing public IP address %s that is already allocated to resource %s.", at, p.ID, user)
			}
		}
		for _, pool := range x.Pools {
			id, ok := document.ParseID(pool)
			if !ok || len(id.Types) != 2 {
				return document.MissingReference(pool, at.String())
			}
			if err := w.By.link(action(id.Parent(), "backendAddressPools/join/action"), next.ID, pool); err != nil {
				return err
			}
		}
		if err := c.checkAddress(next, x, where); err != nil {
			return err
		}
	}
	if was, ok := parsedNIC(prev); ok && was.Network() != home {
		return document.BadRequest("NetworkInterfaceCannotChangeVirtualNetwork", "Network interface %s cannot move from virtual network %s to %s.", next.ID, was.Network(), home)
	}
	if n.NSG != "" {
		g, err := access(c).referTo(n.NSG, next.ID, next.Location, next.id)
		if err != nil {
			return err
		}
		if g.id.Type() != document.TypeNSG {
			return document.MissingReference(n.NSG, next.ID)
		}
		if err := w.By.link("Microsoft.Network/networkSecurityGroups/join/action", next.ID, g.ID); err != nil {
			return err
		}
	}
	return c.checkMembership(w, prev, next, n, home)
}

func parsedNIC(r *Resource) (*document.NIC, bool) {
	if r == nil {
		return nil, false
	}
	n, ok := r.parsed.(*document.NIC)
	return n, ok
}

// checkMembership is about the application security groups of an interface.
func (c checks) checkMembership(w Write, prev, next *Resource, n *document.NIC, home string) error {
	limits := c.limits(next.id)
	first := &n.Configurations[0]
	for i := range n.Configurations {
		x := &n.Configurations[i]
		at := next.id.Child("ipConfigurations", x.Name)
		if len(x.ASGs) > limits.ASGsPerConfiguration {
			return document.BadRequest("NumberOfApplicationSecurityGroupsInIpConfigurationLimitReached", "IP configuration %s references %d application security groups. At most "+
				"%d are allowed.", at, len(x.ASGs), limits.ASGsPerConfiguration)
		}
		if !sameSet(first.ASGs, x.ASGs) {
			return document.BadRequest("AllIpConfigurationsOnANicMustBelongToTheSameApplicationSecurityGroups", "All IPConfigurations on a Network Interface should reference the "+
				"same set of Application Security Groups. IPConfiguration %s references ASG(s) %s, wheras IPConfiguration %s references ASG(s) %s.",
				next.id.Child("ipConfigurations", first.Name), strings.Join(first.ASGs, ", "), at, strings.Join(x.ASGs, ", "))
		}
	}
	had := []string{}
	if was, ok := parsedNIC(prev); ok {
		had = was.Configurations[0].ASGs
	}
	for _, g := range first.ASGs {
		asg, err := access(c).referTo(g, next.ID, next.Location, next.id)
		if err != nil {
			return err
		}
		if asg.id.Type() != document.TypeASG {
			return document.MissingReference(g, next.ID)
		}
		if err := w.By.link("Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action", next.ID, asg.ID); err != nil {
			return err
		}
		if slices.Contains(had, g) {
			continue
		}
		members := c.cloud.now().members[g]
		if len(members)+len(n.Configurations) > limits.ConfigurationsPerASG {
			return document.BadRequest("NumberOfIpConfigurationsInApplicationSecurityGroupLimitReached", "Application security group %s cannot have more than %d IP configurations.",
				asg.ID, limits.ConfigurationsPerASG)
		}
		for _, m := range members {
			if m.nic.Network() != home {
				return document.BadRequest("ApplicationSecurityGroupMembersMustBeFromSameVnet", "Application security group %s has network interfaces of another virtual network "+
					"than %s. All network interfaces in an application security group must be in the same virtual network.", asg.ID, next.ID)
			}
		}
		if err := c.checkMentions(g, home); err != nil {
			return err
		}
	}
	return nil
}

// checkMentions refuses a first member of a group that rules name together with groups of another
// network.
func (c checks) checkMentions(group, home string) error {
	if len(c.cloud.now().mentions[group]) == 0 {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(c.cloud.resources)) {
		g, ok := c.cloud.resources[k].parsed.(*document.SecurityGroup)
		if !ok {
			continue
		}
		for i := range g.Rules {
			if all := slices.Concat(g.Rules[i].From.Groups, g.Rules[i].To.Groups); len(all) > 1 && slices.Contains(all, group) {
				if err := c.oneNetwork(c.cloud.resources[k].id.Child("securityRules", g.Rules[i].Name), all, []string{home}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// subnetOf finds a subnet by its key; nil if it is not there.
func (c checks) subnetOf(key string) *document.Subnet {
	network, name, ok := document.InNetwork(key)
	if !ok {
		return nil
	}
	r := c.cloud.resources[network]
	if r == nil {
		return nil
	}
	n := r.parsed.(*document.Network)
	for i := range n.Subnets {
		if strings.EqualFold(n.Subnets[i].Name, name) {
			return &n.Subnets[i]
		}
	}
	return nil
}

func (c checks) checkAddress(next *Resource, x *document.Configuration, where *document.Subnet) error {
	if !slices.ContainsFunc(where.Prefixes, func(p netip.Prefix) bool { return p.Contains(x.Addr) }) {
		return document.BadRequest("PrivateIPAddressNotInSubnet", "Private static IP address %s does not belong to the range of subnet prefix %v.", x.Addr, where.Prefixes)
	}
	id, _ := document.ParseID(x.Subnet) // the subnet has been found
	if other, taken := c.cloud.now().private[networkAddress{id.Parent().Key(), x.Addr}]; taken && other.resource.id.Key() != next.id.Key() {
		return document.BadRequest("PrivateIPAddressInUse", "IP configuration %s is using the private IP address %s which is already allocated to resource %s.",
			next.id.Child("ipConfigurations", x.Name), x.Addr, other.resource.id.Child("ipConfigurations", other.at.Name))
	}
	return nil
}

func (c checks) checkNetwork(w Write, prev, next *Resource, n *document.Network) error {
	for i := range n.Subnets {
		s := &n.Subnets[i]
		at := next.id.Child("subnets", s.Name)
		if s.Routes != "" {
			t, err := access(c).referTo(s.Routes, at.String(), next.Location, next.id)
			if err != nil {
				return err
			}
			if err := w.By.link("Microsoft.Network/routeTables/join/action", at.String(), t.ID); err != nil {
				return err
			}
		}
		if s.NSG == "" {
			continue
		}
		g, err := access(c).referTo(s.NSG, at.String(), next.Location, next.id)
		if err != nil {
			return err
		}
		if err := w.By.link("Microsoft.Network/networkSecurityGroups/join/action", at.String(), g.ID); err != nil {
			return err
		}
	}
	if prev == nil {
		return nil
	}
	for _, s := range prev.parsed.(*document.Network).Subnets {
		id := next.id.Child("subnets", s.Name)
		if users := c.cloud.now().subnetUsers[id.Key()]; len(users) > 0 &&
			!slices.ContainsFunc(n.Subnets, func(t document.Subnet) bool { return strings.EqualFold(t.Name, s.Name) }) {
			return subnetInUse(id, users)
		}
	}
	return nil
}

func (c checks) checkMachine(next *Resource, m *document.Machine) error {
	if len(m.NICs) == 0 {
		return document.BadRequest("NetworkInterfacesRequired", "The virtual machine %s must have at least one network interface.", next.ID)
	}
	for _, k := range m.NICs {
		if r := c.cloud.resources[k]; r == nil || r.id.Type() != document.TypeNIC {
			return document.Refuse(http.StatusNotFound, "NotFound", "Resource %s not found.", k)
		}
		if other := c.cloud.now().machineOf[k]; other != "" && !strings.EqualFold(other, next.ID) {
			return document.BadRequest("NicInUse", "Network Interface %s is used by existing VM %s.", k, other)
		}
	}
	return nil
}

// prepare fills in what the cloud chooses where the document leaves it open: private addresses, and
// which configuration is the primary one.
func (c checks) prepare(prev, next *Resource) error {
	switch next.id.Type() {
	case document.TypePublicIP:
		if next.Properties["ipAddress"] == nil {
			next.Properties["ipAddress"] = c.freePublic().String()
		}
		return nil
	case document.TypeNIC:
	default:
		return nil
	}
	taken := map[netip.Addr]bool{}
	configurations := objects(next.Properties["ipConfigurations"])
	for i, d := range configurations {
		p, _ := d["properties"].(map[string]any)
		if p == nil {
			continue
		}
		if p["privateIPAllocationMethod"] == nil {
			p["privateIPAllocationMethod"] = "Dynamic"
		}
		if p["privateIPAddressVersion"] == nil {
			p["privateIPAddressVersion"] = "IPv4"
		}
		if p["primary"] == nil {
			p["primary"] = i == 0
		}
		dynamic := strings.EqualFold(document.Text(p["privateIPAllocationMethod"]), "Dynamic")
		if given := document.Text(p["privateIPAddress"]); given != "" && !dynamic {
			if a, err := netip.ParseAddr(given); err == nil {
				taken[a] = true
			}
			continue
		}
		subnetID := ""
		if s, ok := p["subnet"].(map[string]any); ok {
			subnetID = document.Key(document.Text(s["id"]))
		}
		name := document.Text(d["name"])
		if was, ok := parsedNIC(prev); ok {
			for _, x := range was.Configurations {
				if strings.EqualFold(x.Name, name) && x.Subnet == subnetID && x.Addr.IsValid() {
					p["privateIPAddress"] = x.Addr.String()
				}
			}
		}
		if a, err := netip.ParseAddr(document.Text(p["privateIPAddress"])); err == nil && c.keeps(prev, name, subnetID, a) {
			taken[a] = true
			continue
		}
		where := c.subnetOf(subnetID)
		if where == nil {
			p["privateIPAddress"] = "0.0.0.0" // the subnet is refused by the check
			continue
		}
		v6 := strings.EqualFold(document.Text(p["privateIPAddressVersion"]), "IPv6")
		a, err := c.freePrivate(subnetID, where, v6, taken)
		if err != nil {
			return err
		}
		taken[a] = true
		p["privateIPAddress"] = a.String()
	}
	return nil
}

// keeps reports whether the configuration had the address before.
func (c checks) keeps(prev *Resource, name, subnet string, a netip.Addr) bool {
	was, ok := parsedNIC(prev)
	return ok && slices.ContainsFunc(was.Configurations, func(x document.Configuration) bool {
		return strings.EqualFold(x.Name, name) && x.Subnet == subnet && x.Addr == a
	})
}

// freePrivate is the first free address of a subnet; the first four and the last one are the
// cloud's.
func (c checks) freePrivate(subnetID string, where *document.Subnet, v6 bool, taken map[netip.Addr]bool) (netip.Addr, error) {
	id, _ := document.ParseID(subnetID) // the subnet has been found
	network := id.Parent().Key()
	for _, p := range where.Prefixes {
		if p.Addr().Is6() != v6 {
			continue
		}
		a := p.Addr().Next().Next().Next().Next()
		for ; p.Contains(a) && p.Contains(a.Next()); a = a.Next() {
			if _, used := c.cloud.now().private[networkAddress{network, a}]; !used && !taken[a] {
				return a, nil
			}
		}
	}
	return netip.Addr{}, document.BadRequest("SubnetIsFull", "Subnet %s with address prefix %v does not have enough capacity for 1 IP addresses.", where.Name, where.Prefixes)
}

// freePublic is the first public address, of a range for documentation, that no one has.
func (c checks) freePublic() netip.Addr {
	used := map[netip.Addr]bool{}
	for _, r := range c.cloud.resources {
		if r.id.Type() == document.TypePublicIP {
			used[publicAddress(r)] = true
		}
	}
	a := netip.MustParseAddr("198.18.0.1")
	for used[a] {
		a = a.Next()
	}
	return a
}
