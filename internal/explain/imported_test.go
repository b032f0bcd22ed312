package explain_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/classes"
	"github.com/nephele-io/nephele/internal/explain/input"
)

// TestImportedNames: a VM, a native service and an interface may have the same name in the cloud;
// the word before it says which is meant, whatever asks, and without one the question is refused.
func TestImportedNames(t *testing.T) {
	entity := func(name, ip string, labels map[string]string) *v1alpha2.ExternalEntity {
		return &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels},
			Spec: v1alpha2.ExternalEntitySpec{ExternalNode: "cloud/shop/prod", Endpoints: []v1alpha2.Endpoint{{IP: ip}}}}
	}
	c := explain.Compute(&input.Objects{
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}},
		Entities: []*v1alpha2.ExternalEntity{
			entity("virtualmachine-i-1", "10.0.0.1", map[string]string{cloudv1.LabelOwnerVM: "i-1", cloudv1.LabelCloudVMName: "orders"}),
			entity("cloudnativeservice-rdsinstance-orders-0a", "10.0.0.2", map[string]string{cloudv1.LabelCloudServiceKind: "RDSInstance", cloudv1.LabelCloudServiceName: "orders"}),
			entity("networkinterface-eni-1", "10.0.0.3", map[string]string{cloudv1.LabelCloudInterfaceUID: "eni-1", cloudv1.LabelCloudInterfaceName: "orders"}),
			entity("cloudnativeservice-vpcendpoint-0b", "10.0.0.4", nil),
		},
	})
	for asked, want := range map[string]string{
		"vm/shop/orders":                                        "VM shop/orders",
		"vm/shop/i-1":                                           "VM shop/orders",
		"cns/shop/Orders":                                       "RDSInstance shop/orders",
		"cns/shop/rdsinstance-orders-0a":                        "RDSInstance shop/orders",
		"CloudNativeService/shop/orders":                        "RDSInstance shop/orders",
		"shop/cloudnativeservice-rdsinstance-orders-0a":         "RDSInstance shop/orders",
		"nic/shop/eni-1":                                        "NetworkInterface shop/orders",
		"networkinterface/shop/orders":                          "NetworkInterface shop/orders",
		"shop/vpcendpoint-0b":                                   "CloudNativeService shop/vpcendpoint-0b",
		"cns/shop/eni-1":                                        "",
		"vm/shop/rdsinstance-orders-0a":                         "",
		"nic/shop/rdsinstance-orders-0a":                        "",
		"shop/orders":                                           "",
		"ee/shop/orders":                                        "",
		"cns/other/orders":                                      "",
		"ee/shop/cloudnativeservice-rdsinstance-orders-0a":      "RDSInstance shop/orders",
		"externalentity/shop/networkinterface-eni-1":            "NetworkInterface shop/orders",
		"virtualmachine/shop/cloudnativeservice-vpcendpoint-0b": "",
	} {
		got, err := c.Answer(explain.Question{From: asked, To: "10.9.9.9", Protocol: "tcp", Port: "80"})
		if (err == nil) != (want != "") || err == nil && got.From.Title != want {
			t.Errorf("%s: %v, %v; want %q", asked, got, err, want)
		}
	}
	w := c.World(false)
	var names, kinds []string
	for i := range w.Endpoints {
		names = append(names, w.Endpoints[i].Name)
		if _, err := w.Party("of", w.Endpoints[i].Name); err != nil {
			t.Error(err)
		}
	}
	for _, class := range classes.Of(w, nil) {
		kinds = append(kinds, fmt.Sprint(class.Kind, " ", class.Service))
	}
	slices.Sort(names)
	slices.Sort(kinds)
	if want := []string{"cns/shop/orders", "cns/shop/vpcendpoint-0b", "nic/shop/orders", "vm/shop/orders"}; !slices.Equal(names, want) {
		t.Errorf("they are called %q", names)
	}
	if want := []string{"CloudNativeService ", "CloudNativeService RDSInstance", "NetworkInterface ", "VM "}; !slices.Equal(kinds, want) {
		t.Errorf("they are on the map as %q", kinds)
	}
	for party, want := range map[string]int{"cns/shop/*": 2, "nic/*/*": 1, "vm/shop/*": 1, "ee/shop/*": 4} {
		p, err := w.Party("of", party)
		if err != nil {
			t.Error(err)
			continue
		}
		n := 0
		for i := range w.Endpoints {
			if p.Chosen(&w.Endpoints[i]) {
				n++
			}
		}
		if n != want {
			t.Errorf("%s means %d, want %d", party, n, want)
		}
	}
}
