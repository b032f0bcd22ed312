package certs

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// Authorities and keys that sign are lists: another one can be made the current one while the
// former are still believed. The list is one file, which is replaced as a whole; the files that
// servers and clients read are made of it, every time it is asked for.

// Beside is how long a new authority is only trusted beside the former one, which still signs
// certificates of servers: the time for all clients to receive the new one.
const Beside = 7 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	// signing signs certificates of clients, proving certificates of servers.
	signing, proving keyring.Authority
	bundle           []byte
}

// CertPEM are the certificates of the authority and of former ones that are still trusted, for
// verifiers.
func (a *Authority) CertPEM() []byte { return a.bundle }

// RingFile is the path of the list of keys called name.
func (s *Store) RingFile(name string) string { return filepath.Join(s.dir, name+".ring") }

// VerifyingFile is the path of the public halves of the signing keys called name, in PEM.
func (s *Store) VerifyingFile(name string) string { return filepath.Join(s.dir, name+".pub") }

// AuthorityKind is the kind of the authorities called name.
func AuthorityKind(name string) keyring.Kind {
	return keyring.Authorities(func(_ io.Reader, now time.Time) ([]byte, error) {
		der, key, err := issue(&x509.Certificate{
			Subject:               pkix.Name{CommonName: name},
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			IsCA:                  true,
			BasicConstraintsValid: true,
		}, nil, now, authorityLife)
		if err != nil {
			return nil, err
		}
		text, err := keyPEM(key)
		return append(certPEM(der), text...), err
	})
}

// Ring reads the list of keys called name; an empty one if there is none. Where the files that are
// made of a list have been removed, it is none, either: that is how people begin anew. Files from
// before there were lists are a list of one.
func (s *Store) Ring(name string, k keyring.Kind) (keyring.Ring, error) {
	var parts [][]byte
	for _, file := range []string{s.CertFile(name), s.KeyFile(name)} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		parts = append(parts, text)
	}
	if len(parts[0]) == 0 && len(parts[1]) == 0 {
		return nil, nil
	}
	text, err := os.ReadFile(s.RingFile(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if len(parts[1]) == 0 {
			return nil, nil
		}
		ring, err := k.Alone(bytes.TrimLeft(bytes.Join(parts, []byte("\n")), "\n"))
		if err != nil {
			return nil, nil // damaged files from before there were lists are replaced
		}
		return ring, nil
	case err != nil:
		return nil, err
	}
	ring, err := k.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restore it from a backup", s.RingFile(name), err)
	}
	return ring, os.Chmod(s.RingFile(name), 0o600) // if its mode was loosened by hand or by a copy
}

// SetRing replaces the list of keys called name. What is made of it follows when it is next asked
// for.
func (s *Store) SetRing(name string, r keyring.Ring) error {
	text, err := r.Text()
	if err != nil {
		return fmt.Errorf("encode the keys %s: %w", name, err)
	}
	return keepFile(s.RingFile(name), text, 0o600)
}

// NextAuthorities is a list with a new authority, without those that signed nothing that still
// lasts.
func NextAuthorities(r keyring.Ring, made keyring.Key, now time.Time) (keyring.Ring, error) {
	return r[:believedOf(r, now)].Rotated(made)
}

// BelievedUntil is when the authority at a place of a list ceases to be believed; the zero time for
// the current one.
func BelievedUntil(r keyring.Ring, i int) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return r[i-1].Since.Add(certificateLife + Beside)
}

// believedOf is how many of a list are believed.
func believedOf(r keyring.Ring, now time.Time) int {
	n := min(1, len(r))
	for n > 0 && n < len(r) && now.Before(BelievedUntil(r, n)) {
		n++
	}
	return n
}

// Authority returns the self-signed authority called name. Another one is made if there is none, or
// if the one there lasts less than a year; certificates of clients that the former has signed are
// then replaced when they are next asked for, and certificates of servers after the time Beside.
func (s *Store) Authority(name string) (*Authority, error) {
	kind := AuthorityKind(name)
	ring, err := s.Ring(name, kind)
	if err != nil {
		return nil, err
	}
	all, err := parseAll(ring)
	if err != nil {
		return nil, err
	}
	now := s.now()
	if len(all) == 0 || all[0].Key == nil || !s.lasts(all[0].Cert, authorityRenew) {
		made, err := kind.Make(rand.Reader, now)
		if err == nil {
			ring, err = NextAuthorities(ring, made, now)
		}
		if err == nil {
			all, err = parseAll(ring)
		}
		if err != nil {
			return nil, fmt.Errorf("make authority %s: %w", name, err)
		}
	}
	ring = ring[:believedOf(ring, now)]
	proving := 0
	for next := 1; next < len(ring) && all[next].Key != nil && s.lasts(all[next].Cert, 0) && now.Before(ring[proving].Since.Add(Beside)); next++ {
		proving = next
	}
	for i := proving + 1; i < len(ring); i++ {
		ring[i].Material = all[i].CertPEM() // it only verifies any more, which takes no key
	}
	if err := s.SetRing(name, ring); err != nil {
		return nil, err
	}
	bundle, err := ring.Bundle(keyring.VerifyingOnly)
	if err != nil {
		return nil, err
	}
	key, err := keyring.PrivateOf(all[0])
	if err != nil {
		return nil, err
	}
	if err := errors.Join(keepFile(s.KeyFile(name), key, 0o600), keepFile(s.CertFile(name), bundle, 0o644)); err != nil {
		return nil, err
	}
	return &Authority{signing: all[0], proving: all[proving], bundle: bundle}, nil
}

func parseAll(r keyring.Ring) ([]keyring.Authority, error) {
	var out []keyring.Authority
	for _, k := range r {
		a, err := keyring.ParseAuthority(k.Material)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// SigningKey makes sure that a private key called name exists, with the public halves of it and of
// former ones in VerifyingFile, and returns its path.
func (s *Store) SigningKey(name string) (string, error) {
	kind := keyring.Signing()
	ring, err := s.Ring(name, kind)
	if err != nil {
		return "", err
	}
	if len(ring) == 0 {
		made, err := kind.Make(rand.Reader, s.now())
		if err != nil {
			return "", err
		}
		ring = keyring.Ring{made}
	}
	if err := s.SetRing(name, ring); err != nil {
		return "", err
	}
	public, err := ring.Bundle(keyring.PublicOnly)
	if err != nil {
		return "", err
	}
	return s.KeyFile(name), errors.Join(keepFile(s.KeyFile(name), ring[0].Material, 0o600), keepFile(s.VerifyingFile(name), public, 0o644))
}

// NextSigning is a list with a new key; of former ones the public halves are left, which is all
// that verifying takes.
func NextSigning(r keyring.Ring, made keyring.Key, _ time.Time) (keyring.Ring, error) {
	var former keyring.Ring
	for _, k := range r {
		public, err := keyring.PublicOnly(k.Material)
		if err != nil {
			return nil, err
		}
		k.Material = public
		former = append(former, k)
	}
	return former.Rotated(made)
}

// keepFile writes a file if it is not what it shall be. Its mode is put right in any case.
func keepFile(path string, text []byte, mode fs.FileMode) error {
	is, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && bytes.Equal(is, text) {
		return os.Chmod(path, mode)
	}
	return WriteFile(path, text, mode)
}
