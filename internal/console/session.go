package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// identity is the credentials of a person towards the Kubernetes API.
type identity interface {
	// bearer returns the token that the requests of the person carry; empty if the transport itself
	// carries his credentials. An error means that there is none any more.
	bearer(ctx context.Context) (string, error)
}

// person is a user as the Kubernetes API identifies it.
type person struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// session is one browser of one person.
type session struct {
	key     [sha256.Size]byte // of the id, which only the browser knows
	csrf    string
	user    person
	who     identity
	started time.Time
	ends    time.Time

	// ctx ends with the session.
	ctx context.Context
	end context.CancelFunc
	// requests and streams hold a place for each that is under way.
	requests, streams chan struct{}
	feeds             feeds

	used time.Time // guarded by the store
}

// sends says whether a request carries the proof that our page sent it.
func (s *session) sends(csrf string) bool {
	return subtle.ConstantTimeCompare([]byte(csrf), []byte(s.csrf)) == 1
}

// secret returns 256 random bits as text.
func secret(random io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// sessions are all sessions of a server.
type sessions struct {
	now    func() time.Time
	random io.Reader
	limits Limits

	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

// errFull is why no session is begun.
var errFull = errors.New("too many sessions")

// begin makes a session and returns the id that the browser keeps. A person who has the most that
// one may have loses the one that he used least recently.
func (s *sessions) begin(u person, who identity, until time.Time) (string, *session, error) {
	id, err := secret(s.random)
	if err != nil {
		return "", nil, err
	}
	csrf, err := secret(s.random)
	if err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	var own []*session
	for _, o := range s.all {
		if o.user.Username == u.Username {
			own = append(own, o)
		}
	}
	if len(own) >= s.limits.SessionsPerUser {
		s.drop(slices.MinFunc(own, func(a, b *session) int { return a.used.Compare(b.used) }))
	}
	if len(s.all) >= s.limits.Sessions {
		return "", nil, errFull
	}
	ends := now.Add(s.limits.SessionAge)
	if !until.IsZero() && until.Before(ends) {
		ends = until
	}
	n := &session{
		key: sha256.Sum256([]byte(id)), csrf: csrf, user: u, who: who, started: now, ends: ends, used: now,
		requests: make(chan struct{}, s.limits.RequestsPerSession), streams: make(chan struct{}, s.limits.StreamsPerSession),
	}
	n.ctx, n.end = context.WithCancel(context.Background())
	s.all[n.key] = n
	return id, n, nil
}

// find returns the session of an id; nil if there is none, or if it is over.
func (s *sessions) find(id string) *session {
	if id == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.all[sha256.Sum256([]byte(id))]
	if o == nil {
		return nil
	}
	now := s.now()
	if s.over(o, now) {
		s.drop(o)
		return nil
	}
	o.used = now
	return o
}

// keep notes that a session is in use, as a stream that is open does.
func (s *sessions) keep(o *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.used = s.now()
}

// stop ends a session.
func (s *sessions) stop(o *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(o)
}

// prune ends the sessions whose time is over.
func (s *sessions) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(s.now())
}

// close ends all sessions.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		s.drop(o)
	}
}

func (s *sessions) over(o *session, now time.Time) bool {
	return !now.Before(o.ends) || now.Sub(o.used) >= s.limits.SessionIdle
}

func (s *sessions) sweep(now time.Time) {
	for _, o := range s.all {
		if s.over(o, now) {
			s.drop(o)
		}
	}
}

func (s *sessions) drop(o *session) {
	delete(s.all, o.key)
	o.end()
}

// codes are the links that begin a session, each once.
type codes struct {
	now    func() time.Time
	random io.Reader
	life   time.Duration
	most   int

	mu  sync.Mutex
	all map[[sha256.Size]byte]time.Time // until when
}

// issue makes a code. Of too many the oldest is no longer good.
func (c *codes) issue() (string, error) {
	code, err := secret(c.random)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= c.most {
		var oldest [sha256.Size]byte
		var at time.Time
		for k, t := range c.all {
			if at.IsZero() || t.Before(at) {
				oldest, at = k, t
			}
		}
		delete(c.all, oldest)
	}
	c.all[sha256.Sum256([]byte(code))] = c.now().Add(c.life)
	return code, nil
}

// good says whether a code would be redeemed.
func (c *codes) good(code string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, ok := c.all[sha256.Sum256([]byte(code))]
	return ok && c.now().Before(until)
}

// redeem says whether a code is good; it is not a second time.
func (c *codes) redeem(code string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := sha256.Sum256([]byte(code))
	until, ok := c.all[key]
	delete(c.all, key)
	return ok && c.now().Before(until)
}
