package hub

import "testing"

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
