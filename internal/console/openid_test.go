package console

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// provider is an OpenID provider at which everybody is jane.
type provider struct {
	*httptest.Server
	t   *testing.T
	key *rsa.PrivateKey
	now func() time.Time

	mu     sync.Mutex
	asked  url.Values     // at /auth
	claims map[string]any // besides the usual ones, or in place of them
	renew  string         // what renews the next token; empty for nothing
	signer *rsa.PrivateKey
	given  int // tokens
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key, signer: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer":%[1]q,"authorization_endpoint":"%[1]s/auth","token_endpoint":"%[1]s/token","jwks_uri":"%[1]s/keys",
			"id_token_signing_alg_values_supported":["RS256"]}`, p.URL)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"k","alg":"RS256","use":"sig","n":%q,"e":%q}]}`, b64(key.N.Bytes()), b64(big.NewInt(int64(key.E)).Bytes()))
	})
	mux.HandleFunc("/token", p.token)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

// token gives a token for a code, if it is asked for with the verifier of the challenge.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = r.ParseForm()
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	byCode := r.PostForm.Get("grant_type") == "authorization_code" && r.PostForm.Get("code") == "good" && b64(sum[:]) == p.asked.Get("code_challenge") &&
		r.PostForm.Get("redirect_uri") == p.asked.Get("redirect_uri")
	renewing := r.PostForm.Get("grant_type") == "refresh_token" && p.renew != "" && r.PostForm.Get("refresh_token") == p.renew
	if !byCode && !renewing {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	p.given++
	claims := map[string]any{
		"iss": p.URL, "aud": "nephele", "sub": "jane", "exp": p.now().Add(5 * time.Minute).Unix(), "iat": p.now().Unix(), "jti": p.given,
	}
	if byCode {
		claims["nonce"] = p.asked.Get("nonce")
	}
	maps.Copy(claims, p.claims)
	if p.renew != "" {
		p.renew = fmt.Sprintf("renew-%d", p.given)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": "access", "token_type": "Bearer", "id_token": p.sign(claims), "refresh_token": p.renew,
	})
}

func (p *provider) sign(claims map[string]any) string {
	raw, _ := json.Marshal(claims)
	text := b64([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + b64(raw)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.signer, crypto.SHA256, sum[:])
	if err != nil {
		p.t.Error(err)
	}
	return text + "." + b64(signature)
}

// newOpenIDRig starts a console at which people log in with a provider. The cluster takes its
// tokens as they are.
func newOpenIDRig(t *testing.T) (*rig, *provider) {
	t.Helper()
	p := newProvider(t)
	authorities := x509.NewCertPool()
	authorities.AddCert(p.Certificate())
	r := newRig(t, func(o *Options) {
		o.Mode, o.OpenID = Cluster, &OpenID{Issuer: p.URL, ClientID: "nephele", Scopes: []string{"groups"}, Authorities: authorities}
	})
	p.now = r.clock.Now
	r.cluster.on("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), ".") {
			status(w, http.StatusUnauthorized, "Unauthorized")
			return
		}
		_, _ = io.WriteString(w, `{"status":{"userInfo":{"username":"oidc:jane"}}}`)
	})
	return r, p
}

