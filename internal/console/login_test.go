package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// enterToken logs in with a token, and returns what a page sends with its requests.
func (r *rig) enterToken(token string) []string {
	r.t.Helper()
	if a := r.do("POST", "/api/login", fmt.Sprintf(`{"token":%q}`, token), "Origin", r.http.URL, "Content-Type", "application/json"); a.code != http.StatusOK {
		r.t.Fatalf("login: %d %s", a.code, a.body)
	}
	return r.page()
}

func TestTokenLogin(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Mode, o.Tokens, o.Cluster.BearerToken = Cluster, true, "consoles own" })
	from := []string{"Origin", r.http.URL, "Content-Type", "application/json"}
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusUnauthorized || !strings.Contains(a.body, `"token":true`) {
		t.Errorf("without a session: %d %s", a.code, a.body)
	}
	for _, c := range []struct {
		what, body string
		header     []string
		want       int
	}{
		{"a token that the cluster does not know", `{"token":"x"}`, from, http.StatusUnauthorized},
		{"the token of nobody", `{"token":"nobody"}`, from, http.StatusUnauthorized},
		{"no token, though the console has one", `{"token":""}`, from, http.StatusBadRequest},
		{"blanks", `{"token":"  "}`, from, http.StatusBadRequest},
		{"a header in the token", `{"token":"mine\r\nImpersonate-User: admin"}`, from, http.StatusBadRequest},
		{"no JSON", `token=mine`, from, http.StatusBadRequest},
		{"too much", `{"token":"` + strings.Repeat("x", 70<<10) + `"}`, from, http.StatusRequestEntityTooLarge},
		{"a form", `{"token":"mine"}`, []string{"Origin", r.http.URL, "Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		{"another site", `{"token":"mine"}`, []string{"Origin", "https://evil.example", "Content-Type", "application/json"}, http.StatusForbidden},
	} {
		if a := r.do("POST", "/api/login", c.body, c.header...); a.code != c.want || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s, want %d", c.what, a.code, a.body, c.want)
		}
	}
	a := r.do("POST", "/api/login", `{"token":"mine"}`, from...)
	cookie := a.header.Get("Set-Cookie")
	for _, want := range []string{"__Host-nephele-session=", "HttpOnly", "SameSite=Strict", "Path=/", "Secure"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "mine") || a.header.Get("Strict-Transport-Security") == "" {
		t.Errorf("the answer is %v", a.header)
	}
	if a := r.do("GET", "/api/session", ""); strings.Contains(a.body, "mine") || !strings.Contains(a.body, `"username":"jane"`) {
		t.Errorf("the session: %s", a.body)
	}
	if a := r.do("GET", "/open?code=x", ""); a.code != http.StatusNotFound {
		t.Errorf("links: %d", a.code)
	}
	// A token that is no longer good ends the session.
	r.cluster.on("GET /api/v1/pods", func(w http.ResponseWriter, _ *http.Request) { status(w, http.StatusUnauthorized, "Unauthorized") })
	if a := r.do("GET", "/api/k8s/api/v1/pods", ""); a.code != http.StatusUnauthorized {
		t.Errorf("with an old token: %d", a.code)
	}
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusUnauthorized {
		t.Errorf("after that: %d", a.code)
	}
}

// TestEachWithHisOwnToken: two people at one console are two callers.
func TestEachWithHisOwnToken(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Mode, o.Tokens = Cluster, true })
	r.enterToken("mine")
	n := r.cluster.count()
	r.do("GET", "/api/k8s/api/v1/pods", "")
	r.enterToken("hers")
	r.do("GET", "/api/k8s/api/v1/pods", "")
	var got []string
	for _, s := range r.cluster.since(n) {
		if s.method == "GET" {
			got = append(got, s.header.Get("Authorization"))
		}
	}
	if strings.Join(got, ",") != "Bearer mine,Bearer hers" {
		t.Errorf("asked as %v", got)
	}
}

// TestAnotherReplica: a process in which a session has not begun asks its person to log in,
// whatever is asked for, lets nothing through to the cluster and leaves the cookie alone, so that
// the session goes on where it began.
func TestAnotherReplica(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Mode, o.Tokens, o.Cluster.BearerToken = Cluster, true, "" })
	page := r.enterToken("mine")
	other, err := New(r.o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	const policies = "/api/k8s/apis/crd.antrea.io/v1beta1/networkpolicies"
	n := r.cluster.count()
	for _, path := range []string{"/api/session", policies, "/api/stream?watch=annp", "/api/logout"} {
		method := http.MethodGet
		if path == "/api/logout" {
			method = http.MethodPost
		}
		req := httptest.NewRequestWithContext(t.Context(), method, r.http.URL+path, nil)
		for i := 0; i < len(page); i += 2 {
			req.Header.Set(page[i], page[i+1])
		}
		for _, c := range r.browser.Jar.Cookies(req.URL) {
			req.AddCookie(c)
		}
		if len(req.Cookies()) == 0 {
			t.Fatal("the browser has no cookie")
		}
		answer := httptest.NewRecorder()
		other.ServeHTTP(answer, req)
		if answer.Code != http.StatusUnauthorized || !strings.Contains(answer.Body.String(), `"token":true`) || answer.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s %s at the other one: %d %s, cookie %q", method, path, answer.Code, answer.Body, answer.Header().Get("Set-Cookie"))
		}
	}
	if asked := r.cluster.since(n); len(asked) != 0 {
		t.Errorf("the cluster was asked: %v", asked)
	}
	if a := r.do("GET", policies, ""); a.code != http.StatusOK {
		t.Errorf("the session does not go on where it began: %d %s", a.code, a.body)
	}
}

// TestLocalIsForOne: the console of one person takes no tokens, and is on loopback without TLS
// only.
func TestLocalIsForOne(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Tokens = true })
	if a := r.do("POST", "/api/login", `{"token":"mine"}`, "Origin", r.http.URL, "Content-Type", "application/json"); a.code != http.StatusNotFound {
		t.Errorf("a token: %d", a.code)
	}
	for _, address := range []string{"0.0.0.0:80", "192.0.2.1:80", "[::]:80", "[2001:db8::1]:80"} {
		if got, err := LocalOrigins(addr(address)); err == nil {
			t.Errorf("%s: %v", address, got)
		}
	}
	for address, want := range map[string]string{"127.0.0.1:80": "http://127.0.0.1:80 http://localhost:80", "[::1]:80": "http://[::1]:80 http://localhost:80"} {
		if got, err := LocalOrigins(addr(address)); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
	for _, o := range []Options{
		{Mode: Cluster, Origins: []string{"http://console.example"}},
		{Mode: Local, Origins: []string{"https://console.example"}},
		{Mode: Local, Origins: []string{"http://127.0.0.1:1/x"}},
		{Mode: Local},
	} {
		o.Cluster = &rest.Config{Host: "x"}
		if _, err := New(o); err == nil {
			t.Errorf("%s at %v is let be", o.Mode, o.Origins)
		}
	}
}

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }
