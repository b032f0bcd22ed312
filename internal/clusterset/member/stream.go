package member

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/pulse"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// CredentialsName is the name of the Secret with what this cluster proves itself with.
const CredentialsName = "nephele-membership"

// What the Secret holds: the token, until it is used, and then the rest.
const (
	KeyToken     = "token"
	keyCert      = "tls.crt"
	keyPrivate   = "tls.key"
	keyAuthority = "ca.crt"
)

// openLimit bounds the wait for the hub's first word; dialLimit is how long one of several
// addresses may keep the next one waiting.
const openLimit, dialLimit = 20 * time.Second, 5 * time.Second

var (
	errRefused = errors.New("the hub refuses this cluster")
	errVersion = errors.New("the hub and this cluster do not understand each other")
	errLeft    = errors.New("the Membership is not what it was when the stream began")
)

func isRefusal(err error) bool { return errors.Is(err, errRefused) }
func isVersion(err error) bool { return errors.Is(err, errVersion) }

// round gets a certificate if one is due, and keeps a stream for as long as it lasts. It reports
// whether there was one.
func (m *Member) round(ctx context.Context, membership *setv1alpha1.Membership) (lasted bool, err error) {
	var errs []error
	for _, server := range membership.Spec.Hub {
		secret, err := m.credentials(ctx, "https://"+server)
		if err == nil {
			lasted, err = m.stream(ctx, server, secret, membership)
		}
		if lasted || ctx.Err() != nil {
			return lasted, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	return false, errors.Join(errs...)
}

// credentials returns the Secret with a certificate that is not due to be renewed, if it can be
// renewed.
func (m *Member) credentials(ctx context.Context, server string) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := m.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: CredentialsName}, &secret)
	if err != nil {
		m.unjoined("the Secret " + m.Namespace + "/" + CredentialsName + " cannot be read: " + err.Error())
		return nil, fmt.Errorf("read Secret %s/%s: %w", m.Namespace, CredentialsName, err)
	}
	if token := string(secret.Data[KeyToken]); token != "" {
		if err := m.join(ctx, &secret, token, server); err != nil {
			m.unjoined(err.Error())
			return nil, err
		}
	}
	cert, ok := credential.ParseCertificate(secret.Data[keyCert])
	if !ok {
		m.unjoined("the Secret " + m.Namespace + "/" + CredentialsName + " holds no certificate: join again")
		return nil, errors.New("there is no certificate; join again")
	}
	now := m.Clock.Now()
	if !now.Before(cert.Expires) {
		m.unjoined("the certificate ended at " + cert.Expires.UTC().Format(time.RFC3339) + ": join again")
		return nil, fmt.Errorf("%w: the certificate ended at %s; join again", errRefused, cert.Expires.UTC().Format(time.RFC3339))
	}
	if cert.Due(now) {
		if err := m.renew(ctx, &secret, server); err != nil {
			m.Log.Info("The certificate was not renewed, trying again with the next connection", "ends", cert.Expires, "reason", err.Error())
		} else if cert, ok = credential.ParseCertificate(secret.Data[keyCert]); !ok {
			return nil, errors.New("the hub has given a certificate that is none")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.joined, m.state.joinWhy, m.state.ends = true, "", cert.Expires
	if block, _ := pem.Decode(secret.Data[keyAuthority]); block != nil {
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil {
			m.state.authority = credential.Fingerprint(authority)
		}
	}
	return &secret, nil
}

func (m *Member) unjoined(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.joined, m.state.joinWhy = false, why
}

// join uses the token.
func (m *Member) join(ctx context.Context, secret *corev1.Secret, token, server string) error {
	invitation, err := credential.ParseClusterInvitation(token)
	if err != nil {
		return err
	}
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	papers, err := credential.Join(ctx, server, invitation, nil, key)
	if err != nil {
		return err
	}
	delete(secret.Data, KeyToken)
	return m.keep(ctx, secret, papers, key)
}

func (m *Member) renew(ctx context.Context, secret *corev1.Secret, server string) error {
	transport, err := m.transport(secret)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	papers, err := credential.Renewal(ctx, &http.Client{Transport: transport}, server, key)
	if err != nil {
		return err
	}
	return m.keep(ctx, secret, papers, key)
}

// keep stores a certificate with its key.
func (m *Member) keep(ctx context.Context, secret *corev1.Secret, papers credential.Papers, key credential.Key) error {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[keyCert], secret.Data[keyPrivate], secret.Data[keyAuthority] = []byte(papers.Certificate), key.Private, []byte(papers.Authority)
	if err := m.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("keep the certificate: %w", err)
	}
	return nil
}

