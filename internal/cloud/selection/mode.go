package selection

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Modes is what the modes of VMs depend on, beside the selectors.
type Modes struct {
	// Fallback is the mode of selectors that name none.
	Fallback v1alpha1.EnforcementMode
	// Now is when it is asked.
	Now time.Time
	// Release are the namespaces that have a say beside the account's own.
	Release []string

	// broken are the imported objects on which break-glass holds.
	broken map[imported]glass
}

// The kinds of imported objects on which the glass may be broken.
const (
	kindVM        = "VirtualMachine"
	kindService   = "CloudNativeService"
	kindInterface = "NetworkInterface"
)

// imported names an object that represents what policies may apply to.
type imported struct {
	kind            string
	namespace, name string
}

func (i imported) String() string { return i.kind + " " + i.namespace + "/" + i.name }

// Look notes break-glass on an imported object that exists. Now is set.
func (m *Modes) Look(o metav1.Object) {
	g, holds := glassOn(o.GetAnnotations(), m.Now)
	if !holds {
		return
	}
	kind := kindVM
	switch o.(type) {
	case *v1alpha1.CloudNativeService:
		kind = kindService
	case *v1alpha1.NetworkInterface:
		kind = kindInterface
	}
	if m.broken == nil {
		m.broken = map[imported]glass{}
	}
	m.broken[imported{kind, o.GetNamespace(), o.GetName()}] = g
}

// FirstEnd is when the first release ends by itself; zero if none does.
func (v View) FirstEnd() time.Time {
	var first time.Time
	note := func(g glass) {
		if !g.until.IsZero() && (first.IsZero() || g.until.Before(first)) {
			first = g.until
		}
	}
	for _, g := range v.Modes.broken {
		note(g)
	}
	for i := range v.Selectors {
		g, _ := glassOn(v.Selectors[i].Annotations, v.Modes.Now)
		note(g)
	}
	return first
}

// plain reports whether every VM is simply enforced.
func (v View) plain() bool {
	return len(v.Modes.broken) == 0 && (v.Modes.Fallback == "" || v.Modes.Fallback == v1alpha1.ModeEnforce) &&
		!slices.ContainsFunc(v.Selectors, func(s v1alpha1.CloudEntitySelector) bool {
			_, broken := glassOn(s.Annotations, v.Modes.Now)
			return broken || s.Spec.Mode != "" && s.Spec.Mode != v1alpha1.ModeEnforce
		})
}

// writes orders the modes by how much they write.
func writes(m v1alpha1.EnforcementMode) int {
	return slices.Index([]v1alpha1.EnforcementMode{v1alpha1.ModePlan, v1alpha1.ModeReleased, v1alpha1.ModeEnforce}, m)
}

// hasSay reports whether a namespace has a say in the modes of the account's VMs.
func (v View) hasSay(namespace string) bool { return hasSay(v.Account, v.Modes.Release, namespace) }

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
	// mode, and by, the object that sets it, are empty if policies are simply enforced.
	mode, by string
	// until is when the mode break-glass ends by itself; nil if it does not.
	until *metav1.Time
	// unheeded are the indices of selectors that ask for another mode and have no say in it.
	unheeded []int
}

// guarded is what a mode is decided for: a VM, a native service or an interface that selectors
// select.
type guarded struct {
	// kind and name identify the objects that may carry the annotation for break-glass. id is its
	// own.
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
func (v View) means(o imported, id string) bool {
	return o.kind != kindVM || v.meansVM(types.NamespacedName{Namespace: o.namespace, Name: o.name}, id)
}

// has reports whether there is to be an imported object.
func (d *Desired) has(o imported) bool {
	key := types.NamespacedName{Namespace: o.namespace, Name: o.name}
	return o.kind == kindVM && d.VMs[key] != nil || o.kind == kindService && d.Services[key] != nil || o.kind == kindInterface && d.Interfaces[key] != nil
}

// unheard says on an object that break-glass is asked for on it and has no effect there; nil if
// neither.
func (v View) unheard(o imported) *metav1.Condition {
	if _, broken := v.Modes.broken[o]; !broken || v.hasSay(o.namespace) {
		return nil
	}
	return &metav1.Condition{Type: v1alpha1.ConditionHeeded, Status: metav1.ConditionFalse,
		Reason: ReasonBreakGlassNotGranted, Message: glassUnheeded(v.Account, o.namespace)}
}

// say writes what may be done to a native service or an interface into the status of its object.
func (v View) say(status *v1alpha1.ImportedStatus, o imported, d decision) {
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
func (v View) mode(of guarded) decision {
	if len(of.namespaces) == 0 || v.plain() {
		return decision{}
	}
	var broken []glass
	for _, namespace := range of.namespaces {
		o := of.objectIn(namespace)
		if g, ok := v.Modes.broken[o]; ok && v.hasSay(namespace) && v.means(o, of.id) {
			broken = append(broken, glass{fmt.Sprintf("%s: %s", o, g.why), g.until})
		}
	}
	said := map[string]opinion{}
	for i := range v.Selectors {
		s := &v.Selectors[i]
		best := of.how(s)
		if best == notSelected {
			continue
		}
		name := s.Namespace + "/" + s.Name
		if g, ok := glassOn(s.Annotations, v.Modes.Now); ok && v.hasSay(s.Namespace) {
			broken = append(broken, glass{fmt.Sprintf("CloudEntitySelector %s: %s", name, g.why), g.until})
		}
		o := opinion{best, cmp.Or(s.Spec.Mode, v.Modes.Fallback, v1alpha1.ModeEnforce), "CloudEntitySelector " + name, i}
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
		if own := v.Selectors[o.selector].Spec.Mode; own != "" && own != out.mode && !v.hasSay(namespace) {
			d.unheeded = append(d.unheeded, o.selector)
		}
	}
	return d
}

// prevailing is the opinion that counts among the opinions of the namespaces that select a VM.
func (v View) prevailing(said map[string]opinion) opinion {
	account := opinion{mode: cmp.Or(v.Modes.Fallback, v1alpha1.ModeEnforce), by: "CloudProviderAccount " + cloud.AccountKey(v.Account.Namespace, v.Account.Name)}
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

// glassReason is the value of the annotation for break-glass, for people. A value that may have
// been meant to end it does not: in an emergency there is no time to look up how to spell yes. So
// the text says so.
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
