package aws

import (
	"fmt"
	"net/http"
)

// Error is a refusal in the terms of the EC2 or STS API.
type Error struct {
	Code       string // EC2 error code, such as InvalidGroup.NotFound
	Message    string
	HTTPStatus int
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Refuse makes a refusal with the status 400, which EC2 has for nearly all of them.
func Refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), HTTPStatus: http.StatusBadRequest}
}

// InvalidValue is the refusal of a parameter that has a wrong value.
func InvalidValue(format string, args ...any) *Error {
	return Refuse("InvalidParameterValue", format, args...)
}

// kind is what the wire knows of one resource type: the id prefix, and how it says that an id is
// unknown or malformed.
type kind struct {
	prefix, resource    string
	notFound, malformed string // error codes
	missing, garbled    string // message formats, each with the id as its one argument
}

// kinds lists the resource types by id prefix. It is never written to.
var kinds = []kind{
	{"vpc", "vpc", "InvalidVpcID.NotFound", "InvalidVpcID.Malformed",
		"The vpc ID '%s' does not exist", "The vpc ID '%s' is malformed"},
	{"subnet", "subnet", "InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed",
		"The subnet ID '%s' does not exist", "The subnet ID '%s' is malformed"},
	{"sg", "security-group", "InvalidGroup.NotFound", "InvalidGroupId.Malformed",
		"The security group '%s' does not exist", "The security group ID '%s' is malformed"},
	{"sgr", "security-group-rule", "InvalidSecurityGroupRuleId.NotFound", "InvalidSecurityGroupRuleId.Malformed",
		"The security group rule ID '%s' does not exist", "The security group rule ID '%s' is malformed"},
	{"eni", "network-interface", "InvalidNetworkInterfaceID.NotFound", "InvalidNetworkInterfaceId.Malformed",
		"The networkInterface ID '%s' does not exist", "Invalid id: \"%s\""},
	{"i", "instance", "InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed",
		"The instance ID '%s' does not exist", "Invalid id: \"%s\""},
	{"pl", "prefix-list", "InvalidPrefixListID.NotFound", "InvalidPrefixListId.Malformed",
		"The prefix list ID '%s' does not exist", "The prefix list ID '%s' is malformed"},
	{"pcx", "vpc-peering-connection", "InvalidVpcPeeringConnectionID.NotFound", "InvalidVpcPeeringConnectionId.Malformed",
		"The vpcPeeringConnection ID '%s' does not exist", "The vpcPeeringConnection ID '%s' is malformed"},
	{"rtb", "route-table", "InvalidRouteTableID.NotFound", "InvalidRouteTableId.Malformed",
		"The routeTable ID '%s' does not exist", "The routeTable ID '%s' is malformed"},
	{"acl", "network-acl", "InvalidNetworkAclID.NotFound", "InvalidNetworkAclId.Malformed",
		"The networkAcl ID '%s' does not exist", "The networkAcl ID '%s' is malformed"},
	{"igw", "internet-gateway", "InvalidInternetGatewayID.NotFound", "InvalidInternetGatewayId.Malformed",
		"The internetGateway ID '%s' does not exist", "The internetGateway ID '%s' is malformed"},
	{"vpce", "vpc-endpoint", "InvalidVpcEndpointId.NotFound", "InvalidVpcEndpointId.Malformed",
		"The Vpc Endpoint Id '%s' does not exist", "The Vpc Endpoint Id '%s' is malformed"},
	{"lt", "launch-template", "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.Malformed",
		"The specified launch template, with template ID %s, does not exist.", "The launch template ID '%s' is malformed"},
}

// CheckID returns nil if id is well-formed for a resource with this id prefix ("sg", "eni", ...),
// else the refusal that EC2 gives: Malformed. Both the short (8 hex digits) and the long (17) form
// are good.
func CheckID(prefix, id string) error {
	for _, k := range kinds {
		if k.prefix == prefix && !WellFormed(prefix, id) {
			return Refuse(k.malformed, k.garbled, id)
		}
	}
	return nil
}

// NotFound is the refusal that EC2 gives for a well-formed id that is unknown, by the prefix of the
// id.
func NotFound(id string) *Error {
	for _, k := range kinds {
		if WellFormed(k.prefix, id) {
			return Refuse(k.notFound, k.missing, id)
		}
	}
	return Refuse("InvalidID", "The ID '%s' is not valid", id)
}
