// Package plain translates what comes from a hub for a plain Antrea Controller, which knows no set:
// a peer of several clusters becomes a peer of this one, and ExternalEntities hold its workloads in
// the others.
//
// It owns the names and members of these ExternalEntities, and the order in which they are written.
// It promises that a translated policy means the same: TestPlainIsNative compares the two in random
// worlds.
//
// Everything here is pure. An Entities is not safe for concurrent use.
package plain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// namespaceName is the label that every Namespace has of its name.
const namespaceName = "kubernetes.io/metadata.name"

// GroupPrefix begins the names of the ClusterGroups that Policy returns: no copy of an object of
// the hub is called so.
const GroupPrefix = Namespace + "-"

// writer writes one policy anew.
type writer struct {
	// given are the labels that this cluster has in the set.
	given map[string]string
	// wide says that it is a ClusterNetworkPolicy, whose rules select no ExternalEntities but by
	// groups.
	wide   bool
	groups map[string]*v1beta1.ClusterGroup
}

// Policy writes a copy of a policy of the hub, and the groups of the hub that it names, so that
// they mean the same where nobody knows a set. given are the labels that Namespaces and Nodes of
// this cluster have there. It returns the ClusterGroups that the policy names then, sorted by name.
// It fails for what has no such form; the objects are not to be used then.
func Policy(object metav1.Object, needs []metav1.Object, given map[string]string) ([]*v1beta1.ClusterGroup, error) {
	w := &writer{given: given, groups: map[string]*v1beta1.ClusterGroup{}}
	for _, o := range needs {
		switch o := o.(type) {
		case *v1beta1.ClusterGroup:
			w.group(&o.Spec)
		case *v1beta1.Group:
			w.group(&o.Spec)
		}
	}
	var err error
	switch o := object.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		w.wide = true
		p := convert.ClusterNetworkPolicy(o)
		err = w.spec(&o.Spec, &p)
	case *v1beta1.NetworkPolicy:
		p := convert.NetworkPolicy(o)
		err = w.spec(&o.Spec, &p)
	case *networkingv1.NetworkPolicy:
		for i := range o.Spec.Ingress {
			w.kubernetes(o.Spec.Ingress[i].From)
		}
		for i := range o.Spec.Egress {
			w.kubernetes(o.Spec.Egress[i].To)
		}
	}
	if err != nil {
		return nil, err
	}
	var out []*v1beta1.ClusterGroup
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		out = append(out, w.groups[name])
	}
	return out, nil
}

func (w *writer) spec(s *v1beta1.NetworkPolicySpec, p *policy.Policy) error {
	if wrong := peers.CheckPeers(p); len(wrong) > 0 {
		return fmt.Errorf("%s: %s", wrong[0].Field, wrong[0].Want)
	}
	// The remote groups of a rule come after its peers.
	localized := peers.Localize(*p)
	w.appliedTo(s.AppliedTo)
	for _, d := range []struct {
		rules       []v1beta1.Rule
		of, remotes []policy.Rule
		peers       func(r *v1beta1.Rule) *[]v1beta1.NetworkPolicyPeer
	}{
		{s.Ingress, p.Ingress, localized.Ingress, func(r *v1beta1.Rule) *[]v1beta1.NetworkPolicyPeer { return &r.From }},
		{s.Egress, p.Egress, localized.Egress, func(r *v1beta1.Rule) *[]v1beta1.NetworkPolicyPeer { return &r.To }},
	} {
		for i := range d.rules {
			r := &d.rules[i]
			w.appliedTo(r.AppliedTo)
			if slices.ContainsFunc(r.ToServices, func(s v1beta1.PeerService) bool { return s.Scope == v1beta1.ScopeClusterSet }) {
				return errors.New("a rule names Services of other clusters, which this cluster's Antrea Controller cannot be told of")
			}
			list := d.peers(r)
			for j := range *list {
				if err := w.peer(&(*list)[j]); err != nil {
					return err
				}
			}
			for _, remote := range d.remotes[i].Peers[len(d.of[i].Peers):] {
				*list = append(*list, w.remote(remote.RemoteGroup))
			}
		}
	}
	return nil
}

