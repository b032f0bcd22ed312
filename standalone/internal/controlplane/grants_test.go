package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/config/grants"
)

// guarded installs the API types and the policies once, waits until the latter are in force, and
// returns the administrator's client.
func guarded(t *testing.T) client.Client {
	t.Helper()
	admin := acting(t, nil)
	installGuards(t)
	return admin
}

var installGuards = func() func(*testing.T) {
	var once sync.Once
	return func(t *testing.T) {
		once.Do(func() {
			cp := server(t)
			for _, err := range []error{cp.InstallCRDs(t.Context(), crd.FS()), cp.Apply(t.Context(), grants.FS())} {
				if err != nil {
					t.Fatal(err)
				}
			}
			ns := newNamespace(t, "probe")
			probe := person(t, "probe", ns, "nephele-selector-administrator")
			begin := time.Now()
			eventually(t, "the policies are in force", func(ctx context.Context) error {
				if err := probe.Create(ctx, selectorIn(ns, "probe", "nobody", "nothing"), client.DryRunAll); !refusedBy(err, "nephele-selectors") {
					return fmt.Errorf("a selector of an account that may not be used: %w", err)
				}
				return nil
			})
			t.Logf("in force after %s", time.Since(begin))
		})
	}
}()

// acting returns a client with rights of the administrator's, as changed.
func acting(t *testing.T, change func(*rest.Config)) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cfg := server(t).RestConfig()
	if change != nil {
		change(cfg)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// user returns a client that acts for a user without any rights of his own.
func user(t *testing.T, name string) client.Client {
	t.Helper()
	return acting(t, func(c *rest.Config) { actingAs(c, name) })
}

// person returns a client of a user who has roles in a namespace, or everywhere if that is "".
func person(t *testing.T, name, namespace string, roles ...string) client.Client {
	t.Helper()
	for _, role := range roles {
		bind(t, name, namespace, role)
	}
	return user(t, name)
}

func bind(t *testing.T, name, namespace, role string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: role + "-" + name, Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	var o client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	if namespace == "" {
		o = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
	}
	mustNot(t, acting(t, nil).Create(t.Context(), o))
}

// give gives a user a rule in a namespace, or everywhere if that is "".
func give(t *testing.T, name, namespace string, group, resource, verb string, names ...string) {
	t.Helper()
	admin := acting(t, nil)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{verb}}}
	meta := metav1.ObjectMeta{GenerateName: "rule-", Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
	if namespace == "" {
		role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
		mustNot(t, admin.Create(t.Context(), role))
		mustNot(
			t,
			admin.Create(
				t.Context(),
				&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}},
			),
		)
		return
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	mustNot(t, admin.Create(t.Context(), role))
	mustNot(
		t,
		admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}}),
	)
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refusedBy reports whether a policy has refused a request.
func refusedBy(err error, policy string) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'")
}

// mustRefuse checks that a policy refuses a request and that the answer has all parts. RBAC lags
// behind by an instant.
func mustRefuse(t *testing.T, what, policy string, do func(ctx context.Context) error, parts ...string) {
	t.Helper()
	var last error
	eventually(t, what, func(ctx context.Context) error {
		switch last = do(ctx); {
		case last == nil:
			t.Fatalf("%s: done", what)
		case !refusedBy(last, policy):
			return fmt.Errorf("not refused by %s: %w", policy, last)
		}
		return nil
	})
	for _, part := range parts {
		if !strings.Contains(last.Error(), part) {
			t.Errorf("%s: %q is not in: %v", what, part, last)
		}
	}
}

// mustDo checks that a request is done. RBAC lags behind by an instant.
func mustDo(t *testing.T, what string, do func(ctx context.Context) error) {
	t.Helper()
	eventually(t, what, do)
}

func fromYAML(t *testing.T, text string, args ...any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, text, args...), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func account(t *testing.T, namespace, name, secretNamespace, secret string) *unstructured.Unstructured {
	return fromYAML(t, `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: %s, name: %s}
spec: {awsConfig: {region: [us-west-2], secretRef: {namespace: %s, name: %s, key: k}}}`, namespace, name, secretNamespace, secret)
}

func selectorIn(namespace, name, accountNamespace, account string) *cloudv1.CloudEntitySelector {
	s := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.AccountNamespace, s.Spec.AccountName = accountNamespace, account
	s.Spec.VMSelector = []cloudv1.VirtualMachineSelector{{VpcMatch: &cloudv1.EntityMatch{MatchID: "vpc-1"}}}
	return s
}

func merge(text string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, text, args...))
}

// ways are the ways to bring about an object that exists already, or to change it.
var ways = map[string]func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error{
	"update": func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		now := o.DeepCopy()
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
			return err
		}
		now.Object["spec"] = o.Object["spec"]
		return c.Update(ctx, now)
	},
	"merge patch": func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		raw, err := o.MarshalJSON()
		return errors.Join(err, c.Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, raw)))
	},
	"server-side apply": func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("test"), client.ForceOwnership)
	},
}

