package preview

import (
	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// A warningReason says what a warning of the command plan is about. --tolerate takes them, and they
// stand in the JSON.
type WarningReason string

// The reasons.
const (
	// warnNoSuchAccount: a selector names an account that does not exist.
	warnNoSuchAccount WarningReason = "NoSuchAccount"
	// warnSelectsNoVM: a selector, or an entry of one, selects no VM.
	warnSelectsNoVM WarningReason = "SelectsNoVM"
	// warnSelectsNobody: a policy applies to no one.
	warnSelectsNobody WarningReason = "SelectsNobody"
	// warnPeerNobody: a rule names peers of which there are none.
	warnPeerNobody WarningReason = "PeerNobody"
	// warnNotGranted: an account does not let somebody select or release.
	warnNotGranted WarningReason = "NotGranted"
	// warnNameTaken: a VM is not imported, because another one has the object of its name.
	warnNameTaken WarningReason = "NameTaken"
	// warnHostBits: a block of addresses is written with bits that do not count.
	warnHostBits WarningReason = "HostBits"
	// warnNoSuchGroup and warnNoSuchTier: a policy names what does not exist.
	warnNoSuchGroup WarningReason = "NoSuchGroup"
	warnNoSuchTier  WarningReason = "NoSuchTier"
	// warnOpensManagement: a policy, or the plan, lets anybody in the Internet get at machines by
	// ssh or remote desktop.
	warnOpensManagement WarningReason = "OpensManagement"
	// warnOpensToInternet: it lets anybody there reach VMs in another way.
	warnOpensToInternet WarningReason = "OpensToInternet"
	// warnLosesPolicy: after the plan no policy guards a VM that one guards now.
	warnLosesPolicy WarningReason = "LosesPolicy"
	// warnOneFamily: a rule closes all of IPv4, or of IPv6, and leaves the other family alone.
	warnOneFamily WarningReason = "OneFamily"
	// warnClosesAccess: the plan closes ssh or remote desktop to a VM that has it now.
	warnClosesAccess WarningReason = "ClosesAccess"
	// WarnNeverMatches: rules before it leave a rule nothing.
	WarnNeverMatches WarningReason = "NeverMatches"
	// WarnTakesPrecedence: a rule takes from another policy's rule what that decides about
	// somebody.
	WarnTakesPrecedence WarningReason = "TakesPrecedence"
	// WarnNotExact: the cloud does not do exactly as a policy says; what it does is not wider.
	WarnNotExact WarningReason = "NotExact"
	// warnSubnetDenies: the filter of a subnet denies what a policy allows.
	warnSubnetDenies WarningReason = "SubnetDenies"
	// warnCutsBalancer: policies do not let the health checks of a load balancer, or what it hands
	// on, get to its targets.
	warnCutsBalancer WarningReason = "CutsBalancer"
	// WarnManyClusters: a snapshot shows VPCs of several clusters, and no one says which is meant.
	WarnManyClusters WarningReason = "ManyClusters"
)

// warningReasons are all of them.
var WarningReasons = []WarningReason{
	warnClosesAccess,
	warnCutsBalancer,
	warnHostBits,
	warnLosesPolicy,
	WarnManyClusters,
	warnNameTaken,
	WarnNeverMatches,
	warnNoSuchAccount,
	warnNoSuchGroup,
	warnNoSuchTier,
	WarnNotExact,
	warnNotGranted,
	warnOneFamily,
	warnOpensManagement,
	warnOpensToInternet,
	warnPeerNobody,
	warnSelectsNoVM,
	warnSelectsNobody,
	warnSubnetDenies,
	WarnTakesPrecedence,
}

// Warning is what looks like a mistake.
type Warning struct {
	Reason  WarningReason
	Message string
}

// tagsOnly reports whether the plans change something, but nothing that decides about packets.
func tagsOnly(plans ...analysis.PlanDocument) bool {
	steps := 0
	for _, p := range plans {
		steps += len(p.Steps)
		for _, s := range p.Steps {
			if s.Kind != string(cloud.OpTag) && s.Kind != string(cloud.OpUntag) {
				return false
			}
		}
	}
	return steps > 0
}
