package clusterset_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/policy"
)

// Services in the random worlds of the oracle.

// export exports a random Service of a member, changes one, or ends that one is exported.
func (w *world) export(s *site) {
	x := feed.Export{NamespacedName: policy.NamespacedName{Namespace: pick(w.Rand, "shop", "ops"), Name: pick(w.Rand, "db", "api")}}
	if w.IntN(4) == 0 {
		delete(s.exports, x.NamespacedName)
		s.feed.DropExport(x.NamespacedName)
		return
	}
	x.Selector = pick(w.Rand, nil, map[string]string{"app": "web"}, map[string]string{"app": "db"}, map[string]string{"app": "db", "tier": "db"}, map[string]string{"statefulset.kubernetes.io/pod-name": "x1"})
	x.Ports = []feed.ExportedPort{{Protocol: policy.TCP, Port: 443, Target: int32(8443 + w.IntN(2)), Node: 30443}}
	if w.IntN(2) == 0 {
		x.Ports = append(x.Ports, feed.ExportedPort{Protocol: policy.TCP, Port: 80, TargetName: "http", Node: 30080}, feed.ExportedPort{Protocol: policy.UDP, Port: 53, Target: 53, Node: 30053})
	}
	if x.OnNodes = w.IntN(3) == 0; w.IntN(3) == 0 {
		x.Balancers = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(slices.Index(w.sites, s)), byte(200 + w.IntN(3))})}
	}
	for range w.IntN(4) {
		e := feed.Endpoint{Address: netip.AddrFrom4([4]byte{10, 0, byte(slices.Index(w.sites, s)), byte(100 + w.IntN(5))}), Ports: []feed.ServedPort{{Protocol: policy.TCP, Port: int32(5000 + w.IntN(2))}}}
		if !slices.ContainsFunc(x.Endpoints, func(o feed.Endpoint) bool { return o.Address == e.Address }) {
			x.Endpoints = append(x.Endpoints, e)
		}
	}
	s.exports[x.NamespacedName] = x
	s.feed.PutExport(&x)
}

// toServices makes a policy one of egress to exported Services.
func (w *world) toServices(p *policy.Policy) {
	r := policy.Rule{Action: pick(w.Rand, policy.Allow, policy.Drop), Name: "r"}
	for range 1 + w.IntN(2) {
		s := policy.ServicePeer{Name: pick(w.Rand, "db", "api", "antrea-mc-db"), Namespace: pick(w.Rand, "shop", "ops"), Scope: peers.ScopeClusterSet}
		if p.Namespace != "" && w.IntN(2) == 0 {
			s.Namespace = ""
		}
		r.ToServices = append(r.ToServices, s)
	}
	p.Egress = []policy.Rule{r}
	if w.IntN(2) == 0 { // for machines, which reach no cluster IP
		for i := range p.AppliedTo {
			p.AppliedTo[i].ExternalEntitySelector, p.AppliedTo[i].PodSelector = p.AppliedTo[i].PodSelector, nil
		}
	}
}

// serve does what a member's process does: what serves Services here is in their groups.
func (w *world) serve(s *site) {
	all := slices.Collect(maps.Values(s.own))
	for uid := range s.policies {
		all = append(all, w.policies[uid])
	}
	for i := range all {
		for _, g := range peers.Services(&all[i]) {
			if s.groups()[g.ID] {
				s.book.Own(g.ID, s.feed.Serving(g.Service))
			}
		}
	}
}

// services compares what a policy means of Services in a member with what its enforcers receive.
func (w *world) services(s *site, p *policy.Policy) {
	want := map[string]bool{}
	for _, named := range p.Egress[0].ToServices {
		name := policy.NamespacedName{Namespace: named.Namespace, Name: named.Name}
		if name.Namespace == "" {
			name.Namespace = p.Namespace
		}
		if name.Name == "antrea-mc-db" {
			name.Name = "db"
		}
		for _, o := range w.sites {
			x, exported := o.exports[name]
			if !exported || o != s && !p.Set && !claims.Matches(o.visible, name.Namespace) {
				continue
			}
			for _, e := range x.Endpoints {
				if len(x.Selector) == 0 {
					want[fmt.Sprintf("%s %s %d", e.Address, e.Ports[0].Protocol, e.Ports[0].Port)] = true
				}
			}
			for _, port := range x.Ports {
				at := func(a netip.Addr, number int32) { want[fmt.Sprintf("%s %s %d", a, port.Protocol, number)] = true }
				for _, a := range x.Balancers {
					at(a, port.Port)
				}
				for ref, e := range o.entities {
					switch {
					case ref.Kind == policy.KindNode && x.OnNodes:
						at(e.Addresses[0], port.Node)
					case ref.Kind == policy.KindPod && ref.Namespace == name.Namespace && selects(x.Selector, &e):
						number := port.Target
						if port.TargetName != "" && len(e.Ports) > 0 {
							number = e.Ports[0].Port
						}
						if number > 0 {
							at(e.Addresses[0], number)
						}
					}
				}
			}
		}
	}
	got := map[string]bool{}
	l := s.engine.Listing()
	for _, c := range l.Policies {
		if c.Source.UID != p.UID {
			continue
		}
		for i := range c.Rules {
			r := &c.Rules[i]
			if (p.Set || p.AppliedTo[0].PodSelector == nil) && len(r.ToServices) > 0 || r.Action != p.Egress[0].Action || r.Priority != 0 {
				w.Fatalf("%s: %+v", s.name, r)
			}
			for _, g := range l.AddressGroups {
				if !slices.Contains(r.AddressGroups, g.Name) {
					continue
				}
				for _, m := range g.Members {
					for _, port := range m.Ports {
						if slices.ContainsFunc(r.Services, func(s policy.ServiceMatch) bool { return s.Port.Name == port.Name }) {
							got[fmt.Sprintf("%s %s %d", m.IPs[0], port.Protocol, port.Port)] = true
						}
					}
				}
			}
		}
	}
	if !maps.Equal(got, want) {
		w.Fatalf("%s, policy %s to %+v: %v, want %v", s.name, p.UID, p.Egress[0].ToServices, got, want)
	}
}

func selects(selector map[string]string, e *policy.Entity) bool {
	for k, v := range selector {
		if k == "statefulset.kubernetes.io/pod-name" {
			if e.Name != v {
				return false
			}
		} else if e.Labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}
