package remote

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// TestNumbers: members of every form keep their text through groups, records and restarts, and
// nothing is kept of a member that is in no group.
func TestNumbers(t *testing.T) {
	members := []string{
		"0.0.0.0", "10.0.0.1", "10.0.0.1,10.0.0.2", "10.0.0.1;http/TCP=80", "10.0.0.1;http/TCP=81", "223.255.255.255", "224.0.0.0", "224.0.0.1", "255.255.255.255", "fd00::1",
	}
	texts := func(b *Book, group string) []string {
		var out []string
		for _, n := range b.groups[group]["east"] {
			out = append(out, b.text(n))
		}
		slices.Sort(out)
		return out
	}
	b := New(func(string) bool { return false })
	apply := func(group string, add, remove []string) {
		t.Helper()
		if err := b.Apply(&wire.Part{Group: group, Cluster: "east", Add: add, Remove: remove}); err != nil {
			t.Fatal(err)
		}
	}
	apply("g1", members, nil)
	apply("g2", members[3:], nil)
	if got := texts(b, "g1"); !slices.Equal(got, members) {
		t.Errorf("%v", got)
	}
	var entities []string
	for _, e := range b.Entities() {
		entities = append(entities, fmt.Sprintf("%s %v %d %d", e.Name, e.Addresses, len(e.Ports), len(e.Labels)))
	}
	want := []string{
		"0.0.0.0 [0.0.0.0] 0 1", "10.0.0.1 [10.0.0.1] 2 2", "10.0.0.1,10.0.0.2 [10.0.0.1 10.0.0.2] 0 1", "223.255.255.255 [223.255.255.255] 0 2", "224.0.0.0 [224.0.0.0] 0 2",
		"224.0.0.1 [224.0.0.1] 0 2", "255.255.255.255 [255.255.255.255] 0 2", "fd00::1 [fd00::1] 0 2",
	}
	if !slices.Equal(entities, want) {
		t.Errorf("%q", entities)
	}
	record, err := b.Record("g1")
	if err != nil {
		t.Fatal(err)
	}
	again := New(func(string) bool { return false })
	if err := again.Load("g1", record); err != nil || !slices.Equal(texts(again, "g1"), members) {
		t.Errorf("%v %v", texts(again, "g1"), err)
	}
	apply("g1", nil, members[4:])
	apply("g1", []string{"fd00::2"}, nil) // with a number that is free, or a new one
	if got := texts(b, "g2"); !slices.Equal(got, members[3:]) {
		t.Errorf("%v", got)
	}
	if got, want := texts(b, "g1"), append(slices.Clone(members[:4]), "fd00::2"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	b.Forget("g2")
	if got, want := texts(b, "g1"), append(slices.Clone(members[:4]), "fd00::2"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	apply("g1", []string{"fd00::3", "fd00::4"}, nil)
	if len(b.ids) != 5 || len(b.ids) != len(b.others) {
		t.Errorf("numbers of %v", b.others)
	}
	b.Forget("g1")
	if len(b.ids)+len(b.others)+len(b.within)+len(b.several)+len(b.texts) > 0 {
		t.Errorf("kept: %v %v %v %v %v", b.ids, b.others, b.within, b.several, b.texts)
	}
}

// TestBookIsWhatItWasTold plays random changes of overlapping groups, of several clusters each, and
// compares what a Book says with sets that know nothing of numbers.
func TestBookIsWhatItWasTold(t *testing.T) {
	clusters, groups := []string{"east", "north", "west"}, []string{"g1", "g2", "g3"}
	var texts []string
	for i := range 6 {
		at := fmt.Sprintf("10.0.0.%d", i)
		texts = append(texts, at, at+";http/TCP=80", at+";http/TCP=81", fmt.Sprintf("fd00::%d", i+1), at+",fd00::9")
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 35))
		b, sets := New(func(string) bool { return false }), map[string]map[string]map[string]bool{}
		entities := map[string]string{}
		for step := range 60 {
			group, cluster := groups[rng.IntN(len(groups))], clusters[rng.IntN(len(clusters))]
			some := func() (out []string) {
				for _, text := range texts {
					if rng.IntN(6) == 0 {
						out = append(out, text)
					}
				}
				return out
			}
			if sets[group] == nil {
				sets[group] = map[string]map[string]bool{}
			}
			if sets[group][cluster] == nil {
				sets[group][cluster] = map[string]bool{}
			}
			set := sets[group][cluster]
			switch rng.IntN(8) {
			case 0:
				b.Forget(group)
				delete(sets, group)
			case 1:
				b.Told(group, []string{cluster}, nil)
				sets[group] = map[string]map[string]bool{cluster: set, own: sets[group][own]}
			case 2:
				members := some()
				b.Own(group, append(members, members...))
				sets[group][own] = map[string]bool{}
				for _, text := range members {
					sets[group][own][text] = true
				}
			default:
				p := wire.Part{Group: group, Cluster: cluster, Whole: rng.IntN(3) == 0, Add: some(), Remove: some()}
				if err := b.Apply(&p); err != nil {
					t.Fatal(err)
				}
				if p.Whole {
					clear(set)
				}
				for _, text := range p.Add {
					set[text] = true
				}
				for _, text := range p.Remove {
					delete(set, text)
				}
			}
			change, _ := b.Take()
			for _, e := range change.Put {
				entities[e.Name] = said(e.Labels, len(e.Ports))
			}
			for _, r := range change.Gone {
				delete(entities, r.Name)
			}
			labels, ports := map[string]map[string]string{}, map[string]map[string]bool{}
			for group, parts := range sets {
				for _, part := range parts {
					for text := range part {
						at, port, _ := strings.Cut(text, ";")
						if labels[at] == nil {
							labels[at], ports[at] = map[string]string{}, map[string]bool{}
						}
						labels[at][group] = ""
						if port != "" {
							ports[at][port] = true
						}
					}
				}
			}
			want := map[string]string{}
			for at := range labels {
				want[at] = said(labels[at], len(ports[at]))
			}
			if !maps.Equal(entities, want) {
				t.Fatalf("seed %d, step %d: entities %v, want %v", seed, step, entities, want)
			}
		}
	}
}

func said(labels map[string]string, ports int) string {
	return fmt.Sprint(slices.Sorted(maps.Keys(labels)), ports)
}
