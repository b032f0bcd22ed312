package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/tier"
)

// attempt is one row of the table: something that a person with rights in ns-b tries.
type attempt struct {
	name string
	do   func(ctx context.Context, c client.Client) error
	// by are the personas of which one is enough; empty means that nobody may, not even with all of
	// them together.
	by []string
	// either says that it does not matter whether those are refused.
	either bool
	// answer says that only the answer counts: another row has the same effect.
	answer bool
	// missing is what the refusal must name for somebody with all personas.
	missing []string
	// then is what follows if the attempt is not refused, to make the most of it. It may fail.
	then []*unstructured.Unstructured
	// says returns nil once the controller has said what it makes of an attempt that is not
	// refused, else what is missing.
	says func(ctx context.Context) error
}

// anyway are attempts that every user with "edit" may make.
var anyway = personas

// ways returns the ways of writing an object. base is one that exists, nil if changing it is not
// the point; change makes the attempt of it.
func (a *arena) ways(
	base *unstructured.Unstructured,
	fresh *unstructured.Unstructured,
	change func(*unstructured.Unstructured),
) map[string]func(context.Context, client.Client) error {
	owner := client.FieldOwner("attack")
	apply := func(o *unstructured.Unstructured) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			sent := o.DeepCopy()
			change(sent)
			return c.Patch(ctx, sent, client.RawPatch(types.ApplyPatchType, []byte(jsonText(sent.Object))), owner, client.ForceOwnership)
		}
	}
	out := map[string]func(context.Context, client.Client) error{}
	if fresh != nil {
		out["create"] = func(ctx context.Context, c client.Client) error {
			o := fresh.DeepCopy()
			change(o)
			return c.Create(ctx, o)
		}
		out["generateName"] = func(ctx context.Context, c client.Client) error {
			o := fresh.DeepCopy()
			change(o)
			o.SetGenerateName(o.GetName() + "-")
			o.SetName("")
			return c.Create(ctx, o)
		}
		out["apply a new one"] = apply(fresh)
	}
	if base == nil {
		return out
	}
	live := func(ctx context.Context) (*unstructured.Unstructured, error) {
		o := base.DeepCopy()
		err := a.c.client.Get(ctx, client.ObjectKeyFromObject(base), o)
		return o, err
	}
	out["update"] = func(ctx context.Context, c client.Client) error {
		// The controller writes the status of the same object.
		return retry.RetryOnConflict(untilWritten, func() error {
			o, err := live(ctx)
			if err != nil {
				return err
			}
			change(o)
			return c.Update(ctx, o)
		})
	}
	out["merge patch"] = func(ctx context.Context, c client.Client) error {
		o, err := live(ctx)
		if err != nil {
			return err
		}
		old := o.DeepCopy()
		change(o)
		return c.Patch(ctx, o, client.MergeFrom(old))
	}
	out["JSON patch"] = func(ctx context.Context, c client.Client) error {
		o, err := live(ctx)
		if err != nil {
			return err
		}
		change(o)
		ops := []map[string]any{{"op": "replace", "path": "/spec", "value": o.Object["spec"]}}
		if o.GetAnnotations() != nil {
			ops = append(ops, map[string]any{"op": "add", "path": "/metadata/annotations", "value": o.GetAnnotations()})
		}
		return c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, []byte(jsonText(ops))))
	}
	out["apply"] = apply(base)
	return out
}

