package aws

// Quotas are the service quotas of an account; they hold in each of its regions. A zero field means
// the default of AWS.
type Quotas struct {
	GroupsPerRegion      int `json:"groupsPerRegion,omitempty"`      // default 2500
	RulesPerGroup        int `json:"rulesPerGroup,omitempty"`        // per direction and address family; default 60
	GroupsPerInterface   int `json:"groupsPerInterface,omitempty"`   // default 5, at most 16
	TagsPerResource      int `json:"tagsPerResource,omitempty"`      // default 50
	VPCsPerRegion        int `json:"vpcsPerRegion,omitempty"`        // default 5
	SubnetsPerVPC        int `json:"subnetsPerVpc,omitempty"`        // default 200
	PrefixListsPerRegion int `json:"prefixListsPerRegion,omitempty"` // default 100
	EntriesPerPrefixList int `json:"entriesPerPrefixList,omitempty"` // bound of MaxEntries; default 1000
}

// DefaultQuotas are the defaults of AWS.
var DefaultQuotas = Quotas{2500, 60, 5, 50, 5, 200, 100, 1000}

// maxGroupsTimesRules bounds GroupsPerInterface x RulesPerGroup.
const maxGroupsTimesRules = 1000

// WithDefaults returns the quotas with the defaults of AWS in place of zero fields.
func (q Quotas) WithDefaults() Quotas {
	d := DefaultQuotas
	fill := func(f *int, v int) {
		if *f == 0 {
			*f = v
		}
	}
	fill(&q.GroupsPerRegion, d.GroupsPerRegion)
	fill(&q.RulesPerGroup, d.RulesPerGroup)
	fill(&q.GroupsPerInterface, d.GroupsPerInterface)
	fill(&q.TagsPerResource, d.TagsPerResource)
	fill(&q.VPCsPerRegion, d.VPCsPerRegion)
	fill(&q.SubnetsPerVPC, d.SubnetsPerVPC)
	fill(&q.PrefixListsPerRegion, d.PrefixListsPerRegion)
	fill(&q.EntriesPerPrefixList, d.EntriesPerPrefixList)
	return q
}

// Check refuses quotas that AWS would not grant: negative ones, more than 16 groups per interface,
// or a product of groups per interface and rules per group above 1000.
func (q Quotas) Check() error {
	q = q.WithDefaults()
	for _, v := range []int{q.GroupsPerRegion, q.RulesPerGroup, q.GroupsPerInterface, q.TagsPerResource, q.VPCsPerRegion,
		q.SubnetsPerVPC, q.PrefixListsPerRegion, q.EntriesPerPrefixList} {
		if v < 0 {
			return InvalidValue("quotas cannot be negative (%d)", v)
		}
	}
	if q.GroupsPerInterface > 16 {
		return InvalidValue("groupsPerInterface is %d, at most 16 can be granted", q.GroupsPerInterface)
	}
	if p := q.GroupsPerInterface * q.RulesPerGroup; p > maxGroupsTimesRules {
		return InvalidValue("groupsPerInterface x rulesPerGroup is %d, at most %d can be granted", p, maxGroupsTimesRules)
	}
	return nil
}
