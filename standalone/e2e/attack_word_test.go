package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// reasonNotGranted is the reason of all that lacks a grant.
const reasonNotGranted = "NotGranted"

// ownersWord: what an administrator's tool applies has passed admission, whatever its author. Then
// the word of the account's owner decides: which Namespaces may select VMs of the account, and
// whose modes and broken glass count.
func (a *arena) ownersWord(t *testing.T) {
	t.Run("nobody else may select", func(t *testing.T) {
		a.within(t)
		a.allow(`{"allowedNamespaces": {}, "releaseNamespaces": []}`)
		a.combinations(t, true, triedModes()...)
	})
	t.Run("a Namespace that is not named", func(t *testing.T) {
		a.within(t)
		a.allow(`{"allowedNamespaces": {"names": ["ns-c"], "selector": {"matchLabels": {"tenant": "c"}}}, "releaseNamespaces": ["ns-c"]}`)
		a.combinations(t, true, cloudv1.ModePlan)
	})
	t.Run("a word without a grant", func(t *testing.T) {
		a.within(t)
		a.allow(`{"allowedNamespaces": {"names": ["ns-c"]}, "releaseNamespaces": ["ns-b"]}`)
		a.combinations(t, true, cloudv1.ModeReleased)
	})
	t.Run("may select without a word on modes", func(t *testing.T) {
		a.within(t)
		a.allow(`{"allowedNamespaces": {"names": ["ns-b"]}, "releaseNamespaces": ["ns-c"]}`)
		a.combinations(t, false, triedModes()...)
	})
	t.Run("a grant that is taken back", a.takenBack)
	t.Run("two tenants without a word", a.twoWithoutWord)
	t.Run("with the word it works", a.withWord)
}

// allow sets what the owner's account says about other Namespaces.
func (a *arena) allow(spec string) {
	a.t.Helper()
	cpa := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: accountName}}
	must(a.t, a.patch(cpa, `{"spec": {"allowedNamespaces": null, "releaseNamespaces": null}}`))
	must(a.t, a.patch(cpa, `{"spec": `+spec+`}`))
	// Nobody may have said a word on the owner's own conditions because of it.
	a.restore()
}

// combinations lets a tool apply selectors of ns-b with every mode, with and without broken glass,
// and if they are not granted at all with policies that would open and close everything.
func (a *arena) combinations(t *testing.T, refused bool, modes ...cloudv1.EnforcementMode) {
	if refused {
		for _, text := range []string{openPolicies, strings.ReplaceAll(strings.ReplaceAll(openPolicies, "Allow", "Drop"), "name: open", "name: closed")} {
			a.create(a.text(text))
		}
	}
	well := true
	for _, mode := range modes {
		for _, glass := range []bool{false, true} {
			s := a.text(importedSelector)
			s.SetName(fmt.Sprintf("attack-%s-%t", mode, glass))
			selects(accountName, mode)(s)
			if glass {
				annotate(s, cloudv1.AnnotationBreakGlass, "mine")
			}
			a.create(s)
			what := fmt.Sprintf("mode %q, broken glass %t", mode, glass)
			if err := soon(t, func(ctx context.Context) error { return a.answered(ctx, s, refused, mode, glass) }); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			p, err := a.mark()
			if err != nil {
				t.Errorf("%s: THE OWNER'S ACCOUNT DOES NOT WORK ANY MORE: %v", what, err)
			}
			harm := a.harm(p, err == nil)
			for _, w := range harm {
				t.Errorf("%s: %s", what, w)
			}
			vms := a.leaked()
			if refused && len(vms) > 0 {
				t.Errorf("%s: THE OWNER'S VMS ARE IMPORTED: %v", what, vms)
			}
			well = well && err == nil && len(harm) == 0 && !(refused && len(vms) > 0)
			must(t, client.IgnoreNotFound(a.c.client.Delete(t.Context(), s)))
		}
	}
	if well {
		a.tidy()
	} else {
		a.restore()
	}
}

