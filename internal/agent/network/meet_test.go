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
	p := Peer{Name: "b", At: netip.MustParseAddr("192.0.2.2"), Port: 4789}
	for m, want := range map[Met]string{{true, true}: "", {true, false}: "packets of 1450 bytes do not come to Node b", {}: "UDP port 4789 may be blocked between 192.0.2.1 and 192.0.2.2"} {
		if got := p.Trouble(m, netip.MustParseAddr("192.0.2.1"), 1450); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}
