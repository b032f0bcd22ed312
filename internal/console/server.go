package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// csrfHeader carries the proof that our page sent a request, and csrfParameter does in the address
// of a stream, for which a page can set no header.
const (
	csrfHeader    = "X-Nephele-Csrf"
	csrfParameter = "csrf"
)

// proofFragment is what the page finds behind the # of the address that a login leads it to, and
// the proof after it. A browser sends the cookie to every port of the machine, but neither that
// part of an address nor what a page keeps of it: another program here gets one without the other.
const proofFragment = "session="

// Server is a console.
type Server struct {
	o        Options
	origins  []origin
	cookie   http.Cookie // without a value
	page     *page
	cluster  *upstream
	sessions *sessions
	codes    *codes
	openID   *openID // nil if no provider is known
	logins   chan struct{}

	// feeding are the goroutines that read watches.
	feeding sync.WaitGroup
}

// New returns a console; Close ends it.
func New(o Options) (*Server, error) {
	o.Limits = o.Limits.filled()
	origins, err := parseOrigins(o.Origins, o.Mode)
	if err != nil {
		return nil, err
	}
	from := o.Page
	if from == nil {
		if from, err = fs.Sub(bundle, "page"); err != nil {
			return nil, err
		}
	}
	if o.Mode == Cluster && !o.Tokens && o.OpenID == nil {
		return nil, errors.New("nobody could log in: let people paste tokens, or name an OpenID provider")
	}
	p, err := readPage(from)
	if err != nil {
		return nil, err
	}
	c, err := newUpstream(o.Cluster, o.Mode)
	if err != nil {
		return nil, err
	}
	s := &Server{
		o: o, origins: origins, page: p, cluster: c,
		cookie:   http.Cookie{Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: origins[0].secure},
		sessions: &sessions{now: o.Now, random: o.Random, limits: o.Limits, all: map[[sha256.Size]byte]*session{}},
		codes:    &codes{now: o.Now, random: o.Random, life: o.Limits.LinkAge, most: 16, all: map[[sha256.Size]byte]time.Time{}},
		logins:   make(chan struct{}, o.Limits.Logins),
	}
	if o.Mode == Cluster && o.OpenID != nil {
		if s.openID, err = newOpenID(*o.OpenID, origins[0].text, o.Now, o.Random); err != nil {
			return nil, err
		}
	}
	if s.cookie.Secure {
		s.cookie.Name = "__Host-nephele-session"
	} else {
		// Cookies do not tell ports apart, and several consoles may run on this machine.
		_, port, _ := net.SplitHostPort(origins[0].host)
		s.cookie.Name = "nephele-session-" + port
	}
	return s, nil
}

// Link returns a link that begins a session, once (mode Local).
func (s *Server) Link() (string, error) {
	code, err := s.codes.issue()
	if err != nil {
		return "", err
	}
	return s.origins[0].text + "/open?code=" + code, nil
}

// Close ends all sessions and waits for what they had under way.
func (s *Server) Close() {
	s.sessions.close()
	s.feeding.Wait()
	s.cluster.close()
	if s.openID != nil {
		s.openID.client.CloseIdleConnections()
	}
}

// Serve answers on a listener until ctx ends, and then closes the server.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	l = netutil.LimitListener(l, s.o.Limits.Connections)
	h := &http.Server{
		Handler: s, TLSConfig: s.o.TLS, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	ended := make(chan error, 1)
	go func() {
		if s.o.TLS != nil {
			ended <- h.ServeTLS(l, "", "")
		} else {
			ended <- h.Serve(l)
		}
	}()
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sessions.prune()
		case err := <-ended:
			s.Close()
			return fmt.Errorf("serve the console: %w", err)
		case <-ctx.Done():
			s.sessions.close()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			err := h.Shutdown(last)
			if errors.Is(err, context.DeadlineExceeded) {
				err = h.Close()
			}
			<-ended
			s.Close()
			return err
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox")
	if s.cookie.Secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.Limits.WriteTime))
	// A kubelet probes under the Pod's address.
	if r.URL.Path == "/healthz" {
		_, _ = w.Write([]byte("ok\n"))
		return
	}
	if bad := s.foreign(r); bad != nil {
		fail(w, bad)
		return
	}
	switch path := r.URL.Path; {
	case path == "/open":
		s.open(w, r)
	case path == "/api" || strings.HasPrefix(path, "/api/"):
		s.api(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		fail(w, refuse(http.StatusMethodNotAllowed, "pages are read only"))
	case strings.HasPrefix(path, "/assets/"):
		s.page.serveAsset(w, r)
	default:
		nonce, err := secret(s.o.Random)
		if err != nil {
			fail(w, refuse(http.StatusInternalServerError, "%v", err))
			return
		}
		s.page.serveIndex(w, r, nonce)
	}
}