// answered returns nil once a selector, or what it has imported, says what does not count.
func (a *arena) answered(ctx context.Context, s *unstructured.Unstructured, refused bool, mode cloudv1.EnforcementMode, glass bool) error {
	var live cloudv1.CloudEntitySelector
	if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(s), &live); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(live.Status.Conditions, cloudv1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != live.Generation:
		return errors.New("the selector was not looked at")
	case refused && (ready.Status != metav1.ConditionFalse || ready.Reason != reasonNotGranted):
		return fmt.Errorf("not refused: %+v", ready)
	case refused && !(strings.Contains(ready.Message, "allowedNamespaces") && strings.Contains(ready.Message, attackerNS)):
		return fmt.Errorf("the message does not say how the grant is given: %s", ready.Message)
	case !refused && ready.Status != metav1.ConditionTrue:
		return fmt.Errorf("refused: %+v", ready)
	case !refused && (glass || mode == cloudv1.ModePlan || mode == cloudv1.ModeReleased):
		return a.saysInB(ctx, "releaseNamespaces")
	}
	return nil
}

// takenBack: what was imported goes when the owner takes the grant back, and with it what its
// policies have opened.
func (a *arena) takenBack(t *testing.T) {
	a.within(t)
	cpa := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: accountName}}
	must(t, a.patch(cpa, `{"spec": {"allowedNamespaces": {"names": ["ns-b"]}}}`))
	a.create(a.text(importedSelector))
	open := &v1beta1.NetworkPolicy{}
	a.create(a.text(openPolicies))
	a.guard.between(a.flows, make([]bool, len(a.flows)), observe(a.server.World(), a.flows))
	outside := end{addr: mustAddr("8.8.8.8")}
	eventuallyNil(t, "with the grant the attacker's policy is in force", func(ctx context.Context) error {
		if !a.allowed(outside, "db", 443) {
			return errors.New("the VM is closed")
		}
		return a.c.client.Get(ctx, client.ObjectKey{Namespace: attackerNS, Name: "open"}, open)
	})
	must(t, a.patch(cpa, `{"spec": {"allowedNamespaces": {"names": null}}}`))
	// All flows, not one: the guard below takes each that is still open on the way for a breach.
	if err := soon(t, func(context.Context) error {
		if n, text := differences(a.flows, a.before[0].verdicts, observe(a.server.World(), a.flows)); n > 0 {
			return fmt.Errorf("%d flows are not as before the grant:%s", n, text)
		}
		return nil
	}); err != nil {
		t.Errorf("WHAT A GRANT THAT WAS TAKEN BACK HAS OPENED STAYS OPEN: %v", err)
	}
	a.guard.takeViolations()
	a.guard.between(a.flows, a.before[0].verdicts, a.before[0].verdicts)
	a.unharmed(t)
	if vms := a.leaked(); len(vms) > 0 {
		t.Errorf("the VMs stay imported: %v", vms)
	}
	a.restore()
}

