package peers

import (
	"errors"
	"maps"
	"slices"
	"strings"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

// VisibleLabel is what the hub gives Namespaces and Nodes that the own policies of other members
// may name. No member can.
const VisibleLabel = "internal.antrea.io/visible"

// Interests are the remote groups that a member's own policy names, as the member asks for them.
// They are the same groups as in Groups.
func Interests(p *policy.Policy) []wire.Interest {
	var out []wire.Interest
	each(p, func(_ string, u use, peer *policy.Peer) {
		if !u.own || peer.Scope != ScopeClusterSet || check(peer) != nil {
			return
		}
		id := groupOf(p.Namespace, u, peer).ID
		if slices.ContainsFunc(out, func(o wire.Interest) bool { return o.Group == id }) {
			return
		}
		i := wire.Interest{
			Group: id, Namespace: p.Namespace, Egress: u.egress, Allows: u.allows,
			Pods: told(peer.PodSelector), Machines: told(peer.ExternalEntitySelector), Nodes: told(peer.NodeSelector), Namespaces: told(peer.NamespaceSelector),
		}
		if a := peer.ServiceAccount; a != nil {
			i.Account = a.Namespace + "/" + a.Name
		}
		out = append(out, i)
	})
	eachService(p, func(_ string, u use, s *policy.ServicePeer) {
		g := serviceGroup(p.Namespace, u, s)
		if u.own && !slices.ContainsFunc(out, func(o wire.Interest) bool { return o.Group == g.ID }) {
			out = append(out, wire.Interest{Group: g.ID, Egress: true, Allows: u.allows, Service: g.Service.Namespace + "/" + g.Service.Name})
		}
	})
	return out
}

// Paths says where an own policy names each remote group first, by id.
func Paths(p *policy.Policy) map[string]string {
	out := map[string]string{}
	each(p, func(path string, u use, peer *policy.Peer) {
		if !u.own || peer.Scope != ScopeClusterSet || check(peer) != nil {
			return
		}
		if id := groupOf(p.Namespace, u, peer).ID; out[id] == "" {
			out[id] = path
		}
	})
	eachService(p, func(path string, u use, s *policy.ServicePeer) {
		if id := serviceGroup(p.Namespace, u, s).ID; u.own && out[id] == "" {
			out[id] = path
		}
	})
	return out
}

// ErrNewer is the error of an interest of which a part is not known here.
var ErrNewer = errors.New("the hub does not understand all of this peer: upgrade it")

// OfInterest returns the group that a member asks for. It means no workload that its cluster does
// not let others see. With ErrNewer it is the group as far as it is understood.
func OfInterest(i *wire.Interest) (Group, error) {
	if err := i.Check(); err != nil {
		return Group{}, err
	}
	if namespace, name, is := strings.Cut(i.Service, "/"); is {
		g := serviceGroup("", use{own: true, egress: i.Egress, allows: i.Allows}, &policy.ServicePeer{Namespace: namespace, Name: name})
		if g.ID != i.Group || i.Pods != nil || i.Machines != nil || i.Nodes != nil || i.Namespaces != nil || i.Account != "" {
			return g, ErrNewer
		}
		return g, nil
	}
	p := policy.Peer{PodSelector: heard(i.Pods), ExternalEntitySelector: heard(i.Machines), NodeSelector: heard(i.Nodes), NamespaceSelector: heard(i.Namespaces)}
	if namespace, name, is := strings.Cut(i.Account, "/"); is {
		p.ServiceAccount = &policy.NamespacedName{Namespace: namespace, Name: name}
	}
	if err := check(&p); err != nil {
		return Group{}, err
	}
	g := groupOf(i.Namespace, use{own: true, egress: i.Egress, allows: i.Allows}, &p)
	if g.Peer.NodeSelector != nil {
		g.Peer.NodeSelector = visible(g.Peer.NodeSelector)
	} else {
		g.Peer.NamespaceSelector = visible(g.Peer.NamespaceSelector)
	}
	if g.ID != i.Group {
		return g, ErrNewer
	}
	return g, nil
}

// visible is a selector that in addition requires the VisibleLabel.
func visible(s *policy.Selector) *policy.Selector {
	out := &policy.Selector{}
	if s != nil {
		out.MatchLabels, out.MatchExpressions = s.MatchLabels, slices.Clone(s.MatchExpressions)
	}
	out.MatchExpressions = append(out.MatchExpressions, policy.Requirement{Key: VisibleLabel, Operator: "Exists"})
	return out
}

func told(s *policy.Selector) *wire.Selector {
	if s == nil {
		return nil
	}
	out := &wire.Selector{Labels: s.MatchLabels}
	for _, r := range s.MatchExpressions {
		out.Expressions = append(out.Expressions, wire.Expression{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return out
}

func heard(s *wire.Selector) *policy.Selector {
	if s == nil {
		return nil
	}
	out := &policy.Selector{}
	if len(s.Labels) > 0 {
		out.MatchLabels = maps.Clone(s.Labels)
	}
	for _, x := range s.Expressions {
		out.MatchExpressions = append(out.MatchExpressions, policy.Requirement{Key: x.Key, Operator: x.Operator, Values: slices.Clone(x.Values)})
	}
	return out
}

// MayMeanPods reports whether a group of an own policy may mean Pods of a cluster that are not seen
// by their own addresses where the group is enforced: whether it is one of ingress, and of Pods of
// that cluster.
func MayMeanPods(g *Group, of *setv1alpha1.Cluster) bool {
	ingress := is(g.ID, func(u use) bool { return u.own && !u.egress })
	given := Given(of.Name, of.Labels)
	given[VisibleLabel] = ""
	return ingress && mayMeanPods(&g.Peer, given)
}

// Missing returns the names of clusters of which a peer requires one, if there is none of them.
func Missing(p *policy.Peer, there func(cluster string) bool) []string {
	s := p.NodeSelector
	if s == nil {
		s = p.NamespaceSelector
	}
	if s == nil {
		return nil
	}
	required := [][]string{}
	if name, is := s.MatchLabels[setv1alpha1.LabelClusterName]; is {
		required = append(required, []string{name})
	}
	for _, r := range s.MatchExpressions {
		if r.Key == setv1alpha1.LabelClusterName && r.Operator == "In" {
			required = append(required, r.Values)
		}
	}
	for _, names := range required {
		if !slices.ContainsFunc(names, there) {
			return names
		}
	}
	return nil
}

// MissingWords says that there is none of these clusters.
func MissingWords(names []string) string {
	list := strings.Join(names[:min(len(names), 5)], ", ")
	if len(names) > 5 {
		list += ", ..."
	}
	return "a peer names the cluster " + list + ", and the set has no such Cluster: it means nobody"
}
