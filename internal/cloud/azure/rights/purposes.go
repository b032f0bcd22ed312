package rights

// Purpose says what actions of the role are for, in Markdown for docs/reference/rights.md.
type Purpose struct {
	// Actions are names of actions, or their ends.
	Actions []string
	For     string
}

// Purposes lists the actions of the published role. An action belongs to the first purpose that
// names it or its end.
func Purposes() []Purpose {
	return []Purpose{
		{[]string{"privateEndpoints/read", "loadBalancers/read", "applicationGateways/read"}, "[native services](docs/native-services.md); optional"},
		{[]string{"routeTables/read", "virtualNetworkGateways/read", "localNetworkGateways/read", "connections/read"}, "what [VirtualNetwork](docs/azure.md#what-the-tag-virtualnetwork-means) means; without them it may be any address"},
		{[]string{"locations/serviceTags/read"}, "[service tags](docs/native-services.md#service-tags-of-azure); counts only at the subscription"},
		{[]string{"Microsoft.Authorization/permissions/read"}, "`nephele check` only"},
		{[]string{"locations/operations/read", "locations/operationResults/read"}, "following a change until Azure has made it"},
		{[]string{"Microsoft.Resources/tags/read", "Microsoft.Resources/tags/write"}, "claims of networks, and former groups of interfaces"},
		{[]string{"networkSecurityGroups/write", "networkSecurityGroups/delete", "applicationSecurityGroups/write", "applicationSecurityGroups/delete"}, "our groups. **Azure cannot bind roles to tags**: the right covers all groups of these resource groups; Nephele writes only `nephele-...`"},
		{[]string{"networkInterfaces/write", "/join/action", "joinIpConfiguration/action", "joinNetworkSecurityRule/action"}, "exchanging the groups of an interface: Azure writes it whole, with all that it names"},
		{[]string{"/read"}, "the inventory, and reading what is about to change: machines, scale sets, networks, interfaces, groups, public addresses"},
	}
}

// Optional lists the actions that a role has only if they are asked for.
func Optional() []Purpose {
	return []Purpose{{routeActions(), "[routes to Nodes](docs/node-network.md#route-tables-of-clouds), with `--node-routes` only: all routes of these resource groups"}}
}
