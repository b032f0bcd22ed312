package hub

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// TestClaimedGroups: what a member has from this hub stays however it grows, what it only says it
// has is bounded, too.
func TestClaimedGroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                   string
		given, claims          bool
		size, members, claimed int
		refused                bool
	}{
		{name: "small", size: 1},
		{name: "as large as it may be", size: mostMembers},
		{name: "too large", size: mostMembers + 1, refused: true},
		{name: "the last that fits", size: mostMembers, members: mostAskedMembers - mostMembers},
		{name: "one too many in all", size: mostMembers, members: mostAskedMembers - mostMembers + 1, refused: true},
		{name: "given, and has grown", given: true, size: 10 * mostClaimedMembers, members: mostAskedMembers, claimed: mostClaimedMembers},
		{name: "claimed, and has grown", claims: true, size: 2 * mostMembers, members: mostAskedMembers},
		{name: "everything is claimed", claims: true, size: mostMembers, claimed: mostClaimedMembers - mostMembers + 1, refused: true},
	} {
		if got := tooBroad(c.given, c.claims, c.size, c.members, c.claimed); (got != "") != c.refused {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// connected is a hub with one member, and its session.
func connected() (*Hub, *member, *session) {
	h := New(Options{Log: logr.Discard()})
	s := &session{news: make(chan struct{}, 1), asked: map[uint64]chan wire.Answer{}}
	m := &member{cluster: &setv1alpha1.Cluster{}, session: s, stream: "epoch/1"}
	h.clusters["east"] = m
	return h, m, s
}

// TestQuestionsFit: questions about many flows that wait together do not make a record that is too
// long, which would end the stream, and one that is too long by itself is not put.
func TestQuestionsFit(t *testing.T) {
	t.Parallel()
	h, _, s := connected()
	about := func(flows, length int) wire.Question {
		return wire.Question{Side: "Egress", Flows: slices.Repeat([]json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", length-2) + `"`)}, flows)}
	}
	if _, _, _, err := h.post("east", about(wire.MostFlows, 1000)); err == nil || !strings.Contains(err.Error(), "ask about fewer") {
		t.Error(err)
	}
	const put = 20
	for range put {
		if _, _, _, err := h.post("east", about(wire.MostFlows, 200)); err != nil {
			t.Fatal(err)
		}
	}
	told := 0
	for {
		asked := s.toAsk()
		if len(asked) == 0 {
			break
		}
		told += len(asked)
		if err := wire.Write(io.Discard, &wire.Down{Questions: asked}); err != nil {
			t.Fatal(len(asked), err)
		}
	}
	if told != put {
		t.Errorf("%d questions were told, want %d", told, put)
	}
}

// TestPanicForgets: a stream that has made the hub panic is not gone on with: half of a record may
// count.
func TestPanicForgets(t *testing.T) {
	t.Parallel()
	h, m, s := connected()
	if err := h.survive("east", s, func() error { return errors.New("of the line") }); err == nil || m.stream == "" {
		t.Error("a line that breaks:", err, m.stream)
	}
	if err := h.survive("east", s, func() error { panic("of a record") }); err == nil || m.stream != "" {
		t.Error("a panic:", err, m.stream)
	}
}

// TestPaceOf: whatever makes the hub go through all that a member has told or asked for is paced.
func TestPaceOf(t *testing.T) {
	t.Parallel()
	for want, up := range map[int]*wire.Up{
		0:                      {Gone: []wire.Ref{{Kind: wire.Node, Name: "n"}}},
		1:                      {Interests: make([]wire.Interest, 1)},
		3:                      {Interests: make([]wire.Interest, 1), GoneInterests: make([]string, 2)},
		listingAsInterests:     {Listed: true},
		listingAsInterests + 1: {Listed: true, Interests: make([]wire.Interest, 1)},
	} {
		if got := paceOf(up); got != want {
			t.Errorf("%+v: %d, want %d", up, got, want)
		}
	}
}
