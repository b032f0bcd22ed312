package enroll

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
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
)

// AuthorityName is the name of the Secret with the authority for hosts. What is in it is to stay:
// with another authority all hosts have to enroll again.
const AuthorityName = "nephele-host-authority"

// What the Secret holds.
const authorityCert, authorityKey = "tls.crt", "tls.key"

// Strangers may make the desk ask the API server this often: for a token that was made a moment
// ago, which the cache does not have yet.
const (
	strangersPerSecond = 5
	strangersAtOnce    = 20
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
	// nobody enrolls by a signature of a cloud.
	Machines func(ctx context.Context, account types.NamespacedName) ([]cloudv1.VirtualMachine, error)
	// Namespace is that of the Secret.
	Namespace string
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Desk gives certificates to hosts, and says whom certificates are of.
type Desk struct {
	o         DeskOptions
	authority *Authority
	strangers *rate.Limiter
	signed    *rate.Limiter

	mu sync.Mutex
	// guests are the long requests of hosts that are being answered.
	guests map[credential.Host]map[*guest]bool
}

// guest is a long request.
type guest struct {
	id   credential.Identity
	send context.CancelFunc
}

// OpenDesk reads the authority from its Secret, and makes one if there is none.
func OpenDesk(ctx context.Context, o DeskOptions) (*Desk, error) {
	d := &Desk{
		o: o, strangers: rate.NewLimiter(strangersPerSecond, strangersAtOnce), signed: rate.NewLimiter(signaturesPerSecond, signaturesAtOnce),
		guests: map[credential.Host]map[*guest]bool{},
	}
	// Several replicas may be the first at the same time.
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) },
		func() (err error) { d.authority, err = d.load(ctx); return err })
	if err != nil {
		return nil, fmt.Errorf("the authority for hosts, Secret %s/%s: %w", o.Namespace, AuthorityName, err)
	}
	return d, nil
}

func (d *Desk) load(ctx context.Context) (*Authority, error) {
	var s corev1.Secret
	err := d.o.Client.Get(ctx, client.ObjectKey{Namespace: d.o.Namespace, Name: AuthorityName}, &s)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return nil, err
	}
	if len(s.Data[authorityCert]) > 0 || len(s.Data[authorityKey]) > 0 {
		return parseAuthority(s.Data[authorityCert], s.Data[authorityKey])
	}
	made, err := newAuthority(d.o.Clock.Now())
	if err != nil {
		return nil, err
	}
	key, err := made.keyPEM()
	if err != nil {
		return nil, err
	}
	s.Namespace, s.Name, s.Data = d.o.Namespace, AuthorityName, map[string][]byte{authorityCert: made.CertPEM(), authorityKey: key}
	if absent {
		s.Type = corev1.SecretTypeOpaque
		err = d.o.Client.Create(ctx, &s)
	} else {
		err = d.o.Client.Update(ctx, &s)
	}
	if err == nil {
		d.o.Log.Info("A new authority signs the certificates of hosts", "secret", d.o.Namespace+"/"+AuthorityName, "sha256", credential.Fingerprint(made.cert))
	}
	return made, err
}

// Authority is the one of the desk.
func (d *Desk) Authority() *Authority { return d.authority }

// Serve makes a certificate and a key for a server of hosts, in PEM.
func (d *Desk) Serve() (cert, key []byte, err error) { return d.authority.serving(d.o.Clock.Now()) }

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
	if meta.IsNoMatchError(err) { // then nobody can be one
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
			UpdateFunc: func(_, o any) { d.heard(o, false) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				d.heard(o, true)
			},
		})
	}
	if err != nil {
		return fmt.Errorf("certificates of hosts: watch %T: %w", kind, err)
	}
	return nil
}

func (d *Desk) heard(o any, gone bool) {
	n, ok := o.(client.Object)
	switch {
	case !ok:
	case gone:
		d.sendHome(hostOf(n), nil)
	default:
		d.sendHome(hostOf(n), n)
	}
}

// objectOf is an empty object of the kind that stands for a host.
func objectOf(h credential.Host) client.Object {
	if h.IsCluster() {
		return &setv1alpha1.Cluster{}
	}
	return &v1alpha1.ExternalNode{}
}

// hostOf is whom an ExternalNode or a Cluster stands for.
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

// Identify says whom a certificate is of. ours is false for those that somebody else has signed;
// then there is no error.
func (d *Desk) Identify(ctx context.Context, cert *x509.Certificate) (id credential.Identity, ours bool, err error) {
	id, ours, err = d.authority.verify(cert, d.o.Clock.Now())
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
	id := credential.Identity{Host: p.host, UID: node.GetUID(), Enrolment: rand.Text()}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		enrolled := map[string]any{AnnotationToken: nil, AnnotationIdentity: id.Enrolment, AnnotationEnds: d.end(now)}
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
	return d.papers(id, []byte(asked.Request), now)
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
	// Written down before it is given: as long as it lasts nobody else enrolls by a signature.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node := objectOf(id.Host)
		if err := d.o.Live.Get(ctx, keyOf(id.Host), node); err != nil {
			return err
		}
		if err := counts(id, node); err != nil {
			return err
		}
		return annotate(ctx, d.o.Client, node, node.GetResourceVersion(), map[string]any{AnnotationEnds: d.end(now)})
	})
	if err != nil {
		return credential.Papers{}, err
	}
	return d.papers(id, request, now)
}

// end is when certificates end that are made now, as AnnotationEnds has it.
func (d *Desk) end(now time.Time) string { return d.authority.until(now).UTC().Format(time.RFC3339) }

func (d *Desk) papers(id credential.Identity, request []byte, now time.Time) (credential.Papers, error) {
	cert, err := d.authority.certify(id, request, now)
	return credential.Papers{Certificate: string(cert), Authority: string(d.authority.CertPEM())}, err
}
