package estate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
)

// lookup finds a VPC of the estate by account/region/name, or by its name alone if only one VPC has
// it.
func (d *drawing) lookup(name string) (*place, error) {
	if p := d.places[name]; p != nil {
		return p, nil
	}
	var found []*place
	for key, p := range d.places {
		if strings.HasSuffix(key, "/"+name) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("there is no VPC named %q", name)
	}
	return nil, fmt.Errorf("%d VPCs are named %q: expected ACCOUNT/REGION/NAME", len(found), name)
}

func (d *drawing) peering(at string, y *yamlPeering) error {
	if len(y.Between) != 2 {
		return fmt.Errorf("%s: between: expected two VPCs, found %d", at, len(y.Between))
	}
	var sides [2]aws.PeeringVPC
	for i, name := range y.Between {
		p, err := d.lookup(name)
		if err != nil {
			return fmt.Errorf("%s: between[%d]: %w", at, i, err)
		}
		sides[i] = aws.PeeringVPC{VPCID: p.vpc.ID, Account: p.vpc.Account, Region: p.vpc.Region}
		for _, c := range p.vpc.CIDRs {
			sides[i].CIDRs = append(sides[i].CIDRs, c.Prefix)
		}
	}
	d.state.Peerings = append(d.state.Peerings, aws.PeeringConnection{
		ID:     cmp.Or(y.ID, defaults.ID("pcx", sides[0].VPCID, sides[1].VPCID)),
		Status: cmp.Or(y.Status, aws.PeeringActive), Requester: sides[0], Accepter: sides[1], Tags: y.Tags,
	})
	return nil
}

// rules fills the groups of a place. Without a "to" rule a group allows all egress, unless it says
// egress: none.
func (d *drawing) rules(p *place) error {
	for i := range p.spec.Groups {
		y := &p.spec.Groups[i]
		g := p.groups[y.Name]
		at := fmt.Sprintf("%s.groups[%d]", p.at, i)
		if y.Egress != "" && y.Egress != "none" {
			return fmt.Errorf("%s: egress: expected none or nothing, found %q", at, y.Egress)
		}
		for k, text := range y.Rules {
			rules, err := d.rule(p, g, text)
			if err != nil {
				return fmt.Errorf("%s.rules[%d]: %q: %w", at, k, text, err)
			}
			for _, x := range rules {
				if slices.ContainsFunc(g.Rules, func(o aws.SecurityGroupRule) bool { return o.String() == x.String() }) {
					return fmt.Errorf("%s.rules[%d]: %q: the group has the rule %q already", at, k, text, &x)
				}
				g.Rules = append(g.Rules, x)
			}
		}
		egress := slices.ContainsFunc(g.Rules, func(x aws.SecurityGroupRule) bool { return x.Egress })
		if egress && y.Egress == "none" {
			return fmt.Errorf("%s: egress: expected no \"to\" rule beside egress: none", at)
		}
		if !egress && y.Egress == "" {
			g.Rules = append(g.Rules, defaults.EgressOf(p.vpc, g.ID)...)
		}
		defaults.NumberRules(g)
	}
	return nil
}

const ruleShape = "expected PROTOCOL [PORTS] from|to PEERS, such as tcp 80 from 0.0.0.0/0"

// rule reads one rule text. It may make several rules: one per port range and peer.
func (d *drawing) rule(p *place, g *aws.SecurityGroup, text string) ([]aws.SecurityGroupRule, error) {
	text, description, _ := strings.Cut(text, " -- ")
	fields := strings.Fields(text)
	at := slices.IndexFunc(fields, func(f string) bool { return f == "from" || f == "to" })
	if at < 1 || at > 2 || at == len(fields)-1 {
		return nil, errors.New(ruleShape)
	}
	var ports string
	if at == 2 {
		ports = fields[1]
	}
	perms, err := permissions(fields[0], ports)
	if err != nil {
		return nil, err
	}
	var peers aws.Permission
	for _, name := range strings.FieldsFunc(strings.Join(fields[at+1:], ","), func(c rune) bool { return c == ',' }) {
		if err := d.peer(p, g, name, strings.TrimSpace(description), &peers); err != nil {
			return nil, err
		}
	}
	for i := range perms {
		perms[i].CIDRs, perms[i].Groups, perms[i].PrefixLists = peers.CIDRs, peers.Groups, peers.PrefixLists
	}
	rules, err := aws.Expand(g.ID, g.Account, fields[at] == "to", perms)
	var refused *aws.Error
	if errors.As(err, &refused) {
		return nil, errors.New(refused.Message)
	}
	return rules, err
}

