package status

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// State is the judgement on everything together.
type State string

// The states, from good to bad.
const (
	// Well: everything is as its authors want it.
	Well State = "Well"
	// UnderWay: nothing is wrong, and not everything is done.
	UnderWay State = "UnderWay"
	// Attention: something does not come right without a person.
	Attention State = "Attention"
)

// Report is what is known. Lists are sorted and never nil.
type Report struct {
	// At is when it was read.
	At    metav1.Time `json:"at"`
	State State       `json:"state"`
	// Controller is the controller that works on the cluster.
	Controller Controller `json:"controller"`
	Accounts   []Account  `json:"accounts"`
	Selectors  Selectors  `json:"selectors"`
	VMs        VMs        `json:"vms"`
	Policies   Policies   `json:"policies"`
	Agents     Agents     `json:"agents"`
	// Clusters are the members of the set that this cluster is the hub of; Membership is absent if
	// it is a member of none.
	Clusters   []Cluster   `json:"clusters,omitempty"`
	Membership *Membership `json:"membership,omitempty"`
	// Hub is there if several processes are one control plane on one database.
	Hub *Hub `json:"hub,omitempty"`
	// Asked are the phases of the policies that were asked for by name.
	Asked map[string]Phase `json:"asked,omitempty"`
	// Attention is what needs a person, the worst first, and Notes what one should know.
	Attention []Finding `json:"attention"`
	Notes     []Finding `json:"notes"`
	// NotRead are the kinds that could not be read, with the reason; what they would tell is
	// missing.
	NotRead []string `json:"notRead"`
}

// Finding is one thing to know.
type Finding struct {
	// About names the object: kind and name.
	About string `json:"about"`
	// Reason is a word for programs, Message a sentence for people.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Do is what to do about it; empty if the message says so.
	Do string `json:"do,omitempty"`
}

// Controller is the process that holds the lease, by what it has left in the cluster.
type Controller struct {
	// Holder names the process; empty if no process holds the lease.
	Holder string `json:"holder,omitempty"`
	// Since is when it began, Renewed when it was last heard of.
	Since   *metav1.MicroTime `json:"since,omitempty"`
	Renewed *metav1.MicroTime `json:"renewed,omitempty"`
	// Works is false if it was not heard of for longer than the lease lasts.
	Works bool `json:"works"`
	// Version is that of the controller that computes policies.
	Version string `json:"version,omitempty"`
}

// Account is one cloud account.
type Account struct {
	Name     string                  `json:"name"` // NAMESPACE/NAME
	Provider cloudv1.CloudProvider   `json:"provider"`
	CloudID  string                  `json:"cloudId,omitempty"`
	Mode     cloudv1.EnforcementMode `json:"mode"`
	// Ready is the status of the condition Ready with its reason.
	Ready          metav1.ConditionStatus `json:"ready"`
	Reason         string                 `json:"reason"`
	DeletionPolicy cloudv1.DeletionPolicy `json:"deletionPolicy"`
	GuardedVMs     int32                  `json:"guardedVMs"`
	Regions        []Region               `json:"regions"`
	Quotas         Quotas                 `json:"quotas"`
	// Waiting is true if a change waits for a confirmation, Drift if somebody else changes what is
	// held, BreakGlass if VMs are released by it, Deleting if the account is being given back.
	Waiting    bool `json:"waiting"`
	Drift      bool `json:"drift"`
	BreakGlass bool `json:"breakGlass"`
	Deleting   bool `json:"deleting"`
}

// Region is one region of an account.
type Region struct {
	Name string `json:"name"`
	VMs  int32  `json:"vms"`
	VPCs int32  `json:"vpcs"`
	// AgeSeconds is how old what is known of the region is; absent if it was never read.
	AgeSeconds *int64 `json:"ageSeconds,omitempty"`
	// Stale is true if that is longer than two polls, or than a rest and a poll where events come.
	Stale bool   `json:"stale"`
	Error string `json:"error,omitempty"`
}

