package codec

import (
	"math"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// intPtr reads an optional number that fits into 32 bits.
func intPtr(p wire.Params, key string) (*int32, error) {
	v, ok, err := p.Int(key)
	if err != nil || !ok {
		return nil, err
	}
	if v < math.MinInt32 || v > math.MaxInt32 {
		return nil, &wire.ParamError{Key: p.Name(key), Value: p.String(key), Want: "a 32-bit integer."}
	}
	n := int32(v)
	return &n, nil
}

// StringPtr returns the text of a parameter; nil if it is not there.
func StringPtr(p wire.Params, key string) *string {
	if !p.Has(key) {
		return nil
	}
	v := p.String(key)
	return &v
}

// Permissions reads the list IpPermissions.
func Permissions(p wire.Params) ([]aws.Permission, error) {
	var out []aws.Permission
	for _, e := range p.Elements("IpPermissions") {
		perm := aws.Permission{Protocol: e.String("IpProtocol")}
		var err error
		if perm.FromPort, err = intPtr(e, "FromPort"); err != nil {
			return nil, err
		}
		if perm.ToPort, err = intPtr(e, "ToPort"); err != nil {
			return nil, err
		}
		for _, r := range e.Elements("IpRanges") {
			perm.CIDRs = append(perm.CIDRs, aws.CIDRPeer{CIDR: r.String("CidrIp"), Description: r.String("Description")})
		}
		for _, r := range e.Elements("Ipv6Ranges") {
			peer := aws.CIDRPeer{CIDR: r.String("CidrIpv6"), IPv6: true, Description: r.String("Description")}
			perm.CIDRs = append(perm.CIDRs, peer)
		}
		for _, g := range e.Elements("Groups") {
			perm.Groups = append(perm.Groups, groupRef(g))
		}
		for _, l := range e.Elements("PrefixListIds") {
			peer := aws.PrefixListPeer{PrefixListID: l.String("PrefixListId"), Description: l.String("Description")}
			perm.PrefixLists = append(perm.PrefixLists, peer)
		}
		out = append(out, perm)
	}
	return out, nil
}

func groupRef(g wire.Params) aws.GroupRef {
	return aws.GroupRef{
		GroupID:     g.String("GroupId"),
		GroupName:   g.String("GroupName"),
		UserID:      g.String("UserId"),
		VPCID:       g.String("VpcId"),
		PeeringID:   g.String("VpcPeeringConnectionId"),
		Description: g.String("Description"),
	}
}

// flatPermission reads the older form of a rule, whose parts are parameters of the request itself;
// nil when the request does not use it.
func flatPermission(p wire.Params) (*aws.Permission, error) {
	if !p.Has("IpProtocol") && !p.Has("CidrIp") && !p.Has("SourceSecurityGroupName") {
		return nil, nil
	}
	perm := &aws.Permission{Protocol: p.String("IpProtocol")}
	var err error
	if perm.FromPort, err = intPtr(p, "FromPort"); err != nil {
		return nil, err
	}
	if perm.ToPort, err = intPtr(p, "ToPort"); err != nil {
		return nil, err
	}
	if cidr := p.String("CidrIp"); cidr != "" {
		perm.CIDRs = []aws.CIDRPeer{{CIDR: cidr}}
	}
	if name := p.String("SourceSecurityGroupName"); name != "" {
		ref := aws.GroupRef{GroupName: name, UserID: p.String("SourceSecurityGroupOwnerId")}
		perm.Groups = []aws.GroupRef{ref}
	}
	return perm, nil
}

// RuleRequest reads what Authorize and Revoke have in common.
func RuleRequest(p wire.Params) ([]aws.Permission, error) {
	flat, err := flatPermission(p)
	if err != nil {
		return nil, err
	}
	perms, err := Permissions(p)
	if err != nil {
		return nil, err
	}
	if flat == nil {
		return perms, nil
	}
	if len(perms) > 0 {
		return nil, Fail("InvalidParameterCombination", "The parameter ipPermissions cannot be used with the parameter ipProtocol")
	}
	return []aws.Permission{*flat}, nil
}

// TagList reads the list Tag.N.Key, Tag.N.Value. A tag without a value has the empty one.
func TagList(p wire.Params, key string) (aws.Tags, error) {
	var tags aws.Tags
	for _, t := range p.Elements(key) {
		name := t.String("Key")
		if name == "" {
			return nil, InvalidValue("Tag keys cannot be empty")
		}
		if _, dup := tags[name]; dup {
			return nil, InvalidValue("Duplicate tag key '%s' specified.", name)
		}
		if tags == nil {
			tags = aws.Tags{}
		}
		tags[name] = t.String("Value")
	}
	return tags, nil
}

// TagSpecs reads the list TagSpecification; only the resource types that the action creates are
// accepted.
func TagSpecs(p wire.Params, types ...string) (map[string]aws.Tags, error) {
	out := map[string]aws.Tags{}
	for _, spec := range p.Elements("TagSpecification") {
		kind := spec.String("ResourceType")
		known := false
		for _, t := range types {
			known = known || t == kind
		}
		if !known {
			return nil, InvalidValue("'%s' is not a valid taggable resource type for this operation.", kind)
		}
		if out[kind] != nil {
			return nil, InvalidValue("Duplicate resource type '%s' in tag specifications", kind)
		}
		tags, err := TagList(spec, "Tag")
		if err != nil {
			return nil, err
		}
		out[kind] = tags
	}
	return out, nil
}

// TagSpec is tagSpecs for an action that creates one kind of resource.
func TagSpec(p wire.Params, kind string) (aws.Tags, error) {
	specs, err := TagSpecs(p, kind)
	return specs[kind], err
}

// Entries returns the entries of a prefix list that a request gives below key.
func Entries(p wire.Params, key string) []aws.EntrySpec {
	var out []aws.EntrySpec
	for _, e := range p.Elements(key) {
		out = append(out, aws.EntrySpec{CIDR: e.String("Cidr"), Description: e.String("Description")})
	}
	return out
}

// InterfaceSpecs reads the list NetworkInterface of RunInstances.
func InterfaceSpecs(p wire.Params) ([]aws.InterfaceSpec, error) {
	var out []aws.InterfaceSpec
	for _, e := range p.Elements("NetworkInterface") {
		index, ok, err := e.Int("DeviceIndex")
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, Missing(e.Name("DeviceIndex"))
		}
		spec, err := InterfaceSpec(e)
		if err != nil {
			return nil, err
		}
		spec.DeviceIndex, spec.NetworkInterfaceID = index, e.String("NetworkInterfaceId")
		if err := interfaceSwitches(e, &spec); err != nil {
			return nil, err
		}
		out = append(out, spec)
	}
	return out, nil
}

