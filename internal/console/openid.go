package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// callbackPath is where a provider sends the browser back to.
	callbackPath = "/api/oidc/callback"
	// attemptLife is how long a person may take to log in at the provider.
	attemptLife = 10 * time.Minute
	// providerTime bounds a request to the provider, and providerBytes its answer.
	providerTime  = 10 * time.Second
	providerBytes = 1 << 20
	// renewBefore is how long before the end of a token the next one is asked for.
	renewBefore = time.Minute
)

// OpenID is a provider at which people log in. Its tokens must be those that the API server takes
// from them: the same issuer and the same client.
type OpenID struct {
	// Issuer is its address, https://...; ClientID is our name there. ClientSecret is empty for a
	// public client.
	Issuer, ClientID, ClientSecret string
	// Scopes are asked for besides openid. With offline_access the provider gives what renews
	// tokens.
	Scopes []string
	// Authorities holds the authorities of its certificate; nil for the system's.
	Authorities *x509.CertPool
}

// openID is how people log in at a provider: the code flow with PKCE.
type openID struct {
	o    OpenID
	self string
	now  func() time.Time
	// random is for attempts, seal for what the browser keeps of one until it is back.
	random io.Reader
	seal   cipher.AEAD
	client *http.Client

	mu       sync.Mutex
	provider *oidc.Provider // nil until it has answered
}

func newOpenID(o OpenID, self string, now func() time.Time, random io.Reader) (*openID, error) {
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("OpenID issuer %q: want an address with https", o.Issuer)
	}
	if o.ClientID == "" {
		return nil, errors.New("OpenID: the name of the client is missing")
	}
	key := make([]byte, 32)
	if _, err := io.ReadFull(random, key); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: o.Authorities, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: providerTime, IdleConnTimeout: time.Minute,
	}
	return &openID{o: o, self: self, now: now, random: random, seal: seal, client: &http.Client{
		Transport: shortAnswers{transport}, Timeout: providerTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// shortAnswers reads so much of an answer and no more.
type shortAnswers struct{ next *http.Transport }

// RoundTrip implements http.RoundTripper.
func (s shortAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, providerBytes)
	}
	return res, err
}

// CloseIdleConnections is what http.Client looks for.
func (s shortAnswers) CloseIdleConnections() { s.next.CloseIdleConnections() }

// flow returns the configuration of the provider and the verifier of its tokens. It asks the
// provider for both when they are first needed, and again after a failure.
func (p *openID) flow() (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.provider == nil {
		// The provider keeps the context for its keys; the client bounds each request.
		found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), p.client), p.o.Issuer)
		if err != nil {
			return nil, nil, err
		}
		p.provider = found
	}
	return &oauth2.Config{
		ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: p.provider.Endpoint(), RedirectURL: p.self + callbackPath,
		Scopes: append([]string{oidc.ScopeOpenID}, p.o.Scopes...),
	}, p.provider.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.now}), nil
}

// attempt is a login that is under way. The browser keeps it, sealed, so that nobody can make us
// remember attempts without end.
type attempt struct {
	State, Nonce, Verifier, To string
	Until                      time.Time
}

func (p *openID) sealed(a attempt) (string, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, p.seal.NonceSize())
	if _, err := io.ReadFull(p.random, nonce); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nonce, nonce, raw, nil)), nil
}

func (p *openID) unsealed(text string) (a attempt, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < p.seal.NonceSize() {
		return a, false
	}
	n := p.seal.NonceSize()
	if raw, err = p.seal.Open(nil, raw[:n], raw[n:], nil); err != nil || json.Unmarshal(raw, &a) != nil || !p.now().Before(a.Until) {
		return attempt{}, false
	}
	return a, true
}

// attemptCookie is the cookie of an attempt. The provider sends the browser back from another site,
// so that it cannot be as strict as that of a session.
func attemptCookie(value string, age time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: "__Host-nephele-login", Value: value, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode, MaxAge: int(age / time.Second),
	}
	if age <= 0 {
		c.MaxAge = -1
	}
	return c
}

