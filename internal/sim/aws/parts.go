package aws

// Routes are the calls about where packets go: route tables and internet gateways.
type Routes struct{ *site }

// Routes returns that part of the region.
func (r *Region) Routes() Routes { return Routes{r.site} }

// ACLs are the calls about network ACLs.
type ACLs struct{ *site }

// ACLs returns that part of the region.
func (r *Region) ACLs() ACLs { return ACLs{r.site} }

// Templates are the calls about launch templates.
type Templates struct{ *site }

// Templates returns that part of the region.
func (r *Region) Templates() Templates { return Templates{r.site} }

// PrefixListCalls are the calls about prefix lists.
type PrefixListCalls struct{ *site }

// Lists returns that part of the region.
func (r *Region) Lists() PrefixListCalls { return PrefixListCalls{r.site} }

// Peerings are the calls about connections between networks.
type Peerings struct{ *site }

// Peerings returns that part of the region.
func (r *Region) Peerings() Peerings { return Peerings{r.site} }

// Networks are the calls about VPCs, their blocks, and subnets.
type Networks struct{ *site }

// Networks returns that part of the region.
func (r *Region) Networks() Networks { return Networks{r.site} }

// Groups are the calls about security groups and their rules.
type Groups struct{ *site }

// Groups returns that part of the region.
func (r *Region) Groups() Groups { return Groups{r.site} }

// Interfaces are the calls about network interfaces: their addresses, groups and attachments.
type Interfaces struct{ *site }

// Interfaces returns that part of the region.
func (r *Region) Interfaces() Interfaces { return Interfaces{r.site} }

// InstanceCalls are the calls that run, change, stop and end instances.
type InstanceCalls struct{ *site }

// InstanceCalls returns that part of the region.
func (r *Region) InstanceCalls() InstanceCalls { return InstanceCalls{r.site} }