// begin has the browser begin a login, and returns the state of it.
func (r *rig) begin(p *provider, to string) string {
	r.t.Helper()
	a := r.do("GET", "/api/oidc/start?to="+url.QueryEscape(to), "", "Sec-Fetch-Site", "same-origin")
	at, err := url.Parse(a.header.Get("Location"))
	if err != nil || a.code != http.StatusSeeOther || !strings.HasPrefix(at.String(), p.URL+"/auth?") {
		r.t.Fatalf("the login begins with %d %v %s", a.code, a.header, a.body)
	}
	if c := a.header.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "Secure") || !strings.Contains(c, "SameSite=Lax") {
		r.t.Errorf("the cookie is %q", c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = at.Query()
	if p.asked.Get("code_challenge_method") != "S256" || p.asked.Get("scope") != "openid groups" || p.asked.Get("redirect_uri") != r.http.URL+callbackPath {
		r.t.Errorf("the provider is asked %v", p.asked)
	}
	return p.asked.Get("state")
}

// back has the browser come back from the provider.
func (r *rig) back(code, state string) reply {
	r.t.Helper()
	return r.do("GET", callbackPath+"?code="+code+"&state="+url.QueryEscape(state), "", "Sec-Fetch-Site", "cross-site")
}

func TestOpenIDLogin(t *testing.T) {
	r, p := newOpenIDRig(t)
	if a := r.do("GET", "/api/session", ""); !strings.Contains(a.body, `"oidc":true,"token":false`) {
		t.Errorf("without a session: %s", a.body)
	}
	a := r.back("good", r.begin(p, "/map?x=1"))
	if a.code != http.StatusSeeOther || a.header.Get("Location") != "/map?x=1" {
		t.Fatalf("back: %d %v %s", a.code, a.header, a.body)
	}
	var session string
	for _, c := range a.header["Set-Cookie"] {
		if strings.HasPrefix(c, "__Host-nephele-session=") {
			session = c
		}
	}
	if !strings.Contains(session, "SameSite=Strict") || !strings.Contains(session, "HttpOnly") || !strings.Contains(session, "Secure") {
		t.Errorf("the cookie is %q", session)
	}
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusOK || !strings.Contains(a.body, "oidc:jane") || strings.Contains(a.body, "eyJ") {
		t.Errorf("session: %d %s", a.code, a.body)
	}
	n := r.cluster.count()
	r.do("GET", "/api/k8s/api/v1/pods", "")
	if got := r.cluster.since(n)[0].header.Get("Authorization"); strings.Count(got, ".") != 2 {
		t.Errorf("the cluster is asked with %q", got)
	}
	// Without something that renews it, the session is over with the token.
	r.clock.add(5 * time.Minute)
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusUnauthorized {
		t.Errorf("after the end of the token: %d", a.code)
	}
	if a := r.do("GET", "/api/oidc/start", "", "Sec-Fetch-Site", "cross-site"); a.code != http.StatusForbidden {
		t.Errorf("a login that another site begins: %d", a.code)
	}
	if a := r.back("good", r.begin(p, "https://evil.example/")); a.header.Get("Location") != "/" {
		t.Errorf("leads to %q", a.header.Get("Location"))
	}
}

// TestForgedLogins: nobody is logged in by what others planted, kept or forged.
func TestForgedLogins(t *testing.T) {
	r, p := newOpenIDRig(t)
	none := func(what string, a reply) {
		t.Helper()
		if a.code != http.StatusForbidden && a.code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", what, a.code, a.body)
		}
		if a := r.do("GET", "/api/session", ""); a.code != http.StatusUnauthorized {
			t.Errorf("%s: there is a session", what)
		}
	}
	none("a login that nobody began", r.back("good", "x"))
	none("no state", r.back("good", ""))
	state := r.begin(p, "/")
	none("another state", r.back("good", state+"x"))
	none("the same attempt again", r.back("good", state))
	none("a code of somebody else", r.back("bad", r.begin(p, "/")))
	none("no code", r.back("", r.begin(p, "/")))

	state = r.begin(p, "/")
	r.clock.add(attemptLife)
	none("too late", r.back("good", state))

	state = r.begin(p, "/")
	other, _ := newOpenIDRig(t) // an attempt that another console has sealed
	foreign, _ := other.openID.sealed(attempt{State: state, Until: r.clock.Now().Add(time.Hour)})
	at, _ := url.Parse(r.http.URL)
	r.browser.Jar.SetCookies(at, []*http.Cookie{attemptCookie(foreign, time.Hour)})
	none("an attempt of another console", r.back("good", state))

	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(){
		"the nonce of another login": func() { p.claims = map[string]any{"nonce": "other"} },
		"a token for somebody else":  func() { p.claims = map[string]any{"aud": "other"} },
		"another issuer":             func() { p.claims = map[string]any{"iss": "https://evil.example"} },
		"a token that is over":       func() { p.claims = map[string]any{"exp": r.clock.Now().Add(-time.Second).Unix()} },
		"another key":                func() { p.signer = stranger },
	} {
		state := r.begin(p, "/")
		p.mu.Lock()
		p.claims, p.signer = nil, p.key
		change()
		p.mu.Unlock()
		none(what, r.back("good", state))
	}
	p.mu.Lock()
	p.claims, p.signer = nil, p.key
	p.mu.Unlock()
	if a := r.back("good", r.begin(p, "/")); a.code != http.StatusSeeOther {
		t.Errorf("the same without any of that: %d %s", a.code, a.body)
	}
}

// TestTokensAreRenewed: a session outlives its first token, as long as the provider wants it to.
func TestTokensAreRenewed(t *testing.T) {
	r, p := newOpenIDRig(t)
	p.renew = "renew-0"
	if a := r.back("good", r.begin(p, "/")); a.code != http.StatusSeeOther {
		t.Fatalf("login: %d %s", a.code, a.body)
	}
	used := map[string]bool{}
	for range 4 {
		n := r.cluster.count()
		if a := r.do("GET", "/api/k8s/api/v1/pods", ""); a.code != http.StatusOK {
			t.Fatalf("with a renewed token: %d %s", a.code, a.body)
		}
		used[r.cluster.since(n)[0].header.Get("Authorization")] = true
		r.clock.add(4*time.Minute + 30*time.Second)
	}
	if len(used) != 4 {
		t.Errorf("%d tokens were used", len(used))
	}
	p.mu.Lock()
	p.claims = map[string]any{"sub": "mary"} // the provider is confused
	p.mu.Unlock()
	r.clock.add(time.Minute)
	if a := r.do("GET", "/api/k8s/api/v1/pods", ""); a.code != http.StatusUnauthorized {
		t.Errorf("with the token of somebody else: %d %s", a.code, a.body)
	}
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusUnauthorized {
		t.Errorf("after that: %d", a.code)
	}
}

func TestProviderIsAway(t *testing.T) {
	r, p := newOpenIDRig(t)
	p.Close()
	if a := r.do("GET", "/api/oidc/start", ""); a.code != http.StatusBadGateway || strings.Contains(a.body, p.URL) {
		t.Errorf("%d %s", a.code, a.body)
	}
	for _, issuer := range []string{"http://issuer.example", "issuer", ""} {
		if _, err := newOpenID(OpenID{Issuer: issuer, ClientID: "x"}, "https://x", time.Now, rand.Reader); err == nil {
			t.Errorf("the issuer %q is let be", issuer)
		}
	}
}
