package member

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// A cluster whose policies an Antrea Controller computes: what the hub has sent is written in its
// words, and who of other clusters is in peers as ExternalEntities.

// mostWriteRounds is how often ExternalEntities are written before it is told that they do not stay
// as they are written.
const mostWriteRounds = 3

// elsewhere are the Policies of a cluster whose policies are computed elsewhere.
type elsewhere struct{}

// PutRemote implements Policies.
func (elsewhere) PutRemote([]policy.Entity, []policy.EntityRef) {}

// PutOwnLabels implements Policies.
func (elsewhere) PutOwnLabels(map[string]string) {}

// PutPeerNotes implements Policies.
func (elsewhere) PutPeerNotes(map[string]string) {}

// putEntities takes over who is in remote groups. The caller holds the lock.
func (m *Member) putEntities(change *remote.Change) {
	if m.entities == nil {
		return
	}
	for i := range change.Put {
		m.entities.Put(&change.Put[i])
	}
	for _, ref := range change.Gone {
		m.entities.Drop(ref.Name)
	}
	wake(m.work)
}

// hearRemote takes over what has become of an ExternalEntity for workloads of other clusters: an
// edit is undone. The caller holds the lock.
func (m *Member) hearRemote(o *v1alpha2.ExternalEntity, gone bool) {
	if m.entities != nil {
		m.entities.Hear(o, gone)
		wake(m.work)
	}
}

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
		return nil, refuse(reasonRejected, "%s: %v", object.GetName(), err)
	}
	sources := make([]string, 0, len(made))
	for _, g := range made {
		sources = append(sources, g.Annotations[setv1alpha1.AnnotationSource])
		needs = append(needs, g)
	}
	m.made[uid] = sources
	return needs, nil
}

// writeEntities brings the ExternalEntities in line with who is in remote groups. Before the hub
// has told all, nobody goes who is there.
func (m *Member) writeEntities(ctx context.Context) error {
	if m.entities == nil {
		return nil
	}
	for range mostWriteRounds {
		m.mu.Lock()
		steps := m.entities.Steps(m.listed || m.book.Expired())
		m.mu.Unlock()
		if len(steps) == 0 {
			return nil
		}
		if err := m.ownNamespace(ctx); err != nil {
			return err
		}
		// One that is refused does not keep the others from being written. No address goes before
		// all are written that come, because a workload may move from one to another.
		var errs []error
		for _, s := range steps {
			if len(errs) > 0 && s.Loses {
				break
			}
			if err := m.writeEntity(ctx, s); err != nil {
				errs = append(errs, fmt.Errorf("ExternalEntity %s/%s, for workloads of other clusters: %w", s.Object.Namespace, s.Object.Name, err))
			}
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
	return fmt.Errorf("the ExternalEntities in Namespace %s do not stay as they are written: does somebody else write them?", plain.Namespace)
}

// ownNamespace makes the Namespace of the ExternalEntities.
func (m *Member) ownNamespace(ctx context.Context) error {
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plain.Namespace, Labels: map[string]string{setv1alpha1.LabelFromHub: "true"}}}
	have := &corev1.Namespace{}
	err := m.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		if err = m.Client.Create(ctx, want); err == nil {
			return nil
		}
		if apierrors.IsAlreadyExists(err) { // the cache does not know it yet
			err = m.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("make Namespace %s, for workloads of other clusters: %w", plain.Namespace, err)
	case !convert.FromHub(have):
		return fmt.Errorf("the Namespace %s is somebody else's (it lacks the label %s=true), and workloads of other clusters are to be written there: remove it",
			plain.Namespace, setv1alpha1.LabelFromHub)
	}
	return nil
}

func (m *Member) writeEntity(ctx context.Context, s plain.Step) error {
	want := s.Object
	have := &v1alpha2.ExternalEntity{}
	err := m.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	absent := apierrors.IsNotFound(err)
	if absent {
		err = nil
	}
	switch {
	case err != nil:
	case s.Gone && absent:
	case s.Gone:
		err = client.IgnoreNotFound(m.Client.Delete(ctx, have))
	case absent:
		have = want.DeepCopy()
		err = m.Client.Create(ctx, have)
	case !plain.Same(have, want):
		labels := maps.Clone(want.Labels)
		for k, v := range have.Labels {
			if !peers.Reserved(k) {
				labels[k] = v
			}
		}
		have.Labels, have.Spec = labels, *want.Spec.DeepCopy()
		err = m.Client.Update(ctx, have)
	}
	if apierrors.IsConflict(err) {
		return nil // somebody was faster: the next round looks again
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Gone {
		m.entities.Removed(want.Name)
	} else {
		m.entities.Wrote(have)
	}
	return nil
}
