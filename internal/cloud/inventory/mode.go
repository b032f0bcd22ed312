package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// modes is what the modes of VMs depend on, beside the selectors.
type modes struct {
	// fallback is the mode of selectors that name none.
	fallback v1alpha1.EnforcementMode
	// broken are the imported objects on which break-glass holds.
	broken map[imported]glass
	// now is when it is asked.
	now time.Time
	// release are the namespaces that have a say beside the account's own.
	release []string
}

// The kinds of imported objects on which the glass may be broken.
const (
	kindVM        = "VirtualMachine"
	kindService   = "CloudNativeService"
	kindInterface = "NetworkInterface"
)

// imported names an object that stands for what policies may apply to.
type imported struct {
	kind            string
	namespace, name string
}

func (i imported) String() string { return i.kind + " " + i.namespace + "/" + i.name }

// modes collects what decides the modes of what the account has.
func (p *pass) modes(s *syncer) modes {
	out := modes{fallback: p.cpa.Spec.Mode, release: p.cpa.Spec.ReleaseNamespaces, now: p.opts.Now()}
	for _, o := range s.vms {
		out.look(kindVM, o)
	}
	for _, o := range s.natives {
		out.look(kindService, o)
	}
	for _, o := range s.ports {
		out.look(kindInterface, o)
	}
	return out
}

// look notes break-glass on an imported object.
func (m *modes) look(kind string, o client.Object) {
	g, holds := glassOn(o.GetAnnotations(), m.now)
	if !holds {
		return
	}
	if m.broken == nil {
		m.broken = map[imported]glass{}
	}
	m.broken[imported{kind, o.GetNamespace(), o.GetName()}] = g
}

// firstEnd is when the first release ends by itself; zero if none does.
func (v view) firstEnd() time.Time {
	var first time.Time
	note := func(g glass) {
		if !g.until.IsZero() && (first.IsZero() || g.until.Before(first)) {
			first = g.until
		}
	}
	for _, g := range v.modes.broken {
		note(g)
	}
	for i := range v.selectors {
		g, _ := glassOn(v.selectors[i].Annotations, v.modes.now)
		note(g)
	}
	return first
}

// accountInputs is what the objects depend on and neither the configuration, nor a generation, nor
// an object of ours tells.
func (p *pass) accountInputs() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %s", p.cpa.Spec.Mode, p.cpa.Spec.ReleaseNamespaces, userTagsOf(p.cpa))
	for i := range p.selectors {
		if reason, ok := p.selectors[i].Annotations[v1alpha1.AnnotationBreakGlass]; ok {
			fmt.Fprintf(&b, " %s %q %q", p.selectors[i].UID, reason, p.selectors[i].Annotations[v1alpha1.AnnotationBreakGlassUntil])
		}
	}
	return b.String()
}

// plain reports whether every VM is simply enforced.
func (v view) plain() bool {
	return len(v.modes.broken) == 0 && (v.modes.fallback == "" || v.modes.fallback == v1alpha1.ModeEnforce) &&
		!slices.ContainsFunc(v.selectors, func(s v1alpha1.CloudEntitySelector) bool {
			_, broken := glassOn(s.Annotations, v.modes.now)
			return broken || s.Spec.Mode != "" && s.Spec.Mode != v1alpha1.ModeEnforce
		})
}

// writes orders the modes by how much they write.
func writes(m v1alpha1.EnforcementMode) int {
	return slices.Index([]v1alpha1.EnforcementMode{v1alpha1.ModePlan, v1alpha1.ModeReleased, v1alpha1.ModeEnforce}, m)
}

// hasSay reports whether a namespace has a say in the modes of the account's VMs.
func (v view) hasSay(namespace string) bool { return hasSay(v.account, v.modes.release, namespace) }

// opinion is what one namespace says about a VM.
type opinion struct {
	how  specificity
	mode v1alpha1.EnforcementMode
	by   string
	// selector is the index of the one that says so.
	selector int
}

// decision is what may be done to a VM.
type decision struct {
	// mode and by, who says so, are both empty if policies are simply enforced.
	mode, by string
	// until is when the mode break-glass ends by itself; nil if it does not.
	until *metav1.Time
	// unheeded are the indices of selectors that ask for another mode and have no say in it.
	unheeded []int
}

// guarded is what a mode is decided for: a VM, a native service or an interface that selectors
// select.
type guarded struct {
	// kind and name are those of its objects, on which the glass may be broken. id is its own.
	kind, name, id string
	// namespaces are those with a selector that selects it.
	namespaces []string
	// how is how much a selector means it.
	how func(*v1alpha1.CloudEntitySelector) specificity
}

// objectIn is its object in a namespace.
func (g guarded) objectIn(namespace string) imported { return imported{g.kind, namespace, g.name} }

// means reports whether an object that exists is about what is guarded. That of a VM may be another
// one's with the same name; the other names have a part of the sum of the id.
func (v view) means(o imported, id string) bool {
	return o.kind != kindVM || v.meansVM(types.NamespacedName{Namespace: o.namespace, Name: o.name}, id)
}

