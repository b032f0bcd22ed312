package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
)

// byAccount is what the account of a VM, or the agent of a host, says about the flows of it,
// besides the policies.
type byAccount struct {
	// failsafe is the account by whose failsafe flows a packet is allowed, "namespace/name".
	failsafe string
	// host is the host by the failsafe flows of whose agent it is allowed, "namespace/name".
	host string
	// suspended is the mode in which policies are not enforced, with who says so.
	suspended string
}

// allowed reports whether it is allowed whatever policies say.
func (b byAccount) allowed() bool { return b.failsafe != "" || b.host != "" }

// accountOf says what the account of a VM, or the agent of a host, says about a packet at it, whose
// other end has an address. Where no policy applies it says nothing: neither modes nor failsafe
// flows are about such VMs.
func (c *Computation) accountOf(at end, direction cloud.Direction, packet policy.Flow, other netip.Addr, d policy.Decision) byAccount {
	key, enforced := strings.CutPrefix(at.enforcer, cloud.EnforcerPrefix)
	if h, told := c.hostInfos[at.enforcer]; told && at.agent == AgentOurs && d.Exempt == "" && c.selected(at.ref) {
		if slices.ContainsFunc(h.failsafe, func(f plan.FailsafeFlow) bool { return f.Direction == direction && allows(f, packet, other) }) {
			return byAccount{host: at.enforcer}
		}
	}
	if !enforced || d.Exempt != "" || !c.selected(at.ref) {
		return byAccount{}
	}
	if why := c.suspended(at.ref, key); why != "" {
		return byAccount{suspended: why}
	}
	for _, a := range c.Accounts {
		if cloud.AccountKey(a.Namespace, a.Name) == key && slices.ContainsFunc(plan.ParseFailsafe(a.Spec.Failsafe), func(f plan.FailsafeFlow) bool {
			return f.Direction == direction && allows(f, packet, other)
		}) {
			return byAccount{failsafe: key}
		}
	}
	return byAccount{}
}

// allows reports whether a failsafe flow of its direction is about a packet.
func allows(f plan.FailsafeFlow, packet policy.Flow, other netip.Addr) bool {
	if !slices.ContainsFunc(f.Peers, func(p netip.Prefix) bool { return other.IsValid() && p.Contains(other) }) {
		return false
	}
	protocol, port := 0, packet.Port
	switch packet.Protocol {
	case policy.TCP:
		protocol = cloud.TCP
	case policy.UDP:
		protocol = cloud.UDP
	case policy.ICMP:
		protocol, port = cloud.ICMP, 0
	}
	return len(f.Services) == 0 || slices.ContainsFunc(f.Services, func(s flow.Service) bool {
		return s.Protocol == protocol && s.From <= port && port <= s.To
	})
}

// selected reports whether a rule of any policy applies to an entity.
func (c *Computation) selected(ref policy.EntityRef) bool {
	groups := map[string]bool{}
	for _, g := range c.Listing.AppliedToGroups {
		if slices.ContainsFunc(g.Members, func(m *policy.Member) bool { return m.EntityRef == ref }) {
			groups[g.Name] = true
		}
	}
	applied := func(list []string) bool { return slices.ContainsFunc(list, func(g string) bool { return groups[g] }) }
	return slices.ContainsFunc(c.Listing.Policies, func(p policy.PolicySpan) bool {
		return slices.ContainsFunc(p.Rules, func(r policy.ComputedRule) bool {
			return applied(r.AppliedToGroups) || len(r.AppliedToGroups) == 0 && applied(p.AppliedToGroups)
		})
	})
}

// suspended says in which mode the VM of an entity is in which policies are not enforced, and who
// says so, as far as the objects tell: the annotations on the VM and on the selector that imports
// it, where they are heeded, and else the status of the VM.
func (c *Computation) suspended(ref policy.EntityRef, account string) string {
	name := strings.TrimPrefix(ref.Name, cloudv1alpha1.EntityNamePrefix)
	i := slices.IndexFunc(c.VMs, func(vm *cloudv1alpha1.VirtualMachine) bool { return vm.Namespace == ref.Namespace && vm.Name == name })
	if i < 0 {
		return ""
	}
	vm := c.VMs[i]
	say := c.hasSay(account, vm.Namespace)
	if why, _, broken := inventory.BreakGlass(vm.Annotations, c.At); broken && say {
		return fmt.Sprintf("break-glass (VirtualMachine %s/%s: %s)", vm.Namespace, vm.Name, why)
	}
	for _, s := range c.Selectors {
		if s.Namespace != vm.Namespace || s.Name != vm.Labels[cloudv1alpha1.LabelCESName] || cloud.AccountKey(s.Spec.AccountNamespace, s.Spec.AccountName) != account {
			continue
		}
		if why, _, broken := inventory.BreakGlass(s.Annotations, c.At); broken && say {
			return fmt.Sprintf("break-glass (CloudEntitySelector %s/%s: %s)", s.Namespace, s.Name, why)
		}
	}
	if m := vm.Status.Mode; m != "" && m != string(cloudv1alpha1.ModeEnforce) {
		return fmt.Sprintf("mode %s (%s)", m, vm.Status.ModeReason)
	}
	return ""
}

// hasSay reports whether break-glass is heeded in a namespace for VMs of an account,
// "namespace/name". Of an account that is not among the inputs only its own namespace is known to
// have a say.
func (c *Computation) hasSay(account, namespace string) bool {
	for _, a := range c.Accounts {
		if cloud.AccountKey(a.Namespace, a.Name) == account {
			return inventory.HasSay(a, namespace)
		}
	}
	own, _, _ := strings.Cut(account, "/")
	return namespace == own
}
