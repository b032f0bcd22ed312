package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// That an attempt changes nothing can only be seen once it has had every chance to. This is how the
// tests know:
//
//  1. After the attempt the owner edits an object of every kind that inventory or engine read and
//     that an attacker may write: the owner's selector, a VirtualMachine, a Group and a policy.
//     Objects of one kind reach the controller in the order in which they were written, so whoever
//     has seen the edit has seen the attempt.
//  2. The edits of selector and VirtualMachine are awaited first: in the status of the selector, by
//     generation, and in the labels of the ExternalEntity. The inventory works on an account in one
//     piece, so by then it has also decided about the attempt, and has told the realizer.
//  3. Only then Group and policy are edited. The plan that brings them to the cloud is made of what
//     the inventory had decided by then. The simulator must show their effect, and the status of
//     the policy must say that this version is realized on all VMs. So the account is neither
//     frozen nor behind.
//  4. Then everything is compared with what it was after the same edits before the attempt, flow by
//     flow and tag by tag. In between the guard has looked at every flow after every call that
//     changed something.
//
// The edits alternate between two forms, so that there are two pictures to compare with, and no
// edit is new to the cloud.

// The two forms of the owner's mark: the sources of two ports on two of the owner's VMs.
var (
	markPorts   = [2]int{20001, 20003}
	markSources = [2]string{"192.0.2.1", "192.0.2.3"}
)

// picture is what must not change.
type picture struct {
	verdicts []bool
	cloud    string
	objects  string
}

const ownerObjects = `
{apiVersion: v1, kind: Secret, metadata: {namespace: ns-a, name: keys}, stringData: {credentials: '{"accessKeyId": "{KEY-A}", "accessKeySecret": "{SECRET}"}', note: not a credential}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: ns-a, name: real}
spec: {deletionPolicy: Release, awsConfig: {region: [eu-west-1], endpoint: "{SIM}", secretRef: {namespace: ns-a, name: keys, key: credentials}}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-a, name: all}
spec: {accountNamespace: ns-a, accountName: real, vmSelector: [{vpcMatch: {matchID: "{VPC-A}"}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: db}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]
  ingress: [{action: Allow, from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}], ports: [{protocol: TCP, port: 5432}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: admin}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {}}]
  ingress: [{action: Allow, from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: bastion}}}], ports: [{protocol: TCP, port: 22}]}]
---
{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {namespace: ns-a, name: mark}, spec: {ipBlocks: [{cidr: 192.0.2.1/32}]}}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: mark}
spec:
  priority: 7
  appliedTo: [{externalEntitySelector: {matchExpressions: [{key: nephe.antrea.io/tag-role, operator: In, values: [web, db]}]}}]
  ingress: [{action: Allow, from: [{group: mark}], ports: [{protocol: TCP, port: 20001}]}]
`

// attackerObjects are the attacker's own, with which nothing is wrong.
const attackerObjects = `
{apiVersion: v1, kind: Secret, metadata: {namespace: ns-b, name: own}, stringData: {credentials: '{"accessKeyId": "{KEY-B}", "accessKeySecret": "{SECRET}"}'}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: ns-b, name: own}
spec: {deletionPolicy: Release, awsConfig: {region: [eu-west-1], endpoint: "{SIM}", secretRef: {namespace: ns-b, name: own, key: credentials}}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-b, name: own}
spec: {accountNamespace: ns-b, accountName: own, vmSelector: [{vpcMatch: {matchID: "{VPC-B}"}}]}
`

// attackersOwn is how many objects attackerObjects are.
const attackersOwn = 3

// objects makes the objects of a text with several documents.
func (a *arena) objects(text string, more ...string) []*unstructured.Unstructured {
	a.t.Helper()
	var out []*unstructured.Unstructured
	more = append(more, "{KEY-A}", ownerKey, "{KEY-B}", attackerKey, "{KEY-C}", commonKey, "{SECRET}", keySecret)
	for _, doc := range strings.Split(text, "\n---\n") {
		out = append(out, a.text(doc, more...))
	}
	return out
}

