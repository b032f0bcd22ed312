package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
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

// TestPlace: the list of a Secret is made once, by the first process; it is changed in one write,
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

// interrupted is a client that stops at its n-th write: before the write with lost false, else
// after it, so that nobody hears what came of it. Everything later fails.
type interrupted struct {
	after int
	lost  bool
	mu    sync.Mutex
	n     int
}

var errStopped = errors.New("the process was stopped")

func (i *interrupted) write(do func() error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n++
	switch {
	case i.n < i.after:
		return do()
	case i.n == i.after && i.lost:
		return errors.Join(do(), errStopped)
	}
	return errStopped
}

func (i *interrupted) client(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return i.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return i.write(func() error { return c.Update(ctx, o, opts...) })
		},
	})
}

func (p Place) anew(at time.Time) func(keyring.Ring) (keyring.Ring, error) {
	return func(r keyring.Ring) (keyring.Ring, error) {
		next, err := p.Make(rand.Reader, at)
		if err != nil {
			return nil, err
		}
		return r.Rotated(next)
	}
}

// TestStoppedAtAnyWrite: a process that makes or changes a list and is stopped before or after any
// of its writes leaves a list that is read and has every key that was there.
func TestStoppedAtAnyWrite(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	place := Entry(keyring.Random(32, "test"), "it", "key")
	for after := 1; after <= 4; after++ {
		for _, lost := range []bool{false, true} {
			api := fake.NewClientBuilder().WithScheme(scheme).Build()
			stop := &interrupted{after: after, lost: lost}
			c, written, err := stop.client(api), 0, error(nil)
			for step := 0; step < 4 && err == nil; step++ {
				if step == 0 {
					_, _, _, err = place.Load(t.Context(), c, "ns", rand.Reader, begin)
				} else {
					err = place.Change(t.Context(), c, "ns", place.anew(begin.Add(time.Duration(step)*time.Hour)))
				}
				if err == nil {
					written++
				}
			}
			if lost {
				written++
			}
			if !errors.Is(err, errStopped) {
				t.Fatalf("write %d: %v", after, err)
			}
			// The next process.
			ring, _, made, err := place.Load(t.Context(), api, "ns", rand.Reader, begin)
			if err != nil || made != (written == 0) || len(ring) != max(1, written) {
				t.Errorf("stopped at write %d (lost %t): %v, made %t, %v; want %d keys", after, lost, ring, made, err, written)
			}
			if err := place.Change(t.Context(), api, "ns", place.anew(begin.Add(24*time.Hour))); err != nil {
				t.Errorf("stopped at write %d (lost %t): %v", after, lost, err)
			}
			if next, _, _, err := place.Load(t.Context(), api, "ns", rand.Reader, begin); err != nil || !slices.Equal(next.IDs()[1:], ring.IDs()) {
				t.Errorf("stopped at write %d (lost %t): %v, %v", after, lost, next, err)
			}
		}
	}
}

// TestReplicasAtOnce: of replicas that make or change a list at the same time each reads the same
// list in the end, and no key is lost.
func TestReplicasAtOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	place := Entry(keyring.Random(32, "test"), "it", "key")
	api := fake.NewClientBuilder().WithScheme(scheme).Build()
	var all sync.WaitGroup
	firsts := make([]string, 5)
	for n := range firsts {
		all.Go(func() {
			ring, _, _, err := place.Load(t.Context(), api, "ns", rand.Reader, begin)
			if err != nil {
				t.Error(err)
				return
			}
			firsts[n] = ring.Current().ID
		})
	}
	all.Wait()
	if len(slices.Compact(firsts)) != 1 {
		t.Fatalf("each has its own: %v", firsts)
	}
	var mu sync.Mutex
	made := map[string]bool{firsts[0]: true}
	for n := range 3 {
		all.Go(func() {
			next, err := place.Make(rand.Reader, begin.Add(time.Duration(n+1)*time.Hour))
			if err != nil {
				t.Error(err)
				return
			}
			for err = errStopped; err != nil; { // a conflict that lasts is told, and the command given again
				err = place.Change(t.Context(), api, "ns", func(r keyring.Ring) (keyring.Ring, error) { return r.Rotated(next) })
				if err != nil && !apierrors.IsConflict(err) {
					t.Error(err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			made[next.ID] = true
		})
	}
	all.Wait()
	ring, _, _, err := place.Load(t.Context(), api, "ns", rand.Reader, begin)
	if err != nil || len(ring) != len(made) {
		t.Fatalf("%v, %v, want %v", ring, err, made)
	}
	for _, k := range ring {
		if !made[k.ID] {
			t.Errorf("%s is nobody's", k.ID)
		}
	}
}

// TestHalfAList: where a part of a list is missing, nothing is made in its place.
func TestHalfAList(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	place := Entry(keyring.Random(32, "test"), "it", "key")
	api := fake.NewClientBuilder().WithScheme(scheme).Build()
	if _, _, _, err := place.Load(t.Context(), api, "ns", rand.Reader, begin); err != nil {
		t.Fatal(err)
	}
	if err := place.Change(t.Context(), api, "ns", place.anew(begin.Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	_, whole, _, err := place.Load(t.Context(), api, "ns", rand.Reader, begin)
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string]func(data map[string][]byte){
		"no current key":       func(data map[string][]byte) { delete(data, "key") },
		"an empty current key": func(data map[string][]byte) { data["key"] = nil },
		"only the former ones": func(data map[string][]byte) { delete(data, "key"); delete(data, "since") },
		"half of the current":  func(data map[string][]byte) { data["key"] = data["key"][:16] },
		"half of the former":   func(data map[string][]byte) { data["former"] = data["former"][:len(data["former"])/2] },
	} {
		s := whole.DeepCopy()
		damage(s.Data)
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(s).Build()
		ring, _, made, err := place.Load(t.Context(), c, "ns", rand.Reader, begin)
		var now corev1.Secret
		if get := c.Get(t.Context(), client.ObjectKeyFromObject(s), &now); get != nil {
			t.Fatal(get)
		}
		if err == nil || made || ring != nil || !strings.Contains(err.Error(), "ns/it") || !maps.EqualFunc(now.Data, s.Data, bytes.Equal) {
			t.Errorf("%s: %v, made %t, %v", what, ring, made, err)
		}
		if err := place.Change(t.Context(), c, "ns", place.anew(begin.Add(2*time.Hour))); err == nil {
			t.Errorf("%s: it was changed", what)
		}
	}
}
