package agent

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/nodes"
)

// RuleAt is a rule of the program in force, by where the kernel has it.
func (a *Agent) RuleAt(chain string, handle uint64) (ruleset.Rule, bool) {
	program, _ := a.board.inForce()
	if program == nil || program.Chains[chain] == nil {
		return ruleset.Rule{}, false
	}
	counters, err := a.options.Table.Counters(chain)
	rules := program.Chains[chain].Rules
	if err != nil || len(counters[chain]) != len(rules) { // somebody is changing it
		return ruleset.Rule{}, false
	}
	for i, c := range counters[chain] {
		if c.Handle == handle {
			return rules[i], true
		}
	}
	return ruleset.Rule{}, false
}

// PodAt is the Pod of this Node with an address, NAMESPACE/NAME; empty for none.
func (a *Agent) PodAt(at netip.Addr) string {
	if a.options.Pods == nil {
		return ""
	}
	node, _ := a.options.Pods.Current()
	if node == nil {
		return ""
	}
	for i := range node.Pods {
		for _, x := range node.Pods[i].Addresses {
			if x.Unmap() == at {
				return node.Pods[i].Namespace + "/" + node.Pods[i].Name
			}
		}
	}
	return ""
}

// NodeAt is the address of the other Node that gives Pods addresses of a range with this one; not
// valid where none is known.
func (a *Agent) NodeAt(at netip.Addr) netip.Addr {
	n := a.options.Network
	if n == nil {
		n = a.sealing
	}
	if n == nil {
		return netip.Addr{}
	}
	all, _ := n.Nodes()
	for _, o := range all {
		node, ok := o.(*corev1.Node)
		if !ok || node.Name == n.Node {
			continue
		}
		for _, x := range nodes.Of([]any{node}) {
			for _, p := range x.PodCIDRs {
				if p.Contains(at) && len(x.Addresses) > 0 {
					return x.Addresses[0]
				}
			}
		}
	}
	return netip.Addr{}
}