// settle makes both tenants' objects, waits until the owner's policies are in force, and takes the
// two pictures.
func (a *arena) settle() {
	a.t.Helper()
	a.kept = a.objects(attackerObjects)
	for _, o := range append(a.objects(ownerObjects), a.kept...) {
		a.create(o.DeepCopy())
	}
	closed := end{addr: outsideAddresses[0]}
	eventuallyNil(a.t, "the owner's policies are in force", func(context.Context) error {
		for _, vm := range []string{"web", "db", "bastion"} {
			if a.allowed(closed, vm, 443) {
				return fmt.Errorf("%s is open", vm)
			}
		}
		return nil
	})
	a.waitVMs(attackerNS, "mine", "spare")
	a.baseline()
	if n := count(a.before[0].verdicts); n == 0 || n == len(a.flows) {
		a.t.Fatalf("%d of %d flows are allowed: the policies say nothing", n, len(a.flows))
	}
	a.guard.between(a.flows, a.before[0].verdicts, a.before[0].verdicts)
	a.guard.takeViolations()
}

// baseline takes the two pictures. The first edits go through what is left of the way there.
func (a *arena) baseline() {
	a.t.Helper()
	a.before = [2]picture{}
	for range 4 {
		_, err := a.mark()
		must(a.t, err)
		eventuallyNil(a.t, "the VMs say that all is realized", a.realized)
		a.before[a.marks%2] = a.look()
	}
}

// realized returns nil once all of the owner's VMs say that every policy is realized.
func (a *arena) realized(ctx context.Context) error {
	var vms cloudv1.VirtualMachineList
	if err := a.c.client.List(ctx, &vms, client.InNamespace(ownerNS)); err != nil {
		return err
	}
	for _, vm := range vms.Items {
		if !meta.IsStatusConditionTrue(vm.Status.Conditions, cloudv1.ConditionRealized) {
			return fmt.Errorf("%s: %+v", vm.Name, vm.Status.Conditions)
		}
	}
	return nil
}

// waitVMs waits until exactly these VMs are imported into a Namespace.
func (a *arena) waitVMs(namespace string, names ...string) {
	a.t.Helper()
	var want []string
	for _, n := range names {
		want = append(want, a.id(n))
	}
	slices.Sort(want)
	eventuallyNil(a.t, "the VMs in "+namespace, func(ctx context.Context) error {
		got, err := a.vmsIn(ctx, namespace)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%v, want %v", got, want)
		}
		return err
	})
}

// vmsIn are the names of the VirtualMachines and of the VMs of ExternalEntities in a Namespace.
func (a *arena) vmsIn(ctx context.Context, namespace string) ([]string, error) {
	var vms cloudv1.VirtualMachineList
	var entities v1alpha2.ExternalEntityList
	if err := errors.Join(a.c.client.List(ctx, &vms, client.InNamespace(namespace)), a.c.client.List(ctx, &entities, client.InNamespace(namespace))); err != nil {
		return nil, err
	}
	var out []string
	for _, v := range vms.Items {
		out = append(out, v.Name)
	}
	for _, e := range entities.Items {
		out = append(out, strings.TrimPrefix(e.Name, cloudv1.EntityNamePrefix))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// mark has the owner edit what an attacker may have written, and waits until that is in force
// everywhere. The error says what does not work any more; then the picture is of how it is instead.
func (a *arena) mark() (picture, error) {
	a.t.Helper()
	a.marks++
	form := a.marks % 2
	value := fmt.Sprint("m", a.marks)
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: "all"}}
	vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: a.id("web")}}
	must(a.t, a.patch(selector, fmt.Sprintf(`{"spec": {"vmSelector": [{"vpcMatch": {"matchID": %q}}, {"vmMatch": [{"matchName": %q}]}]}}`, a.vpc[ownerCloud], value)))
	must(a.t, a.patch(vm, fmt.Sprintf(`{"spec": {"tags": {"barrier": %q}}}`, value)))
	err := inTime(a.t, markLimit, func(ctx context.Context) error {
		var entity v1alpha2.ExternalEntity
		if err := errors.Join(a.c.client.Get(ctx, client.ObjectKeyFromObject(selector), selector),
			a.c.client.Get(ctx, client.ObjectKey{Namespace: ownerNS, Name: a.entity("web")}, &entity)); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(selector.Status.Conditions, cloudv1.ConditionReady)
		if ready == nil || ready.ObservedGeneration != selector.Generation {
			return fmt.Errorf("the inventory has not seen the owner's selector: %+v", ready)
		}
		for k, v := range entity.Labels {
			if strings.HasSuffix(k, "tag-barrier") && v == value {
				return nil
			}
		}
		return fmt.Errorf("the inventory has not seen the owner's VirtualMachine: %v", entity.Labels)
	})
	if err != nil {
		return a.look(), err
	}
	group := &v1beta1.Group{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: "mark"}}
	np := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: "mark"}}
	must(a.t, a.patch(group, fmt.Sprintf(`{"spec": {"ipBlocks": [{"cidr": "%s/32"}]}}`, markSources[form])))
	must(a.t, a.patch(np, fmt.Sprintf(`[{"op": "replace", "path": "/spec/ingress/0/ports/0/port", "value": %d}]`, markPorts[form])))
	err = inTime(a.t, markLimit, func(ctx context.Context) error {
		for _, name := range []string{"web", "db"} {
			for n := range 2 {
				from := end{addr: mustAddr(markSources[n])}
				if got := a.allowed(from, name, markPorts[n]); got != (n == form) {
					return fmt.Errorf("%s reaches port %d of %s: %t; what the owner wants is not enforced", from, markPorts[n], name, got)
				}
			}
		}
		if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(np), np); err != nil {
			return err
		}
		if np.Status.Phase != v1beta1.NetworkPolicyRealized || np.Status.ObservedGeneration != np.Generation || np.Status.DesiredNodesRealized == 0 {
			return fmt.Errorf("the owner's policy is not realized: generation %d, %+v", np.Generation, np.Status)
		}
		return nil
	})
	if err != nil {
		return a.look(), err
	}
	// What the status of the VMs says follows what is done to them.
	p := a.look()
	if want := a.before[form]; want.verdicts != nil {
		_ = inTime(a.t, 5*time.Second, func(context.Context) error {
			if p = a.look(); p.objects != want.objects || p.cloud != want.cloud {
				return errors.New("not yet as before")
			}
			return nil
		})
	}
	return p, nil
}

