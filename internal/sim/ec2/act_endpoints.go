package ec2

import (
	"errors"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// endpointActions are those on the interface endpoints of a VPC, the one native service that EC2
// itself has.
func endpointActions() map[string]action {
	return map[string]action{"DescribeVpcEndpoints": describeVPCEndpoints, "ModifyVpcEndpoint": modifyVPCEndpoint}
}

func describeVPCEndpoints(r *request) ([]wire.Element, error) {
	all := r.region.Services().List(native.Endpoint)
	if ids := r.params.Strings("VpcEndpointId"); len(ids) > 0 {
		for _, id := range ids {
			if err := aws.CheckID("vpce", id); err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(all, func(s native.Service) bool { return s.Name == id }) {
				return nil, aws.NotFound(id)
			}
		}
		all = slices.DeleteFunc(all, func(s native.Service) bool { return !slices.Contains(ids, s.Name) })
	}
	page, err := list(r, listing[native.Service]{
		items: all,
		key:   func(s native.Service) string { return s.Name },
		known: wire.Attributes[native.Service]{
			"vpc-endpoint-id":    func(s native.Service) []string { return []string{s.Name} },
			"vpc-id":             func(s native.Service) []string { return []string{s.VPCID} },
			"service-name":       func(s native.Service) []string { return []string{s.Engine} },
			"vpc-endpoint-type":  func(native.Service) []string { return []string{"Interface"} },
			"vpc-endpoint-state": func(native.Service) []string { return []string{"available"} },
		},
		tags: func(s native.Service) map[string]string { return s.Tags },
		page: pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	groups, err := r.region.SecurityGroups()
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for i := range groups {
		names[groups[i].ID] = groups[i].Name
	}
	return pageOf("vpcEndpointSet", page, func(s native.Service) []wire.Element { return codec.EndpointBody(s, names) }), nil
}

// modifyVPCEndpoint adds and removes security groups, of which one must be left. It changes nothing
// else.
func modifyVPCEndpoint(r *request) ([]wire.Element, error) {
	id, err := need(r, "VpcEndpointId")
	if err != nil {
		return nil, err
	}
	if err := aws.CheckID("vpce", id); err != nil {
		return nil, err
	}
	ref := native.Ref{Kind: native.Endpoint, Name: id}
	s, err := r.region.Services().Get(ref)
	if err != nil {
		return nil, aws.NotFound(id)
	}
	add, remove := r.params.Strings("AddSecurityGroupId"), r.params.Strings("RemoveSecurityGroupId")
	after := slices.Clone(s.Groups)
	for _, g := range remove {
		if !slices.Contains(after, g) {
			return nil, codec.Fail("InvalidParameter", "The security group %s is not associated with the VPC endpoint %s", g, id)
		}
		after = slices.DeleteFunc(after, func(x string) bool { return x == g })
	}
	for _, g := range add {
		if !slices.Contains(after, g) {
			after = append(after, g)
		}
	}
	if len(add)+len(remove) == 0 {
		return done(nil)
	}
	_, err = r.region.Services().SetGroups(r.call.Action, ref, after)
	refused := (*aws.Error)(nil)
	if errors.As(err, &refused) {
		switch refused.Code {
		case "ServiceInvalid", "DifferentNetworks":
			return nil, codec.Fail("InvalidParameter", "%s", refused.Message)
		case "ServiceBusy":
			return nil, codec.Fail("IncorrectState", "The VPC endpoint %s is being modified.", id)
		}
	}
	return done(err)
}
