package estate

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
)

// parseBlock reads an address block in its canonical form, or a single address.
func parseBlock(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("expected an address block such as 10.0.0.0/16, found %q", text)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("expected an address block without host bits such as %s, found %q", p.Masked(), text)
	}
	return p, nil
}

func withName(tags aws.Tags, name string) aws.Tags {
	out := maps.Clone(tags)
	if name == "" {
		return out
	}
	if out == nil {
		out = aws.Tags{}
	}
	if _, ok := out["Name"]; !ok {
		out["Name"] = name
	}
	return out
}

// build makes the VPC with its subnets and its groups, still without rules.
func (p *place) build() error {
	y := p.spec
	if y.Name == "" {
		return fmt.Errorf("%s: name: expected a name", p.at)
	}
	account, region := p.region.Account, p.region.Name
	p.vpc = &aws.VPC{
		ID: cmp.Or(y.ID, defaults.ID("vpc", account, region, y.Name)), Account: account, Region: region, IsDefault: y.Default,
		State: aws.StateAvailable, Tenancy: "default", DHCPOptionsID: "dopt-00000000", Tags: withName(y.Tags, y.Name),
	}
	for i, text := range y.CIDRs {
		block, err := parseBlock(text)
		if err != nil {
			return fmt.Errorf("%s.cidrs[%d]: %w", p.at, i, err)
		}
		p.vpc.CIDRs = append(p.vpc.CIDRs, aws.CIDRBlock{AssociationID: defaults.ID("vpc-cidr-assoc", p.vpc.ID, text), Prefix: block})
	}
	slices.SortStableFunc(p.vpc.CIDRs, func(a, b aws.CIDRBlock) int { return a.Prefix.Addr().BitLen() - b.Prefix.Addr().BitLen() })
	if len(p.vpc.CIDRs) == 0 || p.vpc.CIDRs[0].Prefix.Addr().Is6() {
		return fmt.Errorf("%s.cidrs: expected at least one IPv4 block", p.at)
	}
	subnets := y.Subnets
	if len(subnets) == 0 {
		subnets = []yamlSubnet{p.wholeSubnet()}
	}
	for i := range subnets {
		if err := p.subnet(fmt.Sprintf("%s.subnets[%d]", p.at, i), &subnets[i]); err != nil {
			return err
		}
	}
	for i := range y.Groups {
		g := &y.Groups[i]
		at := fmt.Sprintf("%s.groups[%d]", p.at, i)
		if g.Name == "" || p.groups[g.Name] != nil {
			return fmt.Errorf("%s: name: expected a name that is unique in the VPC, found %q", at, g.Name)
		}
		p.groups[g.Name] = &aws.SecurityGroup{
			ID: cmp.Or(g.ID, defaults.ID("sg", p.vpc.ID, g.Name)), Account: account, VPCID: p.vpc.ID, Name: g.Name,
			Description: cmp.Or(g.Description, g.Name), Tags: maps.Clone(g.Tags),
		}
	}
	if p.groups[defaults.GroupName] == nil {
		g := defaults.GroupOf(p.vpc)
		p.groups[defaults.GroupName] = &g
	}
	return nil
}

// wholeSubnet is the subnet of a VPC that names none: as much of its blocks as a subnet can have.
func (p *place) wholeSubnet() yamlSubnet {
	s := yamlSubnet{Name: p.spec.Name}
	for _, c := range p.vpc.CIDRs {
		switch {
		case c.Prefix.Addr().Is4() && s.CIDR == "":
			s.CIDR = c.Prefix.String()
		case c.Prefix.Addr().Is6() && s.IPv6 == "":
			s.IPv6 = netip.PrefixFrom(c.Prefix.Addr(), max(64, c.Prefix.Bits())).String()
		}
	}
	return s
}

func (p *place) subnet(at string, y *yamlSubnet) error {
	block, err := parseBlock(y.CIDR)
	if err != nil {
		return fmt.Errorf("%s: cidr: %w", at, err)
	}
	name := cmp.Or(y.Name, y.CIDR)
	if p.subnets[name] != nil {
		return fmt.Errorf("%s: name: the VPC has another subnet named %q", at, name)
	}
	s := &aws.Subnet{
		ID: cmp.Or(y.ID, defaults.ID("subnet", p.vpc.ID, name)), Account: p.vpc.Account, VPCID: p.vpc.ID, CIDR: block,
		Zone: p.region.Zones[0], MapPublicIPOnLaunch: y.PublicIPs, DefaultForAZ: p.vpc.IsDefault,
		State: aws.StateAvailable, Tags: withName(y.Tags, y.Name),
	}
	if y.Zone != "" {
		i := slices.IndexFunc(p.region.Zones, func(z aws.Zone) bool { return z.Name == y.Zone })
		if i < 0 {
			return fmt.Errorf("%s: zone: expected a zone of %s, found %q", at, p.region.Name, y.Zone)
		}
		s.Zone = p.region.Zones[i]
	}
	blocks := []netip.Prefix{block}
	if y.IPv6 != "" {
		v6, err := parseBlock(y.IPv6)
		if err != nil {
			return fmt.Errorf("%s: ipv6: %w", at, err)
		}
		s.IPv6 = []aws.CIDRBlock{{AssociationID: defaults.ID("subnet-cidr-assoc", s.ID, y.IPv6), Prefix: v6}}
		blocks = append(blocks, v6)
	}
	for _, b := range blocks {
		if !slices.ContainsFunc(p.vpc.CIDRs, func(c aws.CIDRBlock) bool { return c.Prefix.Contains(b.Addr()) && c.Prefix.Bits() <= b.Bits() }) {
			return fmt.Errorf("%s: %s is not inside a block of the VPC", at, b)
		}
	}
	p.subnets[name] = s
	p.order = append(p.order, name)
	return nil
}