// twoWithoutWord: account and selectors in Namespaces of their own, as in Nephe's samples, and two
// tenants that select the same VM. The owner of the account has given neither of them a word, so
// neither freezes or releases what the other one enforces.
func (a *arena) twoWithoutWord(t *testing.T) {
	a.within(t)
	common := strings.ReplaceAll(`
{apiVersion: v1, kind: Namespace, metadata: {name: ns-common}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: ns-common, name: keys}, stringData: {credentials: '{"accessKeyId": "{KEY-C}", "accessKeySecret": "{SECRET}"}'}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: ns-common, name: common}
spec: {deletionPolicy: Release, awsConfig: {region: [eu-west-1], endpoint: "{SIM}", secretRef: {namespace: ns-common, name: keys, key: credentials}}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-c, name: common}
spec: {accountNamespace: ns-common, accountName: common, vmSelector: [{vpcMatch: {matchID: "{VPC-C}"}}]}
---
{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-c, name: common}, spec: {priority: 5, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Allow, ports: [{protocol: TCP, port: 1}]}]}}
`, "{VPC-C}", a.vpc[commonCloud])
	a.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns-c"}})
	for _, o := range a.objects(strings.TrimSpace(common)) {
		a.create(o)
	}
	np := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-c", Name: "common"}}
	port, outside := 1, end{addr: mustAddr("8.8.8.8")}
	enforced := func(what string) {
		t.Helper()
		port++
		must(t, a.patch(np, fmt.Sprintf(`[{"op": "replace", "path": "/spec/ingress/0/ports/0/port", "value": %d}]`, port)))
		if err := inTime(t, markLimit, func(context.Context) error {
			for p, want := range map[int]bool{port: true, port - 1: false, 443: false} {
				if got := a.allowed(outside, "common", p); got != want {
					return fmt.Errorf("port %d is open: %t", p, got)
				}
			}
			return nil
		}); err != nil {
			t.Errorf("%s: WHAT ONE TENANT WANTS IS NOT ENFORCED: %v", what, err)
		}
	}
	enforced("alone")
	for _, mode := range triedModes() {
		for _, glass := range []bool{false, true} {
			s := a.text(importedSelector)
			set(s, "ns-common", "spec", "accountNamespace")
			set(s, "common", "spec", "accountName")
			set(s, string(mode), "spec", "mode")
			set(s, []any{map[string]any{"tagMatch": []any{map[string]any{"key": "role"}}}}, "spec", "vmSelector")
			s.SetName(fmt.Sprintf("common-%s-%t", mode, glass))
			if glass {
				annotate(s, cloudv1.AnnotationBreakGlass, "mine")
			}
			a.create(s)
			what := fmt.Sprintf("mode %q, broken glass %t", mode, glass)
			if err := soon(t, func(ctx context.Context) error { return a.answered(ctx, s, false, "", false) }); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			enforced(what)
			must(t, a.c.client.Delete(t.Context(), s))
		}
	}
	for _, o := range a.objects(strings.TrimSpace(common)) {
		if o.GetKind() == "CloudProviderAccount" || o.GetKind() == "CloudEntitySelector" || o.GetKind() == "NetworkPolicy" {
			must(t, a.c.client.Delete(t.Context(), o))
		}
	}
	a.restore()
}

