package dump

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/estate/source"
)

// answer is one describe answer that tells about a region.
type answer struct {
	member, call string
	// collected is true if a collector may leave it out.
	collected bool
	// taken is what is there instead.
	taken string
}

// answers are those without which an account is not known, in the order of the report. It is never
// written to.
var answers = []answer{
	{member: "Vpcs", call: "describe-vpcs", taken: "made up around what refers to them"},
	{member: "Subnets", call: "describe-subnets", taken: "made up around what refers to them"},
	{member: "SecurityGroups", call: "describe-security-groups", taken: "groups without rules"},
	{member: "Reservations", call: "describe-instances", taken: "no instance"},
	{member: "NetworkInterfaces", call: "describe-network-interfaces", collected: true, taken: "no interfaces but the instances'"},
	{member: "VpcPeeringConnections", call: "describe-vpc-peering-connections", collected: true, taken: "no peering"},
	{member: "PrefixLists", call: "describe-managed-prefix-lists", taken: "no prefix list, as no rule refers to one"},
}

// findMissing notes which answers a region lacks. No one need tell prefix lists that no rule refers
// to; and a collector leaves out what it does not look at, which its user cannot help.
func (l reader) findMissing(place string, r *Region, collector bool) {
	for _, a := range answers {
		if r.present[a.member] {
			continue
		}
		needed, taken := !collector || !a.collected, a.taken
		if a.member == "PrefixLists" {
			needed = r.refersToLists()
		}
		if a.member == "PrefixLists" && needed {
			taken = "lists without entries"
		}
		l.Report.Gaps = append(l.Report.Gaps, source.Gap{
			Region: r.name, Place: place, Object: a.member, Taken: taken, Needed: needed,
			Expected: fmt.Sprintf("the answer of \"aws ec2 %s\" in %s.json, with an empty list if there are none", a.call, a.member),
		})
	}
}

func (r *Region) refersToLists() bool {
	return slices.ContainsFunc(r.groups, func(g rawGroup) bool {
		return slices.ContainsFunc(slices.Concat(g.IpPermissions, g.IpPermissionsEgress), func(p rawPermission) bool { return len(p.PrefixListIds) > 0 })
	})
}

// checkWhole refuses an answer of which more pages follow.
func checkWhole(file, member string, members map[string]json.RawMessage) error {
	token := bytes.TrimSpace(members["NextToken"])
	if len(token) == 0 || string(token) == "null" || string(token) == `""` {
		return nil
	}
	return fmt.Errorf(
		"%s: NextToken: this is only a part of the answer: expected all pages in one file (the aws command line joins them unless told not to), with all of %s",
		file,
		member,
	)
}

// addPrefixLists adds an answer about prefix lists to what others said: describe-prefix-lists has
// the entries of the cloud's own lists, describe-managed-prefix-lists has the size of all.
func (r *Region) addPrefixLists(lists []rawPrefixList) {
	for _, x := range lists {
		i := slices.IndexFunc(r.prefixLists, func(o rawPrefixList) bool { return o.PrefixListId == x.PrefixListId })
		if i < 0 || x.PrefixListId == "" {
			r.prefixLists = append(r.prefixLists, x)
			continue
		}
		o := &r.prefixLists[i]
		o.PrefixListName, o.OwnerId = cmp.Or(o.PrefixListName, x.PrefixListName), cmp.Or(o.OwnerId, x.OwnerId)
		o.AddressFamily, o.MaxEntries = cmp.Or(o.AddressFamily, x.AddressFamily), max(o.MaxEntries, x.MaxEntries)
		if o.Cidrs == nil && o.Entries == nil {
			o.Cidrs, o.Entries = x.Cidrs, x.Entries
		}
		if o.Tags == nil {
			o.Tags = x.Tags
		}
	}
}

// missingEntries notes the lists that rules refer to and whose entries are not told.
func (b *builder) missingEntries() {
	silent := map[string]bool{}
	for _, x := range b.raw.prefixLists {
		silent[x.PrefixListId] = x.Cidrs == nil && x.Entries == nil
	}
	known := func(id string) bool {
		told, there := silent[id]
		return there && !told
	}
	reported := map[string]bool{}
	for _, g := range b.raw.groups {
		for _, p := range slices.Concat(g.IpPermissions, g.IpPermissionsEgress) {
			for _, x := range p.PrefixListIds {
				if known(x.PrefixListId) || reported[x.PrefixListId] || !b.raw.present["PrefixLists"] {
					continue
				}
				reported[x.PrefixListId] = true
				expected := fmt.Sprintf(
					"the member Entries in this list, as \"aws ec2 get-managed-prefix-list-entries --prefix-list-id %s\" prints it, because group %s refers to the list",
					x.PrefixListId,
					g.GroupId,
				)
				if _, there := silent[x.PrefixListId]; !there {
					expected = fmt.Sprintf("the list with its entries, because group %s refers to it", g.GroupId)
				}
				b.l.Report.Gaps = append(b.l.Report.Gaps, source.Gap{Region: b.raw.name, Place: b.raw.file("PrefixLists"), Object: x.PrefixListId, Expected: expected, Taken: "a list without entries", Needed: true})
			}
		}
	}
}

// notTold notes an object that others refer to and that the answer which should tell it does not.
// If there is no such answer, that was noted.
func (b *builder) notTold(member, object, expected, taken string) {
	if b.raw.present[member] {
		b.l.Report.Gaps = append(b.l.Report.Gaps, source.Gap{Region: b.raw.name, Place: b.raw.file(member), Object: object, Expected: expected, Taken: taken, Needed: true})
	}
}
