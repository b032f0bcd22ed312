package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// office is a desk with a cluster of two hosts, and a clock that the test moves.
type office struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	desk   *Desk
}

var web, db = credential.Host{Namespace: "vms", Name: "web"}, credential.Host{Namespace: "vms", Name: "db"}

func newOffice(t *testing.T) *office {
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), rbacv1.AddToScheme(s), v1alpha1.AddToScheme(s), cloudv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	o := &office{T: t, client: fake.NewClientBuilder().WithScheme(s).Build(), clock: clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))}
	o.open()
	o.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "antrea-ca"}, Data: map[string]string{AuthorityKey: string(o.desk.Bundle())}})
	o.host(web, "1")
	o.host(db, "2")
	return o
}

// open starts the desk, as a process does.
func (o *office) open() {
	o.Helper()
	var err error
	o.desk, err = OpenDesk(o.Context(), DeskOptions{Client: o.client, Live: o.client, Namespace: "kube-system", Clock: o.clock, Log: logr.Discard()})
	if err != nil {
		o.Fatal(err)
	}
}

func (o *office) create(object client.Object) {
	o.Helper()
	if err := o.client.Create(o.Context(), object); err != nil {
		o.Fatal(err)
	}
}

func (o *office) host(h credential.Host, uid types.UID) {
	o.create(&v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name, UID: uid, Labels: map[string]string{"its": "own"}, Annotations: map[string]string{"some": "thing"}}})
}

func (o *office) node(h credential.Host) *v1alpha1.ExternalNode {
	o.Helper()
	var n v1alpha1.ExternalNode
	if err := o.client.Get(o.Context(), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, &n); err != nil {
		o.Fatal(err)
	}
	return &n
}

func (o *office) invite(h credential.Host) credential.Invitation {
	o.Helper()
	i, _, err := Invite(o.Context(), o.client, h, time.Hour, o.clock.Now())
	if err != nil {
		o.Fatal(err)
	}
	// What is brought to the host is text.
	if i, err = credential.ParseInvitation(i.String() + "\n"); err != nil {
		o.Fatal(err)
	}
	return i
}

func (o *office) key() credential.Key {
	o.Helper()
	k, err := credential.NewKey()
	if err != nil {
		o.Fatal(err)
	}
	return k
}

// redeem uses a token.
func (o *office) redeem(h credential.Host, secret string, request []byte) (credential.Papers, error) {
	return o.desk.Redeem(context.Background(), credential.Asked{Host: h.String(), Secret: secret, Request: string(request)}, netip.Addr{})
}

// enroll gives a host its first certificate.
func (o *office) enroll(h credential.Host) *x509.Certificate {
	o.Helper()
	p, err := o.redeem(h, o.invite(h).Secret, o.key().Request)
	if err != nil {
		o.Fatal(err)
	}
	return o.parse(p)
}

func (o *office) parse(p credential.Papers) *x509.Certificate {
	o.Helper()
	block, _ := pem.Decode([]byte(p.Certificate))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		o.Fatal(err)
	}
	return cert
}

// counts reports whether a certificate is taken for a host's.
func (o *office) counts(cert *x509.Certificate, h credential.Host) bool {
	o.Helper()
	id, ours, err := o.desk.Identify(o.Context(), cert)
	if !ours {
		o.Fatal("the desk does not know its own certificate")
	}
	if err != nil && !errors.Is(err, ErrRefused) {
		o.Error(err)
	}
	return err == nil && id.Host == h
}

