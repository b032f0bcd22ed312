package dump

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
	"github.com/nephele-io/nephele/internal/sim/native"
)

var trailingDigits = regexp.MustCompile(`\d{1,12}$`)

// Convert turns what a dump says into a State of one account.
// An empty account is the owner of what is in the dump.
func Convert(from *source.Source, regions []Region, account string) (aws.State, error) {
	l := reader{from}
	if account == "" {
		account = l.owner(regions)
	}
	s := aws.State{Accounts: []aws.Account{{ID: account}}}
	for i := range regions {
		b := &builder{
			l: l, raw: &regions[i], account: account,
			vpcs: map[string]*aws.VPC{}, subnets: map[string]*aws.Subnet{}, groups: map[string]*aws.SecurityGroup{},
			nics: map[string]*aws.NetworkInterface{}, instances: map[string]*aws.Instance{},
			lists: map[string]*aws.PrefixList{}, foreign: map[string]int{},
		}
		if err := b.build(); err != nil {
			return s, err
		}
		s.Accounts[0].Regions = append(s.Accounts[0].Regions, b.raw.name)
		s.Regions = append(s.Regions, b.state())
		for _, p := range b.peerings {
			if !slices.ContainsFunc(s.Peerings, func(x aws.PeeringConnection) bool { return x.ID == p.ID }) {
				s.Peerings = append(s.Peerings, p)
			}
		}
	}
	slices.Sort(l.Report.Ignored)
	return s, nil
}

// owner finds the account of a dump: the owner of most instances, interfaces and groups.
func (l reader) owner(regions []Region) string {
	votes := map[string]int{}
	for i := range regions {
		for _, r := range regions[i].reservations {
			votes[r.OwnerId] += len(r.Instances)
		}
		for _, n := range regions[i].nics {
			votes[n.OwnerId]++
		}
		for _, g := range regions[i].groups {
			votes[g.OwnerId]++
		}
		for _, v := range regions[i].vpcs {
			votes[v.OwnerId]++
		}
	}
	delete(votes, "")
	names := slices.SortedFunc(maps.Keys(votes), func(a, b string) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b))
	})
	for _, n := range names {
		if defaults.IsAccount(n) {
			return n
		}
	}
	if len(names) > 0 {
		id := fmt.Sprintf("%012s", trailingDigits.FindString(names[0]))
		l.Report.Renamed[names[0]] = id
		l.Report.Warn("", names[0], "is no account id; taken as %s", id)
		return id
	}
	l.Report.Warn("", "", "no object names its owner; the account is taken as 000000000000")
	return "000000000000"
}

// builder builds one region.
type builder struct {
	l         reader
	raw       *Region
	account   string
	zones     []aws.Zone
	vpcs      map[string]*aws.VPC
	subnets   map[string]*aws.Subnet
	groups    map[string]*aws.SecurityGroup
	nics      map[string]*aws.NetworkInterface
	instances map[string]*aws.Instance
	lists     map[string]*aws.PrefixList
	peerings  []aws.PeeringConnection
	foreign   map[string]int // owners other than the account, with how many objects say so
	renamed   map[string]int // kinds of ids that were not wire ids
	fabric    aws.FabricState
	fabricIDs map[string]bool
	// services are the native services, claimed the interfaces that one of them has.
	services     []native.Service
	targetGroups []native.TargetGroup
	claimed      map[string]bool
}

func (b *builder) warn(member, object, format string, args ...any) {
	b.l.Report.Warn(b.raw.file(member), object, format, args...)
}

// fault is an error about one field of one object.
func (b *builder) fault(member, object, field, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s: %s", b.raw.file(member), object, field, fmt.Sprintf(format, args...))
}

// id returns the wire id for an id of the dump.
func (b *builder) id(prefix, id string) string {
	if aws.WellFormed(prefix, id) {
		return id
	}
	if mapped, ok := b.l.Report.Renamed[id]; ok && strings.HasPrefix(mapped, prefix+"-") {
		return mapped
	}
	mapped := defaults.ID(prefix, b.raw.name, id)
	if digits := trailingDigits.FindString(id); digits != "" && strings.Contains(id, ":") {
		mapped = fmt.Sprintf("%s-%017s", prefix, digits)
	}
	b.l.Report.Renamed[id] = mapped
	if b.renamed == nil {
		b.renamed = map[string]int{}
	}
	b.renamed[aws.ResourceType(mapped)]++
	return mapped
}

// own notes objects that name another owner than the account of the dump.
func (b *builder) own(member, owner string) {
	if owner == "" || owner == b.account || b.l.Report.Renamed[owner] == b.account {
		return
	}
	b.foreign[member+"\x00"+owner]++
}

