package aws

import "time"

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

// defaultQuotas are the defaults of AWS.
var defaultQuotas = Quotas{2500, 60, 5, 50, 5, 200, 100, 1000}

// maxGroupsTimesRules bounds GroupsPerInterface x RulesPerGroup.
const maxGroupsTimesRules = 1000

func (q Quotas) withDefaults() Quotas {
	d := defaultQuotas
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
	q = q.withDefaults()
	for _, v := range []int{q.GroupsPerRegion, q.RulesPerGroup, q.GroupsPerInterface, q.TagsPerResource, q.VPCsPerRegion,
		q.SubnetsPerVPC, q.PrefixListsPerRegion, q.EntriesPerPrefixList} {
		if v < 0 {
			return invalidValue("quotas cannot be negative (%d)", v)
		}
	}
	if q.GroupsPerInterface > 16 {
		return invalidValue("groupsPerInterface is %d, at most 16 can be granted", q.GroupsPerInterface)
	}
	if p := q.GroupsPerInterface * q.RulesPerGroup; p > maxGroupsTimesRules {
		return invalidValue("groupsPerInterface x rulesPerGroup is %d, at most %d can be granted", p, maxGroupsTimesRules)
	}
	return nil
}

// Quotas returns the effective quotas of an account.
func (w *World) Quotas(account string) Quotas {
	w.state.RLock()
	defer w.state.RUnlock()
	return w.quotas(account)
}

func (w *World) quotas(account string) Quotas {
	if a, ok := w.accounts[account]; ok {
		return a.Quotas.withDefaults()
	}
	return defaultQuotas
}

// SetQuotas changes the quotas of an account. What exists already and exceeds them stays.
func (w *World) SetQuotas(account string, q Quotas) error {
	if err := q.Check(); err != nil {
		return err
	}
	return w.mutate(scope{account: account}, "SetQuotas", func(time.Time) ([]string, error) {
		a, ok := w.accounts[account]
		if !ok {
			return nil, invalidValue("there is no account %s", account)
		}
		a.Quotas = q
		return []string{account}, nil
	})
}
