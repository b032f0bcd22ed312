package azure

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// limits are the quotas of the subscription of a resource.
func (c *Cloud) limits(id ID) Limits {
	return c.subscriptions[strings.ToLower(id.Subscription)].Limits.withDefaults()
}

// check refuses a resource that does not go with the others.
func (c *Cloud) check(w Write, prev, next *Resource) error {
	switch p := next.parsed.(type) {
	case *securityGroup:
		return c.checkSecurityGroup(w, prev, next, p)
	case *nic:
		return c.checkNIC(w, prev, next, p)
	case *network:
		return c.checkNetwork(w, prev, next, p)
	case *machine:
		return c.checkMachine(next, p)
	}
	if next.id.Type() == typeASG && prev == nil {
		if most := c.limits(next.id).ApplicationSecurityGroups; c.count(next) >= most {
			return bad("ApplicationSecurityGroupCountLimitReached", "Cannot create more than %d application security groups for this subscription in this region.", most)
		}
	}
	return nil
}

// count is how many resources of the same type the subscription has in the region.
func (c *Cloud) count(like *Resource) int {
	n := 0
	for _, r := range c.resources {
		if r.id.Type() == like.id.Type() && strings.EqualFold(r.id.Subscription, like.id.Subscription) && r.Location == like.Location {
			n++
		}
	}
	return n
}

func (c *Cloud) checkSecurityGroup(w Write, prev, next *Resource, g *securityGroup) error {
	limits := c.limits(next.id)
	if prev == nil && c.count(next) >= limits.NetworkSecurityGroups {
		return bad(
			"NetworkSecurityGroupCountLimitReached",
			"Cannot create more than %d network security groups for this subscription in this region.",
			limits.NetworkSecurityGroups,
		)
	}
	if len(g.rules) > limits.RulesPerGroup {
		return bad("SecurityRuleCountLimitReached", "A security group cannot have more than %d security rules.", limits.RulesPerGroup)
	}
	sources, targets := 0, 0
	mentioned := map[string]bool{}
	for i := range g.rules {
		r := &g.rules[i]
		id := next.id.Child("securityRules", r.name)
		sources, targets = sources+len(r.from.prefixes), targets+len(r.to.prefixes)
		for _, s := range []side{r.from, r.to} {
			if len(s.groups) > limits.ASGsPerRuleSide {
				return bad("NumberOfApplicationSecurityGroupsReferencedInSecurityRuleLimitReached", "Security rule %s references %d application security "+
					"groups on one side. At most %d are allowed.", id, len(s.groups), limits.ASGsPerRuleSide)
			}
		}
		for _, k := range slices.Concat(r.from.groups, r.to.groups) {
			asg, err := c.referTo(k, id.String(), next.Location, next.id)
			if err != nil {
				return err
			}
			if err := w.By.link("Microsoft.Network/applicationSecurityGroups/joinNetworkSecurityRule/action", id.String(), asg.ID); err != nil {
				return err
			}
			mentioned[k] = true
		}
		if err := c.oneNetwork(id, slices.Concat(r.from.groups, r.to.groups), nil); err != nil {
			return err
		}
	}
	switch {
	case sources > limits.PrefixesPerSide || targets > limits.PrefixesPerSide:
		return bad("SecurityRuleAddressPrefixCountLimitReached", "Network security group %s has %d source and %d destination address prefixes. At most %d of "+
			"each are allowed.", next.ID, sources, targets, limits.PrefixesPerSide)
	case len(mentioned) > limits.ASGsPerGroup:
		return bad("NumberOfApplicationSecurityGroupsReferencedInNetworkSecurityGroupLimitReached", "Network security group %s references %d application "+
			"security groups. At most %d are allowed.", next.ID, len(mentioned), limits.ASGsPerGroup)
	}
	return nil
}

