// Package vault keeps lists of keys in Secrets.
//
// A Place is where in a Secret a list is. The package promises that a list is written in one step,
// and that a key of another writer is never overwritten. It keeps nothing, and everything may be
// used from anywhere.
package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// Place is where a list of keys is kept: a Secret, in which the current key has an entry of its
// own, where it was before there were lists, and the rest is beside it.
type Place struct {
	keyring.Kind
	// Secret is the name of the Secret.
	Secret string
	// Current returns the material of the current key, nil if there is none. SetCurrent puts
	// another one in its place.
	Current    func(data map[string][]byte) []byte
	SetCurrent func(data map[string][]byte, material []byte) error
	// Forms, if it is not nil, adapts other entries of the Secret to another list. before is nil
	// for the first one.
	Forms func(data map[string][]byte, before, after keyring.Ring)
}

// Entry makes a Place of which one entry is the current key.
func Entry(k keyring.Kind, secret, entry string) Place {
	return Place{
		Kind: k, Secret: secret, Current: func(data map[string][]byte) []byte { return data[entry] },
		SetCurrent: func(data map[string][]byte, material []byte) error { data[entry] = material; return nil },
	}
}

// ErrNone is returned by Of where no key was made yet.
var ErrNone = errors.New("there is no key yet: the controller makes it when it starts")

// Of reads the list in a Secret.
func (p Place) Of(s *corev1.Secret) (keyring.Ring, error) {
	current := p.Current(s.Data)
	switch {
	case len(current) > 0:
	case keyring.Listed(s.Data):
		// A new key in its place would take the former ones away.
		return nil, fmt.Errorf("the Secret %s/%s says of a key and has none: put back what it had, or delete it, and with it belief in all that its keys have signed", s.Namespace, s.Name)
	default:
		return nil, ErrNone
	}
	ring, err := p.Read(s.Data, current)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return ring, nil
}

// Put puts a list into a Secret in place of the one that is there.
func (p Place) Put(s *corev1.Secret, before, after keyring.Ring) error {
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	if err := p.SetCurrent(s.Data, after[0].Material); err != nil {
		return err
	}
	if p.Forms != nil {
		p.Forms(s.Data, before, after)
	}
	return keyring.Write(s.Data, after)
}

// Load reads the list of a namespace, and makes it with a first key if there is none. made says
// that it did. Several processes may be the first at the same time.
func (p Place) Load(ctx context.Context, c client.Client, namespace string, random io.Reader, now time.Time) (ring keyring.Ring, s *corev1.Secret, made bool, err error) {
	err = retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		ring, s, made, err = p.tryLoad(ctx, c, namespace, random, now)
		return err
	})
	return ring, s, made, err
}

func (p Place) tryLoad(ctx context.Context, c client.Client, namespace string, random io.Reader, now time.Time) (keyring.Ring, *corev1.Secret, bool, error) {
	s := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.Secret}, s)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return nil, nil, false, err
	}
	ring, err := p.Of(s)
	if !errors.Is(err, ErrNone) {
		return ring, s, false, err
	}
	first, err := p.Make(random, now)
	if err != nil {
		return nil, nil, false, err
	}
	s.Namespace, s.Name, s.Data = namespace, p.Secret, nil
	if err := p.Put(s, nil, keyring.Ring{first}); err != nil {
		return nil, nil, false, err
	}
	if absent {
		s.Type = corev1.SecretTypeOpaque
		err = c.Create(ctx, s)
	} else {
		err = c.Update(ctx, s)
	}
	return keyring.Ring{first}, s, err == nil, err
}

// Change replaces the list of a namespace by what next makes of it, in one write.
func (p Place) Change(ctx context.Context, c client.Client, namespace string, next func(keyring.Ring) (keyring.Ring, error)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var s corev1.Secret
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.Secret}, &s); err != nil {
			return err
		}
		before, err := p.Of(&s)
		if err != nil {
			return err
		}
		after, err := next(before)
		if err != nil {
			return err
		}
		if err := p.Put(&s, before, after); err != nil {
			return err
		}
		return c.Update(ctx, &s)
	})
}
