package intent

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
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

// Mode returns the mode of an interface's VM. Only a selected VM has one.
func (s *Region) Mode(n *NIC) Mode { return s.Account.In.Modes[VMRef{s.Snap.Region, n.VMID}] }

// pin keeps the groups of ours from being changed that an interface holds, if it has to stay as it
// is, or the cloud refuses to change them.
func (s *Region) pin(n *NIC) {
	refused := s.Account.In.Blocked[InterfaceKey{s.Snap.Region, n.ID}] != "" && record.Former(n.Interface) == nil
	for _, id := range n.Groups.Ours {
		if refused || s.Mode(n).Still() || s.Account.In.Locked[GroupKey{s.Snap.Region, id}] {
			s.Pinned[id] = true
		}
	}
}

// suspend marks an interface by the mode of its VM, and by what the cloud refuses.
func (s *Region) suspend(n *NIC) {
	refusal := s.Account.In.Blocked[InterfaceKey{s.Snap.Region, n.ID}]
	switch m := s.Mode(n); {
	case n.Alien != nil:
	case m == Planned:
		n.Alien = reason.Why(reason.ModePlanned, n.VMID)
	case m == Braked:
		n.Alien = reason.Why(reason.ModeBraked, n.VMID)
	case n.Record.Unproven != nil: // nothing can be given back
		s.Note(n.ID, n.Record.Unproven)
	case refusal != "":
		n.Blocked = refusal
		if !n.Taken() {
			n.Alien = n.Refused()
		}
		if n.Record.Exists() {
			s.Note(n.ID, n.Refused())
		}
	case m != Enforce:
		n.Released = reason.Why(reason.ModeReleased, n.VMID, string(m))
	}
}
