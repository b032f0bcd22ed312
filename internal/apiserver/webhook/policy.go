package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// storedPolicy is a policy of either kind.
type storedPolicy struct {
	policy policy.Policy
	meta   metav1.ObjectMeta
	spec   v1beta1.NetworkPolicySpec
}

type decodePolicy func([]byte) (storedPolicy, error)

func clusterPolicy(raw []byte) (storedPolicy, error) {
	var o v1beta1.ClusterNetworkPolicy
	if err := json.Unmarshal(raw, &o); err != nil {
		return storedPolicy{}, err
	}
	return storedPolicy{convert.ClusterNetworkPolicy(&o), o.ObjectMeta, o.Spec}, nil
}

func namespacedPolicy(raw []byte) (storedPolicy, error) {
	var o v1beta1.NetworkPolicy
	if err := json.Unmarshal(raw, &o); err != nil {
		return storedPolicy{}, err
	}
	return storedPolicy{convert.NetworkPolicy(&o), o.ObjectMeta, o.Spec}, nil
}

// read decodes the policy that is asked about. It reports false if there is nothing to decide: the
// spec stays as it is, or the object is on its way out.
func (decode decodePolicy) read(q *question) (storedPolicy, bool, error) {
	p, err := decode(q.object)
	if err != nil {
		return p, false, err
	}
	if p.meta.DeletionTimestamp != nil {
		return p, false, nil
	}
	if q.operation == admissionv1.Update {
		old, err := decode(q.old)
		if err == nil && equality.Semantic.DeepEqual(old.spec, p.spec) {
			return p, false, nil
		}
	}
	return p, true, nil
}

// completePolicy fills in the tier and the names of rules, unless the rules refuse the policy. What
// its form is wrong in is refused as the schema would, which comes after this and cannot say it in
// words. What cannot be read is left to the schema.
func completePolicy(decode decodePolicy) func(context.Context, *states, *question) answer {
	return func(ctx context.Context, s *states, q *question) answer {
		given, undecided, err := decode.read(q)
		if err != nil || !undecided {
			return answer{}
		}
		completed := given.policy
		admission.Default(&completed)
		if errs := admission.Schema(&completed); len(errs) > 0 {
			return answer{errs: errs, form: true}
		}
		a := checkPolicy(ctx, s, &completed)
		if len(a.errs) > 0 || a.err != nil {
			return a
		}
		a.patch = completion(&given, &completed)
		return a
	}
}

// validatePolicy checks a policy that the schema accepts, also for what the schema ought to have
// refused.
func validatePolicy(decode decodePolicy) func(context.Context, *states, *question) answer {
	return func(ctx context.Context, s *states, q *question) answer {
		given, undecided, err := decode.read(q)
		if err != nil {
			return unreadable(err)
		}
		stage := decode.stage(q, &given)
		if len(stage.errs) > 0 {
			return stage
		}
		if errs := decode.spread(q, &given); len(errs) > 0 {
			return answer{errs: errs}
		}
		remarks := append(stage.warnings, AnnotationWarnings(given.meta.Annotations)...)
		if !undecided {
			return answer{warnings: remarks}
		}
		admission.Default(&given.policy)
		if errs := admission.Schema(&given.policy); len(errs) > 0 {
			return answer{errs: errs, form: true}
		}
		a := checkPolicy(ctx, s, &given.policy)
		if len(a.errs) == 0 && a.err == nil {
			a.warnings = append(warnings(&given.policy), remarks...)
			a.warnings = append(a.warnings, asides(ctx, s.cached, &given.policy)...)
		}
		return a
	}
}

// checkPolicy applies the rules. The system tiers exist always: they are put back when they are
// missing.
func checkPolicy(ctx context.Context, s *states, p *policy.Policy) answer {
	tiers := map[string]int32{}
	for _, t := range policy.SystemTiers() {
		tiers[t.Name] = t.Priority
	}
	_, system := tiers[p.Tier]
	if system = system || p.Tier == ""; system && (p.Set || !admission.OfClusterSet(p)) {
		return answer{errs: append(admission.ValidatePolicy(p, tiers), admission.Pitfalls(p, p.Set)...)}
	}
	return s.settled(func(state State) ([]policy.FieldError, error) {
		if !system {
			known, err := state.Tiers(ctx)
			if err != nil {
				return nil, err
			}
			for _, t := range known {
				tiers[t.Name] = t.Priority
			}
		}
		errs, set := admission.ValidatePolicy(p, tiers), p.Set
		if !p.Set && admission.OfClusterSet(p) {
			var err error
			if set, err = state.Member(ctx); err != nil {
				return nil, err
			}
			if set {
				errs = append(errs, peers.CheckPeers(p)...)
			}
		}
		return append(errs, admission.Pitfalls(p, set)...), nil
	})
}

// completion is the patch that completes a policy.
func completion(given *storedPolicy, completed *policy.Policy) []operation {
	var out []operation
	add := func(path, value string) { out = append(out, operation{Op: "add", Path: path, Value: value}) }
	if given.spec.Tier == "" && completed.Tier != "" {
		add("/spec/tier", completed.Tier)
	}
	for i, r := range given.spec.Ingress {
		if r.Name == "" {
			add(fmt.Sprintf("/spec/ingress/%d/name", i), completed.Ingress[i].Name)
		}
	}
	for i, r := range given.spec.Egress {
		if r.Name == "" {
			add(fmt.Sprintf("/spec/egress/%d/name", i), completed.Egress[i].Name)
		}
	}
	return out
}

// nodeLogLabel is how much of a logLabel is kept in the log of a Node's own firewall.
const nodeLogLabel = 12

// warnings are what is accepted but will not do what one may expect.
func warnings(p *policy.Policy) []string {
	hasNodes := func(a policy.AppliedTo) bool { return a.NodeSelector != nil }
	var out []string
	each := func(side string, rules []policy.Rule) {
		for i, r := range rules {
			onNodes := slices.ContainsFunc(p.AppliedTo, hasNodes) || slices.ContainsFunc(r.AppliedTo, hasNodes)
			if r.EnableLogging && onNodes && len(r.LogLabel) > nodeLogLabel {
				out = append(out, fmt.Sprintf("spec.%s[%d].logLabel: %q is cut to its first %d characters on Nodes",
					strings.ToLower(side), i, r.LogLabel, nodeLogLabel))
			}
		}
	}
	each("ingress", p.Ingress)
	each("egress", p.Egress)
	for _, w := range admission.Warnings(p) {
		out = append(out, w.Error())
	}
	return out
}
