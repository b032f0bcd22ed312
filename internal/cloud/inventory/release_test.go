package inventory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestReleaseEndsByItself: break-glass ends at its time and not before, on a VM and on a selector,
// also if nothing else has changed and if the controller was away at the time; the pass that ends
// it is asked for at that time.
func TestReleaseEndsByItself(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"VirtualMachine", "CloudEntitySelector"} {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, away %t", kind, away), func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				l.create(l.secret(goodCreds), l.cpa(), l.ces(accountKey.Namespace, "all", wholeVPC(vpc1)))
				l.reconcile()
				var on client.Object = &v1alpha1.VirtualMachine{}
				name := vm1
				if kind == "CloudEntitySelector" {
					on, name = &v1alpha1.CloudEntitySelector{}, "all"
				}
				end := l.clock().Add(20 * time.Second)
				l.setAnnotation(on, accountKey.Namespace, name, v1alpha1.AnnotationBreakGlassUntil, end.Format(time.RFC3339))
				l.setAnnotation(on, accountKey.Namespace, name, v1alpha1.AnnotationBreakGlass, "fire")
				mode := func(when, want string) {
					t.Helper()
					vm := get(l, &v1alpha1.VirtualMachine{}, accountKey.Namespace, vm1)
					if vm.Status.Mode != want || (want != "") != (vm.Status.ModeUntil != nil) {
						t.Errorf("%s: mode %q (%s) until %v; want %q", when, vm.Status.Mode, vm.Status.ModeReason, vm.Status.ModeUntil, want)
					}
					for entity, ref := range l.inv.Entities(accountKey.Namespace + "/" + accountKey.Name) {
						if ref.VMID == vm1 && ref.Mode != want {
							t.Errorf("%s: the realizer is told %q of %s; want %q", when, ref.Mode, entity, want)
						}
					}
				}
				if wait := l.reconcile(); wait != 20*time.Second {
					t.Errorf("the next pass is in %s, the end in 20s", wait)
				}
				mode("at once", "break-glass")
				l.advance(19 * time.Second)
				if wait := l.reconcile(); wait != time.Second {
					t.Errorf("the next pass is in %s, the end in 1s", wait)
				}
				mode("a second before", "break-glass")
				if away {
					l.advance(time.Hour)
					l.restart(nil)
					mode("nobody was there", "break-glass")
				} else {
					l.advance(time.Second)
				}
				l.reconcile()
				mode("at the end", "")
			})
		}
	}
}

// TestReleaseOfService: break-glass on a native service or an interface counts as on a VM: it
// releases that one alone, for every namespace, until its time is over, and where a namespace has
// no say it is said on the object, once, and has no effect.
func TestReleaseOfService(t *testing.T) {
	t.Parallel()
	const own, foreign = "clouds", "apps"
	for kind, on := range map[string]client.Object{"CloudNativeService": &v1alpha1.CloudNativeService{}, "NetworkInterface": &v1alpha1.NetworkInterface{}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := serviceLab(t)
			l.create(l.secret(goodCreds), l.cpa())
			for _, namespace := range []string{own, foreign} {
				s := l.ces(namespace, "all")
				s.Spec.NativeSelector = []v1alpha1.NativeServiceSelector{{Kind: v1alpha1.NativeServiceApplicationLoadBalancer}}
				s.Spec.InterfaceSelector = []v1alpha1.NetworkInterfaceSelector{{VpcMatch: &v1alpha1.EntityMatch{MatchID: vpc1}}}
				l.create(s)
			}
			l.reconcile()
			name, id := forgedNIC, forgedNIC
			if kind == "CloudNativeService" {
				name = strings.TrimPrefix(of(own, l.services())[0], own+"/")
				id = get(l, &v1alpha1.CloudNativeService{}, own, name).Status.CloudId
			}
			status := func(namespace string) *v1alpha1.ImportedStatus {
				if kind == "CloudNativeService" {
					return &get(l, &v1alpha1.CloudNativeService{}, namespace, name).Status.ImportedStatus
				}
				return &get(l, &v1alpha1.NetworkInterface{}, namespace, name).Status.ImportedStatus
			}
			l.events.take()
			mode := func(when, want string) {
				t.Helper()
				told := 0
				for entity, ref := range l.inv.Services(own + "/acc") {
					if ref.ID == id {
						told++
					} else if ref.Mode != "" {
						t.Errorf("%s: %s is in mode %s as well", when, entity, ref.Mode)
					}
					if ref.ID == id && ref.Mode != want {
						t.Errorf("%s: the realizer is told %q of %s; want %q", when, ref.Mode, entity, want)
					}
				}
				for _, namespace := range []string{own, foreign} {
					if st := status(namespace); told != 2 || st.Mode != want || (want != "") != (st.ModeUntil != nil) {
						t.Errorf("%s: told of %d, %s has mode %q (%s) until %v; want %q", when, told, namespace, st.Mode, st.ModeReason, st.ModeUntil, want)
					}
				}
			}
			l.setAnnotation(on, foreign, name, v1alpha1.AnnotationBreakGlass, "let me in")
			l.reconcile()
			mode("by a namespace without a say", "")
			if got := condition(status(foreign).Conditions, v1alpha1.ConditionHeeded); got != "False BreakGlassNotGranted" {
				t.Errorf("Heeded is %q", got)
			}
			l.wantEvents(name + " Warning BreakGlassNotGranted")
			l.reconcile()
			l.wantEvents()

			end := l.clock().Add(20 * time.Second)
			l.setAnnotation(on, own, name, v1alpha1.AnnotationBreakGlassUntil, end.Format(time.RFC3339))
			l.setAnnotation(on, own, name, v1alpha1.AnnotationBreakGlass, "fire")
			if wait := l.reconcile(); wait != 20*time.Second {
				t.Errorf("the next pass is in %s, the end in 20s", wait)
			}
			mode("at once", "break-glass")
			if why := status(own).ModeReason; !strings.HasPrefix(why, kind+" "+own+"/"+name+": fire") {
				t.Errorf("the reason is %q", why)
			}
			l.restart(nil)
			l.reconcile()
			mode("after a restart", "break-glass")
			l.advance(20 * time.Second)
			l.reconcile()
			mode("at the end", "")
			l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.ReleaseNamespaces = []string{foreign} })
			l.reconcile()
			if st := status(foreign); st.Mode != "break-glass" || condition(st.Conditions, v1alpha1.ConditionHeeded) != "" {
				t.Errorf("granted: mode %q, Heeded %q", st.Mode, condition(st.Conditions, v1alpha1.ConditionHeeded))
			}
		})
	}
}