// transport proves itself with the certificate, and knows the hub by its authority.
func (m *Member) transport(secret *corev1.Secret) (*http.Transport, error) {
	pair, err := tls.X509KeyPair(secret.Data[keyCert], secret.Data[keyPrivate])
	if err != nil {
		return nil, fmt.Errorf("the certificate and its key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[keyAuthority]) {
		return nil, errors.New("the authority of the hub is no certificate")
	}
	return &http.Transport{
		ForceAttemptHTTP2: true, DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: openLimit,
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: credential.ServerName, MinVersion: tls.VersionTLS12, Time: m.Clock.Now},
	}, nil
}

// stream connects to the hub, and tells and hears until that ends. It reports whether the hub had
// welcomed this cluster.
func (m *Member) stream(ctx context.Context, server string, secret *corev1.Secret, membership *setv1alpha1.Membership) (welcome bool, err error) {
	transport, err := m.transport(secret)
	if err != nil {
		return false, err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := pulse.Watch(ctx, m.Clock, cancel)
	body, up := io.Pipe()
	defer func() { _ = up.Close() }()
	// The transport waits for what it is to send, whatever becomes of the context.
	defer context.AfterFunc(ctx, func() { _ = body.CloseWithError(context.Cause(ctx)) })()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server+credential.FeedPath, body)
	if err != nil {
		return false, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		err := fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
		if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return false, err
	}
	unsent := wire.Write(up, &wire.Up{Hello: m.hello()})
	in := wire.NewReader(response.Body)
	var first wire.Down
	if err := in.Read(&first); err != nil { // a hub that does not listen may have said why
		return false, causeOf(ctx, cmp.Or(unsent, err))
	}
	heard()
	switch w := first.Welcome; {
	case w == nil:
		return false, fmt.Errorf("the hub says no welcome: %s", shortened(first.End))
	case w.Version < wire.Oldest || w.Version > wire.Version:
		return false, fmt.Errorf("%w: %s", errVersion, shortened(w.Error))
	case w.Cluster != membership.Spec.Cluster:
		return false, fmt.Errorf("%w: for the hub this is cluster %q", errRefused, shortened(w.Cluster))
	}
	m.welcomed(first.Welcome)
	var telling sync.WaitGroup
	for _, part := range []func(){
		func() { m.stayKnown(ctx, "https://"+server) },
		func() { m.stay(ctx, membership, cancel) },
		func() { m.answer(ctx) },
		func() { defer cancel(nil); m.speak(ctx, up) },
	} {
		telling.Go(func() { // a panic ends the stream, and nothing else
			err := recovered.Do(part)
			if stack := recovered.StackOf(err); stack != "" {
				m.Log.Error(err, "A panic was recovered", "stack", stack)
				cancel(err)
			}
		})
	}
	err = m.hearHub(ctx, in, heard)
	cancel(nil)
	_ = body.CloseWithError(err) // whoever is writing
	telling.Wait()
	return true, causeOf(ctx, err)
}

// renewPause is how often it is looked whether the certificate is due to be renewed.
const renewPause = 10 * time.Minute

// stayKnown renews the certificate while a stream lasts, however long that is: it would be too late
// when the stream has ended, because one that has ended renews nothing.
func (m *Member) stayKnown(ctx context.Context, server string) {
	ticker := m.Clock.NewTicker(renewPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if _, err := m.credentials(ctx, server); err != nil && ctx.Err() == nil {
			m.Log.Info("The certificate could not be looked at", "reason", err.Error())
		}
	}
}

