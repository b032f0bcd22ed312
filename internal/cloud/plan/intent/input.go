package intent

import (
	"maps"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// Input is everything that one computation depends on: one account with all its regions.
type Input struct {
	// ClusterID identifies this controller; it marks every object of ours in the cloud. Compute
	// refuses to do anything if it is empty.
	ClusterID string
	// Account is the account, "namespace/name", as in cloud.Scope.
	Account string

	// Policies, AddressGroups and AppliedToGroups are the computed objects for the account's
	// enforcer key.
	Policies        []*v1beta2.NetworkPolicy
	AddressGroups   []*v1beta2.AddressGroup
	AppliedToGroups []*v1beta2.AppliedToGroup

	// Entities maps the ExternalEntities of this account to its VMs. A VM with an entity is
	// selected: its interfaces may be taken over. Several entities may map to the same VM; the
	// policies of all of them apply to it.
	Entities map[EntityRef]VMRef

	// Shared maps ExternalEntities of other accounts to the network of their VMs, if this account
	// sees that network too. Their private addresses denote them there, which is not said of other
	// VMs that are not this account's.
	Shared map[EntityRef]string

	// Services maps the ExternalEntities of this account that stand for native services to these,
	// by region and ID. They are peers by the addresses of their members. One whose groups can be
	// set is guarded as a VM is; policies on others are refused.
	Services map[EntityRef]VMRef

	// Faulty are the UIDs of policies that the planner cannot cope with, each with what it panicked
	// with. They are refused. Compute finds them itself.
	Faulty map[string]string

	// Heavy are the UIDs of policies with which planning takes too much work, each with how many
	// kinds of VMs the policies of its namespace tell apart. They are refused. Compute finds them
	// itself.
	Heavy map[string]int

	// Seal signs and checks the records of former groups; nil if they are neither signed nor
	// checked.
	Seal *record.Seal
	// Confirmed are the former groups of interfaces as an authorized user has confirmed them, by
	// interface, sorted. They count where the record is not believed.
	Confirmed map[string][]string

	// Failsafe is what VMs with policies are allowed whatever the policies say.
	Failsafe []FailsafeFlow

	// Modes names the VMs that are not simply enforced.
	Modes map[VMRef]Mode

	// Agents names the VMs that are left to the agents in them, and the directions, ingress and
	// egress, in which the cloud lets everything in for them.
	Agents map[VMRef][2]bool

	// Blocked are interfaces that the cloud refuses to change, with its words: they, and the groups
	// of ours that they hold, stay as they are.
	Blocked map[InterfaceKey]string

	// Locked are groups of ours whose rules the cloud refuses to change. Interfaces that hold them
	// are among Blocked, and their rules stay word for word.
	Locked map[GroupKey]bool

	// Unmarked are networks on which cloud.TagRevision cannot be written or removed. Every change
	// in their region counts as a change of policies.
	Unmarked map[NetworkKey]bool

	// Dependents says what becomes of interfaces that are not ours and that depend on those that
	// are guarded.
	Dependents DependentsRule

	// Force is the hash of a blocked plan that a user has forced, closing first, and ForcedBy that
	// user, for the record. Forced are the interfaces that this plan is about: flows with them do
	// not count as missed on the way. Compute finds them itself.
	Force, ForcedBy string
	Forced          map[InterfaceKey]bool

	// Regions holds one entry per region of the account that could be observed. VMs of other
	// regions are left alone.
	Regions []Observed

	// Stop is asked now and then whether the result is still wanted; nil means that it is. It must
	// be cheap, and it may be called from no other goroutine than that of Compute.
	Stop func() bool
	// Limit, if set, begins a try to plan. late is asked as Stop is whether the try takes too
	// long; then policies are left out of the next one. end is called when the try is over.
	// Nil means that no try takes too long.
	Limit func() (late func() bool, end func())
}

// WithoutPlanned returns the input with the planned VMs enforced: what it leads to is what they are
// spared.
func (in Input) WithoutPlanned() Input {
	in.Modes = maps.Clone(in.Modes)
	maps.DeleteFunc(in.Modes, func(_ VMRef, m Mode) bool { return m == Planned })
	return in
}

// capability says what rules a cloud can hold.
type capability interface {
	// Unsupported says why the cloud cannot hold rules for the service exactly; empty if it can.
	Unsupported(s flow.Service) string
}
