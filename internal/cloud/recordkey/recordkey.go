// Package recordkey keeps the key by which the records of what interfaces had before they were
// taken over are signed, and which accounts have nothing but signed ones, in a Secret.
//
// It owns that Secret. It promises that the key is never shown, that a key that somebody else has
// put there is never overwritten, and that what others have noted in it stays. A Key may be used
// from any number of goroutines.
package recordkey

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// SecretName is the name of the Secret with the key by which records of former groups are
// signed.
const SecretName = "nephele-record-key"

// What the Secret holds.
const (
	// recordKeyData is the key, random bytes.
	recordKeyData = "key"
	// signedData names, one in a line, the accounts of which all records are signed with the key.
	// The first line names the key: if that is another one, the accounts below are no more than
	// names.
	signedData = "signed"
)

// permissionPause is how long it is taken for granted that an account's rights do not allow
// signatures.
const permissionPause = time.Hour

// Options is what a Key needs. All fields are required.
type Options struct {
	// Client reads and writes the Secret, uncached, and lists accounts.
	Client    client.Client
	Namespace string
	ClusterID string
	// Random makes a key if there is none.
	Random io.Reader
	Clock  clock.Clock
	Log    logr.Logger
}

// Key keeps the key in a Secret. It reads it once, when it is needed first, and makes one if there
// is none: that is then the first time, or somebody has deleted it, and whatever records say is
// believed once more and signed with the new key. What its methods promise says realize.Records.
type Key struct {
	o Options

	mu     sync.Mutex
	key    []byte // nil until it is read
	signed map[string]bool
	unable map[string]time.Time // accounts whose rights do not allow signatures, and since when
}

// New returns a Key that has read nothing yet.
func New(o Options) *Key {
	return &Key{o: o, unable: map[string]time.Time{}}
}

// Seal returns what the records of an account are signed and checked with; nil if they are neither,
// because signing is not permitted there.
func (k *Key) Seal(ctx context.Context, account string) (*plan.Seal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key == nil {
		if err := k.load(ctx); err != nil {
			return nil, err
		}
	}
	if since, ok := k.unable[account]; ok {
		if k.o.Clock.Since(since) < permissionPause {
			return nil, nil
		}
		delete(k.unable, account)
	}
	s := plan.NewSeal(k.key, k.o.ClusterID, account)
	s.Lenient = !k.signed[account]
	return s, nil
}

// Signed notes that all records of the account were seen to be signed.
func (k *Key) Signed(ctx context.Context, account string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.note(ctx, account, true)
}

// Unsigned takes that back: a record of the account is about to be written without a signature.
func (k *Key) Unsigned(ctx context.Context, account string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.note(ctx, account, false)
}

// NotPermitted notes that the account's rights do not allow signatures.
func (k *Key) NotPermitted(account string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unable[account] = k.o.Clock.Now()
}

// note writes down whether all records of an account are signed. It needs mu.
func (k *Key) note(ctx context.Context, account string, signed bool) error {
	if k.signed[account] == signed {
		return nil
	}
	next, err := k.write(ctx, account, signed)
	if err != nil {
		return fmt.Errorf("note in Secret %s/%s of which accounts all records are signed: %w", k.o.Namespace, SecretName, err)
	}
	k.signed = next
	return nil
}

// Reread makes the Secret be read again before it is used next: another process may have noted
// something of accounts that are this one's now.
func (k *Key) Reread() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.key = nil
}

// load reads the key, or makes one. It needs mu.
func (k *Key) load(ctx context.Context) error {
	err := k.tryLoad(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = k.tryLoad(ctx) // somebody else was first
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the records of former groups cannot be signed or checked, so nothing is changed: the Secret %s/%s has to exist, if empty, "+
			"and the controller to be allowed to get and update it: %w", k.o.Namespace, SecretName, err)
	case err != nil:
		return fmt.Errorf("read the key of the records of former groups: %w", err)
	}
	return nil
}

