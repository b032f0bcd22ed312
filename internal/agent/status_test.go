package agent_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/packetlog"
	"github.com/nephele-io/nephele/internal/agent/traffic"
)

// statusKeys are the keys of a status, which programs read with nephele-agent status -o json.
var statusKeys = strings.Fields(`addressGroups appliedToGroups clockError connected connectionsCut connectionsError connectionsFull elements
	error evaded failsafe failsafeError foreign foreignError forwards infoError isolatedEgress isolatedIngress judgesForwarded kernelLacks key
	lastWrite lastWriteMilliseconds log names network owned pluginError pods podsError policies probeError releasedUntil repairs rules
	serverError state statisticsError storeError traffic waitsForCloud`)

// full is a status of which every field has a value.
func full() agent.Status {
	at := metav1.NewTime(time.Date(2026, 11, 30, 3, 0, 0, 0, time.Local))
	return agent.Status{
		Key: "vms/web", State: agent.StateEnforcing, Policies: []agent.PolicyState{{Generation: 3, Enforced: true}}, WaitsForCloud: "w", ReleasedUntil: at,
		Server: agent.ServerStatus{Connected: true, Error: "e", AddressGroups: 1, AppliedToGroups: 2},
		Kernel: agent.KernelStatus{
			Error: "k", Rules: 3, Elements: 4, IsolatedIngress: true, IsolatedEgress: true, Owned: true, Lacks: []string{"l"}, Repairs: 5,
			ConnectionsCut: 6, ConnectionsError: "c", LastWrite: at, LastWriteMilliseconds: 7,
		},
		Host: agent.HostStatus{
			Failsafe: []nft.Failsafe{{Name: "ssh"}}, FailsafeError: "f", Forwards: []string{"IPv4"}, JudgesForwarded: true, Evaded: 8,
			Foreign: []string{"ufw"}, ForeignError: "o", ConnectionsFull: "n", ClockError: "t",
		},
		Faults: agent.Faults{Store: "s", Probe: "p", Info: "i", Pods: "d", Plugin: "g", Statistics: "a"},
		Names:  &fqdn.Status{}, Pods: &agent.PodsStatus{Known: 9}, Network: &network.Status{}, Log: &packetlog.Status{}, Traffic: &traffic.Status{},
	}
}

// TestStatusDocument: as JSON a status is one flat object with the keys that it has had in every
// release, however its fields are grouped, and it is read as it was written.
func TestStatusDocument(t *testing.T) {
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, statusKeys) {
		t.Errorf("keys\n%v, want\n%v", got, statusKeys)
	}
	for key, value := range keys {
		if strings.Count(string(text), `"`+key+`":`+string(value)) != 1 {
			t.Errorf("%s is not there once: %s", key, text)
		}
	}
	var read agent.Status
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if want := full(); !reflect.DeepEqual(read, want) {
		t.Errorf("read\n%+v\nwant\n%+v", read, want)
	}
	// An agent of another release has fields of its own, and lacks some.
	read = agent.Status{}
	if err := json.Unmarshal([]byte(`{"key":"vms/web","rules":3,"foreign":["ufw"],"later":{"error":"x"}}`), &read); err != nil {
		t.Fatal(err)
	}
	if want := (agent.Status{Key: "vms/web", Kernel: agent.KernelStatus{Rules: 3}, Host: agent.HostStatus{Foreign: []string{"ufw"}}}); !reflect.DeepEqual(read, want) {
		t.Errorf("read\n%+v\nwant\n%+v", read, want)
	}
}
