package realize

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Agents is what the realizer needs to know of the agents in VMs. An agent is named by its
// ExternalNode, NAMESPACE/NAME. All methods but Announce are cheap and may be called at any time.
type Agents interface {
	// Agent returns what is known of an agent.
	Agent(node string) handover.Agent
	// Reported returns what an agent has reported about a policy last; false if nothing.
	Reported(policy types.UID, node string) (v1beta2.NetworkPolicyNodeStatus, bool)
	// Announced returns what was announced for the VMs of an account, by agent.
	Announced(account string) map[string]handover.Directions
	// Announce tells an agent in which directions the cloud lets in whatever it decides. When
	// it returns without an error, the agent will read that.
	Announce(ctx context.Context, account, node string, open handover.Directions) error
}

// VMAgent is the agent to which a selector hands a VM.
type VMAgent struct {
	// Node is its ExternalNode, NAMESPACE/NAME. Denied says why the VM cannot be handed over.
	Node, Denied string
}

// handOver decides which VMs are left to their agents, and what the cloud lets in for them.
func (w *worker) handOver(t task) map[plan.VMRef][2]bool {
	if w.r.Agents == nil || len(t.acct.Agents) == 0 {
		w.agents = nil
		return nil
	}
	announced, now, applied := w.r.Agents.Announced(w.key), w.r.Clock.Now(), appliedTo(t)
	states, out := map[plan.VMRef]handover.State{}, map[plan.VMRef][2]bool{}
	for vm, to := range t.acct.Agents {
		former, known := w.agents[vm]
		if !known { // of a former process
			former = handover.State{Handed: announced[to.Node].Any(), Open: announced[to.Node]}
		}
		agent := w.r.Agents.Agent(to.Node)
		if to.Denied != "" {
			agent.Denied = to.Denied
		}
		policies := applied[vm]
		for i := range policies {
			p := &policies[i]
			if r, ok := w.r.Agents.Reported(p.uid, to.Node); ok {
				p.Reported, p.Realized = true, r.Generation
				if r.RealizationFailure {
					p.Failure = cmp.Or(r.Message, "it gives no reason")
				}
			}
		}
		s := handover.Decide(former, agent, withoutUIDs(policies), now)
		if states[vm] = s; s.Handed {
			out[vm] = s.Open
		}
	}
	w.agents = states
	return out
}

// appliedPolicy is a policy on a VM.
type appliedPolicy struct {
	uid types.UID
	handover.Policy
}

func withoutUIDs(of []appliedPolicy) (out []handover.Policy) {
	for _, p := range of {
		out = append(out, p.Policy)
	}
	return out
}

// appliedTo finds the policies that apply to the VMs that are to be handed to agents.
func appliedTo(t task) map[plan.VMRef][]appliedPolicy {
	groups := map[string][]plan.VMRef{}
	for _, g := range t.want.AppliedToGroups {
		for i := range g.GroupMembers {
			e := g.GroupMembers[i].ExternalEntity
			if e == nil {
				continue
			}
			vm, known := t.acct.Entities[plan.EntityRef{Namespace: e.Namespace, Name: e.Name}]
			if _, asked := t.acct.Agents[vm]; known && asked {
				groups[g.Name] = append(groups[g.Name], vm)
			}
		}
	}
	out := map[plan.VMRef][]appliedPolicy{}
	for _, p := range t.want.Policies {
		on := map[plan.VMRef]handover.Directions{}
		for i := range p.Rules {
			r := &p.Rules[i]
			names := r.AppliedToGroups
			if len(names) == 0 {
				names = p.AppliedToGroups
			}
			allows := r.Action != nil && *r.Action == v1beta2.RuleActionAllow
			d := handover.Directions{allows && r.Direction == v1beta2.DirectionIn, allows && r.Direction == v1beta2.DirectionOut}
			for _, name := range names {
				for _, vm := range groups[name] {
					on[vm] = on[vm].Or(d)
				}
			}
		}
		name := p.Name
		if p.SourceRef != nil {
			name = strings.TrimPrefix(p.SourceRef.Namespace+"/"+p.SourceRef.Name, "/")
		}
		for vm, isolates := range on {
			out[vm] = append(out[vm], appliedPolicy{p.UID, handover.Policy{Name: name, Generation: p.Generation, Isolates: isolates}})
		}
	}
	return out
}