// TestAccountsNeedTheSecret: the author of an account, in whatever way, must be allowed to read the
// Secret that it names.
func TestAccountsNeedTheSecret(t *testing.T) {
	admin := guarded(t)
	vault, own := newNamespace(t, "vault"), newNamespace(t, "tenant")
	mustNot(t, admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "keys"}}))
	name := "accounts@" + own
	tenant := person(t, name, own, "nephele-account-administrator", "edit")
	const policy = "nephele-accounts"
	how := fmt.Sprintf(`you need the verb get on secrets "keys" in namespace %q`, vault)

	// An account of a Secret that he may not read, with and without one there.
	said := map[string]string{}
	for _, secret := range []string{"keys", "none"} {
		mustRefuse(t, "create with "+secret, policy, func(ctx context.Context) error {
			err := tenant.Create(ctx, account(t, own, "a", vault, secret))
			said[secret] = strings.ReplaceAll(fmt.Sprint(err), `"`+secret+`"`, `"S"`)
			return err
		})
	}
	if said["keys"] != said["none"] {
		t.Errorf("the answers tell whether there is a Secret:\n%s\n%s", said["keys"], said["none"])
	}
	mustRefuse(t, "generated name", policy, func(ctx context.Context) error {
		o := account(t, own, "", vault, "keys")
		o.SetName("")
		o.SetGenerateName("a-")
		return tenant.Create(ctx, o)
	}, how)
	mustRefuse(t, "apply a new one", policy, func(ctx context.Context) error {
		return ways["server-side apply"](ctx, tenant, account(t, own, "a", vault, "keys"))
	}, how)
	mustRefuse(t, "Azure", policy, func(ctx context.Context) error {
		o := account(t, own, "a", own, "mine")
		o.Object["spec"] = map[string]any{"azureConfig": map[string]any{"region": []any{"westus2"}, "secretRef": map[string]any{"namespace": vault, "name": "keys", "key": "k"}}}
		return tenant.Create(ctx, o)
	}, how)

	// One with a Secret that he may read, and then turned to the other.
	mustDo(t, "an account of his own", func(ctx context.Context) error { return tenant.Create(ctx, account(t, own, "a", own, "mine")) })
	for way, write := range ways {
		mustRefuse(t, way+" to another Secret", policy, func(ctx context.Context) error { return write(ctx, tenant, account(t, own, "a", vault, "keys")) }, how)
		mustDo(t, way+" of his own", func(ctx context.Context) error {
			o := account(t, own, "a", own, "mine")
			mustNot(t, unstructured.SetNestedField(o.Object, int64(30+len(way)), "spec", "pollIntervalInSeconds"))
			return write(ctx, tenant, o)
		})
	}

	// One that the administrator has made with the other Secret: nothing of it that matters is his
	// to change.
	given := account(t, own, "given", vault, "keys")
	metav1SetAnnotation(given, "nephele.io/there", "x")
	mustNot(t, admin.Create(t.Context(), given))
	patch := func(text string) func(context.Context) error {
		return func(ctx context.Context) error { return tenant.Patch(ctx, given.DeepCopy(), merge("%s", text)) }
	}
	for what, text := range map[string]string{
		"endpoint":                 `{"spec":{"awsConfig":{"endpoint":"http://evil.example.com"}}}`,
		"mode":                     `{"spec":{"mode":"released"}}`,
		"grant":                    `{"spec":{"allowedNamespaces":{"selector":{}}}}`,
		"confirmation":             `{"metadata":{"annotations":{"nephele.io/confirm":"abc"}}}`,
		"empty annotation":         `{"metadata":{"annotations":{"nephele.io/take-over":""}}}`,
		"changed annotation":       `{"metadata":{"annotations":{"nephele.io/there":"y"}}}`,
		"removed annotation":       `{"metadata":{"annotations":{"nephele.io/there":null}}}`,
		"all annotations gone":     `{"metadata":{"annotations":null}}`,
		"leave and a confirmation": `{"metadata":{"annotations":{"nephele.io/confirm":"abc","nephele.io/allow-deletion":"true"}}}`,
		"leave and an endpoint":    `{"metadata":{"annotations":{"nephele.io/allow-deletion":"true"}},"spec":{"awsConfig":{"endpoint":"http://evil.example.com"}}}`,
		"annotation and others":    `{"metadata":{"labels":{"a":"b"},"annotations":{"nephele.io/confirm":"abc","a":"b"}}}`,
	} {
		mustRefuse(t, what, policy, patch(text), how)
	}
	for _, text := range []string{
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"example.com/a":"b"}}}`, `{"metadata":{"finalizers":["example.com/f"]}}`,
		`{"metadata":{"finalizers":null}}`, `{"spec":{"awsConfig":{"region":["us-west-2"]}}}`,
	} {
		mustDo(t, text, patch(text))
	}
	// To leave an account to deletion takes the right to delete it, and not the Secret.
	leave := merge(`{"metadata":{"annotations":{"nephele.io/allow-deletion":"true"}}}`)
	editor := person(t, "editor@"+own, own)
	give(t, "editor@"+own, own, "crd.cloud.antrea.io", "cloudprovideraccounts", "patch", "given")
	mustRefuse(t, "leave by somebody who may not delete", policy, func(ctx context.Context) error { return editor.Patch(ctx, given.DeepCopy(), leave) }, how)
	mustDo(t, "leave", func(ctx context.Context) error { return tenant.Patch(ctx, given.DeepCopy(), leave) })
	if err := tenant.Status().Patch(t.Context(), given.DeepCopy(), merge(`{"status":{"cloudAccountId":"1"}}`)); !apierrors.IsForbidden(err) {
		t.Errorf("status: %v", err)
	}
	// Deleted and made again.
	mustDo(t, "delete", func(ctx context.Context) error { return tenant.Delete(ctx, given.DeepCopy()) })
	mustRefuse(t, "make it again", policy, func(ctx context.Context) error { return tenant.Create(ctx, account(t, own, "given", vault, "keys")) }, how)

	// The right to that one Secret is what it takes.
	give(t, name, vault, "", "secrets", "get", "keys")
	mustDo(t, "with the right", func(ctx context.Context) error { return tenant.Create(ctx, account(t, own, "given", vault, "keys")) })
	mustRefuse(t, "another Secret there", policy, func(ctx context.Context) error { return tenant.Create(ctx, account(t, own, "other", vault, "others")) })
	// A namespace of another name is not "".
	if err := tenant.Create(t.Context(), account(t, own, "empty", `""`, "keys")); !apierrors.IsInvalid(err) {
		t.Errorf("empty namespace: %v", err)
	}
	mustRefuse(t, "odd namespace", policy, func(ctx context.Context) error {
		return tenant.Create(ctx, account(t, own, "odd", `"../`+own+`"`, "keys"))
	})
}

func metav1SetAnnotation(o client.Object, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// TestForceNamesItsUser: the word that lets go on what is blocked names the user that gives it, in
// whatever way it is given. Others may take it away.
func TestForceNamesItsUser(t *testing.T) {
	guarded(t)
	own := newNamespace(t, "forced")
	name := "alice@" + own
	alice, bob := person(t, name, own, "nephele-account-administrator", "edit"), person(t, "bob@"+own, own, "nephele-account-administrator", "edit")
	const policy = "nephele-force"
	how := fmt.Sprintf(`nephele.io/force="HASH by %s"`, name)
	with := func(value string) *unstructured.Unstructured {
		o := account(t, own, "a", own, "mine")
		metav1SetAnnotation(o, cloudv1.AnnotationForce, value)
		return o
	}
	patch := func(value string) client.Patch {
		return merge(`{"metadata":{"annotations":{"nephele.io/force":%q}}}`, value)
	}
	mustRefuse(t, "create", policy, func(ctx context.Context) error { return alice.Create(ctx, with("abc by bob")) }, how)
	mustDo(t, "an account", func(ctx context.Context) error { return alice.Create(ctx, account(t, own, "a", own, "mine")) })
	for what, value := range map[string]string{
		"nobody": "abc", "another user": "abc by bob@" + own, "an empty user": "abc by ", "another user and herself": "abc by bob by " + name, "herself and another user": "abc by " + name + " by bob",
	} {
		mustRefuse(t, what, policy, func(ctx context.Context) error { return alice.Patch(ctx, with(""), patch(value)) }, how)
		mustRefuse(t, what+", applied", policy, func(ctx context.Context) error { return ways["server-side apply"](ctx, alice, with(value)) }, how)
	}
	mustDo(t, "herself", func(ctx context.Context) error { return alice.Patch(ctx, with(""), patch("abc by "+name)) })
	mustDo(t, "something else meanwhile", func(ctx context.Context) error {
		return bob.Patch(ctx, with(""), merge(`{"metadata":{"annotations":{"nephele.io/confirm":"abc"}},"spec":{"pollIntervalInSeconds":90}}`))
	})
	mustRefuse(t, "another hash in her name", policy, func(ctx context.Context) error { return bob.Patch(ctx, with(""), patch("def by "+name)) })
	mustDo(t, "without it", func(ctx context.Context) error {
		return bob.Patch(ctx, with(""), merge(`{"metadata":{"annotations":{"nephele.io/force":null}}}`))
	})
}

// TestSelectorsNeedTheAccount: the author of a selector must be allowed to use the account that it
// names.
func TestSelectorsNeedTheAccount(t *testing.T) {
	admin := guarded(t)
	owner, own := newNamespace(t, "owner"), newNamespace(t, "tenant")
	name := "selectors@" + own
	tenant := person(t, name, own, "nephele-selector-administrator", "admin")
	const policy = "nephele-selectors"
	how := fmt.Sprintf(`you need the verb use on cloudprovideraccounts (crd.cloud.antrea.io) "prod" in namespace %q`, owner)
	selector := func(mode string) *unstructured.Unstructured {
		return fromYAML(t, `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: %s, name: s}
