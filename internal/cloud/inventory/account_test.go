package inventory

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

func TestBadAccounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, secret, reason, text string
		change                     func(*v1alpha1.CloudProviderAccount)
	}{
		{name: "no secret", reason: "SecretNotFound", text: `secret clouds/aws does not exist or has no key "credentials"`},
		{name: "no key", secret: goodCreds, reason: "SecretNotFound", text: `no key "other"`,
			change: func(a *v1alpha1.CloudProviderAccount) { a.Spec.AWSConfig.SecretRef.Key = "other" }},
		{name: "no JSON", secret: "AKIA", reason: "SecretInvalid", text: `secret clouds/aws, key "credentials": is not JSON`},
		{name: "no secret key", secret: `{"accessKeyId":"A"}`, reason: "SecretInvalid", text: `field "accessKeySecret": is missing`},
		{name: "wrong key", secret: `{"accessKeyId":"AKIA","accessKeySecret":"x"}`, reason: "AuthFailed", text: "InvalidClientTokenId"},
		{name: "unknown region", secret: goodCreds, reason: "UnknownRegion", text: "eu-nowhere-1",
			change: func(a *v1alpha1.CloudProviderAccount) { a.Spec.AWSConfig.Region = []string{oregon, "eu-nowhere-1"} }},
		{name: "no such cloud", reason: "ProviderUnsupported", text: "accounts of Azure are not supported",
			change: func(a *v1alpha1.CloudProviderAccount) {
				a.Spec.AWSConfig, a.Spec.AzureConfig = nil, &v1alpha1.CloudProviderAccountAzureConfig{Region: []string{"x"}}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			cpa := l.cpa()
			if c.change != nil {
				c.change(cpa)
			}
			l.create(cpa, l.ces("web", "all", wholeVPC(vpc1)))
			if c.secret != "" {
				l.create(l.secret(c.secret))
			}
			l.reconcile()
			st := l.account().Status
			if got := condition(st.Conditions, v1alpha1.ConditionReady); got != "False "+c.reason || !strings.Contains(st.Error, c.text) {
				t.Errorf("%s: %s", got, st.Error)
			}
			if got := l.events.take(); len(got) == 0 || !strings.HasPrefix(got[0], "acc Warning "+c.reason) {
				t.Errorf("events %v", got)
			}
			ces := get(l, &v1alpha1.CloudEntitySelector{}, "web", "all").Status
			if condition(ces.Conditions, "Ready") != "False AccountNotReady" || ces.Error == "" {
				t.Errorf("selector %+v", ces)
			}
			// Nothing is new: no more events, whatever the messages say in detail.
			l.advance(time.Hour)
			l.reconcile()
			l.wantEvents()
		})
	}
}

