package peers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// Services that clusters export, as toServices with the scope ClusterSet names them. A remote group
// of one holds its endpoints in all clusters that export it. These have their ports under the name
// PortOf, which no other group uses, so that a rule means each member at its own ports.

// importedPrefix begins the names of Services that Antrea Multi-cluster imports.
const importedPrefix = "antrea-mc-"

// PortOf is the name that the endpoints of a Service have for their ports.
func PortOf(service policy.NamespacedName) string { return "s" + sumOf(service) }

// LabelsOfService are the labels of an endpoint of a Service in a hub's engine: one for policies of
// the hub and, if it is visible, one for own policies of other members.
func LabelsOfService(service policy.NamespacedName, visible bool) map[string]string {
	out := map[string]string{labelOf(service, false): ""}
	if visible {
		out[labelOf(service, true)] = ""
	}
	return out
}

func labelOf(service policy.NamespacedName, own bool) string {
	if own {
		return "v" + sumOf(service)
	}
	return PortOf(service)
}

func sumOf(service policy.NamespacedName) string {
	sum := sha256.Sum256([]byte(service.Namespace + "/" + service.Name))
	return hex.EncodeToString(sum[:16])
}

// serviceGroup is the remote group of a Service that a policy in a Namespace, or in none, names.
func serviceGroup(namespace string, u use, s *policy.ServicePeer) Group {
	service := policy.NamespacedName{Namespace: cmp.Or(s.Namespace, namespace), Name: strings.TrimPrefix(s.Name, importedPrefix)}
	return Group{ID: idOf(u, []string{"service", service.Namespace, service.Name}), Peer: policy.Peer{RemoteGroup: labelOf(service, u.own)}, Service: service}
}

// Services are the remote groups of Services that a policy names, each once.
func Services(p *policy.Policy) []Group {
	var out []Group
	eachService(p, func(_ string, u use, s *policy.ServicePeer) { out = with(out, serviceGroup(p.Namespace, u, s)) })
	return out
}

// servicesLocalized are the egress rules of a policy with the remote groups of Services. A Service
// of an own policy is in addition the one of this cluster, exported or not, at its cluster IP; but
// not for machines and hosts, which reach none: for them it is its exported endpoints.
func servicesLocalized(p *policy.Policy) []policy.Rule {
	out, whole := p.Egress, false
	for i := range p.Egress {
		if !slices.ContainsFunc(p.Egress[i].ToServices, isOfSet) {
			continue
		}
		if !whole {
			out, whole = slices.Clone(p.Egress), true
		}
		var all []policy.ServicePeer
		away := p.Set || outsideCluster(p, &p.Egress[i])
		for _, s := range p.Egress[i].ToServices {
			if !isOfSet(s) || !away {
				all = append(all, s)
			}
			if isOfSet(s) {
				g := serviceGroup(p.Namespace, use{own: !p.Set, egress: true}.by(p.Egress[i].Action), &s)
				all = append(all, policy.ServicePeer{Namespace: g.Service.Namespace, Name: g.Service.Name, RemoteGroup: g.ID, RemotePort: PortOf(g.Service)})
			}
		}
		out[i].ToServices = all
	}
	return out
}

// outsideCluster reports whether a rule applies to nothing but machines and hosts.
func outsideCluster(p *policy.Policy, r *policy.Rule) bool {
	to := p.AppliedTo
	if len(r.AppliedTo) > 0 {
		to = r.AppliedTo
	}
	return len(to) > 0 && !slices.ContainsFunc(to, func(a policy.AppliedTo) bool { return a.ExternalEntitySelector == nil || a.PodSelector != nil })
}

func isOfSet(s policy.ServicePeer) bool { return s.Scope == ScopeClusterSet && s.RemoteGroup == "" }

// eachService calls f for every Service of the set that a policy names, with its path.
func eachService(p *policy.Policy, f func(path string, u use, s *policy.ServicePeer)) {
	for i := range p.Egress {
		for j := range p.Egress[i].ToServices {
			if s := &p.Egress[i].ToServices[j]; isOfSet(*s) {
				f(fmt.Sprintf("spec.egress[%d].toServices[%d]", i, j), use{own: !p.Set, egress: true}.by(p.Egress[i].Action), s)
			}
		}
	}
}
