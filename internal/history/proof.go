package history

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/platform/keyring/vault"
)

// A revision carries a proof that the controller has written it: a signature of all of its spec.
// Readers check it with the public halves of the keys, which everybody may read, and so need not
// be trusted with anything. What became of a revision, its status, is not signed: it changes.

// Where the keys are, and their public halves.
const (
	KeySecret = "nephele-history-key"
	keyEntry  = "key"

	PublishedConfigMap = "nephele-history-keys"
	publishedEntry     = "keys.pem"
)

// rereadAfter is after how long the keys are read again: somebody may have made another one.
const rereadAfter = time.Minute

// Place is where the list of keys is.
func Place() vault.Place { return vault.Entry(keyring.Signing(), KeySecret, keyEntry) }

// signed are the bytes of a revision that are signed. Every text is written with its length, so
// that no two revisions look alike.
func signed(s *v1alpha1.RevisionSpec) []byte {
	var out []byte
	for _, text := range []string{
		"nephele revision 1", s.Object.Group, s.Object.Version, s.Object.Kind, s.Object.Namespace, s.Object.Name, string(s.Object.UID),
		strconv.FormatInt(s.Number, 10), string(s.Change), strconv.FormatInt(s.Generation, 10), strconv.FormatInt(s.Merged, 10),
		s.Time.UTC().Format(time.RFC3339), s.Author.User, s.Author.Manager, s.Hash, s.Content, s.Compressed, strconv.FormatInt(s.Size, 10),
	} {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	sum := sha256.Sum256(out)
	return sum[:]
}

// ProofKey is the ID of the key that a proof claims to be of.
func ProofKey(proof string) string {
	id, _, _ := strings.Cut(proof, ":")
	return id
}

// KeysNamespace is where the controller keeps the keys by which it proves revisions.
const KeysNamespace = "kube-system"

// KeysOptions are what Keys need. All fields are required.
type KeysOptions struct {
	// Client reads the Secret, uncached, and writes; Reader reads from the API itself.
	Client    client.Client
	Reader    client.Reader
	Namespace string
	Clock     clock.WithTicker
	Log       logr.Logger
}

// Keys prove revisions. They are kept in a Secret, read when they are needed first and every minute
// while Keep runs, and made if there are none. Keys may be used from any number of goroutines.
type Keys struct {
	o KeysOptions

	mu        sync.Mutex
	ring      keyring.Ring
	read      time.Time
	published bool
	forbidden bool
}

// NewKeys returns Keys that have read nothing yet.
func NewKeys(o KeysOptions) *Keys { return &Keys{o: o} }

// Prove returns the proof of a revision. Where the controller may not keep a key, as after an
// upgrade of the program alone, there is none.
func (k *Keys) Prove(ctx context.Context, s *v1alpha1.RevisionSpec) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(ctx); apierrors.IsForbidden(err) {
		if !k.forbidden {
			k.o.Log.Info("Revisions carry no proof: apply config/controller again, which lets the controller keep a key for them", "reason", err.Error())
		}
		k.forbidden = true
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("the key of the history, Secret %s/%s: %w", k.o.Namespace, KeySecret, err)
	}
	k.forbidden = false
	key, err := keyring.PrivateKey(k.ring[0].Material)
	if err != nil {
		return "", fmt.Errorf("the key of the history, Secret %s/%s: %w", k.o.Namespace, KeySecret, err)
	}
	proof, err := ecdsa.SignASN1(rand.Reader, key, signed(s))
	return k.ring[0].ID + ":" + base64.StdEncoding.EncodeToString(proof), err
}

// Proven reports whether a revision carries a proof of one of the keys that were read last.
func (k *Keys) Proven(s *v1alpha1.RevisionSpec) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := Verifier{keys: map[string]*ecdsa.PublicKey{}}
	for _, one := range k.ring {
		if public, err := keyring.PublicKey(one.Material); err == nil {
			v.keys[one.ID] = public
		}
	}
	return v.proof(s) == nil
}

// Keep reads the keys again, every minute, and publishes them, until ctx ends: readers have to hear
// of a key that is not believed any more also where no revision is written.
func (k *Keys) Keep(ctx context.Context) error {
	ticker := k.o.Clock.NewTicker(rereadAfter)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		k.mu.Lock()
		err := k.reread(ctx)
		k.mu.Unlock()
		if err != nil && !apierrors.IsForbidden(err) && ctx.Err() == nil {
			k.o.Log.Error(err, "The keys of the history cannot be read again; those published stay", "secret", k.o.Namespace+"/"+KeySecret)
		}
	}
}

