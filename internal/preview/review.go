package preview

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/review"
)

// How much of each list of an answer a review tells. What is left out is counted.
const (
	mostSteps         = 5000
	mostChanges       = 2000
	mostRemarks       = 1000
	mostAgentPolicies = 100
)

// Before is what there is before anything is changed.
type Before struct {
	Computed *explain.Computation
	// World is that of the computation.
	World func() *explain.World
	// Budget is what the maps may cost.
	Budget *work.Budget
	// Traffic returns what was seen of connections since a time, and how much of it is left out.
	Traffic func(since metav1.MicroTime) (seen []analysis.SeenFlow, more int64, err error)
}

// effects says what would become of traffic that was seen; nil if no one asks.
func (b Before) effects(ctx context.Context, after *explain.Computation, spec analysis.PlanReviewSpec) (*analysis.FlowEffects, error) {
	if spec.FlowsSince == nil {
		return nil, nil
	}
	seen, more, err := b.Traffic(*spec.FlowsSince)
	if err != nil {
		return nil, err
	}
	out, err := review.Effects(ctx.Err, b.Computed, after, seen)
	if out != nil {
		out.Since, out.Unseen = *spec.FlowsSince, more
	}
	return out, err
}

// Review answers a PlanReview of a caller who may see everything, without the inputs of the answer.
// The planner's inputs are the inputs of before, as they are now.
func (p *Planner) Review(ctx context.Context, before Before, with *Proposal, spec analysis.PlanReviewSpec) (analysis.PlanReviewStatus, error) {
	if errs := p.In.apply(with); len(errs) > 0 {
		return told(errs), nil
	}
	p.In.Objects.WithStaged = spec.Staged
	if spec.Account != "" {
		if err := p.only(spec.Account); err != nil {
			return analysis.PlanReviewStatus{}, err
		}
	}
	made, err := p.Plan(ctx)
	if err != nil {
		return analysis.PlanReviewStatus{}, err
	}
	answer := p.Answer(made)
	for i := range answer.Accounts {
		bound(&answer.Accounts[i])
	}
	out := told(nil)
	out.PlanAnswer = answer
	out.Notes = some(p.In.Notes, mostRemarks)
	if out.Flows, err = before.effects(ctx, made.computation.Computed, spec); err != nil {
		return out, err
	}
	if !spec.Map || ctx.Err() != nil {
		return out, ctx.Err()
	}
	out.Map = review.Map(before.World().Within(before.Budget), made.computation.Computed.World(false).Within(before.Budget), review.MapQuestion{})
	return out, nil
}

// only leaves one account to plan for.
func (p *Planner) only(account string) error {
	all := p.In.Objects.Accounts
	p.In.Objects.Accounts = nil
	for _, a := range all {
		if cloud.AccountKey(a.Namespace, a.Name) == account {
			p.In.Objects.Accounts = append(p.In.Objects.Accounts, a)
		} else {
			p.Neighbours = append(p.Neighbours, a)
		}
	}
	if len(p.In.Objects.Accounts) == 0 {
		return &review.WrongError{Field: "account", Text: fmt.Sprintf(" %q: there is no such CloudProviderAccount", account)}
	}
	return nil
}