// peer makes a peer what it says in this cluster.
func (w *writer) peer(p *v1beta1.NetworkPolicyPeer) error {
	p.Scope = ""
	p.NamespaceSelector, p.NodeSelector = w.resolve(p.NamespaceSelector), w.resolve(p.NodeSelector)
	if p.Namespaces != nil && slices.ContainsFunc(p.Namespaces.SameLabels, peers.Reserved) {
		return errors.New("sameLabels names a label of the set, which Namespaces do not have for this cluster's Antrea Controller")
	}
	if p.ExternalEntitySelector == nil {
		return nil
	}
	p.ExternalEntitySelector = local(p.ExternalEntitySelector)
	if w.wide {
		*p = v1beta1.NetworkPolicyPeer{Group: w.named("", p.ExternalEntitySelector, p.NamespaceSelector)}
	}
	return nil
}

func (w *writer) appliedTo(list []v1beta1.AppliedTo) {
	for i := range list {
		a := &list[i]
		a.NamespaceSelector, a.NodeSelector = w.resolve(a.NamespaceSelector), w.resolve(a.NodeSelector)
		if a.ExternalEntitySelector == nil {
			continue
		}
		a.ExternalEntitySelector = local(a.ExternalEntitySelector)
		if w.wide {
			*a = v1beta1.AppliedTo{Group: w.named("", a.ExternalEntitySelector, a.NamespaceSelector)}
		}
	}
}

func (w *writer) group(s *v1beta1.GroupSpec) {
	s.NamespaceSelector, s.NodeSelector = w.resolve(s.NamespaceSelector), w.resolve(s.NodeSelector)
	if s.ExternalEntitySelector != nil {
		s.ExternalEntitySelector = local(s.ExternalEntitySelector)
	}
}

func (w *writer) kubernetes(list []networkingv1.NetworkPolicyPeer) {
	for i := range list {
		list[i].NamespaceSelector = w.resolve(list[i].NamespaceSelector)
	}
}

// remote is the peer that selects the members of a remote group.
func (w *writer) remote(group string) v1beta1.NetworkPolicyPeer {
	in := &metav1.LabelSelector{MatchLabels: map[string]string{LabelOf(group): "", setv1alpha1.LabelFromHub: "true"}}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{namespaceName: Namespace}}
	if w.wide {
		return v1beta1.NetworkPolicyPeer{Group: w.named(group, in, here)}
	}
	return v1beta1.NetworkPolicyPeer{ExternalEntitySelector: in, NamespaceSelector: here}
}

// named makes a ClusterGroup of ExternalEntities, and returns its name: that of the remote group
// or, if it is of none, one that its content says.
func (w *writer) named(group string, entities, namespaces *metav1.LabelSelector) string {
	g := &v1beta1.ClusterGroup{Spec: v1beta1.GroupSpec{ExternalEntitySelector: entities, NamespaceSelector: namespaces}}
	if g.Name = GroupPrefix + group; group == "" {
		raw, err := json.Marshal(g.Spec)
		if err != nil {
			panic("selectors are texts: " + err.Error())
		}
		sum := sha256.Sum256(raw)
		g.Name = GroupPrefix + "x" + hex.EncodeToString(sum[:10])
	}
	g.Labels = map[string]string{setv1alpha1.LabelFromHub: "true"}
	g.Annotations = map[string]string{setv1alpha1.AnnotationSource: g.Name, setv1alpha1.AnnotationSourceGeneration: "1"}
	w.groups[g.Name] = g
	return g.Name
}

// local is a selector of ExternalEntities that means none of other clusters.
func local(s *metav1.LabelSelector) *metav1.LabelSelector {
	out := s.DeepCopy()
	out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: setv1alpha1.LabelFromHub, Operator: metav1.LabelSelectorOpDoesNotExist})
	return out
}

// resolve is a selector of Namespaces or Nodes of this cluster without what it says of labels that
// the hub gives all of them: they either have these or not.
func (w *writer) resolve(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	out, given := &metav1.LabelSelector{}, &metav1.LabelSelector{}
	for k, v := range s.MatchLabels {
		into := out
		if peers.Reserved(k) {
			into = given
		}
		metav1.AddLabelToSelector(into, k, v)
	}
	for _, r := range s.MatchExpressions {
		into := out
		if peers.Reserved(r.Key) {
			into = given
		}
		into.MatchExpressions = append(into.MatchExpressions, *r.DeepCopy())
	}
	if is, err := metav1.LabelSelectorAsSelector(given); err != nil || !is.Matches(labels.Set(w.given)) {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: namespaceName, Operator: metav1.LabelSelectorOpExists}, {Key: namespaceName, Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	}
	return out
}