// oneNetwork refuses a rule whose application security groups have members in several networks.
// joining is a network that gets a member in one of the groups.
func (c *Cloud) oneNetwork(rule ID, groups, joining []string) error {
	networks := slices.Clone(joining)
	for _, g := range groups {
		for _, m := range c.now().members[g] {
			if n := m.nic.network(); !slices.Contains(networks, n) {
				networks = append(networks, n)
			}
		}
	}
	if len(networks) < 2 {
		return nil
	}
	for i := range networks {
		if r := c.resources[networks[i]]; r != nil {
			networks[i] = r.ID
		}
	}
	return bad("AllApplicationSecurityGroupsInSecurityRuleMustBeFromSameVnet", "Security Rule %s has Application Security Groups (ASGs) from multiple virtual "+
		"networks (%s). All ASGs on the Security Rule must be from the same virtual network.", rule, strings.Join(networks, ", "))
}

func (c *Cloud) checkNIC(w Write, prev, next *Resource, n *nic) error {
	home := n.network()
	for i := range n.configurations {
		x := &n.configurations[i]
		at := next.id.Child("ipConfigurations", x.name)
		id, ok := ParseID(x.subnet)
		if !ok || id.Type() != typeSubnet {
			return missingReference(x.subnet, at.String())
		}
		network, err := c.referTo(id.Parent().Key(), at.String(), next.Location, next.id)
		if err != nil {
			return err
		}
		where := c.subnetOf(x.subnet)
		if where == nil {
			return missingReference(x.subnet, at.String())
		}
		if id.Parent().Key() != home {
			return bad("IpConfigurationsOnNicMustBelongToTheSameVnet", "All IP configurations of network interface %s must be in the same virtual network.", next.ID)
		}
		if err := w.By.link("Microsoft.Network/virtualNetworks/subnets/join/action", next.ID, network.id.Child("subnets", where.name).String()); err != nil {
			return err
		}
		if x.public != "" {
			p, err := c.referTo(x.public, at.String(), next.Location, next.id)
			if err != nil {
				return err
			}
			if err := w.By.link("Microsoft.Network/publicIPAddresses/join/action", next.ID, p.ID); err != nil {
				return err
			}
			if user := c.now().publicUser[x.public]; user != "" && !strings.EqualFold(user, at.String()) {
				return bad("PublicIPAddressInUse", "Resource %s is referencing public IP address %s that is already allocated to resource %s.", at, p.ID, user)
			}
		}
		for _, pool := range x.pools {
			id, ok := ParseID(pool)
			if !ok || len(id.Types) != 2 {
				return missingReference(pool, at.String())
			}
			if err := w.By.link(action(id.Parent(), "backendAddressPools/join/action"), next.ID, pool); err != nil {
				return err
			}
		}
		if err := c.checkAddress(next, x, where); err != nil {
			return err
		}
	}
	if was, ok := parsedNIC(prev); ok && was.network() != home {
		return bad("NetworkInterfaceCannotChangeVirtualNetwork", "Network interface %s cannot move from virtual network %s to %s.", next.ID, was.network(), home)
	}
	if n.nsg != "" {
		g, err := c.referTo(n.nsg, next.ID, next.Location, next.id)
		if err != nil {
			return err
		}
		if g.id.Type() != typeNSG {
			return missingReference(n.nsg, next.ID)
		}
		if err := w.By.link("Microsoft.Network/networkSecurityGroups/join/action", next.ID, g.ID); err != nil {
			return err
		}
	}
	return c.checkMembership(w, prev, next, n, home)
}

func parsedNIC(r *Resource) (*nic, bool) {
	if r == nil {
		return nil, false
	}
	n, ok := r.parsed.(*nic)
	return n, ok
}

