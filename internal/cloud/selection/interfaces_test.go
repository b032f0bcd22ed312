package selection

import (
	"testing"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// TestFrontIsNoInterface: no selector of interfaces selects what represents a front end of a
// service.
func TestFrontIsNoInterface(t *testing.T) {
	n := cloud.Interface{ID: "/balancers/a/frontends/b", NetworkID: "vnet-1", Managed: true, Tags: map[string]string{"env": "prod"}}
	for what, e := range map[string]v1alpha1.NetworkInterfaceSelector{
		"network": {VpcMatch: &v1alpha1.EntityMatch{MatchID: "vnet-1"}},
		"id":      {InterfaceMatch: []v1alpha1.EntityMatch{{MatchID: n.ID}}},
		"tag":     {TagMatch: []v1alpha1.TagMatch{{Key: "env"}}},
	} {
		front := n
		front.Front = true
		if selectInterface(e, &n, nil) == notSelected || selectInterface(e, &front, nil) != notSelected {
			t.Errorf("by %s: an interface is not selected, or what is none is", what)
		}
	}
}
