package network

import (
	"net/netip"
	"strings"
	"testing"
)

// TestMeet: only answers to questions are answers, and none is larger than its question.
func TestMeet(t *testing.T) {
	for _, size := range []int{0, 20, 1422} {
		q := Question(7, size)
		a := AnswerTo(q)
		if n, got, ok := ParseAnswer(a); !ok || n != 7 || got != len(q) || len(q) != max(size, 20) || len(a) > len(q) {
			t.Errorf("%d: %d %d %t", size, n, got, ok)
		}
		if AnswerTo(a) != nil {
			t.Error("an answer is answered: two Nodes would never end")
		}
	}
	for _, text := range []string{"", "nephele?", "nephele?1234567", strings.Repeat("x", 100), "nephele!" + strings.Repeat("x", 13)} {
		if AnswerTo([]byte(text)) != nil {
			t.Errorf("%q is answered", text)
		}
		if _, _, ok := ParseAnswer([]byte(text)); ok {
			t.Errorf("%q is an answer", text)
		}
	}
	local := netip.MustParseAddr("192.0.2.1")
	for _, sealed := range []struct {
		by       string
		port     uint16
		silent   []string // what is said of a Node that does not answer
		tooLarge string
	}{
		{"", 4789, []string{"does not answer by VXLAN", "UDP port 4789 may be blocked between 192.0.2.1 and 192.0.2.2"}, "packets of 1450 bytes do not come to Node b"},
		{byName(false), 51820, []string{"by WireGuard", "UDP port 51820", "another key than it tells"}, "packets of 1450 bytes do not come to Node b"},
		{byName(true), 4500, []string{"by IPsec", "UDP port 4500", "charon may be away there or here or believe another authority"}, "packets of 1450 bytes do not come to Node b"},
	} {
		p := Peer{Name: "b", At: netip.MustParseAddr("192.0.2.2"), Port: sealed.port, Sealed: sealed.by}
		if got := p.Trouble(Met{true, true}, local, 1450); got != "" {
			t.Errorf("%s: a Node that answers: %q", sealed.by, got)
		}
		if got := p.Trouble(Met{Small: true}, local, 1450); !strings.Contains(got, sealed.tooLarge) {
			t.Errorf("%s: large packets do not come: %q", sealed.by, got)
		}
		got := p.Trouble(Met{}, local, 1450)
		for _, want := range sealed.silent {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no packet comes: %q, want %q", sealed.by, got, want)
			}
		}
		if sealed.by != byName(true) && strings.Contains(got, "charon") || sealed.by != byName(false) && strings.Contains(got, "another key") {
			t.Errorf("%s: it blames what is not there: %q", sealed.by, got)
		}
	}
}
