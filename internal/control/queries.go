package control

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// query has the loop ask the engine something between two rounds. The question runs on the loop and
// must be short: it takes references out of the engine, and the caller does the rest with them.
// Before the first round it fails with watchstore.ErrNotReady. A question that panics fails, and
// stops no other one.
func (c *Controller) query(ctx context.Context, ask func(*compute.Engine)) error {
	select {
	case <-c.computed:
	default:
		return watchstore.ErrNotReady
	}
	done := make(chan error, 1)
	select {
	case c.questions <- func(e *compute.Engine) {
		done <- recovered.Do(func() { ask(e) })
	}:
		err := <-done
		if err != nil {
			c.Options.Logger.Error(err, "A question to the policy engine panicked", "stack", recovered.StackOf(err))
		}
		return err
	case <-c.ended:
		return watchstore.ErrNotReady
	case <-ctx.Done():
		return fmt.Errorf("ask the policy engine: %w", ctx.Err())
	}
}

// GroupMembers returns one page of the members of a Group, or without namespace of a ClusterGroup,
// sorted by reference. Without a limit the page has all of them. The counts are of the whole group.
// It returns nil if there is no such group; an invalid group is empty.
func (c *Controller) GroupMembers(
	ctx context.Context, name types.NamespacedName, page v1beta2.PaginationGetOptions, seen func(namespace string) bool,
) (*v1beta2.GroupMembers, error) {
	var content compute.GroupContent
	var known bool
	if err := c.query(ctx, func(e *compute.Engine) { content, known = e.GroupContent(policy.NamespacedName(name)) }); err != nil || !known {
		return nil, err
	}
	visible := map[string]bool{}
	content.Members = slices.DeleteFunc(slices.Clone(content.Members), func(m *policy.Member) bool {
		may, asked := visible[m.Namespace]
		if !asked {
			may = seen(m.Namespace)
			visible[m.Namespace] = may
		}
		return !may
	})
	slices.SortFunc(content.Members, func(a, b *policy.Member) int { return compareEntities(a.EntityRef, b.EntityRef) })
	out := &v1beta2.GroupMembers{TotalMembers: int64(len(content.Members))}
	out.Namespace, out.Name = name.Namespace, name.Name
	for _, b := range content.Blocks {
		out.EffectiveIPBlocks = append(out.EffectiveIPBlocks, convert.Effective(b)...)
	}
	chosen := content.Members
	if out.TotalMembers > 0 {
		out.TotalPages, out.CurrentPage = 1, 1
	}
	if page.Limit > 0 && out.TotalMembers > 0 {
		out.TotalPages, out.CurrentPage = (out.TotalMembers-1)/page.Limit+1, page.Page
		switch {
		case page.Page > out.TotalPages:
			chosen = nil
		case page.Page > 0:
			chosen = chosen[(page.Page-1)*page.Limit:]
			chosen = chosen[:min(int64(len(chosen)), page.Limit)]
		}
	}
	for _, m := range chosen {
		out.EffectiveMembers = append(out.EffectiveMembers, convert.GroupMember(policy.AddressGroup, m))
	}
	return out, nil
}

// GroupsOf returns the groups that a Pod is in, or if there is no such Pod, the ExternalEntity of
// that name; false if there is neither. They are sorted by namespace and name, ClusterGroups first.
func (c *Controller) GroupsOf(ctx context.Context, name types.NamespacedName) (groups []v1beta2.GroupReference, known bool, err error) {
	err = c.query(ctx, func(e *compute.Engine) {
		for _, k := range []policy.EntityKind{policy.KindPod, policy.KindExternalEntity} {
			var refs []compute.GroupRef
			if refs, known = e.GroupsOf(policy.EntityRef{Kind: k, Namespace: name.Namespace, Name: name.Name}); known {
				groups = groupReferences(refs)
				return
			}
		}
	})
	return groups, known, err
}