// has reports whether there is to be an imported object.
func (d *desired) has(o imported) bool {
	key := types.NamespacedName{Namespace: o.namespace, Name: o.name}
	return o.kind == kindVM && d.vms[key] != nil || o.kind == kindService && d.natives[key] != nil || o.kind == kindInterface && d.ports[key] != nil
}

// unheard says on an object that break-glass is asked for on it and has no effect there; nil if
// neither.
func (v view) unheard(o imported) *metav1.Condition {
	if _, broken := v.modes.broken[o]; !broken || v.hasSay(o.namespace) {
		return nil
	}
	return &metav1.Condition{Type: v1alpha1.ConditionHeeded, Status: metav1.ConditionFalse,
		Reason: reasonBreakGlassNotGranted, Message: glassUnheeded(v.account, o.namespace)}
}

// say writes what may be done to a native service or an interface into the status of its object.
func (v view) say(status *v1alpha1.ImportedStatus, o imported, d decision) {
	status.Mode, status.ModeReason, status.ModeUntil = d.mode, d.by, d.until
	if c := v.unheard(o); c != nil {
		status.Conditions = append(status.Conditions, *c)
	}
}

// mode decides what may be done to what selectors select.
//
// Break-glass goes before everything, on any object of a namespace that has a say. In a namespace
// the most specific entry decides, as it does about agents, and of equally specific ones that which
// writes less; of several namespaces with a say too, the one that writes less. The others count
// only if none with a say selects the VM: then none writes more than the account wants, and the one
// that writes most decides, so that nobody stops what another one enforces.
// docs/decisions/0011-grants.md has the reasons.
func (v view) mode(of guarded) decision {
	if len(of.namespaces) == 0 || v.plain() {
		return decision{}
	}
	var broken []glass
	for _, namespace := range of.namespaces {
		o := of.objectIn(namespace)
		if g, ok := v.modes.broken[o]; ok && v.hasSay(namespace) && v.means(o, of.id) {
			broken = append(broken, glass{fmt.Sprintf("%s: %s", o, g.why), g.until})
		}
	}
	said := map[string]opinion{}
	for i := range v.selectors {
		s := &v.selectors[i]
		best := of.how(s)
		if best == notSelected {
			continue
		}
		name := s.Namespace + "/" + s.Name
		if g, ok := glassOn(s.Annotations, v.modes.now); ok && v.hasSay(s.Namespace) {
			broken = append(broken, glass{fmt.Sprintf("CloudEntitySelector %s: %s", name, g.why), g.until})
		}
		o := opinion{best, cmp.Or(s.Spec.Mode, v.modes.fallback, v1alpha1.ModeEnforce), "CloudEntitySelector " + name, i}
		if old, ok := said[s.Namespace]; !ok || o.how > old.how || o.how == old.how && writes(o.mode) < writes(old.mode) {
			said[s.Namespace] = o
		}
	}
	if len(broken) > 0 {
		g := slices.MinFunc(broken, glass.compare)
		d := decision{mode: string(v1alpha1.ModeBreakGlass), by: g.why}
		if !g.until.IsZero() {
			d.until = &metav1.Time{Time: g.until}
		}
		return d
	}
	out := v.prevailing(said)
	d := decision{}
	if out.mode != v1alpha1.ModeEnforce {
		d.mode, d.by = string(out.mode), out.by
	}
	for namespace, o := range said {
		if own := v.selectors[o.selector].Spec.Mode; own != "" && own != out.mode && !v.hasSay(namespace) {
			d.unheeded = append(d.unheeded, o.selector)
		}
	}
	return d
}

// prevailing is the opinion that counts of those of the namespaces that select a VM.
func (v view) prevailing(said map[string]opinion) opinion {
	account := opinion{mode: cmp.Or(v.modes.fallback, v1alpha1.ModeEnforce), by: "CloudProviderAccount " + cloud.AccountKey(v.account.Namespace, v.account.Name)}
	var least, most *opinion
	for _, namespace := range slices.Sorted(maps.Keys(said)) {
		o := said[namespace]
		if v.hasSay(namespace) {
			if least == nil || writes(o.mode) < writes(least.mode) {
				least = &o
			}
			continue
		}
		if writes(o.mode) > writes(account.mode) {
			o = account
		}
		if most == nil || writes(o.mode) > writes(most.mode) {
			most = &o
		}
	}
	return *cmp.Or(least, most)
}

// glass is a release in an emergency: why, for people, and when it ends by itself, zero if it does
// not.
type glass struct {
	why   string
	until time.Time
}

// compare puts first what lasts longest.
func (g glass) compare(o glass) int {
	switch {
	case g.until.Equal(o.until):
		return strings.Compare(g.why, o.why)
	case g.until.IsZero() || !o.until.IsZero() && g.until.After(o.until):
		return -1
	}
	return 1
}