func (b *builder) build() error {
	for _, z := range b.raw.zones {
		b.zones = append(b.zones, aws.Zone{Name: z.ZoneName, ID: z.ZoneId})
	}
	for _, step := range []func() error{
		b.buildVPCs, b.buildSubnets, b.buildPrefixLists, b.buildGroups, b.buildInstances, b.buildNICs, b.attachRules,
		b.buildPeerings, b.buildFabric,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	b.defaultGroups()
	b.buildServices()
	b.applyTags()
	b.checkAddresses()
	b.fillZones()
	for _, key := range slices.Sorted(maps.Keys(b.foreign)) {
		member, owner, _ := strings.Cut(key, "\x00")
		b.warn(member, "", "%d objects say that they belong to account %s; taken as of %s", b.foreign[key], owner, b.account)
	}
	for _, kind := range slices.Sorted(maps.Keys(b.renamed)) {
		b.warn("", "", "%d %s ids are no wire ids and were replaced (see Renamed)", b.renamed[kind], kind)
	}
	return nil
}

func (b *builder) state() aws.RegionState {
	return aws.RegionState{
		Account: b.account, Name: b.raw.name, Zones: b.zones,
		VPCs: sorted(b.vpcs), Subnets: sorted(b.subnets), SecurityGroups: sorted(b.groups),
		NetworkInterfaces: sorted(b.nics), Instances: sorted(b.instances), PrefixLists: sorted(b.lists),
		FabricState:  b.fabric,
		ServiceState: aws.ServiceState{Services: b.services, TargetGroups: b.targetGroups},
	}
}

func sorted[T any](m map[string]*T) []T {
	var out []T
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, *m[k])
	}
	return out
}

func tagsOf(raw []rawTag) aws.Tags {
	if len(raw) == 0 {
		return nil
	}
	out := aws.Tags{}
	for _, t := range raw {
		out[t.Key] = t.Value
	}
	return out
}

// block parses an address block and masks it, with a warning if it had host bits.
func (b *builder) block(member, object, field, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, b.fault(member, object, field, "expected an address block such as 10.0.0.0/16, found %q", text)
	}
	if p != p.Masked() {
		b.warn(member, object, "block %s has host bits set; taken as %s", p, p.Masked())
	}
	return p.Masked(), nil
}

func (b *builder) buildVPCs() error {
	for i := range b.raw.vpcs {
		raw := &b.raw.vpcs[i]
		if raw.VpcId == "" {
			return b.fault("Vpcs", fmt.Sprintf("element %d", i), "VpcId", "expected an id")
		}
		id := b.id("vpc", raw.VpcId)
		if b.vpcs[id] != nil {
			b.warn("Vpcs", raw.VpcId, "appears again; the first one is kept")
			continue
		}
		b.own("Vpcs", raw.OwnerId)
		v := &aws.VPC{
			ID: id, Account: b.account, Region: b.raw.name, IsDefault: raw.IsDefault, State: cmp.Or(raw.State, aws.StateAvailable),
			DHCPOptionsID: raw.DhcpOptionsId, Tenancy: cmp.Or(raw.InstanceTenancy, "default"), Tags: tagsOf(raw.Tags),
		}
		blocks := []rawBlock{}
		for _, a := range raw.CidrBlockAssociationSet {
			blocks = append(blocks, rawBlock{a.AssociationId, a.CidrBlock})
		}
		if len(blocks) == 0 {
			blocks = []rawBlock{{"", raw.CidrBlock}}
		}
		slices.SortStableFunc(blocks, func(x, y rawBlock) int { return primary(x, raw) - primary(y, raw) })
		for _, a := range raw.Ipv6CidrBlockAssociationSet {
			blocks = append(blocks, rawBlock{a.AssociationId, a.Ipv6CidrBlock})
		}
		for _, a := range blocks {
			p, err := b.block("Vpcs", raw.VpcId, "CidrBlock", a.cidr)
			if err != nil {
				return err
			}
			v.CIDRs = append(v.CIDRs, aws.CIDRBlock{AssociationID: cmp.Or(a.id, defaults.ID("vpc-cidr-assoc", id, a.cidr)), Prefix: p})
		}
		b.vpcs[id] = v
	}
	return nil
}

type rawBlock struct{ id, cidr string }

// primary sorts the block that the VPC itself names to the front.
func primary(x rawBlock, v *rawVPC) int {
	if x.cidr == v.CidrBlock {
		return 0
	}
	return 1
}

// vpc returns the VPC with this id of the dump; one that is not there is made up, around the block
// near.
func (b *builder) vpc(member, object, rawID string, near netip.Prefix) *aws.VPC {
	id := b.id("vpc", cmp.Or(rawID, "unnamed"))
	if v := b.vpcs[id]; v != nil {
		return v
	}
	if near.Addr().Is4() && near.Bits() > 16 {
		near = netip.PrefixFrom(near.Addr(), 16).Masked()
	}
	b.warn(member, object, "refers to VPC %q, which is not in the dump; a VPC with block %s was made up", rawID, near)
	b.notTold("Vpcs", cmp.Or(rawID, id), "this VPC, because "+object+" is in it", "a VPC with the block "+near.String())
	v := &aws.VPC{
		ID: id, Account: b.account, Region: b.raw.name, State: aws.StateAvailable, Tenancy: "default",
		CIDRs: []aws.CIDRBlock{{AssociationID: defaults.ID("vpc-cidr-assoc", id), Prefix: near}},
	}
	b.vpcs[id] = v
	return v
}