// TestSecretRotation breaks and mends the Secret under a running account.
func TestSecretRotation(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if err := l.server.World().AddCredential(aws.Credential{AccessKeyID: "AKIANEW", Secret: "new", Account: l.server.World().Accounts()[0].ID}); err != nil {
		t.Fatal(err)
	}
	secret := l.secret(goodCreds)
	l.create(secret, l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	before := l.vms()
	rotate := func(value string) {
		t.Helper()
		secret.Data["credentials"] = []byte(value)
		l.update(secret)
		l.reconcile()
		l.want("VMs", l.vms(), before...)
	}
	rotate("{")
	l.wantAccount("False SecretInvalid", "False SecretInvalid", "False SecretInvalid", "is not JSON")
	if _, ok := l.inv.Provider("clouds/acc"); ok {
		t.Error("the old credentials are still in use")
	}
	rotate(`{"accessKeyId":"AKIANEW","accessKeySecret":"old"}`)
	l.wantAccount("False AuthFailed", "False AuthFailed", "False AuthFailed", "SignatureDoesNotMatch")
	calls := l.calls("DescribeInstances")
	rotate(`{"accessKeyId":"AKIANEW","accessKeySecret":"new"}`)
	l.wantAccount("True OK", "True OK", "True OK", "")
	if got := l.calls("DescribeInstances") - calls; got != 1 {
		t.Errorf("%d observations; want one at once", got)
	}
	opens := l.opens
	l.advance(time.Minute)
	l.reconcile()
	if l.opens != opens {
		t.Error("an unchanged account was opened again")
	}
}

// TestKeysOfAStranger: with keys of another cloud account nothing is read, and what is known stays,
// also for a process that knows the API only, until right keys come back.
func TestKeysOfAStranger(t *testing.T) {
	t.Parallel()
	const stranger = "999999999999"
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	state.Accounts = append(state.Accounts, aws.Account{ID: stranger, Regions: []string{oregon}})
	l := newLabWith(t, sim.Options{State: state})
	if err := l.server.World().AddCredential(aws.Credential{AccessKeyID: "AKIASTRANGER", Secret: "other", Account: stranger}); err != nil {
		t.Fatal(err)
	}
	secret := l.secret(goodCreds)
	l.create(secret, l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	vms, vpcs, calls := l.vms(), l.vpcs(), l.calls("DescribeInstances")
	if len(vms) == 0 || l.account().Status.CloudAccountID != state.Accounts[0].ID {
		t.Fatalf("%d VMs of account %q", len(vms), l.account().Status.CloudAccountID)
	}
	secret.Data["credentials"] = []byte(`{"accessKeyId":"AKIASTRANGER","accessKeySecret":"other"}`)
	l.update(secret)
	for _, restarted := range []bool{false, true} {
		if restarted {
			l.restart(nil)
		}
		l.reconcile()
		l.wantAccount("False AuthFailed", "False AuthFailed", "False AuthFailed", "was "+state.Accounts[0].ID+" until now")
		l.want("VMs", l.vms(), vms...)
		l.want("VPCs", l.vpcs(), vpcs...)
		if got := l.account().Status.CloudAccountID; got != state.Accounts[0].ID {
			t.Errorf("the account is said to be %q", got)
		}
	}
	if got := l.calls("DescribeInstances"); got != calls {
		t.Errorf("the stranger's account was read %d times", got-calls)
	}
	secret.Data["credentials"] = []byte(goodCreds)
	l.update(secret)
	l.reconcile()
	l.wantAccount("True OK", "True OK", "True OK", "")
	l.want("VMs", l.vms(), vms...)
}

// TestDeletion: the account stays, observed, until everything is given back.
func TestDeletion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := &releaser{}
	l.restart(r)
	cpa := l.cpa()
	l.create(l.secret(goodCreds), cpa, l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	if got := l.account().Finalizers; !slices.Equal(got, []string{Finalizer}) {
		t.Fatalf("finalizers %v", got)
	}
	l.delete(cpa)
	if wait := l.reconcile(); wait > releasePoll {
		t.Errorf("next in %s", wait)
	}
	l.want("VMs", l.vms())
	l.want("entities", l.entities())
	l.wantAccount("False Releasing", "True OK", "True OK", "former security groups")
	_, hasProvider := l.inv.Provider("clouds/acc")
	snap, _ := l.inv.Latest("clouds/acc", oregon)
	if !l.inv.Deleting("clouds/acc") || !hasProvider || snap == nil || len(l.inv.Keys()) != 1 {
		t.Errorf("deleting %t, provider %t, snapshot %t", l.inv.Deleting("clouds/acc"), hasProvider, snap != nil)
	}
	calls := l.calls("DescribeInstances")
	l.inv.Trigger("clouds/acc")
	l.reconcile()
	if got := l.calls("DescribeInstances") - calls; got != 1 {
		t.Errorf("%d observations while the account is released", got)
	}
	// The realizer has said what becomes of the VMs; it says nothing more when the account is gone.
	planned := get(l, &v1alpha1.CloudEntitySelector{}, "web", "all")
	meta.SetStatusCondition(&planned.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPlanned, Status: metav1.ConditionTrue, Reason: "OK"})
	meta.SetStatusCondition(&planned.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionBreakGlass, Status: metav1.ConditionTrue, Reason: "OK"})
	if err := l.api.Status().Update(t.Context(), planned); err != nil {
		t.Fatal(err)
	}
	r.release()
	l.reconcile()
	l.reconcile()
	l.want("VPCs", l.vpcs())
	l.want("accounts", names[v1alpha1.CloudProviderAccountList](l))
	if len(l.inv.Keys()) != 0 || l.inv.Entities("clouds/acc") != nil {
		t.Errorf("remembered %v", l.inv.Keys())
	}
	ces := get(l, &v1alpha1.CloudEntitySelector{}, "web", "all").Status
	if meta.FindStatusCondition(ces.Conditions, v1alpha1.ConditionPlanned) != nil || meta.FindStatusCondition(ces.Conditions, v1alpha1.ConditionBreakGlass) != nil {
		t.Errorf("what was said of VMs that it has no more stays: %+v", ces.Conditions)
	}
	if condition(ces.Conditions, "Ready") != "False AccountNotFound" || ces.Error != "there is no CloudProviderAccount clouds/acc" || ces.MatchedVMs != nil {
		t.Errorf("selector %+v", ces)
	}
}

