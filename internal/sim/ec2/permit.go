package ec2

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/iam"
)

// permit refuses what the caller's IAM policy does not allow. A caller without a policy may do
// everything; GetCallerIdentity needs no permission. The resources of an action and their condition
// keys are the keys of the Service Authorization Reference for Amazon EC2.
//
// A resource that is not there, or not visible yet, has no tags: a permission that asks for one is
// refused where the unconditional one would be answered with NotFound.
func permit(h *Handler, req *request) error {
	policy := req.caller.Policy
	if policy == nil || req.call.Service == serviceSTS {
		return nil
	}
	for _, asked := range req.permissions(h) {
		if !policy.Allows(asked) {
			code := "UnauthorizedOperation"
			if req.call.Service != serviceEC2 {
				code = "AccessDenied"
			}
			text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
				req.caller.ARN(), asked.Action, asked.Resource, asked.Action)
			if !isNative(req.call.Service) {
				text = "You are not authorized to perform this operation. " + text
			}
			return codec.Fail(code, "%s", text)
		}
	}
	return nil
}

// permissions lists what the request needs.
func (r *request) permissions(h *Handler) []iam.Request {
	if isNative(r.call.Service) {
		return r.native(h).Permissions()
	}
	if r.call.Service == serviceSQS {
		return []iam.Request{{Action: "sqs:" + strings.TrimSuffix(r.call.Action, "Batch"), Resource: r.queueARN()}}
	}
	switch r.call.Action {
	case "DeleteSecurityGroup", "AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress",
		"RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress",
		"UpdateSecurityGroupRuleDescriptionsIngress", "UpdateSecurityGroupRuleDescriptionsEgress":
		return []iam.Request{r.about(r.params.String("GroupId"))}
	case "ModifySecurityGroupRules":
		out := []iam.Request{r.about(r.params.String("GroupId"))}
		for _, rule := range r.params.Elements("SecurityGroupRule") {
			out = append(out, r.about(rule.String("SecurityGroupRuleId")))
		}
		return out
	case "ModifyNetworkInterfaceAttribute":
		out := []iam.Request{r.about(r.params.String("NetworkInterfaceId"))}
		for _, group := range r.params.Strings("SecurityGroupId") {
			out = append(out, r.about(group))
		}
		return out
	case "CreateTags", "DeleteTags":
		var out []iam.Request
		for _, id := range r.params.Strings("ResourceId") {
			asked := r.about(id)
			maps.Copy(asked.Keys, tagKeys(r.requestTags()))
			out = append(out, asked)
		}
		return out
	}
	if m, ok := makes[r.call.Action]; ok {
		return r.creation(m.kind, m.of)
	}
	return r.named(concerns[r.call.Action])
}

// about is the action on a resource with the tags that it has and the VPC that it is in.
func (r *request) about(id string) iam.Request {
	out := iam.Request{Action: "ec2:" + r.call.Action, Resource: r.arn(aws.ResourceType(id), id), Keys: r.place()}
	for k, v := range r.region.TagsOf(id) {
		out.Keys["aws:ResourceTag/"+k] = []string{v}
		out.Keys["ec2:ResourceTag/"+k] = []string{v}
	}
	if vpc, owner := r.region.NetworkOf(id); vpc != "" {
		out.Keys["ec2:Vpc"] = []string{"arn:aws:ec2:" + r.call.Region + ":" + owner + ":vpc/" + vpc}
	}
	return out
}

// place is what every request of EC2 carries.
func (r *request) place() map[string][]string {
	return map[string][]string{"aws:RequestedRegion": {r.call.Region}, "ec2:Region": {r.call.Region}}
}

func (r *request) arn(kind, id string) string {
	return "arn:aws:ec2:" + r.call.Region + ":" + r.call.Account + ":" + kind + "/" + id
}

func (r *request) requestTags() aws.Tags {
	out := aws.Tags{}
	for _, t := range r.params.Elements("Tag") {
		out[t.String("Key")] = t.String("Value")
	}
	return out
}

func tagKeys(tags aws.Tags) map[string][]string {
	out := map[string][]string{"aws:TagKeys": slices.Sorted(maps.Keys(tags))}
	for k, v := range tags {
		out["aws:RequestTag/"+k] = []string{v}
	}
	return out
}

// queueARN names the queue of an SQS call; "*" for the calls that concern none.
func (r *request) queueARN() string {
	var at atQueue
	// A body that cannot be read is refused by the action.
	if json.Unmarshal(r.body, &at) != nil || at.QueueURL == "" {
		return "*"
	}
	u, err := url.Parse(at.QueueURL)
	if err != nil {
		return "*"
	}
	account, name := path.Split(strings.Trim(u.Path, "/"))
	return "arn:aws:sqs:" + r.call.Region + ":" + strings.Trim(account, "/") + ":" + name
}