// try makes one attempt: only for the sake of the answer in the name of each persona, and in
// earnest as mallory, who has them all.
func (a *arena) try(t *testing.T, row attempt) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, p := range personas {
		err := row.do(ctx, client.NewDryRunClient(a.people[p]))
		switch may := slices.Contains(row.by, p); {
		case may && row.either && (err == nil || refusal(err)):
		case may && err != nil:
			t.Errorf("a person with %s is refused: %v", p, err)
		case !may && err == nil:
			t.Errorf("A PERSON WITH %s IS NOT REFUSED", p)
		case err != nil && !refusal(err):
			t.Errorf("a person with %s: the attempt fails for another reason: %v", p, err)
		}
	}
	who := a.people[mallory]
	if row.answer {
		who = client.NewDryRunClient(who)
	}
	err := row.do(ctx, who)
	switch {
	case err == nil && len(row.by) == 0:
		t.Error("NOT REFUSED")
	case err != nil && len(row.by) > 0 && !(row.either && refusal(err)):
		t.Errorf("refused: %v", err)
	case err != nil:
		for _, word := range row.missing {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the refusal does not name %q: %v", word, err)
			}
		}
	}
	if err != nil || row.answer {
		a.sameNow(t)
		return
	}
	for _, o := range row.then {
		_ = a.people[mallory].Create(ctx, o.DeepCopy())
	}
	a.mostOf(t, len(row.by) == 0)
	if row.says != nil {
		if err := soon(t, row.says); err != nil {
			t.Errorf("the controller does not say what is missing: %v", err)
		}
	}
	well := a.unharmed(t)
	if vms := a.leaked(); len(vms) > 0 && len(a.kept) == attackersOwn {
		t.Errorf("THE OWNER'S VMS ARE IMPORTED INTO THE ATTACKER'S NAMESPACE: %v", vms)
		well = false
	}
	if well {
		a.tidy()
	} else {
		a.restore()
	}
}

// mostOf gives what should have been refused the time to do its worst: whatever mallory's accounts
// and selectors find must be found, and what her policies ask for be enforced or refused.
func (a *arena) mostOf(t *testing.T, breach bool) {
	if !breach {
		return
	}
	_ = inTime(t, 3*time.Second, func(ctx context.Context) error {
		if n, _ := differences(a.flows, a.before[0].verdicts, observe(a.server.World(), a.flows)); n == 0 && len(a.leaked()) == 0 {
			return errors.New("no harm so far")
		}
		return nil
	})
}

// refusal says whether an error is one of somebody who may not.
func refusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// within makes a test the one that the arena reports to, until it ends.
func (a *arena) within(t *testing.T) {
	parent := a.t
	a.t = t
	t.Cleanup(func() { a.t = parent })
}

// forms leaves of each attempt one way to write it, the one that is made in earnest. In what ways
// else an object may be written TestAccountsNeedTheSecret, TestSelectorsNeedTheAccount,
// TestBreakGlassNeedsTheVerb and TestTiersThatAskForIt of the control plane try at each commit.
func forms(rows []attempt) []attempt {
	if tier.Long() {
		return rows
	}
	at := map[string]int{}
	var out []attempt
	for _, r := range rows {
		form := r.name
		if i := strings.LastIndex(form, "/"); i >= 0 {
			form = form[:i]
		}
		switch i, seen := at[form]; {
		case !seen:
			at[form] = len(out)
			out = append(out, r)
		case out[i].answer && !r.answer:
			out[i] = r
		}
	}
	return out
}

// table makes all attempts of a list. given is what an administrator, or a tool that acts for one,
// has put there before.
func (a *arena) table(t *testing.T, rows []attempt, given ...*unstructured.Unstructured) {
	a.within(t)
	if len(given) > 0 {
		a.kept = append(a.kept[:attackersOwn:attackersOwn], given...)
		a.restore()
		defer func() {
			a.kept = a.kept[:attackersOwn]
			if !a.lost {
				a.restore()
			}
		}()
	}
	for _, row := range forms(rows) {
		t.Run(row.name, func(t *testing.T) {
			a.within(t)
			a.try(t, row)
		})
		if a.lost {
			t.Fatal("the owner's estate is not what it was: the other attempts would prove nothing")
		}
	}
}

func sortedNamesOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// openPolicies allow everything to all that is in ns-b, in the order of strength.
const openPolicies = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-b, name: open}
spec:
  priority: 1
  tier: platform
  appliedTo: [{externalEntitySelector: {}}]
  ingress: [{action: Allow}]
  egress: [{action: Allow}]
