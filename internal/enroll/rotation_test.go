package enroll

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// rotate makes another authority, as the command does, and lets the desk read it. It returns the
// ID of the former one.
func (o *office) rotate() string {
	o.Helper()
	before := ""
	err := Authorities().Change(o.Context(), o.client, "kube-system", func(r keyring.Ring) (keyring.Ring, error) {
		before = r[0].ID
		made, err := Authorities().Make(rand.Reader, o.clock.Now())
		if err != nil {
			return nil, err
		}
		return NextAuthorities(r, made, o.clock.Now())
	})
	if err = errors.Join(err, o.desk.Reread(o.Context())); err != nil {
		o.Fatal(err)
	}
	return before
}

// pool are certificates in PEM.
func (o *office) pool(text string) *x509.CertPool {
	o.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(text)) {
		o.Fatal("no certificate")
	}
	return roots
}

// believes reports whether a host that knows these authorities believes the server.
func (o *office) believes(known string) bool {
	o.Helper()
	served, _, err := o.desk.Serve()
	if err != nil {
		o.Fatal(err)
	}
	block, _ := pem.Decode(served)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		o.Fatal(err)
	}
	if life := leaf.NotAfter.Sub(o.clock.Now()); life > servingLife || life < servingRenew {
		o.Errorf("the certificate of the server lasts %s", life)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: o.pool(known), DNSName: credential.ServerName, CurrentTime: o.clock.Now()})
	return err == nil
}

// publish puts what the registration would into the ConfigMap.
func (o *office) publish() {
	o.Helper()
	var c corev1.ConfigMap
	if err := o.client.Get(o.Context(), client.ObjectKey{Namespace: authorityNamespace, Name: authorityConfigMap}, &c); err != nil {
		o.Fatal(err)
	}
	c.Data[AuthorityKey] = string(o.desk.Bundle())
	if delete(c.Data, TurnsKey); !o.desk.Turns().IsZero() {
		c.Data[TurnsKey] = o.desk.Turns().UTC().Format(time.RFC3339)
	}
	if err := o.client.Update(o.Context(), &c); err != nil {
		o.Fatal(err)
	}
}

// renewing is a host that renews its certificate as agents do.
type renewing struct {
	credentials credential.Papers
	cert        *x509.Certificate
}

// live lets a host live until some time: it renews when that is due, and at every moment it and
// the server believe one another.
func (o *office) live(hosts []*renewing, d time.Duration) {
	o.Helper()
	for end := o.clock.Now().Add(d); o.clock.Now().Before(end); o.clock.Step(time.Hour) {
		for i, h := range hosts {
			if !o.believes(h.credentials.Authority) {
				o.Fatalf("at %s host %d does not believe the server", o.clock.Now(), i)
			}
			id, ours, err := o.desk.Identify(o.Context(), h.cert)
			if !ours || err != nil {
				o.Fatalf("at %s host %d is not believed: %v", o.clock.Now(), i, err)
			}
			reported, _ := credential.ParseCertificate([]byte(h.credentials.Certificate))
			if !reported.Due(o.clock.Now()) {
				continue
			}
			if h.credentials, err = o.desk.Renew(o.Context(), id, o.key().Request); err != nil {
				o.Fatal(err)
			}
			h.cert = o.parse(h.credentials)
		}
	}
}

func (o *office) join(h credential.Host) *renewing {
	o.Helper()
	p, err := o.redeem(h, o.invite(h).Secret, o.key().Request)
	if err != nil {
		o.Fatal(err)
	}
	return &renewing{p, o.parse(p)}
}