// Quotas are the limits that an account is planned with. How full they are "nephele plan" tells.
type Quotas struct {
	RulesPerGroup      int32 `json:"rulesPerGroup"`
	GroupsPerInterface int32 `json:"groupsPerInterface"`
	GroupsPerRegion    int32 `json:"groupsPerRegion"`
	// MostGroups is the most groups that an interface of the account's VMs holds.
	MostGroups int `json:"mostGroupsOnAnInterface"`
}

// Selectors counts the selectors.
type Selectors struct {
	Total int `json:"total"`
	Ready int `json:"ready"`
}

// VMs counts the imported virtual machines. Several selectors may import one into several
// namespaces; each counts.
type VMs struct {
	Total  int            `json:"total"`
	ByMode map[string]int `json:"byMode"`
	// Realized have policies, all of which are realized; Policies have any.
	Policies int `json:"withPolicies"`
	Realized int `json:"realized"`
	// Refused have a policy that cannot be realized on them, and Waiting wait for a confirmation.
	Refused int `json:"refused"`
	Waiting int `json:"waiting"`
}

// Phase says how far a policy is enforced.
type Phase string

// The phases of policies. docs/reference/conditions.md lists them from here: kubectl, the console
// and the reasons of the condition Realized of upstream policies use the same words. NotReported
// and Missing are words of nephele status alone.
const (
	// Pending: not computed yet.
	Pending Phase = "Pending"
	// Realizing: computed, and not yet confirmed by every enforcer.
	Realizing Phase = "Realizing"
	// Realized: in force wherever it applies.
	Realized Phase = "Realized"
	// Idle: it applies to nothing that an enforcer is responsible for.
	Idle Phase = "Idle"
	// Planned: not in force somewhere, where the mode is plan.
	Planned Phase = "Planned"
	// Failed: refused somewhere, or it cannot be computed; the message says why.
	Failed Phase = "Failed"
	// Suspended: not in force somewhere, only because of modes, break-glass or the brake.
	Suspended Phase = "Suspended"
	// NotEnforced: an account enforced it, and the VMs that it applied to are released.
	NotEnforced Phase = "NotEnforced"
	// Staged: enforced nowhere yet, by the annotation nephele.io/stage: plan. Nothing waits for it.
	Staged Phase = "Staged"
	// NotReported: a Kubernetes NetworkPolicy of which no enforcer reports whether it is in force.
	NotReported Phase = "NotReported"
	// Missing: asked for by name, and not there.
	Missing Phase = "Missing"
)

// Policies counts the policies by phase, and lists those that are refused somewhere.
type Policies struct {
	Total   int           `json:"total"`
	ByPhase map[Phase]int `json:"byPhase"`
	// Refused are the policies that are refused on some VM, the most VMs first, up to a bound;
	// RefusedTotal is their number.
	Refused      []Refusal `json:"refused"`
	RefusedTotal int       `json:"refusedTotal"`
}

// Refusal is a policy that cannot be realized somewhere.
type Refusal struct {
	Policy string `json:"policy"` // KIND NAMESPACE/NAME
	VMs    int    `json:"vms"`
	// VM is one of them, and Message why it is refused there.
	VM      string `json:"vm"`
	Message string `json:"message"`
}

// age is how long ago something was, in whole seconds, and never negative: clocks of two machines
// differ.
func age(now, then time.Time) int64 { return max(0, int64(now.Sub(then)/time.Second)) }

// Settled reports whether there is nothing left to wait for: the policies that were asked for are
// realized, or, if none was, everything is well. If not, it says what is missing.
func (r *Report) Settled() (done bool, missing string) {
	if len(r.Asked) == 0 {
		switch {
		case r.State == Well:
			return true, ""
		case len(r.Attention) > 0:
			return false, r.Attention[0].About + ": " + r.Attention[0].Message
		}
		return false, "not everything is done yet"
	}
	for _, name := range slices.Sorted(maps.Keys(r.Asked)) {
		if phase := r.Asked[name]; phase != Realized {
			return false, "policy " + name + " is " + string(phase)
		}
	}
	return true, ""
}
