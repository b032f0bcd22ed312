package design

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Addresses returns what a rule's peer will mean; known is false for peers whose members cannot be
// seen.
func (s *Designer) Addresses(p cloud.Peer, view *intent.Network) (then addrset.Set, known bool) {
	switch key := form.GroupKey(p); {
	case key == "":
		return s.Region.Named(p)
	case p.GroupID != "" && s.Region.Groups[p.GroupID] == nil:
		return addrset.Set{}, false
	default:
		return s.fitter.ThenAddrs(key, view), true
	}
}

// hashOf is the hash of what is the same for a class in the end.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

// shortID is a short form of the cluster id that may stand in a group's name.
func shortID(clusterID string) string {
	sum := sha256.Sum256([]byte(clusterID))
	return hex.EncodeToString(sum[:3])
}

// addPeers adds the address groups that the rules of a VM name as peers.
func addPeers(to map[string]bool, vm *guard.VM) {
	for _, r := range vm.InForce() {
		for _, g := range r.Groups {
			to[g] = true
		}
	}
}
