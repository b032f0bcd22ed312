package input

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// LeavesOut reports whether a policy is not to be computed: one that is staged, or that is for
// other clusters of the set.
func (in *Objects) LeavesOut(object metav1.Object) bool {
	_, spread := convert.Spread(object)
	return spread || !in.WithStaged && convert.Staged(object)
}

// Staged returns the policies that are staged, whether or not they are computed.
func (in *Objects) Staged() []analysis.Policy {
	var out []analysis.Policy
	for _, p := range in.Policies {
		if convert.Staged(p) {
			out = append(out, analysis.Policy{Type: string(policy.AntreaNetworkPolicy), Namespace: p.Namespace, Name: p.Name})
		}
	}
	for _, p := range in.ClusterPolicies {
		if convert.Staged(p) {
			out = append(out, analysis.Policy{Type: string(policy.AntreaClusterNetworkPolicy), Name: p.Name})
		}
	}
	return out
}
