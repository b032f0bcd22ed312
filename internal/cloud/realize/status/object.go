package status

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// object.go reads and writes one object. outcome.go decides what is written.

// written identifies an object that we wrote to.
type written struct {
	kind string
	client.ObjectKey
}

// get reads an object to change it. It fails with errBehind if it gets the object as it was before
// our own last write: that it is already as it should be, or that it is not, would prove nothing.
func (s *Writer) get(ctx context.Context, key client.ObjectKey, obj client.Object) error {
	id := written{fmt.Sprintf("%T", obj), key}
	if err := s.Client.Get(ctx, key, obj); err != nil {
		if apierrors.IsNotFound(err) {
			delete(s.wrote, id)
		}
		return err
	}
	if s.wrote[id] == "" {
		return nil
	}
	if order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), s.wrote[id]); err == nil && order < 0 {
		return errBehind
	}
	delete(s.wrote, id) // from here on the cache does not fall back
	return nil
}

// update writes the status of an object that get returned; it is the one place of this package that
// does. Afterwards obj is as the API server returned it.
func (s *Writer) update(ctx context.Context, obj client.Object) error {
	obj.SetLabels(nil) // the API server keeps these, and would decode them for nothing
	obj.SetAnnotations(nil)
	if err := s.Client.Status().Update(ctx, obj); err != nil {
		return err
	}
	s.wrote[written{fmt.Sprintf("%T", obj), client.ObjectKeyFromObject(obj)}] = obj.GetResourceVersion()
	return nil
}