// hosts makes the machines and the detached interfaces. Given addresses are set aside first, so
// that the free ones that other interfaces get do not depend on the order.
func (p *place) hosts() error {
	for i := range p.spec.VMs {
		vm := &p.spec.VMs[i]
		if len(vm.NICs) == 0 {
			vm.NICs = []yamlNIC{{Subnet: vm.Subnet, IP: vm.IP, IPv6: vm.IPv6, Public: vm.Public, Groups: vm.Groups}}
		} else if vm.Subnet != "" || len(vm.IP)+len(vm.IPv6)+len(vm.Groups) > 0 || vm.Public != "" {
			return fmt.Errorf("%s.vms[%d]: expected either nics or subnet, ip, ipv6, public and groups, found both", p.at, i)
		}
		for _, n := range vm.NICs {
			p.reserve(n.IP)
		}
	}
	for _, n := range p.spec.NICs {
		p.reserve(n.IP)
	}
	for _, s := range p.spec.Services {
		p.reserve(s.IP)
	}
	for i := range p.spec.VMs {
		if err := p.vm(fmt.Sprintf("%s.vms[%d]", p.at, i), &p.spec.VMs[i]); err != nil {
			return err
		}
	}
	for i := range p.spec.NICs {
		y := &p.spec.NICs[i]
		id := cmp.Or(y.ID, defaults.ID("eni", p.vpc.ID, "nic", fmt.Sprint(i), y.Name))
		n, err := p.nic(fmt.Sprintf("%s.nics[%d]", p.at, i), id, y)
		if err != nil {
			return err
		}
		if y.Managed {
			n.RequesterManaged, n.RequesterID, n.Status = true, "amazon-elb", aws.StatusInUse
			n.Attachment = &aws.Attachment{ID: defaults.ID("eni-attach", id), DeviceIndex: 1, Status: "attached", AttachTime: defaults.LaunchTime()}
		}
		p.region.NetworkInterfaces = append(p.region.NetworkInterfaces, *n)
	}
	return nil
}

func (p *place) reserve(ips []string) {
	for _, a := range ips {
		p.taken[a] = true
	}
}

func (p *place) vm(at string, y *yamlVM) error {
	if y.Name == "" {
		return fmt.Errorf("%s: name: expected a name", at)
	}
	state, ok := aws.ParseInstanceState(cmp.Or(y.State, "running"))
	if !ok {
		return fmt.Errorf("%s: state: expected running, stopped, terminated, ..., found %q", at, y.State)
	}
	x := aws.Instance{
		ID: cmp.Or(y.ID, defaults.ID("i", p.vpc.ID, y.Name)), Account: p.vpc.Account, ImageID: "ami-00000000",
		InstanceType: cmp.Or(y.Type, "t3.micro"), LaunchTime: defaults.LaunchTime(), Tenancy: "default", State: state,
		Tags: withName(y.Tags, y.Name),
	}
	x.ReservationID = defaults.ID("r", x.ID)
	for k := range y.NICs {
		spec := &y.NICs[k]
		n, err := p.nic(fmt.Sprintf("%s.nics[%d]", at, k), cmp.Or(spec.ID, defaults.ID("eni", x.ID, fmt.Sprint(k))), spec)
		if err != nil {
			return err
		}
		if k == 0 {
			x.VPCID, x.SubnetID, x.Zone = n.VPCID, n.SubnetID, n.Zone
		}
		if state == aws.Stopped && n.PrivateIPs[0].AutoPublic {
			n.PrivateIPs[0].Public = netip.Addr{}
		}
		n.Status = aws.StatusInUse
		n.Attachment = &aws.Attachment{
			ID: defaults.ID("eni-attach", n.ID), InstanceID: x.ID, DeviceIndex: k, Status: "attached", AttachTime: defaults.LaunchTime(), DeleteOnTermination: true,
		}
		if state != aws.Terminated {
			p.region.NetworkInterfaces = append(p.region.NetworkInterfaces, *n)
		}
	}
	if state == aws.Terminated {
		x.VPCID, x.SubnetID = "", ""
	}
	p.region.Instances = append(p.region.Instances, x)
	return nil
}

