// Package external writes workloads of other clusters as ExternalEntities, for a member whose
// policies an Antrea Controller computes.
//
// It owns the Namespace of these objects and all of them in it; package plain says what is in each.
// It promises:
//
//   - No address goes before all are written that come, because a workload may move from one object
//     to another.
//   - An object that is refused does not keep the others from being written.
//   - An edit is undone. Objects and Namespaces of others are never touched.
//
// All methods may be called from anywhere. The lock is held for no call to others.
package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

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
)

// mostWriteRounds is how often ExternalEntities are written before it is reported that they do not
// stay as they are written.
const mostWriteRounds = 3

// Options are what a Writer needs. All are required.
type Options struct {
	// Client reads from a cache, and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
}

// Writer writes ExternalEntities. See the package comment; use New.
type Writer struct {
	Options

	mu       sync.Mutex
	entities *plain.Entities
}

// New returns a Writer that knows of no objects.
func New(o Options) *Writer { return &Writer{Options: o, entities: plain.NewEntities()} }

// Load takes over what there is when the process begins.
func (w *Writer) Load(all []v1alpha2.ExternalEntity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entities.Load(all)
}

// Put takes over what has changed in remote groups.
func (w *Writer) Put(change *remote.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range change.Put {
		w.entities.Put(&change.Put[i])
	}
	for _, ref := range change.Gone {
		w.entities.Drop(ref.Name)
	}
}

// Hear takes over what has become of an object.
func (w *Writer) Hear(o *v1alpha2.ExternalEntity, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entities.Hear(o, gone)
}

func (w *Writer) steps(complete bool) []plain.Step {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entities.Steps(complete)
}

// Write brings the ExternalEntities in line with the members of remote groups. While complete says
// that the hub has not told all, no member goes that is there.
func (w *Writer) Write(ctx context.Context, complete func() bool) error {
	for range mostWriteRounds {
		steps := w.steps(complete())
		if len(steps) == 0 {
			return nil
		}
		if err := w.ownNamespace(ctx); err != nil {
			return err
		}
		// One that is refused does not keep the others from being written. No address goes before
		// all are written that come, because a workload may move from one to another.
		var errs []error
		for _, s := range steps {
			if len(errs) > 0 && s.Loses {
				break
			}
			if err := w.write(ctx, s); err != nil {
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
func (w *Writer) ownNamespace(ctx context.Context) error {
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plain.Namespace, Labels: map[string]string{setv1alpha1.LabelFromHub: "true"}}}
	have := &corev1.Namespace{}
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		if err = w.Client.Create(ctx, want); err == nil {
			return nil
		}
		if apierrors.IsAlreadyExists(err) { // the cache does not know it yet
			err = w.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
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

func (w *Writer) write(ctx context.Context, s plain.Step) error {
	want := s.Object
	have := &v1alpha2.ExternalEntity{}
	err := w.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	absent := apierrors.IsNotFound(err)
	if absent {
		err = nil
	}
	switch {
	case err != nil:
	case s.Gone && absent:
	case s.Gone:
		err = client.IgnoreNotFound(w.Client.Delete(ctx, have))
	case absent:
		have = want.DeepCopy()
		err = w.Client.Create(ctx, have)
	case !plain.Same(have, want):
		labels := maps.Clone(want.Labels)
		for k, v := range have.Labels {
			if !peers.Reserved(k) {
				labels[k] = v
			}
		}
		have.Labels, have.Spec = labels, *want.Spec.DeepCopy()
		err = w.Client.Update(ctx, have)
	}
	if apierrors.IsConflict(err) {
		return nil // somebody was faster: the next round looks again
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Gone {
		w.entities.Removed(want.Name)
	} else {
		w.entities.Wrote(have)
	}
	return nil
}
