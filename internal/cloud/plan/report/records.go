package report

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Records counts the records of interfaces that hold groups of ours, by how far they are proven.
type Records struct {
	// Signed are proven; Outdated are the records among them that a former key has signed. Unsigned
	// are believed without being proven.
	Signed, Outdated, Unsigned int
	// Unproven are those that are not believed.
	Unproven []Unproven
}

// Unproven is an interface that we hold without knowing what it had before.
type Unproven struct {
	Region, Interface string
	// VM is the zero value if it belongs to no selected VM.
	VM  intent.VMRef
	Why *reason.Reason
	// Message says why in a sentence.
	Message string
}

// Count adds the records of a region.
func (out *Records) Count(s *guard.States) {
	if s.Account.In.Seal == nil {
		return
	}
	for _, n := range s.NICs {
		switch {
		case n.Record.Unproven != nil:
			u := Unproven{Region: s.Region.Snap.Region, Interface: n.ID, Why: n.Record.Unproven}
			if n.VM != nil {
				u.VM = n.VM.Ref
			}
			out.Unproven = append(out.Unproven, u)
		case len(n.Groups.Ours) == 0 || !n.Record.Exists():
		case n.Record.Unsigned, n.Record.Forged:
			out.Unsigned++
		default:
			out.Signed++
			if n.Record.Outdated {
				out.Outdated++
			}
		}
	}
}
