package show

import (
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// TestSetText: an answer in halves names the cluster of each half, and a cluster that has not
// answered.
func TestSetText(t *testing.T) {
	rule := &v1alpha1.Rule{Policy: v1alpha1.Policy{Type: "AntreaClusterNetworkPolicy", Name: "hub-db-from-web"}, Direction: "In", Name: "web", Action: "Allow"}
	got := SetExplanation(&v1alpha1.FlowAnswer{
		From: v1alpha1.End{Title: "east:shop/web"}, To: v1alpha1.End{Title: "west:shop/db\x1b"}, Protocol: "TCP", Port: 5432, Verdict: "Unknown",
		Reason: "half an answer: east: it cannot be reached", Notes: []string{"a note"},
		Halves: []v1alpha1.FlowHalf{
			{Cluster: "east", Side: "Egress", Why: "it cannot be reached"},
			{Cluster: "west", Side: "Ingress", To: v1alpha1.End{Enforcer: "n1"}, Decision: &v1alpha1.Decision{Outcome: "Allow", DecidedBy: rule}},
		},
	})
	const want = `east:shop/web -> west:shop/db\x1b, TCP 5432: Unknown
  half an answer: east: it cannot be reached
  note: a note
  egress  east: not known: it cannot be reached
  ingress west: Allow: rule "web" (AntreaClusterNetworkPolicy hub-db-from-web, tier 0, priority 0, rule 0)
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
