package intent

import (
	"github.com/nephele-io/nephele/internal/cloud"
)

// Mode says what may be done to the interfaces of a VM.
type Mode string

// The modes.
const (
	// Enforce: the policies that apply are enforced. It is the mode of a VM that Input.Modes does
	// not name.
	Enforce Mode = ""
	// Planned: the interfaces, and the groups of ours that they hold, stay exactly as they are,
	// controlled or not, whatever the policies are and whatever others change on them. No interface
	// of such a VM is taken over or becomes a member.
	Planned Mode = "plan"
	// Braked: the same as Planned, because the account waits for a confirmation of what would be
	// done. See Protection.
	Braked Mode = "braked"
	// Released: no policy applies, and what we hold is given back, in the order that keeps every
	// promise; but it does not wait for planned VMs.
	Released Mode = "released"
	// BreakGlass: the same at once. Nothing makes these interfaces wait, not even for the sake of
	// the flows of others.
	BreakGlass Mode = "break-glass"
)

// Still reports whether the mode leaves everything on the VM as it is.
func (m Mode) Still() bool { return m == Planned || m == Braked }

// whyMode is why the interfaces of a VM cannot be taken over in a mode; nil if they can.
func (m Mode) whyMode(vm VMRef) *Reason {
	switch m {
	case Planned:
		return Why(ModePlanned, vm.ID)
	case Braked:
		return Why(ModeBraked, vm.ID)
	case Released, BreakGlass:
		return Why(ModeReleased, vm.ID, string(m))
	}
	return nil
}

// Mode returns the mode of an interface's VM. Only a selected VM has one.
func (s *Region) Mode(n *NIC) Mode {
	if n.VMID == "" || len(s.In.Modes) == 0 {
		return Enforce
	}
	return s.In.Modes[VMRef{s.Snap.Region, n.VMID}]
}

// pin finds the groups of ours that are not to be changed, because interfaces hold them that have
// to stay as they are.
func (s *Region) pin() {
	for i := range s.Snap.Interfaces {
		in := &s.Snap.Interfaces[i]
		still := in.VMID != "" && s.In.Modes[VMRef{s.Snap.Region, in.VMID}].Still()
		if !still && (s.In.Blocked[InterfaceKey{s.Snap.Region, in.ID}] == "" || Former(in) != nil) {
			continue
		}
		for _, id := range in.GroupIDs {
			if s.Ours(s.Groups[id]) {
				s.Pinned[id] = true
			}
		}
	}
}

// suspend marks an interface by the mode of its VM.
func (s *Region) suspend(n *NIC) {
	m := s.Mode(n)
	why := m.whyMode(VMRef{s.Snap.Region, n.VMID})
	switch {
	case n.Alien != nil:
	case m.Still():
		n.Alien = why
	case n.Unproven != nil: // nothing can be given back
		s.Note(n.ID, n.Unproven)
	case s.In.Blocked[InterfaceKey{s.Snap.Region, n.ID}] != "":
		n.Blocked = s.In.Blocked[InterfaceKey{s.Snap.Region, n.ID}]
		why := n.Refused()
		if !n.Taken() {
			n.Alien = why
		}
		if n.Recorded != nil {
			s.Note(n.ID, why)
		}
	case m == Released, m == BreakGlass:
		n.Released = why
	}
}

// Ours reports whether the group belongs to this controller and this account.
func (s *Region) Ours(g *cloud.Group) bool {
	return g != nil && g.OwnedBy(s.In.ClusterID) && g.Tags[cloud.TagAccount] == s.In.Account
}
