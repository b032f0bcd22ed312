package inventory

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// editAccount changes the specification of the account.
func (l *lab) editAccount(change func(*v1alpha1.CloudProviderAccountSpec)) {
	l.Helper()
	cpa := l.account()
	change(&cpa.Spec)
	cpa.Generation++
	l.update(cpa)
}

func (l *lab) selector(namespace, name string) *v1alpha1.CloudEntitySelector {
	l.Helper()
	return get(l, &v1alpha1.CloudEntitySelector{}, namespace, name)
}

// of keeps the objects of a namespace.
func of(namespace string, all []string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, namespace+"/") })
}

func namespaceObject(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// wantNotGranted checks that a selector has no effect and says how to give it one, and nothing else
// about the account.
func (l *lab) wantNotGranted(namespace, name string, how ...string) {
	l.Helper()
	st := l.selector(namespace, name).Status
	if condition(st.Conditions, "Ready") != "False NotGranted" || condition(st.Conditions, "Matched") != "False NotGranted" || st.MatchedVMs != nil {
		l.Errorf("selector %s/%s: %+v", namespace, name, st)
	}
	for _, part := range how {
		if !strings.Contains(st.Error, part) {
			l.Errorf("selector %s/%s says %q; want %q in it", namespace, name, st.Error, part)
		}
	}
	l.want("VMs of "+namespace, of(namespace, l.vms()))
	l.want("entities of "+namespace, of(namespace, l.entities()))
	for entity := range l.inv.Entities("clouds/acc") {
		if entity.Namespace == namespace {
			l.Errorf("%s is told to subscribers", entity)
		}
	}
}

// TestForeignSelectorImportsNothing: the account decides which Namespaces import its VMs, at once
// and both ways.
func TestForeignSelectorImportsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cpa := l.cpa()
	cpa.Spec.AllowedNamespaces = &v1alpha1.NamespaceGrant{Names: []string{"web"}}
	l.create(l.secret(goodCreds), cpa, l.ces("clouds", "own", byIDs(vm1)), l.ces("web", "all", wholeVPC(vpc1)), l.ces("evil", "all", wholeVPC(vpc1)))
	l.reconcile()
	if len(of("web", l.vms())) < 2 || len(of("clouds", l.vms())) != 1 {
		t.Errorf("VMs %v", l.vms())
	}
	l.wantNotGranted("evil", "all", "namespace evil", `"evil"`, "spec.allowedNamespaces.names", "CloudProviderAccount clouds/acc")
	l.wantEvents("acc Normal Ready", "own Normal Ready", "all Normal Ready", "all Warning NotGranted")

	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.AllowedNamespaces.Names = []string{"evil", "web"} })
	l.reconcile()
	if got := of("evil", l.vms()); len(got) < 2 || condition(l.selector("evil", "all").Status.Conditions, "Ready") != "True OK" {
		t.Errorf("granted: VMs %v", got)
	}
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.AllowedNamespaces.Names = nil })
	l.reconcile()
	l.wantNotGranted("evil", "all")
	l.wantNotGranted("web", "all")
	l.want("VMs", l.vms(), "clouds/"+vm1)

	// Without the field any namespace may, as before there was one.
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.AllowedNamespaces = nil })
	l.reconcile()
	if len(of("evil", l.vms())) < 2 || len(of("web", l.vms())) < 2 {
		t.Errorf("VMs %v", l.vms())
	}
}

