package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/lower"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

// The cloud's names of the calls that groups need.
const (
	callReadNSG, callNSG, callDeleteNSG = "Microsoft.Network/networkSecurityGroups/read", "Microsoft.Network/networkSecurityGroups/write", "Microsoft.Network/networkSecurityGroups/delete"
	callReadASG, callASG, callDeleteASG = "Microsoft.Network/applicationSecurityGroups/read", "Microsoft.Network/applicationSecurityGroups/write", "Microsoft.Network/applicationSecurityGroups/delete"
)

// refuse is the error about an op that is wrong in itself.
func refuse(op cloud.Op, format string, args ...any) error {
	return &cloud.Error{Class: cloud.Terminal, Call: string(op.Kind), Err: fmt.Errorf(format, args...)}
}

// Apply implements cloud.Provider. The rules of a group are written as one, so that there is no
// state between two of them.
func (a *Account) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	if op.Target == "" && op.Kind != cloud.OpCreateGroup {
		return "", refuse(op, "the op has no target: the group %q has no id yet", op.Group.Name)
	}
	ctx = withOp(ctx, s, op)
	id := op.Target
	var err error
	switch op.Kind {
	case cloud.OpCreateGroup:
		id, err = a.createGroup(ctx, s, op)
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules, cloud.OpSetRules:
		err = a.editRules(ctx, op)
	case cloud.OpSetInterfaceGroups:
		err = a.setInterfaceGroups(ctx, op)
	case cloud.OpTag:
		err = a.Tag(ctx, op.Subjects(), op.Tags)
	case cloud.OpUntag:
		err = a.Untag(ctx, op.Subjects(), slices.Sorted(maps.Keys(op.Tags)))
	case cloud.OpDeleteGroup:
		err = a.deleteGroup(ctx, op)
	default:
		err = refuse(op, "%q is not a kind of op", op.Kind)
	}
	if err != nil {
		return "", err
	}
	return id, nil
}

// ours is the place of a group that has a name like ours, of the subscription. Nothing else is
// changed or deleted.
func (a *Account) ours(op cloud.Op, id string) (resources.Place, error) {
	at, ok := resources.ParsePlace(id)
	if !ok || !a.owns(id) || resources.IdentityOf(id) == "" && resources.RulesOf(id) == "" {
		return resources.Place{}, refuse(op, "%s is no group of ours", cloud.Words(id))
	}
	return at, nil
}

// createGroup makes the application security group first: a network security group without it is
// half a pair, too, but says nothing to anybody.
func (a *Account) createGroup(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	network, ok := resources.ParsePlace(op.Group.NetworkID)
	name := resources.NameIn(op.Group.NetworkID, op.Group.Name)
	if !ok || !a.owns(op.Group.NetworkID) || network.Kind != resources.TypeVNet || !strings.HasPrefix(name, cloud.NamePrefix) {
		return "", refuse(op, "%q is not a name for a group of ours, or %q is no network of the subscription", cloud.Words(op.Group.Name), cloud.Words(op.Group.NetworkID))
	}
	scope := strings.ToLower("/subscriptions/" + a.cfg.Credential.SubscriptionID + "/resourceGroups/" + network.Group)
	id := scope + resources.NSGPart + name
	end, err := a.turns.take(ctx, id)
	if err != nil {
		return "", classify(callNSG, err, a.cfg.Now())
	}
	defer end()
	at := resources.Place{Group: network.Group, Kind: resources.TypeNSG, Name: name}
	tags := tagsOf(op.Group)
	// Both are looked at before one is made: beside somebody else's there is none of ours.
	asgs, nsgs := a.network.asgs, a.network.nsgs
	asg, err := asgs.Get(ctx, at.Group, name, nil)
	asgErr := found(err, asg.Tags, op, callReadASG, a.cfg.Now())
	nsg, err := nsgs.Get(ctx, at.Group, name, nil)
	nsgErr := found(err, nsg.Tags, op, callReadNSG, a.cfg.Now())
	for _, err := range []error{asgErr, nsgErr} {
		if err != nil && cloud.ClassOf(err) != cloud.NotFound {
			return "", err
		}
	}
	err = nil
	if asgErr != nil {
		var p *runtime.Poller[armnetwork.ApplicationSecurityGroupsClientCreateOrUpdateResponse]
		p, err = asgs.BeginCreateOrUpdate(asNew(ctx), at.Group, name, armnetwork.ApplicationSecurityGroup{Location: to.Ptr(regionName(s.Region)), Tags: tags}, nil)
		err = ended(ctx, a, callASG, p, err)
	}
	if err != nil {
		return "", err
	}
	if nsgErr != nil {
		var body armnetwork.SecurityGroup
		if body, err = document(nil); err != nil {
			return "", err
		}
		body.Location, body.Tags = to.Ptr(regionName(s.Region)), tags
		var p *runtime.Poller[armnetwork.SecurityGroupsClientCreateOrUpdateResponse]
		p, err = nsgs.BeginCreateOrUpdate(asNew(ctx), at.Group, name, body, nil)
		err = ended(ctx, a, callNSG, p, err)
	}
	if err != nil {
		return "", err
	}
	return id, nil
}

