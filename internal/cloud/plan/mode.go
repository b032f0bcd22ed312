package plan

import (
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Mode says what may be done to the interfaces of a VM.
type Mode string

// The modes.
const (
	// Enforce: the policies that apply are enforced. It is the mode of a VM that Input.Modes does not name.
	Enforce Mode = ""
	// Planned: the interfaces, and the groups of ours that they hold, stay exactly as they are, controlled or not, whatever the
	// policies are and whatever others change on them. No interface of such a VM is taken over or becomes a member.
	Planned Mode = "plan"
	// Braked: the same as Planned, because the account waits for a confirmation of what would be done. See Protection.
	Braked Mode = "braked"
	// Released: no policy applies, and what we hold is given back, in the order that keeps every promise; but it does not wait for
	// planned VMs.
	Released Mode = "released"
	// BreakGlass: the same at once. Nothing makes these interfaces wait, not even for the sake of the flows of others.
	BreakGlass Mode = "break-glass"
)

// Still reports whether the mode leaves everything on the VM as it is.
func (m Mode) Still() bool { return m == Planned || m == Braked }

// whyMode is why the interfaces of a VM cannot be taken over in a mode; empty if they can.
func (m Mode) whyMode(vm VMRef) string {
	switch m {
	case Planned:
		return fmt.Sprintf("the VM %s is only planned for (mode plan)", vm.ID)
	case Braked:
		return fmt.Sprintf("the VM %s waits for a confirmation of the account (condition Braked)", vm.ID)
	case Released, BreakGlass:
		return fmt.Sprintf("the VM %s is released (mode %s)", vm.ID, m)
	}
	return ""
}

// mode returns the mode of an interface's VM. Only a selected VM has one.
func (s *region) mode(n *iface) Mode {
	if n.VMID == "" || len(s.in.Modes) == 0 {
		return Enforce
	}
	return s.in.Modes[VMRef{s.snap.Region, n.VMID}]
}

// pin finds the groups of ours that are not to be changed, because interfaces hold them that have to stay as they are.
func (s *region) pin() {
	s.pinned = map[string]bool{}
	for i := range s.snap.Interfaces {
		in := &s.snap.Interfaces[i]
		still := in.VMID != "" && s.in.Modes[VMRef{s.snap.Region, in.VMID}].Still()
		if !still && s.in.Blocked[InterfaceKey{s.snap.Region, in.ID}] == "" {
			continue
		}
		for _, id := range in.GroupIDs {
			if s.ours(s.groups[id]) {
				s.pinned[id] = true
			}
		}
	}
}

// suspend marks an interface by the mode of its VM.
func (s *region) suspend(n *iface) {
	m := s.mode(n)
	why := m.whyMode(VMRef{s.snap.Region, n.VMID})
	switch {
	case n.alien != "":
	case m.Still():
		n.alien = why
	case n.unproven != "": // nothing can be given back
		s.note(n.ID, n.unproven)
	case s.in.Blocked[InterfaceKey{s.snap.Region, n.ID}] != "":
		n.blocked = s.in.Blocked[InterfaceKey{s.snap.Region, n.ID}]
		n.alien = "the cloud refuses to change the interface " + n.ID + ": " + n.blocked
		if n.recorded != nil {
			s.note(n.ID, n.alien)
		}
	case m == Released, m == BreakGlass:
		n.released = why
	}
}

// freeing returns the steps that give interfaces whose glass is broken their groups back. However a plan was made, these are its first steps, and nothing
// may make them wait.
func (s *regional) freeing() (out []Step) {
	for _, n := range s.nics {
		if s.mode(n.iface) != BreakGlass || n.alien != "" || n.network.foreign != "" || len(n.ours) == 0 || n.unproven != "" {
			continue
		}
		groups := slices.Sorted(slices.Values(s.restorable(n.iface)))
		out = append(out, Step{Scope: s.snap.Scope, Network: n.NetworkID, Urgent: true, Op: cloud.Op{
			Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: groups, Reason: "give back",
		}})
	}
	return out
}

// suspended makes the status of a VM that is not enforced say nothing but that.
func (st *VMStatus) suspended(m Mode) {
	st.Mode = m
	for i := range st.Policies {
		p := &st.Policies[i]
		p.Realized, p.Message, p.Warning = false, "", ""
	}
}

// ours reports whether the group belongs to this controller and this account.
func (s *region) ours(g *cloud.Group) bool {
	return g != nil && g.OwnedBy(s.in.ClusterID) && g.Tags[cloud.TagAccount] == s.in.Account
}

// WithoutPlanned returns the input with the planned VMs enforced: what it leads to is what they are spared.
func (in Input) WithoutPlanned() Input {
	modes := map[VMRef]Mode{}
	for vm, m := range in.Modes {
		if m != Planned {
			modes[vm] = m
		}
	}
	in.Modes = modes
	return in
}