// checkMembership is about the application security groups of an interface.
func (c *Cloud) checkMembership(w Write, prev, next *Resource, n *nic, home string) error {
	limits := c.limits(next.id)
	first := &n.configurations[0]
	for i := range n.configurations {
		x := &n.configurations[i]
		at := next.id.Child("ipConfigurations", x.name)
		if len(x.asgs) > limits.ASGsPerConfiguration {
			return bad("NumberOfApplicationSecurityGroupsInIpConfigurationLimitReached", "IP configuration %s references %d application security groups. At most "+
				"%d are allowed.", at, len(x.asgs), limits.ASGsPerConfiguration)
		}
		if !sameSet(first.asgs, x.asgs) {
			return bad("AllIpConfigurationsOnANicMustBelongToTheSameApplicationSecurityGroups", "All IPConfigurations on a Network Interface should reference the "+
				"same set of Application Security Groups. IPConfiguration %s references ASG(s) %s, wheras IPConfiguration %s references ASG(s) %s.",
				next.id.Child("ipConfigurations", first.name), strings.Join(first.asgs, ", "), at, strings.Join(x.asgs, ", "))
		}
	}
	had := []string{}
	if was, ok := parsedNIC(prev); ok {
		had = was.configurations[0].asgs
	}
	for _, g := range first.asgs {
		asg, err := c.referTo(g, next.ID, next.Location, next.id)
		if err != nil {
			return err
		}
		if asg.id.Type() != typeASG {
			return missingReference(g, next.ID)
		}
		if err := w.By.link("Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action", next.ID, asg.ID); err != nil {
			return err
		}
		if slices.Contains(had, g) {
			continue
		}
		members := c.now().members[g]
		if len(members)+len(n.configurations) > limits.ConfigurationsPerASG {
			return bad("NumberOfIpConfigurationsInApplicationSecurityGroupLimitReached", "Application security group %s cannot have more than %d IP configurations.",
				asg.ID, limits.ConfigurationsPerASG)
		}
		for _, m := range members {
			if m.nic.network() != home {
				return bad("ApplicationSecurityGroupMembersMustBeFromSameVnet", "Application security group %s has network interfaces of another virtual network "+
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
func (c *Cloud) checkMentions(group, home string) error {
	if len(c.now().mentions[group]) == 0 {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		g, ok := c.resources[k].parsed.(*securityGroup)
		if !ok {
			continue
		}
		for i := range g.rules {
			if all := slices.Concat(g.rules[i].from.groups, g.rules[i].to.groups); len(all) > 1 && slices.Contains(all, group) {
				if err := c.oneNetwork(c.resources[k].id.Child("securityRules", g.rules[i].name), all, []string{home}); err != nil {
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
func (c *Cloud) subnetOf(key string) *subnet {
	id, ok := ParseID(key)
	if !ok || id.Type() != typeSubnet {
		return nil
	}
	r := c.resources[id.Parent().Key()]
	if r == nil {
		return nil
	}
	n := r.parsed.(*network)
	for i := range n.subnets {
		if strings.EqualFold(n.subnets[i].name, id.Name()) {
			return &n.subnets[i]
		}
	}
	return nil
}

func (c *Cloud) checkAddress(next *Resource, x *configuration, where *subnet) error {
	if !slices.ContainsFunc(where.prefixes, func(p netip.Prefix) bool { return p.Contains(x.addr) }) {
		return bad("PrivateIPAddressNotInSubnet", "Private static IP address %s does not belong to the range of subnet prefix %v.", x.addr, where.prefixes)
	}
	id, _ := ParseID(x.subnet) // the subnet has been found
	if other, taken := c.now().private[networkAddress{id.Parent().Key(), x.addr}]; taken && other.resource.id.Key() != next.id.Key() {
		return bad("PrivateIPAddressInUse", "IP configuration %s is using the private IP address %s which is already allocated to resource %s.",
			next.id.Child("ipConfigurations", x.name), x.addr, other.resource.id.Child("ipConfigurations", other.at.name))
	}
	return nil
}

func (c *Cloud) checkNetwork(w Write, prev, next *Resource, n *network) error {
	for i := range n.subnets {
		s := &n.subnets[i]
		if s.nsg == "" {
			continue
		}
		at := next.id.Child("subnets", s.name)
		g, err := c.referTo(s.nsg, at.String(), next.Location, next.id)
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
	for _, s := range prev.parsed.(*network).subnets {
		id := next.id.Child("subnets", s.name)
		if users := c.now().subnetUsers[id.Key()]; len(users) > 0 && !slices.ContainsFunc(n.subnets, func(t subnet) bool { return strings.EqualFold(t.name, s.name) }) {
			return subnetInUse(id, users)
		}
	}
	return nil
}

func (c *Cloud) checkMachine(next *Resource, m *machine) error {
	if len(m.nics) == 0 {
		return bad("NetworkInterfacesRequired", "The virtual machine %s must have at least one network interface.", next.ID)
	}
	for _, k := range m.nics {
		if r := c.resources[k]; r == nil || r.id.Type() != typeNIC {
			return Refuse(http.StatusNotFound, "NotFound", "Resource %s not found.", k)
		}
		if other := c.now().machineOf[k]; other != "" && !strings.EqualFold(other, next.ID) {
			return bad("NicInUse", "Network Interface %s is used by existing VM %s.", k, other)
		}
	}
	return nil
}

// prepare fills in what the cloud chooses where the document leaves it open: private addresses, and
// which configuration is the primary one.
func (c *Cloud) prepare(prev, next *Resource) error {
	switch next.id.Type() {
	case typePublicIP:
		if next.Properties["ipAddress"] == nil {
			next.Properties["ipAddress"] = c.freePublic().String()
		}
		return nil
	case typeNIC:
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
		dynamic := strings.EqualFold(text(p["privateIPAllocationMethod"]), "Dynamic")
		if given := text(p["privateIPAddress"]); given != "" && !dynamic {
			if a, err := netip.ParseAddr(given); err == nil {
				taken[a] = true
			}
			continue
		}
		subnetID := ""
		if s, ok := p["subnet"].(map[string]any); ok {
			subnetID = key(text(s["id"]))
		}
		name := text(d["name"])
		if was, ok := parsedNIC(prev); ok {
			for _, x := range was.configurations {
				if strings.EqualFold(x.name, name) && x.subnet == subnetID && x.addr.IsValid() {
					p["privateIPAddress"] = x.addr.String()
				}
			}
		}
		if a, err := netip.ParseAddr(text(p["privateIPAddress"])); err == nil && c.keeps(prev, name, subnetID, a) {
			taken[a] = true
			continue
		}
		where := c.subnetOf(subnetID)
		if where == nil {
			p["privateIPAddress"] = "0.0.0.0" // the subnet is refused by the check
			continue
		}
		v6 := strings.EqualFold(text(p["privateIPAddressVersion"]), "IPv6")
		a, err := c.freePrivate(subnetID, where, v6, taken)
		if err != nil {
			return err
		}
		taken[a] = true
		p["privateIPAddress"] = a.String()
	}
	return nil
}

// text is a JSON string; empty for anything else.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// keeps reports whether the configuration had the address before.
func (c *Cloud) keeps(prev *Resource, name, subnet string, a netip.Addr) bool {
	was, ok := parsedNIC(prev)
	return ok && slices.ContainsFunc(was.configurations, func(x configuration) bool {
		return strings.EqualFold(x.name, name) && x.subnet == subnet && x.addr == a
	})
}

// freePrivate is the first free address of a subnet; the first four and the last one are the
// cloud's.
func (c *Cloud) freePrivate(subnetID string, where *subnet, v6 bool, taken map[netip.Addr]bool) (netip.Addr, error) {
	id, _ := ParseID(subnetID) // the subnet has been found
	network := id.Parent().Key()
	for _, p := range where.prefixes {
		if p.Addr().Is6() != v6 {
			continue
		}
		a := p.Addr().Next().Next().Next().Next()
		for ; p.Contains(a) && p.Contains(a.Next()); a = a.Next() {
			if _, used := c.now().private[networkAddress{network, a}]; !used && !taken[a] {
				return a, nil
			}
		}
	}
	return netip.Addr{}, bad("SubnetIsFull", "Subnet %s with address prefix %v does not have enough capacity for 1 IP addresses.", where.name, where.prefixes)
}

// freePublic is the first public address, of a range for documentation, that nobody has.
func (c *Cloud) freePublic() netip.Addr {
	used := map[netip.Addr]bool{}
	for _, r := range c.resources {
		if r.id.Type() == typePublicIP {
			used[publicAddress(r)] = true
		}
	}
	a := netip.MustParseAddr("198.18.0.1")
	for used[a] {
		a = a.Next()
	}
	return a
}
