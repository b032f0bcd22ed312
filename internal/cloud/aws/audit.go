package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/cloud/aws/native"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// Auditor keeps the record of changes. Its methods are called by any number of goroutines.
type Auditor interface {
	// Begin is called when an attempt of a call that changes something is about to be sent, and the
	// function that it returns when it is over, before anybody acts on the answer. Both keep what
	// they are told before they return. They cannot fail: whether enforcement waits for the record
	// is not for the adapter to decide.
	Begin(cloud.Call) (end func(cloud.Outcome))
}

// changes reports whether a call of EC2, or one for an op, changes something. What is not known to
// read only counts as a change.
func changes(action string) bool {
	return !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") && !strings.HasPrefix(action, "List")
}

type opKey struct{}

// scopedOp is the op that calls are made for.
type scopedOp struct {
	cloud.Scope
	cloud.Op
}

// withOp returns a context for the calls of an op.
func withOp(ctx context.Context, s cloud.Scope, op cloud.Op) context.Context {
	return context.WithValue(ctx, opKey{}, scopedOp{s, op})
}

type callKey struct{}

// describeCall says what a call is about, once for all its attempts.
func (p *Provider) describeCall(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	op, _ := ctx.Value(opKey{}).(scopedOp)
	if name := awsmiddleware.GetOperationName(ctx); (awsmiddleware.GetServiceID(ctx) == ec2.ServiceID || native.Is(op.Target)) && changes(name) {
		c := callOf(name, in.Parameters, op.Op, cloud.CauseOf(ctx))
		c.Scope, c.OwnerID = op.Scope, p.knownOwner()
		if c.Region == "" {
			c.Region = awsmiddleware.GetRegion(ctx)
		}
		ctx = context.WithValue(ctx, callKey{}, c)
	}
	return next.HandleInitialize(ctx, in)
}

// audit records every attempt of a call that changes something.
func (p *Provider) audit(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	c, changing := ctx.Value(callKey{}).(cloud.Call)
	if !changing {
		return next.HandleFinalize(ctx, in)
	}
	ctx = egress.WithChange(ctx)
	if sent := cloud.CauseOf(ctx).Sent; sent != nil {
		sent()
	}
	if p.cfg.Audit == nil {
		return next.HandleFinalize(ctx, in)
	}
	end := p.cfg.Audit.Begin(c)
	out, metadata, err := next.HandleFinalize(ctx, in)
	end(p.outcome(c.Name, out.Result, metadata, err))
	return out, metadata, err
}

func (p *Provider) outcome(call string, result any, metadata middleware.Metadata, err error) cloud.Outcome {
	var o cloud.Outcome
	o.RequestID, _ = awsmiddleware.GetRequestIDMetadata(metadata)
	if err == nil {
		if made, ok := result.(*ec2.CreateSecurityGroupOutput); ok {
			o.Created = awssdk.ToString(made.GroupId)
		}
		return o
	}
	var answer interface{ ServiceRequestID() string }
	if errors.As(err, &answer) && answer.ServiceRequestID() != "" {
		o.RequestID = answer.ServiceRequestID()
	}
	if !errors.As(failure.Classify(call, err, p.cfg.Now()), &o.Err) {
		o.Err = &cloud.Error{Class: cloud.Unavailable, Call: call, Err: err}
	}
	return o
}