// startOpenID sends the browser to the provider.
func (s *Server) startOpenID(w http.ResponseWriter, r *http.Request) {
	if s.openID == nil {
		fail(w, refuse(http.StatusNotFound, "this console knows no provider"))
		return
	}
	config, _, err := s.openID.flow()
	if err != nil {
		s.o.Log.Info("The OpenID provider does not answer", "error", err.Error())
		fail(w, refuse(http.StatusBadGateway, "the provider does not answer"))
		return
	}
	a := attempt{To: place(r.URL.Query().Get("to")), Until: s.o.Now().Add(attemptLife)}
	for _, v := range []*string{&a.State, &a.Nonce, &a.Verifier} {
		if *v, err = secret(s.o.Random); err != nil {
			fail(w, refuse(http.StatusInternalServerError, "%v", err))
			return
		}
	}
	value, err := s.openID.sealed(a)
	if err != nil || len(value) > 3500 {
		fail(w, refuse(http.StatusBadRequest, "the address to go on to is too long"))
		return
	}
	http.SetCookie(w, attemptCookie(value, attemptLife))
	w.Header().Set("Location", config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)))
	w.WriteHeader(http.StatusSeeOther)
}

// finishOpenID takes what the provider has sent the browser back with.
func (s *Server) finishOpenID(w http.ResponseWriter, r *http.Request) {
	if s.openID == nil {
		fail(w, refuse(http.StatusNotFound, "this console knows no provider"))
		return
	}
	select {
	case s.logins <- struct{}{}:
		defer func() { <-s.logins }()
	default:
		fail(w, refuse(http.StatusTooManyRequests, "too many people log in just now; try again"))
		return
	}
	http.SetCookie(w, attemptCookie("", 0))
	q := r.URL.Query()
	var a attempt
	begun := false
	if c, err := r.Cookie(attemptCookie("", 0).Name); err == nil {
		a, begun = s.openID.unsealed(c.Value)
	}
	if !begun || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1 {
		fail(w, refuse(http.StatusForbidden, "this is not the answer to a login that this browser has begun here; begin anew"))
		return
	}
	if q.Get("code") == "" {
		fail(w, refuse(http.StatusForbidden, "the provider says: %.200q", q.Get("error")))
		return
	}
	g, err := s.openID.redeem(r.Context(), q.Get("code"), a)
	if err != nil {
		s.o.Log.Info("A login failed", "error", err.Error())
		fail(w, refuse(http.StatusForbidden, "the provider did not confirm the login"))
		return
	}
	u, err := s.whoAmI(r.Context(), g)
	if err != nil {
		fail(w, notWho(err))
		return
	}
	var until time.Time
	if g.renew == "" {
		until = g.ends
	}
	proof, bad := s.enter(w, r, u, g, until)
	if bad != nil {
		fail(w, bad)
		return
	}
	lead(w, a.To, proof)
}

// granted is the identity of a person who has logged in at a provider.
type granted struct {
	by      *openID
	subject string

	mu    sync.Mutex
	token string
	ends  time.Time
	renew string // empty if the token cannot be renewed
}

// redeem has the provider give the token of an attempt.
func (p *openID) redeem(ctx context.Context, code string, a attempt) (*granted, error) {
	config, verifier, err := p.flow()
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	given, err := config.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return nil, err
	}
	g := &granted{by: p}
	id, err := g.accept(ctx, verifier, given)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return nil, errors.New("the token is for another login")
	}
	return g, nil
}

// accept takes over what the provider gave, if it is good.
func (g *granted) accept(ctx context.Context, verifier *oidc.IDTokenVerifier, given *oauth2.Token) (*oidc.IDToken, error) {
	raw, _ := given.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("the provider gives no id_token")
	}
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	if g.subject != "" && id.Subject != g.subject {
		return nil, errors.New("the token is that of somebody else")
	}
	g.subject, g.token, g.ends = id.Subject, raw, id.Expiry
	if given.RefreshToken != "" {
		g.renew = given.RefreshToken
	}
	return id, nil
}

// bearer implements identity. It renews the token shortly before its end.
func (g *granted) bearer(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.ends.Sub(g.by.now())
	if left > renewBefore {
		return g.token, nil
	}
	if g.renew != "" {
		if err := g.renewed(ctx); err == nil {
			return g.token, nil
		}
	}
	if left > 0 {
		return g.token, nil
	}
	return "", errUnknown
}

func (g *granted) renewed(ctx context.Context) error {
	config, verifier, err := g.by.flow()
	if err != nil {
		return err
	}
	ctx = oidc.ClientContext(ctx, g.by.client)
	given, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: g.renew}).Token()
	if err != nil {
		return err
	}
	_, err = g.accept(ctx, verifier, given)
	return err
}
