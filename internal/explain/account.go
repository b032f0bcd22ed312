package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// byAccount is what the account of a VM, or the agent of a host, says about the flows of it,
// besides the policies.
type byAccount struct {
	// failsafe is the account by whose failsafe flows a packet is allowed, "namespace/name".
	failsafe string
	// host is the host by the failsafe flows of whose agent it is allowed, "namespace/name".
	host string
	// suspended is the mode in which neither these nor policies are enforced, with the object that
	// sets it.
	suspended string
}

// allowed reports whether it is allowed whatever policies say.
func (b byAccount) allowed() bool { return b.failsafe != "" || b.host != "" }

// accountView is how the accounts of clouds see entities: which they import, and in which mode.
type accountView struct{ c *Computation }

func (c *Computation) accountView() accountView { return accountView{c} }

// accountOf says what the account of a VM, or the agent of a host, says about a packet at it, whose
// other end has an address. Where no policy applies it says nothing: neither modes nor failsafe
// flows are about such VMs.
func (acc accountView) accountOf(at end, direction cloud.Direction, packet evaluate.Flow, other netip.Addr, d evaluate.Decision) byAccount {
	key, enforced := strings.CutPrefix(at.enforcer, cloud.EnforcerPrefix)
	if h, told := acc.c.hostInfos[at.enforcer]; told && at.agent == AgentOurs && d.Exempt == "" && acc.selected(at.ref) {
		if slices.ContainsFunc(h.failsafe, func(f plan.FailsafeFlow) bool { return f.Direction == direction && allows(f, packet, other) }) {
			return byAccount{host: at.enforcer}
		}
	}
	if !enforced || d.Exempt != "" || !acc.selected(at.ref) {
		return byAccount{}
	}
	out := byAccount{suspended: acc.suspended(at.ref, key)}
	for _, a := range acc.c.Objects.Accounts {
		if cloud.AccountKey(a.Namespace, a.Name) == key && slices.ContainsFunc(plan.ParseFailsafe(a.Spec.Failsafe), func(f plan.FailsafeFlow) bool {
			return f.Direction == direction && allows(f, packet, other)
		}) {
			out.failsafe = key
		}
	}
	return out
}

// allows reports whether a failsafe flow of its direction is about a packet.
func allows(f plan.FailsafeFlow, packet evaluate.Flow, other netip.Addr) bool {
	if !slices.ContainsFunc(f.Peers, func(p netip.Prefix) bool { return other.IsValid() && p.Contains(other) }) {
		return false
	}
	what := serviceOf(&packet, other.Is6())
	return len(f.Services) == 0 || slices.ContainsFunc(f.Services, func(s flow.Service) bool { return s.Covers(what) })
}

// selected reports whether a rule of any policy applies to an entity.
func (acc accountView) selected(ref policy.EntityRef) bool {
	groups := map[string]bool{}
	for _, g := range acc.c.Listing.AppliedToGroups {
		if slices.ContainsFunc(g.Members, func(m *policy.Member) bool { return m.EntityRef == ref }) {
			groups[g.Name] = true
		}
	}
	applied := func(list []string) bool { return slices.ContainsFunc(list, func(g string) bool { return groups[g] }) }
	return slices.ContainsFunc(acc.c.Listing.Policies, func(p policy.PolicySpan) bool {
		return slices.ContainsFunc(p.Rules, func(r policy.ComputedRule) bool {
			return applied(r.AppliedToGroups) || len(r.AppliedToGroups) == 0 && applied(p.AppliedToGroups)
		})
	})
}

// importedObject is an object that represents a VM, a native service or an interface, with what its
// status tells of the mode.
type importedObject struct {
	kind string
	metav1.Object
	mode, reason string
}

// importedAs is the object that an entity stands for; false if there is none.
func (acc accountView) importedAs(ref policy.EntityRef) (importedObject, bool) {
	at := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: ref.Namespace, Name: name}
	}
	if name, is := strings.CutPrefix(ref.Name, cloudv1alpha1.ServiceEntityNamePrefix); is {
		if o := acc.c.serviceObjects[at(name)]; o != nil {
			return importedObject{"CloudNativeService", o, o.Status.Mode, o.Status.ModeReason}, true
		}
	}
	if name, is := strings.CutPrefix(ref.Name, cloudv1alpha1.InterfaceEntityNamePrefix); is {
		if o := acc.c.interfaceObjects[at(name)]; o != nil {
			return importedObject{"NetworkInterface", o, o.Status.Mode, o.Status.ModeReason}, true
		}
	}
	if o := acc.c.vmObjects[at(strings.TrimPrefix(ref.Name, cloudv1alpha1.EntityNamePrefix))]; o != nil {
		return importedObject{"VirtualMachine", o, o.Status.Mode, o.Status.ModeReason}, true
	}
	return importedObject{}, false
}

// byName are objects by their names.
func byName[T metav1.Object](list []T) map[types.NamespacedName]T {
	out := make(map[types.NamespacedName]T, len(list))
	for _, o := range list {
		out[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	return out
}

// suspended is the mode, if any, because of which policies are not enforced on the machine of an
// entity, with the object that sets it. It comes from the annotations of the machine's object and
// of its selector where they apply, else from what was read of the account, else from the status.
func (acc accountView) suspended(ref policy.EntityRef, account string) string {
	o, known := acc.importedAs(ref)
	mode, reason := o.mode, o.reason
	if read, why, is := acc.c.clouds.Mode(ref); is {
		mode, reason = read, why
	}
	if known {
		if why := acc.breakGlass(o, account); why != "" {
			return why
		}
	}
	if mode != "" && mode != string(cloudv1alpha1.ModeEnforce) {
		return fmt.Sprintf("mode %s (%s)", mode, reason)
	}
	return ""
}

// breakGlass says by whose word policies are not enforced on what an object stands for; empty if
// nobody has spoken it, or it is not heeded.
func (acc accountView) breakGlass(o importedObject, account string) string {
	if !acc.hasSay(account, o.GetNamespace()) {
		return ""
	}
	if why, _, broken := selection.BreakGlass(o.GetAnnotations(), acc.c.Objects.At); broken {
		return fmt.Sprintf("break-glass (%s %s/%s: %s)", o.kind, o.GetNamespace(), o.GetName(), why)
	}
	for _, s := range acc.c.Objects.Selectors {
		if s.Namespace != o.GetNamespace() || s.Name != o.GetLabels()[cloudv1alpha1.LabelCESName] || cloud.AccountKey(s.Spec.AccountNamespace, s.Spec.AccountName) != account {
			continue
		}
		if why, _, broken := selection.BreakGlass(s.Annotations, acc.c.Objects.At); broken {
			return fmt.Sprintf("break-glass (CloudEntitySelector %s/%s: %s)", s.Namespace, s.Name, why)
		}
	}
	return ""
}

// hasSay reports whether break-glass is heeded in a namespace for VMs of an account,
// "namespace/name". Of an account that is not among the inputs only its own namespace is known to
// have a say.
func (acc accountView) hasSay(account, namespace string) bool {
	for _, a := range acc.c.Objects.Accounts {
		if cloud.AccountKey(a.Namespace, a.Name) == account {
			return selection.HasSay(a, namespace)
		}
	}
	own, _, _ := strings.Cut(account, "/")
	return namespace == own
}