`

const attackAccount = `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: ns-b, name: attack}
spec: {deletionPolicy: Release, awsConfig: {region: [eu-west-1], endpoint: "{SIM}", secretRef: {namespace: ns-b, name: own, key: credentials}}}
`

const attackSelector = `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-b, name: attack}
spec: {accountNamespace: ns-b, accountName: attack, vmSelector: [{vpcMatch: {matchID: "{VPC-A}"}}]}
`

// set writes a value into an object, for change functions.
func set(o *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}

func annotate(o *unstructured.Unstructured, key, value string) {
	m := maps.Clone(o.GetAnnotations())
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	o.SetAnnotations(m)
}

// secretRows name Secrets that mallory cannot read in accounts of hers.
func (a *arena) secretRows() (rows []attempt) {
	own := a.objects(attackerObjects)[1]
	for _, s := range []struct{ name, key string }{{"keys", "credentials"}, {"keys", "note"}} {
		ways := a.ways(own, a.text(attackAccount), refersTo(s.name, s.key))
		for _, way := range sortedNamesOf(ways) {
			if s.key != "credentials" && way != "create" && way != "merge patch" {
				continue
			}
			rows = append(rows, attempt{
				name: s.key + "/" + way, do: ways[way], missing: []string{"get", "secret", ownerNS},
				then: []*unstructured.Unstructured{a.text(attackSelector), a.text(openPolicies)},
			})
		}
	}
	return rows
}

func refersTo(name, key string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		set(o, map[string]any{"namespace": ownerNS, "name": name, "key": key}, "spec", "awsConfig", "secretRef")
	}
}

// generated is a name that the API server has completed.
var generated = regexp.MustCompile(`attack-[a-z0-9]{5}`)

// sameWords: nobody learns from a refusal whether a Secret, or an account, of somebody else exists.
func (a *arena) sameWords(t *testing.T) {
	ask := func(ways map[string]func(context.Context, client.Client) error, way, who string) string {
		err := ways[way](t.Context(), client.NewDryRunClient(a.people[who]))
		if err == nil {
			return "not refused"
		}
		return generated.ReplaceAllString(err.Error(), "attack-...")
	}
	own := a.objects(attackerObjects)[1]
	none := "none"
	for _, way := range sortedNamesOf(a.ways(own, a.text(attackAccount), refersTo("keys", "credentials"))) {
		for _, who := range []string{mallory, "account-administrator"} {
			there := ask(a.ways(own, a.text(attackAccount), refersTo("keys", "credentials")), way, who)
			missing := ask(a.ways(own, a.text(attackAccount), refersTo(none, "credentials")), way, who)
			if there == "not refused" {
				t.Errorf("%s as %s: NOT REFUSED", way, who)
			}
			if want := strings.ReplaceAll(there, ownerNS+"/keys", ownerNS+"/"+none); strings.ReplaceAll(want, `"keys"`, `"none"`) != missing {
				t.Errorf("%s as %s: an existing Secret and one that is not there are told apart:\n  %s\n  %s", way, who, there, missing)
			}
		}
	}
	for _, way := range []string{"create", "generateName", "apply a new one"} {
		there := ask(a.ways(nil, a.text(attackSelector), selects("real", "")), way, mallory)
		missing := ask(a.ways(nil, a.text(attackSelector), selects(none, "")), way, mallory)
		if strings.ReplaceAll(strings.ReplaceAll(there, "/real", "/none"), `"real"`, `"none"`) != missing {
			t.Errorf("%s: an existing account and one that is not there are told apart:\n  %s\n  %s", way, there, missing)
		}
	}
}

// selects makes a selector name an account of the owner's Namespace.
func selects(account string, mode cloudv1.EnforcementMode) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		set(o, ownerNS, "spec", "accountNamespace")
		set(o, account, "spec", "accountName")
		if mode != "" {
			set(o, string(mode), "spec", "mode")
		}
	}
}

var allModes = []cloudv1.EnforcementMode{"", cloudv1.ModePlan, cloudv1.ModeReleased, cloudv1.ModeEnforce}

// triedModes are those that somebody without a word tries: at each commit the one that would open
// most. TestForeignModesDoNotCount (internal/cloud/inventory) takes the others.
func triedModes() []cloudv1.EnforcementMode {
	if tier.Long() {
		return allModes
	}
	return []cloudv1.EnforcementMode{cloudv1.ModeReleased}
}

// selectorRows name the owner's account in selectors of ns-b.
func (a *arena) selectorRows() (rows []attempt) {
	missing := []string{"use", "cloudprovideraccounts", ownerNS}
	open := []*unstructured.Unstructured{a.text(openPolicies)}
	add := func(name string, change func(*unstructured.Unstructured), only ...string) {
		ways := a.ways(nil, a.text(attackSelector), change)
		for _, way := range sortedNamesOf(ways) {
			if len(only) > 0 && !slices.Contains(only, way) {
				continue
			}
			rows = append(rows, attempt{name: name + "/" + way, do: ways[way], missing: missing, then: open})
		}
	}
	for _, mode := range allModes {
		name := "mode " + string(mode)
		if mode == "" {
			add(name, selects("real", mode))
			continue
		}
		add(name, selects("real", mode), "create")
	}
	add("broken glass", func(o *unstructured.Unstructured) {
		selects("real", "")(o)
		annotate(o, cloudv1.AnnotationBreakGlass, "mine")
	}, "create", "apply a new one")
	add("one VM", func(o *unstructured.Unstructured) {
		selects("real", cloudv1.ModeReleased)(o)
		set(o, []any{map[string]any{"vmMatch": []any{map[string]any{"matchID": a.id("db")}}}}, "spec", "vmSelector")
	}, "create")
	add("by tag", func(o *unstructured.Unstructured) {
		selects("real", cloudv1.ModePlan)(o)
		set(o, []any{map[string]any{"tagMatch": []any{map[string]any{"key": "role"}}}}, "spec", "vmSelector")
	}, "create")
	add("agented", func(o *unstructured.Unstructured) {
		selects("real", "")(o)
		set(o, []any{map[string]any{"vpcMatch": map[string]any{"matchID": a.vpc[ownerCloud]}, "agented": true}}, "spec", "vmSelector")
	}, "create")
	return rows
}

// importedSelector is one that an administrator has made, or a tool for one, so that the owner's
// VMs are in ns-b too. The owner has not forbidden it, and has not given ns-b a word on modes.
const importedSelector = `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-b, name: imported}
spec: {accountNamespace: ns-a, accountName: real, vmSelector: [{vpcMatch: {matchID: "{VPC-A}"}}]}
`

// editors are those who may change VirtualMachines of their Namespace, as far as it breaks no
// glass.
var editors = []string{"selector-administrator", "break-glass-operator"}

// importedRows change what an administrator has imported into ns-b.
func (a *arena) importedRows() (rows []attempt) {
	selector := a.text(importedSelector)
	operator, noWord := []string{"break-glass-operator"}, func(ctx context.Context) error { return a.saysInB(ctx, "releaseNamespaces") }
	use := []string{"use", "cloudprovideraccounts", ownerNS}
	glass := func(o *unstructured.Unstructured) { annotate(o, cloudv1.AnnotationBreakGlass, "mine") }
	// What is applied must be all of the object, for the administrator owns its fields.
	ways := a.ways(selector, nil, glass)
	for _, way := range sortedNamesOf(ways) {
		rows = append(rows, attempt{name: "glass/" + way, do: ways[way], by: operator, either: way != "merge patch", answer: way != "merge patch", says: noWord})
	}
	for _, mode := range allModes[1:] {
		ways := a.ways(selector, nil, func(o *unstructured.Unstructured) { set(o, string(mode), "spec", "mode") })
		for _, way := range sortedNamesOf(ways) {
			if mode == cloudv1.ModePlan || way == "merge patch" {
				rows = append(rows, attempt{name: "mode/" + string(mode) + "/" + way, do: ways[way], missing: use})
			}
		}
	}
	rows = append(rows, attempt{name: "more VMs", missing: use, do: func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, selector.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": {"vmSelector": [{"tagMatch": [{"key": "role"}]}]}}`)))
	}})
	vm := func(text string, kind types.PatchType, sub ...string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			o := a.text(`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-b, name: "{WEB}"}}`)
			if err := soon(a.t, func(ctx context.Context) error {
				return a.c.client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
			}); err != nil {
				return fmt.Errorf("the VM is not imported: %w", err)
			}
			if len(sub) > 0 {
				return c.SubResource(sub[0]).Patch(ctx, o, client.RawPatch(kind, []byte(text)))
			}
			return c.Patch(ctx, o, client.RawPatch(kind, []byte(text)))
		}
	}
	return append(rows,
		attempt{name: "glass of a VM", by: operator, says: noWord,
			do: vm(`{"metadata": {"annotations": {"nephele.io/break-glass": "mine"}}}`, types.MergePatchType)},
		attempt{name: "glass of a VM/JSON patch", by: operator, answer: true,
			do: vm(`[{"op": "add", "path": "/metadata/annotations/nephele.io~1break-glass", "value": ""}]`, types.JSONPatchType)},
		attempt{name: "tags of a VM", by: editors,
			do: vm(`{"spec": {"tags": {"role": "bastion"}}}`, types.MergePatchType)},
		attempt{
			name:   "a VM is said to be of another account",
			by:     editors,
			either: true,
			do: vm(
				`{"metadata": {"annotations": {"nephele.io/account": "ns-b/own"}, "labels": {"nephe.antrea.io/cpa-namespace": "ns-b", "nephe.antrea.io/cpa-name": "own"}}}`,
				types.MergePatchType,
			),
		},
		attempt{name: "finalizer on a VM", by: editors, either: true,
			do: vm(`{"metadata": {"finalizers": ["example.com/mine"]}}`, types.MergePatchType)},
		attempt{name: "status of a VM", missing: []string{"cannot patch", "virtualmachines/status"},
			do: vm(`{"status": {"mode": "released", "policies": null}}`, types.MergePatchType, "status")},
		attempt{name: "deletion", by: []string{"selector-administrator"}, do: func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, selector.DeepCopy())
		}},
	)
}

