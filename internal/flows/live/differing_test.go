package live

import (
	"fmt"
	"testing"
	"time"
)

// TestDisagreements: what leaks stands until ten minutes after the last of it, one for each rule at
// each enforcer. What may be old, what is denied and what has ended is none.
func TestDisagreements(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	add := func(enforcer string, now time.Time, differs string, by int32, port uint16, connections int64) {
		t.Helper()
		x := allowed(at["shop/web"], at["shop/db"], port, by)
		x.Differs, x.Connections = differs, connections
		if refused, err := s.Add(enforcer, report(now, x), concernsAll, now); refused != 0 || err != nil {
			t.Fatal(refused, err)
		}
	}
	want := func(now time.Time, want ...string) {
		t.Helper()
		var got []string
		for _, d := range s.Disagreements(now) {
			got = append(got, fmt.Sprintf("%s %s %s/%s %d from %s port %d", d.Enforcer, d.Differs, d.Cause.Namespace, d.Cause.Name, d.Connections, d.Client, d.Port))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %s: %q, want %q", now.Sub(begun), got, want)
		}
	}
	add("worker-1", begun, "", 0, 80, 1)
	add("worker-1", begun, "MayBeOld", 0, 80, 1)
	add("worker-1", begun, "Leaks", 0, 80, 0)
	want(begun)
	add("worker-1", begun, "Leaks", 0, 81, 2)
	add("worker-1", begun.Add(time.Second), "Leaks", 0, 82, 3)
	add("worker-2", begun.Add(time.Second), "Leaks", 0, 82, 1)
	add("worker-1", begun.Add(2*time.Second), "Leaks", 2, 82, 1)
	of1, of2, baseline := "worker-1 Leaks shop/db 5 from 10.0.0.1 port 81", "worker-2 Leaks shop/db 1 from 10.0.0.1 port 82", "worker-1 Leaks /baseline 1 from 10.0.0.1 port 82"
	want(begun.Add(10*time.Minute), of1, of2, baseline)
	want(begun.Add(10*time.Minute+2*time.Second), baseline)
	want(begun.Add(11 * time.Minute))
}

// TestManyDisagreements: an enforcer that reports very many leaves room for reports of others, and
// what is left out is counted.
func TestManyDisagreements(t *testing.T) {
	owners := NewOwners()
	at := machines(owners)
	s := New(owners, 0, begun)
	x := allowed(at["shop/web"], at["shop/db"], 80, 0)
	x.Differs = "Leaks"
	for i := range 200 {
		r := report(begun, x)
		r.Causes[0].Rule = fmt.Sprint(i)
		for _, enforcer := range []string{"worker-1", fmt.Sprint("vms/", i/4)} {
			if refused, err := s.Add(enforcer, r, concernsAll, begun); refused != 0 || err != nil {
				t.Fatal(refused, err)
			}
		}
	}
	of := map[string]int{}
	for _, d := range s.Disagreements(begun) {
		of[d.Enforcer]++
	}
	if of["worker-1"] != maxDifferingOfOne || len(of) != 51 || of["vms/49"] != 4 || s.Stats().Unalarmed != 150 {
		t.Errorf("%v, %d left out", of, s.Stats().Unalarmed)
	}
	if later := begun.Add(time.Hour); len(s.Disagreements(later)) != 0 || len(s.differing.of) != 0 {
		t.Error("they stand for ever")
	}
}
