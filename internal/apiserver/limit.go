package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// Limits bound what is held for callers at the same time, so that none of them, known or not, uses
// up the server. 0 means the default.
type Limits struct {
	// Connections are all together, ConnectionsPerAddress those of one address; of IPv6 of one
	// network of 64 bits. Those beyond are closed.
	Connections, ConnectionsPerAddress int
	// Requests and RequestsPerAddress are the requests that are being answered. A watch counts
	// until it has begun.
	Requests, RequestsPerAddress int
	// WatchesPerKey are those of one kind with one enforcer key, WatchesPerClient those of all
	// kinds of one identity: a user, and of the users of a ServiceAccount one Pod.
	WatchesPerKey, WatchesPerClient int
}

// The defaults. An agent has one connection and five watches, one per kind; its former ones linger
// for a minute when its network fails. Behind one address there may be many agents. An enforcer of
// cloud accounts has three watches for each of them.
const (
	DefaultConnections           = 10_000
	DefaultConnectionsPerAddress = 500
	defaultRequests              = 2_000
	defaultRequestsPerAddress    = 250
	DefaultWatchesPerKey         = 20
	DefaultWatchesPerClient      = 2_000
)

// maxHeader is the size of the largest header of a request, in bytes: enough for somebody in a
// thousand groups.
const maxHeader = 64 << 10

// limitRetry is when to try again what was refused because there is too much of it.
const limitRetry = time.Second

func (l Limits) withDefaults() Limits {
	for field, value := range map[*int]int{
		&l.Connections: DefaultConnections, &l.ConnectionsPerAddress: DefaultConnectionsPerAddress, &l.Requests: defaultRequests,
		&l.RequestsPerAddress: defaultRequestsPerAddress, &l.WatchesPerKey: DefaultWatchesPerKey, &l.WatchesPerClient: DefaultWatchesPerClient,
	} {
		if *field == 0 {
			*field = value
		}
	}
	return l
}

// tally counts what is held: all together, and by whom.
type tally[K comparable] struct {
	// most are allowed together, mostEach of one; 0 is no bound.
	most, mostEach int

	mu   sync.Mutex
	all  int
	each map[K]int
}

func newTally[K comparable](most, mostEach int) *tally[K] {
	return &tally[K]{most: most, mostEach: mostEach, each: map[K]int{}}
}

// enter counts one more, unless there are as many as may be: full says so, and each that they are
// all of this one. The function is to be called when it is no longer held; further calls do
// nothing.
func (t *tally[K]) enter(who K) (leave func(), full, each bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.mostEach > 0 && t.each[who] >= t.mostEach:
		return nil, true, true
	case t.most > 0 && t.all >= t.most:
		return nil, true, false
	}
	t.all++
	t.each[who]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.each[who]--; t.each[who] == 0 {
			delete(t.each, who)
		}
	}), false, false
}

// origin is the address that a connection comes from, as far as one can be told from another: of
// IPv6 the network.
func origin(address string) netip.Prefix {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	a := ap.Addr().Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// countingListener accepts so many connections.
type countingListener struct {
	net.Listener
	held    *tally[netip.Prefix]
	metrics *Metrics
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Accept implements net.Listener.
func (l *countingListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, full, _ := l.held.enter(origin(c.RemoteAddr().String()))
		if !full {
			return &countedConn{c, leave}, nil
		}
		l.metrics.limit("connections")
		_ = c.Close() // whoever it was is told enough by that
	}
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// bounded lets so many requests pass at a time, and none with a large header. Requests of the
// process itself do not count. It ends watches that stall.
func bounded(next http.Handler, o Options) http.Handler {
	held, m := newTally[netip.Prefix](o.Limits.Requests, o.Limits.RequestsPerAddress), o.Metrics
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headerSize(r) > maxHeader {
			m.limit("headers")
			http.Error(w, fmt.Sprintf("the header is larger than %d bytes", maxHeader), http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		from := origin(r.RemoteAddr)
		leave, full, each := func() {}, false, false
		if own := o.Access.OwnRequest; own == nil || !own(r) {
			leave, full, each = held.enter(from)
		}
		if full {
			m.limit("requests")
			why := fmt.Sprintf("%d requests are being answered", held.most)
			if each {
				why = fmt.Sprintf("%d requests of %s are being answered", held.mostEach, from)
			}
			w.Header().Set("Retry-After", fmt.Sprint(int(limitRetry/time.Second)))
			http.Error(w, why+", which is as many as may be; try again later", http.StatusTooManyRequests)
			return
		}
		defer leave()
		if r.URL.Query().Has("watch") {
			w = responsewriter.WrapForHTTP1Or2(newStallWriter(w, o.Stall, leave))
		}
		next.ServeHTTP(w, r)
	})
}

// headerSize is how many bytes the header of a request has, about.
func headerSize(r *http.Request) int {
	n := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + 4
		}
	}
	return n
}

// watchKey is what the watches of one key are counted by.
type watchKey struct {
	kind schema.GroupResource
	key  string
}

// watches counts the watches that are running.
type watches struct {
	ofKey    *tally[watchKey]
	ofClient *tally[string]
	// own recognizes those whose number is ours to bound, not theirs.
	own     func(user.Info) bool
	metrics *Metrics
}

func newWatches(l Limits, own func(user.Info) bool, m *Metrics) *watches {
	return &watches{newTally[watchKey](0, l.WatchesPerKey), newTally[string](0, l.WatchesPerClient), own, m}
}

// enter counts one more watch of a kind with an enforcer key, or fails if there are too many. The
// function is to be called when it ends.
func (w *watches) enter(ctx context.Context, kind schema.GroupResource, key string) (leave func(), err error) {
	leaveKey, leaveClient, full := func() {}, func() {}, false
	if key != "" {
		if leaveKey, full, _ = w.ofKey.enter(watchKey{kind, key}); full {
			return nil, w.refused(fmt.Sprintf("enforcer %q has %d watches of %s", key, w.ofKey.mostEach, kind.Resource))
		}
	}
	if caller, ok := request.UserFrom(ctx); ok && (w.own == nil || !w.own(caller)) {
		if leaveClient, full, _ = w.ofClient.enter(identity(caller)); full {
			leaveKey()
			return nil, w.refused(fmt.Sprintf("%q has %d watches", caller.GetName(), w.ofClient.mostEach))
		}
	}
	return func() { leaveKey(); leaveClient() }, nil
}

func (w *watches) refused(why string) error {
	w.metrics.limit("watches")
	return apierrors.NewTooManyRequests(why+", which is as many as may be; end one first (one whose client is gone ends within a few minutes)", int(limitRetry/time.Second))
}

// identity tells clients apart: by the user and, as a ServiceAccount may be that of many Pods, by
// the Pod and the Node that kube-apiserver vouches for.
func identity(u user.Info) string {
	parts := []string{u.GetName(), u.GetUID()}
	for _, key := range []string{serviceaccount.PodNameKey, serviceaccount.PodUIDKey, serviceaccount.NodeNameKey} {
		parts = append(parts, strings.Join(u.GetExtra()[key], ","))
	}
	return strings.Join(parts, "\n")
}