// InterfaceSpec reads what RunInstances and CreateNetworkInterface say alike of an interface.
func InterfaceSpec(e wire.Params) (aws.InterfaceSpec, error) {
	spec := aws.InterfaceSpec{
		SubnetID:    e.String("SubnetId"),
		GroupIDs:    e.Strings("SecurityGroupId"),
		PrivateIP:   e.String("PrivateIpAddress"),
		Description: e.String("Description"),
	}
	for _, a := range e.Elements("PrivateIpAddresses") {
		primary, _, err := a.Bool("Primary")
		if err != nil {
			return spec, err
		}
		if primary {
			spec.PrivateIP = a.String("PrivateIpAddress")
		} else {
			spec.SecondaryIPs = append(spec.SecondaryIPs, a.String("PrivateIpAddress"))
		}
	}
	for _, a := range e.Elements("Ipv6Addresses") {
		spec.IPv6 = append(spec.IPv6, a.String("Ipv6Address"))
	}
	var err error
	spec.IPv6Count, _, err = e.Int("Ipv6AddressCount")
	return spec, err
}

func interfaceSwitches(e wire.Params, spec *aws.InterfaceSpec) error {
	public, ok, err := e.Bool("AssociatePublicIpAddress")
	if err != nil {
		return err
	}
	if ok {
		spec.AssociatePublicIP = &public
	}
	deleted, ok, err := e.Bool("DeleteOnTermination")
	spec.KeepOnTermination = ok && !deleted
	return err
}

// RuleUpdate returns what an element of ModifySecurityGroupRules asks for.
func RuleUpdate(e wire.Params) (aws.RuleUpdate, error) {
	u := aws.RuleUpdate{RuleID: e.String("SecurityGroupRuleId")}
	if u.RuleID == "" {
		return u, Missing(e.Name("SecurityGroupRuleId"))
	}
	rule := e.Sub("SecurityGroupRule")
	u.Protocol = StringPtr(rule, "IpProtocol")
	u.CIDRIPv4 = rule.String("CidrIpv4")
	u.CIDRIPv6 = rule.String("CidrIpv6")
	u.PrefixListID = rule.String("PrefixListId")
	u.ReferencedGroupID = rule.String("ReferencedGroupId")
	u.Description = StringPtr(rule, "Description")
	var err error
	if u.FromPort, err = intPtr(rule, "FromPort"); err != nil {
		return u, err
	}
	u.ToPort, err = intPtr(rule, "ToPort")
	return u, err
}