// refresh makes sure that the keys were read and published, and not long ago. It needs mu.
func (k *Keys) refresh(ctx context.Context) error {
	if k.published && k.o.Clock.Since(k.read) < rereadAfter {
		return nil
	}
	return k.reread(ctx)
}

// reread reads the keys and publishes them if others are published. It needs mu.
func (k *Keys) reread(ctx context.Context) error {
	k.published = false
	ring, _, made, err := Place().Load(ctx, k.o.Client, k.o.Namespace, rand.Reader, k.o.Clock.Now())
	if err != nil {
		return err
	}
	if made {
		k.o.Log.Info("A new key proves revisions", "secret", k.o.Namespace+"/"+KeySecret, "key", ring[0].ID)
	}
	k.ring, k.read = ring, k.o.Clock.Now()
	// A key is published before anything is signed with it, so that every verifier can know it.
	if err := k.publish(ctx); err != nil {
		return err
	}
	k.published = true
	return nil
}

// publish writes the public halves of the keys where everybody may read them.
func (k *Keys) publish(ctx context.Context) error {
	public, err := k.ring.Bundle(keyring.PublicOnly)
	if err != nil {
		return err
	}
	var c corev1.ConfigMap
	err = k.o.Reader.Get(ctx, client.ObjectKey{Namespace: k.o.Namespace, Name: PublishedConfigMap}, &c)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return err
	}
	if c.Data[publishedEntry] == string(public) {
		return nil
	}
	c.Namespace, c.Name, c.Data = k.o.Namespace, PublishedConfigMap, map[string]string{publishedEntry: string(public)}
	if absent {
		return k.o.Client.Create(ctx, &c)
	}
	return k.o.Client.Update(ctx, &c)
}

// Verifier checks proofs. It is a value and may be used from anywhere.
type Verifier struct {
	keys  map[string]*ecdsa.PublicKey
	kinds kindTable
}

// NewVerifier reads the public halves of the keys that are believed, from the namespace where they
// are published.
func NewVerifier(ctx context.Context, c client.Reader, namespace string) (Verifier, error) {
	out := Verifier{keys: map[string]*ecdsa.PublicKey{}, kinds: newKindTable()}
	var published corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: PublishedConfigMap}, &published); err != nil {
		return out, fmt.Errorf("the keys by which revisions are proven, ConfigMap %s/%s: %w", namespace, PublishedConfigMap, err)
	}
	kind := keyring.Signing()
	for block, rest := pem.Decode([]byte(published.Data[publishedEntry])); block != nil && len(out.keys) <= keyring.MostKeys; block, rest = pem.Decode(rest) {
		text := pem.EncodeToMemory(block)
		id, err := kind.ID(text)
		if err == nil {
			out.keys[id], err = keyring.PublicKey(text)
		}
		if err != nil {
			return Verifier{}, fmt.Errorf("the keys by which revisions are proven, ConfigMap %s/%s: %w", namespace, PublishedConfigMap, err)
		}
	}
	return out, nil
}

var (
	errNoProof  = errors.New("it carries no proof")
	errOtherKey = errors.New("its proof is of a key that is not believed")
	errNotOurs  = errors.New("its proof is not that of what it says")
	errMoved    = errors.New("it is not where the controller writes what it says")
)

// Check fails unless the controller has written a revision as it is, where it is.
func (v Verifier) Check(r *Revision) error {
	if err := v.proof(&r.Spec); err != nil {
		return err
	}
	o := r.Spec.Object
	k, ok := v.kinds.byName[[2]string{o.Group, o.Kind}]
	if !ok || strings.TrimPrefix(k.revisionName(o, r.Spec.Number).String(), "/") != r.Name {
		return errMoved
	}
	return nil
}

// proof fails unless a revision carries the proof of what it says.
func (v Verifier) proof(s *v1alpha1.RevisionSpec) error {
	if s.Proof == "" {
		return errNoProof
	}
	id, text, _ := strings.Cut(s.Proof, ":")
	key := v.keys[id]
	if key == nil {
		return errOtherKey
	}
	proof, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !ecdsa.VerifyASN1(key, signed(s), proof) {
		return errNotOurs
	}
	return nil
}

// CheckAll says of each revision why it is not proven, if it is not. Without the keys none is, and
// the error says why.
func CheckAll(ctx context.Context, c client.Reader, namespace string, all []*Revision) error {
	v, err := NewVerifier(ctx, c, namespace)
	for _, r := range all {
		r.Unproven = ""
		if wrong := v.Check(r); err != nil {
			r.Unproven = "nobody can tell: the keys are not known"
		} else if wrong != nil {
			r.Unproven = wrong.Error()
		}
	}
	return err
}
