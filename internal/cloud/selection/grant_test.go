package selection

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// TestPreviewKnowsGrants: a preview takes the same decisions, and says what is not heeded.
func TestPreviewKnowsGrants(t *testing.T) {
	t.Parallel()
	snap := &cloud.Snapshot{Scope: cloud.Scope{Account: "clouds/acc", Region: oregon}, Networks: []cloud.Network{{ID: "vpc-1"}},
		VMs: []cloud.VM{{ID: "i-1", NetworkID: "vpc-1"}}}
	cpa := &v1alpha1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "clouds", Name: "acc"}}
	cpa.Spec.AllowedNamespaces = &v1alpha1.NamespaceGrant{Names: []string{"web"}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}
	web, shop, evil := ces("web", "x", wholeVPC("vpc-1")), ces("shop", "x", wholeVPC("vpc-1")), ces("evil", "x", wholeVPC("vpc-1"))
	web.Spec.Mode = v1alpha1.ModePlan
	vm := &v1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "i-1", Annotations: map[string]string{v1alpha1.AnnotationBreakGlass: "fire"}}}
	got := Preview(cpa, v1alpha1.CloudProviderAWS, Surroundings{
		Selectors: []*v1alpha1.CloudEntitySelector{web, shop, evil}, VMs: []*v1alpha1.VirtualMachine{vm},
		Namespaces: []*corev1.Namespace{namespaceObject("web", nil), namespaceObject("shop", map[string]string{"env": "prod"}), namespaceObject("evil", nil)},
	}, []*cloud.Snapshot{snap})
	var entities []string
	for _, e := range got.Entities {
		entities = append(entities, e.Namespace+"/"+e.Name)
	}
	if !slices.Equal(entities, []string{"shop/virtualmachine-i-1", "web/virtualmachine-i-1"}) {
		t.Errorf("entities %v", entities)
	}
	for key, ref := range got.Refs {
		if ref.Mode != "" {
			t.Errorf("%s is in mode %s by %s", key, ref.Mode, ref.ModeReason)
		}
	}
	if !got.Selecting["web"] || !got.Selecting["shop"] || got.Selecting["evil"] {
		t.Errorf("selecting %v", got.Selecting)
	}
	for i, want := range []string{"CloudEntitySelector evil/x: namespace evil", "CloudEntitySelector web/x: mode plan", "VirtualMachine web/i-1: break-glass"} {
		if i >= len(got.Remarks) || !strings.HasPrefix(got.Remarks[i], want) {
			t.Errorf("remarks %q; want %q", got.Remarks, want)
		}
	}
}
