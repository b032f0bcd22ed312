package clusterset_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
)

// mapText is a map as a text, with the names of classes in place of their keys.
func mapText(m *analysis.ReachMap) string {
	names := map[string]string{}
	for _, n := range m.Nodes {
		names[n.Key] = fmt.Sprintf("%s:%s*%d", n.Cluster, n.Label, n.Count)
	}
	var out []string
	for _, e := range m.Edges {
		out = append(out, fmt.Sprintf("%s -> %s %s: %s by %s", names[e.From], names[e.To], e.Traffic, e.Verdict, e.By))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestMapOfSet: on the map of the set each cluster decides at its own ends, by classes of workloads
// that are alike; one that does not answer, or answers nonsense or too much, is named, and what
// hangs on it is not known.
func TestMapOfSet(t *testing.T) {
	s := newSet(t, "east", "west")
	s.pod("east", "web-1", "web", "10.1.0.5")
	s.pod("east", "web-2", "web", "10.1.0.6")
	s.pod("west", "db", "db", "10.2.0.7")
	for name, n := range map[string]int32{"east": 2, "west": 1} {
		s.until(name+" is known", func() (bool, any) { c := s.cluster(name); return c.Status.Entities == n, c.Status })
	}
	asked := func(spec analysis.ReachReviewSpec) string {
		t.Helper()
		spec.Grouped = true
		a, err := s.reach(spec)
		if err != nil {
			return "wrong: " + err.Error()
		}
		return strings.Join(append([]string{mapText(a.Map)}, a.Unread...), "\n| ")
	}
	all := analysis.ReachReviewSpec{From: "*:*/*"}
	const within, across = "east:web*2 -> east:web*2 everything: Allow by Nobody", "east:web*2 -> west:db*1 tcp 5432: Allow by Policies\nwest:db*1 -> east:web*2 tcp 5432: Allow by Policies"
	if got, want := asked(all), within+"\n"+across; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := asked(analysis.ReachReviewSpec{From: "east:*/*", To: "west:shop/db", Port: "80", Refused: true}), "east:web*2 -> west:db*1 tcp 80: Drop by Policies"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	answer, err := s.reach(analysis.ReachReviewSpec{From: "*:*/*", Grouped: true})
	s.must(err)
	n := answer.Map.Nodes[0]
	if n.Cluster != "east" || n.Namespace != "shop" || n.Kind != analysis.NodePod || !slices.Equal(n.Members, []string{"east:pod/shop/web-1", "east:pod/shop/web-2"}) ||
		len(n.Policies) != 1 || n.Policies[0].Cluster != "east" || !slices.Equal(n.Isolated, []string{"In"}) {
		t.Errorf("%+v", n)
	}
	for want, spec := range map[string]analysis.ReachReviewSpec{
		"wrong: spec.from":              {From: "*:a=b=c/*"},
		`wrong: spec.port "x"`:          {From: "*:*/*", Port: "x"},
		`wrong: spec.protocol "y"`:      {From: "*:*/*", Protocol: "y"},
		"addresses are not on the map":  {From: "192.0.2.1", To: "west:shop/db"},
		"rows, or for a map":            {From: "*:*/*", Members: "c-1"},
		`there is no Cluster "south"`:   {From: "south:*/*"},
		"no cluster has told of a work": {From: "east:none/*"},
	} {
		if got := asked(spec); !strings.Contains(got, want) {
			t.Errorf("%+v: %s, want %s", spec, got, want)
		}
	}

	// A flood is no answer, and makes nothing else unknown.
	west := s.sides["west"]
	west.answers = func(*setmap.Question) (json.RawMessage, error) {
		west.answers = nil
		return json.RawMessage(`{"of":"` + strings.Repeat("x", 200<<10) + `"}`), nil
	}
	// East lets nothing in but to 5432, so the rest is known.
	const unknown = within + "\neast:web*2 -> west:db*1 everything: Unknown by Unknown\nwest:db*1 -> east:web*2 tcp 5432: Unknown by Unknown\n| west: its answer is none: it is too long"
	if got := asked(all); got != unknown {
		t.Errorf("%s\nwant\n%s", got, unknown)
	}

	// Dead without a word, and not willing.
	line := s.sides["east"].line
	line.set(func() { line.held = true })
	const half = "east:web*2 -> east:web*2 everything: Unknown by Unknown\neast:web*2 -> west:db*1 tcp 5432: Unknown by Unknown\nwest:db*1 -> east:web*2 everything: Unknown by Unknown\n| east: it has not answered within 5s"
	if got := asked(all); got != half {
		t.Errorf("%s\nwant\n%s", got, half)
	}
	line.set(func() { line.held = false })
	s.until("east answers again", func() (bool, any) { got := asked(all); return got == within+"\n"+across, got })
	var m setv1alpha1.Membership
	s.must(west.Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
	no := false
	m.Spec.Accept.Questions = &no
	s.must(west.Update(t.Context(), &m))
	s.until("west answers nothing", func() (bool, any) {
		got := asked(all)
		return strings.HasSuffix(got, "\n| west: it says: its Membership answers no questions"), got
	})
}

// TestMapBehindMasquerade: a cluster that sees another one's Pods by an address that they share is
// asked about that address; without a known one, nothing is known there.
func TestMapBehindMasquerade(t *testing.T) {
	s := newSet(t, "east", "west")
	s.pod("east", "web", "web", "10.1.0.5")
	s.pod("west", "db", "db", "10.2.0.7")
	for _, name := range []string{"east", "west"} {
		s.until(name+" is known", func() (bool, any) { c := s.cluster(name); return c.Status.Entities == 1, c.Status })
	}
	var from []string
	west := s.sides["west"]
	west.answers = func(q *setmap.Question) (json.RawMessage, error) {
		west.answers = nil
		defer func(was func(*setmap.Question) (json.RawMessage, error)) { west.answers = was }(west.answers)
		from = nil
		for _, a := range q.From {
			from = append(from, a.String())
		}
		return west.Sides(t.Context(), q)
	}
	again := west.answers
	asked := func() (string, []string) {
		west.answers = again
		a, err := s.reach(analysis.ReachReviewSpec{From: "east:*/*", To: "west:*/*", Grouped: true})
		s.must(err)
		return mapText(a.Map), a.Unread
	}
	for _, c := range []struct {
		seen       *setv1alpha1.SeenAs
		from, want string
		unknown    bool
	}{
		{nil, "10.1.0.5", "east:web*1 -> west:db*1 tcp 5432: Allow by Policies", false},
		{&setv1alpha1.SeenAs{To: "0.0.0.0/0", As: setv1alpha1.SeenEgress, Addresses: []string{"203.0.113.7"}}, "203.0.113.7", "east:web*1 -> west:db*1 tcp 5432: Allow by Policies", false},
		{&setv1alpha1.SeenAs{To: "0.0.0.0/0", As: setv1alpha1.SeenNode}, "", "east:web*1 -> west:db*1 everything: Unknown by Unknown", true},
	} {
		s.amend("east", func(spec *setv1alpha1.ClusterSpec) {
			if spec.SeenAs = nil; c.seen != nil {
				spec.SeenAs = []setv1alpha1.SeenAs{*c.seen}
			}
		})
		s.until("it is seen so", func() (bool, any) {
			got, unread := asked()
			return got == c.want && strings.Join(from, ",") == c.from && (len(unread) == 1 && strings.Contains(unread[0], "it is not known by which address")) == c.unknown, fmt.Sprint(got, unread, from)
		})
	}
}
