package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// agent follows everything of one key by the protocol of an Antrea Agent. What that would drop a
// watch for, and what a server has no reason to send, is a failure.
type agent struct {
	*enforcer.Mirror
	name string

	mu       sync.Mutex
	failures []error
}

// newAgent runs an agent until the test ends. config leads to the server.
func newAgent(t *testing.T, key, encoding string, config func() (*rest.Config, error)) *agent {
	t.Helper()
	client, err := enforcer.NewClient(enforcer.ClientOptions{Config: config, JSON: encoding == runtime.ContentTypeJSON})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{name: fmt.Sprintf("agent %q (%s)", key, encoding)}
	a.Mirror = enforcer.Follower{Source: suspicious{client, a.fail}, Clock: clock.RealClock{}, Interval: 10 * time.Millisecond, Log: logr.Discard()}.Mirror(key, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(t.Context())
	}()
	t.Cleanup(func() { <-done })
	return a
}

func (a *agent) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, err)
}

// inSync compares what the agent has with what a list returns. The uid of a group may be another
// one meanwhile, which no patch tells.
func (a *agent) inSync(ctx context.Context, client *rest.RESTClient) error {
	a.mu.Lock()
	failure := errors.Join(a.failures...)
	a.mu.Unlock()
	if failure != nil {
		return fmt.Errorf("%s: %w", a.name, failure)
	}
	for _, s := range a.Streams() {
		if !s.InSync {
			return fmt.Errorf("%s: %+v", a.name, s)
		}
	}
	var p v1beta2.NetworkPolicyList
	var ag v1beta2.AddressGroupList
	var atg v1beta2.AppliedToGroupList
	for r, into := range map[enforcer.Resource]runtime.Object{enforcer.NetworkPolicies: &p, enforcer.AddressGroups: &ag, enforcer.AppliedToGroups: &atg} {
		request := client.Get().Resource(string(r))
		if a.Key() != "" {
			request = request.Param("fieldSelector", "nodeName="+a.Key())
		}
		if err := request.Do(ctx).Into(into); err != nil {
			return err
		}
	}
	want := enforcer.Computed{Policies: pointers(p.Items), AddressGroups: enforcer.NewAddressGroups(pointers(ag.Items)), AppliedToGroups: pointers(atg.Items)}
	if d := cmp.Diff(
		want,
		a.Known(),
		cmpopts.EquateEmpty(),
		cmp.Transformer("object", (*enforcer.AddressGroup).Object),
		cmpopts.IgnoreTypes(metav1.TypeMeta{}),
		cmpopts.IgnoreFields(
			metav1.ObjectMeta{},
			"ResourceVersion",
			"UID",
		),
		cmpopts.SortSlices(func(x, y v1beta2.GroupMember) bool { return identity(x) < identity(y) }),
	); d != "" {
		return fmt.Errorf("%s (-listed +known):\n%s", a.name, d)
	}
	return nil
}

// identity orders members; it need not be what agents go by.
func identity(m v1beta2.GroupMember) string {
	return fmt.Sprintf("%+v %+v %+v %+v %v", m.Pod, m.ExternalEntity, m.Service, m.Node, m.IPs)
}

func pointers[T any](items []T) []*T {
	var out []*T
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

// suspicious is a Source that looks for events which a server has no reason to send, in streams
// that it otherwise passes on.
type suspicious struct {
	enforcer.Source
	fail func(error)
}

type suspiciousStream struct {
	enforcer.Stream
	fail   func(error)
	marked bool
	known  sets.Set[string]
}

func (s suspicious) Watch(ctx context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	stream, err := s.Source.Watch(ctx, r, key)
	if err != nil {
		return nil, err
	}
	return &suspiciousStream{stream, s.fail, false, sets.New[string]()}, nil
}

func (s *suspiciousStream) Next(ctx context.Context) (watch.Event, error) {
	ev, err := s.Stream.Next(ctx)
	if err == nil {
		if err := s.look(ev); err != nil {
			s.fail(err)
		}
	}
	return ev, err
}

func (s *suspiciousStream) look(ev watch.Event) error {
	object, ok := ev.Object.(metav1.Object)
	if !ok {
		return nil // an error: such as that of a connection that broke within a frame
	}
	p, isPolicy := ev.Object.(*v1beta2.NetworkPolicy)
	name, known := object.GetName(), s.known.Has(object.GetName())
	switch {
	case ev.Type == watch.Bookmark && s.marked:
		return errors.New("a second BOOKMARK")
	case ev.Type == watch.Bookmark:
		s.marked = true
		return nil
	case !s.marked && ev.Type != watch.Added:
		return fmt.Errorf("%s before the BOOKMARK", ev.Type)
	case known == (ev.Type == watch.Added):
		return fmt.Errorf("%s %s, which was sent: %t", ev.Type, name, known)
	case isPolicy && (p.SourceRef == nil || p.UID == ""):
		return fmt.Errorf("%s %s without sourceRef or uid", ev.Type, name)
	case ev.Type == watch.Added:
		s.known.Insert(name)
	case ev.Type == watch.Deleted:
		s.known.Delete(name)
	}
	return nil
}

// wire is the network between a server and its clients, which can be cut.
type wire struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns []net.Conn
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	w := &wire{listener: listen(t, "127.0.0.1:0"), target: target}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := w.listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = w.listener.Close()
		w.cut()
		running.Wait()
	})
	return w
}

// carry passes bytes on until either end, or cut, ends the connection.
func (w *wire) carry(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	w.mu.Lock()
	w.conns = append(w.conns, from, to)
	w.mu.Unlock()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// cut breaks all connections wherever they are.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// config leads through the wire to a world.
func (w *wire) config(to *world) func() (*rest.Config, error) {
	cfg := to.config("agent", "")
	cfg.Host = "https://" + w.listener.Addr().String()
	return func() (*rest.Config, error) { return cfg, nil }
}

// watching counts the watches of the store.
func watching(s *watchstore.Store) int {
	n := 0
	for _, r := range watchstore.Resources() {
		n += s.Watchers(r)
	}
	return n
}

// churned are the keys that churn draws from, nobody's, and that of everything.
func churned() []string { return []string{"", "a", "b", "ns/vm", "nobody"} }
