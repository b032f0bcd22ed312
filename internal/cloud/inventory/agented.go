package inventory

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// agentDenied says why a VM that a selector of the namespace hands to an agent cannot be handed
// over; empty if it can. selecting is the number of namespaces that select it: an agent enforces
// the policies of its own entity only.
func (v view) agentDenied(namespace string, selecting int) string {
	switch {
	case selecting > 1:
		return "selectors of several namespaces select it, and an agent enforces for one of them only"
	case !v.hasSay(namespace):
		return "namespace " + namespace + " has no say in who guards it: " + needsSay(v.account, namespace)
	}
	return ""
}

// agentEntityName is the name that an ExternalEntity of an ExternalNode has, with Antrea as with
// us.
func agentEntityName(n *antreav1alpha1.ExternalNode) string {
	sum := sha1.Sum([]byte(n.Spec.Interfaces[0].Name))
	return fmt.Sprintf("%s-%s", n.Name, hex.EncodeToString(sum[:])[:5])
}

// letsIn reports whether the cloud lets in what the agent of an ExternalNode decides. The node
// stays until it does not any more: without it the agent would open what the cloud has open.
func (s *syncer) letsIn(node types.NamespacedName) bool {
	if s.gone || s.opts.LetsIn == nil || !s.opts.LetsIn(node.String()) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	return true
}
