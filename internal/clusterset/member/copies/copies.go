// Package copies says what the policies of a hub are in a member, and remembers what has become of
// them. It is pure: no I/O, no clock, no goroutines.
//
// It owns the form of a copy: its name, the marks that say that it is the hub's, and the copies of
// the groups and tiers that it names. And it owns the Ledger: what the hub wants, what was written
// of that, and what of it the hub does not know yet. It promises:
//
//   - A policy is copied as it is or refused with a reason. A part that is not known refuses it.
//   - Two sources never get the same name, and a copy never the name of an object of the member.
//   - The hub is told of every change of what has become of a policy, and of nothing else.
//
// Functions may be called from anywhere. A Ledger is not safe for concurrent use.
package copies

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
)

// Reasons why a policy of the hub is not in this cluster.
const (
	NotAccepted = setv1alpha1.ReasonNotAccepted
	NeedsNewer  = setv1alpha1.ReasonVersion
	NoNamespace = "NoNamespace"
	NameTaken   = "NameTaken"
	TierRefused = "TierRefused"
	Rejected    = "Rejected"
)

// Refusal is why a policy is not written, when trying again does not help by itself.
type Refusal struct{ Reason, Message string }

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// Refuse returns a Refusal.
func Refuse(reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// empty is an empty object of a kind of policies, as the hub names kinds.
func empty(kind string) client.Object {
	switch strings.TrimSuffix(kind, wire.KindServices) {
	case "ClusterNetworkPolicy.crd.antrea.io":
		return &v1beta1.ClusterNetworkPolicy{}
	case "NetworkPolicy.crd.antrea.io":
		return &v1beta1.NetworkPolicy{}
	case "NetworkPolicy.networking.k8s.io":
		return &networkingv1.NetworkPolicy{}
	}
	return nil
}

// strictly reads an object. What is not known in it refuses it.
func strictly(raw []byte, into client.Object) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err == nil {
		err = errors.Join(strict...)
	}
	return err
}

// Decode returns the copy of a policy as it is to be written, and its tier.
func Decode(p *wire.Policy) (client.Object, string, error) {
	o := empty(p.Kind)
	if o == nil {
		return nil, "", Refuse(NeedsNewer, "a policy of kind %s, which this cluster does not know", wire.Shortened(p.Kind))
	}
	if err := strictly(p.Object, o); err != nil {
		return nil, "", Refuse(NeedsNewer, "%s says what this cluster does not know: %v", wire.Shortened(o.GetName()), err)
	}
	tier := ""
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		rename(&o.Spec)
		tier = convert.ClusterNetworkPolicy(o).Tier
	case *v1beta1.NetworkPolicy:
		rename(&o.Spec)
		tier = convert.NetworkPolicy(o).Tier
	}
	mark(o, p.UID, p.Generation)
	return o, tier, nil
}

// rename makes a policy name the copies of groups.
func rename(s *v1beta1.NetworkPolicySpec) {
	applied := func(list []v1beta1.AppliedTo) {
		for i := range list {
			list[i].Group = copyOf(list[i].Group)
		}
	}
	applied(s.AppliedTo)
	for _, rules := range [][]v1beta1.Rule{s.Ingress, s.Egress} {
		for i := range rules {
			applied(rules[i].AppliedTo)
			for _, list := range [][]v1beta1.NetworkPolicyPeer{rules[i].From, rules[i].To} {
				for j := range list {
					list[j].Group = copyOf(list[j].Group)
				}
			}
		}
	}
}

// mostName is the length of the longest name of an object.
const mostName = 253

// copyOf is the name of the copy of an object with a name.
func copyOf(name string) string {
	if name == "" {
		return ""
	}
	if whole := setv1alpha1.CopyPrefix + name; len(whole) <= mostName {
		return whole
	}
	sum := sha256.Sum256([]byte(name))
	return setv1alpha1.CopyPrefix + name[:200] + "-" + hex.EncodeToString(sum[:8])
}

