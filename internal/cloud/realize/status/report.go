package status

import (
	"time"

	"github.com/nephele-io/nephele/internal/cloud/realize/brake"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
)

// Report is what is known of the realization of an account. It is a value; Result is never changed
// after it was published.
type Report struct {
	// Account is "namespace/name".
	Account string
	// EnforcerKey is the key whose policies were realized, Entities the VMs they may apply to,
	// and Services the native services and interfaces.
	EnforcerKey string
	Entities    map[plan.EntityRef]plan.VMRef
	Services    map[plan.EntityRef]plan.VMRef
	// Waiting says what the worker waits for before it may plan; empty once it has planned.
	Waiting string
	// Result is the last plan with its statuses; nil before the first one.
	Result *plan.Result
	// Seen are the snapshots that Result was made of, by region.
	Seen map[string]*cloud.Snapshot
	// Underway is true while the plan of Result is being carried out: another report will
	// follow.
	Underway bool
	// Unread are the regions that were not read for Result.
	Unread map[string]Unread
	// AsPlanned says of regions when they were observed that were last seen to be as planned,
	// before Result. What Result calls drift is younger. It lacks regions of which that is not
	// known.
	AsPlanned map[string]time.Time
	// ModeReasons says of the VMs that were not simply enforced which object decides that, and
	// Would what would be planned, round after round, if those in mode plan were; nil if there
	// are none, or if that cannot be told.
	ModeReasons map[plan.VMRef]string
	Would       []*plan.Result
	// Agents is what became of the VMs that selectors hand to agents.
	Agents map[plan.VMRef]handover.State
	// Blocked are the interfaces that the cloud refuses to change, with its words.
	Blocked map[plan.InterfaceKey]string
	// Brake is what the account's brake does.
	Brake brake.State
	// Force is the hash of a blocked plan that somebody wants to go on; ForceSpent is set if
	// nothing is blocked any more.
	Force      string
	ForceSpent bool
	// NotSigned is true if records of former groups were neither signed nor checked, because
	// the account's rights do not allow it.
	NotSigned bool
	// ConfirmedProblem says what cannot be read of the former groups that the account's owner
	// confirms; empty if all can.
	ConfirmedProblem string
	// Failsafe is what VMs with policies are always allowed.
	Failsafe []plan.FailsafeFlow
	// ClusterID is ours, and Claims are the owners of the claims on networks, by network.
	ClusterID string
	Claims    map[string]string
	// Sole says whether this instance is the only one that writes.
	Sole instance.Sole
	// Err is the failure that the last round ended with; nil if it did not fail.
	Err error
	// Stuck are the networks that Err is about, by region and id; empty if it is about all.
	Stuck map[string]map[string]bool
	// Ops is the number of operations of the round that is running or ran last with any, and
	// Took how long it took until all was realized.
	Ops  int
	Took time.Duration
	// Changes is what was changed since the report before.
	Changes Changes
	// RealizedAt is when the account was last seen to be exactly as planned; zero before.
	RealizedAt time.Time
}

// concerns reports whether the error of the report is about the VM.
func (r Report) concerns(vm plan.VMStatus) bool {
	if len(r.Stuck) == 0 {
		return true
	}
	for _, n := range vm.Interfaces {
		if n.Network == "" || r.Stuck[vm.VM.Region][n.Network] {
			return true
		}
	}
	return len(vm.Interfaces) == 0
}
