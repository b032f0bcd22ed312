package ec2

import (
	"maps"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/iam"
)

// concerns says by which parameters an action names the resources that it needs permission on. It
// is never written to.
var concerns = map[string][]string{
	"DeleteNetworkInterface": {"NetworkInterfaceId"}, "AttachNetworkInterface": {"NetworkInterfaceId", "InstanceId"},
	"AssignPrivateIpAddresses": {"NetworkInterfaceId"}, "UnassignPrivateIpAddresses": {"NetworkInterfaceId"},
	"ModifyInstanceAttribute": {"InstanceId", "GroupId"},
	"StartInstances":          {"InstanceId"}, "StopInstances": {"InstanceId"}, "TerminateInstances": {"InstanceId"},
	"DeleteVpc": {"VpcId"}, "ModifyVpcAttribute": {"VpcId"}, "AssociateVpcCidrBlock": {"VpcId"},
	"DeleteSubnet": {"SubnetId"}, "ModifySubnetAttribute": {"SubnetId"},
	"AcceptVpcPeeringConnection": {"VpcPeeringConnectionId"}, "RejectVpcPeeringConnection": {"VpcPeeringConnectionId"},
	"DeleteVpcPeeringConnection": {"VpcPeeringConnectionId"},
	"AttachInternetGateway":      {"InternetGatewayId", "VpcId"}, "DetachInternetGateway": {"InternetGatewayId", "VpcId"},
	"DeleteInternetGateway": {"InternetGatewayId"},
	"DeleteRouteTable":      {"RouteTableId"}, "AssociateRouteTable": {"RouteTableId", "SubnetId"}, "ReplaceRouteTableAssociation": {"RouteTableId"},
	"CreateRoute": {"RouteTableId"}, "ReplaceRoute": {"RouteTableId"}, "DeleteRoute": {"RouteTableId"},
	"DeleteNetworkAcl": {"NetworkAclId"}, "CreateNetworkAclEntry": {"NetworkAclId"}, "ReplaceNetworkAclEntry": {"NetworkAclId"},
	"DeleteNetworkAclEntry": {"NetworkAclId"}, "ReplaceNetworkAclAssociation": {"NetworkAclId"},
	"ModifyVpcEndpoint":           {"VpcEndpointId", "AddSecurityGroupId", "RemoveSecurityGroupId"},
	"CreateLaunchTemplateVersion": {"LaunchTemplateId"}, "ModifyLaunchTemplate": {"LaunchTemplateId"}, "DeleteLaunchTemplate": {"LaunchTemplateId"},
}

// makes says which kind of resource an action makes and by which parameters it names those that it
// is made in or of. It is never written to.
var makes = map[string]struct {
	kind string
	of   []string
}{
	"CreateSecurityGroup":        {"security-group", []string{"VpcId"}},
	"CreateNetworkInterface":     {"network-interface", []string{"SubnetId", "SecurityGroupId"}},
	"CreateVpc":                  {"vpc", nil},
	"CreateSubnet":               {"subnet", []string{"VpcId"}},
	"CreateVpcPeeringConnection": {"vpc-peering-connection", []string{"VpcId"}},
	"CreateInternetGateway":      {"internet-gateway", nil},
	"CreateRouteTable":           {"route-table", []string{"VpcId"}},
	"CreateNetworkAcl":           {"network-acl", []string{"VpcId"}},
	"CreateLaunchTemplate":       {"launch-template", nil},
}

// named lists the permissions on the resources that the call names by the parameters; a parameter
// that is not there asks for "*".
func (r *request) named(keys []string) []iam.Request {
	var out []iam.Request
	for _, key := range keys {
		ids := r.params.Strings(key)
		if id := r.params.String(key); id != "" {
			ids = []string{id}
		}
		for _, id := range ids {
			if aws.ResourceType(id) != "" {
				out = append(out, r.about(id))
			}
		}
	}
	if len(out) == 0 {
		out = append(out, iam.Request{Action: "ec2:" + r.call.Action, Resource: "*", Keys: r.place()})
	}
	return out
}

// creation is what making a resource needs: the resource itself, what it is made in, and with tags
// the right to give them.
func (r *request) creation(kind string, of []string) []iam.Request {
	made := iam.Request{Action: "ec2:" + r.call.Action, Resource: r.arn(kind, "*"), Keys: r.place()}
	out := []iam.Request{made}
	if len(of) > 0 {
		out = append(out, r.named(of)...)
	}
	// Tags that cannot be read are refused by the action.
	tags, err := codec.TagSpec(r.params, kind)
	if err != nil || len(tags) == 0 {
		return out
	}
	maps.Copy(made.Keys, tagKeys(tags))
	tagging := iam.Request{Action: "ec2:CreateTags", Resource: made.Resource, Keys: maps.Clone(made.Keys)}
	tagging.Keys["ec2:CreateAction"] = []string{r.call.Action}
	return append(out, tagging)
}
