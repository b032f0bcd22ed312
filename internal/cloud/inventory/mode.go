package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// modes is what the modes of VMs depend on, beside the selectors.
type modes struct {
	// fallback is the mode of selectors that name none.
	fallback v1alpha1.EnforcementMode
	// broken are the reasons on VirtualMachine objects with the annotation for break-glass.
	broken map[types.NamespacedName]string
}

// modes collects what decides the modes of the account's VMs.
func (p *pass) modes(s *syncer) modes {
	out := modes{fallback: p.cpa.Spec.Mode}
	for key, vm := range s.vms {
		if reason, ok := vm.Annotations[v1alpha1.AnnotationBreakGlass]; ok {
			if out.broken == nil {
				out.broken = map[types.NamespacedName]string{}
			}
			out.broken[key] = reason
		}
	}
	return out
}

// modeInputs is what the modes depend on and neither a generation nor an object of ours tells.
func (p *pass) modeInputs() string {
	var b strings.Builder
	fmt.Fprint(&b, p.cpa.Spec.Mode)
	for i := range p.selectors {
		if reason, ok := p.selectors[i].Annotations[v1alpha1.AnnotationBreakGlass]; ok {
			fmt.Fprintf(&b, " %s %q", p.selectors[i].UID, reason)
		}
	}
	return b.String()
}

// plain reports whether every VM is simply enforced.
func (v view) plain() bool {
	return len(v.modes.broken) == 0 && (v.modes.fallback == "" || v.modes.fallback == v1alpha1.ModeEnforce) &&
		!slices.ContainsFunc(v.selectors, func(s v1alpha1.CloudEntitySelector) bool {
			_, broken := s.Annotations[v1alpha1.AnnotationBreakGlass]
			return broken || s.Spec.Mode != "" && s.Spec.Mode != v1alpha1.ModeEnforce
		})
}

// writes orders the modes by how much they write.
func writes(m v1alpha1.EnforcementMode) int {
	return slices.Index([]v1alpha1.EnforcementMode{v1alpha1.ModePlan, v1alpha1.ModeReleased, v1alpha1.ModeEnforce}, m)
}

// opinion is what one namespace says about a VM.
type opinion struct {
	how  specificity
	mode v1alpha1.EnforcementMode
	by   string
}

// mode returns what may be done to a VM that selectors select, and who says so; both are empty if it is simply enforced.
//
// Break-glass on any object goes before everything. In a namespace the most specific entry decides, as it does about agents, and of
// equally specific ones that which writes less; of several namespaces too, the one that writes less.
func (v view) mode(m machine, chosen map[string]choice) (mode, reason string) {
	if v.plain() {
		return "", ""
	}
	var broken []string
	for namespace := range chosen {
		if why, ok := v.modes.broken[types.NamespacedName{Namespace: namespace, Name: m.objectName()}]; ok {
			broken = append(broken, fmt.Sprintf("VirtualMachine %s/%s: %s", namespace, m.objectName(), BreakGlassReason(why)))
		}
	}
	said := map[string]opinion{}
	for i := range v.selectors {
		s := &v.selectors[i]
		best := notSelected
		for _, e := range s.Spec.VMSelector {
			best = max(best, selectEntry(e, m.vm, m.network))
		}
		if best == notSelected {
			continue
		}
		name := s.Namespace + "/" + s.Name
		if why, ok := s.Annotations[v1alpha1.AnnotationBreakGlass]; ok {
			broken = append(broken, fmt.Sprintf("CloudEntitySelector %s: %s", name, BreakGlassReason(why)))
		}
		o := opinion{best, cmp.Or(s.Spec.Mode, v.modes.fallback, v1alpha1.ModeEnforce), "CloudEntitySelector " + name}
		if old, ok := said[s.Namespace]; !ok || o.how > old.how || o.how == old.how && writes(o.mode) < writes(old.mode) {
			said[s.Namespace] = o
		}
	}
	if len(broken) > 0 {
		return string(v1alpha1.ModeBreakGlass), slices.Min(broken)
	}
	out := opinion{mode: v1alpha1.ModeEnforce}
	for _, o := range said {
		if c := cmp.Compare(writes(o.mode), writes(out.mode)); c < 0 || c == 0 && o.by < out.by {
			out = o
		}
	}
	if out.mode == v1alpha1.ModeEnforce {
		return "", ""
	}
	return string(out.mode), out.by
}

// BreakGlassReason is the value of the annotation for break-glass, for people. A value that was perhaps meant to end it does not: in an
// emergency nobody looks up how to spell yes. So it is said.
func BreakGlassReason(value string) string {
	text := strings.TrimSpace(cloud.Words(value))
	switch strings.ToLower(text) {
	case "":
		return "no reason is given; if it is to end, remove the annotation, an empty one breaks the glass too"
	case "false", "no", "off", "0", "none", "null", "disabled":
		return fmt.Sprintf("%q; if it is to end, remove the annotation, any value breaks the glass", text)
	}
	return text
}

// Settings are what an account says about enforcement beside the mode.
type Settings struct {
	// MaxPerWave is spec.maxPerWave; 0 means no bound.
	MaxPerWave int
	// Failsafe is spec.failsafe. It must not be changed.
	Failsafe []v1alpha1.FailsafeFlow
	// TakeOver is the annotation AnnotationTakeOver.
	TakeOver string
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

// settle keeps the account's settings and reports whether they are others than before. The caller holds the account's lock.
func (p *pass) settle(a *account) (changed bool) {
	s := settingsOf(p.cpa)
	changed = !equality.Semantic.DeepEqual(a.settings, s)
	a.settings = s
	return changed
}

func settingsOf(cpa *v1alpha1.CloudProviderAccount) Settings {
	s := Settings{Failsafe: cpa.Spec.Failsafe, TakeOver: cpa.Annotations[v1alpha1.AnnotationTakeOver]}
	if n := cpa.Spec.MaxPerWave; n != nil {
		s.MaxPerWave = int(*n)
	}
	return s
}
