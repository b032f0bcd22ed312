package plan

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// The names of the layers below that are part of what Compute takes and gives.
type (
	// Service is a set of packets as seen by protocol and port.
	Service = flow.Service

	// Input is everything that one computation depends on: one account with all its regions.
	Input = intent.Input
	// EntityRef names an ExternalEntity.
	EntityRef = intent.EntityRef
	// VMRef names a VM of the account.
	VMRef = intent.VMRef
	// InterfaceKey names an interface of the account.
	InterfaceKey = intent.InterfaceKey
	// GroupKey names a security group of the account.
	GroupKey = intent.GroupKey
	// NetworkKey names a network that the account sees.
	NetworkKey = intent.NetworkKey
	// PolicyRef names a policy and its version.
	PolicyRef = intent.PolicyRef
	// Region is what is known of one region.
	Region = intent.Observed
	// Mode says what may be done to the interfaces of a VM.
	Mode = intent.Mode
	// FailsafeFlow is traffic that VMs with policies are always allowed.
	FailsafeFlow = intent.FailsafeFlow
	// Seal signs the records of one account, and checks them.
	Seal = record.Seal
	// Reason says why something is as it is, as a value.
	Reason = reason.Reason
	// Code is the kind of a reason.
	Code = reason.Code
	// Note is a remark about an object.
	Note = intent.Note

	// Lowerer is the part of the compilation that depends on the cloud.
	Lowerer = form.Lowerer
	// Quota is what bounds the rules of an interface.
	Quota = form.Quota
	// Shortage is a quota that a set of rules exceeds.
	Shortage = form.Shortage
	// Bound is what no rules of an interface can exceed.
	Bound = form.Bound
	// Use is how much rules take of a limit that holds for one group.
	Use = form.Use
	// Cut is what an interface that is not ours loses.
	Cut = guard.Cut
	// DependentsRule is the answer of an account.
	DependentsRule = intent.DependentsRule
	// Lack is a quota that does not suffice, in numbers.
	Lack = reason.Lack

	// Outcome is what is told about regions.
	Outcome = report.Outcome
	// VMStatus says what applies to one VM.
	VMStatus = report.VMStatus
	// VMPolicy is the state of one policy on one VM.
	VMPolicy = report.VMPolicy
	// InterfaceStatus is the state of one interface when the plan is done.
	InterfaceStatus = report.InterfaceStatus
	// Obstruction is what the filter of a subnet denies of what policies allow.
	Obstruction = report.Obstruction
	// PolicyStatus is the state of one policy in the account.
	PolicyStatus = report.PolicyStatus
	// UnguardedService is a native service or interface on which a policy is refused.
	UnguardedService = report.UnguardedService
	// FailedVM is a VM on which a policy is refused.
	FailedVM = report.FailedVM
	// Refusal is something that cannot be done as wanted.
	Refusal = report.Refusal
	// Drift is a change that somebody else made.
	Drift = report.Drift
	// Records counts the records of former groups.
	Records = report.Records
	// Unproven is an interface that we hold without knowing what it had before.
	Unproven = report.Unproven
	// Protection says which interfaces policies guard.
	Protection = report.Protection
	// InterfaceRef names a network interface of a VM.
	InterfaceRef = report.InterfaceRef
	// Brake says how much of an account may change at once without a confirmation.
	Brake = report.Brake
	// Waiting is a change that waits for a confirmation.
	Waiting = report.Waiting
)

// The modes.
const (
	Enforce    = intent.Enforce
	Planned    = intent.Planned
	Braked     = intent.Braked
	Released   = intent.Released
	BreakGlass = intent.BreakGlass
)

// InterfaceUnguarded is the reason for a policy on an interface that it cannot apply to.
const InterfaceUnguarded = reason.InterfaceUnguarded

// The states of an interface.
const (
	Member  = guard.Member
	Guarded = guard.Guarded
)

// What becomes of interfaces that depend on guarded ones.
const (
	FollowDependents = intent.FollowDependents
	CutDependents    = intent.CutDependents
)

// LostTags begins the message about a group of ours whose tags were changed.
const LostTags = words.TagsChanged

// SealKeySize is the length of a key of a Seal.
const SealKeySize = record.SealKeySize

// NewSeal returns the seal of an account of a cluster. It signs with the key and believes what
// former ones have signed, too. All must be random and secret.
func NewSeal(key []byte, clusterID, account string, former ...[]byte) *Seal {
	return record.NewSeal(key, clusterID, account, former...)
}

// Former returns the groups that an interface had before it was taken over, sorted, as its tags
// record them; nil without record.
func Former(n *cloud.Interface) []string { return record.Former(n) }

// ParseConfirmed reads the annotation v1alpha1.AnnotationFormerGroups.
func ParseConfirmed(text string) (confirmed map[string][]string, problem string) {
	return record.ParseConfirmed(text)
}

// The limits that a Shortage can be about.
const (
	QuotaRulesPerGroup     = reason.QuotaRulesPerGroup
	LimitSecurityRules     = reason.LimitSecurityRules
	LimitSources           = reason.LimitSources
	LimitDestinations      = reason.LimitDestinations
	LimitApplicationGroups = reason.LimitApplicationGroups
)
