package nativeapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
)

func functionActions() map[string]Action {
	return map[string]Action{
		"ListFunctions":               listFunctions,
		"GetFunctionConfiguration":    getFunctionConfiguration,
		"UpdateFunctionConfiguration": updateFunctionConfiguration,
		"ListTags":                    functionTags,
		"TagResource":                 tagFunction,
		"UntagResource":               untagFunction,
	}
}

// functionPaging: "MaxItems: The maximum number of functions to return in the response. Note that
// ListFunctions returns a maximum of 50 items in each response, even if you set the number higher."
var functionPaging = paging{"Marker", "MaxItems", 1, 10000, maxFunctions}

const maxFunctions = 50

func badFunction(format string, args ...any) error {
	return refuse("InvalidParameterValueException", format, args...)
}

// functionRefusal gives the world's refusals the names of Lambda.
func functionRefusal(err error) error {
	return translate(err, map[string]string{
		"ServiceNotFound": "ResourceNotFoundException/404", "ServiceBusy": "ResourceConflictException/409",
		"ServiceInvalid": "InvalidParameterValueException", "DifferentNetworks": "InvalidParameterValueException",
		"TagInvalid": "InvalidParameterValueException", "InvalidGroup.NotFound": "InvalidParameterValueException",
		"InvalidGroupId.Malformed": "InvalidParameterValueException", "SecurityGroupsPerInterfaceLimitExceeded": "InvalidParameterValueException",
	})
}

// function names the function of the call: by name or ARN.
func (c *Call) function() native.Ref {
	id := cmp.Or(c.Params.String("FunctionName"), c.Params.String("Resource"))
	return native.Ref{Kind: native.Function, Name: id[strings.LastIndex(id, ":")+1:]}
}

func (c *Call) functionPermissions() []iam.Request {
	if c.Action == "ListFunctions" {
		return []iam.Request{c.ask("*", nil, nil)}
	}
	var body struct{ Tags map[string]string }
	// A body that cannot be read is refused by the action.
	_ = c.decode(&body)
	return []iam.Request{c.askFor(native.Function, c.function().Name, body.Tags)}
}

func (c *Call) functionJSON(s native.Service) map[string]any {
	state := "Successful"
	if c.busy(s) {
		state = "InProgress"
	}
	out := map[string]any{
		"FunctionName": s.Name, "FunctionArn": s.ARN(), "Runtime": cmp.Or(s.Engine, "provided.al2023"), "Handler": "bootstrap",
		"Role": "arn:aws:iam::" + s.Account + ":role/" + s.Name, "LastModified": s.Created.UTC().Format("2006-01-02T15:04:05.000+0000"),
		"Version": "$LATEST", "PackageType": "Zip", "MemorySize": 128, "Timeout": 3, "State": "Active", "LastUpdateStatus": state,
	}
	if s.VPCID != "" {
		out["VpcConfig"] = map[string]any{"SubnetIds": s.Subnets, "SecurityGroupIds": s.Groups, "VpcId": s.VPCID, "Ipv6AllowedForDualStack": false}
	}
	return out
}

func listFunctions(c *Call) (Answer, error) {
	p, err := page(c, c.Region.Services().List(native.Function), func(s native.Service) string { return s.Name }, functionPaging, badFunction)
	if err != nil {
		return Answer{}, err
	}
	rows := []map[string]any{}
	for _, s := range p.Items {
		rows = append(rows, c.functionJSON(s))
	}
	return pageJSON("Functions", rows, p.Next), nil
}

func getFunctionConfiguration(c *Call) (Answer, error) {
	s, err := c.Region.Services().Get(c.function())
	return Answer{JSON: c.functionJSON(s)}, functionRefusal(err)
}

// updateFunctionConfiguration changes the security groups of a function in a VPC, and nothing else.
func updateFunctionConfiguration(c *Call) (Answer, error) {
	var body struct {
		VpcConfig *struct{ SecurityGroupIds, SubnetIds []string }
	}
	if err := c.decode(&body); err != nil {
		return Answer{}, err
	}
	s, err := c.Region.Services().Get(c.function())
	if err == nil && body.VpcConfig != nil {
		if s.VPCID == "" {
			return Answer{}, withStatus(http.StatusBadRequest, "InvalidParameterValueException", "The simulator brings no function into a VPC")
		}
		s, err = c.Region.Services().SetGroups(c.Action, s.Ref(), body.VpcConfig.SecurityGroupIds)
	}
	return Answer{JSON: c.functionJSON(s)}, functionRefusal(err)
}

func functionTags(c *Call) (Answer, error) {
	s, err := c.Region.Services().Get(c.function())
	tags := s.Tags
	if tags == nil {
		tags = map[string]string{}
	}
	return Answer{JSON: map[string]any{"Tags": tags}}, functionRefusal(err)
}

func tagFunction(c *Call) (Answer, error) {
	var body struct{ Tags map[string]string }
	if err := c.decode(&body); err != nil {
		return Answer{}, err
	}
	return Answer{}, functionRefusal(c.Region.Services().SetTags(c.Action, c.function(), body.Tags, nil))
}

func untagFunction(c *Call) (Answer, error) {
	return Answer{}, functionRefusal(c.Region.Services().SetTags(c.Action, c.function(), nil, c.tagKeys()))
}
