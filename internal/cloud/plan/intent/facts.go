package intent

import (
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Facts are what is known of an account, and what its owner wants.
type Facts struct {
	// ClusterID identifies this controller; it marks every object of ours in the cloud.
	ClusterID string
	// Account is the account, "namespace/name", as in cloud.Scope.
	Account string
	// Policies, AddressGroups and AppliedToGroups are the computed objects for the account's
	// enforcer key.
	Policies        []*v1beta2.NetworkPolicy
	AddressGroups   []*v1beta2.AddressGroup
	AppliedToGroups []*v1beta2.AppliedToGroup
	// Entities maps the ExternalEntities of this account to its VMs, Shared those of other accounts
	// to the network of their VMs.
	Entities map[EntityRef]VMRef
	Shared   map[EntityRef]string
	// Services maps the ExternalEntities of this account that stand for native services to these,
	// by region and ID.
	Services map[EntityRef]VMRef
	// Tighten holds the UIDs of the policies of which as much is to be enforced as can be.
	Tighten map[string]bool
	// Seal signs and checks the records of former groups; nil if they are neither signed nor
	// checked. Confirmed are the former groups of interfaces as somebody who may say so says; they
	// count where the record is not believed.
	Seal      *Seal
	Confirmed map[string][]string
	// Failsafe is what VMs with policies are allowed whatever the policies say.
	Failsafe []FailsafeFlow
	// Modes names the VMs that are not simply enforced.
	Modes map[VMRef]Mode
	// Agents names the VMs that are left to the agents in them. In the directions that are set,
	// ingress and egress, everything is let in if a policy isolates the VM there; in the others the
	// former groups decide.
	Agents map[VMRef][2]bool
	// Blocked are interfaces that the cloud refuses to change, with its words.
	Blocked map[InterfaceKey]string
	// Regions holds one entry per region of the account that could be observed.
	Regions []Observed
	// Stop is asked now and then whether the result is still wanted; nil means that it is.
	Stop func() bool
	// Recall is what several computations know together, and Effort counts what they do.
	Recall *Recall
	Effort *Effort
}

// capability says what rules a cloud can hold.
type capability interface {
	// Unsupported says why the cloud cannot hold rules for the service exactly; empty if it can.
	Unsupported(s flow.Service) string
}
