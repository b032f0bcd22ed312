package ec2

import (
	"net/netip"
	"strconv"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// aclActions are those on network ACLs.
func aclActions() map[string]action {
	return map[string]action{
		"DescribeNetworkAcls":          describeNetworkACLs,
		"CreateNetworkAcl":             createNetworkACL,
		"DeleteNetworkAcl":             byOneID("NetworkAclId", func(r *request, id string) error { return r.region.ACLs().DeleteNetworkACL(id) }),
		"CreateNetworkAclEntry":        putACLEntry(false),
		"ReplaceNetworkAclEntry":       putACLEntry(true),
		"DeleteNetworkAclEntry":        deleteACLEntry,
		"ReplaceNetworkAclAssociation": replaceACLAssociation,
	}
}

func createNetworkACL(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "network-acl")
	if err != nil {
		return nil, err
	}
	vpc, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	a, err := r.region.ACLs().CreateNetworkACL(vpc, tags, r.params.String("ClientToken"))
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("networkAcl", codec.ACLBody(a)...)}, nil
}

func putACLEntry(replace bool) action {
	return func(r *request) ([]wire.Element, error) {
		id, err := need(r, "NetworkAclId")
		if err != nil {
			return nil, err
		}
		e, err := aclEntry(r)
		if err != nil {
			return nil, err
		}
		return done(r.region.ACLs().PutNetworkACLEntry(id, e, replace))
	}
}

func aclEntry(r *request) (aws.ACLEntry, error) {
	var e aws.ACLEntry
	var err error
	if e.Number, e.Egress, err = entryAt(r); err != nil {
		return e, err
	}
	action, err := need(r, "RuleAction")
	if err != nil {
		return e, err
	}
	if action != "allow" && action != "deny" {
		return e, codec.InvalidValue("Value (%s) for parameter ruleAction is invalid. Expecting allow or deny.", action)
	}
	e.Allow = action == "allow"
	protocol, err := need(r, "Protocol")
	if err != nil {
		return e, err
	}
	if n, ok := map[string]int{"all": -1, "tcp": 6, "udp": 17, "icmp": 1}[protocol]; ok {
		e.Protocol = n
	} else if e.Protocol, err = strconv.Atoi(protocol); err != nil {
		return e, codec.InvalidValue("Invalid value '%s' for IP protocol. Unknown protocol.", protocol)
	}
	block := r.params.String("CidrBlock")
	if v6 := r.params.String("Ipv6CidrBlock"); v6 != "" {
		if block != "" {
			return e, codec.Fail("InvalidParameterCombination", "Only one of cidrBlock and ipv6CidrBlock can be specified")
		}
		block = v6
	}
	if block == "" {
		return e, codec.Missing("cidrBlock or ipv6CidrBlock")
	}
	p, err := netip.ParsePrefix(block)
	if err != nil {
		return e, codec.InvalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", block)
	}
	e.CIDR = p.Masked()
	return e, aclPorts(r, &e)
}

// aclPorts reads the ports of TCP and UDP, and type and code of ICMP; of other protocols there are
// none.
func aclPorts(r *request, e *aws.ACLEntry) error {
	from, to := "PortRange.From", "PortRange.To"
	switch e.Protocol {
	case 6, 17:
	case 1, 58:
		from, to = "Icmp.Type", "Icmp.Code"
	default:
		return nil
	}
	var ok1, ok2 bool
	var err error
	if e.FromPort, ok1, err = r.params.Int(from); err != nil {
		return err
	}
	if e.ToPort, ok2, err = r.params.Int(to); err != nil {
		return err
	}
	if !ok1 || !ok2 {
		return codec.Missing(from + " and " + to)
	}
	return nil
}

func entryAt(r *request) (number int, egress bool, err error) {
	if number, err = needCount(r, "RuleNumber"); err != nil {
		return 0, false, err
	}
	egress, ok, err := r.params.Bool("Egress")
	if err == nil && !ok {
		err = codec.Missing("Egress")
	}
	return number, egress, err
}

func deleteACLEntry(r *request) ([]wire.Element, error) {
	id, err := need(r, "NetworkAclId")
	if err != nil {
		return nil, err
	}
	number, egress, err := entryAt(r)
	if err != nil {
		return nil, err
	}
	return done(r.region.ACLs().DeleteNetworkACLEntry(id, number, egress))
}

func replaceACLAssociation(r *request) ([]wire.Element, error) {
	association, err := need(r, "AssociationId")
	if err != nil {
		return nil, err
	}
	acl, err := need(r, "NetworkAclId")
	if err != nil {
		return nil, err
	}
	id, err := r.region.ACLs().ReplaceNetworkACLAssociation(association, acl)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Text("newAssociationId", id)}, nil
}

func describeNetworkACLs(r *request) ([]wire.Element, error) {
	acls, err := r.region.ACLs().NetworkACLs(r.params.Strings("NetworkAclId")...)
	if err != nil {
		return nil, err
	}
	type acl = aws.NetworkACL
	onAssociations := func(get func(acl, aws.SubnetAssociation) string) func(acl) []string {
		return func(a acl) []string {
			var out []string
			for _, x := range a.Associations {
				out = append(out, get(a, x))
			}
			return out
		}
	}
	page, err := list(r, listing[acl]{
		items: acls,
		key:   func(a acl) string { return a.ID },
		known: wire.Attributes[acl]{
			"network-acl-id":             func(a acl) []string { return []string{a.ID} },
			"vpc-id":                     func(a acl) []string { return []string{a.VPCID} },
			"owner-id":                   func(a acl) []string { return []string{a.Account} },
			"default":                    codec.BoolField(func(a acl) bool { return a.Default }),
			"association.association-id": onAssociations(func(_ acl, x aws.SubnetAssociation) string { return x.ID }),
			"association.subnet-id":      onAssociations(func(_ acl, x aws.SubnetAssociation) string { return x.SubnetID }),
			"association.network-acl-id": onAssociations(func(a acl, _ aws.SubnetAssociation) string { return a.ID }),
		},
		tags: func(a acl) map[string]string { return a.Tags },
		page: pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("networkAclSet", page, codec.ACLBody), nil
}