// glassOn reads the annotations for break-glass; false if there is none, or if its time is over.
func glassOn(annotations map[string]string, now time.Time) (glass, bool) {
	value, broken := annotations[v1alpha1.AnnotationBreakGlass]
	if !broken {
		return glass{}, false
	}
	g := glass{why: glassReason(value)}
	if end, ends := annotations[v1alpha1.AnnotationBreakGlassUntil]; ends {
		until, err := time.Parse(time.RFC3339, end)
		if err != nil {
			g.why += fmt.Sprintf("; it does not end by itself, because %q is no time like 2026-01-02T15:04:05Z", cloud.Words(end))
			return g, true
		}
		g.until = until.UTC().Truncate(time.Second)
		g.why += " (until " + g.until.Format(time.RFC3339) + ")"
	}
	return g, g.until.IsZero() || now.Before(g.until)
}

// BreakGlass says whether the annotations of an object release in an emergency at a time: why, for
// people, and when that ends by itself, zero if it does not.
func BreakGlass(annotations map[string]string, now time.Time) (why string, until time.Time, broken bool) {
	g, broken := glassOn(annotations, now)
	return g.why, g.until, broken
}

// glassReason is the value of the annotation for break-glass, for people. A value that was perhaps
// meant to end it does not: in an emergency nobody looks up how to spell yes. So it is said.
func glassReason(value string) string {
	text := strings.TrimSpace(cloud.Words(value))
	switch strings.ToLower(text) {
	case "":
		return "no reason is given; if it is to end, remove the annotation, an empty one releases the VM too"
	case "false", "no", "off", "0", "none", "null", "disabled":
		return fmt.Sprintf("%q; if it is to end, remove the annotation, any value releases the VM", text)
	}
	return text
}

// Settings are what an account says about enforcement beside the mode.
type Settings struct {
	// Cloud is the cloud that the account is of; empty if it says none.
	Cloud v1alpha1.CloudProvider
	// MaxPerWave is spec.maxPerWave; 0 means no bound.
	MaxPerWave int
	// Propagation is spec.propagationSeconds, or else that of the Options; 0 means that nothing
	// waits.
	Propagation time.Duration
	// Failsafe is spec.failsafe. It must not be changed.
	Failsafe []v1alpha1.FailsafeFlow
	// BrakePercent and BrakeInterfaces are spec.brake, with its defaults, and Confirm is the
	// annotation that lets go on what it holds.
	BrakePercent, BrakeInterfaces int
	Confirm                       string
	// FormerGroups is the annotation v1alpha1.AnnotationFormerGroups.
	FormerGroups string
	// TakeOver is the annotation AnnotationTakeOver.
	TakeOver string
	// Dependents and DependentGroups are those of the spec. They must not be changed.
	Dependents      v1alpha1.Dependents
	DependentGroups []v1alpha1.DependentGroup
}

// Settings returns what the account says about enforcement.
func (i *Inventory) Settings(key string) Settings {
	a := i.lookup(key)
	if a == nil {
		return Settings{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settings
}

// settle keeps the account's settings and reports whether they are others than before. The caller
// holds the account's lock.
func (p *pass) settle(a *account) (changed bool) {
	s := settingsOf(p.cpa, p.opts.Propagation)
	changed = !equality.Semantic.DeepEqual(a.settings, s)
	a.settings = s
	return changed
}

// mostPropagation is the maximum of spec.propagationSeconds, which the schema refuses to exceed.
const mostPropagation = 300

// settingsOf returns what the account says; propagation is that of an account that says none.
func settingsOf(cpa *v1alpha1.CloudProviderAccount, propagation time.Duration) Settings {
	s := Settings{
		Propagation: propagation,
		Failsafe:    cpa.Spec.Failsafe, FormerGroups: cpa.Annotations[v1alpha1.AnnotationFormerGroups], Confirm: cpa.Annotations[v1alpha1.AnnotationConfirm],
		TakeOver:   cpa.Annotations[v1alpha1.AnnotationTakeOver],
		Dependents: cpa.Spec.Dependents, DependentGroups: cpa.Spec.DependentGroups,
		BrakePercent: int(v1alpha1.DefaultBrakePercent), BrakeInterfaces: int(v1alpha1.DefaultBrakeInterfaces),
	}
	if b := cpa.Spec.Brake; b != nil && b.Percent != nil {
		s.BrakePercent = int(*b.Percent)
	}
	if b := cpa.Spec.Brake; b != nil && b.Interfaces != nil {
		s.BrakeInterfaces = int(*b.Interfaces)
	}
	config, _ := ConfigOf(cpa)
	s.Cloud = config.Cloud
	if n := cpa.Spec.MaxPerWave; n != nil {
		s.MaxPerWave = int(*n)
	}
	if n := cpa.Spec.PropagationSeconds; n != nil {
		s.Propagation = time.Duration(min(max(*n, 0), mostPropagation)) * time.Second
	}
	return s
}
