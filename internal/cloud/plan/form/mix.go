package form

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// mix returns the mixed form: the largest blocks of which every address is a member's, except those
// that consist of the classes that some other block needs for itself alone; these classes are
// referred to.
func (s *Fitter) mix(view *intent.Network, c *peerCover) *peerCover {
	if c.mixed != nil {
		return c.mixed
	}
	classes := s.classCandidates(view)
	owner := newOwners(classes, c.used)
	blocks := c.all.Prefixes()
	inside := make([][]int, len(blocks)) // the classes with addresses in a block; -1 stands for none
	chosen := map[int]bool{}
	for i, p := range blocks {
		if inside[i] = owner.of(p); len(inside[i]) == 1 && inside[i][0] >= 0 {
			chosen[inside[i][0]] = true
		}
	}
	needed := func(i int) bool { return slices.ContainsFunc(inside[i], func(k int) bool { return !chosen[k] }) }
	out := &peerCover{all: c.all, used: slices.Sorted(maps.Keys(chosen))}
	for _, k := range out.used {
		out.peers = append(out.peers, classes[k].peer)
	}
	slices.SortFunc(out.peers, cloud.Peer.Compare)
	var rest []netip.Prefix
	for i, p := range blocks {
		if needed(i) {
			rest = append(rest, p)
		}
	}
	out.rest = addrset.OfPrefixes(rest...)
	c.mixed = out
	return out
}
