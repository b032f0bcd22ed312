package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/member/certificate"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/pulse"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

var (
	errVersion = errors.New("the hub and this cluster do not understand each other")
	errLeft    = errors.New("the Membership is not what it was when the stream began")
)

func isRefusal(err error) bool { return errors.Is(err, certificate.ErrRefused) }
func isVersion(err error) bool { return errors.Is(err, errVersion) }

// round gets a certificate if one is due, and keeps a stream for as long as it lasts. It reports
// whether there was one.
func (m *Member) round(ctx context.Context, membership *setv1alpha1.Membership) (lasted bool, err error) {
	var errs []error
	for _, server := range membership.Spec.Hub {
		proof, err := m.certificate.Ready(ctx, "https://"+server)
		if err == nil {
			lasted, err = m.stream(ctx, server, proof, membership)
		}
		if lasted || ctx.Err() != nil {
			return lasted, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	return false, errors.Join(errs...)
}

// stream connects to the hub, and tells and hears until that ends. It reports whether the hub had
// welcomed this cluster.
func (m *Member) stream(ctx context.Context, server string, proof *certificate.Proof, membership *setv1alpha1.Membership) (welcome bool, err error) {
	declare(ctx, m)
	transport, err := proof.Transport()
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
			err = fmt.Errorf("%w: %w", certificate.ErrRefused, err)
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
		return false, fmt.Errorf("the hub says no welcome: %s", wire.Shortened(first.End))
	case w.Version < wire.Oldest || w.Version > wire.Version:
		return false, fmt.Errorf("%w: %s", errVersion, wire.Shortened(w.Error))
	case w.Cluster != membership.Spec.Cluster:
		return false, fmt.Errorf("%w: for the hub this is cluster %q", certificate.ErrRefused, wire.Shortened(w.Cluster))
	}
	m.welcomed(first.Welcome)
	var telling sync.WaitGroup
	for _, part := range []func(){
		func() { m.certificate.StayKnown(ctx, "https://"+server) },
		func() { m.stay(ctx, membership, cancel) },
		func() { m.questions.Run(ctx) },
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
	_ = body.CloseWithError(err) // ends a write that is in progress
	telling.Wait()
	return true, causeOf(ctx, err)
}

// stay ends a stream when there is no such Membership any more: a member that has left sends and
// receives nothing more.
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
		Version: wire.Version, Oldest: wire.Oldest, Program: m.Program, ClusterID: m.ClusterID, Declared: m.state.declared, Epoch: m.Epoch,
		Stream: m.state.stream, Heard: m.state.received,
	}
}

func (m *Member) welcomed(w *wire.Welcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.connected, m.state.why, m.state.heard, m.state.refused = true, "", m.Clock.Now(), ""
	m.state.version = w.Version
	m.relabel(w.Labels)
	m.annotate()
	m.questions.Forget()
	if m.state.stream = w.Stream; w.Resumed {
		if !m.feed.Resume(w.Taken) {
			m.feed.BeginAs(w.Version)
		}
	} else {
		m.state.received, m.sent = 0, map[string]map[string]bool{}
		m.feed.BeginAs(w.Version)
		m.book.Begin()
	}
	m.ledger.Begin()
	m.Log.Info("Connected to the hub", "cluster", w.Cluster, "version", w.Program, "resumed", w.Resumed)
}

// relabel takes over the labels that this cluster has in the hub. The caller holds the lock.
func (m *Member) relabel(labels map[string]string) {
	if labels == nil {
		labels = map[string]string{}
	}
	if m.entities != nil && !maps.Equal(m.state.labels, labels) { // they are written into policies
		m.ledger.Rewrite()
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
			m.mu.Lock()
			m.ledger.Count(m.Counted)
			m.mu.Unlock()
			if wire.Write(out, &wire.Up{Beat: true}) != nil {
				return
			}
		}
	}
}

// next is what to tell next; nil if there is nothing.
func (m *Member) next() *wire.Up {
	m.mu.Lock()
	defer m.mu.Unlock()
	if answers := m.questions.Take(); len(answers) > 0 { // somebody waits
		return &wire.Up{Answers: answers}
	}
	if u := m.feed.Next(); u != nil {
		m.own.Has(u.Interests)
		return u
	}
	if realized, due := m.ledger.NextRealized(); due {
		return &wire.Up{Realizations: realized}
	}
	if counted := m.ledger.NextCounted(); counted != nil {
		return &wire.Up{Counted: counted}
	}
	return nil
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
			return fmt.Errorf("the hub has ended the stream: %s", wire.Shortened(d.End))
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
		m.ledger.Want(p)
	}
	for _, uid := range d.GonePolicies {
		m.ledger.Unwant(uid)
	}
	if len(d.Told) > 0 {
		m.own.Grant(d.Told, m.sent)
		m.annotate()
	}
	if d.Sync != nil {
		m.synced(d.Sync)
	}
	m.questions.Put(d.Questions)
	if d.Refused != nil {
		m.state.refused = wire.Shortened(strings.Join(*d.Refused, "; "))
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
	m.ledger.Synced(s.Policies)
	m.book.Sync(s, slices.DeleteFunc(m.groups(), peers.Own), m.sent)
	m.book.Expire(false)
}

// groups are those that wanted policies and own ones name. The caller holds the lock.
func (m *Member) groups() []string {
	return m.ledger.Groups(m.feed.Interests())
}
