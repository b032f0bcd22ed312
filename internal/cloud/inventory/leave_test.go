package inventory

import (
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// TestGroupsAreLeftToWhoTells: the groups of an interface are not written while somebody else is
// about to write them, whatever else about the VM is written, and not for ever.
func TestGroupsAreLeftToWhoTells(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	nics, err := l.region(oregon).NetworkInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	nic := nics[slices.IndexFunc(nics, func(n world.NetworkInterface) bool {
		return n.VPCID == vpc1 && n.Attachment != nil && n.Attachment.InstanceID != ""
	})]
	groups, err := l.region(oregon).SecurityGroups()
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, g := range groups {
		if g.VPCID == vpc1 {
			own = append(own, g.ID)
		}
	}
	shown := func() []string {
		t.Helper()
		vm := get(l, &v1alpha1.VirtualMachine{}, "web", nic.Attachment.InstanceID)
		i := slices.IndexFunc(vm.Status.NetworkInterfaces, func(n v1alpha1.AttachedInterface) bool { return n.Name == nic.ID })
		return vm.Status.NetworkInterfaces[i].SecurityGroupIds
	}
	put := func(group string) {
		t.Helper()
		if err := l.region(oregon).ModifyNetworkInterfaceGroups(nic.ID, []string{group}); err != nil {
			t.Fatal(err)
		}
		l.inv.Trigger("clouds/acc")
	}
	is := func(when string, want ...string) {
		t.Helper()
		if got := shown(); !slices.Equal(got, want) {
			t.Errorf("%s: the object shows %v, want %v", when, got, want)
		}
	}
	tells := true
	l.inv.opts.Told = func(string) bool { return tells }

	put(own[0])
	before := shown()
	if slices.Equal(before, own[:1]) {
		own[0], own[1] = own[1], own[0]
		put(own[0])
	}
	if wait := l.reconcile(); wait > laterWait {
		t.Errorf("it is looked again after %s", wait)
	}
	is("somebody tells", before...)

	if err := l.region(oregon).CreateTags([]string{nic.Attachment.InstanceID}, []world.Tag{{Key: "state", Value: "new"}}); err != nil {
		t.Fatal(err)
	}
	l.inv.Trigger("clouds/acc")
	l.reconcile()
	is("a tag has changed", before...)
	if got := get(l, &v1alpha1.VirtualMachine{}, "web", nic.Attachment.InstanceID).Status.Tags["state"]; got != "new" {
		t.Errorf("the tag that has changed is shown as %q", got)
	}

	put(own[1])
	l.reconcile()
	is("somebody tells again", before...)
	tells = false
	l.advance(laterWait)
	l.reconcile()
	is("nobody tells any more", own[1])

	tells = true
	put(own[0])
	for range 5 {
		l.reconcile()
		is("somebody tells for long", own[1])
		l.advance(laterWait)
	}
	l.advance(2 * time.Minute)
	l.reconcile()
	is("somebody tells for ever", own[0])
}
