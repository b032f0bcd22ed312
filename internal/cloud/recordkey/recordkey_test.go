package recordkey

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

const (
	labAccount = "vms/shop"
	labCluster = "11111111-2222-3333-4444-555555555555"
)

// labObjects is an API server with the account.
func labObjects(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, cloudv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "shop"}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(account).Build()
}

// strongbox is a Key with everything around it.
type strongbox struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	*Key
}

func newStrongbox(t *testing.T) *strongbox {
	v := &strongbox{T: t, client: labObjects(t), clock: clocktesting.NewFakeClock(time.Now())}
	v.restart()
	return v
}

// restart forgets what is not in the cluster.
func (v *strongbox) restart() {
	v.Key = New(Options{Client: v.client, Namespace: "kube-system", ClusterID: labCluster, Random: rand.Reader, Clock: v.clock, Log: logr.Discard()})
}

func (v *strongbox) lenient() bool {
	v.Helper()
	s, err := v.Seal(v.Context(), labAccount)
	if err != nil || s == nil {
		v.Fatal(s, err)
	}
	return s.Lenient
}

func (v *strongbox) secret() *corev1.Secret {
	v.Helper()
	var s corev1.Secret
	if err := v.client.Get(v.Context(), client.ObjectKey{Namespace: "kube-system", Name: SecretName}, &s); err != nil {
		v.Fatal(err)
	}
	return &s
}

func (v *strongbox) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

func emptySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: SecretName}}
}

// TestRecordKeyIsMadeOnce: the key is made if there is none, with a Secret or without, and stays;
// what is known of accounts outlives the process.
func TestRecordKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(v *strongbox){
		"no Secret":       func(*strongbox) {},
		"an empty Secret": func(v *strongbox) { v.must(v.client.Create(t.Context(), emptySecret())) },
	} {
		v := newStrongbox(t)
		prepare(v)
		if !v.lenient() {
			t.Errorf("%s: of a new account it is not known that all is signed", name)
		}
		key := v.secret().Data[recordKeyData]
		if len(key) != plan.SealKeySize || bytes.Equal(key, make([]byte, len(key))) {
			t.Errorf("%s: key %x", name, key)
		}
		v.must(v.Signed(t.Context(), labAccount, v.ring[0].ID))
		v.must(v.Signed(t.Context(), labAccount, v.ring[0].ID))
		v.restart()
		if v.lenient() || !bytes.Equal(key, v.secret().Data[recordKeyData]) {
			t.Errorf("%s: forgotten", name)
		}
	}
}

// TestRecordKeyReplaced: under another key no account is known to be signed with it.
func TestRecordKeyReplaced(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	v.lenient()
	v.must(v.Signed(t.Context(), labAccount, v.ring[0].ID))
	s := v.secret()
	s.Data[recordKeyData] = bytes.Repeat([]byte{7}, plan.SealKeySize)
	v.must(v.client.Update(t.Context(), s))
	if err := v.Unsigned(t.Context(), labAccount); err == nil {
		t.Error("it was written over")
	}
	if !v.lenient() {
		t.Error("it is said to be signed with the new key, by the same process")
	}
	v.restart()
	if !v.lenient() {
		t.Error("it is said to be signed with the new key")
	}
	s = v.secret()
	s.Data[recordKeyData] = []byte("short")
	v.must(v.client.Update(t.Context(), s))
	v.restart()
	if _, err := v.Seal(t.Context(), labAccount); err == nil || !strings.Contains(err.Error(), "5 bytes") || strings.Contains(err.Error(), "short") {
		t.Errorf("a key that is none: %v", err)
	}
}

// TestRecordKeyDeletedMeanwhile: a process that still has the key writes the Secret again.
func TestRecordKeyDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	v.lenient()
	before := v.secret()
	v.must(v.client.Delete(t.Context(), before))
	v.must(v.Signed(t.Context(), labAccount, v.ring[0].ID))
	v.restart()
	if v.lenient() || !bytes.Equal(before.Data[recordKeyData], v.secret().Data[recordKeyData]) {
		t.Error("it is another key")
	}
}

// TestRecordKeyForgetsAccounts: accounts that are gone leave the Secret with the next change of it.
func TestRecordKeyForgetsAccounts(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	v.lenient()
	gone := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "gone"}}
	v.must(v.client.Create(t.Context(), gone))
	v.must(v.Signed(t.Context(), "vms/gone", v.ring[0].ID))
	v.must(v.client.Delete(t.Context(), gone))
	v.must(v.Signed(t.Context(), labAccount, v.ring[0].ID))
	if lines := strings.Fields(string(v.secret().Data[signedData])); !slices.Equal(lines[1:], []string{labAccount}) {
		t.Errorf("%q", lines)
	}
}

// TestSigningPaused: where signing is not permitted nothing is signed or checked, also after a
// restart nothing is taken for signed, and it is tried again after a while.
func TestSigningPaused(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	v.lenient()
	v.must(v.Signed(t.Context(), labAccount, v.ring[0].ID))
	v.must(v.Unsigned(t.Context(), labAccount))
	v.NotPermitted(labAccount)
	if s, err := v.Seal(t.Context(), labAccount); s != nil || err != nil {
		t.Error(s, err)
	}
	v.clock.Step(permissionPause)
	if !v.lenient() {
		t.Error("it is said to be signed")
	}
	v.restart()
	if !v.lenient() {
		t.Error("after a restart it is said to be signed")
	}
}

