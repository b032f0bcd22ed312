package watchstore

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// model is a naive second picture of what the store should hold; it makes the changes.
type model struct {
	policies map[string]*modelPolicy
	groups   map[Resource]map[string]*modelGroup
}

type modelPolicy struct {
	generation int64
	span       sets.Set[string]
}

type modelGroup struct {
	// members by entity name: where it is, its address and its port.
	members map[string]modelMember
	span    sets.Set[string]
}

type modelMember struct {
	host string
	ip   byte
	port int32
}

var hosts = []string{"", "a", "b", "c"}

func (m modelMember) member(r Resource, name string) *GivenMember {
	out := &GivenMember{GroupMember: v1beta2.GroupMember{
		ExternalEntity: &v1beta2.ExternalEntityReference{Name: name, Namespace: "ns"},
		Ports:          []v1beta2.NamedPort{{Name: "p", Port: m.port}},
	}}
	if r == AddressGroups {
		out.IPs = []v1beta2.IPAddress{{10, 0, 0, m.ip}}
	} else {
		out.Host = m.host
	}
	return out
}

// hostsOf is the span of an applied-to group.
func (g *modelGroup) hostsOf() sets.Set[string] {
	span := sets.New[string]()
	for _, m := range g.members {
		if m.host != "" {
			span.Insert(m.host)
		}
	}
	return span
}

func drawSpan(t *rapid.T) sets.Set[string] {
	return sets.New(rapid.SliceOfDistinct(rapid.SampledFrom(hosts[1:]), rapid.ID[string]).Draw(t, "span")...)
}

func (m *model) changePolicy(t *rapid.T) Changes {
	name := rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(t, "policy")
	p := &v1beta2.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		SourceRef:  &v1beta2.NetworkPolicyReference{Name: name},
	}
	old, ok := m.policies[name]
	if ok && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
		delete(m.policies, name)
		return Changes{Policies: []PolicyChange{{Policy: p, Removed: true, SpanRemoved: sets.List(old.span)}}}
	}
	next := &modelPolicy{generation: rapid.Int64Range(1, 5).Draw(t, "generation"), span: drawSpan(t)}
	m.policies[name] = next
	p.Generation = next.generation
	before := sets.New[string]()
	if ok {
		before = old.span
	}
	return Changes{Policies: []PolicyChange{{
		Policy: p, SpanAdded: sets.List(next.span.Difference(before)), SpanRemoved: sets.List(before.Difference(next.span)),
	}}}
}

func (m *model) changeGroup(t *rapid.T, r Resource) Changes {
	name := rapid.SampledFrom([]string{"g1", "g2"}).Draw(t, "group")
	old, ok := m.groups[r][name]
	c := GroupChange{Name: name, UID: types.UID(name)}
	if ok && rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
		delete(m.groups[r], name)
		c.Deleted, c.SpanRemoved = true, sets.List(old.span)
		return m.wrap(r, c)
	}
	if !ok {
		old = &modelGroup{members: map[string]modelMember{}, span: sets.New[string]()}
	}
	next := &modelGroup{members: maps.Clone(old.members), span: old.span}
	for _, entity := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID[string]).Draw(t, "entities") {
		if rapid.Bool().Draw(t, "leave") {
			delete(next.members, entity)
			continue
		}
		next.members[entity] = modelMember{
			host: rapid.SampledFrom(hosts).Draw(t, "host"), ip: rapid.ByteRange(1, 2).Draw(t, "ip"), port: rapid.Int32Range(1, 2).Draw(t, "port"),
		}
	}
	if r == AppliedToGroups {
		next.span = next.hostsOf()
	} else {
		next.span = drawSpan(t)
	}
	for _, entity := range slices.Sorted(maps.Keys(old.members)) {
		was := old.members[entity].member(r, entity)
		if n, still := next.members[entity]; !still || identity(n.member(r, entity).GroupMember) != identity(was.GroupMember) || n.host != was.Host && r == AppliedToGroups {
			c.Removed = append(c.Removed, was)
		}
	}
	for _, entity := range slices.Sorted(maps.Keys(next.members)) {
		if was, had := old.members[entity]; !had || was != next.members[entity] {
			c.Added = append(c.Added, next.members[entity].member(r, entity))
		}
	}
	c.SpanAdded, c.SpanRemoved = sets.List(next.span.Difference(old.span)), sets.List(old.span.Difference(next.span))
	m.groups[r][name] = next
	return m.wrap(r, c)
}