// markLimit is how long the owner's edit may take: without an attack a second, on a machine that
// other work keeps busy many. It is half of how long one reading of an endpoint that never ends its
// answer takes, so an owner who had to wait for one of these would not be served in time.
const markLimit = time.Minute

// patch changes an object as the administrator.
func (a *arena) patch(o client.Object, text string) error {
	kind := client.RawPatch("application/merge-patch+json", []byte(text))
	if strings.HasPrefix(text, "[") {
		kind = client.RawPatch("application/json-patch+json", []byte(text))
	}
	return a.c.client.Patch(a.t.Context(), o, kind)
}

// look takes a picture.
func (a *arena) look() picture {
	a.t.Helper()
	ctx := a.t.Context()
	p := picture{verdicts: observe(a.server.World(), a.flows), cloud: a.state(ownerCloud)}
	var lines []string
	note := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	var accounts cloudv1.CloudProviderAccountList
	var selectors cloudv1.CloudEntitySelectorList
	var vms cloudv1.VirtualMachineList
	var entities v1alpha2.ExternalEntityList
	for _, list := range []client.ObjectList{&accounts, &selectors, &vms, &entities} {
		must(a.t, a.c.client.List(ctx, list, client.InNamespace(ownerNS)))
	}
	conditions := func(of string, list []metav1.Condition) {
		for _, c := range list {
			note("%s: %s=%s %s", of, c.Type, c.Status, c.Reason)
		}
	}
	for _, o := range accounts.Items {
		note("account %s %s %s error %q", o.Name, o.UID, o.Annotations, o.Status.Error)
		conditions("account "+o.Name, o.Status.Conditions)
	}
	for _, o := range selectors.Items {
		note("selector %s %s %s mode %q error %q", o.Name, o.UID, o.Annotations, o.Spec.Mode, o.Status.Error)
		conditions("selector "+o.Name, o.Status.Conditions)
	}
	for _, o := range vms.Items {
		note("VM %s %s %s mode %q (%s) %s", o.Name, o.UID, o.Annotations, o.Status.Mode, o.Status.ModeReason, o.Status.PolicySummary)
		conditions("VM "+o.Name, o.Status.Conditions)
		for _, x := range o.Status.Policies {
			note("VM %s: policy %s/%s %s %s", o.Name, x.Namespace, x.Name, x.Phase, x.Message)
		}
	}
	for _, o := range entities.Items {
		for k := range o.Labels {
			if strings.HasSuffix(k, "tag-barrier") {
				delete(o.Labels, k)
			}
		}
		note("entity %s %s %s %v %+v", o.Name, o.UID, o.Annotations, o.Labels, o.Spec)
	}
	slices.Sort(lines)
	p.objects = strings.Join(lines, "\n")
	return p
}

