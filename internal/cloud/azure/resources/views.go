package resources

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/lower"
)

// views are the groups of a snapshot as they are made: pairs of ours, and what other groups mean to
// single interfaces.
type views struct {
	w       *Region
	members map[string][]netip.Addr // application security group -> addresses
	spaces  map[string]space        // network and route tables -> what the tag VirtualNetwork means there
	pairs   map[string]bool         // network security groups of ours that have their other half
	groups  map[string]cloud.Group
	cache   map[string]meaning
	// bytes are the lengths of hashes in the ids of views, mixed the interfaces that another one's
	// record may be about, by interface; see apart.
	bytes map[string]int
	mixed map[string]string
}

// meaning is what a group allows an interface, and why it is not known exactly.
type meaning struct {
	rules  []cloud.Rule
	unread []string
}

// newViews returns the views of the interfaces of a region.
func newViews(w *Region) *views {
	v := &views{
		w:       w,
		members: map[string][]netip.Addr{},
		spaces:  map[string]space{},
		pairs:   map[string]bool{},
		groups:  map[string]cloud.Group{},
		cache:   map[string]meaning{},
	}
	tags := map[string]map[string]string{}
	for k, n := range w.NICs {
		tags[k] = PortTags(n.Tags)
	}
	v.bytes, v.mixed = apart(tags)
	for _, n := range w.NICs {
		for i := range n.Configurations {
			p := &n.Configurations[i].Properties
			a, err := netip.ParseAddr(p.Address)
			if err != nil {
				continue // none yet
			}
			for k := range p.ASGs {
				v.members[p.ASGs[k].key()] = append(v.members[p.ASGs[k].key()], a)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(w.Groups)) {
		g := w.Groups[k]
		if !pairLike(&g.Row) {
			continue
		}
		v.pairs[k] = w.asgs[IdentityOf(k)] != nil
	}
	for _, k := range slices.Sorted(maps.Keys(w.Groups)) {
		if g := w.Groups[k]; pairLike(&g.Row) {
			v.pair(k, &g.Row, g)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(w.asgs)) {
		if g := w.asgs[k]; pairLike(g) && w.Groups[RulesOf(k)] == nil {
			v.pair(k, g, nil)
		}
	}
	return v
}

// pairLike reports whether a group looks like one that a controller like us has made, of whichever
// cluster.
func pairLike(r *Row) bool {
	tags := PortTags(r.Tags)
	return strings.HasPrefix(strings.ToLower(r.Name), cloud.NamePrefix) && tags[cloud.TagCluster] != "" && tags[cloud.TagKind] != ""
}

// halfName ends the name of a pair of which a half is missing. It is the group of no class,
// whatever its tags say, so that it is deleted, or becomes whole when a new one is made under the
// name itself.
const halfName = "/half"

// pair shows a group that a controller like us has made; rules is nil if there is only the
// application security group.
func (v *views) pair(key string, r *Row, rules *NSG) {
	out := cloud.Group{ID: key, Name: strings.ToLower(r.Name), OwnerID: v.w.subscription, Tags: PortTags(r.Tags)}
	for _, network := range slices.Sorted(maps.Keys(v.w.Networks)) {
		if name, ok := nameOf(r.Name, network); ok {
			out.Name, out.NetworkID = name, network
			break
		}
	}
	if out.NetworkID == "" {
		return // its network is gone, or another one's
	}
	out.Description = out.Tags[TagDescription]
	delete(out.Tags, TagDescription)
	if rules == nil || !v.pairs[key] {
		out.Name += halfName
		if class, ok := out.Tags[cloud.TagClass]; ok {
			out.Tags[cloud.TagClass] = class + halfName
		}
	}
	if rules != nil {
		out.Rules, _ = lower.Decode(rules.Rules, v.groupOf)
	}
	v.groups[key] = out
}

// groupOf is the group of ours that rules mean by an application security group; empty if it is
// none.
func (v *views) groupOf(identity string) string {
	if id := RulesOf(identity); v.pairs[id] {
		return id
	}
	return ""
}

// interfaceGroups tells which groups an interface holds.
func (v *views) interfaceGroups(i *cloud.Interface, n *NIC) {
	current := n.NSG.key()
	held := map[string]bool{}
	for _, id := range n.asgs() {
		if g := v.groupOf(id); g != "" {
			held[g] = true
		}
	}
	ours := v.groups[current].ID != "" && held[current]
	if !ours {
		held[v.view(i, n, current)] = true
	}
	for _, id := range cloud.FormerGroups(i.Tags) {
		if group, _, ok := viewed(id, i.ID); ok && (group == "" || v.w.Groups[group] != nil || v.w.Absent[group]) {
			v.view(i, n, group)
		}
	}
	for _, id := range v.w.Former[i.ID] {
		if id == noGroup {
			v.view(i, n, "")
		} else if v.w.Groups[id] != nil {
			v.view(i, n, id)
		}
	}
	i.GroupIDs = slices.Sorted(maps.Keys(held))
	if other := v.mixed[i.ID]; other != "" {
		i.Untouchable = fmt.Sprintf("its record of what it had may as well be that of the interface %s: one of the two has to be made anew", other)
	}
	if _, taken := i.Tags[cloud.TagFormer]; !taken && !ours {
		if unread := v.meaning(i, n, current).unread; len(unread) > 0 {
			i.Untouchable = fmt.Sprintf(
				"the network security group %s cannot be carried over exactly: %s",
				v.w.Groups[current].Name,
				strings.Join(unread[:min(len(unread), 3)], "; "),
			)
		}
	}
}

// view shows what a group (empty for none) means to an interface, and returns the id of that.
func (v *views) view(i *cloud.Interface, n *NIC, group string) string {
	id := viewID(group, i.ID, v.bytes[i.ID])
	if _, ok := v.groups[id]; ok {
		return id
	}
	out := cloud.Group{ID: id, Name: noGroup, NetworkID: i.NetworkID, OwnerID: v.w.subscription, View: true, Shows: cmp.Or(group, noGroup), Holder: i.ID,
		Rules: v.meaning(i, n, group).rules}
	if at, ok := ParsePlace(group); ok && v.w.Groups[group] == nil {
		out.Name, out.Deleted = at.Name, true
	}
	if g := v.w.Groups[group]; g != nil {
		out.Name = g.Name
		for k, value := range PortTags(g.Tags) {
			if strings.HasPrefix(k, ourTags) {
				continue // a view is nobody's to change
			}
			if out.Tags == nil {
				out.Tags = map[string]string{}
			}
			out.Tags[k] = value
		}
	}
	v.groups[id] = out
	return id
}

func (v *views) meaning(i *cloud.Interface, n *NIC, group string) meaning {
	tables := v.w.tablesOf(n)
	at := v.place(i.NetworkID, tables)
	at.Own, at.Groups = i.PrivateIPs, n.asgs()
	g := v.w.Groups[group]
	switch {
	case group == "":
		return meaning{rules: lower.Open(at, v.closed(n))}
	case g == nil:
		// Its owner has deleted it. A group without rules of its own counts in its place.
		m := meaning{}
		m.rules, m.unread = lower.Native(nil, at)
		return m
	}
	key := strings.Join(slices.Concat([]string{group, i.NetworkID}, tables, at.Groups), " ")
	for _, a := range i.PrivateIPs {
		if family := fmt.Sprintf(" over %d bits", a.BitLen()); !strings.HasSuffix(key, family) {
			key += family
		}
	}
	if lower.TellsOwnAddresses(g.Rules) {
		key += fmt.Sprint(i.PrivateIPs)
	}
	m, ok := v.cache[key]
	if !ok {
		m.rules, m.unread = lower.Native(g.Rules, at)
		v.cache[key] = m
	}
	return m
}

// place is what the words of rules mean in a network, at subnets with these route tables.
func (v *views) place(network string, tables []string) lower.Place {
	key := strings.Join(append([]string{network}, tables...), " ")
	s, known := v.spaces[key]
	if !known {
		if v.w.Networks[network] != nil {
			s = v.w.spaceOf(network, tables)
		}
		v.spaces[key] = s
	}
	return lower.Place{Network: s.Prefixes, Learned: s.learned, Members: func(g string) []netip.Addr { return v.members[g] }}
}

// closed reports whether the platform keeps out what comes from elsewhere: that is so without any
// network security group, with an address or a load balancer of the Standard kind.
func (v *views) closed(n *NIC) bool {
	found := false
	for i := range n.Configurations {
		p := &n.Configurations[i].Properties
		network, name, _ := strings.Cut(p.Subnet.key(), "/subnets/")
		if s := v.w.Networks[network]; s != nil {
			for k := range s.Subnets {
				if strings.EqualFold(s.Subnets[k].Name, name) && s.Subnets[k].Properties.NSG.key() != "" {
					return false
				}
			}
		}
		x := v.w.publics[p.Public.key()]
		found = found || len(p.Pools) > 0 || p.Public.key() != "" && (x == nil || !x.basic)
	}
	return found
}

// all are the groups and the tags of services that their rules name.
func (v *views) all() ([]cloud.Group, []cloud.PrefixList) {
	var groups []cloud.Group
	lists := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(v.groups)) {
		g := v.groups[k]
		groups = append(groups, g)
		for _, r := range g.Rules {
			if r.Peer.PrefixListID != "" {
				lists[r.Peer.PrefixListID] = true
			}
		}
	}
	var out []cloud.PrefixList
	for _, id := range slices.Sorted(maps.Keys(lists)) {
		out = append(out, cloud.PrefixList{ID: id, Name: id, OwnerID: cloud.CloudOwned})
	}
	slices.SortFunc(out, func(a, b cloud.PrefixList) int { return cmp.Compare(a.ID, b.ID) })
	return groups, out
}

// borders are the network security groups of subnets, by their ids: what they do to what gets in
// and out.
func (v *views) borders() []cloud.NetworkACL {
	var out []cloud.NetworkACL
	for _, k := range slices.Sorted(maps.Keys(v.w.Networks)) {
		network := v.w.Networks[k]
		byGroup := map[string]int{} // the place of a group in out; what its words mean depends on the network and its routes
		for i := range network.Subnets {
			s := &network.Subnets[i]
			key := s.Properties.NSG.key()
			g := v.w.Groups[key]
			if g == nil {
				continue
			}
			subnet := k + "/subnets/" + strings.ToLower(s.Name)
			var tables []string
			if id := s.Properties.Routes.key(); id != "" {
				tables = []string{id}
			}
			at, meant := v.place(k, tables), key+" "+strings.Join(tables, " ")
			if at, known := byGroup[meant]; known {
				out[at].SubnetIDs = append(out[at].SubnetIDs, subnet)
				continue
			}
			byGroup[meant] = len(out)
			out = append(out, cloud.NetworkACL{ID: key, Name: g.Name, SubnetIDs: []string{subnet}, Stateful: true, Entries: lower.Border(g.Rules, at)})
		}
	}
	slices.SortStableFunc(out, func(a, b cloud.NetworkACL) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// formerGroups are the keys of the network security groups that an interface remembers. A writer of
// tags can write anything there: a text that is not the id of such a group is no group.
func formerGroups(n *NIC) []string {
	var out []string
	for _, id := range cloud.FormerGroups(PortTags(n.Tags)) {
		group, ok := GroupOfView(id)
		if at, known := ParsePlace(group); ok && known && at.Kind == TypeNSG && group == strings.ToLower(group) {
			out = append(out, group)
		}
	}
	return out
}
