package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
)

// attempt is one row of the table: something that a person with rights in ns-b tries.
type attempt struct {
	name string
	// given is what an administrator, or a tool that acts for one, has put there before.
	given []*unstructured.Unstructured
	do    func(ctx context.Context, c client.Client) error
	// by are the personas of which one is enough; empty means that nobody may, not even with all of them together.
	by []string
	// either says that it does not matter whether those are refused.
	either bool
	// missing is what the refusal must name for somebody with all personas.
	missing []string
	// then is what follows if the attempt is not refused, to make the most of it. It may fail.
	then []*unstructured.Unstructured
	// says returns nil once the controller has said what it makes of an attempt that is not refused, else what is missing.
	says func(ctx context.Context) error
}

// anyway are attempts that whoever has "edit" may make.
var anyway = personas

// ways are the ways of writing an object. base is one that exists, nil if changing it is not the point; change makes the attempt of it.
func (a *arena) ways(base *unstructured.Unstructured, fresh *unstructured.Unstructured, change func(*unstructured.Unstructured)) map[string]func(context.Context, client.Client) error {
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
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
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

// try makes one attempt: only for the sake of the answer in the name of each persona, and in earnest as mallory, who has them all.
func (a *arena) try(t *testing.T, row attempt) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, o := range row.given {
		a.create(o.DeepCopy())
	}
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
	err := row.do(ctx, a.people[mallory])
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
	if err != nil {
		a.sameNow(t)
		if len(row.given) > 0 {
			a.tidy(true)
		}
		return
	}
	imported := slices.ContainsFunc(row.given, func(o *unstructured.Unstructured) bool { return o.GetName() == "imported" })
	for _, o := range row.then {
		_ = a.people[mallory].Create(ctx, o.DeepCopy())
	}
	a.mostOf(t, len(row.by) == 0)
	if row.says != nil {
		if err := inTime(t, 15*time.Second, row.says); err != nil {
			t.Errorf("the controller does not say what is missing: %v", err)
		}
	}
	a.unharmed(t)
	if vms := a.leaked(); len(vms) > 0 && !imported {
		t.Errorf("THE OWNER'S VMS ARE IMPORTED INTO THE ATTACKER'S NAMESPACE: %v", vms)
	}
	a.tidy(true)
}

// mostOf gives what should have been refused the time to do its worst: whatever mallory's accounts and selectors find must be found, and what
// her policies ask for be enforced or refused.
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

// table makes all attempts of a list.
func (a *arena) table(t *testing.T, rows []attempt) {
	t.Helper()
	parent := a.t
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			a.t = t
			defer func() { a.t = parent }()
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
  tier: emergency
  appliedTo: [{externalEntitySelector: {}}]
  ingress: [{action: Allow}]
  egress: [{action: Allow}]
`

const attackAccount = `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: ns-b, name: attack}
spec: {awsConfig: {region: [eu-west-1], endpoint: "{SIM}", secretRef: {namespace: ns-b, name: own, key: credentials}}}
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
				name: "account with another's Secret/" + s.key + "/" + way, do: ways[way], missing: []string{"get", "secret", ownerNS},
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