// withWord shows that all of it works with the grants: else the tables would prove nothing.
func (a *arena) withWord(t *testing.T) {
	a.within(t)
	a.allow(`{"allowedNamespaces": {"selector": {"matchLabels": {"kubernetes.io/metadata.name": "ns-b"}}}, "releaseNamespaces": ["ns-b"]}`)
	a.create(
		a.text(
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: ns-a, name: use}, rules: [{apiGroups: [crd.cloud.antrea.io], resources: [cloudprovideraccounts], resourceNames: [real], verbs: [use]}]}",
		),
	)
	a.bind(ownerNS, mallory, "Role", "use")
	who := a.people[mallory]
	s := a.text(importedSelector)
	eventuallyNil(t, "with the verb use the selector is admitted", func(ctx context.Context) error { return client.IgnoreAlreadyExists(who.Create(ctx, s.DeepCopy())) })
	a.waitVMs(attackerNS, "mine", "spare", "web", "db", "bastion")
	a.guard.between(nil, nil, nil)
	outside := end{addr: mustAddr("8.8.8.8")}
	open := func(what string, want bool) {
		t.Helper()
		if err := inTime(t, markLimit, func(context.Context) error {
			if got := a.allowed(outside, "db", 443); got != want {
				return fmt.Errorf("the VM is open: %t", got)
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	mode := func(what, want string) {
		t.Helper()
		if err := soon(t, func(ctx context.Context) error {
			var vm cloudv1.VirtualMachine
			err := a.c.client.Get(ctx, client.ObjectKey{Namespace: ownerNS, Name: a.id("db")}, &vm)
			if err == nil && vm.Status.Mode != want {
				err = fmt.Errorf("mode %q (%s)", vm.Status.Mode, vm.Status.ModeReason)
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	change := func(o *unstructured.Unstructured, text string) {
		t.Helper()
		if err := who.Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	must(t, who.Create(t.Context(), a.text(openPolicies)))
	open("her policy", true)
	must(t, who.Delete(t.Context(), a.text(openPolicies)))
	open("without her policy", false)
	change(s, `{"metadata": {"annotations": {"nephele.io/break-glass": "mine"}}}`)
	open("her broken glass", true)
	change(s, `{"metadata": {"annotations": {"nephele.io/break-glass": null}}}`)
	open("her mended glass", false)
	change(s, `{"spec": {"mode": "plan"}}`)
	mode("her mode plan", "plan")
	change(s, `{"spec": {"mode": "released"}}`)
	open("her mode released", true)
	change(s, `{"spec": {"mode": "enforce"}}`)
	open("her mode enforce", false)
	vm := a.text(`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-b, name: "{DB}"}}`)
	change(vm, `{"metadata": {"annotations": {"nephele.io/break-glass": "mine"}}}`)
	open("her broken glass of one VM", true)
	change(vm, `{"metadata": {"annotations": {"nephele.io/break-glass": null}}}`)
	open("her mended glass of one VM", false)
	mode("mended", "")
	a.guard.between(a.flows, a.before[0].verdicts, a.before[0].verdicts)
	cpa := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: accountName}}
	must(t, a.patch(cpa, `{"spec": {"allowedNamespaces": null, "releaseNamespaces": null}}`))
	a.rebase()
}

// rebase is restore after the owner's interfaces were released on purpose: they are held by other
// groups now.
func (a *arena) rebase() {
	a.t.Helper()
	a.tidy()
	a.waitVMs(attackerNS, "mine", "spare")
	verdicts := a.before[0].verdicts
	a.baseline()
	if n, text := differences(a.flows, verdicts, a.before[0].verdicts); n > 0 {
		a.lost = true
		a.t.Fatalf("%d flows are others than before:%s", n, text)
	}
	a.guard.takeViolations()
}

// grantsWork shows for each row of the table of attempts that with the grant that its refusal names
// it is admitted and works.
func (a *arena) grantsWork(t *testing.T) {
	ctx, who := t.Context(), a.people[mallory]
	t.Run("her own objects", func(t *testing.T) {
		a.within(t)
		for _, o := range a.objects(attackerObjects) {
			must(t, client.IgnoreNotFound(who.Delete(ctx, o)))
			eventuallyNil(t, "she makes them herself", func(ctx context.Context) error {
				if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the former one is there: %w", errOr(err))
				}
				return nil
			})
		}
		for _, o := range a.objects(attackerObjects) {
			must(t, who.Create(ctx, o))
		}
		a.waitVMs(attackerNS, "mine", "spare")
	})
	t.Run("her own account with her own policy", func(t *testing.T) {
		a.within(t)
		must(
			t,
			who.Create(
				ctx,
				a.text(
					"{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: close}, spec: {priority: 1, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Drop}]}}",
				),
			),
		)
		eventuallyNil(t, "it is enforced", func(context.Context) error {
			if a.allowed(end{addr: mustAddr("8.8.8.8")}, "mine", 443) {
				return errors.New("the VM is open")
			}
			return nil
		})
		vm := a.text(`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-b, name: "{MINE}"}}`)
		must(t, who.Patch(ctx, vm, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"nephele.io/break-glass": "mine"}}}`))))
		eventuallyNil(t, "and her glass breaks", func(context.Context) error {
			if !a.allowed(end{addr: mustAddr("8.8.8.8")}, "mine", 443) {
				return errors.New("the VM is closed")
			}
			return nil
		})
	})
	t.Run("get on a foreign Secret", func(t *testing.T) {
		a.within(t)
		a.create(
			a.text(
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: ns-a, name: read}, rules: [{apiGroups: [''], resources: [secrets], resourceNames: [keys], verbs: [get]}]}",
			),
		)
		a.bind(ownerNS, mallory, "Role", "read")
		account := a.text(attackAccount)
		refersTo("keys", "credentials")(account)
		eventuallyNil(t, "it is admitted", func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(who.Create(ctx, account.DeepCopy()))
		})
		eventuallyNil(t, "it works", func(ctx context.Context) error {
			var cpa cloudv1.CloudProviderAccount
			if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(account), &cpa); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(cpa.Status.Conditions, cloudv1.ConditionReady) || cpa.Status.CloudAccountID != ownerCloud {
				return fmt.Errorf("%+v", cpa.Status)
			}
			return nil
		})
		a.unharmed(t)
	})
	t.Run("use of a tier", func(t *testing.T) {
		a.within(t)
		a.create(
			a.text(
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: use-restricted}, rules: [{apiGroups: [crd.antrea.io], resources: [tiers], resourceNames: [restricted], verbs: [use]}]}",
			),
		)
		a.create(
			a.text(
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: use-restricted}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use-restricted}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]}",
			),
		)
		eventuallyNil(t, "it is admitted", func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(
				who.Create(
					ctx,
					a.text(
						"{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: first}, spec: {tier: restricted, priority: 1, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Drop}]}}",
					),
				),
			)
		})
	})
	a.restore()
	t.Run("an insider's labels", a.insider)
}

// insider is a person who may break the glass of the owner's VMs, and nothing else. The tags that
// she gives to VMs do not make them what the cloud does not say they are.
func (a *arena) insider(t *testing.T) {
	a.within(t)
	a.bind(ownerNS, "operator", "ClusterRole", "nephele-break-glass-operator")
	web := end{nic: a.vms["web"].ID, vpc: a.vpc[ownerCloud]}
	closed := func(context.Context) error {
		if a.allowed(web, "db", 22) {
			return errors.New("web reaches port 22 of db")
		}
		return nil
	}
	eventuallyNil(t, "only the bastion reaches port 22", closed)
	vm := a.text(`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-a, name: "{WEB}"}}`)
	must(t, a.as("operator").Patch(t.Context(), vm, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"tags": {"role": "bastion"}}}`))))
	for _, o := range []string{openPolicies, attackAccount} {
		if err := a.as("operator").Create(t.Context(), a.text(o)); !refusal(err) {
			t.Errorf("an operator may create %s: %v", o, err)
		}
	}
	// mark writes spec.tags of the same VM, and keeps what is there.
	_, err := a.mark()
	must(t, err)
	_, err = a.mark()
	must(t, err)
	if err := closed(t.Context()); err != nil {
		t.Errorf("A TAG THAT A PERSON HAS WRITTEN MAKES A VM A BASTION: %v", err)
	}
	// As the owner may well want: with the account's word the same tag counts.
	cpa := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: accountName}}
	must(t, a.patch(cpa, `{"spec": {"userTags": "Merge"}}`))
	eventuallyNil(t, "with userTags: Merge it does", func(ctx context.Context) error {
		if closed(ctx) == nil {
			return errors.New("web does not reach port 22 of db")
		}
		return nil
	})
	must(t, a.patch(cpa, `{"spec": {"userTags": null}}`))
	must(t, a.patch(&cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: a.id("web")}}, `{"spec": {"tags": null}}`))
	a.rebase()
}