// saysInB looks for a word in the conditions of what is in ns-b.
func (a *arena) saysInB(ctx context.Context, word string) error {
	var all string
	for _, kind := range []string{"CloudEntitySelector", "CloudProviderAccount", "VirtualMachine"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("crd.cloud.antrea.io/v1alpha1")
		list.SetKind(kind + "List")
		if err := a.c.client.List(ctx, list, client.InNamespace(attackerNS)); err != nil {
			return err
		}
		for _, o := range list.Items {
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			for _, c := range conditions {
				m, _ := c.(map[string]any)
				message, _ := m["message"].(string)
				if strings.Contains(message, word) {
					return nil
				}
				all += fmt.Sprintf("\n%s %s: %v=%v %v %s", kind, o.GetName(), m["type"], m["status"], m["reason"], message)
			}
		}
	}
	return fmt.Errorf("no condition in ns-b has the word %q:%s", word, all)
}

// ownRows change objects of ns-b that have nothing to do with the owner's, in ways that might.
func (a *arena) ownRows() (rows []attempt) {
	patch := func(o *unstructured.Unstructured, text string, sub ...string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			if len(sub) > 0 {
				return c.SubResource(sub[0]).Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
			}
			return c.Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}
	own := a.objects(attackerObjects)
	secret, account := own[0], own[1]
	mine := a.text(`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-b, name: "{MINE}"}}`)
	administrator, operator := []string{"account-administrator"}, []string{"break-glass-operator"}
	for _, key := range []string{"confirm", "take-over", "break-glass", "account", "cluster"} {
		epoch, _, _ := strings.Cut(a.tagOf(ownerCloud, "nephele.io/instance"), " ")
		rows = append(rows, attempt{name: "annotation " + key + " on her own account", by: administrator,
			do: patch(account, fmt.Sprintf(`{"metadata": {"annotations": {"nephele.io/%s": %q}}}`, key, epoch))})
	}
	deep := strings.Repeat(`{"a":`, 100_000)
	return append(rows,
		attempt{name: "tags of her own VM", by: editors, do: patch(mine, `{"spec": {"tags": {"role": "web", "Name": "web"}}}`)},
		attempt{name: "glass of her own VM", by: operator, do: patch(mine, `{"metadata": {"annotations": {"nephele.io/break-glass": "mine"}}}`)},
		attempt{name: "her own VM is said to be the owner's", by: operator, do: patch(
			mine,
			`{"metadata": {"annotations": {"nephele.io/account": "ns-a/real", "nephele.io/break-glass": "mine"}, "labels": {"nephe.antrea.io/cpa-namespace": "ns-a", "nephe.antrea.io/cpa-name": "real"}}}`,
		)},
		attempt{name: "her tags override what the cloud says", by: administrator, do: patch(account, `{"spec": {"userTags": "Merge"}}`),
			then: nil},
		attempt{name: "her account gives everything to everybody", by: administrator, do: patch(account,
			`{"spec": {"allowedNamespaces": {"selector": {}}, "releaseNamespaces": ["ns-a"], "brake": {"percent": 0, "interfaces": 0}}}`)},
		attempt{name: "her account lists the VPC of another", by: anyway, do: func(ctx context.Context, c client.Client) error { return nil },
			then: []*unstructured.Unstructured{a.text(strings.ReplaceAll(attackSelector, "accountName: attack", "accountName: own")), a.text(openPolicies)}},
		attempt{name: "keys in her Secret that are none", by: anyway, do: patch(secret, jsonText(map[string]any{"stringData": map[string]any{"credentials": deep}}))},
		attempt{name: "status of her own account", missing: []string{"cannot patch", "cloudprovideraccounts/status"},
			do: patch(account, `{"status": {"cloudAccountId": "`+ownerCloud+`", "externalId": "chosen"}}`, "status")},
		attempt{name: "her account goes without its finalizer", by: administrator, do: func(ctx context.Context, c client.Client) error {
			if err := c.Delete(ctx, account.DeepCopy()); err != nil {
				return err
			}
			return client.IgnoreNotFound(patch(account, `{"metadata": {"finalizers": null}}`)(ctx, c))
		}},
		attempt{name: "a VM made by hand", missing: []string{"cannot create", "virtualmachines"}, do: func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, a.text(`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-b, name: "{DB}",
				annotations: {nephele.io/account: ns-a/real, nephele.io/break-glass: mine}, labels: {nephe.antrea.io/cpa-namespace: ns-a}}, spec: {tags: {role: bastion}}}`))
		}},
		attempt{name: "an entity made by hand", missing: []string{"cannot create", "externalentities"}, do: func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, a.text(`{apiVersion: crd.antrea.io/v1alpha2, kind: ExternalEntity, metadata: {namespace: ns-b, name: "virtualmachine-{DB}",
				annotations: {nephele.io/account: ns-a/real}, labels: {nephe.antrea.io/kind: virtualmachine, nephe.antrea.io/tag-role: bastion}},
				spec: {externalNode: cloud/ns-a/real, endpoints: [{ip: 203.0.113.66}]}}`))
		}},
		attempt{name: "labels of the entity of her own VM", missing: []string{"cannot patch", "externalentities"}, do: patch(
			a.text(`{apiVersion: crd.antrea.io/v1alpha2, kind: ExternalEntity, metadata: {namespace: ns-b, name: "virtualmachine-{MINE}"}}`),
			`{"metadata": {"labels": {"nephe.antrea.io/namespace": "ns-a", "nephe.antrea.io/tag-role": "bastion"}}}`)},
	)
}

