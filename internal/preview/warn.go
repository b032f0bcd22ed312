package preview

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// warnings are about what looks like a mistake: selectors of accounts that do not exist, or of no
// VM, what an account does not grant, and policies that select no one.
func (p *Planner) warnings(made plans) []Warning {
	out := slices.Clone(p.In.Warnings)
	narrow := p.In.narrow()
	for _, s := range p.In.Objects.Selectors {
		if narrow {
			break // what is to be said of them is so whatever the policies are
		}
		name := "CloudEntitySelector " + cloud.AccountKey(s.Namespace, s.Name)
		for _, w := range p.selectorWarnings(s, made) {
			out = append(out, Warning{w.Reason, name + ": " + w.Message})
		}
	}
	for _, a := range made.Accounts {
		if narrow {
			break
		}
		for _, r := range a.Preview.Remarks {
			out = append(out, Warning{warnNotGranted, r})
		}
		for _, u := range a.Preview.Unimported {
			out = append(out, Warning{warnNameTaken, u})
		}
	}
	if len(made.failed) > 0 {
		return out // what a policy selects may be unknown
	}
	out = append(out, withDetails(p.In.Mistakes(), made.computed.selectingNobody(func(ref plan.PolicyRef) bool { return !narrow || p.In.given(ref) }))...)
	return append(append(out, p.shadowed(made)...), p.cut(made)...)
}

func (p *Planner) selectorWarnings(s *cloudv1alpha1.CloudEntitySelector, made plans) []Warning {
	key := cloud.AccountKey(s.Spec.AccountNamespace, s.Spec.AccountName)
	exists := func(a *cloudv1alpha1.CloudProviderAccount) bool { return cloud.AccountKey(a.Namespace, a.Name) == key }
	if slices.ContainsFunc(p.Neighbours, exists) {
		return nil // nothing is planned there
	}
	if !slices.ContainsFunc(p.In.Objects.Accounts, exists) {
		var names []string
		for _, a := range p.In.Objects.Accounts {
			names = append(names, cloud.AccountKey(a.Namespace, a.Name))
		}
		return []Warning{{warnNoSuchAccount, fmt.Sprintf("there is no CloudProviderAccount %s, so it selects nothing; there is %s", key, cloud.Listed(names, false))}}
	}
	i := slices.IndexFunc(made.Accounts, func(a plannedAccount) bool { return a.Key == key })
	if i < 0 || len(made.Accounts[i].Missing) > 0 || !made.Accounts[i].Preview.Selecting[s.Namespace] {
		return nil // not all of the account could be read
	}
	var snapshots []*cloud.Snapshot
	for _, r := range made.Accounts[i].Regions {
		snapshots = append(snapshots, r.Snapshot)
	}
	var out []Warning
	for _, wrong := range selection.Unmatched(s, snapshots) {
		out = append(out, Warning{warnSelectsNoVM, wrong + " (account " + key + ")"})
	}
	return out
}

// selectingNobody names the Antrea policies that apply to no VM and no Pod. Policies of other kinds
// select Pods only.
func (v View) selectingNobody(asked func(plan.PolicyRef) bool) (out []string) {
	members := map[string]int{}
	for _, g := range v.AppliedToGroups {
		members[g.Name] = len(g.GroupMembers)
	}
	for _, p := range v.Policies {
		if p.SourceRef == nil || p.SourceRef.Type != v1beta2.AntreaNetworkPolicy && p.SourceRef.Type != v1beta2.AntreaClusterNetworkPolicy {
			continue
		}
		groups := slices.Clone(p.AppliedToGroups)
		for i := range p.Rules {
			groups = append(groups, p.Rules[i].AppliedToGroups...)
		}
		if !slices.ContainsFunc(groups, func(g string) bool { return members[g] > 0 }) {
			ref := plan.PolicyRef{Kind: p.SourceRef.Type, Namespace: p.SourceRef.Namespace, Name: p.SourceRef.Name}
			if asked(ref) {
				out = append(out, ref.String()+": it selects nobody: no VM and no Pod is in its appliedTo")
			}
		}
	}
	slices.Sort(out)
	return out
}

// invented reports whether one of the objects that the names of groups are made from has not been
// stored anywhere yet: its identity will be another one.
func (in *Inputs) invented() bool {
	return anyInvented(in.Objects.Policies, "NetworkPolicy") || anyInvented(in.Objects.ClusterPolicies, "ClusterNetworkPolicy") ||
		anyInvented(in.Objects.Groups, "Group") || anyInvented(in.Objects.ClusterGroups, "ClusterGroup")
}

func anyInvented[T client.Object](objects []T, kind string) bool {
	return slices.ContainsFunc(objects, func(o T) bool { return o.GetUID() == OfflineUID(v1beta1.GroupName, kind, o) })
}
