package inventory

import (
	"k8s.io/apimachinery/pkg/types"
)

// letsIn reports whether the cloud lets in what the agent of an ExternalNode decides. The node
// stays until it does not any more: without it the agent would open what the cloud has open.
func (s *syncer) letsIn(node types.NamespacedName) bool {
	if s.gone || s.loop.opts.LetsIn == nil || !s.loop.opts.LetsIn(node.String()) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	return true
}
