package aws

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Bounds of prefix list calls.
const maxEntriesPerCall = 100

const (
	createInProgress = "create-in-progress"
	createComplete   = "create-complete"
	modifyInProgress = "modify-in-progress"
	modifyComplete   = "modify-complete"
	deleteInProgress = "delete-in-progress"
	deleteComplete   = "delete-complete"
)

// CreatePrefixList makes a customer-managed prefix list. A repeated ClientToken returns the first
// list.
func (r PrefixListCalls) CreatePrefixList(in CreatePrefixListInput) (PrefixList, error) {
	var out PrefixList
	err := r.mutate("CreateManagedPrefixList", func(now time.Time) ([]string, error) {
		if id, ok := r.data.listTokens[in.ClientToken]; ok && in.ClientToken != "" && r.data.prefixLists[id] != nil {
			out = clonePrefixList(r.data.prefixLists[id])
			return nil, errNothingChanged
		}
		entries, err := r.checkNewList(in)
		if err != nil {
			return nil, err
		}
		if err := r.checkNewTags(in.Tags); err != nil {
			return nil, err
		}
		p := &PrefixList{
			ID: r.w.newID("pl"), Name: in.Name, OwnerID: r.at.account, Family: in.Family, MaxEntries: in.MaxEntries,
			State: createInProgress, Versions: [][]PrefixListEntry{entries}, Tags: cloneTags(in.Tags),
			Visible: now.Add(r.w.visibility),
		}
		r.data.prefixLists[p.ID] = p
		if in.ClientToken != "" {
			r.data.listTokens[in.ClientToken] = p.ID
		}
		r.w.later(now, r.w.transition, r.at, p.ID, createInProgress, createComplete)
		out = clonePrefixList(p)
		return []string{p.ID}, nil
	})
	return out, err
}

func (r PrefixListCalls) checkNewList(in CreatePrefixListInput) ([]PrefixListEntry, error) {
	q := r.w.quotas(r.at.account)
	own := 0
	for _, p := range r.data.prefixLists {
		if p.OwnerID != AWSOwned {
			own++
		}
	}
	switch {
	case in.Name == "" || len(in.Name) > 255:
		return nil, invalidValue("Invalid value '%s' for prefixListName. It must have 1 to 255 characters.", in.Name)
	case strings.HasPrefix(in.Name, "com.amazonaws"):
		return nil, invalidValue("Invalid value '%s' for prefixListName. The name cannot start with com.amazonaws.", in.Name)
	case in.Family != "IPv4" && in.Family != "IPv6":
		return nil, invalidValue("Invalid value '%s' for addressFamily. Valid values are IPv4 and IPv6.", in.Family)
	case in.MaxEntries < 1 || in.MaxEntries > q.EntriesPerPrefixList:
		return nil, invalidValue("Invalid value '%d' for maxEntries. It must be between 1 and %d.", in.MaxEntries, q.EntriesPerPrefixList)
	case len(in.Entries) > maxEntriesPerCall:
		return nil, invalidValue("The number of entries (%d) exceeds the maximum of %d per request", len(in.Entries), maxEntriesPerCall)
	case own >= q.PrefixListsPerRegion:
		return nil, refuse("PrefixListLimitExceeded", "The maximum number of prefix lists has been reached.")
	}
	return addEntries(nil, in.Entries, in.Family, in.MaxEntries)
}

// addEntries adds entries to a list: a block that is there already gets the new description.
func addEntries(have []PrefixListEntry, add []EntrySpec, family string, limit int) ([]PrefixListEntry, error) {
	out := slices.Clone(have)
	named := map[netip.Prefix]bool{}
	for _, e := range add {
		p, err := canonicalCIDR(e.CIDR, family == "IPv6")
		if err != nil {
			return nil, err
		}
		if named[p] {
			return nil, invalidValue("The request contains the CIDR %s more than once", p)
		}
		named[p] = true
		if i := slices.IndexFunc(out, func(x PrefixListEntry) bool { return x.CIDR == p }); i >= 0 {
			out[i].Description = e.Description
			continue
		}
		out = append(out, PrefixListEntry{p, e.Description})
	}
	if len(out) > limit {
		return nil, refuse("PrefixListMaxEntriesExceeded", "You've reached the maximum number of entries (%d) for the prefix list.", limit)
	}
	return out, nil
}