// permissions reads protocol and ports: one permission per port range.
func permissions(protocol, ports string) ([]aws.Permission, error) {
	switch protocol {
	case "tcp", "udp":
		if ports == "" {
			ports = "0-65535"
		}
		var out []aws.Permission
		for _, r := range strings.Split(ports, ",") {
			first, last, ranged := strings.Cut(r, "-")
			if !ranged {
				last = first
			}
			from, err1 := number(first)
			to, err2 := number(last)
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("expected ports such as 80, 8000-8080 or 80,443, found %q", ports)
			}
			out = append(out, aws.Permission{Protocol: protocol, FromPort: &from, ToPort: &to})
		}
		return out, nil
	case "icmp", "icmpv6":
		kind, code := int32(-1), int32(-1)
		if ports != "" {
			first, second, coded := strings.Cut(ports, "/")
			var err1, err2 error
			kind, err1 = number(first)
			if coded {
				code, err2 = number(second)
			}
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("expected an ICMP type such as 8 or 3/4 (type/code), found %q", ports)
			}
		}
		return []aws.Permission{{Protocol: protocol, FromPort: &kind, ToPort: &code}}, nil
	}
	if ports != "" {
		return nil, fmt.Errorf("expected no ports with protocol %q", protocol)
	}
	return []aws.Permission{{Protocol: protocol}}, nil
}

func number(s string) (int32, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int32(n), err
}

// peer adds one peer of a rule text to the permission: any, any4, any6, self, a block or address,
// list:NAME, the id or the name of a group of the VPC, or VPC/NAME for a group of another one.
func (d *drawing) peer(p *place, g *aws.SecurityGroup, name, description string, to *aws.Permission) error {
	block := func(cidr string, v6 bool) {
		to.CIDRs = append(to.CIDRs, aws.CIDRPeer{CIDR: cidr, IPv6: v6, Description: description})
	}
	group := func(x *aws.SecurityGroup, ref aws.GroupRef) {
		ref.GroupID, ref.UserID, ref.Description = x.ID, x.Account, description
		to.Groups = append(to.Groups, ref)
	}
	list, isList := strings.CutPrefix(name, "list:")
	switch {
	case name == "any":
		for _, x := range defaults.EgressOf(p.vpc, g.ID) {
			block(x.CIDR.String(), x.CIDR.Addr().Is6())
		}
	case name == "any4":
		block("0.0.0.0/0", false)
	case name == "any6":
		block("::/0", true)
	case name == "self":
		group(g, aws.GroupRef{})
	case isList:
		id := p.lists[list]
		if id == "" {
			return fmt.Errorf("the region has no prefix list named %q", list)
		}
		to.PrefixLists = append(to.PrefixLists, aws.PrefixListPeer{PrefixListID: id, Description: description})
	case p.groups[name] != nil:
		group(p.groups[name], aws.GroupRef{})
	case aws.WellFormed("sg", name):
		to.Groups = append(to.Groups, aws.GroupRef{GroupID: name, UserID: g.Account, Description: description})
	default:
		if b, err := parseBlock(name); err == nil {
			block(b.String(), b.Addr().Is6())
			return nil
		} else if b.IsValid() {
			return err
		}
		return d.foreignGroup(p, name, group)
	}
	return nil
}

// foreignGroup finds VPC/NAME and the peering that leads there.
func (d *drawing) foreignGroup(p *place, name string, add func(*aws.SecurityGroup, aws.GroupRef)) error {
	cut := strings.LastIndex(name, "/")
	if cut < 0 {
		return fmt.Errorf("expected a block, any, self, list:NAME or a group of the VPC, found %q", name)
	}
	other, err := d.lookup(name[:cut])
	if err != nil {
		return err
	}
	g := other.groups[name[cut+1:]]
	if g == nil {
		return fmt.Errorf("VPC %q has no group named %q", name[:cut], name[cut+1:])
	}
	for _, c := range d.state.Peerings {
		ends := [2]string{c.Requester.VPCID, c.Accepter.VPCID}
		if ends == [2]string{p.vpc.ID, other.vpc.ID} || ends == [2]string{other.vpc.ID, p.vpc.ID} {
			add(g, aws.GroupRef{VPCID: other.vpc.ID, PeeringID: c.ID})
			return nil
		}
	}
	return fmt.Errorf("there is no peering between %q and %q", p.spec.Name, name[:cut])
}
