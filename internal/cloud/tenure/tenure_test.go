package tenure

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	beat  = 15 * time.Second
	pause = 2 * time.Second
)

var midnight = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return midnight.Add(time.Duration(seconds) * time.Second) }

// TestTenure plays what one instance, "us", reads at which second, and what it comes to. The former
// instance of the cluster is "past", and had counted to 7. A step is "SECOND MARK", where the mark
// is the epoch and sequence joined by a slash, or "-" for none; "SECOND mark" writes ours, "SECOND
// refused" is refused it, "SECOND take EPOCH" takes over, "SECOND silence" reads nothing.
func TestTenure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		ended   bool
		stopped string
		steps   string
		want    []string // after each step: state, may or not, and what is told of the other one
	}{
		{"a network of a former version", false, "", "0 -; 0 mark; 1 us/1; 2 us/1", []string{"Sole no", "Sole no", "Sole no", "Sole may"}},
		{"the last one has ended", true, "", "0 past/7; 0 mark; 2 us/1", []string{"Sole no", "Sole no", "Sole may"}},
		{"the last one has died", false, "", "0 past/7; 14 past/7; 15 past/7; 15 mark; 17 us/1",
			[]string{"Waiting no past", "Waiting no past", "Sole no", "Sole no", "Sole may"}},
		{"it died between its record and the cloud", false, "", "0 past/6; 15 past/6; 15 mark; 17 us/1", []string{"Waiting no past", "Sole no", "Sole no", "Sole may"}},
		{"it lives", false, "", "0 past/6; 10 past/7; 16 past/7; 20 past/8; 60 past/8",
			[]string{"Waiting no past", "Waiting no past", "Waiting no past", "Stopped no past", "Stopped no past"}},
		{"it has gone on elsewhere, and lives", false, "", "0 past/90; 10 past/91", []string{"Waiting no past", "Stopped no past"}},
		{"it has gone on elsewhere, and is gone", false, "", "0 past/90; 15 past/90; 44 past/90; 45 past/90; 45 mark; 47 us/1",
			[]string{"Waiting no past", "Waiting no past", "Waiting no past", "Sole no succeeded past", "Sole no succeeded past", "Sole may succeeded past"}},
		{"it has gone on elsewhere and ended there, and the record says ended", true, "", "0 past/90; 44 past/90", []string{"Waiting no past", "Waiting no past"}},
		{"another live instance", true, "", "0 else/3; 8 else/4", []string{"Waiting no else", "Stopped no else"}},
		{"another instance with slow heartbeats", true, "", "0 else/3/60s; 45 else/3/60s; 179 else/3/60s; 180 else/4/60s",
			[]string{"Waiting no else", "Waiting no else", "Waiting no else", "Stopped no else"}},
		{"another instance that begins again", true, "", "0 else/3; 40 other/1", []string{"Waiting no else", "Stopped no other"}},
		{"somebody writes over our mark", true, "", "0 past/7; 0 mark; 2 us/1; 10 else/1; 90 else/1", []string{"Sole no", "Sole no", "Sole may", "Stopped no else", "Stopped no else"}},
		{"two begin at once, the other one later", true, "", "0 past/7; 0 mark; 2 twin/1", []string{"Sole no", "Sole no", "Stopped no twin"}},
		{"the cloud shows a former mark once more", true, "", "0 past/7; 0 mark; 2 us/1; 3 past/7; 3 mark; 4 us/1; 5 us/1",
			[]string{"Sole no", "Sole no", "Sole may", "Sole no", "Sole no", "Sole no", "Sole may"}},
		{"our mark is removed by hand", true, "", "0 -; 0 mark; 2 us/1; 5 -; 5 mark; 7 us/1", []string{"Sole no", "Sole no", "Sole may", "Sole no", "Sole no", "Sole may"}},
		{"something is written that is no mark", true, "", "0 us; 0 mark; 2 us/1; 5 two_words/x; 5 mark; 7 us/1",
			[]string{"Sole no", "Sole no", "Sole may", "Sole no", "Sole no", "Sole may"}},
		{"our mark did not get there", true, "", "0 past/7; 0 mark; 2 past/7; 3 mark; 4 us/1; 5 us/1", []string{"Sole no", "Sole no", "Sole no", "Sole no", "Sole no", "Sole may"}},
		{"nothing can be read for a heartbeat", true, "", "0 -; 0 mark; 2 us/1; 17 silence; 18 silence; 19 us/1",
			[]string{"Sole no", "Sole no", "Sole may", "Sole may", "Sole no", "Sole may"}},
		{"marking is refused", true, "", "0 -; 0 refused; 5 -; 10 else/1", []string{"Sole no", "Sole may unmarked", "Sole may unmarked", "Stopped no unmarked else"}},
		{"marking is refused, and a stranger lives", true, "", "0 else/1; 0 refused; 10 else/2",
			[]string{"Waiting no else", "Waiting no unmarked else", "Stopped no unmarked else"}},
		{"stopped before a restart", true, "else", "0 else/5; 1 take past; 60 past/7; 61 other/9; 62 take else; 63 take other; 63 other/9; 63 mark; 77 us/1; 78 us/1",
			[]string{"Stopped no else", "Stopped no else", "Stopped no else", "Stopped no other", "Stopped no other", "Waiting no other", "Sole no", "Sole no", "Sole no", "Sole may"}},
		{"stopped for good, though the other one is gone", true, "", "0 -; 0 mark; 2 us/1; 9 else/1; 99 else/1; 200 -", []string{"Sole no", "Sole no", "Sole may", "Stopped no else", "Stopped no else", "Stopped no else"}},
		{"taking over from one that writes once more", true, "else", "0 else/5; 1 take else; 1 else/5; 1 mark; 2 else/6; 2 mark; 10 us/1; 17 us/2; 20 us/2; 30 else/7",
			[]string{"Stopped no else", "Waiting no else", "Sole no", "Sole no", "Sole no", "Sole no", "Sole no", "Sole may", "Sole may", "Stopped no else"}},
		{"taking over where marking is refused", true, "", "0 else/1; 1 else/2; 1 take else; 2 else/2; 2 refused; 60 else/2; 61 else/3",
			[]string{"Waiting no else", "Stopped no else", "Waiting no else", "Sole no", "Sole may unmarked", "Sole may unmarked succeeded else", "Stopped no unmarked else succeeded else"}},
		{"taking over from one that does not give in", true, "else", "0 else/5; 1 take else; 2 else/5; 2 mark; 20 else/6; 20 mark; 47 else/7",
			[]string{"Stopped no else", "Waiting no else", "Sole no", "Sole no", "Sole no", "Sole no", "Stopped no else"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := New(Rules{Epoch: "us", Heartbeat: beat, Pause: pause}, Record{Line: []Mark{{"past", 7, beat}}, Ended: c.ended}, c.stopped)
			for i, step := range strings.Split(c.steps, "; ") {
				words := strings.Fields(step)
				second, err := strconv.Atoi(words[0])
				if err != nil {
					t.Fatal(err)
				}
				now := at(second)
				switch words[1] {
				case "mark":
					if ids := u.ToMark("here"); len(ids) != 1 {
						t.Errorf("%s: to mark %v", step, ids)
					}
					u.Marked("here", now, "vpc")
				case "refused":
					u.Refused("here", "vpc")
				case "take":
					u.TakeOver(words[2], now)
				case "silence":
				default:
					u.Read("here", now, now, map[string]string{"vpc": strings.ReplaceAll(strings.Trim(words[1], "-"), "/", " ")})
				}
				got := string(u.State(now)) + " no"
				if u.May("here", now, "vpc") {
					got = string(u.State(now)) + " may"
				}
				if u.Unmarked() {
					got += " unmarked"
				}
				if other, _ := u.Other(); other != "" {
					got += " " + other
				}
				if by := u.Succeeded(); by != "" {
					got += " succeeded " + by
				}
				if got != c.want[i] {
					t.Errorf("%s: %s, want %s", step, got, c.want[i])
				}
				if u.State(now) != Sole && len(u.ToMark("here")) > 0 {
					t.Errorf("%s: it would mark %v", step, u.ToMark("here"))
				}
			}
		})
	}
}