// leaked are the owner's VMs that are imported into ns-b.
func (a *arena) leaked() (out []string) {
	got, err := a.vmsIn(a.t.Context(), attackerNS)
	must(a.t, err)
	for _, name := range []string{"web", "db", "bastion"} {
		if slices.Contains(got, a.id(name)) {
			out = append(out, name)
		}
	}
	return out
}

// unharmed waits until everything that was done has had its chance, and reports what of the owner's
// has changed. Then it returns false.
func (a *arena) unharmed(t *testing.T) bool {
	t.Helper()
	p, err := a.mark()
	if err != nil {
		t.Errorf("THE OWNER'S ACCOUNT DOES NOT WORK ANY MORE: %v", err)
	}
	harm := a.harm(p, err == nil)
	for _, w := range harm {
		t.Error(w)
	}
	return err == nil && len(harm) == 0
}

// sameNow reports what of the owner's has changed so far. It is for attempts that were refused, and
// which the controller hence never saw.
func (a *arena) sameNow(t *testing.T) {
	t.Helper()
	for _, w := range a.harm(a.look(), true) {
		t.Error(w)
	}
}

// harm compares a picture with the one before.
func (a *arena) harm(p picture, whole bool) (out []string) {
	want := a.before[a.marks%2]
	if n, text := differences(a.flows, want.verdicts, p.verdicts); n > 0 {
		out = append(out, fmt.Sprintf("%d FLOWS OF THE OWNER'S VMS HAVE CHANGED:%s", n, text))
	}
	if n, text := a.guard.takeViolations(); n > 0 {
		out = append(out, fmt.Sprintf("flows of the owner's VMs changed %d times on the way:\n  %s", n, text))
	}
	if d := otherLines(want.cloud, p.cloud); d != "" && whole {
		out = append(out, "the owner's cloud account has changed (-before +after):\n"+d)
	}
	if d := otherLines(want.objects, p.objects); d != "" {
		out = append(out, "the owner's objects have changed (-before +after):\n"+d)
	}
	return out
}

// otherLines are the lines that only one of two texts has.
func otherLines(before, after string) string {
	var out []string
	b, c := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range b {
		if !slices.Contains(c, line) {
			out = append(out, "  - "+line)
		}
	}
	for _, line := range c {
		if !slices.Contains(b, line) {
			out = append(out, "  + "+line)
		}
	}
	return strings.Join(out, "\n")
}

// tidy takes back, as the administrator, what an attempt has left in the attacker's Namespace: what
// is kept is as it was, and all else is gone.
func (a *arena) tidy() {
	a.t.Helper()
	ctx := a.t.Context()
	kept := map[string]*unstructured.Unstructured{}
	for _, o := range a.kept {
		kept[o.GetKind()+o.GetName()] = o
	}
	for _, kind := range []struct{ version, kind string }{
		{"crd.antrea.io/v1beta1", "NetworkPolicy"}, {"crd.antrea.io/v1beta1", "Group"}, {"crd.cloud.antrea.io/v1alpha1", "CloudEntitySelector"},
		{"crd.cloud.antrea.io/v1alpha1", "CloudProviderAccount"}, {"networking.k8s.io/v1", "NetworkPolicy"}, {"v1", "Secret"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kind.version)
		list.SetKind(kind.kind + "List")
		must(a.t, a.c.client.List(ctx, list, client.InNamespace(attackerNS)))
		for i := range list.Items {
			o := &list.Items[i]
			want := kept[o.GetKind()+o.GetName()]
			if want != nil && want.GetAPIVersion() != kind.version {
				want = nil
			}
			switch {
			case want == nil:
				must(a.t, client.IgnoreNotFound(a.c.client.Delete(ctx, o)))
				continue
			case kind.kind == "Secret":
				must(a.t, a.c.client.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(jsonText(map[string]any{"stringData": want.Object["stringData"]})))))
			case !o.GetDeletionTimestamp().IsZero():
				// It comes again once it is gone.
				eventuallyNil(a.t, o.GetName()+" is gone", func(ctx context.Context) error {
					if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); !apierrors.IsNotFound(err) {
						return fmt.Errorf("it is there, or %w", errOr(err))
					}
					return nil
				})
				continue
			case jsonText(o.Object["spec"]) != jsonText(defaulted(want, o)) || len(o.GetAnnotations()) > 0:
				must(a.t, retry.RetryOnConflict(untilWritten, func() error {
					if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
						return err
					}
					o.Object["spec"] = want.Object["spec"]
					o.SetAnnotations(nil)
					return a.c.client.Update(ctx, o)
				}))
			}
			delete(kept, o.GetKind()+o.GetName())
		}
	}
	for _, o := range kept {
		must(a.t, client.IgnoreAlreadyExists(a.c.client.Create(ctx, o.DeepCopy())))
	}
	var vms cloudv1.VirtualMachineList
	must(a.t, a.c.client.List(ctx, &vms, client.InNamespace(attackerNS)))
	for i := range vms.Items {
		vm := &vms.Items[i]
		_, broken := vm.Annotations[cloudv1.AnnotationBreakGlass]
		if len(vm.Finalizers) > 0 || len(vm.Spec.Tags) > 0 || broken {
			must(a.t, client.IgnoreNotFound(a.patch(vm, `{"metadata": {"finalizers": null, "annotations": {"nephele.io/break-glass": null}}, "spec": {"tags": null}}`)))
		}
	}
}

