package watchstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAgenda: an agenda of any length behaves like a list in which one looks for things.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := make([]*entry, rapid.SampledFrom([]int{3, 20, 400}).Draw(t, "objects"))
		for i := range objects {
			objects[i] = &entry{}
		}
		var a agenda
		var want []duty
		for range rapid.IntRange(1, 30).Draw(t, "turns") {
			for range rapid.IntRange(0, 60).Draw(t, "puts") {
				e := rapid.SampledFrom(objects).Draw(t, "object")
				s := rapid.SampledFrom([]step{add, modify, drop}).Draw(t, "step")
				i := slices.IndexFunc(want, func(d duty) bool { return d.entry == e })
				if found := a.find(e); (found != nil) != (i >= 0) {
					t.Fatalf("found %v, want place %d", found, i)
				} else if found != nil {
					*found, want[i].delivery = delivery{step: s}, delivery{step: s}
					continue
				}
				a.put(e, delivery{step: s})
				want = append(want, duty{e, delivery{step: s}})
			}
			for range rapid.IntRange(0, 60).Draw(t, "takes") {
				if len(want) == 0 {
					break
				}
				if first := *a.first(); first != want[0] || a.pop() != first {
					t.Fatalf("first %v, want %v", first, want[0])
				}
				want = want[1:]
			}
			if a.len() != len(want) || (a.first() == nil) != (len(want) == 0) {
				t.Fatalf("%d are left, want %d", a.len(), len(want))
			}
			if len(want) == 0 && (a.places != nil || cap(a.list) > largeAgenda) {
				t.Fatal("an empty agenda keeps what a long one needed")
			}
		}
	})
}

// TestContextsOfOneWatch: a receiver may wait with one context after another; only the one it waits
// with counts, and nothing is left of them when the watch ends.
func TestContextsOfOneWatch(t *testing.T) {
	s := New(Options{})
	s.Publish(Changes{})
	w := mustWatch(t, s, NetworkPolicies, "a")
	if err := newClient(NetworkPolicies).drain(w); err != nil {
		t.Fatal(err)
	}
	former, endFormer := context.WithCancel(t.Context())
	short, cancel := context.WithTimeout(former, time.Millisecond)
	defer cancel()
	if _, err := w.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		_, err := w.Next(t.Context())
		got <- err
	}()
	endFormer()
	s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed("p", 1), SpanAdded: []string{"a"}}}})
	if err := <-got; err != nil {
		t.Fatalf("a context that is not used any more ends the wait: %v", err)
	}
	go func() {
		_, err := w.Next(context.WithoutCancel(t.Context()))
		got <- err
	}()
	w.Stop()
	if err := <-got; !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	if w.heed.stop != nil || w.heed.to(t.Context(), w) {
		t.Fatal("a watch that has ended heeds a context")
	}
}
