package status

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestRefusedInterfacesAreTold: once for each interface and reason, and measured.
func TestRefusedInterfacesAreTold(t *testing.T) {
	d := newDesk(t, interceptor.Funcs{})
	key := plan.InterfaceKey{Region: home, ID: "eni-1"}
	for i, c := range []struct {
		blocked map[plan.InterfaceKey]string
		event   string
	}{
		{nil, ""}, {map[plan.InterfaceKey]string{key: "no right"}, "eu-west-1/eni-1: no right"}, {map[plan.InterfaceKey]string{key: "no right"}, ""},
		{map[plan.InterfaceKey]string{key: "too many tags"}, "eu-west-1/eni-1: too many tags"}, {nil, ""},
		{map[plan.InterfaceKey]string{key: "no right"}, "eu-west-1/eni-1: no right"},
	} {
		r := reportOf(nil, nil)
		r.Blocked = c.blocked
		d.write(r)
		events := d.events()
		if (len(events) > 0) != (c.event != "") || len(events) > 0 && !strings.HasSuffix(events[0], c.event) {
			t.Errorf("%d: %q", i, events)
		}
	}
}
