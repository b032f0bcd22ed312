package member

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/member/copies"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/policy"
)

// A cluster whose policies an Antrea Controller computes: what the hub has sent is written as
// objects of Antrea, and workloads of other clusters in peers as ExternalEntities.

// elsewhere are the Policies of a cluster whose policies are computed elsewhere.
type elsewhere struct{}

// PutRemote implements Policies.
func (elsewhere) PutRemote([]policy.Entity, []policy.EntityRef) {}

// PutOwnLabels implements Policies.
func (elsewhere) PutOwnLabels(map[string]string) {}

// PutPeerNotes implements Policies.
func (elsewhere) PutPeerNotes(map[string]string) {}

// FollowCopies implements Policies.
func (elsewhere) FollowCopies(func(client.Object, v1beta1.NetworkPolicyStatus)) {}

// inPlain writes a copy of a policy in the words of an Antrea Controller, and returns the objects
// that it names then.
func (m *Member) inPlain(object client.Object, needs []client.Object, uid string) ([]client.Object, error) {
	if m.entities == nil {
		return needs, nil
	}
	named := make([]metav1.Object, 0, len(needs))
	for _, o := range needs {
		named = append(named, o)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	made, err := plain.Policy(object, named, peers.Given(m.state.cluster, m.state.labels))
	if err != nil {
		return nil, copies.Refuse(copies.Rejected, "%s: %v", object.GetName(), err)
	}
	sources := make([]string, 0, len(made))
	for _, g := range made {
		sources = append(sources, g.Annotations[setv1alpha1.AnnotationSource])
		needs = append(needs, g)
	}
	m.ledger.Made(uid, sources)
	return needs, nil
}

// writeEntities brings the ExternalEntities in line with the members of remote groups, where an
// Antrea Controller computes the policies.
func (m *Member) writeEntities(ctx context.Context) error {
	if m.entities == nil {
		return nil
	}
	return m.entities.Write(ctx, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.ledger.Listed() || m.book.Expired()
	})
}
