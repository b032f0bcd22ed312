package preview

import (
	"net/http"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// offlineAdmission is what the webhooks do, for manifests. Tiers and groups are held against those
// that come before them, as if the manifests were applied in their order; policies may be in tiers
// that come later.
type offlineAdmission struct {
	// known are the priorities of the tiers that policies may name, by name.
	known map[string]int32
	// given are the tiers that exist before the manifests, tiers these and those accepted.
	given, tiers []policy.Tier
	// groups are those accepted, by namespace.
	groups map[string][]policy.Group
}

func newAdmission(set *manifest.Set, given []*v1beta1.Tier) *offlineAdmission {
	a := &offlineAdmission{known: map[string]int32{}, groups: map[string][]policy.Group{}}
	exists := map[string]bool{}
	for _, t := range given {
		a.given = append(a.given, convert.Tier(t))
		exists[t.Name] = true
	}
	a.tiers = append(a.tiers, a.given...)
	for _, t := range policy.SystemTiers() {
		if !exists[t.Name] {
			a.tiers = append(a.tiers, t)
		}
		a.known[t.Name] = t.Priority
	}
	for _, t := range a.given {
		a.known[t.Name] = t.Priority
	}
	for _, d := range set.Documents {
		if t, ok := d.Object.(*v1beta1.Tier); ok && d.Refusal == nil {
			a.known[t.Name] = t.Spec.Priority
		}
	}
	return a
}

// refusal returns why an object would be refused, or nil: what is against its form by the schema
// (422), what is against the rules that the webhooks share by these (400), and then whatever else
// the schema finds.
func (a *offlineAdmission) refusal(d *manifest.Document) *manifest.Refusal {
	code, errs := a.findings(d)
	if len(errs) == 0 {
		return d.Refusal
	}
	r := d.Refuse(code, errs[0].Field, policy.JoinErrors(errs))
	return &r
}

func (a *offlineAdmission) findings(d *manifest.Document) (code int, errs []policy.FieldError) {
	switch o := d.Object.(type) {
	case *networkingv1.NetworkPolicy:
		p := convert.KubernetesNetworkPolicy(o)
		return http.StatusUnprocessableEntity, admission.ValidateKubernetes(&p, o.UID != "" && !o.CreationTimestamp.IsZero())
	case *v1beta1.NetworkPolicy:
		return staged(o.Annotations)(a.policy(convert.NetworkPolicy(o)))
	case *v1beta1.ClusterNetworkPolicy:
		return staged(o.Annotations)(a.policy(convert.ClusterNetworkPolicy(o)))
	case *expect.PolicyTest:
		return http.StatusUnprocessableEntity, o.Check()
	case *v1beta1.Group:
		return a.group(convert.Group(o), d.Refusal)
	case *v1beta1.ClusterGroup:
		return a.group(convert.ClusterGroup(o), d.Refusal)
	case *v1beta1.Tier:
		if d.Refusal == nil {
			return http.StatusBadRequest, a.tier(convert.Tier(o))
		}
	default:
		if p, ok := convert.Upstream(o); ok && d.Refusal == nil {
			return http.StatusBadRequest, admission.ValidateUpstream(&p)
		}
	}
	return 0, nil
}

func (a *offlineAdmission) policy(p policy.Policy) (code int, errs []policy.FieldError) {
	admission.Default(&p)
	if errs = admission.Schema(&p); len(errs) > 0 {
		return http.StatusUnprocessableEntity, errs
	}
	return http.StatusBadRequest, append(admission.ValidatePolicy(&p, a.known), admission.Pitfalls(&p, p.Set)...)
}

func (a *offlineAdmission) group(g policy.Group, refused *manifest.Refusal) (code int, errs []policy.FieldError) {
	if errs = admission.GroupSchema(&g); len(errs) > 0 {
		return http.StatusUnprocessableEntity, errs
	}
	errs = admission.ValidateGroup(&g, a.groups[g.Namespace])
	if len(errs) == 0 && refused == nil {
		a.groups[g.Namespace] = append(a.groups[g.Namespace], g)
	}
	return http.StatusBadRequest, errs
}

// tier checks a tier. System tiers exist everywhere, so a manifest with one is a change of it.
func (a *offlineAdmission) tier(t policy.Tier) []policy.FieldError {
	for _, old := range slices.Concat(a.given, policy.SystemTiers()) {
		if old.Name == t.Name {
			return admission.ValidateTierUpdate(old, t)
		}
	}
	errs := admission.ValidateNewTier(t, a.tiers)
	if len(errs) == 0 && !slices.Contains(a.tiers, t) {
		a.tiers = append(a.tiers, t)
	}
	return errs
}