// tagOf is the value of a tag of the VPC of an account, or something else if it has none.
func (a *arena) tagOf(cloud, key string) string {
	for _, r := range a.server.World().State().Regions {
		for _, v := range r.VPCs {
			if v.ID == a.vpc[cloud] && v.Tags[key] != "" {
				return v.Tags[key]
			}
		}
	}
	return "none"
}

// policyRows are policies of ns-b that try to be about the owner's VMs.
func (a *arena) policyRows() (rows []attempt) {
	author := anyway // "edit" is enough for policies of one's own Namespace
	add := func(by []string, missing []string, name, kind, spec string) {
		namespaced := "namespace: ns-b, "
		if kind != "NetworkPolicy" && kind != "Group" {
			namespaced = ""
		}
		o := a.text(fmt.Sprintf("{apiVersion: crd.antrea.io/v1beta1, kind: %s, metadata: {%sname: attack}, spec: %s}", kind, namespaced, spec))
		rows = append(rows, attempt{name: name, by: by, missing: missing, do: func(ctx context.Context, c client.Client) error { return c.Create(ctx, o.DeepCopy()) }})
	}
	all := "ingress: [{action: Allow}], egress: [{action: Allow}]"
	add(author, nil, "all in her Namespace, first of all", "NetworkPolicy", "{priority: 1, tier: platform, appliedTo: [{externalEntitySelector: {}}], "+all+"}")
	add(nil, []string{"use", "tier", "emergency"}, "before all others", "NetworkPolicy", "{priority: 1, tier: emergency, appliedTo: [{externalEntitySelector: {}}], "+all+"}")
	add(author, nil, "drops all", "NetworkPolicy", "{priority: 1, tier: platform, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Drop}], egress: [{action: Drop}]}")
	add(
		author,
		nil,
		"by the labels of the owner's VMs",
		"NetworkPolicy",
		"{priority: 1, appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/namespace: ns-a}}}, {externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}], "+all+"}",
	)
	far := a.text("{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {namespace: ns-b, name: far}, spec: {namespaceSelector: {}, externalEntitySelector: {}}}")
	byFar := a.text("{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: far}, spec: {priority: 1, appliedTo: [{group: far}], " + all + "}}")
	rows = append(rows, attempt{name: "by a group of all Namespaces", by: author, then: []*unstructured.Unstructured{byFar}, do: func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, far.DeepCopy())
	}})
	add(author, nil, "by a group of the owner's Namespace", "NetworkPolicy", "{priority: 1, appliedTo: [{group: mark}], "+all+"}")
	for kind, spec := range map[string]string{
		"ClusterNetworkPolicy": "{priority: 1, tier: emergency, appliedTo: [{namespaceSelector: {}, externalEntitySelector: {}}], " + all + "}",
		"ClusterGroup":         "{namespaceSelector: {}, externalEntitySelector: {}}",
		"Tier":                 "{priority: 7}",
	} {
		add(nil, []string{"cannot create", strings.ToLower(kind)[:4]}, "cluster-wide: "+kind, kind, spec)
	}
	rows = append(rows, attempt{name: "of Kubernetes", by: anyway, do: func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, a.text("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: attack}, spec: {podSelector: {}, ingress: [{}]}}"))
	}})
	slices.SortStableFunc(rows, func(x, y attempt) int { return strings.Compare(x.name, y.name) })
	return rows
}

