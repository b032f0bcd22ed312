package azure_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// TestEffects: each kind of edit comes to each interface within the bound, and not to all at once.
func TestEffects(t *testing.T) {
	const bound = 10 * time.Second
	type scene struct {
		c                *azure.Cloud
		by               azure.Principal
		now              time.Time
		web, closed, asg string
		network, peer    string
		nics             []string
	}
	put := func(s *scene, id string, change func(properties map[string]any)) {
		t.Helper()
		at, ok := document.ParseID(id)
		if !ok {
			t.Fatal(id)
		}
		r, err := s.c.Get(&s.by, at)
		if err != nil {
			t.Fatal(err)
		}
		change(r["properties"].(map[string]any))
		if _, err := s.c.Put(azure.Write{By: &s.by, Now: s.now}, at, r); err != nil {
			t.Fatal(err)
		}
	}
	ref := func(id string) map[string]any { return map[string]any{"id": id} }
	configuration := func(p map[string]any) map[string]any {
		return p["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any)
	}
	for _, c := range []struct {
		name string
		edit func(*scene)
		port int
		open bool // before the edit
	}{
		{"a rule comes", func(s *scene) {
			put(s, s.web, func(p map[string]any) {
				p["securityRules"] = append(p["securityRules"].([]any), build.Rule("http", "Inbound", 200, "Allow", "Tcp", "", "", "80"))
			})
		}, 80, false},
		{"a rule goes", func(s *scene) {
			put(s, s.web, func(p map[string]any) { p["securityRules"] = p["securityRules"].([]any)[1:] })
		}, 22, true},
		{"a peer joins the group of a rule", func(s *scene) {
			put(s, s.peer, func(p map[string]any) { configuration(p)["applicationSecurityGroups"] = []any{ref(s.asg)} })
		}, 443, false},
		{"the subnet gets another group", func(s *scene) {
			put(s, s.network, func(p map[string]any) {
				p["subnets"].([]any)[0].(map[string]any)["properties"].(map[string]any)["networkSecurityGroup"] = ref(s.closed)
			})
		}, 22, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := build.New(tenant, subscription, "westeurope")
			s := &scene{now: time.Unix(1700000000, 0)}
			s.asg = b.ApplicationGroup("rg", "asg")
			byGroup := map[string]any{"name": "members", "properties": map[string]any{
				"direction": "Inbound", "priority": 300, "access": "Allow", "protocol": "Tcp", "sourcePortRange": "*", "destinationPortRange": "443",
				"sourceApplicationSecurityGroups": []any{ref(s.asg)}, "destinationAddressPrefix": "*",
			}}
			s.web = b.SecurityGroup("rg", "web", build.Rule("ssh", "Inbound", 100, "Allow", "Tcp", "", "", "22"), byGroup, build.Rule("none", "Inbound", 4000, "Deny", "*", "", "", ""))
			s.closed = b.SecurityGroup("rg", "closed", build.Rule("none", "Inbound", 4000, "Deny", "*", "", "", ""))
			s.network = b.Network("rg", "n", []string{"10.1.0.0/16"}, []string{"s", "10.1.1.0/24"}, []string{"p", "10.1.2.0/24"})
			for i := range 30 {
				_, nic := b.Machine("rg", fmt.Sprint("m", i), s.network+"/subnets/s", fmt.Sprint("10.1.1.", 10+i), s.web)
				s.nics = append(s.nics, nic)
			}
			_, s.peer = b.Machine("rg", "peer", s.network+"/subnets/p", "10.1.2.4", "")
			b.Principal("owner", "secret", azure.Assignment{Scope: "/subscriptions/" + subscription, Role: azure.Role{Actions: []string{"*"}}})
			log := effect.New(effect.Delay{Bound: bound, Seed: 1}, func() time.Time { return s.now })
			n := 0
			var err error
			if s.c, err = azure.New(b.State, azure.Settings{Effects: log}, func() string { n++; return build.GUIDOf(fmt.Sprint(n)) }); err != nil {
				t.Fatal(err)
			}
			s.by = s.c.Principals()[0]
			count := func() (n int) {
				for _, nic := range s.nics {
					v, err := s.c.Verdicts().Allowed(azure.Flow{Src: azure.End{NIC: s.peer}, Dst: azure.End{NIC: nic}, Protocol: 6, Port: c.port})
					if err != nil {
						t.Fatal(err)
					}
					if v.Allowed {
						n++
					}
				}
				return n
			}
			full := map[bool]int{true: len(s.nics)}
			if got := count(); got != full[c.open] {
				t.Fatalf("before the edit %d of %d let it in", got, len(s.nics))
			}
			c.edit(s)
			s.now = s.now.Add(bound / 2)
			if got := count(); got == 0 || got == len(s.nics) {
				t.Errorf("halfway %d of %d let it in", got, len(s.nics))
			}
			s.now = s.now.Add(bound / 2)
			if got := count(); got != full[!c.open] {
				t.Errorf("after the bound %d of %d let it in", got, len(s.nics))
			}
		})
	}
}
