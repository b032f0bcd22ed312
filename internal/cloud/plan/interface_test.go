package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// apart makes interfaces entities of their own, called after them: the first one a subject of the
// policy in place of the first VM, the others its peers.
func apart(in *plan.Input, subject int, peers ...int) {
	in.Services = map[plan.EntityRef]plan.VMRef{}
	member := func(nic int) v1beta2.GroupMember {
		in.Services[plan.EntityRef{Namespace: "vms", Name: nicID(nic)}] = plan.VMRef{Region: in.Regions[0].Snapshot.Region, ID: nicID(nic)}
		m := v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: nicID(nic)}}
		for _, n := range in.Regions[0].Snapshot.Interfaces {
			if n.ID == nicID(nic) {
				for _, a := range n.PrivateIPs {
					b := a.As16()
					m.IPs = append(m.IPs, b[:])
				}
			}
		}
		return m
	}
	to := *in.AppliedToGroups[0]
	to.GroupMembers = []v1beta2.GroupMember{member(subject)}
	in.AppliedToGroups[0] = &to
	of := *in.AddressGroups[0]
	of.GroupMembers = nil
	for _, nic := range peers {
		of.GroupMembers = append(of.GroupMembers, member(nic))
	}
	in.AddressGroups[0] = &of
}

// withInterfaces is a world of three VMs, of which the last is not selected and has a second
// interface, eni-3 with 10.0.0.13, and of a free interface, eni-4 with 10.0.0.14.
func withInterfaces() *estate {
	e := small()
	e.VMs[2].Selected = false
	e.NICs = append(e.NICs, nicSpec{Net: 0, VM: 2, IPs: []string{"10.0.0.13"}, Groups: []int{3}}, nicSpec{Net: 0, VM: -1, IPs: []string{"10.0.0.14"}, Groups: []int{3}})
	return e
}

func groupsOf(f *fakeCloud, nic int) []string {
	at := slices.IndexFunc(f.snap.Interfaces, func(n cloud.Interface) bool { return n.ID == nicID(nic) })
	return slices.Clone(f.snap.Interfaces[at].GroupIDs)
}

// TestInterfaceAsSubject: a policy on an interface is enforced on this interface alone, be it free
// or of a VM that nobody selects, and the others of the VM stay as they are. Without the policy it
// has its own groups again.
func TestInterfaceAsSubject(t *testing.T) {
	for _, subject := range []int{3, 4} {
		e := withInterfaces()
		f := e.cloud()
		own, others := groupsOf(f, subject), groupsOf(f, 2)
		res := settle(t, e, f, func(in *plan.Input) { apart(in, subject, 4-subject+3, 2) })
		if p := res.Policies[0]; len(p.Realized) != 1 || p.Realized[0].ID != nicID(subject) || len(p.Failed)+len(p.Unguarded)+len(res.Refusals) > 0 {
			t.Fatalf("%+v %+v", p, res.Refusals)
		}
		if slices.Equal(groupsOf(f, subject), own) || !slices.Equal(groupsOf(f, 2), others) {
			t.Errorf("the interface holds %v, its neighbour %v", groupsOf(f, subject), groupsOf(f, 2))
		}
		for from, may := range map[string]bool{"10.0.0.12": true, "10.0.0.10": false, "10.0.0.99": false} {
			if got := admits(f, subject, from, "", 80); got != may {
				t.Errorf("%s from %s: %v, want %v", nicID(subject), from, got, may)
			}
		}
		if admits(f, subject, "10.0.0.12", "", 22) || admits(f, 2, "10.0.0.99", "", 80) {
			t.Error("its own groups let in still, or its neighbour more than before")
		}
		settle(t, e, f, func(in *plan.Input) { apart(in, subject); in.Policies = nil })
		if got := groupsOf(f, subject); !slices.Equal(got, own) {
			t.Errorf("given back %v, had %v", got, own)
		}
	}
}

// TestInterfaceAsPeer: rules name an interface by the addresses that the snapshot shows for it. One
// that is not there has none, whatever is said of it.
func TestInterfaceAsPeer(t *testing.T) {
	e := withInterfaces()
	f := e.cloud()
	res := settle(t, e, f, func(in *plan.Input) {
		apart(in, 3, 4)
		g := in.AddressGroups[0]
		gone := *g.GroupMembers[0].DeepCopy()
		gone.ExternalEntity.Name = nicID(9)
		gone.IPs[0] = v1beta2.IPAddress(slices.Clone(gone.IPs[0]))
		gone.IPs[0][15] = 77
		g.GroupMembers = append(g.GroupMembers, gone)
		in.Services[plan.EntityRef{Namespace: "vms", Name: nicID(9)}] = plan.VMRef{Region: in.Regions[0].Snapshot.Region, ID: nicID(9)}
	})
	if len(res.Refusals) > 0 || !admits(f, 3, "10.0.0.14", "", 80) || admits(f, 3, "10.0.0.77", "", 80) {
		t.Errorf("%+v", res.Refusals)
	}
}

