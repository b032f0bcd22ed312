package group

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// PrefixLists is DescribeManagedPrefixLists: the account's own lists and the lists of the cloud.
func (r PrefixLists) PrefixLists(ids ...string) (out []aws.PrefixList, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("pl", r.s.Data.PrefixLists, ids, func(p *aws.PrefixList) bool { return store.Seen(p.Visible, now) }, (*aws.PrefixList).Clone)
	})
	return out, err
}

// PrefixListEntries is GetManagedPrefixListEntries. Version 0 means the current one.
func (r PrefixLists) PrefixListEntries(id string, version int) (out []aws.PrefixListEntry, err error) {
	lists, err := r.PrefixLists(id)
	if err != nil {
		return nil, err
	}
	p := lists[0]
	switch {
	case version == 0:
		return p.Entries(), nil
	case version < 0 || version > p.Version():
		return nil, aws.Refuse("PrefixListVersionNotFound", "The prefix list ID '%s' has no version %d", id, version)
	}
	return p.Versions[version-1], nil
}

// PrefixLists are the calls about prefix lists.
type PrefixLists struct{ s *store.Site }

// PrefixListsAt returns the calls on a site.
func PrefixListsAt(s *store.Site) PrefixLists { return PrefixLists{s} }

// Bounds of prefix list calls.
const maxEntriesPerCall = 100

// CreatePrefixList makes a customer-managed prefix list. A repeated ClientToken returns the first
// list.
func (r PrefixLists) CreatePrefixList(in aws.CreatePrefixListInput) (aws.PrefixList, error) {
	var out aws.PrefixList
	err := r.s.Mutate("CreateManagedPrefixList", func(now time.Time) ([]string, error) {
		if id, ok := r.s.ListTokens()[in.ClientToken]; ok && in.ClientToken != "" && r.s.Data.PrefixLists[id] != nil {
			out = r.s.Data.PrefixLists[id].Clone()
			return nil, store.ErrNothingChanged
		}
		entries, err := r.checkNewList(in)
		if err != nil {
			return nil, err
		}
		if err := r.s.CheckNewTags(in.Tags); err != nil {
			return nil, err
		}
		p := &aws.PrefixList{
			ID: r.s.NewID("pl"), Name: in.Name, OwnerID: r.s.Account, Family: in.Family, MaxEntries: in.MaxEntries,
			State: aws.CreateInProgress, Versions: [][]aws.PrefixListEntry{entries}, Tags: in.Tags.Clone(),
			Visible: r.s.Visible(now),
		}
		r.s.Data.PrefixLists[p.ID] = p
		if in.ClientToken != "" {
			r.s.ListTokens()[in.ClientToken] = p.ID
		}
		r.s.Later(now, r.s.Transition(), p.ID, aws.CreateInProgress, aws.CreateComplete)
		out = p.Clone()
		return []string{p.ID}, nil
	})
	return out, err
}

func (r PrefixLists) checkNewList(in aws.CreatePrefixListInput) ([]aws.PrefixListEntry, error) {
	q := r.s.Quotas()
	own := 0
	for _, p := range r.s.Data.PrefixLists {
		if p.OwnerID != aws.AWSOwned {
			own++
		}
	}
	switch {
	case in.Name == "" || len(in.Name) > 255:
		return nil, aws.InvalidValue("Invalid value '%s' for prefixListName. It must have 1 to 255 characters.", in.Name)
	case strings.HasPrefix(in.Name, "com.amazonaws"):
		return nil, aws.InvalidValue("Invalid value '%s' for prefixListName. The name cannot start with com.amazonaws.", in.Name)
	case in.Family != "IPv4" && in.Family != "IPv6":
		return nil, aws.InvalidValue("Invalid value '%s' for addressFamily. Valid values are IPv4 and IPv6.", in.Family)
	case in.MaxEntries < 1 || in.MaxEntries > q.EntriesPerPrefixList:
		return nil, aws.InvalidValue("Invalid value '%d' for maxEntries. It must be between 1 and %d.", in.MaxEntries, q.EntriesPerPrefixList)
	case len(in.Entries) > maxEntriesPerCall:
		return nil, aws.InvalidValue("The number of entries (%d) exceeds the maximum of %d per request", len(in.Entries), maxEntriesPerCall)
	case own >= q.PrefixListsPerRegion:
		return nil, aws.Refuse("PrefixListLimitExceeded", "The maximum number of prefix lists has been reached.")
	}
	return addEntries(nil, in.Entries, in.Family, in.MaxEntries)
}

// addEntries adds entries to a list: a block that is there already gets the new description.
func addEntries(have []aws.PrefixListEntry, add []aws.EntrySpec, family string, limit int) ([]aws.PrefixListEntry, error) {
	out := slices.Clone(have)
	named := map[netip.Prefix]bool{}
	for _, e := range add {
		p, err := aws.CanonicalCIDR(e.CIDR, family == "IPv6")
		if err != nil {
			return nil, err
		}
		if named[p] {
			return nil, aws.InvalidValue("The request contains the CIDR %s more than once", p)
		}
		named[p] = true
		if i := slices.IndexFunc(out, func(x aws.PrefixListEntry) bool { return x.CIDR == p }); i >= 0 {
			out[i].Description = e.Description
			continue
		}
		out = append(out, aws.PrefixListEntry{CIDR: p, Description: e.Description})
	}
	if len(out) > limit {
		return nil, aws.Refuse("PrefixListMaxEntriesExceeded", "You've reached the maximum number of entries (%d) for the prefix list.", limit)
	}
	return out, nil
}