// TestGrantByLabel: the labels of namespaces count as they are now.
func TestGrantByLabel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cpa := l.cpa()
	cpa.Spec.AllowedNamespaces = &v1alpha1.NamespaceGrant{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}
	web := namespaceObject("web", map[string]string{"env": "test"})
	l.create(l.secret(goodCreds), cpa, l.ces("web", "all", wholeVPC(vpc1)), l.ces("gone", "all", wholeVPC(vpc1)), web)
	l.reconcile()
	l.wantNotGranted("web", "all", "spec.allowedNamespaces.selector", "label")
	l.wantNotGranted("gone", "all")
	relabel := func(value string) {
		t.Helper()
		web.Labels = map[string]string{"env": value}
		l.update(web)
		l.want("accounts to look at", keysOf(l.inv.accountsOfNamespace(t.Context(), web)), "clouds/acc")
		l.reconcile()
	}
	relabel("prod")
	if len(of("web", l.vms())) < 2 {
		t.Errorf("VMs %v", l.vms())
	}
	relabel("test")
	l.wantNotGranted("web", "all")

	// A namespace that is not there is not selected, whatever the selector.
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.AllowedNamespaces.Selector = &metav1.LabelSelector{} })
	l.reconcile()
	l.wantNotGranted("gone", "all")
	if len(of("web", l.vms())) < 2 {
		t.Errorf("VMs %v", l.vms())
	}
	// A selector that cannot be read, from before the schema, selects nothing.
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) {
		s.AllowedNamespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"no key!": ""}}
	})
	l.reconcile()
	l.wantNotGranted("web", "all", "is invalid")
	// The labels concern nobody if none is asked for.
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) {
		s.AllowedNamespaces = &v1alpha1.NamespaceGrant{Names: []string{"gone"}}
	})
	l.want("accounts to look at", keysOf(l.inv.accountsOfNamespace(t.Context(), web)))
	l.reconcile()
	if len(of("gone", l.vms())) < 2 {
		t.Errorf("VMs %v", l.vms())
	}
}

func keysOf(keys []types.NamespacedName) []string {
	out := []string{}
	for _, k := range keys {
		out = append(out, k.String())
	}
	return out
}

// TestUngrantedKeepsNothing: where a region was not read since the start, objects stay, but not
// objects of a selector that is not granted.
func TestUngrantedKeepsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)), l.ces("evil", "all", wholeVPC(vpc1)))
	l.reconcile()
	web := of("web", l.vms())
	l.server.Faults().Add(ec2.Fault{Code: "Unavailable", Times: -1})
	l.restart(nil)
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) {
		s.AllowedNamespaces = &v1alpha1.NamespaceGrant{Names: []string{"web"}}
	})
	l.reconcile()
	l.want("VMs", l.vms(), web...)
	l.wantNotGranted("evil", "all")
	if got := len(l.inv.Entities("clouds/acc")); got != len(web) {
		t.Errorf("%d entities; want %d", got, len(web))
	}
}

// TestUngrantedSelectorReadsNothing: it does not make the account be read where nobody else looks.
func TestUngrantedSelectorReadsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.direct = true
	cpa := l.cpa()
	cpa.Spec.AllowedNamespaces = &v1alpha1.NamespaceGrant{}
	l.create(l.secret(goodCreds), cpa, l.ces("clouds", "own", wholeVPC(vpc1)), l.ces("evil", "tagged",
		v1alpha1.VirtualMachineSelector{TagMatch: []v1alpha1.TagMatch{{Key: "Name"}}}))
	l.reconcile()
	if got := l.inv.lookup("clouds/acc").narrow; !slices.Equal(got, []cloud.NetworkMatch{{ID: vpc1}}) {
		t.Errorf("networks that are read: %v", got)
	}
	l.wantNotGranted("evil", "tagged")
}

// TestNoStaleGrant: a pass that has nothing new from the cloud still follows the account's word.
func TestNoStaleGrant(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	vm := types.NamespacedName{Namespace: "web", Name: vm1}
	l.reconcile()
	l.setAnnotation(&v1alpha1.VirtualMachine{}, vm.Namespace, vm.Name, v1alpha1.AnnotationBreakGlass, "fire")
	l.reconcile()
	mode := func(want string) {
		t.Helper()
		ref := l.inv.Entities("clouds/acc")[types.NamespacedName{Namespace: "web", Name: "virtualmachine-" + vm1}]
		if got := get(l, &v1alpha1.VirtualMachine{}, vm.Namespace, vm.Name).Status.Mode; ref.Mode != want || got != want {
			t.Errorf("mode %q, status %q; want %q", ref.Mode, got, want)
		}
	}
	mode("")
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.ReleaseNamespaces = []string{"web"} })
	l.reconcile()
	mode("break-glass")
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.ReleaseNamespaces = []string{"other"} })
	l.reconcile()
	mode("")
}

