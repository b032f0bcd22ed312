package selection

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// TestModes: which setting decides what may be done to a VM.
func TestModes(t *testing.T) {
	t.Parallel()
	all := v1alpha1.VirtualMachineSelector{VpcMatch: &v1alpha1.EntityMatch{MatchID: "vpc-1"}}
	one := v1alpha1.VirtualMachineSelector{VMMatch: []v1alpha1.EntityMatch{{MatchID: "i-1"}}}
	other := v1alpha1.VirtualMachineSelector{VMMatch: []v1alpha1.EntityMatch{{MatchID: "i-2"}}}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	// Annotations are written REASON or REASON@UNTIL.
	annotations := func(text string) map[string]string {
		why, until, ends := strings.Cut(text, "@")
		out := map[string]string{v1alpha1.AnnotationBreakGlass: why}
		if ends {
			out[v1alpha1.AnnotationBreakGlassUntil] = until
		}
		return out
	}
	selector := func(namespace, name string, mode v1alpha1.EnforcementMode, e v1alpha1.VirtualMachineSelector, glass ...string) v1alpha1.CloudEntitySelector {
		s := v1alpha1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		s.Spec.Mode, s.Spec.VMSelector = mode, []v1alpha1.VirtualMachineSelector{e}
		for _, text := range glass {
			s.Annotations = annotations(text)
		}
		return s
	}
	for name, c := range map[string]struct {
		fallback  v1alpha1.EnforcementMode
		release   []string
		selectors []v1alpha1.CloudEntitySelector
		broken    map[types.NamespacedName]string
		mode, by  string
		until     string // RFC 3339
		// unheeded are the selectors whose mode is not heeded for want of a say.
		unheeded string
	}{
		"nothing said": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)}},
		"the account's": {fallback: "plan", selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)},
			mode: "plan", by: "CloudEntitySelector a/x"},
		"the selector's goes before the account's": {fallback: "plan", selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "enforce", all)}},
		"the more specific entry of a namespace": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "vpc", "plan", all), selector("a", "canary", "enforce", one)}},
		"and the other way round": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "vpc", "enforce", all), selector("a", "canary", "plan", one)}, mode: "plan", by: "CloudEntitySelector a/canary"},
		"equally specific": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "enforce", all), selector("a", "y", "released", all)}, mode: "released", by: "CloudEntitySelector a/y"},
		"several namespaces with a say": {release: []string{"b", "c"}, selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "enforce", one), selector("b", "y", "plan", all), selector("c", "z", "released", one)}, mode: "plan", by: "CloudEntitySelector b/y"},
		"others do not count where one with a say selects": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "enforce", all), selector("b", "y", "plan", one), selector("c", "z", "released", one)}, unheeded: "b/y c/z"},
		"and cannot write what the owner does not": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "plan", all), selector("b", "y", "enforce", one)}, mode: "plan", by: "CloudEntitySelector a/x", unheeded: "b/y"},
		"a say given to another namespace": {release: []string{"b"}, selectors: []v1alpha1.CloudEntitySelector{
			selector("b", "y", "released", all), selector("c", "z", "enforce", one)}, mode: "released", by: "CloudEntitySelector b/y", unheeded: "c/z"},
		"one without a say, alone, may write less": {selectors: []v1alpha1.CloudEntitySelector{selector("b", "y", "plan", all)},
			mode: "plan", by: "CloudEntitySelector b/y"},
		"but never more than the account": {fallback: "plan", selectors: []v1alpha1.CloudEntitySelector{selector("b", "y", "enforce", all)},
			mode: "plan", by: "CloudProviderAccount a/acc", unheeded: "b/y"},
		"not released where the account plans": {fallback: "plan", selectors: []v1alpha1.CloudEntitySelector{selector("b", "y", "released", all)},
			mode: "plan", by: "CloudProviderAccount a/acc", unheeded: "b/y"},
		"of several without a say the one that writes most": {selectors: []v1alpha1.CloudEntitySelector{
			selector("b", "y", "plan", all), selector("c", "z", "released", one), selector("d", "w", "plan", one)},
			mode: "released", by: "CloudEntitySelector c/z", unheeded: "b/y d/w"},
		"nobody freezes what another enforces": {selectors: []v1alpha1.CloudEntitySelector{
			selector("b", "y", "plan", one), selector("c", "z", "", all)}, unheeded: "b/y"},
		"within a namespace without a say as elsewhere": {selectors: []v1alpha1.CloudEntitySelector{
			selector("b", "vpc", "enforce", all), selector("b", "canary", "plan", one)}, mode: "plan", by: "CloudEntitySelector b/canary"},
		"a selector that does not select it": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "enforce", all), selector("b", "y", "plan", other, "fire")}},
		"break-glass without a say": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "", all), selector("b", "y", "", all, "fire")}, broken: map[types.NamespacedName]string{{Namespace: "b", Name: "i-1"}: "fire"}},
		"not even alone": {selectors: []v1alpha1.CloudEntitySelector{selector("b", "y", "", all, "fire")},
			broken: map[types.NamespacedName]string{{Namespace: "b", Name: "i-1"}: "fire"}},
		"a say for a namespace that does not select it": {release: []string{"b", "c"}, selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all), selector("c", "z", "", other, "fire")},
			broken: map[types.NamespacedName]string{{Namespace: "b", Name: "i-1"}: "fire"}},
		"break-glass on a selector": {release: []string{"b"}, selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "plan", all), selector("b", "y", "enforce", all, "fire")}, mode: "break-glass", by: "CloudEntitySelector b/y: fire"},
		"break-glass on the object": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)},
			broken: map[types.NamespacedName]string{{Namespace: "a", Name: "i-1"}: ""}, mode: "break-glass",
			by: "VirtualMachine a/i-1: no reason is given; if it is to end, remove the annotation, an empty one releases the VM too"},
		"a value that does not end it": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)},
			broken: map[types.NamespacedName]string{{Namespace: "a", Name: "i-1"}: "False\n"}, mode: "break-glass",
			by: `VirtualMachine a/i-1: "False"; if it is to end, remove the annotation, any value releases the VM`},
		"a reason of several lines": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)},
			broken: map[types.NamespacedName]string{{Namespace: "a", Name: "i-1"}: "fire\x1b[31m\n!"}, mode: "break-glass", by: "VirtualMachine a/i-1: fire[31m!"},
		"that ends by itself": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)},
			broken: map[types.NamespacedName]string{{Namespace: "a", Name: "i-1"}: "fire@2026-01-02T15:00:00+02:00"}, mode: "break-glass",
			by: "VirtualMachine a/i-1: fire (until 2026-01-02T13:00:00Z)", until: "2026-01-02T13:00:00Z"},
		"that has ended this moment": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)},
			broken: map[types.NamespacedName]string{{Namespace: "a", Name: "i-1"}: "fire@2026-01-02T12:00:00Z"}},
		"that has ended, on a selector": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "plan", all, "fire@2026-01-02T11:59:59Z")},
			mode: "plan", by: "CloudEntitySelector a/x"},
		"that has ended, without a say": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "", all), selector("b", "y", "", all, "fire@2026-01-02T11:59:59Z")}},
		"at no time": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all, "fire@tonight\x1b")}, mode: "break-glass",
			by: `CloudEntitySelector a/x: fire; it does not end by itself, because "tonight" is no time like 2026-01-02T15:04:05Z`},
		"of several the one that lasts longest": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "", all, "a while@2026-01-02T12:30:00Z"), selector("a", "y", "", all, "longer@2026-01-02T14:00:00Z"), selector("a", "z", "", all, "over@2026-01-02T10:00:00Z")},
			mode: "break-glass", by: "CloudEntitySelector a/y: longer (until 2026-01-02T14:00:00Z)", until: "2026-01-02T14:00:00Z"},
		"and of all the one without an end": {selectors: []v1alpha1.CloudEntitySelector{
			selector("a", "x", "", all, "a while@2026-01-02T12:30:00Z"), selector("a", "y", "", all, "for good")},
			mode: "break-glass", by: "CloudEntitySelector a/y: for good"},
		"break-glass on an object of a namespace that does not select it": {selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", "", all)},
			broken: map[types.NamespacedName]string{{Namespace: "b", Name: "i-1"}: ""}},
	} {
		Sort(c.selectors)
		m := Modes{Fallback: c.fallback, Release: c.release, Now: now}
		for key, text := range c.broken {
			m.Look(&v1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: annotations(text)}})
		}
		v := View{Account: types.NamespacedName{Namespace: "a", Name: "acc"}, Provider: v1alpha1.CloudProviderAWS, Selectors: c.selectors,
			Modes: m, Snapshots: []*cloud.Snapshot{{Scope: cloud.Scope{Region: "r"},
				Networks: []cloud.Network{{ID: "vpc-1"}}, VMs: []cloud.VM{{ID: "i-1", NetworkID: "vpc-1"}}}}}
		d := Compute(v)
		if len(d.VMRefs) == 0 {
			t.Fatalf("%s: not selected", name)
		}
		var unheeded []string
		for i, n := range d.Selected {
			if n.Unheeded > 0 {
				unheeded = append(unheeded, v.Selectors[i].Namespace+"/"+v.Selectors[i].Name)
			}
		}
		if got := strings.Join(unheeded, " "); got != c.unheeded {
			t.Errorf("%s: not heeded are %q; want %q", name, got, c.unheeded)
		}
		for entity, ref := range d.VMRefs {
			vm := d.VMs[types.NamespacedName{Namespace: entity.Namespace, Name: "i-1"}]
			if ref.Mode != c.mode || ref.ModeReason != c.by || vm.Status.Mode != c.mode || vm.Status.ModeReason != c.by {
				t.Errorf("%s: %s has %q by %q, status %q by %q; want %q by %q", name, entity, ref.Mode, ref.ModeReason, vm.Status.Mode, vm.Status.ModeReason, c.mode, c.by)
			}
			until := ""
			if vm.Status.ModeUntil != nil {
				until = vm.Status.ModeUntil.UTC().Format(time.RFC3339)
			}
			if until != c.until {
				t.Errorf("%s: until %q; want %q", name, until, c.until)
			}
		}
	}
}