// callOf says what a call changes. The input tells most of it, the op and its cause the rest.
func callOf(name string, input any, op cloud.Op, cause cloud.Cause) cloud.Call {
	c := cloud.Call{Name: name, Policies: cause.Policies, Reason: cmp.Or(op.Reason, "as planned")}
	if native.Is(op.Target) {
		c.Objects = op.Subjects()
		switch op.Kind {
		case cloud.OpSetInterfaceGroups:
			c.Before.Groups, c.After.Groups = cause.Groups, slices.Sorted(slices.Values(op.GroupIDs))
		case cloud.OpTag:
			c.Before.Tags, c.After.Tags = only(cause.Tags, c.Objects), map[string]map[string]string{op.Target: op.Tags}
		case cloud.OpUntag:
			c.Before.Tags = only(cause.Tags, c.Objects)
		}
		return c
	}
	switch in := input.(type) {
	case *ec2.CreateSecurityGroupInput:
		group := awssdk.ToString(in.GroupName)
		c.Objects, c.After.Name = []string{awssdk.ToString(in.VpcId) + "/" + group}, group
		for _, spec := range in.TagSpecifications {
			c.After.Tags = map[string]map[string]string{c.Objects[0]: values.TagMap(spec.Tags)}
		}
	case *ec2.DeleteSecurityGroupInput:
		c.Objects, c.Before.Name = []string{awssdk.ToString(in.GroupId)}, op.Group.Name
	case *ec2.AuthorizeSecurityGroupIngressInput:
		c.Objects, c.After.Rules = []string{awssdk.ToString(in.GroupId)}, ruleTexts(cloud.Ingress, in.IpPermissions)
	case *ec2.AuthorizeSecurityGroupEgressInput:
		c.Objects, c.After.Rules = []string{awssdk.ToString(in.GroupId)}, ruleTexts(cloud.Egress, in.IpPermissions)
	case *ec2.RevokeSecurityGroupIngressInput:
		c.Objects, c.Before.Rules = []string{awssdk.ToString(in.GroupId)}, append(ruleTexts(cloud.Ingress, in.IpPermissions), in.SecurityGroupRuleIds...)
	case *ec2.RevokeSecurityGroupEgressInput:
		c.Objects, c.Before.Rules = []string{awssdk.ToString(in.GroupId)}, append(ruleTexts(cloud.Egress, in.IpPermissions), in.SecurityGroupRuleIds...)
	case *ec2.ModifySecurityGroupRulesInput:
		c.Objects = []string{awssdk.ToString(in.GroupId)}
		for i, r := range op.Replaced {
			c.Before.Rules, c.After.Rules = append(c.Before.Rules, r.Key().String()), append(c.After.Rules, op.Rules[i].Key().String())
		}
	case *ec2.ModifyNetworkInterfaceAttributeInput:
		c.Objects = []string{awssdk.ToString(in.NetworkInterfaceId)}
		if in.SourceDestCheck != nil {
			c.After.Routes = []string{fmt.Sprintf("takes packets for other addresses: %t", !awssdk.ToBool(in.SourceDestCheck.Value))}
			break
		}
		c.Before.Groups, c.After.Groups = cause.Groups, slices.Sorted(slices.Values(in.Groups))
	case *ec2.CreateRouteInput:
		c.Objects, c.After.Routes = op.Subjects(), []string{routeText(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.NetworkInterfaceId)}
	case *ec2.ReplaceRouteInput:
		c.Objects, c.After.Routes = op.Subjects(), []string{routeText(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.NetworkInterfaceId)}
	case *ec2.DeleteRouteInput:
		c.Objects, c.Before.Routes = op.Subjects(), []string{routeText(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, nil)}
	case *ec2.CreateTagsInput:
		c.Objects, c.Before.Tags = in.Resources, only(cause.Tags, in.Resources)
		c.After.Tags = map[string]map[string]string{}
		for _, id := range in.Resources {
			c.After.Tags[id] = values.TagMap(in.Tags)
		}
	case *ec2.DeleteTagsInput:
		c.Objects, c.Before.Tags = in.Resources, only(cause.Tags, in.Resources)
	default:
		c.Objects = op.Subjects()
	}
	return c
}

// routeText says in words where a route leads.
func routeText(v4, v6, to *string) string {
	return strings.TrimSuffix(cmp.Or(awssdk.ToString(v4), awssdk.ToString(v6))+" leads to "+awssdk.ToString(to), " leads to ")
}

// only is the part of the tags that is about some objects.
func only(tags map[string]map[string]string, ids []string) map[string]map[string]string {
	out := maps.Clone(tags)
	maps.DeleteFunc(out, func(id string, _ map[string]string) bool { return !slices.Contains(ids, id) })
	return out
}

// ruleTexts says in words which rules permissions are.
func ruleTexts(d cloud.Direction, perms []types.IpPermission) []string {
	var out []string
	for _, perm := range perms {
		rules, err := values.Rules(d, perm, "")
		if err != nil {
			out = append(out, err.Error()) // we have made it of a rule, so it can be read
		}
		for _, r := range rules {
			out = append(out, r.Key().String())
		}
	}
	return out
}