func (k *Key) tryLoad(ctx context.Context) error {
	var s corev1.Secret
	err := k.o.Client.Get(ctx, k.name(), &s)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return err
	}
	key := s.Data[recordKeyData]
	switch {
	case len(key) == 0:
		if key, err = k.make(ctx, &s, absent); err != nil {
			return err
		}
	case len(key) != plan.SealKeySize:
		return fmt.Errorf("the Secret %s has %d bytes under %q, want %d random ones; without that entry a new key is made", k.name(), len(key), recordKeyData, plan.SealKeySize)
	}
	k.key, k.signed = key, signedIn(s.Data[signedData], key)
	return nil
}

// make puts a new key into the Secret. It needs mu.
func (k *Key) make(ctx context.Context, s *corev1.Secret, absent bool) ([]byte, error) {
	key := make([]byte, plan.SealKeySize)
	if _, err := io.ReadFull(k.o.Random, key); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	s.Namespace, s.Name = k.o.Namespace, SecretName
	s.Data = map[string][]byte{recordKeyData: key}
	if absent {
		s.Type = corev1.SecretTypeOpaque
		if err := k.o.Client.Create(ctx, s); err != nil {
			return nil, err
		}
	} else if err := k.o.Client.Update(ctx, s); err != nil {
		return nil, err
	}
	k.o.Log.Info("A NEW KEY signs the records of former groups; what they say now is believed once more, and signed", "secret", k.name().String(), "key", keyName(key))
	return key, nil
}

// errOtherKey says that somebody has put another key into the Secret.
var errOtherKey = errors.New("its key is another one than before; it is read again")

// write notes in the Secret whether all records of an account are signed, and leaves out accounts
// that are gone. What others have noted stays. It returns what the Secret says then. It needs mu.
func (k *Key) write(ctx context.Context, account string, signed bool) (map[string]bool, error) {
	var accounts cloudv1.CloudProviderAccountList
	if err := k.o.Client.List(ctx, &accounts); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i := range accounts.Items {
		known[cloud.AccountKey(accounts.Items[i].Namespace, accounts.Items[i].Name)] = true
	}
	var all map[string]bool
	list := func(said []byte) []byte {
		all = maps.Clone(k.signed)
		if said != nil {
			all = signedIn(said, k.key)
		}
		if all[account] = signed; !signed {
			delete(all, account)
		}
		maps.DeleteFunc(all, func(account string, _ bool) bool { return !known[account] })
		return []byte(strings.Join(append([]string{keyName(k.key)}, slices.Sorted(maps.Keys(all))...), "\n"))
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var s corev1.Secret
		err := k.o.Client.Get(ctx, k.name(), &s)
		switch {
		case apierrors.IsNotFound(err): // deleted while we have the key: it is the same key still
			s = corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{recordKeyData: k.key, signedData: list(nil)}}
			s.Namespace, s.Name = k.o.Namespace, SecretName
			return k.o.Client.Create(ctx, &s)
		case err != nil:
			return err
		case !bytes.Equal(s.Data[recordKeyData], k.key):
			k.key = nil
			return errOtherKey
		}
		s.Data[signedData] = list(append([]byte{}, s.Data[signedData]...))
		return k.o.Client.Update(ctx, &s)
	})
	return all, err
}

// signedIn are the accounts that a list names, if it is about the key.
func signedIn(list, key []byte) map[string]bool {
	out := map[string]bool{}
	lines := strings.Fields(string(list))
	if len(lines) > 0 && lines[0] == keyName(key) {
		for _, account := range lines[1:] {
			out[account] = true
		}
	}
	return out
}

func (k *Key) name() client.ObjectKey {
	return client.ObjectKey{Namespace: k.o.Namespace, Name: SecretName}
}

// keyName tells a key from others and says nothing about it.
func keyName(key []byte) string {
	sum := sha256.Sum256(append([]byte("nephele record key "), key...))
	return hex.EncodeToString(sum[:8])
}