func (p *place) nic(at, id string, y *yamlNIC) (*aws.NetworkInterface, error) {
	s, err := p.subnetFor(y)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	n := &aws.NetworkInterface{
		ID: id, Account: p.vpc.Account, VPCID: p.vpc.ID, SubnetID: s.ID, Zone: s.Zone.Name, Description: y.Description,
		InterfaceType: cmp.Or(y.Type, "interface"), MAC: defaults.MAC(id), SourceDestCheck: true, Status: aws.StatusAvailable,
		Tags: withName(y.Tags, y.Name),
	}
	for _, name := range y.Groups {
		g := p.groups[name]
		if g == nil {
			return nil, fmt.Errorf("%s: groups: the VPC has no group named %q", at, name)
		}
		n.Groups = append(n.Groups, aws.GroupName{ID: g.ID, Name: g.Name})
	}
	if len(n.Groups) == 0 {
		g := p.groups[defaults.GroupName]
		n.Groups = []aws.GroupName{{ID: g.ID, Name: g.Name}}
	}
	ips := y.IP
	if len(ips) == 0 {
		free, ok := p.free(s)
		if !ok {
			return nil, fmt.Errorf("%s: subnet %s has no free address", at, s.CIDR)
		}
		ips = []string{free}
	}
	for i, text := range ips {
		a, err := netip.ParseAddr(text)
		if err != nil || !s.CIDR.Contains(a) {
			return nil, fmt.Errorf("%s: ip: expected an address in %s, found %q", at, s.CIDR, text)
		}
		n.PrivateIPs = append(n.PrivateIPs, aws.PrivateIP{Addr: a, Primary: i == 0})
	}
	for _, text := range y.IPv6 {
		a, err := p.ipv6(s, id, text)
		if err != nil {
			return nil, fmt.Errorf("%s: ipv6: %w", at, err)
		}
		n.IPv6 = append(n.IPv6, a)
	}
	if err := setPublic(n, y.Public); err != nil {
		return nil, fmt.Errorf("%s: public: %w", at, err)
	}
	return n, nil
}

// setPublic gives the primary address a public one: an Elastic IP, or with "auto" one that is
// assigned while the VM runs.
func setPublic(n *aws.NetworkInterface, text string) error {
	if text == "" {
		return nil
	}
	first := &n.PrivateIPs[0]
	if text == "auto" {
		d := defaults.Digest("public", n.ID)
		first.Public, first.AutoPublic = netip.AddrFrom4([4]byte{198, 18 + d[0]&1, d[1], d[2]}), true
		return nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return fmt.Errorf("expected an IPv4 address or auto, found %q", text)
	}
	first.Public = a
	return nil
}

func (p *place) subnetFor(y *yamlNIC) (*aws.Subnet, error) {
	if y.Subnet != "" {
		if s := p.subnets[y.Subnet]; s != nil {
			return s, nil
		}
		return nil, fmt.Errorf("subnet: the VPC has no subnet named %q", y.Subnet)
	}
	if len(y.IP) > 0 {
		if a, err := netip.ParseAddr(y.IP[0]); err == nil {
			for _, name := range p.order {
				if p.subnets[name].CIDR.Contains(a) {
					return p.subnets[name], nil
				}
			}
		}
		return nil, fmt.Errorf("ip: expected an address of a subnet of the VPC, found %q", y.IP[0])
	}
	return p.subnets[p.order[0]], nil
}

// free takes the lowest address of the subnet that is not taken.
func (p *place) free(s *aws.Subnet) (string, bool) {
	a := s.CIDR.Addr()
	for range 4 {
		a = a.Next()
	}
	for ; s.CIDR.Contains(a.Next()); a = a.Next() {
		if !p.taken[a.String()] {
			p.taken[a.String()] = true
			return a.String(), true
		}
	}
	return "", false
}

func (p *place) ipv6(s *aws.Subnet, id, text string) (netip.Addr, error) {
	if len(s.IPv6) == 0 {
		return netip.Addr{}, fmt.Errorf("the subnet has no IPv6 block")
	}
	if text == "auto" {
		a := s.IPv6[0].Prefix.Addr().As16()
		d := defaults.Digest("ipv6", id)
		copy(a[8:], d[:8])
		return netip.AddrFrom16(a), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !s.IPv6[0].Prefix.Contains(a) {
		return a, fmt.Errorf("expected an address in %s or auto, found %q", s.IPv6[0].Prefix, text)
	}
	return a, nil
}

// store hands the finished objects to the region.
func (p *place) store() {
	p.region.VPCs = append(p.region.VPCs, *p.vpc)
	for _, name := range p.order {
		p.region.Subnets = append(p.region.Subnets, *p.subnets[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.groups)) {
		p.region.SecurityGroups = append(p.region.SecurityGroups, *p.groups[name])
	}
}
