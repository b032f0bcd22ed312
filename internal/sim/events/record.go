package events

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// object is a JSON object.
type object = map[string]any

// record is CloudTrail's record of a call.
func record(m aws.Mutation, id string) object {
	request, response := parameters(m)
	out := object{
		"eventVersion": "1.10", "userIdentity": identity(m), "eventTime": stamp(m.Time), "eventSource": serviceOf(m) + ".amazonaws.com",
		"eventName": m.Action, "awsRegion": m.Region, "sourceIPAddress": "127.0.0.1", "userAgent": "nephele-simulator",
		"requestParameters": request, "responseElements": response, "requestID": id, "eventID": id, "readOnly": false,
		"eventType": "AwsApiCall", "managementEvent": true, "recipientAccountId": m.Account, "eventCategory": "Management",
	}
	if c := m.Cause; c != nil {
		out["requestID"] = c.Request
		out["sourceIPAddress"], out["userAgent"] = cmp.Or(c.Source, "127.0.0.1"), cmp.Or(c.Agent, "-")
	}
	return out
}

// identity is the caller. For internal mutations it is a service.
func identity(m aws.Mutation) object {
	if m.Cause == nil {
		return object{"type": "AWSService", "invokedBy": "simulator.amazonaws.com"}
	}
	c := m.Cause.Caller
	out := object{
		"type": "IAMUser", "principalId": c.UserID(), "arn": c.ARN(), "accountId": c.Account, "accessKeyId": c.AccessKeyID,
	}
	if c.Role == "" {
		out["userName"] = c.ARN()[strings.LastIndexByte(c.ARN(), '/')+1:]
		return out
	}
	out["type"] = "AssumedRole"
	out["sessionContext"] = object{
		"sessionIssuer": object{
			"type": "Role", "principalId": c.RoleID, "arn": "arn:aws:iam::" + c.Account + ":role/" + c.Role,
			"accountId": c.Account, "userName": c.Role,
		},
		"attributes": object{"mfaAuthenticated": "false"},
	}
	return out
}

func set(items ...object) object {
	if items == nil {
		items = []object{}
	}
	return object{"items": items}
}

func each(ids []string, prefix, key string) []object {
	out := []object{}
	for _, id := range ids {
		if strings.HasPrefix(id, prefix) {
			out = append(out, object{key: id})
		}
	}
	return out
}

func first(ids []string, prefix string) string {
	for _, id := range ids {
		if strings.HasPrefix(id, prefix) {
			return id
		}
	}
	return ""
}

// parameters are the request parameters and response elements in the form that CloudTrail gives
// them for EC2.
func parameters(m aws.Mutation) (request, response object) {
	ok := object{"requestId": "", "_return": true}
	switch m.Action {
	case "CreateTags", "DeleteTags":
		return object{"resourcesSet": set(each(m.Resources, "", "resourceId")...), "tagSet": set(tags(m)...)}, ok
	case "RunInstances":
		return object{"instancesSet": set(object{"minCount": 1, "maxCount": 1}), "monitoring": object{"enabled": false}},
			object{"requestId": "", "instancesSet": set(launched(m.Resources)...)}
	case "StartInstances", "StopInstances", "TerminateInstances":
		return object{"instancesSet": set(each(m.Resources, "i-", "instanceId")...)},
			object{"requestId": "", "instancesSet": set(each(m.Resources, "i-", "instanceId")...)}
	case "ModifyNetworkInterfaceAttribute":
		return object{"networkInterfaceId": first(m.Resources, "eni-"), "groupSet": set(listed(m, "SecurityGroupId", "groupId")...)}, ok
	case "ModifyInstanceAttribute":
		return object{"instanceId": first(m.Resources, "i-"), "groupSet": set(listed(m, "GroupId", "groupId")...)}, ok
	case "CreateNetworkInterface":
		return object{"subnetId": param(m, "SubnetId")}, object{"requestId": "", "networkInterface": object{"networkInterfaceId": first(m.Resources, "eni-")}}
	case "DeleteNetworkInterface":
		return object{"networkInterfaceId": first(m.Resources, "eni-")}, ok
	case "CreateSecurityGroup":
		return object{"groupName": param(m, "GroupName"), "groupDescription": param(m, "GroupDescription"), "vpcId": param(m, "VpcId")},
			object{"requestId": "", "_return": true, "groupId": first(m.Resources, "sg-")}
	case "CreateVpc":
		return object{"cidrBlock": param(m, "CidrBlock")}, object{"requestId": "", "vpc": object{"vpcId": first(m.Resources, "vpc-")}}
	case "AcceptVpcPeeringConnection", "DeleteVpcPeeringConnection":
		return object{"vpcPeeringConnectionId": first(m.Resources, "pcx-")}, ok
	case "CreateManagedPrefixList", "ModifyManagedPrefixList", "DeleteManagedPrefixList":
		// CloudTrail names the request's members of newer calls after the call.
		return object{m.Action + "Request": object{"PrefixListId": param(m, "PrefixListId")}},
			object{m.Action + "Response": object{"prefixList": object{"prefixListId": first(m.Resources, "pl-")}}}
	case "AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress":
		var rules []object
		for _, o := range each(m.Resources, "sgr-", "securityGroupRuleId") {
			o["groupId"] = first(m.Resources, "sg-")
			rules = append(rules, o)
		}
		return object{"groupId": first(m.Resources, "sg-"), "ipPermissions": object{}},
			object{"requestId": "", "_return": true, "securityGroupRuleSet": set(rules...)}
	}
	if len(m.Resources) > 0 && strings.HasPrefix(m.Resources[0], "arn:") {
		return object{"resourceArn": m.Resources[0]}, ok
	}
	if g := first(m.Resources, "sg-"); g != "" {
		return object{"groupId": g}, ok
	}
	return object{"resourcesSet": set(each(m.Resources, "", "resourceId")...)}, ok
}

// launched are the instances of a launch with their interfaces, which follow them in the list of
// what was touched.
func launched(ids []string) []object {
	var out []object
	var nics []object
	for _, id := range ids {
		switch {
		case strings.HasPrefix(id, "i-"):
			nics = nil
			out = append(out, object{"instanceId": id, "instanceState": object{"code": 0, "name": "pending"}})
		case strings.HasPrefix(id, "eni-") && len(out) > 0:
			nics = append(nics, object{"networkInterfaceId": id})
			out[len(out)-1]["networkInterfaceSet"] = set(nics...)
		}
	}
	return out
}

func param(m aws.Mutation, key string) string {
	if m.Cause == nil {
		return ""
	}
	return m.Cause.Params[key]
}

// listed are the values of a list parameter.
func listed(m aws.Mutation, parameter, key string) []object {
	var out []object
	for n := 1; ; n++ {
		v := param(m, parameter+"."+strconv.Itoa(n))
		if v == "" {
			return out
		}
		out = append(out, object{key: v})
	}
}

func tags(m aws.Mutation) []object {
	var out []object
	for n := 1; ; n++ {
		key := fmt.Sprintf("Tag.%d.", n)
		if param(m, key+"Key") == "" {
			return out
		}
		out = append(out, object{"key": param(m, key+"Key"), "value": param(m, key+"Value")})
	}
}