// TestConditionsOfOthersStay: what somebody else has written since a status was read is not undone.
func TestConditionsOfOthersStay(t *testing.T) {
	t.Parallel()
	l := newFeedLab(t)
	l.reconcile()
	var list v1alpha1.CloudEntitySelectorList
	if err := l.api.List(t.Context(), &list); err != nil || len(list.Items) == 0 {
		t.Fatalf("%d selectors (%v)", len(list.Items), err)
	}
	live := &list.Items[0]
	meta.SetStatusCondition(&live.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionBreakGlass, Status: metav1.ConditionTrue, Reason: "OK"})
	if err := l.api.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	read := live.DeepCopy()
	meta.RemoveStatusCondition(&live.Status.Conditions, v1alpha1.ConditionBreakGlass)
	if err := l.api.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := l.inv.reportSelector(t.Context(), read, selectorVerdict{ready: no("Because", "of this test")}, map[subject]string{}); !apierrors.IsConflict(err) {
		t.Errorf("a conflict is expected: %v", err)
	}
	is := get(l, &v1alpha1.CloudEntitySelector{}, live.Namespace, live.Name)
	if meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionBreakGlass) != nil {
		t.Error("the condition is back")
	}
}

// TestDeletionWithSecret: a Secret that goes before its account, as when their namespace is
// deleted, is still used to release it.
func TestDeletionWithSecret(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := &releaser{}
	l.restart(r)
	cpa, secret := l.cpa(), l.secret(goodCreds)
	l.create(secret, cpa, l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	l.delete(secret)
	l.reconcile()
	l.wantAccount("False SecretNotFound", "False SecretNotFound", "False SecretNotFound", "does not exist")
	if _, ok := l.inv.Provider("clouds/acc"); ok {
		t.Error("the account is used without a Secret")
	}
	l.delete(cpa)
	l.reconcile()
	l.wantAccount("False Releasing", "True OK", "True OK", "former security groups")
	if _, ok := l.inv.Provider("clouds/acc"); !ok {
		t.Error("the account cannot be released")
	}

	// A new process knows the API only, and needs a Secret to be named.
	l.restart(r)
	l.reconcile()
	l.wantAccount("False Releasing", "False SecretNotFound", "False SecretNotFound", "another Secret")
	other := l.secret(goodCreds)
	other.Name = "other"
	l.create(other)
	cpa = l.account()
	cpa.Spec.AWSConfig.SecretRef.Name = other.Name
	l.update(cpa)
	l.reconcile()
	l.wantAccount("False Releasing", "True OK", "True OK", "former security groups")
	r.release()
	l.reconcile()
	l.want("accounts", names[v1alpha1.CloudProviderAccountList](l))
}

// TestOrphans: an account that went while nobody looked leaves no objects.
func TestOrphans(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cpa := l.cpa()
	l.create(l.secret(goodCreds), cpa, l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	foreign := &antreav1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "by-hand",
		Labels: map[string]string{v1alpha1.LabelKind: v1alpha1.LabelKindVirtualMachine}}}
	l.create(foreign)
	l.delete(cpa)
	l.restart(nil)
	l.reconcile()
	l.want("VMs", l.vms())
	l.want("VPCs", l.vpcs())
	l.want("entities", l.entities(), "web/by-hand")
}

// TestTwoAccountsOnOneCloud: objects belong to the account that made them first.
func TestTwoAccountsOnOneCloud(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "one", byIDs(vm1)))
	l.reconcile()
	first := get(l, &v1alpha1.VirtualMachine{}, "web", vm1)

	second := types.NamespacedName{Namespace: "clouds2", Name: "other"}
	cpa, ces := l.cpa(), l.ces("web", "two", byIDs(vm1))
	cpa.Namespace, cpa.Name = second.Namespace, second.Name
	ces.Spec.AccountNamespace, ces.Spec.AccountName = second.Namespace, second.Name
	l.create(cpa, ces)
	for range 2 {
		if _, err := l.inv.Reconcile(t.Context(), request(second)); err != nil {
			t.Fatal(err)
		}
		l.advance(time.Minute)
	}
	if again := get(l, &v1alpha1.VirtualMachine{}, "web", vm1); again.ResourceVersion != first.ResourceVersion {
		t.Errorf("the other account changed %+v", again)
	}
	st := get(l, &v1alpha1.CloudEntitySelector{}, "web", "two").Status
	if condition(st.Conditions, "Ready") != "False NameTaken" || !strings.Contains(st.Error, "belongs to account clouds/acc") {
		t.Errorf("selector %+v", st)
	}
	if got := l.vpcs(); len(got) != 8 {
		t.Errorf("VPCs %v", got)
	}
	// When the first lets go, the second takes over.
	l.delete(get(l, &v1alpha1.CloudEntitySelector{}, "web", "one"))
	l.reconcile()
	if _, err := l.inv.Reconcile(t.Context(), request(second)); err != nil {
		t.Fatal(err)
	}
	if got := get(l, &v1alpha1.VirtualMachine{}, "web", vm1).Labels[v1alpha1.LabelCPAName]; got != "other" {
		t.Errorf("the VM belongs to %q", got)
	}
}

