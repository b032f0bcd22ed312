package manifest

import (
	"strings"
	"testing"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// TestNepheSamples: manifests for Nephe v0.6.0 and the Antrea that it is used with are read, and
// mean what they meant.
func TestNepheSamples(t *testing.T) {
	set, err := Load([]string{"testdata/nephe-v0.6.0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Object{}
	for _, d := range set.Documents {
		if d.Refusal != nil {
			t.Errorf("%s: %+v", d.Name(), d.Refusal)
		}
		found[d.Name()] = d.Object
		if gv := d.Object.GetObjectKind().GroupVersionKind(); gv.Group == antreav1beta1.GroupName && gv.Version != "v1beta1" {
			t.Errorf("%s: is %s", d.Name(), gv)
		}
	}
	if len(found) != 9 || len(set.Notes) > 0 {
		t.Fatalf("%d objects, %v", len(found), set.Notes)
	}
	if g, is := found["ClusterGroup hosts"].(*antreav1beta1.ClusterGroup); !is || len(g.Spec.IPBlocks) != 1 || g.Spec.IPBlocks[0].CIDR != "10.0.10.0/24" {
		t.Errorf("%+v", g)
	}
	p, is := found["NetworkPolicy sample-ns/vm-anp"].(*antreav1beta1.NetworkPolicy)
	if !is || len(p.Spec.Ingress) != 1 || p.Spec.Ingress[0].From[0].IPBlock.CIDR != "0.0.0.0/0" {
		t.Errorf("%+v", p)
	}
}

// TestFormerVersionsAreChecked: what is wrong in a former version is as wrong as in v1beta1.
func TestFormerVersionsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: crd.antrea.io/v1alpha1, kind: NetworkPolicy, metadata: {name: a}, spec: {priority: 1, appliedTo: [{podSelectr: {}}]}}":                                                           "spec.appliedTo[0].podSelectr",
		"{apiVersion: crd.antrea.io/v1alpha2, kind: NetworkPolicy, metadata: {name: a}}":                                                                                                               `NetworkPolicy has no version "v1alpha2", want crd.antrea.io/v1beta1`,
		"{apiVersion: crd.antrea.io/v1alpha3, kind: ClusterGroup, metadata: {name: a}, spec: {ipBlock: {cidr: 10.0.0.0/8}}}":                                                                           "spec.ipBlock",
		"{apiVersion: crd.antrea.io/v1alpha2, kind: ClusterGroup, metadata: {name: a}, spec: {ipBlock: {cidr: 10.0.0.0/8}, ipBlocks: [{cidr: 10.0.0.0/8}]}}":                                           "spec.ipBlock",
		"{apiVersion: crd.antrea.io/v1alpha1, kind: Tier, metadata: {name: a}, spec: {priority: 10}}\n---\n{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: a}, spec: {priority: 11}}": "already given",
	} {
		if _, err := Load([]string{"-"}, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
