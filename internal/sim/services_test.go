package sim_test

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/sqs"
)

const servedYAML = `
accounts:
- id: "111122223333"
  regions:
  - name: eu-west-1
    vpcs:
    - name: shop
      cidrs: [10.1.0.0/16]
      subnets: [{name: a, cidr: 10.1.1.0/24}, {name: b, cidr: 10.1.2.0/24}]
      groups: [{name: front, rules: [tcp 80 from any]}, {name: web, rules: [tcp 8080 from front]}]
      vms: [{name: client, ip: 10.1.1.50}, {name: web-1, ip: 10.1.1.60, groups: [web]}]
      targetGroups: [{name: web, protocol: HTTP, port: 8080, targets: [web-1]}]
      services:
      - {kind: database, name: orders, engine: postgres, multiZone: true}
      - {kind: application-load-balancer, name: front, groups: [front], ip: [10.1.1.90, 10.1.2.90], listeners: [HTTP 80 to web]}
`

// TestAdminOfServices: a failover and a balancer that grows, as people do it, and what a queue
// hears of them.
func TestAdminOfServices(t *testing.T) {
	t.Parallel()
	state := estatetest.Parse(t, servedYAML)
	saved := filepath.Join(t.TempDir(), "state.json")
	s := start(t, sim.Options{State: state, StateFile: saved, Events: sim.EventOptions{Queue: sim.DefaultEventQueue}})
	var databases []native.Service
	if status := admin(t, s, "GET /_sim/services?kind=database", "", &databases); status != 200 || len(databases) != 1 {
		t.Fatalf("status %d, %+v", status, databases)
	}
	db := databases[0]
	lookup := func(host string) (out []netip.Addr) {
		t.Helper()
		if status := admin(t, s, "GET /_sim/lookup?host="+host, "", &out); status != 200 {
			t.Fatalf("status %d", status)
		}
		return out
	}
	before := lookup(db.HostName())
	var after native.Service
	if status := admin(t, s, "POST /_sim/failover?kind=database&name=orders", "", &after); status != 200 {
		t.Fatalf("status %d", status)
	}
	if now := lookup(db.HostName()); len(before) != 1 || len(now) != 1 || before[0] == now[0] {
		t.Errorf("the database was at %v and is at %v", before, now)
	}
	heard := events(t, s)
	for id, call := range map[string]string{db.NICs()[0]: "DeleteNetworkInterface", after.NICs()[0]: "CreateNetworkInterface"} {
		if !slices.Contains(heard, call+" "+id+" rds.amazonaws.com") {
			t.Errorf("nobody heard of %s of %s: %q", call, id, heard)
		}
	}
	var balancer native.Service
	if status := admin(t, s, "POST /_sim/scale?kind=application-load-balancer&name=front&interfaces=3", "", &balancer); status != 200 || len(balancer.NICs()) != 6 {
		t.Errorf("status %d, %d interfaces", status, len(balancer.NICs()))
	}
	var passage packet.Passage
	if status := admin(t, s, "GET /_sim/through?src=client&dst=10.1.1.90&port=80", "", &passage); status != 200 || !passage.Allowed || len(passage.Targets) != 1 {
		t.Errorf("status %d: %+v", status, passage)
	}
	for _, bad := range []string{"POST /_sim/failover", "POST /_sim/failover?kind=database&name=nobody", "POST /_sim/scale?kind=database&name=orders&interfaces=2",
		"POST /_sim/scale?kind=application-load-balancer&name=front&interfaces=many", "GET /_sim/through?src=client&dst=10.1.1.60&port=80"} {
		if status := admin(t, s, bad, "", nil); status != 400 {
			t.Errorf("%s: status %d", bad, status)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, sim.Options{StateFile: saved})
	r, err := again.World().Region("111122223333", "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Services().Get(db.Ref()); err != nil || !slices.Equal(got.NICs(), after.NICs()) {
		t.Errorf("after the restart: %+v, %v; want %v", got, err, after.NICs())
	}
}

// events are the calls in the first region's queue: name, interface and caller.
func events(t *testing.T, s *sim.Server) (out []string) {
	t.Helper()
	for _, ref := range s.Queues().Refs() {
		messages, err := s.Queues().Receive(t.Context(), ref, sqs.ReceiveInput{Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			var e struct {
				Detail struct {
					EventName         string
					UserIdentity      struct{ InvokedBy string }
					RequestParameters struct{ NetworkInterfaceID string }
					ResponseElements  struct {
						NetworkInterface struct{ NetworkInterfaceID string }
					}
				}
			}
			if err := json.Unmarshal([]byte(m.Body), &e); err != nil {
				t.Fatal(err)
			}
			out = append(out, e.Detail.EventName+" "+e.Detail.RequestParameters.NetworkInterfaceID+e.Detail.ResponseElements.NetworkInterface.NetworkInterfaceID+" "+e.Detail.UserIdentity.InvokedBy)
		}
	}
	return out
}