// TestRegionRemoved: a region that is taken out of the account stays observed until nothing of ours
// is in it, even over a restart.
func TestRegionRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.restart(&releaser{})
	l.create(l.secret(goodCreds), l.cpa(ireland, oregon), l.ces("web", "all", wholeVPC(vpc1)))
	g, err := l.region(oregon).Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{
		Name: "nephele-x", Description: "d", VPCID: vpc1, Tags: aws.Tags{cloud.TagAccount: "clouds/acc"}})
	if err != nil {
		t.Fatal(err)
	}
	l.reconcile()
	cpa := l.account()
	cpa.Spec.AWSConfig.Region = []string{ireland}
	cpa.Generation++
	l.update(cpa)
	l.reconcile()
	l.want("VMs", l.vms())
	l.want("entities", l.entities())
	l.want("VPCs", l.vpcs())
	l.restart(&releaser{})
	for range 3 {
		l.advance(time.Minute)
		l.reconcile()
		l.want("regions", l.inv.Regions("clouds/acc"), ireland, oregon)
	}
	if snap, err := l.inv.Latest("clouds/acc", oregon); snap == nil || err != nil {
		t.Errorf("latest %v, %v", snap != nil, err)
	}
	if st := l.account().Status.Regions; len(st) != 2 || !strings.Contains(st[1].LastError, "no longer a region") {
		t.Errorf("status %+v", st)
	}
	if _, err := l.region(oregon).Groups().DeleteSecurityGroup(g.ID, ""); err != nil {
		t.Fatal(err)
	}
	l.advance(time.Minute)
	l.reconcile()
	l.want("regions", l.inv.Regions("clouds/acc"), ireland)
	l.wantAccount("True OK", "True OK", "True OK", "")
	l.restart(&releaser{})
	l.reconcile()
	l.want("regions", l.inv.Regions("clouds/acc"), ireland)
}

// TestSlowRegion: what one region shows is published while another one is still being read.
func TestSlowRegion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(oregon, ireland), l.ces("web", "all", wholeVPC(vpc1)))
	l.gate = map[string]chan struct{}{ireland: make(chan struct{})}
	published := make(chan int, 10)
	l.inv.Subscribe(func(string) { published <- len(l.inv.Entities("clouds/acc")) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := l.inv.Reconcile(t.Context(), request(accountKey)); err != nil {
			t.Error(err)
		}
	}()
	if got := <-published; got < 2 {
		t.Errorf("%d entities published", got)
	}
	select {
	case <-done:
		t.Error("the slow region was not waited for")
	default:
	}
	close(l.gate[ireland])
	<-done
	l.wantAccount("True OK", "True OK", "True OK", "")
}

// TestEditsDoNotWaitForTheCloud: a tag that a user gives, an emergency and a selector count while
// the cloud is being read, however long that takes.
func TestEditsDoNotWaitForTheCloud(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	selector := l.ces("web", "all", wholeVPC(vpc1))
	l.create(l.secret(goodCreds), l.cpa(), selector)
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.ReleaseNamespaces = []string{"web"} })
	l.reconcile()
	l.gate = map[string]chan struct{}{oregon: make(chan struct{})}
	l.advance(time.Hour)
	published := make(chan struct{}, 100)
	l.inv.Subscribe(func(string) { published <- struct{}{} })
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := l.inv.Reconcile(t.Context(), request(accountKey)); err != nil {
			t.Error(err)
		}
	}()

	vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1)
	vm.Spec.Tags = map[string]string{"role": "bastion"}
	vm.Annotations[v1alpha1.AnnotationBreakGlass] = "the site is down"
	if err := l.api.Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	l.inv.touch(accountKey) // as the watch does
	<-published
	entity := types.NamespacedName{Namespace: "web", Name: v1alpha1.EntityNamePrefix + vm1}
	if got := l.inv.Entities("clouds/acc")[entity]; got.Mode != "break-glass" {
		t.Errorf("the mode is %q", got.Mode)
	}

	get(l, selector, selector.Namespace, selector.Name)
	selector.Spec.Mode = v1alpha1.ModePlan
	selector.Generation++ // as the API server does
	if err := l.api.Update(t.Context(), selector); err != nil {
		t.Fatal(err)
	}
	l.inv.interrupt(accountKey)
	<-published
	modes := map[string]int{}
	for _, e := range l.inv.Entities("clouds/acc") {
		modes[e.Mode]++
	}
	if modes[string(v1alpha1.ModePlan)] == 0 || modes[""] > 0 {
		t.Errorf("with a selector that only plans the modes are %v", modes)
	}
	select {
	case <-done:
		t.Error("the pass did not wait for the region")
	default:
	}
	close(l.gate[oregon])
	<-done
	if got := get(l, &antreav1alpha2.ExternalEntity{}, "web", entity.Name).Labels[v1alpha1.LabelUserTagPrefix+"role"]; got != "bastion" {
		t.Errorf("the label is %q", got)
	}
	l.wantAccount("True OK", "True OK", "True OK", "")
}

