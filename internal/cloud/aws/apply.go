package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/cloud/aws/native"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

// firstWait is the first wait for something that was just created to become visible; it doubles up
// to maxWait.
const (
	firstWait = 200 * time.Millisecond
	maxWait   = 3 * time.Second
)

// Apply implements cloud.Provider.
func (p *Provider) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	w := writer{p: p, api: p.region(s.Region), scope: s, op: op}
	if op.Target == "" && op.Kind != cloud.OpCreateGroup {
		return "", failure.Refuse(op, "the op has no target: the group %q has no id yet", op.Group.Name)
	}
	_, err := p.OwnerID(ctx)
	if err != nil {
		return "", err
	}
	id := op.Target
	if native.Is(op.Target) {
		if err := w.applyToServices(ctx); err != nil {
			return "", p.explainAuth(ctx, s.Region, err)
		}
		return id, nil
	}
	ctx = withOp(ctx, s, op)
	switch op.Kind {
	case cloud.OpCreateGroup:
		id, err = w.createGroup(ctx)
	case cloud.OpAddRules:
		err = w.eachDirection(ctx, op.Rules, w.authorize)
	case cloud.OpRemoveRules:
		err = w.eachDirection(ctx, op.Rules, w.revoke)
	case cloud.OpReplaceRules:
		err = w.replaceRules(ctx)
	case cloud.OpSetInterfaceGroups:
		err = w.setInterfaceGroups(ctx)
	case cloud.OpTag:
		err = w.tag(ctx)
	case cloud.OpUntag:
		err = w.untag(ctx)
	case cloud.OpDeleteGroup:
		err = w.deleteGroup(ctx)
	default:
		err = failure.Refuse(op, "%q is not a kind of op", op.Kind)
	}
	if err != nil {
		return "", p.explainAuth(ctx, s.Region, err)
	}
	return id, nil
}

// writer does one op.
type writer struct {
	p     *Provider
	api   *operations
	scope cloud.Scope
	op    cloud.Op
}

func (w writer) classify(call string, err error) error {
	return failure.Classify(call, err, w.p.cfg.Now())
}

// visible repeats a call while it says that something is not found which this provider created
// moments ago.
func (w writer) visible(ctx context.Context, call string, ids []string, do func() error) error {
	return w.p.visible(ctx, call, ids, func() error { return w.unseen(ctx, w.classify(call, do())) })
}

func (p *Provider) visible(ctx context.Context, call string, ids []string, do func() error) error {
	wait := firstWait
	for {
		err := do()
		if err == nil || cloud.ClassOf(err) != cloud.NotFound || !p.isFresh(ids) {
			return err
		}
		if sleepErr := p.cfg.Sleep(ctx, wait); sleepErr != nil {
			return failure.Classify(call, sleepErr, p.cfg.Now())
		}
		wait = min(2*wait, maxWait)
	}
}

// unseen tells what is not permitted from what is not there. A permission may hold only for groups
// with a tag of ours, and a group that is gone, or that the cloud does not show everywhere yet, has
// none: what would be "not found" is then refused as unauthorized.
func (w writer) unseen(ctx context.Context, err error) error {
	var refused *cloud.Error
	if !errors.As(err, &refused) || refused.Code != failure.CodeUnauthorized || !strings.HasPrefix(w.op.Target, "sg-") {
		return err
	}
	gone := &cloud.Error{Class: cloud.NotFound, Call: refused.Call, Code: refused.Code, Err: refused.Err}
	if w.p.isFresh([]string{w.op.Target}) {
		return gone
	}
	_, look := w.api.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{w.op.Target}})
	if cloud.ClassOf(w.classify("DescribeSecurityGroups", look)) == cloud.NotFound {
		return gone
	}
	return err
}

// created remembers a group as just created.
func (p *Provider) created(id string) {
	now := p.cfg.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, until := range p.fresh {
		if now.After(until) {
			delete(p.fresh, old)
		}
	}
	p.fresh[id] = now.Add(p.cfg.Consistency)
}

func (p *Provider) isFresh(ids []string) bool {
	now := p.cfg.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if until, ok := p.fresh[id]; ok && now.Before(until) {
			return true
		}
	}
	return false
}

