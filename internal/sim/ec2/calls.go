package ec2

import "github.com/nephele-io/nephele/internal/sim/calls"

// The journal and the faults are the same for all protocols.
type (
	Call    = calls.Call
	Journal = calls.Journal
	Fault   = calls.Fault
	Faults  = calls.Faults
)

// CodeDropped stands in Call.Code for a call that was cut off before it was executed.
const CodeDropped = calls.CodeDropped

// NewJournal returns an empty journal that keeps the latest size calls.
func NewJournal(size int) *Journal { return calls.NewJournal(size) }