// stay ends a stream when there is no such Membership any more: whoever has left tells and hears
// nothing more.
func (m *Member) stay(ctx context.Context, began *setv1alpha1.Membership, cancel context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.news:
		}
		now, err := m.membership(ctx)
		for err != nil && ctx.Err() == nil {
			m.wait(ctx, nil, retryPause, true)
			now, err = m.membership(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if now == nil || now.UID != began.UID || now.Spec.Cluster != began.Spec.Cluster || !slices.Equal(now.Spec.Hub, began.Spec.Hub) {
			cancel(errLeft)
			wake(m.news)
			return
		}
		m.mu.Lock()
		m.state.membership = now
		m.mu.Unlock()
	}
}

// causeOf says why a stream has ended: by our own doing, or as the error says.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, pulse.ErrSilent) || errors.Is(cause, errLeft) {
		return cause
	}
	return err
}

// hello is what a stream begins with.
func (m *Member) hello() *wire.Hello {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &wire.Hello{
		Version: wire.Version, Oldest: wire.Oldest, Program: m.Program, ClusterID: m.ClusterID, Epoch: m.Epoch, Stream: m.state.stream, Heard: m.state.received,
	}
}

func (m *Member) welcomed(w *wire.Welcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.connected, m.state.why, m.state.heard, m.state.refused = true, "", m.Clock.Now(), ""
	m.state.version = w.Version
	m.relabel(w.Labels)
	m.annotate()
	m.forgetQuestions()
	m.counted, m.uncounted = map[string]wire.Counted{}, nil
	if m.state.stream = w.Stream; w.Resumed {
		if !m.feed.Resume(w.Taken) {
			m.feed.BeginAs(w.Version)
		}
	} else {
		m.state.received, m.sent = 0, map[string]map[string]bool{}
		m.feed.BeginAs(w.Version)
		m.book.Begin()
	}
	for uid := range m.seen {
		m.retell[uid] = true
	}
	for uid := range m.outcome {
		m.retell[uid] = true
	}
	m.Log.Info("Connected to the hub", "cluster", w.Cluster, "version", w.Program, "resumed", w.Resumed)
}

// relabel takes over the labels that this cluster has in the hub. The caller holds the lock.
func (m *Member) relabel(labels map[string]string) {
	if labels == nil {
		labels = map[string]string{}
	}
	if m.entities != nil && !maps.Equal(m.state.labels, labels) { // they are written into policies
		for uid := range m.wanted {
			m.dirty[uid] = true
		}
		wake(m.work)
	}
	m.state.labels, m.state.cluster = labels, m.state.membership.Spec.Cluster
	m.Policies.PutOwnLabels(peers.Given(m.state.membership.Spec.Cluster, labels))
}

// speak tells the hub what is new until ctx ends.
func (m *Member) speak(ctx context.Context, out io.Writer) {
	ticker := m.Clock.NewTicker(pulse.Beat)
	defer ticker.Stop()
	for {
		for ctx.Err() == nil {
			u := m.next()
			if u == nil {
				break
			}
			if wire.Write(out, u) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-m.told:
		case <-ticker.C():
			m.count()
			if wire.Write(out, &wire.Up{Beat: true}) != nil {
				return
			}
		}
	}
}

// mostRealizations is how many go into one record.
const mostRealizations = 200

// next is what to tell next; nil if there is nothing.
func (m *Member) next() *wire.Up {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := min(len(m.answers), mostAnswers); n > 0 { // somebody waits
		out := &wire.Up{Answers: m.answers[:n]}
		m.answers = m.answers[n:]
		return out
	}
	if u := m.feed.Next(); u != nil {
		m.has(u.Interests)
		return u
	}
	if len(m.retell) == 0 {
		return m.nextCounted()
	}
	out := &wire.Up{}
	for uid := range m.retell {
		delete(m.retell, uid)
		r, wrong := m.outcome[uid]
		if !wrong {
			r = m.seen[uid]
		}
		if r.UID != "" {
			out.Realizations = append(out.Realizations, r)
		}
		if len(out.Realizations) == mostRealizations {
			break
		}
	}
	return out
}

