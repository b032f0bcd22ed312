package watchstore

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// manyObjects are so many policies and address groups for the key a that watches begin with a run.
func manyObjects(n int) Changes {
	var all Changes
	for i := range n {
		g := hugeGroup(i, i+2, "a")
		g.Name = fmt.Sprint("g", i)
		all.AddressGroups = append(all.AddressGroups, g)
		all.Policies = append(all.Policies, PolicyChange{Policy: policyNamed(fmt.Sprint("p", i), 1), SpanAdded: []string{"a"}})
	}
	return all
}

// TestRunsAreWhatIsListed: watches that begin with the same many objects, at different times and
// with different appetites, hold what is listed in the end, whatever changes while they begin.
func TestRunsAreWhatIsListed(t *testing.T) {
	const objects, rounds = 3*pieceLength + 5, 150
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		// Some members do not fit into one event, so that some pieces are no pieces.
		s := New(Options{MaxEventBytes: 600})
		s.Publish(manyObjects(objects))
		type pair struct {
			*Watcher
			*client
		}
		var all []pair
		var scratch Scratch
		begin := func() {
			for _, r := range []Resource{NetworkPolicies, AddressGroups} {
				all = append(all, pair{mustWatch(t, s, r, "a"), newClient(r)})
			}
		}
		begin()
		for round := range rounds {
			p := all[random.IntN(len(all))]
			into := make([]Event, 1+random.IntN(100))
			events, err := p.take(into, 1+random.IntN(2*pieceLength))
			if err != nil {
				t.Fatal(err)
			}
			i := random.IntN(objects)
			switch random.IntN(12) {
			case 0:
				begin()
			case 1:
				s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed(fmt.Sprint("p", i), int64(round))}}})
			case 2:
				s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed(fmt.Sprint("p", i), 1), Removed: true}}})
			case 3:
				g := hugeGroup(i, i+1+random.IntN(9))
				g.Name = fmt.Sprint("g", i)
				s.Publish(Changes{AddressGroups: []GroupChange{g}})
			case 4:
				s.Publish(Changes{AddressGroups: []GroupChange{{Name: fmt.Sprint("g", i), Deleted: true}}})
			case 5, 6, 7:
				var leave Changes // the first member of all groups
				for i := range objects {
					name := fmt.Sprint("g", i)
					leave.AddressGroups = append(leave.AddressGroups, GroupChange{Name: name, UID: types.UID(name), Removed: hugeGroup(i, i+1).Added})
				}
				s.Publish(leave)
			}
			// What was taken is what there was then, in a scratch as well.
			for _, e := range events {
				viewed, _ := e.View(&scratch)
				if !reflect.DeepEqual(viewed, e.Object()) {
					t.Fatalf("seed %d, round %d: %v in a scratch is %v", seed, round, e.Object(), viewed)
				}
				if err := p.receive(watch.Event{Type: e.Type, Object: e.Object()}); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
		}
		for _, p := range all {
			if err := p.drain(p.Watcher); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			want, err := listing(s, p.client.resource, "a")
			if err != nil || p.state() != want || !p.bookmarked {
				t.Fatalf("seed %d: a receiver does not hold what is listed (%v)", seed, err)
			}
		}
		if len(s.runs)+len(s.rendered) != 0 {
			t.Fatalf("%d runs and %d objects are kept for nobody", len(s.runs), len(s.rendered))
		}
	}
}

// TestRunIsMadeOnce: watchers that begin with the same get the same events, which are made once
// however many watchers there are.
func TestRunIsMadeOnce(t *testing.T) {
	s := New(Options{})
	s.Publish(manyObjects(2 * pieceLength))
	first, second := mustWatch(t, s, NetworkPolicies, "a"), mustWatch(t, s, NetworkPolicies, "a")
	for range 2 {
		a, errA := first.TryTake(make([]Event, 2*pieceLength))
		b, errB := second.TryTake(make([]Event, 2*pieceLength))
		if len(a) != pieceLength || len(b) != pieceLength || errA != nil || errB != nil {
			t.Fatalf("%d and %d events (%v, %v)", len(a), len(b), errA, errB)
		}
		for i := range a {
			if a[i].Object() != b[i].Object() || a[i].Frames() == nil {
				t.Fatalf("event %d is made twice", i)
			}
		}
	}
}
