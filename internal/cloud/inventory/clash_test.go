package inventory

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
)

// shown is a cloud that shows what it is told to, by region. A region that it is not told of cannot
// be read.
type shown struct {
	cloud.Provider
	clock func() time.Time
	vms   map[string][]string
}

func (s shown) Observe(_ context.Context, scope cloud.Scope) (*cloud.Snapshot, error) {
	ids, told := s.vms[scope.Region]
	if !told {
		return nil, &cloud.Error{Class: cloud.Unavailable, Call: "Observe", Err: context.DeadlineExceeded}
	}
	snap := &cloud.Snapshot{Scope: scope, ObservedAt: s.clock(), Networks: []cloud.Network{{ID: "net"}}}
	ids = slices.Sorted(slices.Values(ids))
	for _, id := range ids {
		snap.VMs = append(snap.VMs, cloud.VM{ID: id, NetworkID: "net", State: cloud.VMRunning, Interfaces: []string{id + "/nic"}})
		last := byte(0)
		for i := range len(id) {
			last = last*31 + id[i]
		}
		snap.Interfaces = append(snap.Interfaces, cloud.Interface{ID: id + "/nic", VMID: id, NetworkID: "net", PrivateIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, last})}})
	}
	return snap, nil
}

// The ids of two VMs of one name, in resource groups that have the same characters, and of another
// VM.
const (
	idAB, idBA = "/subscriptions/s/resourcegroups/ab/vm/web", "/subscriptions/s/resourcegroups/ba/vm/web"
	idOther    = "/subscriptions/s/resourcegroups/ab/vm/db"
)

// newShownLab is a lab with a cloud that shows what the test says.
func newShownLab(t *testing.T, regions ...string) (*lab, shown) {
	t.Helper()
	l := newLab(t)
	s := shown{clock: l.clock, vms: map[string][]string{}}
	l.again(s)
	l.create(l.secret(goodCreds), l.cpa(regions...), l.ces("web", "all", wholeVPC("net")))
	return l, s
}

// again replaces the inventory by one that remembers nothing.
func (l *lab) again(s shown) {
	l.inv = New(Options{Client: l.api, Secrets: l.api, Events: l.events, Now: l.clock,
		Clouds: map[v1alpha1.CloudProvider]accountspec.Open{v1alpha1.CloudProviderAWS: func(accountspec.Config) (cloud.Provider, error) { return s, nil }}})
}

// pass lets the account be read again.
func (l *lab) pass() {
	l.Helper()
	l.advance(10 * time.Minute)
	l.reconcile()
}

// wantHolder checks which VM an object, its entity and the enforcer's book are about.
func (l *lab) wantHolder(what, id string) {
	l.Helper()
	name := cloud.ObjectName(id)
	vm := get(l, &v1alpha1.VirtualMachine{}, "web", name)
	entity := get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+name)
	ref := l.inv.Entities("clouds/acc")[types.NamespacedName{Namespace: "web", Name: "virtualmachine-" + name}]
	if vm.Status.CloudId != id || ref.VMID != id || len(entity.Spec.Endpoints) != 1 || len(vm.Status.NetworkInterfaces) != 1 ||
		entity.Spec.Endpoints[0].IP != vm.Status.NetworkInterfaces[0].IPs[0].Address {
		l.Errorf("%s: %s is %s with %+v, its entity %s with %+v; want %s", what, name, vm.Status.CloudId, vm.Status.NetworkInterfaces, ref.VMID, entity.Spec.Endpoints, id)
	}
}

// TestNamesClash: the VM that has an object keeps it, whatever comes later under the same name, and
// a VM without one is told of, always.
func TestNamesClash(t *testing.T) {
	t.Parallel()
	if cloud.ObjectName(idAB) != cloud.ObjectName(idBA) {
		t.Fatal("the names do not clash")
	}
	ready := func(l *lab) string {
		st := get(l, &v1alpha1.CloudEntitySelector{}, "web", "all").Status
		if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady); c != nil {
			return string(c.Status) + " " + c.Reason + " " + c.Message
		}
		return ""
	}
	told := func(l *lab, what, has, other string) {
		l.Helper()
		if got := ready(
			l,
		); !strings.HasPrefix(got, "False NameTaken ") || !strings.Contains(got, " stands for "+has+".") ||
			!strings.Contains(got, "would stand for "+other+", too, which is not imported") {
			l.Errorf("%s: the selector says %q", what, got)
		}
	}
	l, s := newShownLab(t)
	s.vms[oregon] = []string{idBA, idOther}
	l.pass()
	l.wantHolder("alone", idBA)
	if got := ready(l); !strings.HasPrefix(got, "True OK") {
		t.Errorf("alone: %q", got)
	}
	l.events.take()
	s.vms[oregon] = []string{idAB, idBA, idOther} // the one that comes later is the first in order
	l.pass()
	l.wantHolder("a second one", idBA)
	told(l, "a second one", idBA, idAB)
	if got := l.events.take(); !slices.ContainsFunc(got, func(e string) bool {
		return strings.HasPrefix(e, "all Warning NameTaken") && strings.Contains(e, idAB) && strings.Contains(e, idBA)
	}) {
		t.Errorf("events %q", got)
	}
	l.takeWrites()
	l.pass()
	if got := l.takeWrites(); len(got) != 0 {
		t.Errorf("a pass without changes writes %q", got)
	}
	told(l, "nothing new", idBA, idAB)
	s.vms[oregon] = []string{idAB, idBA} // another VM changes
	l.pass()
	l.wantHolder("another one gone", idBA)
	told(l, "another one gone", idBA, idAB)
	l.again(s)
	l.pass()
	l.wantHolder("a restart", idBA)
	told(l, "a restart", idBA, idAB)
	s.vms[oregon] = []string{idAB}
	l.pass()
	l.wantHolder("the first gone", idAB)
	if got := ready(l); !strings.HasPrefix(got, "True OK") {
		t.Errorf("the first gone: %q", got)
	}
}

// TestNamesClashWhileUnread: a VM of a region that cannot be read keeps its object, too.
func TestNamesClashWhileUnread(t *testing.T) {
	t.Parallel()
	l, s := newShownLab(t, oregon, ireland)
	s.vms[oregon], s.vms[ireland] = []string{idBA}, nil
	l.pass()
	l.wantHolder("alone", idBA)
	delete(s.vms, oregon)
	s.vms[ireland] = []string{idAB}
	l.again(s)
	l.pass()
	l.wantHolder("unread", idBA)
	s.vms[oregon] = []string{idBA}
	l.pass()
	l.wantHolder("read again", idBA)
}
