package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain/input"
)

// TestNames: hosts are found by their ExternalNodes and VMs by names with blanks, by explain and by
// reach, and an error about an unknown end names those that may be meant.
func TestNames(t *testing.T) {
	meta := func(namespace, name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	c := Compute(&input.Objects{
		Namespaces: []*corev1.Namespace{{ObjectMeta: meta("", "vms", nil)}, {ObjectMeta: meta("", "shop", nil)}},
		ExternalNodes: []*v1alpha1.ExternalNode{{ObjectMeta: meta("vms", "web-1", nil),
			Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{Name: "eth0", IPs: []string{"192.0.2.10"}}}}}},
		Entities: []*v1alpha2.ExternalEntity{{ObjectMeta: meta("shop", "virtualmachine-i-1", map[string]string{cloudv1alpha1.LabelCloudVMName: "My Server (old)", "app": "db"}),
			Spec: v1alpha2.ExternalEntitySpec{ExternalNode: "cloud/shop/a", Endpoints: []v1alpha2.Endpoint{{IP: "10.0.0.9"}}}}},
	})
	world := c.World(true)
	for text, want := range map[string]string{
		"vms/web-1": "", "host/vms/web-1": "", "ee/vms/web-1": "", "en/vms/web-1": "", "shop/My Server (old)": "", "vm/shop/my server (old)": "", "shop/i-1": "",
		"vms/web-2":           `there is no Pod, VM, host, native service, interface or Node of this name; did you mean web-1?`,
		"vm/vms/web-1":        "did you mean web-1?",
		"host/shop/i-1":       "of this name",
		"shop/web-1":          "did you mean vms/web-1?",
		"sho/i-2":             "there is nobody in namespace sho; did you mean shop?",
		"shop/My Servr (old)": "did you mean my server (old)?",
	} {
		_, explained := c.finder().findEnd("to", text)
		_, reached := world.Party("to", text)
		for _, err := range []error{explained, reached} {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want))) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
	for _, text := range []string{"shop/app=db", "shop/app in (db)", "shop/app notin (web, x)", "host/vms/*"} {
		if _, err := world.Party("to", text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