func (w writer) createGroup(ctx context.Context) (string, error) {
	spec := w.op.Group
	if spec.Name == "" || spec.NetworkID == "" {
		return "", failure.Refuse(w.op, "a group needs a name and a network; got %q in %q", spec.Name, spec.NetworkID)
	}
	description := values.AllowedText(spec.Description)
	if description == "" {
		description = spec.Name
	}
	in := &ec2.CreateSecurityGroupInput{
		GroupName: awssdk.String(spec.Name), Description: awssdk.String(description), VpcId: awssdk.String(spec.NetworkID),
	}
	if len(spec.Tags) > 0 {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup, Tags: values.TagList(spec.Tags)}}
	}
	out, err := w.api.CreateSecurityGroup(ctx, in)
	if named := spec.Tags[cloud.TagName] != "" && len(spec.Tags) > 1; named && err != nil && strings.Contains(err.Error(), "perform: ec2:CreateTags") {
		// Rights that list the keys of tags may lack this one, which is there for people only. A
		// refusal of anything else is final.
		unnamed := maps.Clone(spec.Tags)
		delete(unnamed, cloud.TagName)
		in.TagSpecifications[0].Tags = values.TagList(unnamed)
		out, err = w.api.CreateSecurityGroup(ctx, in)
	}
	switch err := w.classify("CreateSecurityGroup", err); {
	case failure.CodeOf(err) == failure.CodeGroupDuplicate:
		return w.adopt(ctx, err)
	case err != nil:
		return "", err
	}
	id := awssdk.ToString(out.GroupId)
	w.p.created(id)
	g, err := w.read(ctx, id)
	if err != nil {
		return "", err
	}
	return id, w.dropDefaultEgress(ctx, g)
}

// adopt returns the group that has the wanted name already, if it is ours: made by an earlier
// attempt whose answer was lost.
func (w writer) adopt(ctx context.Context, duplicate error) (string, error) {
	spec := w.op.Group
	wait, deadline := firstWait, w.p.cfg.Now().Add(w.p.cfg.Consistency)
	for {
		g, err := w.find(ctx, types.Filter{Name: awssdk.String("vpc-id"), Values: []string{spec.NetworkID}},
			types.Filter{Name: awssdk.String("group-name"), Values: []string{escapeFilter(spec.Name)}})
		if err != nil {
			return "", err
		}
		if g != nil {
			if key := foreign(g.Tags, spec.Tags); key != "" {
				return "", &cloud.Error{Class: cloud.Conflict, Call: "CreateSecurityGroup", Code: failure.CodeGroupDuplicate, Err: fmt.Errorf(
					"%s has the name %q already and is not ours: its tag %s is %q, not %q", g.ID, g.Name, key, g.Tags[key], spec.Tags[key])}
			}
			return g.ID, w.dropDefaultEgress(ctx, g)
		}
		if !w.p.cfg.Now().Before(deadline) {
			return "", duplicate
		}
		if err := w.p.cfg.Sleep(ctx, wait); err != nil {
			return "", w.classify("DescribeSecurityGroups", err)
		}
		wait = min(2*wait, maxWait)
	}
}

// foreign returns the ownership tag in which two sets of tags differ, or "".
func foreign(have, want map[string]string) string {
	for _, key := range []string{cloud.TagCluster, cloud.TagKind, cloud.TagAccount} {
		if have[key] != want[key] {
			return key
		}
	}
	return ""
}

// escapeFilter keeps a filter from taking the value for a pattern.
func escapeFilter(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(s)
}

// dropDefaultEgress removes what the cloud puts into a new group. A group that has any other rule
// is past that stage, and a rule with a description is not the cloud's.
func (w writer) dropDefaultEgress(ctx context.Context, g *cloud.Group) error {
	for _, r := range g.Rules {
		if r.Direction != cloud.Egress || r.Match.Protocol != cloud.AnyProtocol || r.Description != "" ||
			!r.Peer.CIDR.IsValid() || r.Peer.CIDR.Bits() != 0 {
			return nil
		}
	}
	if len(g.Rules) == 0 {
		return nil
	}
	w.op.Target = g.ID
	return w.revoke(ctx, cloud.Egress, g.Rules)
}

// find returns the one group that the filters name, or nil.
func (w writer) find(ctx context.Context, filters ...types.Filter) (*cloud.Group, error) {
	out, err := w.api.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: filters})
	if err != nil {
		return nil, w.classify("DescribeSecurityGroups", err)
	}
	if len(out.SecurityGroups) == 0 {
		return nil, nil
	}
	return w.convert(out.SecurityGroups[0])
}

