// Package peers decides what a policy of the set means: for which clusters it is, and which
// workloads of other clusters its peers name.
//
// A peer with the scope ClusterSet has two parts: the workloads of this cluster, and a remote group
// of the workloads of all others. Hub and member give a remote group the same id, made from the
// peer, the Namespace of its policy, and whether its rule allows, because members of groups in such
// rules may expire. A member needs only the id. A hub also needs the peer as a selector over all
// clusters, where a Namespace has three kinds of labels: its own, the labels of its cluster, and
// the cluster's name.
//
// The policies that a member writes itself have groups with other ids, because these groups hold
// only the workloads that the other clusters make visible. See Interest.
//
// Everything here is pure, and may be called from anywhere.
package peers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// ScopeClusterSet is the scope of a peer that is not of this cluster alone.
const ScopeClusterSet = "ClusterSet"

const (
	// namespaceName is the label that every Namespace has of its name.
	namespaceName = "kubernetes.io/metadata.name"
	// accountLabel is how the engine keeps the ServiceAccount of a Pod.
	accountLabel = "internal.antrea.io/service-account"
	// mostSelector is the length of the longest selector over clusters.
	mostSelector = 4 << 10
)

// Reserved reports whether a label is not for a member to say.
func Reserved(key string) bool {
	for _, prefix := range []string{setv1alpha1.ClusterLabelPrefix, "clusterset.k8s.io/", "internal.antrea.io/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// unshared are the labels that each Pod or each roll-out has for itself. To tell others of them
// would make every Pod one of its own kind.
var unshared = []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	"controller-uid", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-completion-index", "job-name"}

// Unshared reports whether a label of a workload is not told to the hub.
func Unshared(key string) bool { return slices.Contains(unshared, key) }

// ParseClusters reads a selector over the labels of Clusters, as AnnotationClusters has it.
func ParseClusters(text string) (labels.Selector, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("an empty selector; want {} for all clusters")
	case len(text) > mostSelector:
		return nil, fmt.Errorf("a selector of %d bytes, want at most %d", len(text), mostSelector)
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		var s metav1.LabelSelector
		strict, err := kjson.UnmarshalStrict([]byte(text), &s)
		if err == nil {
			err = errors.Join(strict...)
		}
		if err != nil {
			return nil, err
		}
		return metav1.LabelSelectorAsSelector(&s)
	}
	return labels.Parse(text)
}

// LabelsOf are the labels by which a Cluster is selected: its own, and its name.
func LabelsOf(c *setv1alpha1.Cluster) labels.Set {
	out := maps.Clone(c.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[setv1alpha1.LabelClusterName] = c.Name
	return out
}

// Given are the labels that the hub gives the Namespaces and Nodes of a cluster: its name, and for
// each label of its Cluster that has no prefix the same with ours.
func Given(cluster string, own map[string]string) map[string]string {
	out := map[string]string{setv1alpha1.LabelClusterName: cluster}
	for k, v := range own {
		if !strings.Contains(k, "/") {
			out[setv1alpha1.ClusterLabelPrefix+k] = v
		}
	}
	return out
}

// Group is a remote group: its id, and what it selects over all clusters.
type Group struct {
	ID   string
	Peer policy.Peer
	// Service is the Service that it is of, if it is of one.
	Service policy.NamespacedName
}

// Groups are the remote groups that the peers of a policy name, each once. What cannot be one is
// left out: see Check.
func Groups(p *policy.Policy) []Group {
	var out []Group
	each(p, func(_ string, use use, peer *policy.Peer) {
		if peer.Scope != ScopeClusterSet || check(peer) != nil {
			return
		}
		out = with(out, groupOf(p.Namespace, use, peer))
	})
	eachService(p, func(_ string, use use, s *policy.ServicePeer) { out = with(out, serviceGroup(p.Namespace, use, s)) })
	return out
}

func with(all []Group, g Group) []Group {
	if slices.ContainsFunc(all, func(o Group) bool { return o.ID == g.ID }) {
		return all
	}
	return append(all, g)
}

// Localize returns a policy as a member computes it: to each peer with the scope ClusterSet comes
// its remote group. A Service with that scope is its remote group; in a member's own policy it is
// besides the Service that Antrea Multi-cluster may have imported. A policy without such peers is
// returned as it is.
func Localize(p policy.Policy) policy.Policy {
	p.Ingress, p.Egress = localized(&p, use{}, p.Ingress), localized(&p, use{egress: true}, p.Egress)
	p.Egress = servicesLocalized(&p)
	return p
}

func localized(p *policy.Policy, of use, rules []policy.Rule) []policy.Rule {
	of.own = !p.Set
	out := rules
	for i := range rules {
		var remote []policy.Peer
		for j := range rules[i].Peers {
			if peer := &rules[i].Peers[j]; peer.Scope == ScopeClusterSet && check(peer) == nil {
				remote = append(remote, policy.Peer{RemoteGroup: groupOf(p.Namespace, of.by(rules[i].Action), peer).ID})
			}
		}
		if len(remote) == 0 {
			continue
		}
		if &out[0] == &rules[0] {
			out = slices.Clone(rules)
		}
		out[i].Peers = slices.Concat(rules[i].Peers, remote)
	}
	return out
}

// Check says what of a policy for several clusters is not done. selector is that over the clusters.
func Check(selector string, p *policy.Policy) []policy.FieldError {
	out := CheckPeers(p)
	if _, err := ParseClusters(selector); err != nil {
		out = append(out, policy.FieldError{Field: "metadata.annotations[" + setv1alpha1.AnnotationClusters + "]", Value: shown(selector),
			Want: "a selector over the labels of Clusters, such as env=prod, or {} for all: " + shown(err.Error())})
	}
	return out
}

// CheckPeers says which peers with the scope ClusterSet cannot be of other clusters.
func CheckPeers(p *policy.Policy) []policy.FieldError {
	var out []policy.FieldError
	each(p, func(path string, _ use, peer *policy.Peer) {
		if peer.Scope != ScopeClusterSet {
			return
		}
		if err := check(peer); err != nil {
			out = append(out, policy.FieldError{Field: path + ".scope", Value: peer.Scope, Want: "no such scope here: " + err.Error()})
		}
	})
	return out
}

// check fails for peers that cannot be of other clusters.
func check(p *policy.Peer) error {
	for _, part := range []struct {
		set  bool
		what string
	}{
		{p.IPBlock != nil, "ipBlock names addresses of any owner"},
		{p.FQDN != "" || len(p.DomainNames) > 0, "each enforcer looks up a name by itself"},
		{len(p.Networks) > 0, "networks are addresses of any owner"},
		{p.Group != "", "a group is one of its own cluster; write its selectors into the peer"},
		{p.Namespaces != nil, "namespaces relates Namespaces of one cluster; select them by namespaceSelector"},
	} {
		if part.set {
			return errors.New(part.what)
		}
	}
	for _, s := range []*policy.Selector{p.PodSelector, p.ExternalEntitySelector} {
		if s == nil {
			continue
		}
		for _, key := range keysOf(s) {
			if Unshared(key) {
				return fmt.Errorf("clusters do not tell each other the label %s", key)
			}
			if Reserved(key) {
				return fmt.Errorf("the label %s is one of Namespaces and Nodes: select it by namespaceSelector or nodeSelector", key)
			}
		}
	}
	return nil
}

func keysOf(s *policy.Selector) []string {
	out := slices.Collect(maps.Keys(s.MatchLabels))
	for _, r := range s.MatchExpressions {
		out = append(out, r.Key)
	}
	return out
}

// use is where a peer stands: in a policy of the hub or in one of a member's own, in which
// direction, and in a rule that allows or in another.
type use struct{ own, egress, allows bool }

// by is the same use in a rule with an action.
func (u use) by(action policy.Action) use {
	u.allows = action == policy.Allow
	return u
}

// prefixes begin the ids of groups. Where policies are the hub's, the direction does not matter: a
// policy of which a member would see hidden Pods is not sent there at all.
var prefixes = map[use]string{
	{allows: true}: "ga", {allows: true, egress: true}: "ga", {}: "gd", {egress: true}: "gd",
	{own: true, allows: true}: "gb", {own: true, allows: true, egress: true}: "gc", {own: true}: "ge", {own: true, egress: true}: "gf",
}

// is finds in which uses a group with an id is.
func is(id string, want func(use) bool) bool {
	for u, prefix := range prefixes {
		if want(u) && strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return false
}

// Allows reports whether a group is one of rules that allow.
func Allows(id string) bool { return is(id, func(u use) bool { return u.allows }) }

// Own reports whether a group is one of a member's own policies.
func Own(id string) bool { return is(id, func(u use) bool { return u.own }) }

// groupOf returns the remote group of a peer of a policy in a Namespace, or in none.
func groupOf(namespace string, u use, peer *policy.Peer) Group {
	p := policy.Peer{NodeSelector: peer.NodeSelector}
	switch {
	case peer.NodeSelector != nil:
	case peer.ServiceAccount != nil:
		p.PodSelector = named(accountLabel, peer.ServiceAccount.Name)
		p.NamespaceSelector = named(namespaceName, peer.ServiceAccount.Namespace)
	default:
		p.PodSelector, p.ExternalEntitySelector, p.NamespaceSelector = peer.PodSelector, peer.ExternalEntitySelector, peer.NamespaceSelector
		if p.NamespaceSelector == nil && namespace != "" {
			p.NamespaceSelector = named(namespaceName, namespace) // the same name is the same tenant
		}
	}
	p.PodSelector, p.NamespaceSelector = sorted(p.PodSelector), sorted(p.NamespaceSelector)
	p.ExternalEntitySelector, p.NodeSelector = sorted(p.ExternalEntitySelector), sorted(p.NodeSelector)
	return Group{ID: idOf(u, []*policy.Selector{p.PodSelector, p.NamespaceSelector, p.ExternalEntitySelector, p.NodeSelector}), Peer: p}
}

// idOf is the id of a group in a use, made from what it means.
func idOf(u use, meaning any) string {
	text, err := json.Marshal(meaning)
	if err != nil {
		panic("selectors are texts: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return prefixes[u] + hex.EncodeToString(sum[:16])
}

// named selects one value of a label.
func named(key, value string) *policy.Selector {
	return &policy.Selector{MatchLabels: map[string]string{key: value}}
}

// sorted is a selector whose expressions do not depend on how they were ordered.
func sorted(s *policy.Selector) *policy.Selector {
	if s == nil {
		return nil
	}
	out := &policy.Selector{MatchLabels: s.MatchLabels}
	if len(s.MatchLabels) == 0 { // over the wire, none and an empty list are the same
		out.MatchLabels = nil
	}
	for _, r := range s.MatchExpressions {
		r.Values = slices.Sorted(slices.Values(r.Values))
		out.MatchExpressions = append(out.MatchExpressions, r)
	}
	slices.SortFunc(out.MatchExpressions, func(a, b policy.Requirement) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
	})
	return out
}

// each calls f for every peer with its path, and where it stands.
func each(p *policy.Policy, f func(path string, u use, peer *policy.Peer)) {
	for _, d := range []struct {
		path, side string
		rules      []policy.Rule
		use        use
	}{{"spec.ingress", "from", p.Ingress, use{own: !p.Set}}, {"spec.egress", "to", p.Egress, use{own: !p.Set, egress: true}}} {
		for i := range d.rules {
			for j := range d.rules[i].Peers {
				f(fmt.Sprintf("%s[%d].%s[%d]", d.path, i, d.side, j), d.use.by(d.rules[i].Action), &d.rules[i].Peers[j])
			}
		}
	}
}

func shown(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