// tieredPolicy is one of hers that she may have, in the tier of everybody.
const tieredPolicy = "{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: there}, spec: {tier: application, priority: 1, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Allow}]}}"

// tierRows put policies into a tier that needs a grant.
func (a *arena) tierRows() (rows []attempt) {
	there := a.text(tieredPolicy)
	policy := there.DeepCopy()
	policy.SetName("attack")
	ways := a.ways(there, policy, func(o *unstructured.Unstructured) { set(o, "restricted", "spec", "tier") })
	for _, way := range sortedNamesOf(ways) {
		rows = append(rows, attempt{name: "write/" + way, do: ways[way], missing: []string{"use", "tier", "restricted"}})
	}
	return rows
}

// foreign tries everything on the owner's objects, as everybody. It is all refused by RBAC, so that
// one look at the end is enough.
func (a *arena) foreign(t *testing.T) {
	ctx := t.Context()
	type target struct {
		o      *unstructured.Unstructured
		status bool
	}
	var targets []target
	for _, o := range a.objects(ownerObjects) {
		targets = append(targets, target{o, o.GetKind() != "Secret"})
	}
	for _, text := range []string{
		`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-a, name: "{WEB}"}}`,
		`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: Vpc, metadata: {namespace: ns-a, name: "{VPC-A}"}}`,
		`{apiVersion: crd.antrea.io/v1alpha2, kind: ExternalEntity, metadata: {namespace: ns-a, name: "virtualmachine-{DB}"}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: ns-a}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: ns-b}}`,
	} {
		o := a.text(text)
		targets = append(targets, target{o, o.GetKind() == "VirtualMachine" || o.GetKind() == "Vpc"})
	}
	refused := func(who, what string, o *unstructured.Unstructured, err error) {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %s of %s %s/%s: %v, want a refusal", who, what, o.GetKind(), o.GetNamespace(), o.GetName(), err)
		}
	}
	for who, c := range a.people {
		for _, x := range targets {
			patches := []string{
				`{"metadata": {"labels": {"nephe.antrea.io/tag-role": "bastion"}}}`,
				`{"metadata": {"finalizers": null}}`,
				`{"metadata": {"ownerReferences": null}}`,
			}
			for _, key := range []string{"break-glass", "confirm", "take-over", "account", "on-refusal", "stage"} {
				patches = append(patches, fmt.Sprintf(`{"metadata": {"annotations": {"nephele.io/%s": "mine"}}}`, key))
			}
			for _, p := range patches {
				refused(who, p, x.o, c.Patch(ctx, x.o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(p))))
			}
			if x.status {
				refused(who, "status", x.o, c.Status().Patch(ctx, x.o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status": {"conditions": []}}`))))
			}
			refused(who, "deletion", x.o, c.Delete(ctx, x.o.DeepCopy()))
			if x.o.GetKind() == "Secret" {
				refused(who, "reading", x.o, c.Get(ctx, client.ObjectKeyFromObject(x.o), x.o.DeepCopy()))
			}
			if x.o.GetNamespace() != "" {
				fresh := x.o.DeepCopy()
				fresh.SetName("attack")
				refused(who, "creation", fresh, c.Create(ctx, fresh))
			}
		}
	}
	a.sameNow(t)
	a.unharmed(t)
}