func TestTokensCountOnceForOneHost(t *testing.T) {
	o := newOffice(t)
	i := o.invite(web)
	for what, try := range map[string]func() (credential.Papers, error){
		"another host": func() (credential.Papers, error) { return o.redeem(db, i.Secret, o.key().Request) },
		"a host that is none": func() (credential.Papers, error) {
			return o.redeem(credential.Host{Namespace: "vms", Name: "no"}, i.Secret, o.key().Request)
		},
		"another secret": func() (credential.Papers, error) { return o.redeem(web, "A"+i.Secret[1:]+"A", o.key().Request) },
		"no secret":      func() (credential.Papers, error) { return o.redeem(web, "", o.key().Request) },
		"the stored hash": func() (credential.Papers, error) {
			return o.redeem(web, strings.Fields(o.node(web).Annotations[AnnotationToken])[0], o.key().Request)
		},
		"no key": func() (credential.Papers, error) { return o.redeem(web, i.Secret, nil) },
		"an answer for no key": func() (credential.Papers, error) {
			return o.redeem(web, i.Secret, []byte(o.desk.Bundle()))
		},
	} {
		p, err := try()
		if err == nil || p != (credential.Papers{}) || !errors.Is(err, ErrRefused) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v %v", what, p, err)
		}
		if err != nil && strings.Contains(err.Error(), i.Secret) {
			t.Errorf("%s: the error tells the secret: %v", what, err)
		}
	}
	// The mark of one ExternalNode means nothing on another.
	copied := o.node(db)
	copied.Annotations[AnnotationToken] = o.node(web).Annotations[AnnotationToken]
	if err := o.client.Update(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if _, err := o.redeem(db, i.Secret, o.key().Request); !errors.Is(err, ErrRefused) {
		t.Errorf("a copied mark: %v", err)
	}
	p, err := o.redeem(web, i.Secret, o.key().Request)
	if err != nil {
		t.Fatal(err)
	}
	cert := o.parse(p)
	if !o.counts(cert, web) || p.Authority != string(o.desk.Bundle()) {
		t.Error("the certificate does not count")
	}
	if life := cert.NotAfter.Sub(o.clock.Now()); life != CertificateLife {
		t.Errorf("it lasts %s", life)
	}
	if _, err := o.redeem(web, i.Secret, o.key().Request); !errors.Is(err, ErrRefused) {
		t.Errorf("used twice: %v", err)
	}
	n := o.node(web)
	if n.Annotations["some"] != "thing" || n.Labels["its"] != "own" || n.Annotations[AnnotationToken] != "" {
		t.Errorf("%+v", n.ObjectMeta)
	}
}

func TestTokensEnd(t *testing.T) {
	o := newOffice(t)
	i := o.invite(web)
	o.clock.Step(time.Hour)
	if _, err := o.redeem(web, i.Secret, o.key().Request); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "ended") {
		t.Errorf("expired: %v", err)
	}
	former := o.invite(web)
	next := o.invite(web)
	if _, err := o.redeem(web, former.Secret, o.key().Request); !errors.Is(err, ErrRefused) {
		t.Errorf("replaced: %v", err)
	}
	// The ExternalNode is made anew, with the same name and by a copy of its manifest.
	n := o.node(web)
	if err := o.client.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	n.UID, n.ResourceVersion = "3", ""
	o.create(n)
	if _, err := o.redeem(web, next.Secret, o.key().Request); !errors.Is(err, ErrRefused) {
		t.Errorf("for a former ExternalNode of the name: %v", err)
	}
	for _, lifetime := range []time.Duration{0, time.Second, 8 * 24 * time.Hour} {
		if _, _, err := Invite(t.Context(), o.client, web, lifetime, o.clock.Now()); err == nil {
			t.Errorf("a token for %s", lifetime)
		}
	}
	if _, _, err := Invite(t.Context(), o.client, credential.Host{Namespace: "vms", Name: "no"}, time.Hour, o.clock.Now()); err == nil {
		t.Error("a token for a host that is none")
	}
}

// TestTokensCountOnceAtTheSameTime: of many hosts that show the same token at once, one is let in.
func TestTokensCountOnceAtTheSameTime(t *testing.T) {
	o := newOffice(t)
	i, key := o.invite(web), o.key()
	var all sync.WaitGroup
	var mu sync.Mutex
	var certs []*x509.Certificate
	for range 8 {
		all.Go(func() {
			p, err := o.redeem(web, i.Secret, key.Request)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			certs = append(certs, o.parse(p))
		})
	}
	all.Wait()
	if len(certs) != 1 || !o.counts(certs[0], web) {
		t.Errorf("%d were let in", len(certs))
	}
}

