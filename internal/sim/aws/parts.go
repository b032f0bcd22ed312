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