// Limited answers a PlanReview of a caller who may not see everything: the changes between
// endpoints that the caller may see, and likely mistakes in the manifests. It shows nothing of
// clouds, because quotas, refusals and operations reveal machines and policies of others, and what
// a selector selects there.
func Limited(ctx context.Context, before Before, view redact.View, with *Proposal, spec analysis.PlanReviewSpec) (analysis.PlanReviewStatus, error) {
	in := &Inputs{Objects: *before.Computed.Objects}
	notes := with.over.Notes
	in.apply(with) // whether there was something to delete is not told
	in.Objects.WithStaged = spec.Staged
	out := told(nil)
	out.Limited = true
	seen := &Inputs{Documents: in.Documents}
	for _, e := range in.Objects.Entities {
		if view.Namespace(e.Namespace) {
			seen.Objects.Entities = append(seen.Objects.Entities, e)
		}
	}
	for _, g := range in.Objects.Groups {
		if view.Namespace(g.Namespace) {
			seen.Objects.Groups = append(seen.Objects.Groups, g)
		}
	}
	if view.Cluster {
		seen.Objects.ClusterGroups = in.Objects.ClusterGroups
	}
	seen.Objects.Policies, seen.Objects.ClusterPolicies = with.over.Objects.Policies, with.over.Objects.ClusterPolicies
	if len(in.Documents) > 0 {
		for _, w := range seen.Mistakes() {
			out.Warnings, out.WarningReasons = append(out.Warnings, w.Message), append(out.WarningReasons, string(w.Reason))
		}
	}
	out.Notes = some(notes, mostRemarks)
	if !spec.Map && spec.FlowsSince == nil {
		return out, nil
	}
	after := explain.Compute(&in.Objects).For(view)
	var err error
	if out.Flows, err = before.effects(ctx, after, spec); err != nil {
		return out, err
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	if spec.Map {
		out.Map = review.Map(before.World().Within(before.Budget), after.World(false).Within(before.Budget), review.MapQuestion{})
	}
	return out, nil
}

// told is an answer in which every list is there, with these errors.
func told(errs []analysis.ManifestError) analysis.PlanReviewStatus {
	return analysis.PlanReviewStatus{Errors: errs, PlanAnswer: analysis.PlanAnswer{
		Accounts: []analysis.AccountPlan{}, Warnings: []string{}, WarningReasons: []string{},
	}}
}

// Refused is the answer about manifests that are wrong.
func Refused(errs []analysis.ManifestError) analysis.PlanReviewStatus { return told(errs) }

// bound cuts lists that are too long, and says by how much.
func bound(a *analysis.AccountPlan) {
	more := map[string]int32{}
	cut(more, "plan.steps", &a.Plan.Steps, mostSteps)
	for i := range a.Further {
		cut(more, fmt.Sprintf("further[%d].steps", i), &a.Further[i].Steps, mostSteps)
	}
	if a.Wave != nil {
		cut(more, "wave.plan.steps", &a.Wave.Plan.Steps, mostSteps)
	}
	cut(more, "reachability", &a.Reachability, mostChanges)
	cut(more, "reachabilityTold", &a.ReachabilityTold, mostChanges)
	cut(more, "policies", &a.Policies, mostChanges)
	cut(more, "agents", &a.Agents, mostRemarks)
	a.Agents = slices.Clone(a.Agents)
	for i := range a.Agents {
		if n := len(a.Agents[i].Policies) - mostAgentPolicies; n > 0 {
			a.Agents[i].Policies, more["agents.policies"] = a.Agents[i].Policies[:mostAgentPolicies], more["agents.policies"]+int32(n)
		}
	}
	cut(more, "refusals", &a.Refusals, mostChanges)
	cut(more, "quotas", &a.Quotas, mostRemarks)
	cut(more, "warnings", &a.Warnings, mostRemarks)
	cut(more, "drift", &a.Drift, mostRemarks)
	cut(more, "cuts", &a.Cuts, mostRemarks)
	cut(more, "notes", &a.Notes, mostRemarks)
	if len(more) > 0 {
		a.More = more
	}
}

func cut[T any](more map[string]int32, name string, list *[]T, most int) {
	if n := len(*list) - most; n > 0 {
		*list, more[name] = (*list)[:most], int32(n)
	}
}

func some[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// WithQuotas are the limits of a region with those that an account states for itself.
func WithQuotas(l cloud.Limits, a *cloudv1alpha1.CloudProviderAccount) cloud.Limits {
	if a.Spec.AWSConfig == nil || a.Spec.AWSConfig.Quotas == nil {
		return l
	}
	q := a.Spec.AWSConfig.Quotas
	for _, f := range []struct {
		value  *int
		stated int32
	}{{&l.RulesPerGroup, q.RulesPerGroup}, {&l.GroupsPerInterface, q.GroupsPerInterface}, {&l.GroupsPerRegion, q.GroupsPerRegion}} {
		if f.stated > 0 {
			*f.value = int(f.stated)
		}
	}
	return l
}
