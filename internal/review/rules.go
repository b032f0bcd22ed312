package review

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
)

// Rules answers an EffectiveRules, but for what it was made from. An error about the question is a
// WrongError.
func Rules(w *explain.World, spec v1alpha1.EffectiveRulesSpec) (v1alpha1.EffectiveRulesStatus, error) {
	var out v1alpha1.EffectiveRulesStatus
	if err := short(map[string]string{"of": spec.Of}); err != nil {
		return out, err
	}
	if spec.Of == "" {
		out.Rules = Uses(w, spec.Unused && spec.Since == nil)
		return out, nil
	}
	if spec.Unused {
		return out, wrong("unused", " is about all rules: leave out spec.of")
	}
	if spec.Since != nil {
		return out, wrong("since", " is about all rules: leave out spec.of")
	}
	p, err := w.Party("of", spec.Of)
	if err != nil {
		return out, aboutField(err)
	}
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		if p.Chosen == nil || !p.Chosen(e) || e.Public {
			continue // the public addresses of a machine are treated as the others
		}
		holds := w.Effective(e)
		out.Endpoints = append(out.Endpoints, v1alpha1.EffectiveEndpoint{
			Name: e.Name, Interface: e.Interface, Ingress: effectiveOf(w, holds.Ingress), Egress: effectiveOf(w, holds.Egress),
		})
	}
	return out, nil
}

// Uses says what rules are good for; with unused, only of those that decide nothing.
func Uses(w *explain.World, unused bool) []v1alpha1.RuleUse {
	rows := []v1alpha1.RuleUse{}
	for _, u := range w.RuleUses() {
		if unused && !u.Use.Useless() || !w.Sees(u.RuleRef) {
			continue
		}
		row := v1alpha1.RuleUse{Rule: ruleOf(w, u.RuleRef), Use: string(u.Use), Endpoints: int32(u.Applies)}
		row.By = rulesOf(w, u.By)
		rows = append(rows, row)
	}
	return rows
}

// Decided says of rules what they have decided; with unused it leaves those that decide nothing,
// and that have decided nothing. Hits returns how many connections a rule has decided about, and
// when last; for a Kubernetes NetworkPolicy the sum of all rules of a direction.
func Decided(rows []v1alpha1.RuleUse, unused bool, hits func(v1alpha1.Rule) (connections int64, last time.Time)) []v1alpha1.RuleUse {
	type side struct {
		policy    v1alpha1.Policy
		direction string
	}
	rules := map[side]int{}
	for i := range rows {
		rules[side{rows[i].Rule.Policy, rows[i].Rule.Direction}]++
	}
	out := rows[:0]
	for _, row := range rows {
		n, last := hits(row.Rule)
		row.Connections = &n
		if n > 0 {
			at := metav1.NewMicroTime(last)
			row.Last = &at
			row.Together = row.Rule.Policy.Type == string(policy.KubernetesNetworkPolicy) && rules[side{row.Rule.Policy, row.Rule.Direction}] > 1
		}
		if unused && n > 0 && !reach.Use(row.Use).Useless() {
			continue
		}
		out = append(out, row)
	}
	return out
}

func effectiveOf(w *explain.World, d reach.EffectiveDirection) v1alpha1.EffectiveDirection {
	out := v1alpha1.EffectiveDirection{NotEnforced: d.Suspended, Failsafe: d.Openings.Account, HostFailsafe: d.Openings.Host, Default: string(d.Default)}
	for _, p := range d.IsolatedBy {
		out.IsolatedBy = append(out.IsolatedBy, w.Policy(explain.PolicyOf(p)))
	}
	for _, r := range d.Rules {
		row := v1alpha1.EffectiveRule{Rule: ruleOf(w, r.RuleRef), Decides: r.Decides, Traffic: r.Traffic(), By: rulesOf(w, r.By)}
		if w.SeesAll() {
			for _, p := range r.Peers.Prefixes() {
				row.Peers = append(row.Peers, p.String())
			}
		}
		if w.Sees(r.RuleRef) {
			row.Names = r.Names
		}
		row.PeersText = PeersText(row, mostBlocks)
		out.Rules = append(out.Rules, row)
	}
	return out
}

func rulesOf(w *explain.World, refs []evaluate.RuleRef) (out []v1alpha1.Rule) {
	for _, r := range refs {
		out = append(out, ruleOf(w, r))
	}
	return out
}

// ruleOf is a rule as it may be seen. Without a world everything may be.
func ruleOf(w *explain.World, ref evaluate.RuleRef) v1alpha1.Rule {
	r := explain.RuleOf(ref)
	if w == nil {
		return r
	}
	return w.Rule(r)
}