// list finds a visible list that the account owns and that no operation is running on.
func (r PrefixLists) list(id string, now time.Time) (*aws.PrefixList, error) {
	if err := aws.CheckID("pl", id); err != nil {
		return nil, err
	}
	p, ok := r.s.Data.PrefixLists[id]
	switch {
	case !ok || !store.Seen(p.Visible, now):
		return nil, aws.NotFound(id)
	case p.OwnerID == aws.AWSOwned:
		return nil, &aws.Error{Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation.", HTTPStatus: 403}
	case p.State == aws.CreateInProgress || p.State == aws.ModifyInProgress || p.State == aws.DeleteInProgress:
		return nil, aws.Refuse("IncorrectState", "The prefix list '%s' cannot be modified in the current state (%s)", id, p.State)
	}
	return p, nil
}

// ModifyPrefixList changes name, entries or size of a list. A change of entries needs the current
// version and makes the next one; it takes effect for every group that references the list. The
// size cannot be changed together with entries, and not beyond the rule quota of any referencing
// group.
func (r PrefixLists) ModifyPrefixList(in aws.ModifyPrefixListInput) (aws.PrefixList, error) {
	var out aws.PrefixList
	err := r.s.Mutate("ModifyManagedPrefixList", func(now time.Time) ([]string, error) {
		p, err := r.list(in.PrefixListID, now)
		if err != nil {
			return nil, err
		}
		next := p.Clone()
		if in.Name != nil {
			next.Name = *in.Name
		}
		if len(in.Add)+len(in.Remove) > 0 {
			entries, err := changedEntries(p, in)
			if err != nil {
				return nil, err
			}
			next.Versions = append(next.Versions, entries)
		}
		if in.MaxEntries != nil {
			if err := r.checkResize(p, in); err != nil {
				return nil, err
			}
			next.MaxEntries = *in.MaxEntries
		}
		next.State = aws.ModifyInProgress
		*p = next
		r.s.Later(now, r.s.Transition(), p.ID, aws.ModifyInProgress, aws.ModifyComplete)
		out = p.Clone()
		return []string{p.ID}, nil
	})
	return out, err
}

func changedEntries(p *aws.PrefixList, in aws.ModifyPrefixListInput) ([]aws.PrefixListEntry, error) {
	switch {
	case in.MaxEntries != nil:
		return nil, aws.InvalidValue("You cannot modify the entries and the maximum number of entries in the same request")
	case len(in.Add) > maxEntriesPerCall || len(in.Remove) > maxEntriesPerCall:
		return nil, aws.InvalidValue("The number of entries exceeds the maximum of %d per request", maxEntriesPerCall)
	case in.CurrentVersion == nil:
		return nil, aws.Refuse("MissingParameter", "The request must contain the parameter CurrentVersion")
	case *in.CurrentVersion != p.Version():
		return nil, aws.Refuse("PrefixListVersionMismatch", "The prefix list has the incorrect version number.")
	}
	kept := slices.Clone(p.Entries())
	for _, s := range in.Remove {
		cidr, err := aws.CanonicalCIDR(s, p.Family == "IPv6")
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(kept, func(e aws.PrefixListEntry) bool { return e.CIDR == cidr })
		if i < 0 {
			return nil, aws.InvalidValue("The prefix list '%s' has no entry %s", p.ID, cidr)
		}
		kept = slices.Delete(kept, i, i+1)
	}
	return addEntries(kept, in.Add, p.Family, p.MaxEntries)
}

func (r PrefixLists) checkResize(p *aws.PrefixList, in aws.ModifyPrefixListInput) error {
	size, q := *in.MaxEntries, r.s.Quotas()
	if size < 1 || size > q.EntriesPerPrefixList || size < len(p.Entries()) {
		return aws.InvalidValue("Invalid value '%d' for maxEntries. It must be between %d and %d.", size, max(1, len(p.Entries())), q.EntriesPerPrefixList)
	}
	for _, g := range r.s.Data.Groups {
		for _, egress := range []bool{false, true} {
			references := 0
			for i := range g.Rules {
				if g.Rules[i].PrefixListID == p.ID && g.Rules[i].Egress == egress {
					references++
				}
			}
			n := countRules(r.s.Data, g.Rules, egress)
			now := n.v4
			if p.Family == "IPv6" {
				now = n.v6
			}
			grow := references * (size - p.MaxEntries)
			if grow > 0 && now+grow > q.RulesPerGroup {
				return aws.Refuse("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
			}
		}
	}
	return nil
}

// DeletePrefixList deletes a list that no rule references.
func (r PrefixLists) DeletePrefixList(id string) (aws.PrefixList, error) {
	var out aws.PrefixList
	err := r.s.Mutate("DeleteManagedPrefixList", func(now time.Time) ([]string, error) {
		p, err := r.list(id, now)
		if err != nil {
			return nil, err
		}
		for _, g := range r.s.Data.Groups {
			for i := range g.Rules {
				if g.Rules[i].PrefixListID == id {
					return nil, aws.Refuse("DependencyViolation", "The prefix list '%s' is in use by %s and cannot be deleted", id, g.ID)
				}
			}
		}
		p.State = aws.DeleteInProgress
		r.s.Later(now, r.s.Transition(), id, aws.DeleteInProgress, aws.DeleteComplete)
		out = p.Clone()
		return []string{id}, nil
	})
	return out, err
}
