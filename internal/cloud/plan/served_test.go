package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// machine is what a machine of an estate represents, if it is no VM.
type machine string

const (
	// free is an interface without a VM that is an entity of its own.
	free machine = "interface"
	// service is a native service, and lone one that shares no group with others.
	service machine = "service"
	lone    machine = "lone service"
)

// subject is what policies apply to: a VM, or what has the ID of its interface.
func (e *estate) subject(vm int) string {
	if e.VMs[vm].Is != "" {
		for i, n := range e.NICs {
			if n.VM == vm {
				return nicID(i)
			}
		}
	}
	return vmID(vm)
}

func (e *estate) ref(vm int) plan.VMRef {
	return plan.VMRef{Region: e.regionOfVM(vm), ID: e.subject(vm)}
}

// represent makes an interface show what a machine is.
func (e *estate) represent(vm int, n *cloud.Interface) {
	switch e.VMs[vm].Is {
	case free:
		n.VMID = ""
	case service:
		n.Service = cloud.EFSFileSystem
	case lone:
		n.Service, n.Alone = cloud.RDSInstance, true
	}
}

// leaveOutFree leaves the machines out that are none for the cloud.
func (e *estate) leaveOutFree(s *cloud.Snapshot) {
	s.VMs = slices.DeleteFunc(s.VMs, func(vm cloud.VM) bool {
		return slices.ContainsFunc(s.Interfaces, func(n cloud.Interface) bool { return n.ID == vm.ID && n.VMID == "" })
	})
}

// choose makes entities of what is selected.
func (e *estate) choose(in *plan.Input) {
	for i, vm := range e.VMs {
		switch ref := (plan.EntityRef{Namespace: "vms", Name: vmID(i)}); {
		case !vm.Selected:
		case vm.Is == "":
			in.Entities[ref] = e.ref(i)
		default:
			if in.Services == nil {
				in.Services = map[plan.EntityRef]plan.VMRef{}
			}
			in.Services[ref] = e.ref(i)
		}
	}
}

// isAddressOf reports whether rules of an interface that name a native service, or an interface
// that is an entity of its own, mean an address: one of the interface if that is within reach, else
// each address that its group has, but for addresses within reach that no service holds.
func (v *naive) isAddressOf(nic, member int, a netip.Addr) bool {
	home, at := v.NICs[nic].Net, slices.IndexFunc(v.NICs, func(n nicSpec) bool { return n.VM == member })
	if at < 0 || !slices.Contains(v.addrs(member), a) {
		return false
	}
	own := &v.NICs[at]
	if v.VMs[member].Is == free && v.near(home, own.Net) {
		return own.has(a)
	}
	for i, n := range v.Networks {
		if v.near(home, i) && (v.prefix(n.V4).Contains(a) || n.V6 != "" && v.prefix(n.V6).Contains(a)) {
			return v.region(own.Net) == v.region(home) && slices.ContainsFunc(v.NICs, func(n nicSpec) bool {
				serves := n.Managed || n.VM >= 0 && v.VMs[n.VM].Is != "" && v.VMs[n.VM].Is != free
				return serves && v.near(home, n.Net) && n.has(a)
			})
		}
	}
	return true
}

// has reports whether an address is a private one of the interface.
func (n *nicSpec) has(a netip.Addr) bool {
	return slices.ContainsFunc(n.IPs, func(ip string) bool { return netip.MustParseAddr(ip) == a })
}

// tags are those that others have given an interface.
func (n *nicSpec) tags() map[string]string {
	if n.Tags == 0 {
		return nil
	}
	out := map[string]string{}
	for i := range n.Tags {
		out[fmt.Sprint("team-", i)] = "x"
	}
	return out
}

// serve gives interfaces of an estate tags, as many as there is room for or nearly so, and VMs
// interfaces that a service has made, and makes native services and interfaces of their own of some
// machines.
func (e *estate) serve(r *rand.Rand) {
	for vm := range e.VMs {
		own := slices.IndexFunc(e.NICs, func(n nicSpec) bool { return n.VM == vm })
		if own < 0 {
			continue
		}
		several := slices.ContainsFunc(e.NICs[own+1:], func(n nicSpec) bool { return n.VM == vm })
		switch {
		case !several && r.IntN(2) == 0:
			e.VMs[vm].Is = pick(r, []machine{free, service, lone})
		case several && r.IntN(2) == 0:
			e.NICs[own+1].Managed = true
		}
	}
	for i := range e.NICs {
		if r.IntN(3) == 0 {
			e.NICs[i].Tags = e.Limits.TagsPerResource - pick(r, []int{0, 0, 1, 1, 2, 3, 20})
		}
	}
}

// TestServedWorlds is TestWorlds with interfaces that have tags of others, some of them as many as
// there may be, with native services and free interfaces under policies, and with VMs of which a
// service has made an interface.
func TestServedWorlds(t *testing.T) {
	t.Parallel()
	next := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	checkWorlds(t, worldsOneIn(2), func(e *estate) {
		r := rand.New(rand.NewPCG(next, 61))
		next++
		e.serve(r)
		e.Sealed = r.IntN(3) == 0
		if r.IntN(4) == 0 {
			e.mix(r)
		}
		if r.IntN(4) == 0 {
			e.follow(r)
		}
		if r.IntN(3) == 0 {
			e.Limits.RulesPerGroup = 200
			e.randomModes(r)
		}
	})
}