// GroupsOfAddress returns the groups that an address is in: by the Pods, ExternalEntities and Nodes
// that have it, and by ipBlocks. They are sorted by namespace and name, ClusterGroups first.
func (c *Controller) GroupsOfAddress(ctx context.Context, a netip.Addr) ([]v1beta2.GroupReference, error) {
	holders := c.directory.at(a)
	var found []compute.GroupRef
	var withBlocks []compute.BlockGroup
	err := c.query(ctx, func(e *compute.Engine) {
		for _, ref := range holders {
			refs, _ := e.GroupsOf(ref)
			found = append(found, refs...)
		}
		withBlocks = e.BlockGroups()
	})
	if err != nil {
		return nil, err
	}
	for _, g := range withBlocks {
		if g.Contains(a.Unmap().WithZone("")) {
			found = append(found, g.GroupRef)
		}
	}
	slices.SortFunc(found, func(a, b compute.GroupRef) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return groupReferences(slices.Compact(found)), nil
}

// Computed returns how many policies and groups are computed.
func (c *Controller) Computed(ctx context.Context) (policies, addressGroups, appliedToGroups int, err error) {
	err = c.query(ctx, func(e *compute.Engine) { policies, addressGroups, appliedToGroups = e.Size() })
	return policies, addressGroups, appliedToGroups, err
}

func groupReferences(in []compute.GroupRef) []v1beta2.GroupReference {
	out := make([]v1beta2.GroupReference, len(in))
	for i, g := range in {
		out[i] = v1beta2.GroupReference{Namespace: g.Namespace, Name: g.Name, UID: types.UID(g.UID)}
	}
	return out
}

// Endpoint returns which policies apply to a Pod, and which rules have it in a peer that selects;
// nil if there is no such Pod. Rules that match its address by an ipBlock only are not listed. A
// Pod that is in no group, because it shares the addresses of its Node or has ended, has none.
func (c *Controller) Endpoint(ctx context.Context, name types.NamespacedName) (*v1beta2.Endpoint, error) {
	ref := policy.EntityRef{Kind: policy.KindPod, Namespace: name.Namespace, Name: name.Name}
	var part *policy.Listing
	var known bool
	if err := c.query(ctx, func(e *compute.Engine) {
		if _, known = e.Entity(ref); known {
			part = e.Naming(ref)
		}
	}); err != nil || !known {
		return nil, err
	}
	out := &v1beta2.Endpoint{Namespace: name.Namespace, Name: name.Name}
	applied, peers := groupNames(part.AppliedToGroups), groupNames(part.AddressGroups)
	for _, p := range part.Policies {
		source := policyReference(p.Source)
		applies := anyIn(p.AppliedToGroups, applied)
		for i := range p.Rules {
			r := &p.Rules[i]
			applies = applies || anyIn(r.AppliedToGroups, applied)
			rule := v1beta2.EndpointRule{PolicyRef: source, Direction: v1beta2.Direction(r.Direction), RuleIndex: int(ruleIndex(p.ComputedPolicy, i))}
			switch {
			case !anyIn(r.AddressGroups, peers):
			case r.Direction == policy.Ingress:
				out.IngressSrcRules = appendOnce(out.IngressSrcRules, rule)
			default:
				out.EgressDstRules = appendOnce(out.EgressDstRules, rule)
			}
		}
		if applies {
			out.AppliedPolicies = append(out.AppliedPolicies, source)
		}
	}
	return out, nil
}

// appendOnce leaves out the copies of a rule, which stand together.
func appendOnce(rules []v1beta2.EndpointRule, r v1beta2.EndpointRule) []v1beta2.EndpointRule {
	if n := len(rules); n > 0 && rules[n-1] == r {
		return rules
	}
	return append(rules, r)
}

func groupNames(groups []policy.ComputedGroup) map[string]bool {
	out := make(map[string]bool, len(groups))
	for _, g := range groups {
		out[g.Name] = true
	}
	return out
}

func anyIn(names []string, set map[string]bool) bool {
	return slices.ContainsFunc(names, func(n string) bool { return set[n] })
}

// ruleIndex is the place of a rule among the rules of its direction as the author wrote them.
func ruleIndex(p *policy.ComputedPolicy, at int) int32 {
	if p.TierPriority != nil {
		return p.Rules[at].Priority
	}
	var n int32
	for i := range at {
		if p.Rules[i].Direction == p.Rules[at].Direction {
			n++
		}
	}
	return n
}

func policyReference(p policy.PolicyRef) v1beta2.NetworkPolicyReference {
	return v1beta2.NetworkPolicyReference{Type: v1beta2.NetworkPolicyType(p.Kind), Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID)}
}

func compareEntities(a, b policy.EntityRef) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
