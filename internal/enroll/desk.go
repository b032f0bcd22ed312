package enroll

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/platform/keyring/vault"
)

// AuthorityName is the name of the Secret with the authorities for hosts. What is in it is to stay:
// without them all hosts have to enroll again.
const AuthorityName = "nephele-host-authority"

// What the Secret holds.
const authorityCert, authorityKey = "tls.crt", "tls.key"

// Strangers may make the desk ask the API server this often: for a token that was made a moment
// ago, which the cache does not have yet.
const (
	unknownCallersPerSecond = 5
	unknownCallersAtOnce    = 20
)

// ErrRefused is wrapped by errors that tell a host that what it shows does not count.
var ErrRefused = errors.New("refused")

// A signature is believed after a search and some arithmetic, which hosts of an account may make us
// do this often.
const (
	signaturesPerSecond = 20
	signaturesAtOnce    = 100
)

// DeskOptions are what a Desk needs. All fields but Machines are required.
type DeskOptions struct {
	// Client reads ExternalNodes from a cache and Secrets from the API server, and writes. Live
	// reads from the API server.
	Client client.Client
	Live   client.Reader
	// Machines returns what is known of the virtual machines of a CloudProviderAccount. Without it
	// no one enrolls by a signature of a cloud.
	Machines func(ctx context.Context, account types.NamespacedName) ([]cloudv1.VirtualMachine, error)
	// Namespace is that of the Secret.
	Namespace string
	Clock     clock.WithTicker
	Log       logr.Logger
}

// retryNodes is when a Node is to ask again for a certificate, where too many do.
const retryNodes = 5 * time.Second

// reread is how often the authorities are read again: somebody may have made another one.
const reread = time.Minute

// Desk gives certificates to hosts, and says which certificates are of.
type Desk struct {
	o              DeskOptions
	unknownCallers *rate.Limiter
	signed         *rate.Limiter

	mu sync.Mutex
	// trust are the authorities, and served is the certificate of the server.
	trust  authorities
	served served
	// guests are the long requests of hosts that are being answered. sendAgain ends all of them
	// once more: they were let in, perhaps, just before trust in an authority ended.
	guests    map[credential.Host]map[*guest]bool
	sendAgain bool
}

// guest is a long request.
type guest struct {
	id   credential.Identity
	send context.CancelFunc
}

// served is the certificate of a server of hosts, with its key, of an authority.
type served struct {
	by        *Authority
	until     time.Time
	cert, key []byte
}

// OpenDesk reads the authorities from their Secret, and makes one if there is none.
func OpenDesk(ctx context.Context, o DeskOptions) (*Desk, error) {
	d := &Desk{
		o: o, unknownCallers: rate.NewLimiter(unknownCallersPerSecond, unknownCallersAtOnce), signed: rate.NewLimiter(signaturesPerSecond, signaturesAtOnce),
		guests: map[credential.Host]map[*guest]bool{},
	}
	ring, _, made, err := Authorities().Load(ctx, o.Client, o.Namespace, rand.Reader, o.Clock.Now())
	if err == nil {
		d.trust, err = parseAuthorities(ring)
	}
	if err != nil {
		return nil, fmt.Errorf("the authority for hosts, Secret %s/%s: %w", o.Namespace, AuthorityName, err)
	}
	if made {
		o.Log.Info("A new authority signs the certificates of hosts", "secret", o.Namespace+"/"+AuthorityName, "id", ring[0].ID, "sha256", credential.Fingerprint(d.trust.all[0].cert))
	}
	return d, nil
}

// Keep reads the authorities again, every minute, until ctx ends. The known ones stay as long as
// they cannot be read.
func (d *Desk) Keep(ctx context.Context) error {
	ticker := d.o.Clock.NewTicker(reread)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if err := d.Reread(ctx); err != nil && ctx.Err() == nil {
			d.o.Log.Error(err, "The authorities for hosts cannot be read again; those known are used")
		}
	}
}

