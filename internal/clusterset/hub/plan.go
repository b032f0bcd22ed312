package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// mostObject is how long a policy may be that is sent to members, with all that it names.
const mostObject = 256 << 10

// inputs are what policies for members are made from, as the API has it.
type inputs struct {
	clusters []setv1alpha1.Cluster
	policies []v1beta1.ClusterNetworkPolicy
	annps    []v1beta1.NetworkPolicy
	knps     []networkingv1.NetworkPolicy
	tiers    []v1beta1.Tier
	cgroups  []v1beta1.ClusterGroup
	groups   []v1beta1.Group

	// hides says as what the Pods of one cluster are seen in another, nil for by their own
	// addresses, as far as somebody has asked.
	hides map[pair]*setv1alpha1.SeenAs
}

// pair is a cluster, and one in which its Pods are seen.
type pair struct{ source, viewer string }

// hidden says as what the Pods of one cluster are seen in another; nil for by their own addresses.
func (in *inputs) hidden(source, viewer *setv1alpha1.Cluster) *setv1alpha1.SeenAs {
	at := pair{source.Name, viewer.Name}
	as, known := in.hides[at]
	if !known {
		as, _ = peers.Hidden(source, viewer)
		if in.hides == nil {
			in.hides = map[pair]*setv1alpha1.SeenAs{}
		}
		in.hides[at] = as
	}
	return as
}

// target is a policy and the clusters that it is for.
type target struct {
	uid        string
	kind       policy.PolicyKind
	namespace  string
	name       string
	generation int64
	clusters   []string
	// rules are the names of its rules.
	rules []string
	// observed are the generations of it that clusters have told, by its own status: these may have
	// it.
	observed map[string]int64
	// refused says why it is sent to none of them.
	refused string
	// hidden says for which clusters it is refused because a rule allows Pods that are not seen by
	// their own addresses there; blind where another rule does not meet such Pods.
	hidden, blind map[string]string
	// missing says which clusters a peer names that there are not.
	missing string
}

// outline is what members are to have.
type outline struct {
	// policies holds the policies of each member, by uid.
	policies map[string]map[string]*wire.Policy
	groups   map[string]peers.Group
	targets  []target
	// hides says that some policy is hidden somewhere.
	hides bool
}

// spread is a policy of any kind that is for several clusters.
type spread struct {
	object client.Object
	kind   string
	policy policy.Policy
}

// draw makes the outline. A policy that has not changed is the same value as in the former one.
func draw(in *inputs, former map[string]*wire.Policy) *outline {
	out := &outline{policies: map[string]map[string]*wire.Policy{}, groups: map[string]peers.Group{}}
	for i := range in.clusters {
		out.policies[in.clusters[i].Name] = map[string]*wire.Policy{}
	}
	for _, s := range in.spread() {
		text, _ := convert.Spread(s.object)
		selector, err := peers.ParseClusters(text)
		if err != nil || len(peers.Check(text, &s.policy)) > 0 || !s.object.GetDeletionTimestamp().IsZero() {
			continue // its status says so
		}
		t := target{
			uid: string(s.object.GetUID()), kind: s.policy.Kind, namespace: s.object.GetNamespace(), name: s.object.GetName(),
			generation: s.object.GetGeneration(), observed: observed(s.object), hidden: map[string]string{}, blind: map[string]string{},
		}
		for _, r := range slices.Concat(s.policy.Ingress, s.policy.Egress) {
			if r.Name != "" {
				t.rules = append(t.rules, r.Name)
			}
		}
		for i := range in.clusters {
			if c := &in.clusters[i]; c.DeletionTimestamp.IsZero() && selector.Matches(peers.LabelsOf(c)) {
				t.clusters = append(t.clusters, c.Name)
				in.look(&t, &s.policy, c)
			}
		}
		sent, err := in.message(&s)
		if err != nil {
			t.refused = err.Error()
		} else {
			if was := former[t.uid]; was != nil && equal(was, sent) {
				sent = was
			}
			for _, name := range t.clusters {
				out.policies[name][t.uid] = sent
			}
			if len(t.clusters) > 0 {
				for _, g := range peers.Groups(&s.policy) {
					out.groups[g.ID] = g
					if missing := peers.Missing(&g.Peer, in.there); missing != nil && t.missing == "" {
						t.missing = peers.MissingWords(missing)
					}
				}
			}
		}
		out.hides = out.hides || len(t.hidden) > 0
		out.targets = append(out.targets, t)
	}
	return out
}