// TestGrantThatIsLostAndBack: what an edit takes away while the cloud is read comes back when the
// edit is taken back before the next pass. Conditions speak of the account that was read.
func TestGrantThatIsLostAndBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	before := len(l.inv.Entities("clouds/acc"))
	published, done := make(chan struct{}, 100), make(chan error)
	l.inv.Subscribe(func(string) { published <- struct{}{} })
	begin := func() {
		for len(published) > 0 {
			<-published
		}
		l.gate, l.begun = map[string]chan struct{}{oregon: make(chan struct{})}, make(chan struct{})
		l.advance(time.Hour)
		go func() {
			_, err := l.inv.Reconcile(t.Context(), request(accountKey))
			done <- err
		}()
		<-l.begun
	}
	begin()
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.AllowedNamespaces = &v1alpha1.NamespaceGrant{} })
	l.inv.interrupt(accountKey)
	<-published
	if got := len(l.inv.Entities("clouds/acc")); got != 0 || before == 0 {
		t.Fatalf("%d of %d entities are left without a grant", got, before)
	}
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) { s.AllowedNamespaces = nil })
	close(l.gate[oregon])
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.reconcile()
	if got := len(l.inv.Entities("clouds/acc")); got != before {
		t.Errorf("%d of %d entities are there with the grant", got, before)
	}

	begin()
	former := l.account().Generation
	l.editAccount(func(s *v1alpha1.CloudProviderAccountSpec) {
		s.Mode, s.AWSConfig.SecretRef.Name = v1alpha1.ModePlan, "missing"
	})
	l.inv.interrupt(accountKey)
	<-published
	close(l.gate[oregon])
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(l.account().Status.Conditions, v1alpha1.ConditionReady); c == nil || c.ObservedGeneration != former {
		t.Errorf("%+v is not of generation %d, whose regions were read", c, former)
	}
	l.reconcile()
	l.wantAccount("False SecretNotFound", "False SecretNotFound", "False SecretNotFound", `secret clouds/missing does not exist or has no key "credentials"`)
}

// TestNoSnapshotBeforeEntities: a region that was read for the first time is shown to nobody before
// it is known which entities it has. A realizer that came between would give back all VMs of the
// region.
func TestNoSnapshotBeforeEntities(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(oregon, ireland), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	want := len(l.inv.Entities("clouds/acc"))
	for _, slow := range []string{"", oregon, ireland} { // which is read alone, after the other one
		l.restart(nil)
		l.gate = map[string]chan struct{}{slow: make(chan struct{})}
		looked := 0
		var open sync.Once
		l.listing = func(into client.ObjectList) {
			if _, publishing := into.(*v1alpha1.VirtualMachineList); !publishing {
				return
			}
			looked++
			for _, r := range l.inv.Regions("clouds/acc") {
				snap, _ := l.inv.Latest("clouds/acc", r)
				if got := len(l.inv.Entities("clouds/acc")); snap != nil && got != want {
					t.Errorf("%q is slow: %s is shown with %d of %d entities", slow, r, got, want)
				}
				if snap != nil && looked == 1 {
					t.Errorf("%q is slow: %s is shown before anything was made of it", slow, r)
				}
			}
		}
		l.inv.Subscribe(func(string) { open.Do(func() { close(l.gate[slow]) }) })
		l.reconcile()
		l.listing = nil
		for _, r := range []string{oregon, ireland} {
			if snap, err := l.inv.Latest("clouds/acc", r); snap == nil || err != nil {
				t.Errorf("%q is slow: %s is not shown in the end: %v", slow, r, err)
			}
		}
		if wanted := map[bool]int{true: 2, false: 1}[slow != ""]; looked < wanted {
			t.Errorf("%q is slow: looked %d times, which shows nothing", slow, looked)
		}
	}
}
