package control

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestHistories gives random histories of changes to the engine, publishes the deltas, and has
// clients of every enforcer key follow the streams, reading when they like. In the end each holds
// what List returns, which is what an oracle that shares no code with the engine computes from the
// last state of the world.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := policytest.Draw(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		engine, world, store := compute.New(compute.Options{}), policytest.NewWorld(), watchstore.New(watchstore.Options{})
		var followers []*follower
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for range rapid.IntRange(1, 4).Draw(t, "batch") {
				object := draw.Object()
				if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
					policytest.Delete(engine, object)
					world.Delete(object)
				} else {
					policytest.Put(engine, object)
					world.Put(object)
				}
			}
			store.Publish(convert.Delta(engine.Commit()))
			if followers == nil {
				followers = follow(t, store, hostsOf(world))
			}
			for _, f := range followers {
				if rapid.Bool().Draw(t, "read") {
					f.read(t)
				}
			}
		}
		want := policytest.Compute(world)
		for _, f := range followers {
			f.read(t)
			listed, _, err := store.List(f.watcher.Resource(), f.watcher.Key())
			if err != nil {
				t.Fatal(err)
			}
			serve := serveListing(want, f.watcher.Resource(), f.watcher.Key())
			if got := printAll(listed); got != serve {
				t.Fatalf("%s for %q: List gives\n%s\nwant\n%s", f.watcher.Resource(), f.watcher.Key(), got, serve)
			}
			if got, serve := withoutUIDs(f.print()), withoutUIDs(serve); got != serve {
				t.Fatalf("%s for %q: after %v a client holds\n%s\nwant\n%s", f.watcher.Resource(), f.watcher.Key(), f.events, got, serve)
			}
		}
	})
}

// groupUID is the uid of a Group in the line of a computed group.
var groupUID = regexp.MustCompile(`(?m)^(\S+) uid-\S+ `)

// withoutUIDs leaves out what a client is not told: that a Group is another one of the same name
// with the same members.
func withoutUIDs(printed string) string { return groupUID.ReplaceAllString(printed, "$1 ") }