// there reports whether there is a Cluster of a name.
func (in *inputs) there(name string) bool {
	return slices.ContainsFunc(in.clusters, func(c setv1alpha1.Cluster) bool { return c.Name == name && c.DeletionTimestamp.IsZero() })
}

// look notes whose Pods a policy means in a cluster that are not seen there as what they are.
func (in *inputs) look(t *target, p *policy.Policy, viewer *setv1alpha1.Cluster) {
	for i := range in.clusters {
		source := &in.clusters[i]
		if source.Name == viewer.Name || len(source.Spec.SeenAs) == 0 || !source.DeletionTimestamp.IsZero() {
			continue
		}
		allows, other := peers.Admits(p, source)
		if !allows && !other {
			continue
		}
		as := in.hidden(source, viewer)
		if as == nil {
			continue
		}
		words := peers.HiddenWords(source.Name, viewer.Name, as)
		if allows && t.hidden[viewer.Name] == "" {
			t.hidden[viewer.Name] = "a rule allows Pods that cannot be told from others: " + words + "; choose the clusters with namespaceSelector, or name these addresses as ipBlock"
		}
		if other && t.blind[viewer.Name] == "" {
			t.blind[viewer.Name] = "a rule does not meet Pods that it means: " + words
		}
	}
}

func observed(o client.Object) map[string]int64 {
	var in []v1beta1.ClusterRealization
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		in = o.Status.Clusters
	case *v1beta1.NetworkPolicy:
		in = o.Status.Clusters
	}
	out := map[string]int64{}
	for _, r := range in {
		if r.ObservedGeneration > 0 {
			out[r.Name] = r.ObservedGeneration
		}
	}
	return out
}

func equal(a, b *wire.Policy) bool {
	return a.Generation == b.Generation && a.Kind == b.Kind && bytes.Equal(a.Object, b.Object) && slices.Equal(a.Groups, b.Groups) &&
		slices.EqualFunc(a.Needs, b.Needs, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

func (in *inputs) spread() []spread {
	var out []spread
	for i := range in.policies {
		if p := &in.policies[i]; isSpread(p) {
			out = append(out, spread{p, "ClusterNetworkPolicy.crd.antrea.io", convert.ClusterNetworkPolicy(p)})
		}
	}
	for i := range in.annps {
		if p := &in.annps[i]; isSpread(p) {
			out = append(out, spread{p, "NetworkPolicy.crd.antrea.io", convert.NetworkPolicy(p)})
		}
	}
	for i := range in.knps {
		if p := &in.knps[i]; isSpread(p) {
			out = append(out, spread{p, "NetworkPolicy.networking.k8s.io", convert.KubernetesNetworkPolicy(p)})
		}
	}
	slices.SortFunc(out, func(a, b spread) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.object.GetNamespace(), b.object.GetNamespace()), strings.Compare(a.object.GetName(), b.object.GetName()))
	})
	return out
}

// isSpread reports whether a policy is for several clusters. What came from another hub is not
// passed on.
func isSpread(o client.Object) bool {
	_, is := convert.Spread(o)
	return is && !convert.FromHub(o) && !convert.Staged(o)
}