// TestNetworksOfAnAccount: one network that is not ours keeps the account waiting, a region that
// cannot be read keeps nobody else waiting for long.
func TestNetworksOfAnAccount(t *testing.T) {
	t.Parallel()
	u := New(Rules{Epoch: "us", Heartbeat: beat, Pause: pause}, Record{}, "")
	if !u.May("here", at(0)) {
		t.Error("where nothing is claimed, nothing is to be waited for")
	}
	if u.May("here", at(0), "vpc-1") {
		t.Error("a claimed network that was not read is not ours")
	}
	own := map[string]string{"vpc-1": ""}
	u.Read("here", at(0), at(0), own)
	u.Marked("here", at(0), "vpc-1")
	own["vpc-1"] = "us 1"
	u.Read("here", at(2), at(2), own)
	if !u.May("here", at(2), "vpc-1") || u.May("here", at(2), "vpc-1", "vpc-2") {
		t.Error("it is about the networks that are named")
	}
	u.Read("there", at(3), at(3), map[string]string{"vpc-3": "else 1"})
	if u.May("here", at(3), "vpc-1") {
		t.Error("somebody may be alive in the other region")
	}
	if other, n := u.Other(); other != "else" || n != (Network{"there", "vpc-3"}) {
		t.Errorf("%s %v", other, n)
	}
	u.Read("here", at(50), at(50), own) // the other region cannot be read any more
	if !u.May("here", at(50), "vpc-1") {
		t.Error("a region that cannot be read keeps the other one waiting")
	}
	u.Claimed("here", at(51), "vpc-4")
	if u.May("here", at(51), "vpc-1", "vpc-4") {
		t.Error("a network that was just claimed may be somebody else's")
	}
	u.Marked("here", at(51), "vpc-4")
	own["vpc-4"] = "us 1"
	u.Read("here", at(53), at(53), own)
	if !u.May("here", at(53), "vpc-1", "vpc-4") {
		t.Error("the claim stands")
	}
	u.Read("near", at(53), at(53), map[string]string{"vpc-5": ""})
	near := Network{"near", "vpc-5"}
	if u.Carries(near) || !u.Carries(Network{"here", "vpc-1"}) {
		t.Error("the mark is where it was read")
	}
	if u.Marked("near", at(53), "vpc-5"); !u.Carries(near) {
		t.Error("it may be where it was written")
	}
	delete(own, "vpc-4")
	u.Read("here", at(54), at(54), own)
	if ids := u.ToMark("here"); len(ids) != 1 {
		t.Errorf("a network that is not claimed any more is marked: %v", ids)
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Mark{
		"abc 7 15s":        {"abc", 7, 15 * time.Second},
		"abc 7":            {"abc", 7, 0},
		"abc 7 soon":       {"abc", 7, 0},
		"abc 7 -3s":        {"abc", 7, 0},
		"abc 7 9000h":      {"abc", 7, LongestHeartbeat},
		"abc 7 1m0s more ": {"abc", 7, time.Minute},
		"":                 {},
		"abc":              {},
		"abc -7":           {},
		"a/c 7":            {},
		strings.Repeat("a", longestEpoch+1) + " 7": {},
		"abc 99999999999999999999":                 {},
	} {
		got, ok := ParseMark(text)
		if got != want || ok != (want != Mark{}) {
			t.Errorf("%q: %+v %t", text, got, ok)
		}
	}
	m := Mark{"abc", 7, 90 * time.Second}
	if got, ok := ParseMark(m.String()); !ok || got != m {
		t.Errorf("%s: %+v", m, got)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	r := Record{Stopped: map[string]string{"ns/a": "else"}}
	for i := range 2 * mostLine {
		r = r.Led(Mark{"e" + strconv.Itoa(i), 1, beat})
		r = r.Led(Mark{"e" + strconv.Itoa(i), 2, beat})
	}
	if len(r.Line) != mostLine || r.Line[0] != (Mark{"e63", 2, beat}) || r.Line[1].Epoch != "e62" || r.Ended {
		t.Errorf("%+v", r)
	}
	r.Ended = true
	back := ParseRecord(r.Data())
	if len(back.Line) != mostLine || back.Line[1] != r.Line[1] || !back.Ended || back.Stopped["ns/a"] != "else" || len(back.Stopped) != 1 {
		t.Errorf("%+v", back)
	}
	if again := r.Led(Mark{"new", 1, beat}); again.Ended || again.Stopped["ns/a"] != "else" || !again.Follows("e63") || again.Follows("new") || again.Follows("stranger") {
		t.Errorf("%+v", again)
	}
	odd := ParseRecord(map[string]string{"instances": "? ?\nabc 7\n\n", "ended": "perhaps", "stopped": "ns/a\nns/b else\nns/c a/b\nns/d e f\n"})
	if len(odd.Line) != 1 || odd.Ended || len(odd.Stopped) != 1 || odd.Stopped["ns/b"] != "else" {
		t.Errorf("%+v", odd)
	}
}

func TestCandidacy(t *testing.T) {
	t.Parallel()
	line := func(sequence uint64) Record { return Record{Line: []Mark{{"past", sequence, beat}}} }
	c := Candidacy{Rules: Rules{Epoch: "us", Heartbeat: beat / 3}}
	for i, step := range []struct {
		second int
		record Record
		want   bool
	}{
		{0, line(3), false}, {10, line(3), false}, {14, line(4), false}, {28, line(4), false}, {29, line(4), true},
	} {
		if got := c.Saw(step.record, at(step.second), at(step.second)); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
	for name, r := range map[string]Record{"none": {}, "ended": {Line: []Mark{{"past", 3, beat}}, Ended: true}, "ours": {Line: []Mark{{"us", 3, beat}}}} {
		if c := (Candidacy{Rules: Rules{Epoch: "us", Heartbeat: beat}}); !c.Saw(r, at(0), at(0)) {
			t.Errorf("%s: it waits", name)
		}
	}
}
