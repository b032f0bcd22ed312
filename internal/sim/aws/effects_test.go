package aws

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/effect"
)

// TestEffects: each kind of edit comes to each interface within the bound, not to all at once, and
// what is there from the start is in force.
func TestEffects(t *testing.T) {
	const bound = 10 * time.Second
	type scene struct {
		*bench
		web, db string // groups
		nics    []string
		peer    string
		list    string
	}
	ask := func(s *scene, src, dst string, port int) bool {
		t.Helper()
		return must[bool](t)(s.w.Passes(Flow{Src: End{NIC: src}, Dst: End{NIC: dst}, Protocol: 6, Port: port}))
	}
	for _, c := range []struct {
		name   string
		edit   func(*scene) error
		passes func(s *scene, nic string) bool // asked of the receiving interfaces
		before bool
	}{
		{"a rule comes", func(s *scene) error { return s.allow(s.web, tcp(80, "0.0.0.0/0")) },
			func(s *scene, nic string) bool { return ask(s, s.peer, nic, 80) }, false},
		{"a rule goes", func(s *scene) error {
			_, err := s.r.Groups().RevokeSecurityGroup(RevokeInput{GroupID: s.web, Permissions: []Permission{tcp(22, "10.0.0.0/16")}})
			return err
		}, func(s *scene, nic string) bool { return ask(s, s.peer, nic, 22) }, true},
		{"a peer joins the group of a rule", func(s *scene) error {
			return s.r.Interfaces().ModifyNetworkInterfaceGroups(s.peer, []string{s.db, s.web})
		},
			func(s *scene, nic string) bool { return ask(s, s.peer, nic, 443) }, false},
		{"a peer leaves the group of a rule", func(s *scene) error { return s.r.Interfaces().ModifyNetworkInterfaceGroups(s.peer, []string{s.web}) },
			func(s *scene, nic string) bool { return ask(s, s.peer, nic, 5432) }, true},
		{"an entry of a list comes", func(s *scene) error {
			one := 1
			return err1(s.r.Lists().ModifyPrefixList(ModifyPrefixListInput{PrefixListID: s.list, CurrentVersion: &one, Add: []EntrySpec{{CIDR: "10.0.0.0/8"}}}))
		}, func(s *scene, nic string) bool { return ask(s, s.peer, nic, 8080) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scene{bench: newBench(t, Options{})}
			s.web, s.db = s.group("web"), s.group("db")
			list := must[PrefixList](t)(s.r.Lists().CreatePrefixList(CreatePrefixListInput{Name: "l", Family: "IPv4", MaxEntries: 5}))
			s.list = list.ID
			all := tcp(8080)
			all.PrefixLists = []PrefixListPeer{{PrefixListID: s.list}}
			if err := s.allow(s.web, tcp(22, "10.0.0.0/16"), fromGroup(tcp(443), s.web), fromGroup(tcp(5432), s.db), all); err != nil {
				t.Fatal(err)
			}
			s.peer = s.run(RunInstancesInput{GroupIDs: []string{s.db}}).NetworkInterfaces[0].ID
			if err := s.w.SetEffects(effect.Delay{Bound: bound, Seed: 1}); err != nil {
				t.Fatal(err)
			}
			for range 30 {
				s.nics = append(s.nics, s.run(RunInstancesInput{GroupIDs: []string{s.web}}).NetworkInterfaces[0].ID)
			}
			s.clock.advance(time.Second)
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
			s.clock.advance(bound / 2)
			if got := count(); got == 0 || got == len(s.nics) {
				t.Errorf("halfway %d of %d let it in", got, len(s.nics))
			}
			s.clock.advance(bound / 2)
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
	b := newBench(t, Options{})
	web, other := b.group("web"), b.group("other")
	nic := b.run(RunInstancesInput{GroupIDs: []string{web}}).NetworkInterfaces[0].ID
	open := func() bool {
		return must[bool](t)(b.w.Passes(Flow{Src: End{Addr: netip.MustParseAddr("203.0.113.7")}, Dst: End{NIC: nic}, Protocol: 6, Port: 80}))
	}
	if err := b.allow(web, tcp(80, "0.0.0.0/0")); err != nil || !open() {
		t.Fatalf("open %v, error %v", open(), err)
	}
	if err := b.w.SetEffects(effect.Delay{Bound: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := b.r.Interfaces().ModifyNetworkInterfaceGroups(nic, []string{other}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.r.Groups().DeleteSecurityGroup(web, ""); err != nil {
		t.Fatal(err)
	}
	if !open() {
		t.Error("the interface has not seen its group go, and is closed")
	}
	if err := b.w.SetEffects(effect.Delay{}); err != nil || open() {
		t.Errorf("open %v, error %v", open(), err)
	}
	if err := b.w.SetEffects(effect.Delay{Bound: -1}); err == nil || !strings.Contains(err.Error(), "expected 0 to 1h0m0s") {
		t.Errorf("a negative delay: %v", err)
	}
}

// TestEffectsSaved: a saved state has the delay, which options override, and not what is on its
// way.
func TestEffectsSaved(t *testing.T) {
	d := effect.Delay{Bound: 5 * time.Second, Seed: 7}
	b := newBench(t, Options{Effects: d})
	text := must[[]byte](t)(json.Marshal(b.w.State()))
	if !strings.Contains(string(text), `"effects":{"bound":"5s","seed":7}`) {
		t.Fatalf("%s", text)
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	again := must[*World](t)(New(s, Options{}))
	other := must[*World](t)(New(s, Options{Effects: effect.Delay{Bound: 1}}))
	if got := []effect.Delay{again.State().Effects, other.State().Effects}; !reflect.DeepEqual(got, []effect.Delay{d, {Bound: 1}}) {
		t.Errorf("after loading: %v", got)
	}
	if _, err := New(State{}, Options{Effects: effect.Delay{Bound: 2 * time.Hour}}); err == nil {
		t.Error("a world with a delay of two hours")
	}
	if text := string(must[[]byte](t)(json.Marshal(newBench(t, Options{}).w.State()))); strings.Contains(text, "effects") {
		t.Error("a state without a delay speaks of one")
	}
}
