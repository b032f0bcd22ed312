package apiserver_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nephele-io/nephele/api/system/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// bundleWorld serves support bundles whose making a test leads.
type bundleWorld struct {
	*world
	t *testing.T
	// begun receives the since of every making, and go on receives how it is to end.
	begun  chan time.Time
	goOn   chan func(io.Writer) error
	atOnce chan struct{}
}

func newBundleWorld(t *testing.T) *bundleWorld {
	t.Helper()
	b := &bundleWorld{t: t, begun: make(chan time.Time, 1), goOn: make(chan func(io.Writer) error), atOnce: make(chan struct{}, 1)}
	b.world = &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), clock: newClock(time.Now()),
		bundle: func(ctx context.Context, w io.Writer, since time.Time) error {
			select {
			case b.atOnce <- struct{}{}:
				defer func() { <-b.atOnce }()
			default:
				t.Error("two bundles are made at once")
			}
			b.begun <- since
			select {
			case end := <-b.goOn:
				return end(w)
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
	b.start(t, "127.0.0.1:0")
	return b
}

const bundlesPath = "/apis/system.antrea.io/v1beta1/supportbundles"

func (b *bundleWorld) create(name, since string) error {
	body := fmt.Sprintf(`{"apiVersion":"system.antrea.io/v1beta1","kind":"SupportBundle","metadata":{"name":%q},"since":%q}`, name, since)
	_, err := b.client(b.t, "agent", runtime.ContentTypeJSON).Post().AbsPath(bundlesPath).Body([]byte(body)).DoRaw(b.t.Context())
	return err
}

func (b *bundleWorld) get() *v1beta1.SupportBundle {
	b.t.Helper()
	var s v1beta1.SupportBundle
	if err := b.client(b.t, "agent", runtime.ContentTypeJSON).Get().AbsPath(bundlesPath + "/controller").Do(b.t.Context()).Into(&s); err != nil {
		b.t.Fatal(err)
	}
	return &s
}

func (b *bundleWorld) eventually(want v1beta1.SupportBundleStatus) *v1beta1.SupportBundle {
	b.t.Helper()
	var s *v1beta1.SupportBundle
	eventually(b.t, "the bundle is "+string(want), func() error {
		if s = b.get(); s.Status != want {
			return fmt.Errorf("it is %s", s.Status)
		}
		return nil
	})
	return s
}

func (b *bundleWorld) download() ([]byte, error) {
	return b.client(b.t, "agent", "").Get().AbsPath(bundlesPath + "/controller/download").DoRaw(b.t.Context())
}

// TestSupportBundle makes, downloads, replaces and forgets the bundle of the controller, as antctl
// asks for it.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	b := newBundleWorld(t)
	if s := b.get(); s.Status != v1beta1.SupportBundleNone || s.Name != "controller" {
		t.Errorf("before anybody has asked: %+v", s)
	}
	if _, err := b.download(); !apierrors.IsNotFound(err) {
		t.Errorf("download of nothing: %v", err)
	}
	for _, bad := range []struct {
		name, since string
		is          func(error) bool
	}{{"agent", "", apierrors.IsForbidden}, {"", "", apierrors.IsForbidden}, {"controller", "yesterday", apierrors.IsBadRequest}, {"controller", "-1h", apierrors.IsBadRequest}} {
		if err := b.create(bad.name, bad.since); !bad.is(err) {
			t.Errorf("create %q since %q: %v", bad.name, bad.since, err)
		}
	}
	if err := b.create("controller", "2h30m"); err != nil {
		t.Fatal(err)
	}
	if since := <-b.begun; !since.Equal(b.clock.Now().Add(-150 * time.Minute)) {
		t.Errorf("since %s", since)
	}
	if s := b.get(); s.Status != v1beta1.SupportBundleCollecting || s.Since != "2h30m" {
		t.Errorf("while it is made: %+v", s)
	}
	if _, err := b.download(); !apierrors.IsConflict(err) {
		t.Errorf("download while it is made: %v", err)
	}
	// A second one takes its place.
	if err := b.create("controller", ""); err != nil {
		t.Fatal(err)
	}
	if since := <-b.begun; !since.IsZero() {
		t.Errorf("since %s", since)
	}
	want := bytes.Repeat([]byte("bundle"), 100_000)
	b.goOn <- func(w io.Writer) error { _, err := w.Write(want); return err }
	s := b.eventually(v1beta1.SupportBundleCollected)
	sum := sha256.Sum256(want)
	if s.Sum != hex.EncodeToString(sum[:]) || int(s.Size) != len(want) || s.DeletionTimestamp == nil || s.DeletionTimestamp.Sub(s.CreationTimestamp.Time) != time.Hour {
		t.Errorf("collected: %+v", s)
	}
	for range 2 {
		if got, err := b.download(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("downloaded %d bytes, %v, want %d", len(got), err, len(want))
		}
	}
	if _, err := b.client(t, "stranger", "").Get().AbsPath(bundlesPath + "/controller/download").DoRaw(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("download by a stranger: %v", err)
	}
	newer := b.clock.(interface{ Step(time.Duration) })
	newer.Step(time.Hour)
	b.eventually(v1beta1.SupportBundleNone)
	if _, err := b.download(); !apierrors.IsNotFound(err) {
		t.Errorf("download after an hour: %v", err)
	}
}