// restore is tidy after an attempt that did harm, or a change of what is kept: it waits until the
// owner's estate is as before, and stops the test if that cannot be had, for what comes after would
// prove nothing.
func (a *arena) restore() {
	a.t.Helper()
	a.tidy()
	vms := []string{"mine", "spare"}
	if len(a.kept) > attackersOwn {
		vms = append(vms, "web", "db", "bastion")
	}
	a.waitVMs(attackerNS, vms...)
	var last picture
	err := inTime(a.t, markLimit, func(ctx context.Context) error {
		p, err := a.mark()
		if err != nil {
			return err
		}
		last = p
		return errors.Join(a.realized(ctx), sameAs(a.before[a.marks%2], p, a.flows))
	})
	if err != nil {
		a.lost = true
		a.t.Fatalf("after the attempt was taken back: %v", err)
	}
	if d := otherLines(a.before[a.marks%2].cloud, last.cloud); d != "" {
		a.t.Errorf("the attempt was taken back, and the owner's cloud account is another than before:\n%s", d)
		a.baseline()
	}
	a.guard.takeViolations()
}

// sameAs compares all but what the cloud account looks like in detail.
func sameAs(want, got picture, flows []flow) error {
	if n, text := differences(flows, want.verdicts, got.verdicts); n > 0 {
		return fmt.Errorf("%d flows have changed:%s", n, text)
	}
	if d := otherLines(want.objects, got.objects); d != "" {
		return fmt.Errorf("the owner's objects have changed:\n%s", d)
	}
	return nil
}

// defaulted is the specification of an object as the API server keeps it, with what it fills in.
func defaulted(want, have *unstructured.Unstructured) any {
	spec, _, _ := unstructured.NestedMap(want.Object, "spec")
	if n, found, _ := unstructured.NestedFieldNoCopy(have.Object, "spec", "pollIntervalInSeconds"); found {
		spec["pollIntervalInSeconds"] = n
	}
	return spec
}

// printAll shows what the accounts and selectors of both tenants say.
func (a *arena) printAll() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, list := range []client.ObjectList{&cloudv1.CloudProviderAccountList{}, &cloudv1.CloudEntitySelectorList{}} {
		if err := a.c.client.List(ctx, list); err != nil {
			a.t.Log(err)
			return
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			o.(client.Object).SetManagedFields(nil)
			raw, err := yaml.Marshal(o)
			a.t.Logf("%s", raw)
			return err
		})
	}
}

// inTime waits until ok returns nil, and returns its last error if it does not in time.
func inTime(t *testing.T, limit time.Duration, ok func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last error
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		// An attempt that the end of the time has cut off says nothing.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not after %s: %w", limit, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// soon is inTime with all patience, for what must come and does not say how soon.
func soon(t *testing.T, ok func(ctx context.Context) error) error {
	return inTime(t, waitLimit, ok)
}

// eventuallyNil fails the test if ok never returns nil.
func eventuallyNil(t *testing.T, what string, ok func(ctx context.Context) error) {
	t.Helper()
	if err := soon(t, ok); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
