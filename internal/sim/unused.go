package sim

import (
	"net"
	"net/http"
	"sync"
)

// unused are the connections of a server on which no request has begun. Clients open some to spare,
// and Shutdown waits for these as it does for requests; closing them cuts nothing off.
type unused struct {
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	closing bool
}

// of has the server close its unused connections when it shuts down.
func (u *unused) of(s *http.Server) *http.Server {
	s.ConnState = u.note
	s.RegisterOnShutdown(u.close)
	return s
}

func (u *unused) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, c)
	case u.closing:
		_ = c.Close()
	default:
		if u.conns == nil {
			u.conns = map[net.Conn]struct{}{}
		}
		u.conns[c] = struct{}{}
	}
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closing = true
	for c := range u.conns {
		_ = c.Close()
	}
}
