package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/system/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Write writes a support bundle, a tar.gz; lines of logs before since are left out unless it is
// zero. It bounds what it writes.
type Write func(ctx context.Context, w io.Writer, since time.Time) error

const (
	// bundleStays is for how long a bundle can be downloaded, as with Antrea.
	bundleStays = time.Hour
	// bundleType is what a bundle is when it is downloaded.
	bundleType = "application/tar+gz"
)

// Storage serves the one SupportBundle of the controller. One is made at a time, and one is kept,
// in memory.
type Storage struct {
	storage.Resource
	write Write
	clock clock.WithTicker
	log   logr.Logger

	mu  sync.Mutex
	now *v1beta1.SupportBundle // never changed, only replaced
	// packed is the bundle, once it is collected.
	packed []byte
	// end ends the making or the keeping of it, and ended tells that this is done.
	end   context.CancelFunc
	ended chan struct{}
}

var (
	_ rest.Getter          = (*Storage)(nil)
	_ rest.Creater         = (*Storage)(nil)
	_ rest.GracefulDeleter = (*Storage)(nil)
)

func supportBundles() schema.GroupResource {
	return schema.GroupResource{Group: v1beta1.GroupName, Resource: "supportbundles"}
}

func newBundle() runtime.Object { return &v1beta1.SupportBundle{} }

// New returns a Storage that has bundles written with write.
func New(write Write, clk clock.WithTicker, log logr.Logger) *Storage {
	return &Storage{Resource: storage.New(supportBundles(), "supportbundle", false, newBundle),
		write: write, clock: clk, log: log, now: noBundle(), end: func() {}}
}

// Download is the storage of the bundle itself, for the subresource download.
func (b *Storage) Download() rest.Storage { return &bundleDownload{b.Resource, b} }

// noBundle is what there is before anybody has asked.
func noBundle() *v1beta1.SupportBundle {
	return &v1beta1.SupportBundle{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.ControllerBundleName}, Status: v1beta1.SupportBundleNone}
}

// Create implements rest.Creater: it starts to make a bundle, in place of the one that there is.
func (b *Storage) Create(_ context.Context, object runtime.Object, _ rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	asked, ok := object.(*v1beta1.SupportBundle)
	switch {
	case !ok:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a SupportBundle", object))
	case asked.Name != v1beta1.ControllerBundleName:
		return nil, apierrors.NewForbidden(b.Group, asked.Name, fmt.Errorf("the one bundle of this server is named %s", v1beta1.ControllerBundleName))
	}
	var since time.Time
	if asked.Since != "" {
		d, err := time.ParseDuration(asked.Since)
		if err != nil || d < 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("since: %q is no duration, for example 2h30m", asked.Since))
		}
		since = b.clock.Now().Add(-d)
	}
	would := noBundle()
	would.Since, would.Status = asked.Since, v1beta1.SupportBundleCollecting
	if options != nil && len(options.DryRun) > 0 {
		return would, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end()
	ctx, cancel := context.WithCancel(context.Background())
	former, ended := b.ended, make(chan struct{})
	b.end, b.ended, b.packed = cancel, ended, nil
	b.now = would
	go func() {
		defer close(ended)
		defer cancel()
		if former != nil {
			<-former // one is made at a time
		}
		if ctx.Err() == nil { // of many that were asked for at once only the last one is made
			b.serve(ctx, asked.Since, since)
		}
	}()
	return would.DeepCopy(), nil // the answer is changed when it is written
}

// serve makes a bundle and keeps it until ctx ends or its time is over.
func (b *Storage) serve(ctx context.Context, asked string, since time.Time) {
	var packed bytes.Buffer
	var err error
	if fault := recovered.Do(func() { err = b.write(ctx, &packed, since) }); fault != nil {
		err = fault
	}
	made, sum := b.clock.Now(), sha256.Sum256(packed.Bytes())
	gone := metav1.NewTime(made.Add(bundleStays))
	now := &v1beta1.SupportBundle{
		ObjectMeta: metav1.ObjectMeta{Name: v1beta1.ControllerBundleName, CreationTimestamp: metav1.NewTime(made), DeletionTimestamp: &gone},
		Since:      asked, Status: v1beta1.SupportBundleCollected, Sum: hex.EncodeToString(sum[:]), Size: uint32(packed.Len()),
	}
	if err != nil {
		now = noBundle()
		if !errors.Is(err, context.Canceled) {
			b.log.Error(err, "The support bundle that somebody has asked for could not be made", "stack", recovered.StackOf(err))
		}
	}
	over := b.clock.After(bundleStays)
	if !b.replace(ctx, now, packed.Bytes()) || err != nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-over:
		b.replace(ctx, noBundle(), nil)
	}
}

// replace says how far the bundle is, unless ctx has ended: then another one counts.
func (b *Storage) replace(ctx context.Context, now *v1beta1.SupportBundle, packed []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if b.now = now; now.Status == v1beta1.SupportBundleCollected {
		b.packed = packed
	} else {
		b.packed = nil
	}
	return true
}

// Get implements rest.Getter.
func (b *Storage) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if name != v1beta1.ControllerBundleName {
		return nil, apierrors.NewNotFound(b.Group, name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.DeepCopy(), nil
}

// Delete implements rest.GracefulDeleter: it forgets the bundle, or ends its making.
func (b *Storage) Delete(_ context.Context, name string, _ rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if name != v1beta1.ControllerBundleName {
		return nil, false, apierrors.NewNotFound(b.Group, name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if options == nil || len(options.DryRun) == 0 {
		b.end()
		b.now, b.packed = noBundle(), nil
	}
	return noBundle(), true, nil
}

// Destroy implements rest.Storage: nothing is made any more.
func (b *Storage) Destroy() {
	b.mu.Lock()
	b.end()
	ended := b.ended
	b.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// bundleDownload serves the bundle itself.
type bundleDownload struct {
	storage.Resource
	of *Storage
}

var (
	_ rest.Getter          = (*bundleDownload)(nil)
	_ rest.StorageMetadata = (*bundleDownload)(nil)
)

// ProducesMIMETypes implements rest.StorageMetadata.
func (*bundleDownload) ProducesMIMETypes(string) []string { return []string{bundleType} }

// ProducesObject implements rest.StorageMetadata.
func (*bundleDownload) ProducesObject(string) any { return "" }

// Get implements rest.Getter.
func (d *bundleDownload) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if name != v1beta1.ControllerBundleName {
		return nil, apierrors.NewNotFound(d.Group, name)
	}
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	switch d.of.now.Status {
	case v1beta1.SupportBundleCollected:
		return &bundleStream{packed: d.of.packed}, nil
	case v1beta1.SupportBundleCollecting:
		return nil, apierrors.NewConflict(d.Group, name, errors.New("it is being collected: download it when its status is Collected"))
	}
	return nil, apierrors.NewNotFound(d.Group, name)
}

// bundleStream is a bundle on its way.
type bundleStream struct {
	v1beta1.SupportBundle
	packed []byte
}

var _ rest.ResourceStreamer = (*bundleStream)(nil)

// InputStream implements rest.ResourceStreamer.
func (s *bundleStream) InputStream(context.Context, string, string) (stream io.ReadCloser, flush bool, mimeType string, err error) {
	return io.NopCloser(bytes.NewReader(s.packed)), false, bundleType, nil
}
