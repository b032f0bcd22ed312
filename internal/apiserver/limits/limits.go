// Package limits bounds what a server keeps open for callers at the same time: connections,
// requests, watches, and the time that a watch may stall.
//
// It owns the counters, by address and by identity. Everything is safe for concurrent use.
package limits

import (
	"cmp"
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

// Limits bound what is open for callers at the same time, so that none of them, known or not, uses
// up the server. 0 means the default.
type Limits struct {
	// Connections bounds all connections together, ConnectionsPerAddress the connections of one
	// address; of IPv6, of one network of 64 bits. Connections beyond a bound are closed.
	Connections, ConnectionsPerAddress int
	// Requests and RequestsPerAddress are the requests that are being answered. A watch counts
	// until it has begun.
	Requests, RequestsPerAddress int
	// WatchesPerKey bounds the watches of one kind with one enforcer key, WatchesPerClient the
	// watches of all kinds of one identity: a user, or for a ServiceAccount one Pod.
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

// Retry is when to try again what was refused because there is too much of it.
const Retry = time.Second

// WithDefaults returns the limits with the defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
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

// Counter counts what is open: all together, and by key.
type Counter[K comparable] struct {
	max, maxEach int

	mu   sync.Mutex
	all  int
	each map[K]int
}

// NewCounter returns a counter with bounds of all together and of one key; 0 is no bound.
func NewCounter[K comparable](max, maxEach int) *Counter[K] {
	return &Counter[K]{max: max, maxEach: maxEach, each: map[K]int{}}
}

// Enter counts one more, unless there are as many as may be: full says so, and each that they are
// all of this key. The function is to be called when it is no longer open; further calls do
// nothing.
func (t *Counter[K]) Enter(key K) (leave func(), full, each bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.maxEach > 0 && t.each[key] >= t.maxEach:
		return nil, true, true
	case t.max > 0 && t.all >= t.max:
		return nil, true, false
	}
	t.all++
	t.each[key]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.each[key]--; t.each[key] == 0 {
			delete(t.each, key)
		}
	}), false, false
}

// Origin is the address that a connection comes from, as far as one can be told from another: of
// IPv6 the network.
func Origin(address string) netip.Prefix {
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

// Listen returns a listener that accepts as many connections as the limits allow, and closes
// others. Refused is called with "connections" for each of those.
func Listen(next net.Listener, l Limits, refused func(what string)) net.Listener {
	return &listener{next, NewCounter[netip.Prefix](l.Connections, l.ConnectionsPerAddress), refused}
}

type listener struct {
	net.Listener
	open    *Counter[netip.Prefix]
	refused func(what string)
}

// connection is a connection that counts until it is closed.
type connection struct {
	net.Conn
	leave func()
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, full, _ := l.open.Enter(Origin(c.RemoteAddr().String()))
		if !full {
			return &connection{c, leave}, nil
		}
		l.refused("connections")
		_ = c.Close() // the client learns enough by that
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// Requests say how Handle bounds requests.
type Requests struct {
	Limits
	// Stall is how long a watch may stall; 0 means DefaultStall.
	Stall time.Duration
	// Own recognizes requests of the process itself, which do not count; it may be nil.
	Own func(*http.Request) bool
	// Refused is called with "headers" or "requests" for each that is refused.
	Refused func(what string)
}

// Handle lets as many requests pass at a time as the limits allow, and none with a large header. It
// ends watches that stall.
func Handle(next http.Handler, o Requests) http.Handler {
	open, stall := NewCounter[netip.Prefix](o.Requests, o.RequestsPerAddress), cmp.Or(o.Stall, DefaultStall)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headerSize(r) > maxHeader {
			o.Refused("headers")
			http.Error(w, fmt.Sprintf("the header is larger than %d bytes", maxHeader), http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		from := Origin(r.RemoteAddr)
		leave, full, each := func() {}, false, false
		if o.Own == nil || !o.Own(r) {
			leave, full, each = open.Enter(from)
		}
		if full {
			o.Refused("requests")
			why := fmt.Sprintf("%d requests are being answered", open.max)
			if each {
				why = fmt.Sprintf("%d requests of %s are being answered", open.maxEach, from)
			}
			w.Header().Set("Retry-After", fmt.Sprint(int(Retry/time.Second)))
			http.Error(w, why+", which is as many as may be; try again later", http.StatusTooManyRequests)
			return
		}
		defer leave()
		if r.URL.Query().Has("watch") {
			w = responsewriter.WrapForHTTP1Or2(newStallWriter(w, stall, leave))
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

// Watches counts the watches that are running.
type Watches struct {
	ofKey    *Counter[watchKey]
	ofClient *Counter[string]
	own      func(user.Info) bool
	refused  func(what string)
}

// NewWatches returns a counter of watches. Own recognizes callers whose number is ours to bound,
// not theirs; it may be nil. Refused is called with "watches" for each that is refused.
func NewWatches(l Limits, own func(user.Info) bool, refused func(what string)) *Watches {
	return &Watches{NewCounter[watchKey](0, l.WatchesPerKey), NewCounter[string](0, l.WatchesPerClient), own, refused}
}

// Enter counts one more watch of a kind with an enforcer key, or fails if there are too many. The
// function is to be called when it ends.
func (w *Watches) Enter(ctx context.Context, kind schema.GroupResource, key string) (leave func(), err error) {
	leaveKey, leaveClient, full := func() {}, func() {}, false
	if key != "" {
		if leaveKey, full, _ = w.ofKey.Enter(watchKey{kind, key}); full {
			return nil, w.tooMany(fmt.Sprintf("enforcer %q has %d watches of %s", key, w.ofKey.maxEach, kind.Resource))
		}
	}
	if caller, ok := request.UserFrom(ctx); ok && (w.own == nil || !w.own(caller)) {
		if leaveClient, full, _ = w.ofClient.Enter(Identity(caller)); full {
			leaveKey()
			return nil, w.tooMany(fmt.Sprintf("%q has %d watches", caller.GetName(), w.ofClient.maxEach))
		}
	}
	return func() { leaveKey(); leaveClient() }, nil
}

func (w *Watches) tooMany(why string) error {
	w.refused("watches")
	return apierrors.NewTooManyRequests(why+", which is as many as may be; end one first (one whose client is gone ends within a few minutes)", int(Retry/time.Second))
}

// Identity tells clients apart: by the user and, as a ServiceAccount may be that of many Pods, by
// the Pod and the Node that kube-apiserver guarantees.
func Identity(u user.Info) string {
	parts := []string{u.GetName(), u.GetUID()}
	for _, key := range []string{serviceaccount.PodNameKey, serviceaccount.PodUIDKey, serviceaccount.NodeNameKey} {
		parts = append(parts, strings.Join(u.GetExtra()[key], ","))
	}
	return strings.Join(parts, "\n")
}