func TestCertificatesCountAsLongAsTheirHost(t *testing.T) {
	o := newOffice(t)
	cert, other := o.enroll(web), o.enroll(db)
	if !o.counts(cert, web) || !o.counts(other, db) {
		t.Fatal("they do not count")
	}
	o.open() // the next process has the same authority
	if !o.counts(cert, web) {
		t.Error("not after a restart")
	}
	id, _, err := o.desk.Identify(t.Context(), cert)
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.desk.Renew(t.Context(), id, o.key().Request)
	if err != nil || !o.counts(o.parse(p), web) {
		t.Errorf("renewed: %v", err)
	}
	if _, err := o.desk.Renew(t.Context(), id, []byte("no")); !apierrors.IsBadRequest(err) {
		t.Errorf("renewed without a key: %v", err)
	}
	o.clock.Step(CertificateLife + time.Minute)
	if o.counts(cert, web) {
		t.Error("it counts after its end")
	}

	// Enrolling anew ends what was before.
	cert = o.enroll(web)
	again := o.enroll(web)
	if o.counts(cert, web) || !o.counts(again, web) {
		t.Error("two enrolments count")
	}
	if err := Revoke(t.Context(), o.client, web); err != nil {
		t.Fatal(err)
	}
	if o.counts(again, web) {
		t.Error("it counts after it was revoked")
	}
	if id, _, _ := o.desk.Identify(t.Context(), again); id.Host == web {
		if _, err := o.desk.Renew(t.Context(), id, o.key().Request); !errors.Is(err, ErrRefused) {
			t.Errorf("a revoked one is renewed: %v", err)
		}
	}

	// Nor does a certificate count of a host that is gone, or of one of the same name after it,
	// with all that the former had written down.
	last := o.enroll(web)
	n := o.node(web)
	if err := o.client.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if o.counts(last, web) {
		t.Error("it counts without an ExternalNode")
	}
	n.UID, n.ResourceVersion = "3", ""
	o.create(n)
	if o.counts(last, web) {
		t.Error("it counts for another ExternalNode")
	}
}

func TestForgedCertificates(t *testing.T) {
	o := newOffice(t)
	real := o.enroll(web)
	id, _, err := o.desk.Identify(t.Context(), real)
	if err != nil {
		t.Fatal(err)
	}
	// An authority of the same name, with all that is known of the host.
	forger, err := newAuthority(rand.Reader, o.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := forger.certify(id, o.key().Request, o.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	if o.counts(o.parse(credential.Papers{Certificate: string(text)}), web) {
		t.Error("that of another authority counts")
	}
	// What the server proves itself with is no certificate of a host.
	served, _, err := o.desk.Serve()
	if err != nil {
		t.Fatal(err)
	}
	if o.counts(o.parse(credential.Papers{Certificate: string(served)}), web) {
		t.Error("that of the server counts")
	}
	// Somebody else's is none of ours.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "admin"}, NotAfter: o.clock.Now().Add(time.Hour)}
	foreign, err := sign(template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, ours, err := o.desk.Identify(t.Context(), foreign); ours || err != nil {
		t.Errorf("somebody else's certificate: %t %v", ours, err)
	}
	// What a request asks for does not count, nor is a key of another kind taken.
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.desk.Renew(t.Context(), id, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})); !apierrors.IsBadRequest(err) {
		t.Errorf("a key of another kind: %v", err)
	}
	der, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}},
		DNSNames: []string{credential.ServerName}}, key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.desk.Renew(t.Context(), id, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	if c := o.parse(p); len(c.DNSNames) > 0 || len(c.Subject.Organization) > 0 || c.Subject.CommonName != "nephele host" || c.IsCA {
		t.Errorf("the request decides what it is: %+v", c.Subject)
	}
}

// TestRequestsEndWithTheirCertificate: what is being answered for a host ends when its certificate
// does not count any more, and nothing else.
func TestRequestsEndWithTheirCertificate(t *testing.T) {
	o := newOffice(t)
	ids := map[credential.Host]credential.Identity{}
	for _, h := range []credential.Host{web, db} {
		id, _, err := o.desk.Identify(t.Context(), o.enroll(h))
		if err != nil {
			t.Fatal(err)
		}
		ids[h] = id
	}
	mine, leave := o.desk.Stay(t.Context(), ids[web])
	defer leave()
	others, leaveOthers := o.desk.Stay(t.Context(), ids[db])
	defer leaveOthers()
	o.desk.received(o.node(web), false) // something else about it has changed
	if mine.Err() != nil {
		t.Error("it ends without a reason")
	}
	if err := Revoke(t.Context(), o.client, web); err != nil {
		t.Fatal(err)
	}
	o.desk.received(o.node(web), false)
	if mine.Err() == nil || others.Err() != nil {
		t.Errorf("revoked: %v, of the other host: %v", mine.Err(), others.Err())
	}
	late, leaveLate := o.desk.Stay(t.Context(), ids[web])
	defer leaveLate()
	if late.Err() == nil {
		t.Error("what comes after it was revoked goes on")
	}
	leaveOthers()
	leave()
	leaveLate()
	if len(o.desk.guests) != 0 {
		t.Errorf("%d hosts are remembered", len(o.desk.guests))
	}
}

