package enroll

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/platform/keyring/vault"
)

// Several authorities are believed at a time, so that another one can take the place of the first
// without any host that has to enroll anew. A new one is reported to every host that renews its
// certificate, and signs these from some minutes on, when every replica knows it. The server goes
// on proving itself by the one before until every host that has a certificate has renewed it: as
// long as such a certificate lasts. After twice that time no one has a certificate of the one
// before, and it is not believed any more.
const (
	// settles is how long every replica takes, at most, to know of a new authority.
	settles = 5 * time.Minute
	// Beside is how long a new authority is reported to hosts before the server proves itself by
	// it: as long as a certificate lasts that a replica has given which did not know of it yet.
	Beside = CertificateLife + settles
	// outlives is how long a former authority is believed after another one has come.
	outlives = 2 * CertificateLife
)

// Authorities is where the authorities for hosts are kept.
func Authorities() vault.Place {
	return vault.Place{
		Kind: keyring.Authorities(func(random io.Reader, now time.Time) ([]byte, error) {
			a, err := newAuthority(random, now)
			if err != nil {
				return nil, err
			}
			return a.material()
		}),
		Secret: AuthorityName,
		Current: func(data map[string][]byte) []byte {
			if len(data[authorityCert]) == 0 && len(data[authorityKey]) == 0 {
				return nil
			}
			return slices.Concat(data[authorityCert], []byte("\n"), data[authorityKey])
		},
		SetCurrent: func(data map[string][]byte, material []byte) error {
			a, err := keyring.ParseAuthority(material)
			if err != nil {
				return err
			}
			if a.Key == nil {
				return errNoKey
			}
			der, err := x509.MarshalPKCS8PrivateKey(a.Key)
			data[authorityCert], data[authorityKey] = a.CertPEM(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
			return err
		},
	}
}

var errNoKey = errors.New("want a certificate and a key in PEM")

// NextAuthorities is a list with a new authority, without those that no one believes any more.
func NextAuthorities(r keyring.Ring, made keyring.Key, now time.Time) (keyring.Ring, error) {
	return r[:believedOf(r, now)].Rotated(made)
}

// believedOf is how many of a list are believed at a time, from the current one on.
func believedOf(r keyring.Ring, now time.Time) int {
	n := 1
	for n < len(r) && now.Before(r[n-1].Since.Add(outlives)) {
		n++
	}
	return n
}

// BelievedUntil is when the key of a list ceases to be believed; the zero time for the current one.
func BelievedUntil(r keyring.Ring, i int) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return r[i-1].Since.Add(outlives)
}

// authorities are the authorities of a list, the current one first.
type authorities struct {
	ring keyring.Ring
	all  []*Authority
}

func parseAuthorities(r keyring.Ring) (authorities, error) {
	out := authorities{ring: r}
	for i, k := range r {
		a, err := keyring.ParseAuthority(k.Material)
		if err == nil && i == 0 && a.Key == nil {
			err = errNoKey
		}
		if err != nil {
			return authorities{}, err
		}
		out.all = append(out.all, &Authority{a.Cert, a.Key})
	}
	return out, nil
}

// since is the index of the youngest authority that is there for that long and can sign, or of the
// oldest one that can.
func (a authorities) since(now time.Time, d time.Duration) int {
	oldest := 0
	for i := range a.all[:believedOf(a.ring, now)] {
		if a.all[i].key == nil {
			continue
		}
		if !now.Before(a.ring[i].Since.Add(d)) {
			return i
		}
		oldest = i
	}
	return oldest
}

// signing signs certificates of hosts.
func (a authorities) signing(now time.Time) int { return a.since(now, settles) }

// proving is what the server proves itself by, and when that will be another one; the zero time if
// none is known.
func (a authorities) proving(now time.Time) (is int, until time.Time) {
	is = a.since(now, Beside)
	if is > 0 {
		until = a.ring[is-1].Since.Add(Beside)
	}
	return is, until
}

// bundle are the certificates of all that are believed, that of the server first.
func (a authorities) bundle(now time.Time) []byte {
	is, _ := a.proving(now)
	out := bytes.NewBuffer(a.all[is].CertPEM())
	for i, other := range a.all[:believedOf(a.ring, now)] {
		if i != is {
			out.Write(other.CertPEM())
		}
	}
	return out.Bytes()
}

// verify returns what a certificate of a host says. ours tells that one of these authorities claims
// to have signed it, so that no one else needs to look at it.
func (a authorities) verify(cert *x509.Certificate, now time.Time) (id credential.Identity, ours bool, err error) {
	roots := x509.NewCertPool()
	for _, one := range a.all[:believedOf(a.ring, now)] {
		ours = ours || bytes.Equal(cert.RawIssuer, one.cert.RawSubject)
		roots.AddCert(one.cert)
	}
	if !ours {
		return credential.Identity{}, false, nil
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return credential.Identity{}, true, fmt.Errorf("the certificate of the host: %w", err)
	}
	id, err = credential.IdentityOf(cert)
	return id, true, err
}
