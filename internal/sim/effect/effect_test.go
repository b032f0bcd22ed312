package effect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// hand is a clock that tests move.
type hand struct{ t time.Time }

func (h *hand) now() time.Time { return h.t }

func start() *hand { return &hand{time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)} }

// TestSeen: before an edit may be in force nobody sees it, after the bound everybody does, and of
// two edits of a part the later one stays.
func TestSeen(t *testing.T) {
	const bound = 10 * time.Second
	old, next, last := Parts{"a": 1}, Parts{"a": 2, "b": 1}, Parts{"b": 1}
	h := start()
	l := New(Delay{bound, 7}, h.now)
	if got := l.Seen("v", "g", old); !reflect.DeepEqual(got, old) || l.Pending("g") {
		t.Fatalf("without an edit: %v", got)
	}
	l.Record("g", old, next)
	l.Record("g", next, last)
	l.Record("new", nil, last)
	l.Record("same", old, Parts{"a": 1})
	if got := l.Wholes(); !slices.Equal(got, []string{"g"}) {
		t.Fatalf("under way: %v", got)
	}
	possible := []Parts{old, next, {"b": 1}, {}}
	firsts := map[string]bool{}
	for v := range 200 {
		viewer := fmt.Sprint("v", v)
		ended := false
		h.t = start().t
		for range 11 {
			got := l.Seen(viewer, "g", last)
			if !slices.ContainsFunc(possible, func(p Parts) bool { return reflect.DeepEqual(p, got) }) {
				t.Fatalf("%s sees %v", viewer, got)
			}
			if isLast := reflect.DeepEqual(got, last); ended && !isLast {
				t.Fatalf("%s sees %v after %v", viewer, got, last)
			} else if isLast {
				ended = true
			}
			firsts[fmt.Sprint(got)] = true
			h.t = h.t.Add(time.Second)
		}
		if got := l.Seen(viewer, "g", last); !reflect.DeepEqual(got, last) {
			t.Fatalf("after the bound %s sees %v", viewer, got)
		}
	}
	for _, p := range []Parts{old, next, {}, last} { // {}: the second edit has come and the first one has not
		if !firsts[fmt.Sprint(p)] {
			t.Errorf("nobody ever saw %v", p)
		}
	}
	h.t = start().t
	l.Record("g", last, nil)
	if got := l.Seen("v", "g", nil); len(got) == 0 {
		t.Error("what is gone is gone for everybody at once")
	}
	l.Set(Delay{})
	if l.Keeps() || l.Pending("g") || l.Wholes() != nil {
		t.Error("without a delay something is on its way")
	}
	var none *Log
	if none.Keeps() || none.Pending("g") {
		t.Error("no log keeps something")
	}
}

// arrival is an edit on its way to one viewer.
type arrival struct {
	at      time.Time
	serial  uint64
	viewer  string
	whole   string
	changes Parts // nil values go
}

// TestSeenLikeMessages compares the log with messages that travel: each edit is sent to each
// viewer, which keeps for each part the value of the latest edit that has come.
func TestSeenLikeMessages(t *testing.T) {
	const bound = time.Second
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := start()
		d := Delay{bound, seed}
		l := New(d, h.now)
		truth := map[string]Parts{"g": {"p0": 0}, "h": {}}
		type value struct {
			serial uint64
			v      any
		}
		viewers := map[string]map[string]map[string]value{} // viewer, whole, part
		for _, v := range []string{"x", "y", "z"} {
			viewers[v] = map[string]map[string]value{"g": {"p0": {0, 0}}, "h": {}}
		}
		var road []arrival
		serial := uint64(0)
		for range 60 {
			h.t = h.t.Add(time.Duration(r.Int64N(int64(bound) / 3)))
			whole := []string{"g", "h"}[r.IntN(2)]
			before, after, sent := truth[whole], maps.Clone(truth[whole]), Parts{}
			for range 1 + r.IntN(2) {
				part := fmt.Sprint("p", r.IntN(3))
				if after[part] != nil && r.IntN(2) == 0 {
					delete(after, part)
				} else {
					after[part] = r.IntN(3)
				}
				if sent[part] = after[part]; reflect.DeepEqual(before[part], after[part]) {
					delete(sent, part)
				}
			}
			l.Record(whole, before, after)
			truth[whole] = after
			if len(sent) > 0 {
				serial++
				for v := range viewers {
					road = append(road, arrival{h.t.Add(d.of(serial, v)), serial, v, whole, sent})
				}
			}
			h.t = h.t.Add(time.Duration(r.Int64N(int64(bound) / 3)))
			road = slices.DeleteFunc(road, func(a arrival) bool {
				if a.at.After(h.t) {
					return false
				}
				for part, v := range a.changes {
					if knows := viewers[a.viewer][a.whole]; a.serial > knows[part].serial {
						knows[part] = value{a.serial, v}
					}
				}
				return true
			})
			for v, wholes := range viewers {
				for whole, parts := range wholes {
					want := Parts{}
					for part, x := range parts {
						if x.v != nil {
							want[part] = x.v
						}
					}
					if got := l.Seen(v, whole, truth[whole]); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d: %s sees %v of %s, by messages %v", seed, v, got, whole, want)
					}
				}
			}
		}
	}
}

// TestDelays: they are spread over the whole range, differ by viewer, edit and seed, and are the
// same each time.
func TestDelays(t *testing.T) {
	d := Delay{Bound: 9, Seed: 3}
	counts := map[time.Duration]int{}
	for serial := range uint64(1000) {
		counts[d.of(serial, "v")]++
	}
	for k := range time.Duration(10) {
		if counts[k] < 50 {
			t.Errorf("%d of 1000 edits take %d of 0 to 9", counts[k], k)
		}
	}
	wide, same := Delay{Bound: MaxDelay, Seed: 3}, Delay{Bound: MaxDelay, Seed: 3}
	if wide.of(1, "v") != same.of(1, "v") || wide.of(1, "v") == wide.of(1, "w") || wide.of(1, "v") == wide.of(2, "v") || wide.of(1, "v") == (Delay{MaxDelay, 4}).of(1, "v") {
		t.Error("delays are not functions of seed, edit and viewer")
	}
}

// TestDelayText reads and writes delays as a saved state has them, and refuses absurd ones.
func TestDelayText(t *testing.T) {
	text, err := json.Marshal(Delay{5 * time.Second, 7})
	if err != nil || string(text) != `{"bound":"5s","seed":7}` {
		t.Fatalf("%s, %v", text, err)
	}
	var d Delay
	if err := json.Unmarshal(text, &d); err != nil || d != (Delay{5 * time.Second, 7}) {
		t.Fatalf("%v, %v", d, err)
	}
	for _, c := range []struct{ text, want string }{
		{`{"bound":"-1s"}`, "expected 0 to 1h0m0s"},
		{`{"bound":"2h"}`, "expected 0 to 1h0m0s"},
		{`{"bound":"soon"}`, "invalid duration"},
		{`{"bound":5}`, "cannot unmarshal"},
		{`{"bound":"1s","seed":-1}`, "cannot unmarshal"},
	} {
		if err := json.Unmarshal([]byte(c.text), &d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}