// announceWider tells the agents what the cloud is about to let in, before it does.
func (w *worker) announceWider(ctx context.Context, t task) error {
	if len(w.agents) == 0 {
		return nil
	}
	announced := w.r.Agents.Announced(w.key)
	for _, vm := range slices.SortedFunc(maps.Keys(w.agents), compareVMs) {
		node := t.acct.Agents[vm].Node
		if open := w.agents[vm].Open.Or(announced[node]); open != announced[node] {
			if err := w.r.Agents.Announce(ctx, w.key, node, open); err != nil {
				return fmt.Errorf("tell the agent of %s what the cloud lets in: %w", node, err)
			}
		}
	}
	return nil
}

func compareVMs(a, b plan.VMRef) int { return strings.Compare(a.Region+"/"+a.ID, b.Region+"/"+b.ID) }

// announce tells the agents what the cloud lets in for them, when nothing is left to do on the
// snapshots. What was announced and is wanted no more is taken back where the VM is as it should
// be. Where it is not, as on an interface that cannot be set, that is so only for what the
// snapshots show to be narrow again. What no snapshot shows stays as it was announced.
func (w *worker) announce(ctx context.Context, t task, c computed, on []*cloud.Snapshot) error {
	if w.r.Agents == nil {
		return nil
	}
	announced := w.r.Agents.Announced(w.key)
	if len(announced)+len(w.agents) == 0 {
		return nil
	}
	statuses := map[plan.VMRef]*plan.VMStatus{}
	for i := range c.result.VMs {
		statuses[c.result.VMs[i].VM] = &c.result.VMs[i]
	}
	open, seen := map[string]handover.Directions{}, map[string]bool{}
	for _, s := range on {
		for vm, d := range w.letIn(s) {
			at := plan.VMRef{Region: s.Region, ID: vm}
			node := t.acct.Agents[at].Node
			if node == "" {
				node = nodeAmong(announced, vm)
			}
			if c.asWanted(statuses[at]) {
				d = handover.Directions{} // what is wide now is so by the former groups
			}
			open[node], seen[node] = open[node].Or(d.And(announced[node])).Or(w.agents[at].Open), true
		}
	}
	whole := len(on) == len(t.acct.Regions)
	changed := false
	for node, before := range announced {
		if !seen[node] && !whole || open[node] == before {
			continue
		}
		if err := w.r.Agents.Announce(ctx, w.key, node, open[node]); err != nil {
			return fmt.Errorf("tell the agent of %s what the cloud lets in: %w", node, err)
		}
		changed = changed || !open[node].Any()
	}
	if changed { // what waits for it may go on
		w.r.Accounts.Trigger(w.key)
	}
	return nil
}

// asWanted reports whether a VM is as its policies and its agent want it, by a plan that has
// nothing left to do.
func (c *computed) asWanted(vm *plan.VMStatus) bool {
	if vm == nil {
		return false
	}
	for _, n := range vm.Interfaces {
		_, blocked := c.input.Blocked[plan.InterfaceKey{Region: vm.VM.Region, ID: n.ID}]
		if blocked || n.WhyUnproven != nil || n.WhyElsewhere != nil || n.Held && len(vm.Policies) == 0 {
			return false
		}
	}
	return !slices.ContainsFunc(vm.Policies, func(p plan.VMPolicy) bool { return !p.Realized })
}

// nodeAmong finds the ExternalNode of a VM that no selector hands over any more; empty if there is
// none.
func nodeAmong(announced map[string]handover.Directions, vm string) string {
	name := cloudv1.EntityNamePrefix + cloud.ObjectName(vm)
	for node := range announced {
		if strings.HasSuffix(node, "/"+name) {
			return node
		}
	}
	return ""
}

// letIn returns, for the VMs of a region, the directions in which a group of ours lets everything
// in.
func (w *worker) letIn(s *cloud.Snapshot) map[string]handover.Directions {
	wide := map[string]handover.Directions{}
	for i := range s.Groups {
		g := &s.Groups[i]
		if !g.OwnedBy(w.r.ClusterID) {
			continue
		}
		for _, r := range g.Rules {
			if r.Match.Protocol == cloud.AnyProtocol && r.Peer.CIDR.IsValid() && r.Peer.CIDR.Bits() == 0 {
				wide[g.ID] = wide[g.ID].Or(handover.Directions{r.Direction == cloud.Ingress, r.Direction == cloud.Egress})
			}
		}
	}
	out := map[string]handover.Directions{}
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		if n.VMID == "" {
			continue
		}
		for _, id := range n.GroupIDs {
			out[n.VMID] = out[n.VMID].Or(wide[id])
		}
	}
	return out
}