// TestRecordKeyErrors: somebody else is first, or it is not permitted.
func TestRecordKeyErrors(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	other := emptySecret()
	other.Data = map[string][]byte{recordKeyData: bytes.Repeat([]byte{9}, plan.SealKeySize)}
	first := true
	v.Key.o.Client = interceptor.NewClient(v.client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if first {
				first = false
				v.must(c.Create(ctx, other.DeepCopy()))
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	v.lenient()
	if !bytes.Equal(v.ring[0].Material, other.Data[recordKeyData]) {
		t.Error("not the key of the first process")
	}
	v = newStrongbox(t)
	v.Key.o.Client = interceptor.NewClient(v.client.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, nil)
		},
	})
	_, err := v.Seal(t.Context(), labAccount)
	if err == nil || !strings.Contains(err.Error(), "the Secret kube-system/nephele-record-key has to exist, if empty, and the controller to be allowed to get and update it") {
		t.Error(err)
	}
	v.Key.o.Client = v.client
	v.lenient() // and goes on when it may
}

// TestRecordKeyAtOnce: many accounts ask at the same time.
func TestRecordKeyAtOnce(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := v.Seal(t.Context(), labAccount); err != nil {
				t.Error(err)
			}
			if err := v.Signed(t.Context(), labAccount, v.ring[0].ID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if v.lenient() {
		t.Error("not noted")
	}
}

// rotate puts another key before the ones that are there, as the command does.
func (v *strongbox) rotate() string {
	v.Helper()
	v.must(Place().Change(v.Context(), v.client, "kube-system", func(r keyring.Ring) (keyring.Ring, error) {
		next, err := Place().Make(rand.Reader, v.clock.Now())
		v.must(err)
		return r.Rotated(next)
	}))
	ring, err := Place().Of(v.secret())
	v.must(err)
	return ring[0].ID
}

// seal is that of now.
func (v *strongbox) seal() *plan.Seal {
	v.Helper()
	s, err := v.Seal(v.Context(), labAccount)
	if err != nil || s == nil {
		v.Fatal(s, err)
	}
	return s
}

// TestRecordKeyRotates: another key is picked up within a minute; what was known to be signed stays
// known, nothing unsigned is believed in between, and it is known when the former key is not needed
// any more.
func TestRecordKeyRotates(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	first := v.seal().KeyID
	v.must(v.Signed(t.Context(), labAccount, first))
	second := v.rotate()
	if s := v.seal(); s.KeyID != first || s.Renewing {
		t.Error("read again at once", s.KeyID, s.Renewing)
	}
	v.clock.Step(rereadAfter)
	renewed := func() bool {
		ring, err := Place().Of(v.secret())
		v.must(err)
		return Current(v.secret().Data, ring)[labAccount]
	}
	for _, when := range []string{"read again", "started again"} {
		if s := v.seal(); s.KeyID != second || s.Lenient || !s.Renewing {
			t.Errorf("%s: key %s, lenient %t, renewing %t", when, s.KeyID, s.Lenient, s.Renewing)
		}
		v.restart()
	}
	if renewed() {
		t.Error("nothing was signed anew yet")
	}
	// A round that began with the former key says nothing about the current one.
	v.seal()
	v.must(v.Signed(t.Context(), labAccount, first))
	if s := v.seal(); !s.Renewing || s.Lenient {
		t.Error("the former key counted for the current one")
	}
	v.must(v.Signed(t.Context(), labAccount, second))
	v.restart()
	if s := v.seal(); s.Renewing || s.Lenient || !renewed() {
		t.Error("still outdated")
	}
	v.must(v.Unsigned(t.Context(), labAccount))
	v.must(v.Signed(t.Context(), labAccount, ""))
	if s := v.seal(); !s.Renewing || s.Lenient {
		t.Error("some key of the list is no certain one")
	}
	v.must(Place().Change(t.Context(), v.client, "kube-system", func(r keyring.Ring) (keyring.Ring, error) { return r.Without(first) }))
	v.restart()
	if s := v.seal(); s.Renewing || s.Lenient || s.KeyID != second {
		t.Errorf("after the former key has gone: lenient %t, renewing %t", s.Lenient, s.Renewing)
	}
}

// TestRecordKeyRotatesMeanwhile: what is noted by a process that does not know of another key yet
// is not lost, and is not noted of the other key.
func TestRecordKeyRotatesMeanwhile(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	first := v.seal().KeyID
	second := v.rotate()
	v.must(v.Signed(t.Context(), labAccount, first))
	if s := v.seal(); s.KeyID != second || s.Lenient || !s.Renewing {
		t.Errorf("key %s, lenient %t, renewing %t", s.KeyID, s.Lenient, s.Renewing)
	}
}

// TestRecordKeyUnreadable: keys that are known are used as long as the Secret cannot be read.
func TestRecordKeyUnreadable(t *testing.T) {
	t.Parallel()
	v := newStrongbox(t)
	first := v.seal().KeyID
	broken := false
	v.Key.o.Client = interceptor.NewClient(v.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if broken {
				return apierrors.NewTimeoutError("away", 1)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	second := v.rotate()
	broken = true
	v.clock.Step(rereadAfter)
	if s := v.seal(); s.KeyID != first {
		t.Error(s.KeyID)
	}
	broken = false
	v.clock.Step(rereadAfter)
	if s := v.seal(); s.KeyID != second {
		t.Error(s.KeyID)
	}
	v.must(v.client.Delete(t.Context(), v.secret()))
	v.clock.Step(rereadAfter)
	if s := v.seal(); s.KeyID != second {
		t.Error("another key was made while one was known")
	}
}
