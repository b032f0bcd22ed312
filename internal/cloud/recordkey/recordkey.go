// Package recordkey keeps the key that signs the records of former groups, and the list of accounts
// with signed records only, in a Secret.
//
// It owns that Secret. It promises that the key is never shown, and that a key or a note of another
// process is never overwritten. A Key may be used from any number of goroutines.
package recordkey

import (
	"context"
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
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/platform/keyring/vault"
)

// SecretName is the name of the Secret with the key by which records of former groups are
// signed.
const SecretName = "nephele-record-key"

// What the Secret holds besides the keys.
const (
	// recordKeyData is the current key, random bytes.
	recordKeyData = "key"
	// signedData names, one in a line, the accounts of which all records are signed with the
	// current key, strictData the accounts of which all records are signed with some key of the
	// list. The first line of each names the current key: if that is another one, the accounts
	// below are no more than names.
	signedData = "signed"
	strictData = "signed-before"
)

// Place is where the list of keys is. When the current key changes, accounts whose records are all
// signed stay known as such.
func Place() vault.Place {
	p := vault.Entry(keyring.Random(plan.SealKeySize, "nephele record key"), SecretName, recordKeyData)
	p.Forms = func(data map[string][]byte, before, after keyring.Ring) {
		if before == nil || before[0].ID == after[0].ID {
			return
		}
		now := notes{signed: map[string]bool{}, strict: notesIn(data, before[0].ID).all()}
		now.put(data, after[0].ID)
	}
	return p
}

// Current are the accounts of which all records are signed with the current key.
func Current(data map[string][]byte, ring keyring.Ring) map[string]bool {
	return notesIn(data, ring[0].ID).signed
}

// notes are the accounts whose records are all signed: with the current key, or with some of the
// list.
type notes struct{ signed, strict map[string]bool }

func notesIn(data map[string][]byte, current string) notes {
	return notes{accountsIn(data[signedData], current), accountsIn(data[strictData], current)}
}

// accountsIn are the accounts that a list names, if it is about the key.
func accountsIn(list []byte, current string) map[string]bool {
	out := map[string]bool{}
	lines := strings.Fields(string(list))
	if len(lines) > 0 && lines[0] == current {
		for _, account := range lines[1:] {
			out[account] = true
		}
	}
	return out
}

// all are the accounts of both lists.
func (n notes) all() map[string]bool {
	out := maps.Clone(n.signed)
	maps.Copy(out, n.strict)
	return out
}

func (n notes) put(data map[string][]byte, current string) {
	list := func(accounts map[string]bool) []byte {
		return []byte(strings.Join(append([]string{current}, slices.Sorted(maps.Keys(accounts))...), "\n"))
	}
	data[signedData] = list(n.signed)
	if delete(data, strictData); len(n.strict) > 0 {
		data[strictData] = list(n.strict)
	}
}

// set notes of an account by which key all records are signed: "" for some of the list. False is
// for none.
func (n notes) set(account string, signed bool, by, current string) {
	delete(n.signed, account)
	delete(n.strict, account)
	switch {
	case !signed:
	case by == current:
		n.signed[account] = true
	default:
		n.strict[account] = true
	}
}

// rereadAfter is after how long the Secret is read again: somebody may have made another key.
const rereadAfter = time.Minute

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

// Key keeps the keys in a Secret. It reads them when they are needed first, and from then on every
// minute, and makes one if there is none: that is then the first time, or somebody has deleted it,
// and whatever records say is believed once more and signed with the new key. What its methods
// promise says realize.Records.
type Key struct {
	o     Options
	place vault.Place

	mu     sync.Mutex
	ring   keyring.Ring // nil until it is read
	read   time.Time
	notes  notes
	unable map[string]time.Time // accounts whose rights do not allow signatures, and since when
}

// New returns a Key that has read nothing yet.
func New(o Options) *Key {
	return &Key{o: o, place: Place(), unable: map[string]time.Time{}}
}

// Seal returns what the records of an account are signed and checked with; nil if they are neither,
// because signing is not permitted there.
func (k *Key) Seal(ctx context.Context, account string) (*plan.Seal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(ctx); err != nil {
		return nil, err
	}
	if since, ok := k.unable[account]; ok {
		if k.o.Clock.Since(since) < permissionPause {
			return nil, nil
		}
		delete(k.unable, account)
	}
	var former [][]byte
	for _, f := range k.ring[1:] {
		former = append(former, f.Material)
	}
	s := plan.NewSeal(k.ring[0].Material, k.o.ClusterID, account, former...)
	s.KeyID, s.Lenient = k.ring[0].ID, !k.notes.signed[account] && !k.notes.strict[account]
	s.Renewing = len(former) > 0 && !k.notes.signed[account]
	return s, nil
}