// TestInterfaceWithOwner: a policy on an interface that belongs to somebody else is refused, the
// refusal names the owner, and nothing changes there for its sake: a selected VM, a service of the
// cloud, another account.
func TestInterfaceWithOwner(t *testing.T) {
	for want, change := range map[string]func(e *estate, f *fakeCloud){
		"it is of the virtual machine " + vmID(2) + ", which is selected": func(e *estate, _ *fakeCloud) { e.VMs[2].Selected = true },
		"a service of the cloud has made it":                              func(_ *estate, f *fakeCloud) { f.snap.Interfaces[3].Managed, f.snap.Interfaces[3].VMID = true, "" },
		"it is of the account 999999999999":                               func(_ *estate, f *fakeCloud) { f.snap.Interfaces[3].OwnerID = "999999999999" },
		"it is held by a scale set":                                       func(_ *estate, f *fakeCloud) { f.snap.Interfaces[3].Untouchable = "it is held by a scale set" },
	} {
		e := withInterfaces()
		f := e.cloud()
		change(e, f)
		own := groupsOf(f, 3)
		res := settle(t, e, f, func(in *plan.Input) { apart(in, 3, 4) })
		p := res.Policies[0]
		if len(p.Realized) > 0 || len(p.Unguarded) != 1 || !strings.Contains(p.Unguarded[0].Message, "is a network interface that no policy can apply to: "+want) || len(res.Refusals) != 1 {
			t.Errorf("%s: %+v %+v", want, p, res.Refusals)
		}
		if got := groupsOf(f, 3); !slices.Equal(got, own) {
			t.Errorf("%s: it holds %v, had %v", want, got, own)
		}
	}
}

// TestInterfaceModes: modes of interfaces are obeyed as modes of VMs.
func TestInterfaceModes(t *testing.T) {
	e := withInterfaces()
	f := e.cloud()
	own := groupsOf(f, 3)
	mode := func(m plan.Mode) []string {
		settle(t, e, f, func(in *plan.Input) {
			apart(in, 3, 4)
			in.Modes = map[plan.VMRef]plan.Mode{{Region: in.Regions[0].Snapshot.Region, ID: nicID(3)}: m}
		})
		return groupsOf(f, 3)
	}
	if got := mode(plan.Planned); !slices.Equal(got, own) {
		t.Errorf("planned: %v", got)
	}
	guarded := mode(plan.Enforce)
	if slices.Equal(guarded, own) {
		t.Errorf("enforced: %v", guarded)
	}
	if got := mode(plan.Planned); !slices.Equal(got, guarded) {
		t.Errorf("planned again: %v", got)
	}
	if got := mode(plan.BreakGlass); !slices.Equal(got, own) {
		t.Errorf("break-glass: %v", got)
	}
}

// TestServiceInterfaceOnVM: a policy on a VM of which a service has made one interface is enforced
// on the others, and failed on the VM: it is not in force on all of it. Where an agent enforces it
// and the cloud has nothing to enforce, it is realized.
func TestServiceInterfaceOnVM(t *testing.T) {
	e := small()
	e.NICs = append(e.NICs, nicSpec{Net: 0, VM: 0, IPs: []string{"10.0.0.13"}, Groups: []int{3}, Managed: true})
	f := e.cloud()
	own := groupsOf(f, 0)
	res := settle(t, e, f, nil)
	p := res.Policies[0]
	if len(p.Realized)+len(p.Pending) > 0 || len(p.Failed) != 1 || p.Failed[0].VM.ID != vmID(0) || !strings.Contains(p.Failed[0].Message, nicID(3)+" belongs to a service of the cloud") {
		t.Errorf("%+v", p)
	}
	if on := res.VMs[0].Policies[0]; on.Realized || on.Message != p.Failed[0].Message || len(res.Refusals) != 1 || slices.Equal(groupsOf(f, 0), own) {
		t.Errorf("%+v, %+v", on, res.Refusals)
	}
	res = settle(t, e, f, func(in *plan.Input) { in.Agents = map[plan.VMRef][2]bool{res.VMs[0].VM: {}} })
	if p := res.Policies[0]; len(p.Realized) != 1 || len(p.Failed)+len(res.Refusals) > 0 {
		t.Errorf("left to its agent: %+v, %+v", p, res.Refusals)
	}
}

// TestMemberWithoutRoomForTags: an interface whose tags are full becomes a member for the rules of
// others, and has its own groups alone when they are gone.
func TestMemberWithoutRoomForTags(t *testing.T) {
	e := small()
	f := e.cloud()
	n := f.nic(nicID(1))
	for n.Tags = map[string]string{}; len(n.Tags) < e.Limits.TagsPerResource; {
		n.Tags[strings.Repeat("x", 1+len(n.Tags))] = ""
	}
	own := groupsOf(f, 1)
	res := settle(t, e, f, nil)
	if held := groupsOf(f, 1); len(held) != 2 || !slices.Contains(held, own[0]) || res.VMs[1].Interfaces[0].State != "Member" || len(res.Policies[0].Realized) != 1 {
		t.Errorf("it holds %v, had %v: %+v", held, own, res.Policies)
	}
	settle(t, e, f, func(in *plan.Input) { in.Policies = nil })
	if held := groupsOf(f, 1); !slices.Equal(held, own) {
		t.Errorf("given back %v, had %v", held, own)
	}
}