func (b *builder) buildSubnets() error {
	for i := range b.raw.subnets {
		raw := &b.raw.subnets[i]
		if raw.SubnetId == "" {
			return b.fault("Subnets", fmt.Sprintf("element %d", i), "SubnetId", "expected an id")
		}
		id := b.id("subnet", raw.SubnetId)
		if b.subnets[id] != nil {
			b.warn("Subnets", raw.SubnetId, "appears again; the first one is kept")
			continue
		}
		b.own("Subnets", raw.OwnerId)
		var p netip.Prefix
		near := p
		// A subnet of IPv6 alone has no such block.
		if raw.CidrBlock != "" || len(raw.Ipv6CidrBlockAssociationSet) == 0 {
			var err error
			if p, err = b.block("Subnets", raw.SubnetId, "CidrBlock", raw.CidrBlock); err != nil {
				return err
			}
			near = p
		} else if near, _ = netip.ParsePrefix(raw.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock); near.IsValid() {
			near = near.Masked()
		}
		s := &aws.Subnet{
			ID: id, Account: b.account, VPCID: b.vpc("Subnets", raw.SubnetId, raw.VpcId, near).ID, CIDR: p,
			Zone:         aws.Zone{Name: raw.AvailabilityZone, ID: raw.AvailabilityZoneId},
			DefaultForAZ: raw.DefaultForAz, MapPublicIPOnLaunch: raw.MapPublicIpOnLaunch,
			State: cmp.Or(raw.State, aws.StateAvailable), Tags: tagsOf(raw.Tags),
		}
		for _, a := range raw.Ipv6CidrBlockAssociationSet {
			p, err := b.block("Subnets", raw.SubnetId, "Ipv6CidrBlock", a.Ipv6CidrBlock)
			if err != nil {
				return err
			}
			s.IPv6 = append(s.IPv6, aws.CIDRBlock{AssociationID: a.AssociationId, Prefix: p})
		}
		b.subnets[id] = s
	}
	return nil
}

// subnet returns the subnet with this id of the dump; one that is not there is made up, around the
// address.
func (b *builder) subnet(member, object, rawID, rawVPC string, near netip.Addr) *aws.Subnet {
	id := b.id("subnet", cmp.Or(rawID, "unnamed in "+rawVPC))
	if s := b.subnets[id]; s != nil {
		return s
	}
	if !near.IsValid() {
		near = netip.AddrFrom4([4]byte{10})
	}
	bits := 28
	if near.Is6() {
		bits = 64
	}
	block := netip.PrefixFrom(near, bits).Masked()
	v := b.vpc(member, object, rawVPC, block)
	b.warn(member, object, "refers to subnet %q, which is not in the dump; a subnet with block %s was made up", rawID, block)
	b.notTold("Subnets", cmp.Or(rawID, id), "this subnet, because "+object+" is in it", "a subnet with the block "+block.String())
	if !slices.ContainsFunc(v.CIDRs, func(c aws.CIDRBlock) bool { return c.Prefix.Contains(block.Addr()) }) {
		b.warn(member, object, "the made-up subnet %s is outside VPC %s; the VPC is given the block too", block, v.ID)
		v.CIDRs = append(v.CIDRs, aws.CIDRBlock{AssociationID: defaults.ID("vpc-cidr-assoc", v.ID, block.String()), Prefix: block})
		slices.SortStableFunc(v.CIDRs, func(x, y aws.CIDRBlock) int { return x.Prefix.Addr().BitLen() - y.Prefix.Addr().BitLen() })
	}
	s := &aws.Subnet{ID: id, Account: b.account, VPCID: v.ID, State: aws.StateAvailable}
	if block.Addr().Is4() {
		s.CIDR = block
	} else {
		s.IPv6 = []aws.CIDRBlock{{AssociationID: defaults.ID("subnet-cidr-assoc", id), Prefix: block}}
	}
	b.subnets[id] = s
	return s
}

// fillZones gives every region zones, and every subnet one with an id.
func (b *builder) fillZones() {
	for _, id := range slices.Sorted(maps.Keys(b.subnets)) {
		z := &b.subnets[id].Zone
		if z.Name == "" {
			z.Name = b.raw.name + "a"
		}
		i := slices.IndexFunc(b.zones, func(x aws.Zone) bool { return x.Name == z.Name })
		if i < 0 {
			b.zones = append(b.zones, *z)
			i = len(b.zones) - 1
		}
		if b.zones[i].ID == "" {
			b.zones[i].ID = z.ID
		}
	}
	slices.SortFunc(b.zones, func(x, y aws.Zone) int { return cmp.Compare(x.Name, y.Name) })
	for i := range b.zones {
		if b.zones[i].ID == "" {
			b.zones[i].ID = fmt.Sprintf("%s-az%d", strings.ReplaceAll(b.raw.name, "-", ""), i+1)
		}
	}
	for _, s := range b.subnets {
		i := slices.IndexFunc(b.zones, func(x aws.Zone) bool { return x.Name == s.Zone.Name })
		s.Zone = b.zones[i]
	}
	for _, n := range b.nics {
		n.Zone = cmp.Or(n.Zone, b.subnets[n.SubnetID].Zone.Name)
	}
}