// Reread reads the authorities again. With one that has gone the long requests of all hosts end:
// those with certificates that count come back.
func (d *Desk) Reread(ctx context.Context) error {
	var s corev1.Secret
	err := d.o.Client.Get(ctx, client.ObjectKey{Namespace: d.o.Namespace, Name: AuthorityName}, &s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	var next authorities
	if err == nil {
		var ring keyring.Ring
		if ring, err = Authorities().Of(&s); err == nil {
			next, err = parseAuthorities(ring)
		}
	}
	if errors.Is(err, vault.ErrNone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the authority for hosts, Secret %s/%s: %w", d.o.Namespace, AuthorityName, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.trust.ring.IDs()
	d.trust = next
	if !slices.Equal(before, next.ring.IDs()) {
		d.o.Log.Info("The authorities for hosts have changed", "believed", next.ring.IDs(), "before", before)
	}
	gone := slices.ContainsFunc(before, func(id string) bool { _, still := next.ring.Find(id); return !still })
	if gone || d.sendAgain {
		for _, guests := range d.guests {
			for g := range guests {
				g.send()
			}
		}
	}
	d.sendAgain = gone
	return nil
}

// now are the authorities and the time.
func (d *Desk) now() (authorities, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trust, d.o.Clock.Now()
}

// Bundle are the certificates of the authorities that are believed, in PEM; first that which the
// server proves itself by.
func (d *Desk) Bundle() []byte {
	known, now := d.now()
	return known.bundle(now)
}

// Turns is when the server will prove itself by another authority; the zero time if nothing is
// known of that. Tokens that are made now are of no use afterwards.
func (d *Desk) Turns() time.Time {
	known, now := d.now()
	_, at := known.proving(now)
	return at
}

// Serve returns a certificate and a key for a server of hosts, in PEM. It is to be asked again from
// time to time, because they are replaced before they end and with the authority.
func (d *Desk) Serve() (cert, key []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Clock.Now()
	is, _ := d.trust.proving(now)
	if by := d.trust.all[is]; d.served.by == nil || !d.served.by.cert.Equal(by.cert) || now.Add(servingRenew).After(d.served.until) && d.served.until.Before(by.cert.NotAfter) {
		cert, key, err := by.serving(now)
		if err != nil {
			return nil, nil, err
		}
		d.served = served{by, by.until(now, servingLife), cert, key}
	}
	return d.served.cert, d.served.key, nil
}

// Follow listens for ExternalNodes that go or change, so that requests of their hosts end.
func (d *Desk) Follow(ctx context.Context, informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}) error {
	return d.follow(ctx, informers, &v1alpha1.ExternalNode{})
}

// FollowClusters does the same for Clusters. It is apart from Follow because nothing else is to
// wait where former roles do not let them be read.
func (d *Desk) FollowClusters(ctx context.Context, informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}) error {
	err := d.follow(ctx, informers, &setv1alpha1.Cluster{})
	if meta.IsNoMatchError(err) { // then no one can be one
		return nil
	}
	return err
}

func (d *Desk) follow(ctx context.Context, informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}, kind client.Object) error {
	informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, o any) { d.received(o, false) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				d.received(o, true)
			},
		})
	}
	if err != nil {
		return fmt.Errorf("certificates of hosts: watch %T: %w", kind, err)
	}
	return nil
}

func (d *Desk) received(o any, gone bool) {
	n, ok := o.(client.Object)
	switch {
	case !ok:
	case gone:
		d.sendHome(hostOf(n), nil)
	default:
		d.sendHome(hostOf(n), n)
	}
}

// objectOf is an empty object of the kind that represents a host.
func objectOf(h credential.Host) client.Object {
	if h.IsCluster() {
		return &setv1alpha1.Cluster{}
	}
	return &v1alpha1.ExternalNode{}
}

// hostOf is the entity that an ExternalNode or a Cluster represents.
func hostOf(o client.Object) credential.Host {
	return credential.Host{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func keyOf(h credential.Host) client.ObjectKey {
	return client.ObjectKey{Namespace: h.Namespace, Name: h.Name}
}

// sendHome ends the requests that do not count any more.
func (d *Desk) sendHome(h credential.Host, node client.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g := range d.guests[h] {
		if node == nil || counts(g.id, node) != nil {
			g.send()
		}
	}
}

// counts fails unless certificates of this enrolment count for the object.
func counts(id credential.Identity, node client.Object) error {
	switch {
	case node.GetUID() != id.UID || !node.GetDeletionTimestamp().IsZero():
		return fmt.Errorf("%w: the object of %s that the certificate is of is gone", ErrRefused, id.Host)
	case node.GetAnnotations()[AnnotationIdentity] != id.Enrolment:
		return fmt.Errorf("%w: the certificate of %s was revoked, or it has enrolled again", ErrRefused, id.Host)
	}
	return nil
}

// Known fails unless an identity counts now, as far as the cache knows.
func (d *Desk) Known(ctx context.Context, id credential.Identity) error {
	node := objectOf(id.Host)
	if err := d.o.Client.Get(ctx, keyOf(id.Host), node); apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: there is no object of %s any more", ErrRefused, id.Host)
	} else if err != nil {
		return err
	}
	return counts(id, node)
}

// Identify says which a certificate is of. ours is false for those that somebody else has signed;
// then there is no error.
func (d *Desk) Identify(ctx context.Context, cert *x509.Certificate) (id credential.Identity, ours bool, err error) {
	known, now := d.now()
	id, ours, err = known.verify(cert, now)
	if !ours {
		return credential.Identity{}, false, nil
	}
	if err != nil {
		return credential.Identity{}, true, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return id, true, d.Known(ctx, id)
}

// Stay returns a context for a long request, which ends when the identity does not count any more,
// and what ends it otherwise.
func (d *Desk) Stay(ctx context.Context, id credential.Identity) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	g := &guest{id, cancel}
	d.mu.Lock()
	if d.guests[id.Host] == nil {
		d.guests[id.Host] = map[*guest]bool{}
	}
	d.guests[id.Host][g] = true
	d.mu.Unlock()
	if d.Known(ctx, id) != nil { // since it was let in
		cancel()
	}
	return ctx, func() {
		cancel()
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.guests[id.Host], g); len(d.guests[id.Host]) == 0 {
			delete(d.guests, id.Host)
		}
	}
}

