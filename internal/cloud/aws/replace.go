package aws

import (
	"context"
	"fmt"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

const codeRuleNotFound = "InvalidSecurityGroupRuleId.NotFound"

// replaceRules turns rules of the group into others in one call. The cloud wants them by their IDs,
// which are read before; so a rule that has been turned already, by a call whose answer was lost,
// is seen and left alone. Where both forms are there, the old one goes.
func (w writer) replaceRules(ctx context.Context) error {
	if err := w.checkReplaced(); err != nil {
		return err
	}
	const call = "ModifySecurityGroupRules"
	wait := firstWait
	for attempt := 0; ; attempt++ {
		listed, err := w.listRules(ctx)
		if err != nil {
			return err
		}
		r := w.compare(listed)
		err = r.lost
		if len(r.updates) > 0 && err == nil {
			_, err = w.api.ModifySecurityGroupRules(withOp(ctx, w.scope, r.op(w.op)), &ec2.ModifySecurityGroupRulesInput{
				GroupId: awssdk.String(w.op.Target), SecurityGroupRules: r.updates})
			err = w.classify(call, err)
		}
		if err == nil {
			return w.eachDirection(ctx, r.both, w.revoke)
		}
		// The listing may lag behind: then a rule is not there that is, or another way round.
		lags := r.lost != nil || failure.CodeOf(err) == codeRuleNotFound || failure.CodeOf(err) == failure.CodePermissionDuplicate
		if !lags || attempt == rereads/2 {
			return err
		}
		if err := w.p.cfg.Sleep(ctx, wait); err != nil {
			return w.classify(call, err)
		}
		wait = min(2*wait, maxWait)
	}
}

// checkReplaced refuses what can never be done.
func (w writer) checkReplaced() error {
	if len(w.op.Rules) != len(w.op.Replaced) {
		return failure.Refuse(w.op, "%d rules cannot take the place of %d", len(w.op.Rules), len(w.op.Replaced))
	}
	for i, r := range w.op.Rules {
		old := w.op.Replaced[i]
		if !old.CanBecome(r) {
			return failure.Refuse(w.op, "the rule %q cannot become %q: direction and kind of peer stay", old, r)
		}
		if !r.Same(old) && values.HasRule(&cloud.Group{Rules: w.op.Replaced}, r) {
			return failure.Refuse(w.op, "the rule %q is to go and to come", r) // so that after a lost answer nobody could tell what is done
		}
		if _, err := updateOf("", r); err != nil {
			return failure.Refuse(w.op, "%w", err)
		}
	}
	return nil
}

// replacement is what is left to do of an op.
type replacement struct {
	updates []types.SecurityGroupRuleUpdate
	turned  []int        // the rules of the op that updates are about
	both    []cloud.Rule // old rules beside which the new one is there already
	lost    error        // some rule is there in neither form
}

func (w writer) compare(listed []cloud.Rule) (out replacement) {
	find := func(r cloud.Rule) int {
		return slices.IndexFunc(listed, func(o cloud.Rule) bool { return values.HasRule(&cloud.Group{Rules: []cloud.Rule{r}}, o) })
	}
	for i, r := range w.op.Rules {
		old, done := find(w.op.Replaced[i]), find(r) >= 0
		if old >= 0 && r.Same(w.op.Replaced[i]) {
			if done = listed[old].Description == values.AllowedText(r.Description); done {
				continue
			}
		}
		switch {
		case done && old >= 0:
			out.both = append(out.both, w.op.Replaced[i])
		case old >= 0:
			update, err := updateOf(listed[old].ID, r)
			if err != nil {
				out.lost = failure.Refuse(w.op, "%w", err)
			}
			out.updates, out.turned = append(out.updates, update), append(out.turned, i)
		case !done:
			out.lost = &cloud.Error{Class: cloud.Conflict, Call: "DescribeSecurityGroupRules", Err: fmt.Errorf(
				"%s has neither the rule %q nor %q", w.op.Target, w.op.Replaced[i], r)}
		}
	}
	return out
}

// op is the part of the op that the updates do.
func (r replacement) op(of cloud.Op) cloud.Op {
	out := of
	out.Rules, out.Replaced = nil, nil
	for _, i := range r.turned {
		out.Rules, out.Replaced = append(out.Rules, of.Rules[i]), append(out.Replaced, of.Replaced[i])
	}
	return out
}

// updateOf is the whole new value of a rule.
func updateOf(id string, r cloud.Rule) (types.SecurityGroupRuleUpdate, error) {
	out := types.SecurityGroupRuleUpdate{SecurityGroupRuleId: awssdk.String(id)}
	perm, err := values.Permission(r.Match)
	if err == nil {
		err = values.AddPeer(&perm, r)
	}
	if err != nil {
		return out, err
	}
	value := &types.SecurityGroupRuleRequest{IpProtocol: perm.IpProtocol, FromPort: perm.FromPort, ToPort: perm.ToPort}
	if text := values.AllowedText(r.Description); text != "" {
		value.Description = awssdk.String(text) // left out, it would be removed
	}
	switch {
	case len(perm.IpRanges) > 0:
		value.CidrIpv4 = perm.IpRanges[0].CidrIp
	case len(perm.Ipv6Ranges) > 0:
		value.CidrIpv6 = perm.Ipv6Ranges[0].CidrIpv6
	case len(perm.PrefixListIds) > 0:
		value.PrefixListId = perm.PrefixListIds[0].PrefixListId
	default:
		value.ReferencedGroupId = perm.UserIdGroupPairs[0].GroupId
	}
	out.SecurityGroupRule = value
	return out, nil
}

// listRules reads the rules of the group with their IDs. Rules of an unknown kind are left out.
func (w writer) listRules(ctx context.Context) ([]cloud.Rule, error) {
	in := &ec2.DescribeSecurityGroupRulesInput{
		MaxResults: awssdk.Int32(w.p.cfg.PageSize),
		Filters:    []types.Filter{{Name: awssdk.String("group-id"), Values: []string{w.op.Target}}},
	}
	const call = "DescribeSecurityGroupRules"
	var rules []cloud.Rule
	err := each(ctx, w.p, call, ec2.NewDescribeSecurityGroupRulesPaginator(w.api, in), func(out *ec2.DescribeSecurityGroupRulesOutput) error {
		for _, listed := range out.SecurityGroupRules {
			if rule, err := values.Rule(listed); err == nil {
				rules = append(rules, rule)
			}
		}
		if bound := w.p.cfg.Bounds.Objects; len(rules) > bound {
			return &cloud.BoundError{What: "the group has", Bound: int64(bound), Unit: "rules", Flag: bounds.FlagObjects}
		}
		return nil
	})
	return rules, err
}
