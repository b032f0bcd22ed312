package intent

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// stage is one of the three passes in which the rules are walked. What a Pass rule matches goes on
// in the next stage.
type stage int

const (
	stageAntrea stage = iota
	stageKubernetes
	stageBaseline
)

const (
	// kubernetesTier is where Kubernetes NetworkPolicies, which have no tier, sort.
	kubernetesTier = 251
	// baselineTier is the first tier after the Kubernetes NetworkPolicies.
	baselineTier = v1beta1.TierPriorityBaseline
)

// Verdict is what a rule does with what it matches.
type Verdict int

const (
	Allow Verdict = iota
	Drop
	pass
	// grant allows like allow, but does not isolate: failsafe flows.
	Grant
)

// Policy is a computed policy, parsed.
type Policy struct {
	Ref      PolicyRef
	Stage    stage
	Tier     int32
	Priority float64
	Rules    []*rule
	// problem says why the policy cannot be expressed at all in this cloud; nil if it can.
	Problem *reason.Reason
	// reject tells that a rule says Reject, which is realized as Drop.
	Reject bool
}

// rule is one rule of a policy, parsed.
type rule struct {
	Policy    *Policy
	Name      string
	Index     int32
	ordinal   int // position in the policy; several rules may have the same index
	number    int // position in the order of evaluation, over all policies and both directions
	Direction cloud.Direction
	Verdict   Verdict
	// services is nil for any service.
	Services []flow.Service
	// void tells that the rule is about no service at all, although services is nil.
	void bool
	// Named are ports that every VM resolves with the named ports of its entities. In egress rules
	// they are the peers' ports, and divideByPorts leaves none.
	Named []namedService
	// groups are the address groups of the peer, blocks its addresses.
	Groups []string
	Blocks addrset.Set
	// appliedTo are names of applied-to groups.
	AppliedTo []string
}

// namedService is a port given by name; protocol is empty if that of the member's port counts.
type namedService struct {
	protocol v1beta2.Protocol
	name     string
}

// ComparePolicies orders policies as they are evaluated.
func ComparePolicies(a, b *Policy) int {
	return cmp.Or(
		cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Ref.Namespace, b.Ref.Namespace), cmp.Compare(a.Ref.Name, b.Ref.Name), cmp.Compare(a.Ref.UID, b.Ref.UID),
	)
}

func compareRules(a, b *rule) int {
	p, q := a.Policy, b.Policy
	return cmp.Or(
		cmp.Compare(p.Stage, q.Stage), cmp.Compare(p.Tier, q.Tier), cmp.Compare(p.Priority, q.Priority),
		cmp.Compare(a.Index, b.Index), ComparePolicies(p, q),
	)
}

// refuse records the first reason why the policy cannot be expressed.
func (r *rule) refuse(why *reason.Reason) {
	if r.Policy.Problem == nil {
		r.Policy.Problem = reason.Why(reason.InRule, r.Name, string(r.Direction)).Counting(int(r.Index)).From(why)
	}
}

// withPorts are the protocols whose services have ports.
var withPorts = map[v1beta2.Protocol]int{"": cloud.TCP, v1beta2.ProtocolTCP: cloud.TCP, v1beta2.ProtocolUDP: cloud.UDP, v1beta2.ProtocolSCTP: cloud.SCTP}

// Bound is a rule as it applies to one kind of VM: named ports are resolved.
type Bound struct {
	*rule
	services []flow.Service
	any      bool // the rule is not restricted to services
	// resolved is true if a port of the member has one of the rule's names, whether or not its
	// number is among the services anyway.
	resolved bool
}

// bound is the rule with what it says of ports by number.
func (r *rule) bound() *Bound {
	return &Bound{rule: r, services: r.Services, any: len(r.Services) == 0 && len(r.Named) == 0 && !r.void}
}

func (b *Bound) matches(s flow.Service) bool {
	return b.any || slices.ContainsFunc(b.services, func(o flow.Service) bool { return o.Covers(s) })
}

// Concerns reports whether the rule may match some packets of a service.
func (b *Bound) Concerns(s flow.Service) bool {
	return b.any || slices.ContainsFunc(b.services, s.MayOverlap)
}