// TestGrantsAreShipped: the roles and the admission policies that the tables speak about are there,
// in the manifests and in "nephele up".
func TestGrantsAreShipped(t *testing.T) {
	t.Parallel()
	var names []string
	for _, o := range built(t, manifests) {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	for _, p := range personas {
		if !slices.Contains(names, "ClusterRole nephele-"+p) {
			t.Errorf("config/ has no ClusterRole nephele-%s", p)
		}
	}
	count := func(names []string, kind string) (n int) {
		for _, name := range names {
			if strings.HasPrefix(name, kind+" ") {
				n++
			}
		}
		return n
	}
	policies, bindings := count(names, "ValidatingAdmissionPolicy"), count(names, "ValidatingAdmissionPolicyBinding")
	if policies < 4 || bindings < policies {
		t.Errorf("config/ has %d admission policies and %d bindings", policies, bindings)
	}
	c := pooledCluster(t)
	for kind, version := range map[string]string{"ClusterRole": "rbac.authorization.k8s.io/v1", "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
		"ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(kind + "List")
		must(t, c.client.List(t.Context(), list))
		var there []string
		for _, o := range list.Items {
			there = append(there, kind+" "+o.GetName())
		}
		for _, name := range names {
			if k, short, _ := strings.Cut(
				name,
				" ",
			); k == kind && strings.HasPrefix(short, "nephele") && !strings.HasPrefix(short, "nephele-controller") && short != "nephele-metrics-reader" && short != "nephele-agent" &&
				short != "nephele-leader" && // it is about Pods of the controller, which are none here
				!slices.Contains(there, name) {
				t.Errorf("nephele up does not install %s", name)
			}
		}
	}
}
