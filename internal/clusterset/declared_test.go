package clusterset_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// property makes a ClusterProperty of a member.
func (s *set) property(name, property, value string) *unstructured.Unstructured {
	s.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": value}}}
	o.SetAPIVersion("about.k8s.io/v1beta1")
	o.SetKind("ClusterProperty")
	o.SetName(property)
	s.must(s.sides[name].Create(s.Context(), o))
	return o
}

// TestDeclaredNames: member and hub compare what a cluster calls itself and the set by the About
// API with the set. They show a contradiction, and nothing where there is no such property.
func TestDeclaredNames(t *testing.T) {
	s := newSet(t, "east", "west")
	s.is("east", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	east := s.sides["east"]
	named := func() *metav1.Condition {
		var m setv1alpha1.Membership
		s.must(east.Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
		return meta.FindStatusCondition(m.Status.Conditions, setv1alpha1.MembershipNamed)
	}
	if c := named(); c != nil {
		t.Error(c)
	}
	hubShows := func(want string) {
		t.Helper()
		s.until("the hub says "+want, func() (bool, any) {
			c := meta.FindStatusCondition(s.cluster("east").Status.Conditions, setv1alpha1.ClusterNamed)
			return c == nil && want == "nothing" || c != nil && (want == string(c.Status) || strings.Contains(c.Message, want)), c
		})
	}
	hubShows("nothing")
	name := s.property("east", "cluster.clusterset.k8s.io", "other\x1b[2J"+strings.Repeat("x", 500))
	s.until("the member shows it", func() (bool, any) {
		c := named()
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "says other") && strings.Contains(c.Message, "in the set it is east"), c
	})
	s.boot(east)
	hubShows("its ClusterProperty cluster.clusterset.k8s.io says other")
	if c := meta.FindStatusCondition(s.cluster("east").Status.Conditions, setv1alpha1.ClusterNamed); len(c.Message) > 200 || strings.Contains(c.Message, "\x1b") {
		t.Errorf("%q", c.Message)
	}
	s.must(unstructured.SetNestedField(name.Object, "east", "spec", "value"))
	s.must(east.Update(t.Context(), name))
	s.boot(east)
	hubShows("True")
	s.property("east", "clusterset.k8s.io", "mine")
	s.property("west", "clusterset.k8s.io", "ours")
	s.boot(s.sides["west"])
	s.boot(east)
	s.until("one of the two shows it", func() (bool, any) {
		var out []string
		for _, cluster := range []string{"east", "west"} {
			if c := meta.FindStatusCondition(s.cluster(cluster).Status.Conditions, setv1alpha1.ClusterNamed); c != nil {
				out = append(out, c.Message)
			}
		}
		text := strings.Join(out, "|")
		return strings.Count(text, "and that of") == 1 && strings.Contains(text, "clusterset.k8s.io says "), text
	})
}