// Redeem gives a host its first certificate for what it proves itself with, as often as that can
// be used. from is the address that it asks from. Certificates of the host from before do not count
// any more.
func (d *Desk) Redeem(ctx context.Context, asked credential.Asked, from netip.Addr) (credential.Papers, error) {
	now, find := d.o.Clock.Now(), d.byToken
	if asked.Account != "" {
		find = d.bySignature
	}
	p, err := find(ctx, asked, from, now)
	if err != nil {
		return credential.Papers{}, err
	}
	node := objectOf(p.host)
	read := func() error {
		if err := d.o.Live.Get(ctx, keyOf(p.host), node); apierrors.IsNotFound(err) {
			return p.absent
		} else if err != nil {
			return err
		}
		return p.holds(node)
	}
	if err := read(); err != nil {
		return credential.Papers{}, err
	}
	if _, err := requestedKey([]byte(asked.Request)); err != nil { // before the token is gone
		return credential.Papers{}, apierrors.NewBadRequest(err.Error())
	}
	id, by := credential.Identity{Host: p.host, UID: node.GetUID(), Enrolment: rand.Text()}, d.signer(now)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		enrolled := by.noted(now)
		enrolled[AnnotationToken], enrolled[AnnotationIdentity] = nil, id.Enrolment
		err := annotate(ctx, d.o.Client, node.DeepCopyObject().(client.Object), node.GetResourceVersion(), enrolled)
		if !apierrors.IsConflict(err) {
			return err
		}
		// Somebody else has written it; perhaps with the same proof.
		if wrong := read(); wrong != nil {
			return wrong
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return credential.Papers{}, p.absent
	}
	if err != nil {
		return credential.Papers{}, err
	}
	d.o.Log.Info("A host has enrolled", "host", p.host.String(), "by", p.kind, "from", from.String())
	return d.credentials(by, id, []byte(asked.Request), now)
}

// Renew gives a host with a certificate that counts its next one.
func (d *Desk) Renew(ctx context.Context, id credential.Identity, request []byte) (credential.Papers, error) {
	if err := d.Known(ctx, id); err != nil {
		return credential.Papers{}, err
	}
	if _, err := requestedKey(request); err != nil {
		return credential.Papers{}, apierrors.NewBadRequest(err.Error())
	}
	now := d.o.Clock.Now()
	by := d.signer(now)
	// Written down before it is given: as long as it lasts no one else enrolls by a signature.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node := objectOf(id.Host)
		if err := d.o.Live.Get(ctx, keyOf(id.Host), node); err != nil {
			return err
		}
		if err := counts(id, node); err != nil {
			return err
		}
		return annotate(ctx, d.o.Client, node, node.GetResourceVersion(), by.noted(now))
	})
	if err != nil {
		return credential.Papers{}, err
	}
	return d.credentials(by, id, request, now)
}

// CertifyNode gives a Node a certificate by which other Nodes know it. The caller has been
// authenticated as the Node. The certificate ends with the Node: a later Node of the same name has
// another uid.
func (d *Desk) CertifyNode(ctx context.Context, name string, request []byte) (credential.Papers, error) {
	if _, err := requestedKey(request); err != nil {
		return credential.Papers{}, apierrors.NewBadRequest("spec.request: " + err.Error())
	}
	if !d.signed.Allow() {
		return credential.Papers{}, apierrors.NewTooManyRequests("too many certificates are asked for; try again later", int(retryNodes/time.Second))
	}
	var node corev1.Node
	if err := d.o.Live.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return credential.Papers{}, err
	}
	// The authority that the server proves itself by is known to every Node with a certificate,
	// which a new one is not at once.
	known, now := d.now()
	by, _ := known.proving(now)
	cert, err := known.all[by].certifyNode(cloudv1.IPsecIdentity(node.Name, node.UID), request, now)
	return credential.Papers{Certificate: string(cert), Authority: string(known.bundle(now))}, err
}

// signer is the authority that signs certificates of hosts, and its ID.
type signer struct {
	*Authority
	id string
}

func (d *Desk) signer(now time.Time) signer {
	known, _ := d.now()
	i := known.signing(now)
	return signer{known.all[i], known.ring[i].ID}
}

// noted is what is written down of a certificate that is made now.
func (s signer) noted(now time.Time) map[string]any {
	return map[string]any{AnnotationEnds: s.until(now, CertificateLife).UTC().Format(time.RFC3339), AnnotationAuthority: s.id}
}

func (d *Desk) credentials(by signer, id credential.Identity, request []byte, now time.Time) (credential.Papers, error) {
	cert, err := by.certify(id, request, now)
	return credential.Papers{Certificate: string(cert), Authority: string(d.Bundle())}, err
}