// foreign says why a request is not one of a person at our page. A name that leads here though it
// is none of ours is a sign of DNS rebinding.
func (s *Server) foreign(r *http.Request) *refusal {
	if !slices.ContainsFunc(s.origins, func(o origin) bool { return strings.EqualFold(o.host, r.Host) }) {
		return refuse(http.StatusMisdirectedRequest, "this console is not reached under the name %q", r.Host)
	}
	if r.Header.Get("Upgrade") != "" {
		return refuse(http.StatusBadRequest, "connections are not upgraded")
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		return nil
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	from, said := r.Header["Origin"]
	if !said && !reads || said && !s.ours(from) {
		return refuse(http.StatusForbidden, "the request does not come from the page of this console")
	}
	// A provider sends the browser here from its own site.
	if r.URL.Path == callbackPath {
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	return refuse(http.StatusForbidden, "the request comes from another site")
}

// ours says whether the origin of a request is that of our page.
func (s *Server) ours(from []string) bool {
	return len(from) == 1 && slices.ContainsFunc(s.origins, func(o origin) bool { return strings.EqualFold(o.text, from[0]) })
}

// api answers what is below /api.
func (s *Server) api(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, s.o.Limits.BodyBytes)
	path := strings.TrimPrefix(r.URL.Path, "/api/")
	switch {
	case path == "login" && r.Method == http.MethodPost:
		s.login(w, r)
		return
	case path == "oidc/start" && r.Method == http.MethodGet:
		s.startOpenID(w, r)
		return
	case r.URL.Path == callbackPath && r.Method == http.MethodGet:
		s.finishOpenID(w, r)
		return
	}
	who := s.session(r)
	if who == nil {
		s.sayLogin(w)
		return
	}
	proof := r.Header.Get(csrfHeader)
	if path == "stream" && proof == "" {
		proof = r.URL.Query().Get(csrfParameter)
	}
	switch reads := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case who.sends(proof):
	case reads:
		s.sayLogin(w)
		return
	default:
		fail(w, refuse(http.StatusForbidden, "the header %s is missing or not that of this session", csrfHeader))
		return
	}
	switch {
	case path == "session" && r.Method == http.MethodGet:
		s.saySession(w, who)
	case path == "logout" && r.Method == http.MethodPost:
		s.sessions.stop(who)
		s.forget(w)
		w.WriteHeader(http.StatusNoContent)
	case path == "stream" && r.Method == http.MethodGet:
		s.stream(w, r, who)
	case strings.HasPrefix(path, "k8s/"):
		s.pass(w, r, who)
	default:
		fail(w, refuse(http.StatusNotFound, "there is no %s %s", r.Method, r.URL.Path))
	}
}

// session returns the session of a request; nil if there is none.
func (s *Server) session(r *http.Request) *session {
	c, err := r.Cookie(s.cookie.Name)
	if err != nil {
		return nil
	}
	return s.sessions.find(c.Value)
}

// enter begins a session for an authenticated person, and returns the proof that its page sends.
// The browser gets a new id, so that an id that it had before, or that an attacker planted, becomes
// useless.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, u person, who identity, until time.Time) (proof string, bad *refusal) {
	if former := s.session(r); former != nil {
		s.sessions.stop(former)
	}
	id, begun, err := s.sessions.begin(u, who, until)
	if errors.Is(err, errFull) {
		return "", refuse(http.StatusServiceUnavailable, "too many people are logged in; try again later")
	}
	if err != nil {
		return "", refuse(http.StatusInternalServerError, "%v", err)
	}
	c := s.cookie
	c.Value = id
	http.SetCookie(w, &c)
	return begun.csrf, nil
}

// lead redirects the browser of a person who has just logged in to a page of the console.
func lead(w http.ResponseWriter, to, proof string) {
	to, _, _ = strings.Cut(to, "#")
	w.Header().Set("Location", to+"#"+proofFragment+proof)
	w.WriteHeader(http.StatusSeeOther)
}

// forget takes the cookie back.
func (s *Server) forget(w http.ResponseWriter) {
	c := s.cookie
	c.MaxAge = -1
	http.SetCookie(w, &c)
}

// place returns a path of ours, and the first page for all that is none.
func place(to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil, u.IsAbs(), u.Host != "", u.User != nil, !strings.HasPrefix(to, "/"), strings.HasPrefix(to, "//"), strings.ContainsAny(to, "\\\r\n\t"),
		u.Path == "/open", strings.HasPrefix(u.Path, "/api/"):
		return "/"
	}
	return u.String()
}

// saySession tells the page the user of the session.
func (s *Server) saySession(w http.ResponseWriter, who *session) {
	groups := who.user.Groups
	if groups == nil {
		groups = []string{}
	}
	answer(w, http.StatusOK, map[string]any{
		"user": person{who.user.Username, groups}, "mode": s.o.Mode, "edit": s.o.Edit, "version": s.o.Version,
		"cluster": s.o.Name, "demo": s.o.Demo,
	})
}

// sayLogin tells the page how to log in.
func (s *Server) sayLogin(w http.ResponseWriter) {
	answer(w, http.StatusUnauthorized, map[string]any{
		"login": map[string]bool{"oidc": s.openID != nil, "token": s.o.Mode == Cluster && s.o.Tokens},
	})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// fail answers with a Status, as the API server does.
func fail(w http.ResponseWriter, bad *refusal) {
	reason := map[int]metav1.StatusReason{
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed, http.StatusRequestEntityTooLarge: metav1.StatusReasonRequestEntityTooLarge,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	}[bad.code]
	answer(w, bad.code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Message: bad.text, Reason: reason, Code: int32(bad.code),
	})
}
