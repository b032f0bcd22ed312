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

// The names of the layers below that are part of what Compute takes and gives. Each is documented
// there.
type (
	Service = flow.Service

	Input        = intent.Input
	EntityRef    = intent.EntityRef
	VMRef        = intent.VMRef
	InterfaceKey = intent.InterfaceKey
	GroupKey     = intent.GroupKey
	NetworkKey   = intent.NetworkKey
	PolicyRef    = intent.PolicyRef
	Region       = intent.Observed
	Mode         = intent.Mode
	FailsafeFlow = intent.FailsafeFlow
	Seal         = record.Seal
	Reason       = reason.Reason
	Code         = reason.Code
	Note         = intent.Note

	Lowerer        = form.Lowerer
	Quota          = form.Quota
	Shortage       = form.Shortage
	Bound          = form.Bound
	Use            = form.Use
	Cut            = guard.Cut
	DependentsRule = intent.DependentsRule
	Lack           = reason.Lack

	Outcome          = report.Outcome
	VMStatus         = report.VMStatus
	VMPolicy         = report.VMPolicy
	InterfaceStatus  = report.InterfaceStatus
	Obstruction      = report.Obstruction
	PolicyStatus     = report.PolicyStatus
	UnguardedService = report.UnguardedService
	FailedVM         = report.FailedVM
	Refusal          = report.Refusal
	Drift            = report.Drift
	Records          = report.Records
	Unproven         = report.Unproven
	Protection       = report.Protection
	InterfaceRef     = report.InterfaceRef
	Brake            = report.Brake
	Waiting          = report.Waiting
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
