package aws

import (
	"context"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

// rereads bounds how often rules are read again because the cloud says that ours are there or gone
// and its listing disagrees.
const rereads = 6

// eachDirection does the ingress rules in one call and the egress rules in another.
func (w writer) eachDirection(ctx context.Context, rules []cloud.Rule, do func(context.Context, cloud.Direction, []cloud.Rule) error) error {
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		if _, err := values.Permissions(d, rules); err != nil {
			return failure.Refuse(w.op, "%w", err)
		}
	}
	for _, r := range rules {
		if r.Direction != cloud.Ingress && r.Direction != cloud.Egress {
			return failure.Refuse(w.op, "the rule %q has no direction", r)
		}
	}
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		if err := do(ctx, d, rules); err != nil {
			return err
		}
	}
	return nil
}

// authorize adds the rules of one direction. The cloud refuses the whole call if one of them
// exists; then the group is read and only what is missing is added.
func (w writer) authorize(ctx context.Context, d cloud.Direction, rules []cloud.Rule) error {
	return w.edit(ctx, edit{direction: d, rules: rules, call: "AuthorizeSecurityGroup", disagrees: failure.CodePermissionDuplicate, left: values.Missing,
		do: func(perms []types.IpPermission) (err error) {
			if d == cloud.Ingress {
				_, err = w.api.AuthorizeSecurityGroupIngress(ctx,
					&ec2.AuthorizeSecurityGroupIngressInput{GroupId: awssdk.String(w.op.Target), IpPermissions: perms})
				return err
			}
			_, err = w.api.AuthorizeSecurityGroupEgress(ctx,
				&ec2.AuthorizeSecurityGroupEgressInput{GroupId: awssdk.String(w.op.Target), IpPermissions: perms})
			return err
		}})
}

// revoke removes the rules of one direction. The cloud refuses the whole call if one of them is
// gone; then the group is read and only what is present is removed. A group that is gone has no
// rules.
func (w writer) revoke(ctx context.Context, d cloud.Direction, rules []cloud.Rule) error {
	err := w.edit(ctx, edit{direction: d, rules: rules, call: "RevokeSecurityGroup", disagrees: failure.CodePermissionNotFound, left: values.Present,
		do: func(perms []types.IpPermission) error { return w.revokeCall(ctx, d, perms, nil) }})
	if err == nil || cloud.ClassOf(err) != cloud.NotFound {
		return err
	}
	if _, err := w.read(ctx, w.op.Target); err != nil {
		if cloud.ClassOf(err) == cloud.NotFound {
			return nil
		}
		return err
	}
	return w.revokeByID(ctx, d, rules)
}

func (w writer) revokeCall(ctx context.Context, d cloud.Direction, perms []types.IpPermission, ids []string) (err error) {
	group := awssdk.String(w.op.Target)
	if d == cloud.Ingress {
		_, err = w.api.RevokeSecurityGroupIngress(ctx,
			&ec2.RevokeSecurityGroupIngressInput{GroupId: group, IpPermissions: perms, SecurityGroupRuleIds: ids})
	} else {
		_, err = w.api.RevokeSecurityGroupEgress(ctx,
			&ec2.RevokeSecurityGroupEgressInput{GroupId: group, IpPermissions: perms, SecurityGroupRuleIds: ids})
	}
	return err
}

// revokeByID removes rules whose peer the cloud does not know any more, so that it cannot take them
// by their properties.
func (w writer) revokeByID(ctx context.Context, d cloud.Direction, rules []cloud.Rule) error {
	listed, err := w.listRules(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, rule := range listed {
		if rule.Direction == d && values.HasRule(&cloud.Group{Rules: rules}, rule) {
			ids = append(ids, rule.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	err = w.revokeCall(ctx, d, nil, ids)
	if err := w.classify("RevokeSecurityGroup", err); err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return err
	}
	return nil
}

// edit is a change of the rules of one direction of a group.
type edit struct {
	direction cloud.Direction
	rules     []cloud.Rule
	// call is the name of the call without its direction.
	call string
	// disagrees is the code with which the cloud refuses the call because it is done in part
	// already; left is what then is left.
	disagrees string
	left      func(*cloud.Group, []cloud.Rule) []cloud.Rule
	do        func([]types.IpPermission) error
}

func (w writer) edit(ctx context.Context, e edit) error {
	call, ids := e.call+"Ingress", []string{w.op.Target}
	if e.direction == cloud.Egress {
		call = e.call + "Egress"
	}
	for _, r := range e.rules {
		ids = append(ids, r.Peer.GroupID)
	}
	wait := firstWait
	for attempt := 0; ; attempt++ {
		perms, err := values.Permissions(e.direction, e.rules)
		if err != nil {
			return failure.Refuse(w.op, "%w", err)
		}
		if len(perms) == 0 {
			return nil
		}
		err = w.visible(ctx, call, ids, func() error { return e.do(perms) })
		if err == nil || failure.CodeOf(err) != e.disagrees || attempt == rereads {
			return err
		}
		if attempt > 0 {
			// The listing lags behind: it showed a state in which this call could not have been
			// refused.
			if err := w.p.cfg.Sleep(ctx, wait); err != nil {
				return w.classify(call, err)
			}
			wait = min(2*wait, maxWait)
		}
		g, err := w.read(ctx, w.op.Target)
		if err != nil {
			return err
		}
		e.rules = e.left(g, e.rules)
	}
}