// read returns the group with its rules.
func (w writer) read(ctx context.Context, id string) (*cloud.Group, error) {
	var out *ec2.DescribeSecurityGroupsOutput
	err := w.visible(ctx, "DescribeSecurityGroups", []string{id}, func() (err error) {
		out, err = w.api.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
		if err == nil && len(out.SecurityGroups) == 0 {
			err = &cloud.Error{Class: cloud.NotFound, Call: "DescribeSecurityGroups", Err: errors.New("the group is not there")}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return w.convert(out.SecurityGroups[0])
}

func (w writer) convert(g types.SecurityGroup) (*cloud.Group, error) {
	group, err := values.Group(g)
	if err != nil {
		return nil, &cloud.Error{Class: cloud.Terminal, Call: "DescribeSecurityGroups", Err: err}
	}
	return &group, nil
}

// checkGroups refuses groups that cannot be given to what it is.
func (w writer) checkGroups(what string) error {
	if len(w.op.GroupNames) > 0 {
		return failure.Refuse(w.op, "the groups %s have no id yet", strings.Join(w.op.GroupNames, ", "))
	}
	if len(w.op.GroupIDs) == 0 {
		return failure.Refuse(w.op, "%s cannot be without a group", what)
	}
	return nil
}

func (w writer) setInterfaceGroups(ctx context.Context) error {
	if err := w.checkGroups("an interface"); err != nil {
		return err
	}
	return w.visible(ctx, "ModifyNetworkInterfaceAttribute", w.op.GroupIDs, func() error {
		_, err := w.api.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: awssdk.String(w.op.Target), Groups: w.op.GroupIDs})
		return err
	})
}

func (w writer) tag(ctx context.Context) error {
	if len(w.op.Tags) == 0 {
		return nil
	}
	if by := w.op.Tags[cloud.TagClaim]; by != "" {
		if err := w.checkClaim(ctx, by); err != nil {
			return err
		}
	}
	return w.eachIfMissing(w.op.Subjects(), func(ids []string) error {
		return w.visible(ctx, "CreateTags", ids, func() error {
			_, err := w.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: values.TagList(w.op.Tags)})
			return err
		})
	})
}

// eachIfMissing does something with all objects in one call. The cloud refuses the whole call if
// one of them is not there; then it is done one by one, with the error of the first one that fails.
func (w writer) eachIfMissing(ids []string, do func([]string) error) error {
	first := do(ids)
	if len(ids) == 1 || cloud.ClassOf(first) != cloud.NotFound {
		return first
	}
	first = nil
	for _, id := range ids {
		if err := do([]string{id}); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// checkClaim looks once more, immediately before the network is claimed, whether somebody else has.
func (w writer) checkClaim(ctx context.Context, by string) error {
	out, err := w.api.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{w.op.Target}})
	if err != nil {
		return w.classify("DescribeVpcs", err)
	}
	for _, vpc := range out.Vpcs {
		for _, tag := range vpc.Tags {
			if other := awssdk.ToString(tag.Value); awssdk.ToString(tag.Key) == cloud.TagClaim && other != by {
				return &cloud.Error{Class: cloud.Conflict, Call: "CreateTags", Err: fmt.Errorf("%s is claimed by the controller %s", w.op.Target, other)}
			}
		}
	}
	return nil
}

// untag removes the keys, whatever their values. Without keys it must not call: the cloud would
// remove all tags.
func (w writer) untag(ctx context.Context) error {
	tags := values.TagList(w.op.Tags)
	if len(tags) == 0 {
		return nil
	}
	for i := range tags {
		tags[i].Value = nil
	}
	err := w.eachIfMissing(w.op.Subjects(), func(ids []string) error {
		_, err := w.api.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: ids, Tags: tags})
		return w.classify("DeleteTags", err)
	})
	if cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	return err
}

// deleteGroup deletes the group. "Not found" is not believed of a group that was created moments
// ago: it would come back.
func (w writer) deleteGroup(ctx context.Context) error {
	err := w.visible(ctx, "DeleteSecurityGroup", []string{w.op.Target}, func() error {
		_, err := w.api.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: awssdk.String(w.op.Target)})
		return err
	})
	if err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return err
	}
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	delete(w.p.fresh, w.op.Target)
	return nil
}
