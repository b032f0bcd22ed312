package world_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

// TestEffects: each kind of edit comes to each interface within the bound, not to all at once, and
// what is there from the start is in force.
func TestEffects(t *testing.T) {
	const bound = 10 * time.Second
	type scene struct {
		*worldtest.Bench
		web, db string // groups
		nics    []string
		peer    string
		list    string
	}
	ask := func(s *scene, src, dst string, port int) bool {
		t.Helper()
		return worldtest.Must[bool](t)(s.World.Passes(packet.Flow{Src: packet.End{NIC: src}, Dst: packet.End{NIC: dst}, Protocol: 6, Port: port}))
	}
	for _, c := range []struct {
		name   string
		edit   func(*scene) error
		passes func(s *scene, nic string) bool // asked of the receiving interfaces
		before bool
	}{
		{"a rule comes", func(s *scene) error { return s.Allow(s.web, worldtest.TCP(80, "0.0.0.0/0")) },
			func(s *scene, nic string) bool { return ask(s, s.peer, nic, 80) }, false},
		{"a rule goes", func(s *scene) error {
			_, err := s.Region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: s.web, Permissions: []aws.Permission{worldtest.TCP(22, "10.0.0.0/16")}})
			return err
		}, func(s *scene, nic string) bool { return ask(s, s.peer, nic, 22) }, true},
		{"a peer joins the group of a rule", func(s *scene) error {
			return s.Region.Interfaces().ModifyNetworkInterfaceGroups(s.peer, []string{s.db, s.web})
		},
			func(s *scene, nic string) bool { return ask(s, s.peer, nic, 443) }, false},
		{"a peer leaves the group of a rule", func(s *scene) error {
			return s.Region.Interfaces().ModifyNetworkInterfaceGroups(s.peer, []string{s.web})
		},
			func(s *scene, nic string) bool { return ask(s, s.peer, nic, 5432) }, true},
		{"an entry of a list comes", func(s *scene) error {
			one := 1
			return err1(s.Region.Lists().ModifyPrefixList(aws.ModifyPrefixListInput{PrefixListID: s.list, CurrentVersion: &one, Add: []aws.EntrySpec{{CIDR: "10.0.0.0/8"}}}))
		}, func(s *scene, nic string) bool { return ask(s, s.peer, nic, 8080) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scene{Bench: worldtest.New(t, world.Options{})}
			s.web, s.db = s.Group("web"), s.Group("db")
			list := worldtest.Must[aws.PrefixList](t)(s.Region.Lists().CreatePrefixList(aws.CreatePrefixListInput{Name: "l", Family: "IPv4", MaxEntries: 5}))
			s.list = list.ID
			all := worldtest.TCP(8080)
			all.PrefixLists = []aws.PrefixListPeer{{PrefixListID: s.list}}
			if err := s.Allow(s.web, worldtest.TCP(22, "10.0.0.0/16"), worldtest.FromGroup(worldtest.TCP(443), s.web), worldtest.FromGroup(worldtest.TCP(5432), s.db), all); err != nil {
				t.Fatal(err)
			}
			s.peer = s.Run(aws.RunInstancesInput{GroupIDs: []string{s.db}}).NetworkInterfaces[0].ID
			if err := s.World.SetEffects(effect.Delay{Bound: bound, Seed: 1}); err != nil {
				t.Fatal(err)
			}
			for range 30 {
				s.nics = append(s.nics, s.Run(aws.RunInstancesInput{GroupIDs: []string{s.web}}).NetworkInterfaces[0].ID)
			}
			s.Clock.Advance(time.Second)
			count := func() (n int) {
				for _, nic := range s.nics {
					if c.passes(s, nic) {
						n++
					}
				}
				return n
			}
			full := map[bool]int{true: len(s.nics)}
			if got := count(); got != full[c.before] {
				t.Fatalf("before the edit %d of %d let it in", got, len(s.nics))
			}
			if err := c.edit(s); err != nil {
				t.Fatal(err)
			}
			s.Clock.Advance(bound / 2)
			if got := count(); got == 0 || got == len(s.nics) {
				t.Errorf("halfway %d of %d let it in", got, len(s.nics))
			}
			s.Clock.Advance(bound / 2)
			if got := count(); got != full[!c.before] {
				t.Errorf("after the bound %d of %d let it in", got, len(s.nics))
			}
		})
	}
}

func err1[T any](_ T, err error) error { return err }

// TestEffectsAtOnce: without a delay an edit is in force when the call returns; a group that has
// gone while an interface had it in force still decides there; and setting the delay ends what is
// on its way.
func TestEffectsAtOnce(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	web, other := b.Group("web"), b.Group("other")
	nic := b.Run(aws.RunInstancesInput{GroupIDs: []string{web}}).NetworkInterfaces[0].ID
	open := func() bool {
		return worldtest.Must[bool](t)(b.World.Passes(packet.Flow{Src: packet.End{Addr: netip.MustParseAddr("203.0.113.7")}, Dst: packet.End{NIC: nic}, Protocol: 6, Port: 80}))
	}
	if err := b.Allow(web, worldtest.TCP(80, "0.0.0.0/0")); err != nil || !open() {
		t.Fatalf("open %v, error %v", open(), err)
	}
	if err := b.World.SetEffects(effect.Delay{Bound: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := b.Region.Interfaces().ModifyNetworkInterfaceGroups(nic, []string{other}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Region.Groups().DeleteSecurityGroup(web, ""); err != nil {
		t.Fatal(err)
	}
	if !open() {
		t.Error("the interface has not seen its group go, and is closed")
	}
	if err := b.World.SetEffects(effect.Delay{}); err != nil || open() {
		t.Errorf("open %v, error %v", open(), err)
	}
	if err := b.World.SetEffects(effect.Delay{Bound: -1}); err == nil || !strings.Contains(err.Error(), "expected 0 to 1h0m0s") {
		t.Errorf("a negative delay: %v", err)
	}
}

// TestEffectsSaved: a saved state has the delay, which options override, and not what is on its
// way.
func TestEffectsSaved(t *testing.T) {
	d := effect.Delay{Bound: 5 * time.Second, Seed: 7}
	b := worldtest.New(t, world.Options{Effects: d})
	text := worldtest.Must[[]byte](t)(json.Marshal(b.World.State()))
	if !strings.Contains(string(text), `"effects":{"bound":"5s","seed":7}`) {
		t.Fatalf("%s", text)
	}
	var s aws.State
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	again := worldtest.Must[*world.World](t)(world.New(s, world.Options{}))
	other := worldtest.Must[*world.World](t)(world.New(s, world.Options{Effects: effect.Delay{Bound: 1}}))
	if got := []effect.Delay{again.State().Effects, other.State().Effects}; !reflect.DeepEqual(got, []effect.Delay{d, {Bound: 1}}) {
		t.Errorf("after loading: %v", got)
	}
	if _, err := world.New(aws.State{}, world.Options{Effects: effect.Delay{Bound: 2 * time.Hour}}); err == nil {
		t.Error("a world with a delay of two hours")
	}
	if text := string(worldtest.Must[[]byte](t)(json.Marshal(worldtest.New(t, world.Options{}).World.State()))); strings.Contains(text, "effects") {
		t.Error("a state without a delay speaks of one")
	}
}