// count finds out for which copies something was counted that the hub does not know.
func (m *Member) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uncounted = nil
	for _, uid := range slices.Sorted(maps.Keys(m.copies)) {
		c, is := m.Counted(m.copies[uid])
		c.UID = uid
		if is && !equality.Semantic.DeepEqual(c, m.counted[uid]) && (c.Count != wire.Count{} || m.counted[uid].UID != "") {
			m.uncounted = append(m.uncounted, c)
		}
	}
}

// mostCounted is about how many bytes what was counted has in one record, but for the last policy.
const mostCounted = 128 << 10

// nextCounted is what to tell next of what was counted; nil if there is nothing. The caller holds
// the lock.
func (m *Member) nextCounted() *wire.Up {
	size, n := 0, 0
	for ; n < len(m.uncounted) && size < mostCounted; n++ {
		c := &m.uncounted[n]
		size += 200
		for i := range c.Rules {
			size += 100 + len(c.Rules[i].Name)
		}
		m.counted[c.UID] = *c
	}
	if n == 0 {
		return nil
	}
	out := &wire.Up{Counted: m.uncounted[:n]}
	m.uncounted = m.uncounted[n:]
	return out
}

// hearHub takes over what the hub tells until the stream ends, which is always an error.
func (m *Member) hearHub(ctx context.Context, in *wire.Reader, heard func()) error {
	for {
		var d wire.Down
		if err := in.Read(&d); err != nil {
			return err
		}
		heard()
		if d.End != "" {
			return fmt.Errorf("the hub has ended the stream: %s", shortened(d.End))
		}
		if err := m.receive(&d); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// receive takes over one record.
func (m *Member) receive(d *wire.Down) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.heard = m.Clock.Now()
	if d.Labels != nil {
		m.relabel(*d.Labels)
	}
	for i := range d.Parts {
		p := &d.Parts[i]
		if err := m.book.Apply(p); err != nil {
			return fmt.Errorf("the hub says what cannot be: %w", err)
		}
		if m.sent[p.Group] == nil {
			m.sent[p.Group] = map[string]bool{}
		}
		m.sent[p.Group][p.Cluster] = true
	}
	m.give()
	for i := range d.Policies {
		p := &d.Policies[i]
		if p.UID == "" {
			return errors.New("the hub says what cannot be: a policy without uid")
		}
		for _, g := range p.Groups {
			m.book.Know(g)
		}
		m.wanted[p.UID], m.dirty[p.UID] = p, true
	}
	for _, uid := range d.GonePolicies {
		delete(m.wanted, uid)
		m.dirty[uid] = true
	}
	m.granted(d.Told)
	if d.Sync != nil {
		m.synced(d.Sync)
	}
	m.asked(d.Questions)
	if d.Refused != nil {
		m.state.refused = shortened(strings.Join(*d.Refused, "; "))
	}
	if d.Taken != nil {
		m.yield(d.Taken)
	}
	m.give()
	wake(m.work)
	m.state.received = cmp.Or(d.Sequence, m.state.received)
	return nil
}

// yield takes over which regions of accounts are others'. The caller holds the lock.
func (m *Member) yield(t *wire.Taken) {
	next := map[string]string{}
	for region, by := range m.state.taken {
		if slices.Contains(t.Unheard, by) {
			next[region] = by
		}
	}
	maps.Copy(next, t.By)
	m.state.taken = next
}

// synced takes over that all has been sent. The caller holds the lock.
func (m *Member) synced(s *wire.Sync) {
	for uid := range m.wanted {
		if !slices.Contains(s.Policies, uid) {
			delete(m.wanted, uid)
			m.dirty[uid] = true
		}
	}
	m.listed = true
	m.book.Sync(s, slices.DeleteFunc(m.groups(), peers.Own), m.sent)
	m.book.Expire(false)
}

// groups are those that wanted policies and own ones name. The caller holds the lock.
func (m *Member) groups() []string {
	out := m.feed.Interests()
	for _, p := range m.wanted {
		for _, g := range p.Groups {
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

func shortened(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
