package watchstore

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// hugeGroup is a change of a group by members from up to, but not including, to.
func hugeGroup(from, to int, keys ...string) GroupChange {
	c := GroupChange{Name: "g", UID: "g", SpanAdded: keys}
	for i := from; i < to; i++ {
		c.Added = append(c.Added, &GivenMember{Host: "a", GroupMember: v1beta2.GroupMember{
			Pod: &v1beta2.PodReference{Namespace: "namespace", Name: fmt.Sprintf("pod-%07d", i)},
			IPs: []v1beta2.IPAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, byte(i >> 16), byte(i >> 8), byte(i)}},
		}})
	}
	return c
}

// TestHugeGroupComesInPieces: a group too large for one event comes as ADDED and, after the
// bookmark, patches; so does a large change. What changes in between is told rightly, and other
// objects do not wait for the end of it.
func TestHugeGroupComesInPieces(t *testing.T) {
	const room = 20_000
	for _, r := range []Resource{AddressGroups, AppliedToGroups} {
		for _, key := range []string{"a", ""} {
			t.Run(fmt.Sprintf("%s for %q", r, key), func(t *testing.T) {
				s := New(Options{MaxEventBytes: room})
				publish := func(groups ...GroupChange) {
					if r == AddressGroups {
						s.Publish(Changes{AddressGroups: groups})
					} else {
						s.Publish(Changes{AppliedToGroups: groups})
					}
				}
				publish(hugeGroup(0, 1000, "a"))
				w := mustWatch(t, s, r, key)
				c := newClient(r)
				take := func() watch.Event {
					t.Helper()
					ev, ok, err := w.TryNext()
					if err != nil || !ok {
						t.Fatal("no event", err)
					}
					if data, err := json.Marshal(ev.Object); err != nil || len(data) > room+1000 {
						t.Fatalf("an event of %d bytes (%v)", len(data), err)
					}
					if err := c.receive(ev); err != nil {
						t.Fatal(err)
					}
					return ev
				}
				if ev := take(); ev.Type != watch.Added || len(c.groups["g"]) == 1000 || len(c.groups["g"]) == 0 {
					t.Fatalf("%s of %d members", ev.Type, len(c.groups["g"]))
				}
				if ev := take(); ev.Type != watch.Bookmark {
					t.Fatal(ev)
				}
				take()
				// What was given and what is still to be given both change, and another group
				// comes.
				removed := hugeGroup(0, 2).Added
				removed = append(removed, hugeGroup(998, 1000).Added...)
				publish(GroupChange{Name: "g", UID: "g", Added: hugeGroup(1000, 3000).Added, Removed: removed},
					GroupChange{Name: "other", UID: "other", Added: hugeGroup(0, 1).Added, SpanAdded: []string{"a"}})
				for range 3 {
					take()
				}
				if c.groups["other"] == nil {
					t.Fatal("another group has to wait")
				}
				if err := c.drain(w); err != nil {
					t.Fatal(err)
				}
				want, err := listing(s, r, key)
				if err != nil || c.state() != want {
					t.Fatalf("the receiver holds %d members, not what List returns (%v)", len(c.groups["g"]), err)
				}
				publish(GroupChange{Name: "g", UID: "g", Deleted: true, SpanRemoved: []string{"a"}})
				if ev := take(); ev.Type != watch.Deleted || c.groups["g"] != nil {
					t.Fatal(ev)
				}
			})
		}
	}
}

// BenchmarkHugeGroup delivers a group of two million members, while another watch and the writer go
// on; it reports how long these had to wait at most.
func BenchmarkHugeGroup(b *testing.B) {
	members := hugeGroup(0, 2_000_000, "a")
	for b.Loop() {
		s := New(Options{})
		s.Publish(Changes{AddressGroups: []GroupChange{members}})
		w, err := s.Watch(AddressGroups, "a")
		if err != nil {
			b.Fatal(err)
		}
		other, err := s.Watch(NetworkPolicies, "a")
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan int)
		go func() {
			n := 0
			for {
				ev, ok, err := w.TryNext()
				if err != nil || !ok {
					break
				}
				switch o := ev.Object.(type) {
				case *v1beta2.AddressGroup:
					n += len(o.GroupMembers)
				case *v1beta2.AddressGroupPatch:
					n += len(o.AddedGroupMembers)
				}
			}
			done <- n
		}()
		var longest time.Duration
		for i, delivered := int64(1), false; !delivered; i++ {
			begin := time.Now()
			s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed("p", i), SpanAdded: []string{"a"}}}})
			if _, err := other.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
			longest = max(longest, time.Since(begin))
			select {
			case n := <-done:
				if delivered = true; n != 2_000_000 {
					b.Fatalf("%d members were delivered", n)
				}
			default:
			}
		}
		b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest-wait")
		w.Stop()
		other.Stop()
	}
}
