package clustercmd

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/member/certificate"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
)

// TestLeave: --keep ends the membership and nothing else, --drop also removes all that is from the
// hub, and nothing else.
func TestLeave(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), v1alpha2.AddToScheme(scheme), v1beta1.AddToScheme(scheme), setv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	from := metav1.ObjectMeta{Name: "hub-x", Namespace: "shop", Labels: map[string]string{setv1alpha1.LabelFromHub: "true"}}
	wide := metav1.ObjectMeta{Name: "hub-x", Labels: from.Labels}
	own := metav1.ObjectMeta{Name: "own", Namespace: "shop"}
	all := map[string]client.Object{
		"policy": &v1beta1.NetworkPolicy{ObjectMeta: from}, "wide policy": &v1beta1.ClusterNetworkPolicy{ObjectMeta: wide}, "knp": &networkingv1.NetworkPolicy{ObjectMeta: from},
		"group": &v1beta1.Group{ObjectMeta: from}, "wide group": &v1beta1.ClusterGroup{ObjectMeta: wide}, "record": &setv1alpha1.RemoteGroup{ObjectMeta: metav1.ObjectMeta{Name: "gab"}},
		"entity":     &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Name: "r-1", Namespace: plain.Namespace, Labels: from.Labels}},
		"namespace":  &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plain.Namespace, Labels: from.Labels}},
		"own entity": &v1alpha2.ExternalEntity{ObjectMeta: own}, "own namespace": &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: from.Labels}},
		"own policy": &v1beta1.NetworkPolicy{ObjectMeta: own}, "own knp": &networkingv1.NetworkPolicy{ObjectMeta: own},
		"membership": &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}},
		"secret":     &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: credentialsNamespace, Name: certificate.CredentialsName}},
	}
	for drop, want := range map[bool]string{
		false: "entity group knp namespace own entity own knp own namespace own policy policy record wide group wide policy", true: "own entity own knp own namespace own policy"} {
		b := fake.NewClientBuilder().WithScheme(scheme)
		for _, o := range all {
			b = b.WithObjects(o.DeepCopyObject().(client.Object))
		}
		c := b.Build()
		for range 2 { // what is gone already is no error
			if err := leave(t.Context(), c, drop); err != nil {
				t.Fatal(err)
			}
		}
		var left []string
		for name, o := range all {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)); err == nil {
				left = append(left, name)
			} else if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		if slices.Sort(left); strings.Join(left, " ") != want {
			t.Errorf("drop %t: %v is left, want %s", drop, left, want)
		}
	}
}

// TestParseSeen: what the flag --seen-as says.
func TestParseSeen(t *testing.T) {
	got, err := parseSeen([]string{"10.0.0.0/8=Routable", "0.0.0.0/0=Node", "fd00::/8=192.0.2.1,fd00::1"})
	if err != nil || len(got) != 3 || got[0].As != setv1alpha1.SeenRoutable || got[1].As != setv1alpha1.SeenNode || got[2].As != setv1alpha1.SeenEgress || len(got[2].Addresses) != 2 {
		t.Errorf("%+v %v", got, err)
	}
	for _, wrong := range []string{"", "Node", "10.0.0.0=Node", "10.0.0.0/8=", "10.0.0.0/8=node", "10.0.0.0/8=192.0.2.1,"} {
		if got, err := parseSeen([]string{wrong}); err == nil {
			t.Errorf("%q: %+v", wrong, got)
		}
	}
}