// TestStrangersDoNotLoadTheServer: tokens that are not valid cost the API server little.
func TestStrangersDoNotLoadTheServer(t *testing.T) {
	o := newOffice(t)
	refused, sentAway := 0, 0
	for range 10 * unknownCallersAtOnce {
		_, err := o.redeem(web, "guess", o.key().Request)
		switch {
		case errors.Is(err, ErrRefused):
			refused++
		case apierrors.IsTooManyRequests(err):
			sentAway++
		}
	}
	if sentAway == 0 || refused+sentAway != 10*unknownCallersAtOnce {
		t.Errorf("%d refused, %d sent away", refused, sentAway)
	}
	// They do not keep out a host with a token in the cache.
	if _, err := o.redeem(web, o.invite(web).Secret, o.key().Request); err != nil {
		t.Error(err)
	}
}

// TestDamagedAuthority: the authority is not replaced in silence, which would cut off all hosts.
func TestDamagedAuthority(t *testing.T) {
	o := newOffice(t)
	var s corev1.Secret
	if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: AuthorityName}, &s); err != nil {
		t.Fatal(err)
	}
	whole := s.Data[authorityKey]
	other, err := newAuthority(rand.Reader, o.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	material, err := other.material()
	if err != nil {
		t.Fatal(err)
	}
	_, foreign := pem.Decode(material) // what comes after the certificate
	for what, data := range map[string]map[string][]byte{
		"no certificate": {authorityKey: whole}, "no key": {authorityCert: s.Data[authorityCert]},
		"the key of another": {authorityCert: s.Data[authorityCert], authorityKey: foreign}, "no PEM": {authorityCert: []byte("x"), authorityKey: []byte("y")},
	} {
		damaged := s.DeepCopy()
		damaged.Data = data
		damaged.ResourceVersion = ""
		if err := o.client.Update(t.Context(), damaged); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenDesk(t.Context(), o.desk.o); err == nil || !strings.Contains(err.Error(), AuthorityName) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A Secret that a manifest has made, without data, is filled in.
	empty := s.DeepCopy()
	empty.Data, empty.ResourceVersion = nil, ""
	if err := o.client.Update(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	o.open()
	if !o.counts(o.enroll(web), web) {
		t.Error("the new authority does not count")
	}
}

func TestParseInvitation(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	if i, err := credential.ParseInvitation(" vms/web:S:" + sum + "\n"); err != nil || i != (credential.Invitation{Host: web, Secret: "S", Authority: sum}) || i.String() != "vms/web:S:"+sum {
		t.Errorf("%+v %v", i, err)
	}
	for text, want := range map[string]string{
		"vms/web:S:" + sum + "@10.0.0.10:10349": "10.0.0.10:10349", "vms/web:S:" + sum + "@[2001:db8::1]:1": "[2001:db8::1]:1", "azure-account:vms/web:S:" + sum + "@nephele:1": "nephele:1",
	} {
		if i, err := credential.ParseInvitation(text); err != nil || i.Server != want || i.String() != text {
			t.Errorf("%+v %v", i, err)
		}
	}
	for _, text := range []string{"vms/web:S:" + sum + "@", "vms/web:S:" + sum + "@10.0.0.10", "vms/web:S:" + sum + "@:1", "", "vms/web", "vms/web:S", "web:S:" + sum, "vms/web::" + sum, "vms/web:S:" + sum[:62], "vms/web:S:" + sum + ":", "vms/web:S:xyz"} {
		if i, err := credential.ParseInvitation(text); err == nil {
			t.Errorf("%q is taken for %+v", text, i)
		}
	}
}