// message is a policy as it is sent, with what it names.
func (in *inputs) message(s *spread) (*wire.Policy, error) {
	out := &wire.Policy{UID: string(s.object.GetUID()), Generation: s.object.GetGeneration(), Kind: s.kind}
	for _, g := range peers.Groups(&s.policy) {
		out.Groups = append(out.Groups, g.ID)
	}
	if len(peers.Services(&s.policy)) > 0 {
		out.Kind += wire.KindServices
	}
	var err error
	if out.Object, err = json.Marshal(plain(s.object)); err != nil {
		return nil, fmt.Errorf("write the policy: %w", err)
	}
	needs := in.needs(s)
	length := len(out.Object)
	for _, o := range needs {
		raw, err := json.Marshal(plain(o))
		if err != nil {
			return nil, fmt.Errorf("write what the policy names: %w", err)
		}
		out.Needs = append(out.Needs, raw)
		length += len(raw)
	}
	if length > mostObject {
		return nil, fmt.Errorf("the policy and what it names are %d bytes, want at most %d", length, mostObject)
	}
	return out, nil
}

// plain is an object as its author has written it: without status, and with no more metadata than
// its names, labels and annotations.
func plain(o client.Object) client.Object {
	out := o.DeepCopyObject().(client.Object)
	meta := metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Annotations: maps.Clone(o.GetAnnotations()), UID: o.GetUID(), Generation: o.GetGeneration(),
	}
	delete(meta.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	delete(meta.Annotations, setv1alpha1.AnnotationClusters)
	switch out := out.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		out.ObjectMeta, out.Status = meta, v1beta1.NetworkPolicyStatus{}
		out.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("ClusterNetworkPolicy"))
	case *v1beta1.NetworkPolicy:
		out.ObjectMeta, out.Status = meta, v1beta1.NetworkPolicyStatus{}
		out.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("NetworkPolicy"))
	case *networkingv1.NetworkPolicy:
		out.ObjectMeta = meta
		out.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"))
	case *v1beta1.Tier:
		out.ObjectMeta = meta
		out.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("Tier"))
	case *v1beta1.ClusterGroup:
		out.ObjectMeta, out.Status = meta, v1beta1.GroupStatus{}
		out.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("ClusterGroup"))
	case *v1beta1.Group:
		out.ObjectMeta, out.Status = meta, v1beta1.GroupStatus{}
		out.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("Group"))
	}
	return out
}

// needs are the tier that a policy is in, unless it is one that every cluster has, and the groups
// that it names, those that others name first.
func (in *inputs) needs(s *spread) []client.Object {
	var out []client.Object
	system := slices.ContainsFunc(policy.SystemTiers(), func(t policy.Tier) bool { return t.Name == s.policy.Tier })
	for i := range in.tiers {
		if t := &in.tiers[i]; t.Name == s.policy.Tier && !system {
			out = append(out, t)
		}
	}
	var named []string
	note := func(name string) {
		if name != "" && !slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	for _, a := range s.policy.AppliedTo {
		note(a.Group)
	}
	for _, rules := range [][]policy.Rule{s.policy.Ingress, s.policy.Egress} {
		for i := range rules {
			for _, a := range rules[i].AppliedTo {
				note(a.Group)
			}
			for _, p := range rules[i].Peers {
				note(p.Group)
			}
		}
	}
	for len(named) > 0 {
		name := named[0]
		named = named[1:]
		object, children := in.group(s.policy.Namespace, name)
		if object == nil || slices.ContainsFunc(out, func(o client.Object) bool { return o == object }) {
			continue
		}
		out = append(out, object)
		named = append(named, children...)
	}
	return out
}

// group finds a group by the name that a policy in a Namespace, or in none, has for it.
func (in *inputs) group(namespace, name string) (client.Object, []string) {
	if namespace == "" {
		for i := range in.cgroups {
			if g := &in.cgroups[i]; g.Name == name {
				return g, g.Spec.ChildGroups
			}
		}
		return nil, nil
	}
	for i := range in.groups {
		if g := &in.groups[i]; g.Namespace == namespace && g.Name == name {
			return g, g.Spec.ChildGroups
		}
	}
	return nil, nil
}
