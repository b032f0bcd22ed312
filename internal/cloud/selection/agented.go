package selection

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
)

// agentDenied says why a VM that a selector of the namespace hands to an agent cannot be handed
// over; empty if it can. selecting is the number of namespaces that select it: an agent enforces
// the policies of its own entity only.
func (v View) agentDenied(namespace string, selecting int) string {
	switch {
	case selecting > 1:
		return "selectors of several namespaces select it, and an agent enforces for one of them only"
	case !v.hasSay(namespace):
		return "namespace " + namespace + " has no say in what guards it: " + needsSay(v.Account, namespace)
	}
	return ""
}

// agentEntityName is the name that an ExternalEntity of an ExternalNode has, with Antrea as with
// us.
func agentEntityName(n *antreav1alpha1.ExternalNode) string {
	sum := sha1.Sum([]byte(n.Spec.Interfaces[0].Name))
	return fmt.Sprintf("%s-%s", n.Name, hex.EncodeToString(sum[:])[:5])
}