// setAnnotation sets an annotation of an object that exists, of which o is an empty one.
func (l *lab) setAnnotation(o client.Object, namespace, name, key, value string) {
	l.Helper()
	have := get(l, o, namespace, name)
	annotations := map[string]string{key: value}
	for k, v := range have.GetAnnotations() {
		if k != key {
			annotations[k] = v
		}
	}
	have.SetAnnotations(annotations)
	l.update(have)
}

// TestForeignModesDoNotCount: what a namespace without a say asks for changes nothing for the
// owner, and is said.
func TestForeignModesDoNotCount(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	plan, released := l.ces("evil", "freeze", wholeVPC(vpc1)), l.ces("evil2", "open", byIDs(vm1))
	plan.Spec.Mode, released.Spec.Mode = v1alpha1.ModePlan, v1alpha1.ModeReleased
	glass := l.ces("evil3", "glass", byIDs(vm1))
	glass.Annotations = map[string]string{v1alpha1.AnnotationBreakGlass: "let me in"}
	l.create(l.secret(goodCreds), l.cpa(), l.ces("clouds", "own", wholeVPC(vpc1)), plan, released, glass)
	l.reconcile()
	l.setAnnotation(&v1alpha1.VirtualMachine{}, "evil", vm1, v1alpha1.AnnotationBreakGlass, "me too")
	l.events.take()
	l.reconcile()
	for entity, ref := range l.inv.Entities("clouds/acc") {
		if ref.Mode != "" {
			t.Errorf("%s is in mode %s by %s", entity, ref.Mode, ref.ModeReason)
		}
	}
	n := len(of("evil", l.vms()))
	for _, c := range []struct {
		conditions []metav1.Condition
		reason     string
		message    []string
	}{
		{l.selector("evil", "freeze").Status.Conditions, "ModeNotGranted", []string{"mode plan", "of what it selects: " + string(rune('0'+n)),
			"spec.releaseNamespaces of CloudProviderAccount clouds/acc", `"evil"`}},
		{l.selector("evil2", "open").Status.Conditions, "ModeNotGranted", []string{"mode released", "of what it selects: 1"}},
		{l.selector("evil3", "glass").Status.Conditions, "BreakGlassNotGranted", []string{"break-glass", "spec.releaseNamespaces", `"evil3"`}},
		{get(l, &v1alpha1.VirtualMachine{}, "evil", vm1).Status.Conditions, "BreakGlassNotGranted", []string{"break-glass", `"evil"`, "spec.releaseNamespaces"}},
	} {
		got := meta.FindStatusCondition(c.conditions, v1alpha1.ConditionHeeded)
		if got == nil || got.Status != metav1.ConditionFalse || got.Reason != c.reason || got.LastTransitionTime.IsZero() {
			t.Errorf("%+v; want False %s", got, c.reason)
			continue
		}
		for _, part := range c.message {
			if !strings.Contains(got.Message, part) {
				t.Errorf("%q; want %q in it", got.Message, part)
			}
		}
	}
	l.wantEvents(vm1 + " Warning BreakGlassNotGranted")
	for _, ns := range []string{"clouds", "evil2"} {
		if c := meta.FindStatusCondition(get(l, &v1alpha1.VirtualMachine{}, ns, vm1).Status.Conditions, v1alpha1.ConditionHeeded); c != nil {
			t.Errorf("%s: %+v", ns, c)
		}
	}
	// Said once, and taken back when it is granted.
	l.reconcile()
	l.wantEvents()
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.ReleaseNamespaces = []string{"evil", "evil3"} })
	l.reconcile()
	for _, c := range [][]metav1.Condition{l.selector("evil", "freeze").Status.Conditions, l.selector("evil3", "glass").Status.Conditions,
		get(l, &v1alpha1.VirtualMachine{}, "evil", vm1).Status.Conditions} {
		if got := meta.FindStatusCondition(c, v1alpha1.ConditionHeeded); got != nil {
			t.Errorf("granted: %+v", got)
		}
	}
	if mode := l.inv.Entities("clouds/acc")[types.NamespacedName{Namespace: "clouds", Name: "virtualmachine-" + vm1}].Mode; mode != "break-glass" {
		t.Errorf("mode %q", mode)
	}
}

