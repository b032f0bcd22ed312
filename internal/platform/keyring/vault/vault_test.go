package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/platform/keyring"
)

var begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// TestPlace: the list of a Secret is made once, by whoever comes first; it is changed in one write,
// which a conflict repeats, so that whatever is interrupted leaves the old list or the new one.
func TestPlace(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	place := Entry(keyring.Random(32, "test"), "it", "key")
	forms := 0
	place.Forms = func(_ map[string][]byte, before, after keyring.Ring) { forms++ }
	writes, fail := 0, error(nil)
	write := func(do func() error) error {
		writes++
		if fail != nil {
			err := fail
			if apierrors.IsConflict(fail) {
				fail = nil
			}
			return err
		}
		return do()
	}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, o, opts...) })
		},
	})
	first, _, one, err := place.Load(t.Context(), c, "ns", rand.Reader, begin)
	if err != nil || !one || len(first) != 1 {
		t.Fatal(first, one, err)
	}
	again, _, two, err := place.Load(t.Context(), c, "ns", rand.Reader, begin)
	if err != nil || two || again[0].ID != first[0].ID || writes != 1 {
		t.Fatal(again, two, err, writes)
	}
	rotate := func(r keyring.Ring) (keyring.Ring, error) {
		next, err := place.Make(rand.Reader, begin.Add(time.Hour))
		if err != nil {
			return nil, err
		}
		return r.Rotated(next)
	}
	fail = errors.New("away")
	if err := place.Change(t.Context(), c, "ns", rotate); err == nil {
		t.Error("no error")
	}
	if still, _, _, err := place.Load(t.Context(), c, "ns", rand.Reader, begin); err != nil || !slices.Equal(still.IDs(), first.IDs()) {
		t.Error(still, err)
	}
	fail, writes = apierrors.NewConflict(corev1.Resource("secrets"), "it", nil), 0
	if err := place.Change(t.Context(), c, "ns", rotate); err != nil || writes != 2 {
		t.Error(err, writes)
	}
	after, s, _, err := place.Load(t.Context(), c, "ns", rand.Reader, begin)
	if err != nil || len(after) != 2 || after[1].ID != first[0].ID || !bytes.Equal(s.Data["key"], after[0].Material) || forms == 0 {
		t.Error(after, err, forms)
	}
	s.Data["key"] = []byte("short")
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := place.Load(t.Context(), c, "ns", rand.Reader, begin); err == nil || !strings.Contains(err.Error(), "ns/it: a key of 5 bytes") {
		t.Error(err)
	}
	if err := place.Change(t.Context(), c, "other", rotate); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