// mark makes an object a copy: by its name, and by what says where it is from.
func mark(o client.Object, uid string, generation int64) {
	marked := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: copyOf(o.GetName()), Labels: maps.Clone(o.GetLabels()), Annotations: maps.Clone(o.GetAnnotations())}
	metav1.SetMetaDataLabel(&marked, setv1alpha1.LabelFromHub, "true")
	metav1.SetMetaDataAnnotation(&marked, setv1alpha1.AnnotationSource, uid)
	metav1.SetMetaDataAnnotation(&marked, setv1alpha1.AnnotationSourceGeneration, strconv.FormatInt(generation, 10))
	o.SetNamespace(marked.Namespace)
	o.SetName(marked.Name)
	o.SetLabels(marked.Labels)
	o.SetAnnotations(marked.Annotations)
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetGeneration(0)
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
	o.SetManagedFields(nil)
}

// Needs are the copies of what a policy names, those first that others name.
func Needs(p *wire.Policy) ([]client.Object, error) {
	var out []client.Object
	for _, raw := range p.Needs {
		var kind metav1.TypeMeta
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &kind); err != nil {
			return nil, Refuse(NeedsNewer, "what the policy names is no object: %v", err)
		}
		var o client.Object
		switch kind.Kind {
		case "Tier":
			o = &v1beta1.Tier{}
		case "ClusterGroup":
			o = &v1beta1.ClusterGroup{}
		case "Group":
			o = &v1beta1.Group{}
		default:
			return nil, Refuse(NeedsNewer, "the policy names a %s, which this cluster does not know", wire.Shortened(kind.Kind))
		}
		if err := strictly(raw, o); err != nil {
			return nil, Refuse(NeedsNewer, "%s %s says what this cluster does not know: %v", kind.Kind, wire.Shortened(o.GetName()), err)
		}
		uid, generation, name := string(o.GetUID()), o.GetGeneration(), o.GetName()
		mark(o, uid, generation)
		switch o := o.(type) {
		case *v1beta1.Tier: // tiers are by name what they are
			o.Name = name
		case *v1beta1.ClusterGroup:
			o.Spec.ChildGroups = copiesOf(o.Spec.ChildGroups)
		case *v1beta1.Group:
			o.Spec.ChildGroups = copiesOf(o.Spec.ChildGroups)
		}
		out = append([]client.Object{o}, out...)
	}
	return out, nil
}

func copiesOf(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, copyOf(n))
	}
	return out
}

// specOf is what an object says.
func specOf(o client.Object) any {
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		return o.Spec
	case *v1beta1.NetworkPolicy:
		return o.Spec
	case *networkingv1.NetworkPolicy:
		return o.Spec
	case *v1beta1.ClusterGroup:
		return o.Spec
	case *v1beta1.Group:
		return o.Spec
	case *v1beta1.Tier:
		return o.Spec
	}
	return nil
}

// Same reports whether an object is what its copy is to be. Annotations that programs write besides
// are theirs.
func Same(present, want client.Object) bool {
	return equality.Semantic.DeepEqual(specOf(present), specOf(want)) && equality.Semantic.DeepEqual(present.GetLabels(), want.GetLabels()) && covered(present, want)
}

// covered reports whether an object has all annotations that it is to have.
func covered(present, want client.Object) bool {
	for k, v := range want.GetAnnotations() {
		if present.GetAnnotations()[k] != v {
			return false
		}
	}
	return true
}

// IsGroup reports whether a copy is a group and no policy.
func IsGroup(o client.Object) bool {
	switch o.(type) {
	case *v1beta1.ClusterGroup, *v1beta1.Group:
		return true
	}
	return false
}

// SourceGeneration is the generation that the source of a copy had; 0 if the copy does not say.
func SourceGeneration(o client.Object) int64 {
	generation, err := strconv.ParseInt(o.GetAnnotations()[setv1alpha1.AnnotationSourceGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

// source is the uid of the source of a copy; empty if the copy does not say.
func source(o client.Object) string { return o.GetAnnotations()[setv1alpha1.AnnotationSource] }
