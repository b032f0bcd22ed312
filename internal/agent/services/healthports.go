package services

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/agent/proxy"
)

// mostHealthPorts bounds the ports that are served at once, and healthTime a question.
const (
	mostHealthPorts = 4096
	healthTime      = 5 * time.Second
)

// nodeHealthPort is where load balancers ask whether a Node takes connections at all, as they do of
// kube-proxy.
const nodeHealthPort = 10256

// healthAnswer is what is said on a port, in the form of kube-proxy.
type healthAnswer struct {
	// about is what load balancers ask there, for messages.
	about string
	// healthy lets them send connections.
	healthy bool
	header  map[string]string
	body    any
}

// healthPorts answer load balancers that ask whether the Node has an endpoint of a Service, or
// takes connections at all. They are safe for concurrent use.
type healthPorts struct {
	mu     sync.Mutex
	of     map[uint16]healthAnswer
	server map[uint16]*http.Server
	failed map[uint16]string
}

// serve makes the ports of a map be served, and no others. What cannot be is tried again the next
// time.
func (h *healthPorts) serve(ctx context.Context, listen func(context.Context, string, string) (net.Listener, error), of map[uint16]healthAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		h.server = map[uint16]*http.Server{}
	}
	h.of, h.failed = of, map[uint16]string{}
	for port, s := range h.server {
		if _, wanted := of[port]; !wanted {
			_ = s.Close()
			delete(h.server, port)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(of)) {
		if h.server[port] != nil {
			continue
		}
		if len(h.server) >= mostHealthPorts {
			h.failed[port] = "too many ports are served"
			continue
		}
		l, err := listen(ctx, "tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			h.failed[port] = err.Error()
			continue
		}
		s := &http.Server{
			Handler: h.answer(port), ReadHeaderTimeout: healthTime, ReadTimeout: healthTime, WriteTimeout: healthTime, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		}
		h.server[port] = s
		go func() { _ = s.Serve(l) }() // until it is closed
	}
}

// answer says on a port what is to be said there now. By the path /livez the process only says that
// it lives.
func (h *healthPorts) answer(port uint16) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		of := h.of[port]
		h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		for name, value := range of.header {
			w.Header().Set(name, value)
		}
		if !of.healthy && r.URL.Path != "/livez" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(of.body)
	})
}

// healthAnswers are what a Node says to load balancers.
func healthAnswers(in proxy.Input) map[uint16]healthAnswer {
	out := map[uint16]healthAnswer{nodeHealthPort: {
		about: "the Node", healthy: !in.Node.Leaving, body: map[string]any{"nodeEligible": !in.Node.Leaving},
	}}
	for port, of := range proxy.HealthPorts(in) {
		out[port] = healthAnswer{
			about: "Service " + of.Namespace + "/" + of.Name, healthy: of.Local > 0, header: map[string]string{"X-Load-Balancing-Endpoint-Weight": fmt.Sprint(of.Local)},
			body: map[string]any{"service": map[string]string{"namespace": of.Namespace, "name": of.Name}, "localEndpoints": of.Local, "serviceProxyHealthy": true},
		}
	}
	return out
}

// close ends all of them.
func (h *healthPorts) close() { h.serve(context.Background(), nil, nil) }

// trouble is why some ports are not served; empty if all are.
func (h *healthPorts) trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var words []string
	for _, port := range slices.Sorted(maps.Keys(h.failed)) {
		words = append(words, fmt.Sprintf("port %d, by which load balancers ask for %s, is not served: %s", port, h.of[port].about, h.failed[port]))
	}
	return strings.Join(words, "; ")
}
