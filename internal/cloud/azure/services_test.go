package azure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// endpoints puts private endpoints into the network of a lab: of a database, and of storage in a
// subnet whose group is about endpoints, too.
func endpoints(b *build.Builder) {
	group := b.SecurityGroup("shop", "nsg-endpoints", build.Rule("none", "Inbound", 100, "Deny", "", "", "", ""))
	vnet := b.Network("shop", "vnet-e", []string{"10.9.0.0/16"}, []string{"open", "10.9.1.0/24", group}, []string{"closed", "10.9.2.0/24", group})
	for i := range b.State.Resources {
		if r := &b.State.Resources[i]; r.ID == vnet {
			subnets := r.Properties["subnets"].([]any)
			subnets[1].(map[string]any)["properties"].(map[string]any)["privateEndpointNetworkPolicies"] = "Enabled"
		}
	}
	b.Endpoint("shop", "orders", vnet+"/subnets/open", "10.9.1.4", "sqlServer", map[string]string{"team": "shop"})
	b.Endpoint("shop", "pages", vnet+"/subnets/closed", "10.9.2.4", "blob_secondary", nil)
}

// inShort are the services of a snapshot in short.
func inShort(s *cloud.Snapshot) (out []string) {
	for _, x := range s.Services {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %v %v %v %s", x.Kind, x.Name, x.Private, x.Ports, x.Tags, x.DNSName)))
	}
	return out
}

// TestPrivateEndpoints: services by their private endpoints, with names, ports and tags; by their
// interfaces alone where the role does not permit to read endpoints; and nothing where nobody asks.
func TestPrivateEndpoints(t *testing.T) {
	t.Parallel()
	l := newLab(t, endpoints)
	shown, err := l.account().Show([]cloud.ServiceKind{cloud.PrivateEndpoint}).Observe(t.Context(), inRegion)
	if err != nil || len(shown.ServiceFaults) > 0 {
		t.Fatalf("%v %+v", err, shown.ServiceFaults)
	}
	want := []string{
		"PrivateEndpoint orders [10.9.1.4] [{sqlserver 6 1433}] map[team:shop] orders.privatelink.example", "PrivateEndpoint pages [10.9.2.4] [{https 6 443}] map[] pages.privatelink.example",
	}
	if got := inShort(shown); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, s := range shown.Services {
		i := slices.IndexFunc(shown.Interfaces, func(n cloud.Interface) bool { return slices.Contains(s.Interfaces, n.ID) })
		if i < 0 || !shown.Interfaces[i].Managed || s.Fixed == "" || s.NetworkID != shown.Interfaces[i].NetworkID {
			t.Fatalf("%+v", s)
		}
		// The group of a subnet is about endpoints only where somebody has said so.
		if filtered := shown.Interfaces[i].SubnetID != ""; filtered != (s.Name == "pages") {
			t.Errorf("%s: the filter of the subnet counts: %t", s.Name, filtered)
		}
	}
	if others, err := l.account().Show([]cloud.ServiceKind{cloud.RDSInstance}).Observe(t.Context(), inRegion); err != nil || len(others.Services) > 0 {
		t.Errorf("%v %q", err, inShort(others))
	}
	// Without the right Resource Graph leaves them out.
	l = newLab(t, func(b *build.Builder) {
		endpoints(b)
		b.State.Principals[0].Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription, Role: simazure.Role{
			Name: "less", Actions: []string{"*/read"}, NotActions: []string{"Microsoft.Network/privateEndpoints/read"},
		}}}
	})
	less, err := l.account().Show(cloud.ServiceKinds()).Observe(t.Context(), inRegion)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := inShort(less), []string{"PrivateEndpoint orders [10.9.1.4] [] map[]", "PrivateEndpoint pages [10.9.2.4] [] map[]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if less.Services[0].ID != shown.Services[0].ID {
		t.Errorf("%s is %s by its interface", shown.Services[0].ID, less.Services[0].ID)
	}
}