// TestUserTagsStandApart: a tag that somebody adds is no tag of the cloud, unless the account says
// so.
func TestUserTagsStandApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", byIDs(vm1)))
	if err := l.region(oregon).CreateTags([]string{vm1}, []aws.Tag{{Key: "role", Value: "web"}}); err != nil {
		t.Fatal(err)
	}
	l.reconcile()
	long := strings.Repeat("k", 55)
	vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1)
	vm.Spec.Tags = map[string]string{"role": "bastion", "note": "mine", "not legal": "x", long: "y"}
	l.update(vm)
	ee := get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+vm1)
	ee.Labels[v1alpha1.LabelUserTagPrefix+"forged"] = "x"
	l.update(ee)
	wants := func(when string, want map[string]string) {
		t.Helper()
		l.inv.touch(accountKey)
		l.reconcile()
		labels := get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+vm1).Labels
		for key, value := range want {
			if labels[key] != value {
				t.Errorf("%s: %s is %q; want %q", when, key, labels[key], value)
			}
		}
	}
	const tag, user = v1alpha1.LabelTagPrefix, v1alpha1.LabelUserTagPrefix
	wants("apart", map[string]string{tag + "role": "web", tag + "note": "", user + "role": "bastion", user + "note": "mine", user + "forged": "", user + long: ""})
	left := get(l, &v1alpha1.VirtualMachine{}, "web", vm1).Status.UnimportedTags
	for _, key := range []string{"not legal", long} {
		if i := slices.IndexFunc(left, func(u v1alpha1.UnimportedTag) bool { return u.Key == key }); i < 0 || !strings.HasPrefix(left[i].Reason, "spec.tags: ") {
			t.Errorf("%s is not said to be left out: %+v", key, left)
		}
	}
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.UserTags = v1alpha1.UserTagsMerge })
	wants("merged", map[string]string{tag + "role": "bastion", tag + "note": "mine", tag + long: "y", user + "role": "", user + "note": ""})
	l.events.take()
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.UserTags = v1alpha1.UserTagsSeparate })
	wants("apart again", map[string]string{tag + "role": "web", tag + "note": "", user + "role": "bastion"})
	l.wantEvents(vm1 + " Warning UserTagsApart: tags in spec.tags are labels nephele.io/user-tag-KEY now")
}

// TestForeignSecretIsNotTold: naming a Secret of another namespace reveals nothing about it. Where
// the controller may not read it at all, that is told, whether it is there or not: see
// TestSecretsOfOtherNamespaces.
func TestForeignSecretIsNotTold(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	for name, value := range map[string]string{
		"none": "", "another key": "", "empty": "", "no JSON": "-----BEGIN CERTIFICATE-----", "half a credential": `{"accessKeyId":"A"}`, "not a string": `{"accessKeyId":1}`,
	} {
		l := newLab(t)
		cpa, secret := l.cpa(), l.secret(value)
		secret.Namespace, cpa.Spec.AWSConfig.SecretRef.Namespace = "vault", "vault"
		if name == "another key" {
			secret.Data = map[string][]byte{"tls.key": []byte("x")}
		}
		if name != "none" {
			l.create(secret)
		}
		l.create(cpa, l.ces("web", "all", wholeVPC(vpc1)))
		l.reconcile()
		st := l.account().Status
		text := []string{st.Error}
		for _, c := range st.Conditions {
			text = append(text, c.Type+" "+string(c.Status)+" "+c.Reason+" "+c.Message)
		}
		for _, r := range st.Regions {
			text = append(text, r.LastError)
		}
		text = append(text, l.events.take()...)
		text = append(text, l.selector("web", "all").Status.Error)
		said[strings.Join(text, "\n")] += " " + name
		if condition(st.Conditions, "CredentialsValid") != "False SecretUnusable" || !strings.Contains(st.Error, "vault/aws") || !strings.Contains(st.Error, `"credentials"`) {
			t.Errorf("%s: %s", name, st.Error)
		}
	}
	if len(said) != 1 {
		for text, names := range said {
			t.Errorf("%s:\n%s", names, text)
		}
	}
}