// found is nil for a group that is there and ours, and a Conflict for one that is somebody else's.
func found(err error, have map[string]*string, op cloud.Op, call string, now time.Time) error {
	if err != nil {
		return classify(call, err, now)
	}
	tags := resources.PortTags(have)
	for _, k := range []string{cloud.TagCluster, cloud.TagAccount, cloud.TagClass} {
		if tags[k] != op.Group.Tags[k] {
			return &cloud.Error{
				Class: cloud.Conflict,
				Call:  call,
				Err:   fmt.Errorf("there is a group %q that is not ours: its tag %s is %q", op.Group.Name, k, cloud.Words(tags[k])),
			}
		}
	}
	return nil
}

// asNew makes a PUT one that replaces nothing.
func asNew(ctx context.Context) context.Context {
	return policy.WithHTTPHeader(ctx, http.Header{"If-None-Match": []string{"*"}})
}

func tagsOf(g cloud.GroupSpec) map[string]*string {
	out := map[string]*string{}
	for k, v := range g.Tags {
		out[resources.TagName(k)] = to.Ptr(v)
	}
	if g.Description != "" {
		out[resources.TagName(resources.TagDescription)] = to.Ptr(cloud.Words(g.Description))
	}
	return out
}

func regionName(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "")) }

// ended waits for the end of an operation that was accepted.
func ended[T any](ctx context.Context, a *Account, call string, p *runtime.Poller[T], err error) error {
	if err == nil {
		_, err = p.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: max(a.cfg.PollEvery, time.Second)})
	}
	return classify(call, err, a.cfg.Now())
}

// document is a network security group with these rules, in the SDK's words.
func document(rules []cloud.Rule) (armnetwork.SecurityGroup, error) {
	out := armnetwork.SecurityGroup{Properties: &armnetwork.SecurityGroupPropertiesFormat{}}
	all, err := lower.Encode(rules, resources.IdentityOf)
	if err != nil {
		return out, err
	}
	raw, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(raw, &out.Properties.SecurityRules)
	}
	return out, err
}

// editRules changes the rules of a group of ours: it reads them, and writes all of them as they are
// to be, on condition that they have not changed since. If they have, it starts again, a few times.
func (a *Account) editRules(ctx context.Context, op cloud.Op) error {
	at, err := a.ours(op, op.Target)
	if err != nil {
		return err
	}
	if at.Kind != resources.TypeNSG {
		return refuse(op, "%s is half a group", cloud.Words(op.Target))
	}
	if err := checkRules(op); err != nil {
		return err
	}
	end, err := a.turns.take(ctx, strings.ToLower(op.Target))
	if err != nil {
		return classify(callNSG, err, a.cfg.Now())
	}
	defer end()
	for attempt := 1; ; attempt++ {
		err := a.writeRules(ctx, op, at)
		var e *cloud.Error
		switch {
		case op.Kind == cloud.OpRemoveRules && cloud.ClassOf(err) == cloud.NotFound && err != nil:
			return nil // they are gone with the group
		case !errors.As(err, &e) || e.Code != "PreconditionFailed" || attempt == 3:
			return err
		}
	}
}