spec: {accountNamespace: %s, accountName: prod, mode: %s, vmSelector: [{vpcMatch: {matchID: vpc-1}}]}`, own, owner, mode)
	}
	mustRefuse(t, "create", policy, func(ctx context.Context) error { return tenant.Create(ctx, selector("plan")) }, how)
	mustRefuse(t, "apply a new one", policy, func(ctx context.Context) error { return ways["server-side apply"](ctx, tenant, selector("plan")) }, how)
	mustRefuse(t, "generated name", policy, func(ctx context.Context) error {
		o := selector("plan")
		o.SetName("")
		o.SetGenerateName("s-")
		return tenant.Create(ctx, o)
	}, how)
	// The same name elsewhere, and other verbs, are no help.
	give(t, name, own, cloudv1.GroupName, "cloudprovideraccounts", "use")
	give(t, name, owner, cloudv1.GroupName, "cloudprovideraccounts", "use", "other")
	give(t, name, owner, cloudv1.GroupName, "cloudprovideraccounts", "get", "prod")
	give(t, name, owner, cloudv1.GroupName, "cloudentityselectors", "use", "prod")
	mustRefuse(t, "with other rights", policy, func(ctx context.Context) error { return tenant.Create(ctx, selector("plan")) }, how)

	// One that the administrator has made.
	mustNot(t, admin.Create(t.Context(), selector("plan")))
	for way, write := range ways {
		mustRefuse(t, way, policy, func(ctx context.Context) error { return write(ctx, tenant, selector("enforce")) }, how)
		mustDo(t, way+" without a change", func(ctx context.Context) error { return write(ctx, tenant, selector("plan")) })
	}
	mustDo(t, "label", func(ctx context.Context) error {
		return tenant.Patch(ctx, selector("plan"), merge(`{"metadata":{"labels":{"a":"b"}}}`))
	})
	if err := tenant.Patch(t.Context(), selector("plan"), merge(`{"spec":{"accountName":"other"}}`)); !apierrors.IsInvalid(err) {
		t.Errorf("another account: %v", err)
	}
	if err := tenant.Create(t.Context(), selectorIn(own, "empty", "", "prod")); !apierrors.IsInvalid(err) {
		t.Errorf("no namespace of the account: %v", err)
	}
	mustDo(t, "delete", func(ctx context.Context) error { return tenant.Delete(ctx, selector("plan")) })
	bind(t, name, owner, "nephele-account-user")
	mustDo(t, "with the right", func(ctx context.Context) error { return tenant.Create(ctx, selector("plan")) })
}

// TestBreakGlassNeedsTheVerb: nobody sets, changes or ends break-glass without the verb, in
// whatever way.
func TestBreakGlassNeedsTheVerb(t *testing.T) {
	admin := guarded(t)
	ns := newNamespace(t, "glass")
	name := "glass@" + ns
	// He may do everything else with all kinds.
	tenant := person(t, name, ns, "nephele-selector-administrator")
	give(t, name, "", cloudv1.GroupName, "cloudprovideraccounts", "use")
	for _, verb := range []string{"create", "delete", "deletecollection"} {
		give(t, name, ns, cloudv1.GroupName, "virtualmachines", verb)
	}
	for _, verb := range []string{"create", "patch", "delete", "deletecollection"} {
		give(t, name, ns, cloudv1.GroupName, "cloudnativeservices", verb)
		give(t, name, ns, cloudv1.GroupName, "networkinterfaces", verb)
	}
	const policy = "nephele-break-glass"
	broken := func(o client.Object) client.Object {
		out := o.DeepCopyObject().(client.Object)
		metav1SetAnnotation(out, cloudv1.AnnotationBreakGlass, "fire")
		return out
	}
	vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "i-1"}}
	selector := selectorIn(ns, "s", "owner", "prod")
	service := &cloudv1.CloudNativeService{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "rdsinstance-orders-0"}}
	nic := &cloudv1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "eni-1"}}
	for kind, o := range map[string]client.Object{"virtualmachines": vm, "cloudnativeservices": service, "networkinterfaces": nic, "cloudentityselectors": selector} {
		how := fmt.Sprintf(`you need the verb breakglass on %s (crd.cloud.antrea.io) %q in namespace %q`, kind, o.GetName(), ns)
		glass := func(value string) func(context.Context) error {
			return func(ctx context.Context) error {
				return tenant.Patch(ctx, o.DeepCopyObject().(client.Object), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":%s}}}`, value))
			}
		}
		mustRefuse(t, kind+" create", policy, func(ctx context.Context) error { return tenant.Create(ctx, broken(o)) }, how)
		mustRefuse(t, kind+" generated name", policy, func(ctx context.Context) error {
			b := broken(o)
			b.SetName("")
			b.SetGenerateName("g-")
			return tenant.Create(ctx, b)
		})
		mustDo(t, kind+" create whole", func(ctx context.Context) error { return tenant.Create(ctx, o.DeepCopyObject().(client.Object)) })
		mustRefuse(t, kind+" set", policy, glass(`"fire"`), how)
		mustRefuse(t, kind+" set empty", policy, glass(`""`), how)
		mustNot(t, admin.Patch(t.Context(), o.DeepCopyObject().(client.Object), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":"fire"}}}`)))
		mustRefuse(t, kind+" change", policy, glass(`"smoke"`), how)
		mustRefuse(t, kind+" remove", policy, glass(`null`), how)
		end := func(c client.Client, why, until string) func(context.Context) error {
			return func(ctx context.Context) error {
				return c.Patch(ctx, o.DeepCopyObject().(client.Object), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":%s,"nephele.io/break-glass-until":%s}}}`, why, until))
			}
		}
		mustRefuse(t, kind+" end", policy, end(tenant, `"fire"`, `"2020-01-02T15:04:05Z"`), how)
		for _, until := range []string{`"tomorrow"`, `""`, `"2026-01-02"`, `"2026-01-02T15:04:05"`, `"2026-01-02T15:04:05Zulu"`} {
			mustRefuse(t, kind+" end "+until, policy, end(admin, `"fire"`, until), "is to be a time like")
		}
		mustNot(t, end(admin, `"fire"`, `"2026-01-02T15:04:05+02:00"`)(t.Context()))
		mustRefuse(t, kind+" later end", policy, end(tenant, `"fire"`, `"2036-01-02T15:04:05Z"`), how)
		mustRefuse(t, kind+" no end", policy, end(tenant, `"fire"`, `null`), how)
		mustRefuse(t, kind+" new reason, former end", policy, end(admin, `"smoke"`, `"2026-01-02T15:04:05+02:00"`), "from a former release")
		mustNot(t, end(admin, `null`, `"2026-01-02T15:04:05+02:00"`)(t.Context()))
		mustRefuse(t, kind+" new release, former end", policy, end(admin, `"fire"`, `"2026-01-02T15:04:05+02:00"`), "from a former release")
		mustNot(t, end(admin, `"fire"`, `null`)(t.Context()))
		mustRefuse(t, kind+" delete", policy, func(ctx context.Context) error { return tenant.Delete(ctx, o.DeepCopyObject().(client.Object)) }, how)
		mustRefuse(t, kind+" delete all", policy, func(ctx context.Context) error {
			return tenant.DeleteAllOf(ctx, o.DeepCopyObject().(client.Object), client.InNamespace(ns))
		}, how)
		mustDo(t, kind+" label", func(ctx context.Context) error {
			return tenant.Patch(ctx, o.DeepCopyObject().(client.Object), merge(`{"metadata":{"labels":{"a":"b"}}}`))
		})
	}
	// Nor by taking what is imported away from its account.
	for _, o := range []client.Object{vm, service, nic} {
		copied := func() client.Object { return o.DeepCopyObject().(client.Object) }
		marked := copied()
		marked.SetName(o.GetName() + "-marked")
		marked.SetLabels(map[string]string{cloudv1.LabelCPANamespace: "clouds", "a": "b"})
		marked.SetAnnotations(map[string]string{"nephele.io/account": "clouds/a"})
		mustNot(t, admin.Create(t.Context(), marked))
		patch := func(text string) func(context.Context) error {
			return func(ctx context.Context) error {
				this := copied()
				this.SetName(marked.GetName())
				return tenant.Patch(ctx, this, merge("%s", text))
			}
		}
		for _, text := range []string{
			`{"metadata":{"annotations":{"nephele.io/account":"clouds/b"}}}`, `{"metadata":{"annotations":{"nephele.io/account":null}}}`, `{"metadata":{"annotations":null}}`,
			`{"metadata":{"labels":{"nephe.antrea.io/cpa-namespace":null}}}`, `{"metadata":{"labels":{"nephe.antrea.io/cpa-namespace":"x"}}}`, `{"metadata":{"labels":null}}`,
		} {
			mustRefuse(t, marked.GetName()+" "+text, policy, patch(text))
		}
		mustDo(t, marked.GetName()+" another label", patch(`{"metadata":{"labels":{"a":"c"}}}`))
	}
	mustDo(t, "tags of a broken VM", func(ctx context.Context) error {
		return tenant.Patch(ctx, vm.DeepCopy(), merge(`{"spec":{"tags":{"a":"b"}}}`))
	})

	// The verb on one object is not that on another; the role has it, and nothing more.
	operator := "operator@" + ns
	o := person(t, operator, ns, "nephele-break-glass-operator")
	mustDo(t, "operator ends it", func(ctx context.Context) error {
		return o.Patch(ctx, vm.DeepCopy(), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":null}}}`))
	})
	mustDo(t, "operator breaks a service", func(ctx context.Context) error {
		return o.Patch(ctx, service.DeepCopy(), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":"new"}}}`))
	})
	mustDo(t, "operator breaks a selector", func(ctx context.Context) error {
		return o.Patch(ctx, selector.DeepCopy(), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":"new"}}}`))
	})
	mustRefuse(t, "operator changes a selector", "nephele-selectors", func(ctx context.Context) error {
		return o.Patch(ctx, selector.DeepCopy(), merge(`{"spec":{"mode":"released"}}`))
	})
	give(t, name, ns, cloudv1.GroupName, "cloudentityselectors", "breakglass", "other")
	mustRefuse(t, "the verb on another object", policy, func(ctx context.Context) error {
		return tenant.Patch(ctx, selector.DeepCopy(), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":null}}}`))
	})
	give(t, name, ns, cloudv1.GroupName, "cloudentityselectors", "breakglass", "s")
	mustDo(t, "the verb on this object", func(ctx context.Context) error {
		return tenant.Patch(ctx, selector.DeepCopy(), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":"x"}}}`))
	})

	// A namespace that goes takes what it has with it.
	mustNot(t, admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	eventually(t, "the namespace is gone", func(ctx context.Context) error {
		return gone(admin.Get(ctx, client.ObjectKey{Name: ns}, &corev1.Namespace{}))
	})
}

// TestTiersThatAskForIt: a tier with the label takes policies of those only who may use it, whoever
// else may write policies.
func TestTiersThatAskForIt(t *testing.T) {
	admin := guarded(t)
	ns := newNamespace(t, "tiers")
	name := "author@" + ns
	author := person(t, name, "", "nephele-policy-author")
	for _, tier := range []string{"securityops", "application", "other"} {
		o := &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: tier}, Spec: v1beta1.TierSpec{Priority: map[string]int32{"securityops": 100, "application": 250, "other": 30}[tier]}}
		mustNot(t, admin.Create(t.Context(), o))
	}
	label := func(tier, value string) {
		t.Helper()
		mustNot(t, admin.Patch(t.Context(), &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: tier}}, merge(`{"metadata":{"labels":{"nephele.io/use":%s}}}`, value)))
	}
	t.Cleanup(func() {
		for _, tier := range []string{"securityops", "application", "other"} {
			if err := admin.Delete(context.Background(), &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: tier}}); err != nil {
				t.Error(err)
			}
		}
	})
	policyIn := func(name, tier string) *unstructured.Unstructured {
		o := fromYAML(t, `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: %s, name: %s}
spec: {priority: 5, tier: "%s", appliedTo: [{podSelector: {}}], ingress: [{name: r, action: Drop}]}`, ns, name, tier)
		if tier == "" {
			unstructured.RemoveNestedField(o.Object, "spec", "tier")
		}
		return o
	}
	clusterWide := func(name, tier string) *unstructured.Unstructured {
		o := policyIn(name, tier)
		o.SetKind("ClusterNetworkPolicy")
		o.SetNamespace("")
		return o
	}
	creates := func(o *unstructured.Unstructured) func(context.Context) error {
		return func(ctx context.Context) error { return author.Create(ctx, o.DeepCopy()) }
	}
	const policy = "nephele-tiers"
	// kube-apiserver hears of a changed tier a moment later.
	required := func(tier string) {
		t.Helper()
		label(tier, `"required"`)
		try := dryRun(author, policyIn("p", tier))
		eventually(t, "the label of tier "+tier+" counts", func(ctx context.Context) error {
			if err := try(ctx); !refusedBy(err, policy) {
				return fmt.Errorf("not refused by %s: %w", policy, err)
			}
			return nil
		})
	}
	how := func(tier string) string { return `you need the verb use on tiers (crd.antrea.io) "` + tier + `"` }

	// Without a label every tier is free.
	mustDo(t, "free", creates(policyIn("before", "securityops")))
	mustDo(t, "free default", creates(policyIn("default", "")))
	mustDo(t, "free and cluster-wide", creates(clusterWide(ns, "securityops")))
	label("securityops", `"Required"`)
	mustDo(t, "another value", creates(policyIn("value", "securityops")))
	required("securityops")
	mustRefuse(t, "create", policy, dryRun(author, policyIn("p", "securityops")), how("securityops"))
	mustRefuse(t, "of old", policy, dryRun(author, policyIn("p", "SecurityOps")), how("securityops"))
	mustRefuse(t, "cluster-wide", policy, dryRun(author, clusterWide("p", "securityops")), how("securityops"))
	mustDo(t, "another tier", dryRun(author, policyIn("p", "other")))
	patch := func(name, text string) func(context.Context) error {
		return func(ctx context.Context) error {
			return author.Patch(ctx, policyIn(name, "x"), merge("%s", text), client.DryRunAll)
		}
	}
	mustRefuse(t, "change", policy, patch("before", `{"spec":{"priority":6}}`), how("securityops"))
	mustRefuse(t, "out of it", policy, patch("before", `{"spec":{"tier":"other"}}`), how("securityops"))
	mustRefuse(t, "out of it to the default", policy, patch("before", `{"spec":{"tier":null}}`), how("securityops"))
	mustRefuse(t, "into it", policy, patch("default", `{"spec":{"tier":"securityops"}}`), how("securityops"))
	mustRefuse(t, "stage, which ends its enforcement", policy, patch("before", `{"metadata":{"annotations":{"nephele.io/stage":"plan"}}}`), how("securityops"))
	mustRefuse(t, "delete", policy, func(ctx context.Context) error { return author.Delete(ctx, policyIn("before", "securityops")) }, how("securityops"))
	mustRefuse(t, "delete all", policy, func(ctx context.Context) error {
		return author.DeleteAllOf(ctx, &v1beta1.NetworkPolicy{}, client.InNamespace(ns))
	}, how("securityops"))
	for way, write := range ways {
		mustRefuse(t, way, policy, func(ctx context.Context) error {
			o := policyIn("before", "securityops")
			mustNot(t, unstructured.SetNestedField(o.Object, int64(7), "spec", "priority"))
			return write(ctx, author, o)
		}, how("securityops"))
	}
	mustDo(t, "label of a policy", patch("before", `{"metadata":{"labels":{"a":"b"}}}`))
	mustDo(t, "status", func(ctx context.Context) error {
		return admin.Status().Patch(ctx, policyIn("before", "securityops"), merge(`{"status":{"phase":"Realized"}}`))
	})

	// Several, the default one among them.
	required("application")
	required("other")
	mustRefuse(t, "default", policy, dryRun(author, policyIn("p", "")), how("application"))
	mustRefuse(t, "default by its old name", policy, dryRun(author, policyIn("p", "Application")), how("application"))
	give(t, name, "", v1beta1.GroupName, "tiers", "use", "other")
	mustDo(t, "one that he may use", dryRun(author, policyIn("p", "other")))
	mustRefuse(t, "and still not the other", policy, dryRun(author, policyIn("p", "securityops")), how("securityops"))
	bind(t, name, "", "nephele-tier-user")
	mustDo(t, "all", dryRun(author, policyIn("p", "securityops")))
	mustDo(t, "and a move", patch("before", `{"spec":{"tier":null}}`))

	// A namespace that goes takes its policies with it.
	mustNot(t, admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	eventually(t, "the namespace is gone", func(ctx context.Context) error {
		return gone(admin.Get(ctx, client.ObjectKey{Name: ns}, &corev1.Namespace{}))
	})
	mustNot(t, admin.Delete(t.Context(), clusterWide(ns, "securityops")))
}

func dryRun(c client.Client, o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

// TestControllerIsNotHeldUp: what the controller writes with the rights of its ServiceAccount, it
// may write whatever the objects say. Nor does it need the Secret of an account to write about the
// account.
func TestControllerIsNotHeldUp(t *testing.T) {
	admin := guarded(t)
	role, err := os.ReadFile("../../../config/controller/role.yaml")
	mustNot(t, err)
	mustNot(t, server(t).Apply(t.Context(), fstest.MapFS{"role.yaml": {Data: role}}))
	controller := acting(t, func(c *rest.Config) {
		actingAs(c, "system:serviceaccount:kube-system:nephele-controller", "system:serviceaccounts", "system:serviceaccounts:kube-system")
	})
	ns, vault := newNamespace(t, "held"), newNamespace(t, "vault")
	narrow := "narrow@" + ns
	poor := user(t, narrow)
	for _, resource := range []string{"cloudprovideraccounts", "cloudprovideraccounts/status"} {
		give(t, narrow, ns, cloudv1.GroupName, resource, "patch")
	}
	mustNot(t, admin.Create(t.Context(), account(t, ns, "a", vault, "keys")))
	for who, c := range map[string]client.Client{"controller": controller, "controller without Secrets": poor} {
		mustDo(t, who+": finalizer", func(ctx context.Context) error {
			return c.Patch(ctx, account(t, ns, "a", vault, "keys"), merge(`{"metadata":{"finalizers":["nephele.io/release"]}}`))
		})
		mustDo(t, who+": no finalizer", func(ctx context.Context) error {
			return c.Patch(ctx, account(t, ns, "a", vault, "keys"), merge(`{"metadata":{"finalizers":null}}`))
		})
		mustDo(t, who+": status", func(ctx context.Context) error {
			return c.Status().Patch(ctx, account(t, ns, "a", vault, "keys"), merge(`{"status":{"cloudAccountId":"1"}}`))
		})
	}
	// As much as the API server takes: nobody can make the policies too expensive for the
	// controller.
	big := account(t, ns, "big", vault, "keys")
	notes := map[string]string{}
	for n := range 16000 {
		notes[fmt.Sprintf("nephele.io/%x", n)] = ""
	}
	big.SetAnnotations(notes)
	mustNot(t, admin.Create(t.Context(), big.DeepCopy()))
	mustDo(t, "finalizer of a big account", func(ctx context.Context) error {
		return poor.Patch(ctx, account(t, ns, "big", vault, "keys"), merge(`{"metadata":{"finalizers":["nephele.io/release"]}}`))
	})
	mustDo(t, "and no finalizer", func(ctx context.Context) error {
		return poor.Patch(ctx, account(t, ns, "big", vault, "keys"), merge(`{"metadata":{"finalizers":null}}`))
	})
	vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "i-1"}}
	selector := selectorIn(ns, "s", ns, "a")
	metav1SetAnnotation(selector, cloudv1.AnnotationBreakGlass, "fire")
	mustNot(t, admin.Create(t.Context(), selector.DeepCopy()))
	vm.Labels, vm.Annotations = map[string]string{cloudv1.LabelCPANamespace: ns}, map[string]string{"nephele.io/account": ns + "/a"}
	mustDo(t, "import", func(ctx context.Context) error { return controller.Create(ctx, vm.DeepCopy()) })
	mustDo(t, "another selector", func(ctx context.Context) error {
		return controller.Patch(ctx, vm.DeepCopy(), merge(`{"metadata":{"labels":{"nephe.antrea.io/ces-name":"s"}}}`))
	})
	mustNot(t, admin.Patch(t.Context(), vm.DeepCopy(), merge(`{"metadata":{"annotations":{"nephele.io/break-glass":"fire"}}}`)))
	mustDo(t, "labels", func(ctx context.Context) error {
		return controller.Patch(ctx, vm.DeepCopy(), merge(`{"metadata":{"labels":{"a":"b"}}}`))
	})
	mustDo(t, "status", func(ctx context.Context) error {
		now := vm.DeepCopy()
		if err := admin.Get(ctx, client.ObjectKeyFromObject(vm), now); err != nil {
			return err
		}
		now.Status.Mode = "break-glass"
		return controller.Status().Update(ctx, now)
	})
	mustDo(t, "status of a selector", func(ctx context.Context) error {
		return controller.Status().Patch(ctx, selector.DeepCopy(), merge(`{"status":{"error":"x"}}`))
	})
	mustDo(t, "a VM that is gone", func(ctx context.Context) error { return controller.Delete(ctx, vm.DeepCopy()) })
}

// TestSamplesApply: what a cluster administrator applies goes on applying, with account, Secret and
// selector where they please.
func TestSamplesApply(t *testing.T) {
	admin := guarded(t)
	ns := newNamespace(t, "sample")
	bind(t, "administrator@"+ns, "", "cluster-admin")
	c := user(t, "administrator@"+ns)
	raw, err := os.ReadFile("../../../config/samples/account.yaml")
	mustNot(t, err)
	objects, err := readObjects(fstest.MapFS{"account.yaml": {Data: []byte(strings.NewReplacer(
		"name: cloud\n",
		"name: cloud-"+ns+"\n",
		"name: vms\n",
		"name: vms-"+ns+"\n",
		"namespace: cloud\n",
		"namespace: cloud-"+ns+"\n",
		"namespace: vms\n",
		"namespace: vms-"+ns+"\n",
		"accountNamespace: cloud\n",
		"accountNamespace: cloud-"+ns+"\n",
	).Replace(string(raw)))}})
	mustNot(t, err)
	if len(objects) != 5 {
		t.Fatalf("%d objects", len(objects))
	}
	for range 2 {
		for _, o := range objects {
			mustDo(t, o.GetKind(), func(ctx context.Context) error {
				if err := c.Create(ctx, o.DeepCopy()); !apierrors.IsAlreadyExists(err) {
					return err
				}
				return ways["merge patch"](ctx, c, o)
			})
		}
	}
	for _, o := range objects[:2] {
		mustNot(t, admin.Delete(t.Context(), o))
	}
}