// list finds a visible list that the account owns and that no operation is running on.
func (r PrefixListCalls) list(id string, now time.Time) (*PrefixList, error) {
	if err := CheckID("pl", id); err != nil {
		return nil, err
	}
	p, ok := r.data.prefixLists[id]
	switch {
	case !ok || !seen(p.Visible, now):
		return nil, NotFound(id)
	case p.OwnerID == AWSOwned:
		return nil, &Error{"UnauthorizedOperation", "You are not authorized to perform this operation.", 403}
	case p.State == createInProgress || p.State == modifyInProgress || p.State == deleteInProgress:
		return nil, refuse("IncorrectState", "The prefix list '%s' cannot be modified in the current state (%s)", id, p.State)
	}
	return p, nil
}

// ModifyPrefixList changes name, entries or size of a list. A change of entries needs the current
// version and makes the next one; it takes effect for every group that references the list. The
// size cannot be changed together with entries, and not beyond the rule quota of any referencing
// group.
func (r PrefixListCalls) ModifyPrefixList(in ModifyPrefixListInput) (PrefixList, error) {
	var out PrefixList
	err := r.mutate("ModifyManagedPrefixList", func(now time.Time) ([]string, error) {
		p, err := r.list(in.PrefixListID, now)
		if err != nil {
			return nil, err
		}
		next := clonePrefixList(p)
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
		next.State = modifyInProgress
		*p = next
		r.w.later(now, r.w.transition, r.at, p.ID, modifyInProgress, modifyComplete)
		out = clonePrefixList(p)
		return []string{p.ID}, nil
	})
	return out, err
}

func changedEntries(p *PrefixList, in ModifyPrefixListInput) ([]PrefixListEntry, error) {
	switch {
	case in.MaxEntries != nil:
		return nil, invalidValue("You cannot modify the entries and the maximum number of entries in the same request")
	case len(in.Add) > maxEntriesPerCall || len(in.Remove) > maxEntriesPerCall:
		return nil, invalidValue("The number of entries exceeds the maximum of %d per request", maxEntriesPerCall)
	case in.CurrentVersion == nil:
		return nil, refuse("MissingParameter", "The request must contain the parameter CurrentVersion")
	case *in.CurrentVersion != p.Version():
		return nil, refuse("PrefixListVersionMismatch", "The prefix list has the incorrect version number.")
	}
	kept := slices.Clone(p.Entries())
	for _, s := range in.Remove {
		cidr, err := canonicalCIDR(s, p.Family == "IPv6")
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(kept, func(e PrefixListEntry) bool { return e.CIDR == cidr })
		if i < 0 {
			return nil, invalidValue("The prefix list '%s' has no entry %s", p.ID, cidr)
		}
		kept = slices.Delete(kept, i, i+1)
	}
	return addEntries(kept, in.Add, p.Family, p.MaxEntries)
}

func (r PrefixListCalls) checkResize(p *PrefixList, in ModifyPrefixListInput) error {
	size, q := *in.MaxEntries, r.w.quotas(r.at.account)
	if size < 1 || size > q.EntriesPerPrefixList || size < len(p.Entries()) {
		return invalidValue("Invalid value '%d' for maxEntries. It must be between %d and %d.", size, max(1, len(p.Entries())), q.EntriesPerPrefixList)
	}
	for _, g := range r.data.groups {
		for _, egress := range []bool{false, true} {
			references := 0
			for i := range g.Rules {
				if g.Rules[i].PrefixListID == p.ID && g.Rules[i].Egress == egress {
					references++
				}
			}
			n := r.countRules(g.Rules, egress)
			now := n.v4
			if p.Family == "IPv6" {
				now = n.v6
			}
			grow := references * (size - p.MaxEntries)
			if grow > 0 && now+grow > q.RulesPerGroup {
				return refuse("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
			}
		}
	}
	return nil
}

// DeletePrefixList deletes a list that no rule references.
func (r PrefixListCalls) DeletePrefixList(id string) (PrefixList, error) {
	var out PrefixList
	err := r.mutate("DeleteManagedPrefixList", func(now time.Time) ([]string, error) {
		p, err := r.list(id, now)
		if err != nil {
			return nil, err
		}
		for _, g := range r.data.groups {
			for i := range g.Rules {
				if g.Rules[i].PrefixListID == id {
					return nil, refuse("DependencyViolation", "The prefix list '%s' is in use by %s and cannot be deleted", id, g.ID)
				}
			}
		}
		p.State = deleteInProgress
		r.w.later(now, r.w.transition, r.at, id, deleteInProgress, deleteComplete)
		out = clonePrefixList(p)
		return []string{id}, nil
	})
	return out, err
}