func (a *Account) writeRules(ctx context.Context, op cloud.Op, at resources.Place) error {
	client := a.network.nsgs
	now, err := client.Get(ctx, at.Group, at.Name, nil)
	if err != nil {
		return classify(callReadNSG, err, a.cfg.Now())
	}
	if now.Etag == nil || *now.Etag == "" {
		return &cloud.Error{Class: cloud.Unavailable, Call: callReadNSG, Err: errors.New("the cloud has told no etag of the group")}
	}
	have, err := documentsOf(now.SecurityGroup)
	if err != nil {
		return err
	}
	before, exact := lower.Decode(have, resources.RulesOf)
	after, err := edited(before, op)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(after, lower.Foreign) {
		// A rule that was not to be removed yet goes with the others: all of them are written, and
		// it is none of ours.
		after = slices.DeleteFunc(after, lower.Foreign)
	} else if exact && sameAll(before, after) {
		return nil
	}
	next, err := document(after)
	if err != nil {
		return refuse(op, "%w", err)
	}
	next.Location, next.Tags, next.Properties.FlushConnection = now.Location, now.Tags, now.Properties.FlushConnection
	conditional := policy.WithHTTPHeader(ctx, http.Header{"If-Match": []string{*now.Etag}})
	p, err := client.BeginCreateOrUpdate(conditional, at.Group, at.Name, next, nil)
	return ended(ctx, a, callNSG, p, err)
}

func sameAll(a, b []cloud.Rule) bool {
	return slices.EqualFunc(a, b, func(x, y cloud.Rule) bool {
		return x.Same(y) && lower.Description(x.Description) == lower.Description(y.Description)
	})
}

// edited are the rules of a group after the op, sorted.
func edited(have []cloud.Rule, op cloud.Op) ([]cloud.Rule, error) {
	out := slices.Clone(have)
	at := func(r cloud.Rule) int { return slices.IndexFunc(out, plain(r).Same) }
	for i, r := range op.Rules {
		k := at(r)
		switch op.Kind {
		case cloud.OpAddRules:
			if k < 0 {
				out = append(out, plain(r))
			}
		case cloud.OpRemoveRules:
			if k >= 0 {
				out = slices.Delete(out, k, k+1)
			}
		case cloud.OpReplaceRules:
			old := at(op.Replaced[i])
			switch {
			case old >= 0 && (k < 0 || k == old):
				out[old] = plain(r)
			case old >= 0:
				out = slices.Delete(out, old, old+1)
			case k < 0:
				return nil, &cloud.Error{Class: cloud.Conflict, Call: callNSG, Err: fmt.Errorf("neither %s nor %s is in the group", op.Replaced[i], r)}
			}
		}
	}
	if op.Kind == cloud.OpSetRules {
		out = nil
		for _, r := range op.Rules {
			out = append(out, plain(r))
		}
	}
	slices.SortFunc(out, cloud.Rule.Compare)
	return slices.CompactFunc(out, cloud.Rule.Same), nil
}

// plain is a rule as it is read back: the owner of a group of the account is left out.
func plain(r cloud.Rule) cloud.Rule {
	r.ID, r.Peer.GroupOwner = "", ""
	return r
}