// tables makes all attempts of a person with "edit" in one Namespace, and with every right that a
// persona gives there: every combination of account, selector, policy, Secret, annotation and label
// against the VMs of another tenant. After each attempt the cloud's verdict on these VMs is what it
// was, and so is all else that is the owner's.
func (a *arena) tables(t *testing.T) {
	t.Run("same words", func(t *testing.T) { a.within(t); a.sameWords(t) })
	t.Run("foreign objects", func(t *testing.T) { a.within(t); a.foreign(t) })
	t.Run("account with another's Secret", func(t *testing.T) { a.table(t, a.secretRows()) })
	t.Run("selector of another's account", func(t *testing.T) { a.table(t, a.selectorRows()) })
	t.Run("imported", func(t *testing.T) { a.table(t, a.importedRows(), a.text(importedSelector)) })
	t.Run("own", func(t *testing.T) { a.table(t, a.ownRows()) })
	t.Run("policy", func(t *testing.T) { a.table(t, a.policyRows()) })
	t.Run("tier", func(t *testing.T) {
		a.create(a.text(tieredPolicy))
		a.table(t, a.tierRows())
		a.tidy()
	})
}

// grantUse lets people select from the attacker's own account.
func (a *arena) grantUse(users ...string) {
	a.create(
		a.text(
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: ns-b, name: use-own}, rules: [{apiGroups: [crd.cloud.antrea.io], resources: [cloudprovideraccounts], resourceNames: [own, attack], verbs: [use]}]}",
		),
	)
	for _, u := range users {
		a.bind(attackerNS, u, "Role", "use-own")
	}
}