func (m *model) wrap(r Resource, c GroupChange) Changes {
	if r == AddressGroups {
		return Changes{AddressGroups: []GroupChange{c}}
	}
	return Changes{AppliedToGroups: []GroupChange{c}}
}

// listing prints what the model says a key should be given.
func (m *model) listing(r Resource, key string) string {
	c := newClient(r)
	for name, p := range m.policies {
		if r == NetworkPolicies && (key == "" || p.span.Has(key)) {
			c.policies[name] = &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: p.generation}}
		}
	}
	for name, g := range m.groups[r] {
		if key != "" && !g.span.Has(key) {
			continue
		}
		c.groups[name] = map[string]v1beta2.GroupMember{}
		for entity, x := range g.members {
			if r == AddressGroups || key == "" || x.host == key {
				c.groups[name][entity] = x.member(r, entity).GroupMember
			}
		}
	}
	return c.state()
}

// TestHistories drives watchers of every kind and key, which read when they like, through random
// histories. Each must see a legal stream, and in the end hold what the model says, which is what
// List says.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// With little room in an event, members follow one by one.
		s := New(Options{MaxEventBytes: rapid.SampledFrom([]int{0, 1, 250}).Draw(t, "room")})
		m := &model{policies: map[string]*modelPolicy{}, groups: map[Resource]map[string]*modelGroup{AddressGroups: {}, AppliedToGroups: {}}}
		type watching struct {
			*client
			w *Watcher
		}
		var watchers []watching
		open := func(r Resource, key string) {
			w, err := s.Watch(r, key)
			if err != nil {
				t.Fatal(err)
			}
			watchers = append(watchers, watching{newClient(r), w})
		}
		s.Publish(Changes{})
		for _, r := range Resources() {
			for _, key := range hosts {
				open(r, key)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				s.Publish(m.changePolicy(t))
			case 2, 3:
				s.Publish(m.changeGroup(t, AddressGroups))
			case 4, 5:
				s.Publish(m.changeGroup(t, AppliedToGroups))
			case 6:
				open(rapid.SampledFrom(Resources()).Draw(t, "resource"), rapid.SampledFrom(hosts).Draw(t, "key"))
			}
			for i := range watchers {
				if rapid.Bool().Draw(t, "read") {
					if err := watchers[i].drain(watchers[i].w); err != nil {
						t.Fatalf("%s for %q after %v: %v", watchers[i].w.Resource(), watchers[i].w.Key(), watchers[i].events, err)
					}
				}
			}
		}
		for _, c := range watchers {
			id := fmt.Sprintf("%s for %q", c.w.Resource(), c.w.Key())
			if err := c.drain(c.w); err != nil {
				t.Fatalf("%s after %v: %v", id, c.events, err)
			}
			want := m.listing(c.w.Resource(), c.w.Key())
			if got := c.state(); got != want {
				t.Fatalf("%s after %v holds\n%s\nwant\n%s", id, c.events, got, want)
			}
			listed, err := listing(s, c.w.Resource(), c.w.Key())
			if err != nil || listed != want {
				t.Fatalf("%s: List gives\n%s\nwant\n%s (%v)", id, listed, want, err)
			}
			c.w.Stop()
		}
		for _, r := range Resources() {
			if n := s.Watchers(r); n != 0 {
				t.Fatalf("%d watchers of %s are left", n, r)
			}
		}
	})
}