// refresh reads the keys if they are not known, or were not looked at for a while. Keys that are
// known stay so if the Secret cannot be read, or is gone. It needs mu.
func (k *Key) refresh(ctx context.Context) error {
	now := k.o.Clock.Now()
	if k.ring != nil && now.Sub(k.read) < rereadAfter {
		return nil
	}
	if k.ring == nil {
		return k.load(ctx)
	}
	k.read = now
	var s corev1.Secret
	err := k.o.Client.Get(ctx, k.name(), &s)
	if err == nil {
		err = k.take(&s)
	}
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, vault.ErrNone) && ctx.Err() == nil {
		k.o.Log.Error(err, "The keys of the records of former groups cannot be read again; those known are used", "secret", k.name().String())
	}
	return nil
}

// take reads a Secret. It needs mu.
func (k *Key) take(s *corev1.Secret) error {
	ring, err := k.place.Of(s)
	if err != nil {
		return err
	}
	if k.ring != nil && k.ring[0].ID != ring[0].ID {
		k.o.Log.Info("ANOTHER KEY signs the records of former groups", "secret", k.name().String(), "key", ring[0].ID, "former", ring.IDs()[1:])
	}
	k.ring, k.read, k.notes = ring, k.o.Clock.Now(), notesIn(s.Data, ring[0].ID)
	return nil
}

// Signed notes that all records of the account were seen to be signed, with the key that has this
// ID; with an empty one, with some key of the list.
func (k *Key) Signed(ctx context.Context, account, by string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.note(ctx, account, true, by)
}

// Unsigned takes that back: a record of the account is about to be written without a signature.
func (k *Key) Unsigned(ctx context.Context, account string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.note(ctx, account, false, "")
}

// NotPermitted notes that the account's rights do not allow signatures.
func (k *Key) NotPermitted(account string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unable[account] = k.o.Clock.Now()
}

// note writes down whether, and by which key, all records of an account are signed. It needs mu.
func (k *Key) note(ctx context.Context, account string, signed bool, by string) error {
	if k.ring != nil {
		next := notes{maps.Clone(k.notes.signed), maps.Clone(k.notes.strict)}
		next.set(account, signed, by, k.ring[0].ID)
		if maps.Equal(next.signed, k.notes.signed) && maps.Equal(next.strict, k.notes.strict) {
			return nil
		}
	}
	if err := k.write(ctx, account, signed, by); err != nil {
		return fmt.Errorf("note in Secret %s/%s of which accounts all records are signed: %w", k.o.Namespace, SecretName, err)
	}
	return nil
}

// Reread makes the Secret be read again before it is used next: another process may have noted
// something of accounts that are this one's now.
func (k *Key) Reread() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ring = nil
}

// load reads the key, or makes one. It needs mu.
func (k *Key) load(ctx context.Context) error {
	_, s, made, err := k.place.Load(ctx, k.o.Client, k.o.Namespace, k.o.Random, k.o.Clock.Now())
	if err == nil {
		err = k.take(s)
	}
	if made && err == nil {
		k.o.Log.Info("A NEW KEY signs the records of former groups; what they say now is believed once more, and signed", "secret", k.name().String(), "key", k.ring[0].ID)
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

// errOtherKey says that somebody has put another key into the Secret.
var errOtherKey = errors.New("its key is another one than before; it is read again")

// write notes in the Secret whether, and by which key, all records of an account are signed, and
// leaves out accounts that are gone. What others have noted stays. It needs mu.
func (k *Key) write(ctx context.Context, account string, signed bool, by string) error {
	var accounts cloudv1.CloudProviderAccountList
	if err := k.o.Client.List(ctx, &accounts); err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range accounts.Items {
		known[cloud.AccountKey(accounts.Items[i].Namespace, accounts.Items[i].Name)] = true
	}
	gone := func(account string, _ bool) bool { return !known[account] }
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if k.ring == nil {
			return errOtherKey
		}
		var s corev1.Secret
		write, next := k.o.Client.Update, k.notes
		err := k.o.Client.Get(ctx, k.name(), &s)
		switch {
		case apierrors.IsNotFound(err): // deleted while we have the keys: they are the same still
			s = corev1.Secret{Type: corev1.SecretTypeOpaque}
			s.Namespace, s.Name = k.o.Namespace, SecretName
			if err := k.place.Put(&s, nil, k.ring); err != nil {
				return err
			}
			write = func(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
				return k.o.Client.Create(ctx, o)
			}
		case err != nil:
			return err
		default:
			// What was seen to be signed with our current key still is if that is a former one now.
			before := k.ring[0].ID
			now, err := k.place.Of(&s)
			if err != nil {
				k.ring = nil
				return errOtherKey
			}
			if _, listed := now.Find(before); !listed {
				k.ring = nil
				return errOtherKey
			}
			if err := k.take(&s); err != nil {
				return err
			}
			next = k.notes
		}
		next = notes{maps.Clone(next.signed), maps.Clone(next.strict)}
		next.set(account, signed, by, k.ring[0].ID)
		maps.DeleteFunc(next.signed, gone)
		maps.DeleteFunc(next.strict, gone)
		next.put(s.Data, k.ring[0].ID)
		if err := write(ctx, &s); err != nil {
			return err
		}
		k.notes = next
		return nil
	})
}

func (k *Key) name() client.ObjectKey {
	return client.ObjectKey{Namespace: k.o.Namespace, Name: SecretName}
}