// hostsOf are enforcer keys to watch: those that the world has by now, nobody's, and all.
func hostsOf(w *policytest.World) []string {
	keys := []string{"", "nobody"}
	for _, e := range w.Entities {
		keys = append(keys, e.Host)
		if e.Kind == policy.KindNode {
			keys = append(keys, e.Name)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// follower is a client of one watch that takes nothing but what an Antrea Agent would take.
type follower struct {
	watcher    *watchstore.Watcher
	bookmarked bool
	objects    map[string]runtime.Object
	events     []string
}

func follow(t *rapid.T, s *watchstore.Store, keys []string) []*follower {
	var out []*follower
	for _, r := range watchstore.Resources() {
		for _, key := range keys {
			w, err := s.Watch(r, key)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, &follower{watcher: w, objects: map[string]runtime.Object{}})
		}
	}
	return out
}

func (f *follower) read(t *rapid.T) {
	for {
		ev, ok, err := f.watcher.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		f.take(t, ev)
	}
}

func (f *follower) take(t *rapid.T, ev watch.Event) {
	m, err := meta.Accessor(ev.Object)
	if err != nil {
		t.Fatal(err)
	}
	name := m.GetName()
	f.events = append(f.events, fmt.Sprintf("%s %s", ev.Type, name))
	held, known := f.objects[name]
	switch {
	case ev.Type == watch.Bookmark && !f.bookmarked:
		f.bookmarked = true
	case ev.Type == watch.Added && !known:
		f.objects[name] = ev.Object
	case ev.Type == watch.Deleted && known && f.bookmarked:
		delete(f.objects, name)
	case ev.Type == watch.Modified && known && f.bookmarked:
		f.objects[name] = patched(held, ev.Object)
	default:
		t.Fatalf("%s for %q: an agent would drop the watch at the last of %v", f.watcher.Resource(), f.watcher.Key(), f.events)
	}
}

// patched applies what MODIFIED carries.
func patched(held, change runtime.Object) runtime.Object {
	switch c := change.(type) {
	case *v1beta2.AddressGroupPatch:
		g := held.(*v1beta2.AddressGroup).DeepCopy()
		g.GroupMembers = merge(g.GroupMembers, c.AddedGroupMembers, c.RemovedGroupMembers)
		return g
	case *v1beta2.AppliedToGroupPatch:
		g := held.(*v1beta2.AppliedToGroup).DeepCopy()
		g.GroupMembers = merge(g.GroupMembers, c.AddedGroupMembers, c.RemovedGroupMembers)
		return g
	}
	return change
}

func merge(members, added, removed []v1beta2.GroupMember) []v1beta2.GroupMember {
	set := map[string]v1beta2.GroupMember{}
	for _, m := range append(members, added...) {
		set[identity(m)] = m
	}
	for _, m := range removed {
		delete(set, identity(m))
	}
	var out []v1beta2.GroupMember
	for _, m := range set {
		out = append(out, m)
	}
	return out
}

// identity is what an agent tells members apart by.
func identity(m v1beta2.GroupMember) string {
	m.Ports = nil
	if len(m.IPs) > 0 {
		m.Node = nil
	}
	return text(m)
}

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (f *follower) print() string {
	var list []runtime.Object
	for _, o := range f.objects {
		list = append(list, o)
	}
	return printAll(list)
}

// printAll prints objects without revisions, and members in one order.
func printAll(objects []runtime.Object) string {
	var lines []string
	for _, o := range objects {
		switch o := o.(type) {
		case *v1beta2.NetworkPolicy:
			p := *o
			p.ResourceVersion = ""
			lines = append(lines, text(p))
		case *v1beta2.AddressGroup:
			lines = append(lines, o.Name+" "+string(o.UID)+" "+printMembers(o.GroupMembers))
		case *v1beta2.AppliedToGroup:
			lines = append(lines, o.Name+" "+string(o.UID)+" "+printMembers(o.GroupMembers))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func printMembers(members []v1beta2.GroupMember) string {
	var out []string
	for _, m := range members {
		out = append(out, text(m))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// serveListing is what a key should be given of a listing.
func serveListing(l *policy.Listing, r watchstore.Resource, key string) string {
	var out []runtime.Object
	concerns := func(span []string) bool { return key == "" || slices.Contains(span, key) }
	switch r {
	case watchstore.NetworkPolicies:
		for _, p := range l.Policies {
			if concerns(p.Span) {
				out = append(out, convert.ComputedPolicy(p.ComputedPolicy))
			}
		}
	case watchstore.AddressGroups:
		for _, g := range l.AddressGroups {
			if concerns(g.Span) {
				o := &v1beta2.AddressGroup{}
				o.Name, o.UID, o.GroupMembers = g.Name, uidOf(g), servedMembers(g, "")
				out = append(out, o)
			}
		}
	case watchstore.AppliedToGroups:
		for _, g := range l.AppliedToGroups {
			if concerns(g.Span) {
				o := &v1beta2.AppliedToGroup{}
				o.Name, o.UID, o.GroupMembers = g.Name, uidOf(g), servedMembers(g, key)
				out = append(out, o)
			}
		}
	}
	return printAll(out)
}

func servedMembers(g policy.ComputedGroup, key string) []v1beta2.GroupMember {
	var out []v1beta2.GroupMember
	seen := map[string]bool{}
	for _, m := range g.Members {
		// Of Nodes with the same addresses, which an agent cannot tell apart, the first stands for
		// all.
		if c := convert.GroupMember(g.Role, m); (key == "" || m.On(key)) && !seen[identity(c)] {
			seen[identity(c)] = true
			out = append(out, c)
		}
	}
	return out
}

func uidOf(g policy.ComputedGroup) types.UID { return types.UID(g.UID) }