// sameWords: nobody learns from a refusal whether a Secret, or an account, of somebody else exists.
func (a *arena) sameWords(t *testing.T) {
	ask := func(ways map[string]func(context.Context, client.Client) error, way, who string) string {
		err := ways[way](t.Context(), client.NewDryRunClient(a.people[who]))
		if err == nil {
			return "not refused"
		}
		return err.Error()
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
			rows = append(rows, attempt{name: "selector of another's account/" + name + "/" + way, do: ways[way], missing: missing, then: open})
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

// importedSelector is one that an administrator has made, or a tool for one, so that the owner's VMs are in ns-b too. The owner has not
// forbidden it, and has not given ns-b a word on modes.
const importedSelector = `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-b, name: imported}
spec: {accountNamespace: ns-a, accountName: real, vmSelector: [{vpcMatch: {matchID: "{VPC-A}"}}]}
`

// importedRows change what an administrator has imported into ns-b.
func (a *arena) importedRows() (rows []attempt) {
	selector := a.text(importedSelector)
	given := []*unstructured.Unstructured{selector}
	operator, noWord := []string{"break-glass-operator"}, func(ctx context.Context) error { return a.saysInB(ctx, "releaseNamespaces") }
	use := []string{"use", "cloudprovideraccounts", ownerNS}
	glass := func(o *unstructured.Unstructured) { annotate(o, cloudv1.AnnotationBreakGlass, "mine") }
	// What is applied must be all of the object, for the administrator owns its fields.
	ways := a.ways(selector, nil, glass)
	for _, way := range sortedNamesOf(ways) {
		rows = append(rows, attempt{name: "glass of an imported selector/" + way, given: given, do: ways[way], by: operator, either: way != "merge patch", says: noWord})
	}
	for _, mode := range allModes[1:] {
		ways := a.ways(selector, nil, func(o *unstructured.Unstructured) { set(o, string(mode), "spec", "mode") })
		for _, way := range sortedNamesOf(ways) {
			if mode == cloudv1.ModePlan || way == "merge patch" {
				rows = append(rows, attempt{name: "mode of an imported selector/" + string(mode) + "/" + way, given: given, do: ways[way], missing: use})
			}
		}
	}
	rows = append(rows, attempt{name: "more VMs in an imported selector", given: given, missing: use, do: func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, selector.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": {"vmSelector": [{"tagMatch": [{"key": "role"}]}]}}`)))
	}})
	vm := func(text string, kind types.PatchType, sub ...string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			o := a.text(`{apiVersion: crd.cloud.antrea.io/v1alpha1, kind: VirtualMachine, metadata: {namespace: ns-b, name: "{WEB}"}}`)
			if err := inTime(a.t, 15*time.Second, func(ctx context.Context) error {
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
		attempt{name: "glass of an imported VM", given: given, by: operator, says: noWord,
			do: vm(`{"metadata": {"annotations": {"nephele.io/break-glass": "mine"}}}`, types.MergePatchType)},
		attempt{name: "glass of an imported VM/JSON patch", given: given, by: operator, says: noWord,
			do: vm(`[{"op": "add", "path": "/metadata/annotations/nephele.io~1break-glass", "value": ""}]`, types.JSONPatchType)},
		attempt{name: "tags of an imported VM", given: given, by: operator,
			do: vm(`{"spec": {"tags": {"role": "bastion"}}}`, types.MergePatchType)},
		attempt{name: "an imported VM is said to be of another account", given: given, by: operator,
			do: vm(`{"metadata": {"annotations": {"nephele.io/account": "ns-b/own"}, "labels": {"nephe.antrea.io/cpa-namespace": "ns-b", "nephe.antrea.io/cpa-name": "own"}}}`, types.MergePatchType)},
		attempt{name: "finalizer on an imported VM", given: given, by: operator,
			do: vm(`{"metadata": {"finalizers": ["example.com/mine"]}}`, types.MergePatchType)},
		attempt{name: "status of an imported VM", given: given, missing: []string{"cannot patch", "virtualmachines/status"},
			do: vm(`{"status": {"mode": "released", "policies": null}}`, types.MergePatchType, "status")},
		attempt{name: "an imported selector is deleted", given: given, by: []string{"selector-administrator"}, do: func(ctx context.Context, c client.Client) error {
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
		rows = append(rows, attempt{name: "annotation nephele.io/" + key + " on her own account", by: administrator,
			do: patch(account, fmt.Sprintf(`{"metadata": {"annotations": {"nephele.io/%s": %q}}}`, key, epoch))})
	}
	deep := strings.Repeat(`{"a":`, 100_000)
	return append(rows,
		attempt{name: "tags of her own VM", by: operator, do: patch(mine, `{"spec": {"tags": {"role": "web", "Name": "web"}}}`)},
		attempt{name: "glass of her own VM", by: operator, do: patch(mine, `{"metadata": {"annotations": {"nephele.io/break-glass": "mine"}}}`)},
		attempt{name: "her own VM is said to be the owner's", by: operator, do: patch(mine,
			`{"metadata": {"annotations": {"nephele.io/account": "ns-a/real", "nephele.io/break-glass": "mine"}, "labels": {"nephe.antrea.io/cpa-namespace": "ns-a", "nephe.antrea.io/cpa-name": "real"}}}`)},
		attempt{name: "her tags override what the cloud says", by: administrator, do: patch(account, `{"spec": {"userTags": "Merge"}}`),
			then: nil},
		attempt{name: "her account gives everything to everybody", by: administrator, do: patch(account,
			`{"spec": {"allowedNamespaces": {"selector": {}}, "releaseNamespaces": ["ns-a"], "brake": {"percent": 0, "interfaces": 0}}}`)},
		attempt{name: "her account lists the VPC of another", by: anyway, given: nil, do: func(ctx context.Context, c client.Client) error { return nil },
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
	add := func(by []string, missing []string, name, kind, spec string, more ...string) {
		namespaced := "namespace: ns-b, "
		if kind != "NetworkPolicy" && kind != "Group" {
			namespaced = ""
		}
		var given []*unstructured.Unstructured
		for _, m := range more {
			given = append(given, a.text(m))
		}
		o := a.text(fmt.Sprintf("{apiVersion: crd.antrea.io/v1beta1, kind: %s, metadata: {%sname: attack}, spec: %s}", kind, namespaced, spec))
		rows = append(rows, attempt{name: "policy/" + name, given: given, by: by, missing: missing, do: func(ctx context.Context, c client.Client) error { return c.Create(ctx, o.DeepCopy()) }})
	}
	all := "ingress: [{action: Allow}], egress: [{action: Allow}]"
	add(author, nil, "all in her Namespace, first of all", "NetworkPolicy", "{priority: 1, tier: emergency, appliedTo: [{externalEntitySelector: {}}], "+all+"}")
	add(author, nil, "drops all", "NetworkPolicy", "{priority: 1, tier: emergency, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Drop}], egress: [{action: Drop}]}")
	add(author, nil, "by the labels of the owner's VMs", "NetworkPolicy", "{priority: 1, appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/namespace: ns-a}}}, {externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}], "+all+"}")
	add(author, nil, "by a group of all Namespaces", "NetworkPolicy", "{priority: 1, appliedTo: [{group: far}], "+all+"}",
		"{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {namespace: ns-b, name: far}, spec: {namespaceSelector: {}, externalEntitySelector: {}}}")
	add(author, nil, "by a group of the owner's Namespace", "NetworkPolicy", "{priority: 1, appliedTo: [{group: mark}], "+all+"}")
	for kind, spec := range map[string]string{
		"ClusterNetworkPolicy": "{priority: 1, tier: emergency, appliedTo: [{namespaceSelector: {}, externalEntitySelector: {}}], " + all + "}",
		"ClusterGroup":         "{namespaceSelector: {}, externalEntitySelector: {}}",
		"Tier":                 "{priority: 7}",
	} {
		add(nil, []string{"cannot create", strings.ToLower(kind)[:4]}, "cluster-wide: "+kind, kind, spec)
	}
	rows = append(rows, attempt{name: "policy/of Kubernetes", by: anyway, do: func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, a.text("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: attack}, spec: {podSelector: {}, ingress: [{}]}}"))
	}})
	slices.SortStableFunc(rows, func(x, y attempt) int { return strings.Compare(x.name, y.name) })
	return rows
}

// tierRows put policies into a tier that needs a grant.
func (a *arena) tierRows() (rows []attempt) {
	policy := a.text("{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: attack}, spec: {priority: 1, appliedTo: [{externalEntitySelector: {}}], ingress: [{action: Allow}]}}")
	there := policy.DeepCopy()
	there.SetName("there")
	for way, do := range a.ways(there, policy, func(o *unstructured.Unstructured) { set(o, "restricted", "spec", "tier") }) {
		rows = append(rows, attempt{name: "policy in a tier that needs a grant/" + way, given: []*unstructured.Unstructured{there}, do: do, missing: []string{"use", "tier", "restricted"}})
	}
	slices.SortStableFunc(rows, func(x, y attempt) int { return strings.Compare(x.name, y.name) })
	return rows
}

// foreign tries everything on the owner's objects, as everybody. It is all refused by RBAC, so that one look at the end is enough.
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
			patches := []string{`{"metadata": {"labels": {"nephe.antrea.io/tag-role": "bastion"}}}`, `{"metadata": {"finalizers": null}}`, `{"metadata": {"ownerReferences": null}}`}
			for _, key := range []string{"break-glass", "confirm", "take-over", "account", "on-refusal"} {
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

// TestAttackTable: a person with "edit" in one Namespace, and with every right that a persona gives there, tries every combination of account,
// selector, policy, Secret, annotation and label against the VMs of another tenant. After each attempt the cloud's verdict on these VMs
// is what it was, and so is all else that is the owner's.
func TestAttackTable(t *testing.T) {
	x := newTenants(t)
	a := newArena(t, x, "--allowed-endpoints="+strings.TrimPrefix(x.server.URL(), "http://"))
	a.grantUse(mallory, "selector-administrator")
	a.create(a.text("{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: restricted, labels: {nephele.io/use: required}}, spec: {priority: 20}}"))
	a.settle()
	t.Run("same words", a.sameWords)
	t.Run("foreign objects", a.foreign)
	for _, rows := range [][]attempt{a.secretRows(), a.selectorRows(), a.importedRows(), a.ownRows(), a.policyRows(), a.tierRows()} {
		a.table(t, rows)
	}
}

// grantUse lets people select from the attacker's own account.
func (a *arena) grantUse(users ...string) {
	a.create(a.text("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: ns-b, name: use-own}, rules: [{apiGroups: [crd.cloud.antrea.io], resources: [cloudprovideraccounts], resourceNames: [own, attack], verbs: [use]}]}"))
	for _, u := range users {
		a.bind(attackerNS, u, "Role", "use-own")
	}
}
