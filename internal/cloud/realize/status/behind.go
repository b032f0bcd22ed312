package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// errBehind says that what the client reads is older than what is known: an object does not show
// our own last write yet, or is not there yet. That goes away by itself.
var errBehind = errors.New("the cache is behind")

// A report that could not be written whole because the cache is behind is written again after
// behindFirst, then twice as long each time, up to behindMost; after a failure it is failedPause.
const (
	behindFirst = 200 * time.Millisecond
	behindMost  = time.Minute
	failedPause = 5 * time.Second
)

// repetition is a report and how long it has been put off last.
type repetition struct {
	report Report
	pause  time.Duration
}

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

// update writes the status of an object that get returned, and reads what it is then into it.
func (s *Writer) update(ctx context.Context, obj client.Object) error {
	obj.SetLabels(nil) // the API server keeps these, and would decode them for nothing
	obj.SetAnnotations(nil)
	if err := s.Client.Status().Update(ctx, obj); err != nil {
		return err
	}
	s.wrote[written{fmt.Sprintf("%T", obj), client.ObjectKeyFromObject(obj)}] = obj.GetResourceVersion()
	return nil
}

// attempt writes a report and returns how long to wait until it is written again; 0 if it need not
// be.
func (s *Writer) attempt(ctx context.Context, a *accountStatus, r repetition) time.Duration {
	behind := false
	err := recovered.Call(func() (err error) {
		behind, err = s.write(ctx, a, r.report)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		s.Log.Error(err, "Status could not be written, will be repeated", "account", r.report.Account, "stack", recovered.StackOf(err))
		return failedPause
	case behind:
		return min(max(2*r.pause, behindFirst), behindMost)
	case s.owesChanges(a, r.report):
		return changesPause
	}
	return 0
}
