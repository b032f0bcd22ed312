package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/bundle"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/roster"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// patience bounds every wait of the tests.
const patience = 20 * time.Second

// world is one running server and what it serves.
type world struct {
	store   *watchstore.Store
	reports *reportBook
	address string
	// dir holds the certificate, ca its authority.
	dir  string
	ca   []byte
	stop func()
	// access and clock are tokenAccess and the real one if nil.
	access *apiserver.Access
	clock  clock.WithTicker
	stall  time.Duration
	limits limits.Limits
	// webhooks are served beside the API.
	webhooks map[string]http.Handler
	// enforcers, queries and book are options of the server.
	enforcers apiserver.EnforcerAccess
	queries   apiserver.Queries
	reviews   apiserver.Reviews
	traffic   apiserver.Traffic
	book      *stats.Book
	metrics   *apiserver.Metrics
	hosts     *apiserver.Hosts
	// dialled are the connections of all clients.
	mu      sync.Mutex
	dialled []net.Conn
	bundle  bundle.Write
	pods    *roster.Index
	egress  apiserver.EgressGroups
}

// reportBook keeps what was reported.
type reportBook struct {
	mu   sync.Mutex
	seen []v1beta2.NetworkPolicyStatus
}

func (b *reportBook) Report(_ context.Context, s *v1beta2.NetworkPolicyStatus) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, *s.DeepCopy())
	return nil
}

func (b *reportBook) all() []v1beta2.NetworkPolicyStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// tokenAccess takes the bearer token for the name of the user: "agent" may do everything, others
// nothing.
func tokenAccess() apiserver.Access {
	return apiserver.Access{
		Authenticator: authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				return nil, false, nil
			}
			return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
		}),
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetUser().GetName() == "agent" {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}),
	}
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve starts a server for a store. It is stopped with the test, or before by stop.
func serve(t testing.TB, store *watchstore.Store, address string) *world {
	t.Helper()
	// Here the agents of all nodes are one user behind one address.
	many := limits.Limits{ConnectionsPerAddress: 10_000, RequestsPerAddress: 10_000, WatchesPerClient: 100_000}
	w := &world{store: store, reports: &reportBook{}, dir: t.TempDir(), limits: many}
	w.start(t, address)
	return w
}

// restart stops the server and starts another one at the same place, with the same store.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.stop()
	w.start(t, w.address)
}

func (w *world) start(t testing.TB, address string) {
	t.Helper()
	if w.clock == nil {
		w.clock = clock.RealClock{}
	}
	access := tokenAccess()
	if w.access != nil {
		access = *w.access
	}
	if w.hosts != nil {
		access = access.WithHosts(w.hosts.Desk)
	}
	dir, err := certs.Open(w.dir, w.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := serving.Open(dir, []string{"antrea.kube-system.svc"}, []net.IP{net.IPv4(127, 0, 0, 1)}, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	w.ca = cert.CABundle()
	l := listen(t, address)
	w.address = l.Addr().String()
	s, err := apiserver.New(
		apiserver.Options{Listener: l, Certificate: cert, Access: access, Store: w.store, Reports: w.reports, Stall: w.stall, Limits: w.limits, Webhooks: w.webhooks,
			Enforcers: w.enforcers, Queries: w.queries, Reviews: w.reviews, Traffic: w.traffic, Bundle: w.bundle, Statistics: w.book, Version: "v1", Metrics: w.metrics, Hosts: w.hosts, LocalPods: w.pods, EgressGroups: w.egress},
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server does not stop")
		}
	})
	t.Cleanup(func() {
		// A server that ends gives every open connection a second.
		w.hangUp()
		w.stop()
	})
	eventually(t, "the server answers", func() error {
		_, err := w.client(t, "agent", "").Get().AbsPath("/livez").DoRaw(ctx)
		return err
	})
}

// newWorld starts a server with an empty store that is open.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := serve(t, watchstore.New(watchstore.Options{}), "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	return w
}

func (w *world) config(token, contentType string) *rest.Config {
	gv := v1beta2.GroupVersion()
	return &rest.Config{
		Host: "https://" + w.address, BearerToken: token, APIPath: "/apis", QPS: -1, Dial: w.dial,
		TLSClientConfig: rest.TLSClientConfig{CAData: w.ca, ServerName: "antrea.kube-system.svc"},
		ContentConfig:   rest.ContentConfig{GroupVersion: &gv, NegotiatedSerializer: codecs(), ContentType: contentType, AcceptContentTypes: contentType},
	}
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dialled = append(w.dialled, c)
	}
	return c, err
}

// hangUp closes the connections of all clients.
func (w *world) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.dialled {
		c.Close()
	}
	w.dialled = nil
}

func codecs() runtime.NegotiatedSerializer {
	s := runtime.NewScheme()
	if err := errors.Join(v1beta2.AddToScheme(s), statsv1alpha1.AddToScheme(s)); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(s).WithoutConversion()
}

func (w *world) client(t testing.TB, token, contentType string) *rest.RESTClient {
	t.Helper()
	c, err := rest.RESTClientFor(w.config(token, contentType))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newClock(now time.Time) *clocktesting.FakeClock { return clocktesting.NewFakeClock(now) }

// eventually waits until check finds nothing wrong.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func pod(i int, host string) watchstore.Member {
	return &watchstore.GivenMember{
		GroupMember: v1beta2.GroupMember{
			Pod: &v1beta2.PodReference{Namespace: "n", Name: fmt.Sprintf("p%d", i)},
			IPs: []v1beta2.IPAddress{v1beta2.IPAddress(net.IPv4(10, 0, byte(i>>8), byte(i)).To16())},
		},
		Host: host,
	}
}

func policyChange(name string, generation int64, keys ...string) watchstore.PolicyChange {
	p := &v1beta2.NetworkPolicy{AppliedToGroups: []string{"atg"}, SourceRef: &v1beta2.NetworkPolicyReference{
		Type: v1beta2.AntreaNetworkPolicy, Namespace: "n", Name: "policy-" + name, UID: types.UID(name),
	}}
	p.Name, p.UID, p.Generation = name, types.UID(name), generation
	allow := v1beta2.RuleActionAllow
	p.Rules = []v1beta2.NetworkPolicyRule{{Direction: v1beta2.DirectionIn, Action: &allow, From: v1beta2.NetworkPolicyPeer{AddressGroups: []string{"ag"}}}}
	return watchstore.PolicyChange{Policy: p, SpanAdded: keys}
}

func gone(name string) watchstore.PolicyChange {
	c := policyChange(name, 0)
	c.Removed = true
	return c
}

// fill publishes a policy with its groups for nodes a and b: Pod 1 is on a, Pod 2 on b, Pod 3 is a
// peer.
func (w *world) fill() {
	w.store.Publish(watchstore.Changes{
		AddressGroups:   []watchstore.GroupChange{{Name: "ag", UID: "ag", Added: []watchstore.Member{pod(3, "")}, SpanAdded: []string{"a", "b"}}},
		AppliedToGroups: []watchstore.GroupChange{{Name: "atg", UID: "atg", Added: []watchstore.Member{pod(1, "a"), pod(2, "b")}, SpanAdded: []string{"a", "b"}}},
		Policies:        []watchstore.PolicyChange{policyChange("u1", 1, "a", "b")},
	})
}