// checkRules refuses rules that are wrong in themselves, before anything is called.
func checkRules(op cloud.Op) error {
	wanted := op.Rules
	if op.Kind == cloud.OpRemoveRules {
		return nil // what cannot be written cannot be there
	}
	if _, err := lower.Encode(wanted, resources.IdentityOf); err != nil {
		return refuse(op, "%w", err)
	}
	if op.Kind != cloud.OpReplaceRules {
		return nil
	}
	if len(op.Replaced) != len(wanted) {
		return refuse(op, "%d rules become %d", len(op.Replaced), len(wanted))
	}
	for i, r := range wanted {
		old := op.Replaced[i]
		if !old.CanBecome(r) {
			return refuse(op, "%s cannot become %s", old, r)
		}
		if k := slices.IndexFunc(op.Replaced, r.Same); k >= 0 && k != i {
			return refuse(op, "%s is in both lists", r)
		}
	}
	return nil
}

// deleteGroup deletes the application security group first: all that holds or names the pair does
// so by it, so what is in use is refused before anything has changed.
func (a *Account) deleteGroup(ctx context.Context, op cloud.Op) error {
	at, err := a.ours(op, op.Target)
	if err != nil {
		return err
	}
	// The turn is at the pair, whichever half of it is shown.
	end, err := a.turns.take(ctx, cmp.Or(resources.RulesOf(op.Target), strings.ToLower(op.Target)))
	if err != nil {
		return classify(callDeleteNSG, err, a.cfg.Now())
	}
	defer end()
	if at.Kind == resources.TypeASG {
		// Half a pair. If it has become a whole one, it is not the one that was meant.
		_, err := a.network.nsgs.Get(ctx, at.Group, at.Name, nil)
		if err = classify(callReadNSG, err, a.cfg.Now()); cloud.ClassOf(err) != cloud.NotFound || err == nil {
			return err
		}
	}
	if at.Kind == resources.TypeNSG {
		if err := a.unused(ctx, at, op); err != nil {
			return err
		}
	}
	asg, err := a.network.asgs.BeginDelete(ctx, at.Group, at.Name, nil)
	if err := ended(ctx, a, callDeleteASG, asg, err); err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return err
	}
	if at.Kind == resources.TypeASG {
		return nil
	}
	nsg, err := a.network.nsgs.BeginDelete(ctx, at.Group, at.Name, nil)
	if err := ended(ctx, a, callDeleteNSG, nsg, err); err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return err
	}
	return nil
}

// unused refuses to delete a group that interfaces or subnets have, and takes its own name out of
// its rules, which would keep it alive.
func (a *Account) unused(ctx context.Context, at resources.Place, op cloud.Op) error {
	now, err := a.network.nsgs.Get(ctx, at.Group, at.Name, nil)
	if err := classify(callReadNSG, err, a.cfg.Now()); err != nil {
		if cloud.ClassOf(err) == cloud.NotFound {
			return nil
		}
		return err
	}
	if p := now.Properties; p != nil && len(p.NetworkInterfaces)+len(p.Subnets) > 0 {
		return &cloud.Error{
			Class: cloud.Conflict,
			Call:  callDeleteNSG,
			Err:   fmt.Errorf("%s is held by %d interfaces and %d subnets", op.Target, len(p.NetworkInterfaces), len(p.Subnets)),
		}
	}
	have, err := documentsOf(now.SecurityGroup)
	if err != nil {
		return err
	}
	rules, _ := lower.Decode(have, resources.RulesOf)
	rules = slices.DeleteFunc(rules, func(r cloud.Rule) bool { return r.Peer.GroupID != strings.ToLower(op.Target) })
	if len(rules) == 0 {
		return nil
	}
	return a.writeRules(ctx, cloud.Op{Kind: cloud.OpRemoveRules, Target: op.Target, Rules: rules}, at)
}

// documentsOf are the rules of a group as it was read.
func documentsOf(g armnetwork.SecurityGroup) ([]lower.Document, error) {
	var out []lower.Document
	if g.Properties == nil {
		return nil, &cloud.Error{Class: cloud.Unavailable, Call: callReadNSG, Err: errors.New("the cloud has told no rules of the group")}
	}
	raw, err := json.Marshal(g.Properties.SecurityRules)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return nil, &cloud.Error{Class: cloud.Unavailable, Call: callReadNSG, Err: err}
	}
	return out, nil
}