// TestSupportBundlePaths: a bundle is made at one path, and not for a caller without the right.
func TestSupportBundlePaths(t *testing.T) {
	t.Parallel()
	b := newBundleWorld(t)
	body := `{"metadata":{"name":"controller"}}`
	for path, want := range map[string]int{
		"/apis/system.antrea.io/v1beta1/namespaces/mine/supportbundles": http.StatusNotFound,
		"/apis/system.antrea.io/v9/supportbundles":                      http.StatusNotFound,
		bundlesPath + "/controller":                                     http.StatusMethodNotAllowed,
		bundlesPath + "?dryRun=All":                                     http.StatusCreated,
	} {
		if code, text := b.send(t, stranger(t), "agent", path, runtime.ContentTypeJSON, strings.NewReader(body)); code != want {
			t.Errorf("%s: %d %.200s, want %d", path, code, text, want)
		}
	}
	if s := b.get(); s.Status != v1beta1.SupportBundleNone {
		t.Errorf("%+v", s)
	}
	if err := b.create("controller", ""); err != nil {
		t.Fatal(err)
	}
	<-b.begun
	b.goOn <- func(w io.Writer) error { _, err := w.Write([]byte("a bundle")); return err }
	b.eventually(v1beta1.SupportBundleCollected)
	if err := b.client(t, "agent", "").Delete().AbsPath(bundlesPath+"/controller").Param("dryRun", "All").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 8 { // answers share nothing, as -race would tell
		readers.Go(func() {
			if err := b.client(t, "agent", "").Get().AbsPath(bundlesPath + "/controller").Do(t.Context()).Error(); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	if s := b.get(); s.Status != v1beta1.SupportBundleCollected {
		t.Errorf("after what was only tried: %+v", s)
	}
}

// TestSupportBundleFails: what goes wrong with one bundle does not concern the next one.
func TestSupportBundleFails(t *testing.T) {
	t.Parallel()
	b := newBundleWorld(t)
	for _, fault := range []func(io.Writer) error{
		func(io.Writer) error { return errors.New("the disk is full") },
		func(w io.Writer) error { _, _ = w.Write([]byte("a part")); panic("injected") },
	} {
		if err := b.create("controller", ""); err != nil {
			t.Fatal(err)
		}
		<-b.begun
		b.goOn <- fault
		b.eventually(v1beta1.SupportBundleNone)
		if _, err := b.download(); !apierrors.IsNotFound(err) {
			t.Errorf("download of what failed: %v", err)
		}
	}
	// One that is deleted while it is made never comes.
	if err := b.create("controller", ""); err != nil {
		t.Fatal(err)
	}
	<-b.begun
	if _, err := b.client(t, "agent", "").Delete().AbsPath(bundlesPath + "/controller").DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := b.get(); s.Status != v1beta1.SupportBundleNone {
		t.Errorf("deleted: %+v", s)
	}
	if err := b.create("controller", ""); err != nil {
		t.Fatal(err)
	}
	<-b.begun // the former one has ended
	b.goOn <- func(w io.Writer) error { _, err := w.Write([]byte("the last one")); return err }
	b.eventually(v1beta1.SupportBundleCollected)
	if got, err := b.download(); err != nil || string(got) != "the last one" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestManySupportBundles: of bundles that are asked for while one is made, only the last one is
// made after it.
func TestManySupportBundles(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	b := &bundleWorld{t: t}
	b.world = &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), clock: newClock(time.Now()),
		bundle: func(_ context.Context, w io.Writer, _ time.Time) error { // it does not notice that nobody wants it
			begun <- struct{}{}
			<-goOn
			_, err := w.Write([]byte("a bundle"))
			return err
		}}
	b.start(t, "127.0.0.1:0")
	for n := range 20 {
		if err := b.create("controller", ""); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			<-begun
		}
	}
	close(goOn)
	b.eventually(v1beta1.SupportBundleCollected)
	if n := len(begun); n != 1 {
		t.Errorf("%d bundles were made after the first one", n)
	}
}
