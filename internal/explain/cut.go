package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Cut says that policies do not let a load balancer reach targets.
type Cut struct {
	// Balancer and Group are the names of the load balancer and of the target group.
	Balancer, Group string
	// Health tells that it is health checks that do not get through, Traffic that it is what comes
	// from clients, which these targets see come from the balancer.
	Health, Traffic bool
	Protocol        policy.Protocol
	Port            uint16
	// From are the addresses of the balancer that are not let in, sorted.
	From []netip.Addr
	// Targets are the entities, "namespace/name", sorted.
	Targets []string
	// Policies are those that decide, sorted.
	Policies []analysis.Policy
}

// cutKey is what cuts of several targets have in common.
type cutKey struct {
	balancer, group string
	protocol        policy.Protocol
	port            uint16
	from, policies  string
}

// Cuts finds the targets of load balancers that policies, once they are enforced, keep from being
// reached by the balancer, sorted. It does not tell of clients whose addresses are preserved, nor
// of what the own groups of a machine let in.
func (c *Computation) Cuts() []Cut {
	if c.clouds == nil {
		return nil
	}
	applied := map[policy.EntityRef]bool{}
	for _, g := range c.Listing.AppliedToGroups {
		for _, m := range g.Members {
			applied[m.EntityRef] = true
		}
	}
	machines := map[string][]policy.EntityRef{} // by VM
	for ref, vm := range c.clouds.VMs {
		if account, _ := strings.CutPrefix(c.Ends[ref].Host, cloud.EnforcerPrefix); applied[ref] && c.accountView().suspended(ref, account) == "" {
			machines[vm.VMID] = append(machines[vm.VMID], ref)
		}
	}
	if len(machines) == 0 {
		return nil
	}
	f := cutFinder{c: c, evaluator: c.evaluator(), found: map[cutKey]*Cut{}}
	for _, snap := range c.Objects.Snapshots() {
		byAddress, byVM := interfacesOf(snap)
		for i := range snap.Services {
			s := &snap.Services[i]
			for _, l := range s.Listeners {
				for _, g := range l.Groups {
					for _, t := range g.Targets {
						nic := byVM[t.VMID]
						if t.Addr.IsValid() {
							nic = byAddress[placedAddr{cmp.Or(g.NetworkID, s.NetworkID), t.Addr}]
						}
						if nic == nil || len(nic.PrivateIPs) == 0 {
							continue
						}
						to := nic.PrivateIPs[0]
						if t.Addr.IsValid() {
							to = t.Addr
						}
						for _, ref := range machines[nic.VMID] {
							f.target(s, &l, &g, t, ref, to)
						}
					}
				}
			}
		}
	}
	return f.all()
}

type placedAddr struct {
	network string
	addr    netip.Addr
}

// interfacesOf finds the interfaces of machines by their addresses, and the first one of each.
func interfacesOf(snap *cloud.Snapshot) (byAddress map[placedAddr]*cloud.Interface, byVM map[string]*cloud.Interface) {
	byAddress, byVM = map[placedAddr]*cloud.Interface{}, map[string]*cloud.Interface{}
	byID := map[string]*cloud.Interface{}
	for i := range snap.Interfaces {
		n := &snap.Interfaces[i]
		byID[n.ID] = n
		for _, a := range n.PrivateIPs {
			if n.VMID != "" {
				byAddress[placedAddr{n.NetworkID, a}] = n
			}
		}
	}
	for i := range snap.VMs {
		if vm := &snap.VMs[i]; len(vm.Interfaces) > 0 {
			byVM[vm.ID] = byID[vm.Interfaces[0]]
		}
	}
	return byAddress, byVM
}

// cutFinder collects cuts.
type cutFinder struct {
	c         *Computation
	evaluator *evaluate.Evaluator
	found     map[cutKey]*Cut
}

// target asks what policies do with what a balancer sends to a target.
func (f *cutFinder) target(s *cloud.Service, l *cloud.ServiceListener, g *cloud.TargetGroup, t cloud.Target, ref policy.EntityRef, to netip.Addr) {
	protocol := policy.TCP
	if l.Protocol == cloud.UDP {
		protocol = policy.UDP
	}
	// What our own groups always let in is cut only by agents on hosts.
	if checks := s.Private; t.HealthPort != 0 && (g.Probes == nil || !f.c.endOf(f.c.Ends[ref]).isCloudVM()) {
		if g.Probes != nil {
			checks = g.Probes
		}
		f.ask(s, g, checks, ref, to, policy.TCP, t.HealthPort, func(c *Cut) { c.Health = true })
	}
	if !g.Preserved {
		f.ask(s, g, s.Private, ref, to, protocol, t.Port, func(c *Cut) { c.Traffic = true })
	}
}

func (f *cutFinder) ask(s *cloud.Service, g *cloud.TargetGroup, sources []netip.Addr, ref policy.EntityRef, to netip.Addr, protocol policy.Protocol, port uint16, what func(*Cut)) {
	at := f.c.endOf(f.c.Ends[ref])
	var from []netip.Addr
	var by []analysis.Policy
	for _, a := range sources {
		if a.Is4() != to.Is4() {
			continue
		}
		flow := evaluate.Flow{Protocol: protocol, Port: port, Source: end{}.endpoint(a), Destination: at.endpoint(to)}
		d := f.evaluator.Evaluate(flow).Ingress
		if d.Outcome != evaluate.OutcomeDrop && d.Outcome != evaluate.OutcomeReject || f.c.accountView().accountOf(at, cloud.Ingress, flow, a, d).allowed() {
			continue
		}
		from = append(from, a)
		list := d.IsolatedBy
		if d.By != nil {
			list = []policy.PolicyRef{d.By.Policy}
		}
		for _, p := range list {
			if named := explainPolicy(p); !slices.Contains(by, named) {
				by = append(by, named)
			}
		}
	}
	if len(from) == 0 {
		return
	}
	slices.SortFunc(from, netip.Addr.Compare)
	slices.SortFunc(by, func(a, b analysis.Policy) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	key := cutKey{s.ID, g.ID, protocol, port, fmt.Sprint(from), fmt.Sprint(by)}
	c := f.found[key]
	if c == nil {
		c = &Cut{Balancer: cmp.Or(s.Name, s.ID), Group: g.Name, Protocol: protocol, Port: port, From: from, Policies: by}
		f.found[key] = c
	}
	what(c)
	name := ref.Namespace + "/" + ref.Name
	if i, there := slices.BinarySearch(c.Targets, name); !there {
		c.Targets = slices.Insert(c.Targets, i, name)
	}
}

func (f *cutFinder) all() []Cut {
	var out []Cut
	for _, c := range f.found {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Cut) int {
		return cmp.Or(cmp.Compare(a.Balancer, b.Balancer), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port),
			slices.CompareFunc(a.From, b.From, netip.Addr.Compare), slices.Compare(a.Targets, b.Targets))
	})
	return out
}