// forbidding refuses to read Secrets.
type forbidding struct{ client.Reader }

func (forbidding) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
}

// TestForbiddenSecret: the account says that the controller may not read its Secret, and the rest
// of the loop goes on.
func TestForbiddenSecret(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", byIDs(vm1)))
	l.reconcile()
	l.inv.opts.Secrets = forbidding{l.api}
	l.reconcile()
	l.wantAccount(
		"False NotGranted",
		"False NotGranted",
		"False NotGranted",
		"the controller has no right to read Secrets of namespace clouds: bind ClusterRole nephele-controller-secrets",
	)
	l.want("VMs", l.vms(), "web/"+vm1)
}

// TestSharedAccountOfOldStaysEnforced starts from what a build without grants has left: account,
// Secret and selectors in namespaces of their own, and VMs under control. Nothing is released,
// renamed or written anew.
func TestSharedAccountOfOldStaysEnforced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	canary := l.ces("web", "canary", byIDs(vm1))
	canary.Spec.Mode = v1alpha1.ModeEnforce
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)), canary, l.ces("db", "all", wholeVPC(vpc1)))
	l.reconcile()
	before, refs := l.vms(), l.inv.Entities("clouds/acc")
	// As today's build has written them.
	for _, key := range before {
		ns, name, _ := strings.Cut(key, "/")
		vm := get(l, &v1alpha1.VirtualMachine{}, ns, name)
		vm.Status.Policies, vm.Status.PolicySummary = []v1alpha1.AppliedPolicy{
			{Name: "p", Kind: "AntreaNetworkPolicy", UID: "u", Phase: v1alpha1.PolicyPhaseRealized},
		}, "1/1"
		if err := l.api.Status().Update(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
	}
	l.takeWrites()
	for _, readable := range []bool{false, true} {
		l.server.Faults().Clear()
		if !readable {
			l.server.Faults().Add(ec2.Fault{Code: "Unavailable", Times: -1})
		}
		l.restart(nil)
		l.advance(time.Hour)
		l.reconcile()
		l.want("VMs", l.vms(), before...)
		if got := l.inv.Entities("clouds/acc"); len(got) != len(refs) {
			t.Errorf("%d entities; want %d", len(got), len(refs))
		} else {
			for key, ref := range refs {
				if got[key] != ref {
					t.Errorf("%s is %+v; was %+v", key, got[key], ref)
				}
			}
		}
	}
	for _, w := range l.takeWrites() {
		if strings.HasPrefix(w, "delete") || strings.HasPrefix(w, "create") || strings.HasPrefix(w, "patch web/") || strings.HasPrefix(w, "patch db/") {
			t.Errorf("written: %s", w)
		}
	}
}

// TestUncheckedAuthorsAreTold: the status of the account says so while no webhook checks the rights
// of its authors.
func TestUncheckedAuthorsAreTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	text := "policies are missing"
	l.inv.opts.AuthorsUnchecked = func() string { return text }
	l.create(l.secret(goodCreds), l.cpa())
	var enqueued []types.NamespacedName
	l.inv.requeue = func(key types.NamespacedName) { enqueued = append(enqueued, key) }
	for _, want := range []string{"False PoliciesMissing", ""} {
		l.reconcile()
		if got := condition(l.account().Status.Conditions, v1alpha1.ConditionAuthorsChecked); got != want {
			t.Errorf("%q; want %q", got, want)
		}
		l.wantAccount("True OK", "True OK", "True OK", "")
		text = ""
		l.inv.Revisit()
	}
	l.want("looked at", keysOf(enqueued), "clouds/acc", "clouds/acc")
}