// TestAuthoritiesRotate: no host has to enroll anew, whenever it enrolled and however often the
// authority changes, with restarts of the server in between.
func TestAuthoritiesRotate(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		o := newOffice(t)
		hosts := []*renewing{o.join(web)}
		o.live(hosts, 3*24*time.Hour)
		hosts = append(hosts, o.join(db))
		first := o.rotate()
		o.publish()
		if n := o.node(web); n.Annotations[AnnotationAuthority] != first {
			t.Error(n.Annotations)
		}
		for day := range 40 {
			o.live(hosts, 24*time.Hour)
			if day == 2 || day == 5 || day == 25 {
				o.rotate()
			}
			if restarts {
				o.open()
			}
			o.publish()
			// A host that enrolls in between is no exception.
			i, end, err := Invite(t.Context(), o.client, db, time.Hour, o.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			served, _, err := o.desk.Serve()
			if err != nil {
				t.Fatal(err)
			}
			_, rest := pem.Decode(served)
			block, _ := pem.Decode(rest)
			if shown, err := x509.ParseCertificate(block.Bytes); err != nil || credential.Fingerprint(shown) != i.Authority {
				t.Errorf("day %d: the token names another authority than the server shows: %v", day, err)
			}
			if turns := o.desk.Turns(); !turns.IsZero() && end.After(turns) {
				t.Errorf("day %d: the token lasts until %s, the server turns at %s", day, end, turns)
			}
		}
		if by := o.node(web).Annotations[AnnotationAuthority]; by == first {
			t.Error("still signed by the first authority")
		}
		if known, now := o.desk.now(); believedOf(known.ring, now) != 1 {
			t.Error("former ones are believed for ever")
		}
		if o.believes(string(o.desk.Bundle())) != true || o.desk.Turns() != (time.Time{}) {
			t.Error("it is not over")
		}
	}
}

// TestAuthorityDistrusted: after an incident certificates of the former authority do not count, at
// once, and long requests end; hosts that have renewed since stay.
func TestAuthorityDistrusted(t *testing.T) {
	o := newOffice(t)
	old := o.join(web)
	first := o.rotate()
	o.clock.Step(settles)
	fresh := o.join(db)
	id, _, err := o.desk.Identify(t.Context(), old.cert)
	if err != nil {
		t.Fatal(err)
	}
	stay, leave := o.desk.Stay(t.Context(), id)
	defer leave()
	err = Authorities().Change(t.Context(), o.client, "kube-system", func(r keyring.Ring) (keyring.Ring, error) { return r.Without(first) })
	if err = errors.Join(err, o.desk.Reread(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.desk.Identify(t.Context(), old.cert); !errors.Is(err, ErrRefused) {
		t.Errorf("it is still believed: %v", err)
	}
	if stay.Err() == nil {
		t.Error("the long request goes on")
	}
	// One that was let in just before, and begins only now.
	for i, ends := range []bool{true, false} {
		late, leave := o.desk.Stay(t.Context(), id)
		if err := o.desk.Reread(t.Context()); err != nil {
			t.Fatal(err)
		}
		if (late.Err() != nil) != ends {
			t.Errorf("after %d more minutes: %v", i+1, late.Err())
		}
		leave()
	}
	if _, _, err := o.desk.Identify(t.Context(), fresh.cert); err != nil {
		t.Error(err)
	}
	if !o.believes(fresh.credentials.Authority) || o.believes(old.credentials.Authority) {
		t.Error("the server does not prove itself by the new one")
	}
}

// TestServingLeafIsRenewed: it lasts a year at most, and is replaced before its end.
func TestServingLeafIsRenewed(t *testing.T) {
	o := newOffice(t)
	known := string(o.desk.Bundle())
	for range 40 {
		if !o.believes(known) {
			t.Fatal("not believed at", o.clock.Now())
		}
		o.clock.Step(60 * 24 * time.Hour)
	}
	// The authority ends after ten years: then the certificate ends with it, and stays.
	o.clock.Step(10*365*24*time.Hour - o.clock.Since(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) - time.Hour)
	first, _, err := o.desk.Serve()
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := o.desk.Serve(); err != nil || string(again) != string(first) {
		t.Error("made anew with every question", err)
	}
}
