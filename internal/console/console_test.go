package console

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// patience is how long a test waits for what is to come. A machine may be busy.
const patience = 60 * time.Second

// seen is a request that reached the API server.
type seen struct {
	method, path string
	query        url.Values
	header       http.Header
	body         string
}

// cluster is an API server of which each answer is known, and which keeps what it is asked.
type cluster struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []seen
	answers map[string]http.HandlerFunc // by method and path
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{answers: map[string]http.HandlerFunc{}}
	c.on("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, r *http.Request) {
		name := map[string]string{"Bearer mine": "jane", "Bearer hers": "mary", "Bearer nobody": "system:anonymous"}[r.Header.Get("Authorization")]
		if name == "" {
			status(w, http.StatusUnauthorized, "Unauthorized")
			return
		}
		fmt.Fprintf(w, `{"status":{"userInfo":{"username":%q,"groups":["system:authenticated"]}}}`, name)
	})
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		c.asked = append(c.asked, seen{r.Method, r.URL.EscapedPath(), r.URL.Query(), r.Header.Clone(), string(body)})
		answer := c.answers[r.Method+" "+r.URL.Path]
		c.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if answer == nil {
			answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"kind":"Fine"}`) }
		}
		answer(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func status(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`, text, code)
}

func (c *cluster) on(what string, answer http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[what] = answer
}

// since returns what was asked from the nth request on.
func (c *cluster) since(n int) []seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]seen(nil), c.asked[n:]...)
}

func (c *cluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// console is a server under test, with a browser.
type rig struct {
	t *testing.T
	*Server
	http    *httptest.Server
	cluster *cluster
	clock   *clock
	browser *http.Client
	// proof is what the page has kept of the last login.
	proof string
}

// asPage sends what the page sends with requests that only read.
type asPage struct {
	http.RoundTripper
	r *rig
}

func (a asPage) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, set := req.Header[csrfHeader]; !set && req.Method == http.MethodGet && a.r.proof != "" {
		req = req.Clone(req.Context())
		req.Header.Set(csrfHeader, a.r.proof)
	}
	return a.RoundTripper.RoundTrip(req)
}

var plainPage = fstest.MapFS{
	"index.html":         {Data: []byte(`<meta name="nephele-nonce" content="__NEPHELE_NONCE__">`)},
	"assets/app-1234.js": {Data: []byte(strings.Repeat("run();", 500))},
}

// newRig starts a console of the mode Local for jane, unless the options say otherwise.
func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	c := newCluster(t)
	r := &rig{t: t, cluster: c, clock: &clock{now: time.Now()}}
	var handler http.Handler
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) })
	o := Options{
		Mode: Local, Cluster: &rest.Config{Host: c.URL, BearerToken: "mine"}, Name: "here", Version: "v1", Page: plainPage,
		Log: logr.Discard(), Now: r.clock.Now, Random: rand.Reader,
	}
	if change != nil {
		change(&o)
	}
	if o.Mode == Cluster {
		r.http = httptest.NewTLSServer(serve)
	} else {
		r.http = httptest.NewServer(serve)
	}
	o.Origins = append(o.Origins, r.http.URL)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Server, handler = s, s
	r.browser = r.http.Client()
	r.browser.Transport = asPage{r.browser.Transport, r}
	r.browser.Jar, _ = cookiejar.New(nil)
	r.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		r.sessions.close()
		r.http.Close()
		r.Close()
	})
	return r
}

// reply is an answer to the browser.
type reply struct {
	code   int
	header http.Header
	body   string
}

func (r *rig) do(method, path, body string, header ...string) reply {
	r.t.Helper()
	a := r.doAs(r.browser, method, path, body, header...)
	if at, proof, ok := strings.Cut(a.header.Get("Location"), "#"+proofFragment); ok {
		r.proof = proof
		a.header.Set("Location", at)
	}
	var told struct{ CSRF string }
	if path == "/api/login" && json.Unmarshal([]byte(a.body), &told) == nil && told.CSRF != "" {
		r.proof = told.CSRF
	}
	return a
}

func (r *rig) doAs(who *http.Client, method, path, body string, header ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.http.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Add(header[i], header[i+1])
		}
	}
	res, err := who.Do(req)
	if err != nil {
		return reply{body: err.Error()}
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{code: -1, header: res.Header, body: err.Error()}
	}
	return reply{res.StatusCode, res.Header, string(raw)}
}

// enterLocal opens a link, and returns what a page sends with its requests.
func (r *rig) enterLocal() []string {
	r.t.Helper()
	link, err := r.Link()
	if err != nil {
		r.t.Fatal(err)
	}
	if a := r.do("GET", strings.TrimPrefix(link, r.http.URL), ""); a.code != http.StatusSeeOther {
		r.t.Fatalf("the link answers %d %s", a.code, a.body)
	}
	return r.page()
}

// page returns what our page sends with requests that are not GET.
func (r *rig) page() []string {
	r.t.Helper()
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusOK || strings.Contains(a.body, r.proof) {
		r.t.Fatalf("the session is %d %s", a.code, a.body)
	}
	return []string{"Origin", r.http.URL, csrfHeader, r.proof, "Content-Type", "application/json"}
}

// TestCookieAloneOpensNothing: a browser gives the cookie to every port of the machine. A program
// that listens on another one gets nothing for it: no session, no proof, no stream, no answer of
// the cluster.
func TestCookieAloneOpensNothing(t *testing.T) {
	r := newRig(t, nil)
	r.enterLocal()
	at, _ := url.Parse(r.http.URL)
	stolen := r.cookie.Name + "=" + r.browser.Jar.Cookies(at)[0].Value
	thief, n := &http.Client{CheckRedirect: r.browser.CheckRedirect}, r.cluster.count()
	for _, path := range []string{"/api/session", "/api/k8s/api/v1/pods", "/api/stream?watch=pods", "/api/stream?watch=pods&csrf=x", "/api/nothing"} {
		if a := r.doAs(thief, "GET", path, "", "Cookie", stolen); a.code != http.StatusUnauthorized || strings.Contains(a.body, r.proof) {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	for _, proof := range []string{"", "x"} {
		if a := r.doAs(thief, "POST", "/api/k8s/api/v1/pods", "{}", "Cookie", stolen, "Origin", r.http.URL, csrfHeader, proof); a.code != http.StatusForbidden {
			t.Errorf("a change with the proof %q: %d %s", proof, a.code, a.body)
		}
	}
	// The page, with a cookie and no proof, gives the proof to nobody.
	if a := r.doAs(thief, "GET", "/", "", "Cookie", stolen); strings.Contains(a.body, r.proof) || a.code != http.StatusOK {
		t.Errorf("the page: %d", a.code)
	}
	if asked := r.cluster.since(n); len(asked) != 0 {
		t.Errorf("the cluster was asked: %v", asked)
	}
	if a := r.doAs(thief, "GET", "/api/session", "", "Cookie", stolen, csrfHeader, r.proof); a.code != http.StatusOK {
		t.Errorf("with both: %d %s", a.code, a.body)
	}
}

func TestLinkWorksOnce(t *testing.T) {
	r := newRig(t, nil)
	link, err := r.Link()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(link, r.http.URL)
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusUnauthorized || !strings.Contains(a.body, `"login":{"oidc":false,"token":false}`) {
		t.Errorf("without a session: %d %s", a.code, a.body)
	}
	for _, look := range [][]string{{"HEAD"}, {"GET", "Sec-Purpose", "prefetch"}} {
		if a := r.do(look[0], path, "", look[1:]...); a.code != http.StatusForbidden {
			t.Errorf("%v: %d", look, a.code)
		}
	}
	a := r.do("GET", path+"&to=/map%3Fx=1", "")
	if a.code != http.StatusSeeOther || a.header.Get("Location") != "/map?x=1" {
		t.Fatalf("the link answers %d %v", a.code, a.header)
	}
	cookie := a.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Domain") {
		t.Errorf("the cookie %q is for a domain", cookie)
	}
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusOK || !strings.Contains(a.body, `"username":"jane"`) || !strings.Contains(a.body, `"edit":false`) {
		t.Errorf("session: %d %s", a.code, a.body)
	}
	stranger := &http.Client{CheckRedirect: r.browser.CheckRedirect}
	if a := r.doAs(stranger, "GET", path, ""); a.code != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a second time: %d %v", a.code, a.header)
	}
	link, _ = r.Link()
	r.clock.add(r.o.Limits.LinkAge)
	if a := r.doAs(stranger, "GET", strings.TrimPrefix(link, r.http.URL), ""); a.code != http.StatusForbidden {
		t.Errorf("too late: %d", a.code)
	}
}

func TestOnlyLocalPlaces(t *testing.T) {
	for to, want := range map[string]string{
		"/map?x=1#y": "/map?x=1#y", "/policies/shop/web": "/policies/shop/web", "": "/", "https://evil.example/": "/", "//evil.example/": "/", "///evil.example/": "/", `/\evil.example`: "/",
		"javascript:alert(1)": "/", "evil": "/", "/a\r\nSet-Cookie: x=y": "/", "/open?code=x": "/", "/api/logout": "/", "/\t/evil.example": "/", "http:/x": "/",
	} {
		if got := place(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}

// TestNewIDAtEveryLogin: a planted id, or the former one, gives nothing.
func TestNewIDAtEveryLogin(t *testing.T) {
	r := newRig(t, nil)
	at, _ := url.Parse(r.http.URL)
	r.browser.Jar.SetCookies(at, []*http.Cookie{{Name: r.cookie.Name, Value: "planted"}})
	r.enterLocal()
	first := r.browser.Jar.Cookies(at)[0].Value
	r.enterLocal()
	second := r.browser.Jar.Cookies(at)[0].Value
	if first == "planted" || first == second {
		t.Errorf("the ids are %q and %q", first, second)
	}
	for _, id := range []string{"planted", first} {
		if a := r.doAs(http.DefaultClient, "GET", "/api/session", "", "Cookie", r.cookie.Name+"="+id); a.code != http.StatusUnauthorized {
			t.Errorf("the id %q is good for %d", id, a.code)
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	r := newRig(t, nil)
	gone := func(what string) {
		t.Helper()
		if a := r.do("GET", "/api/session", ""); a.code != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, a.code)
		}
	}
	page := r.enterLocal()
	id := r.browser.Jar
	if a := r.do("POST", "/api/logout", "", page...); a.code != http.StatusNoContent {
		t.Errorf("logout: %d %s", a.code, a.body)
	}
	r.browser.Jar = id
	gone("after the logout")
	r.enterLocal()
	r.clock.add(r.o.Limits.SessionIdle)
	gone("unused for long")
	r.enterLocal()
	for range int(r.o.Limits.SessionAge/r.o.Limits.SessionIdle)*2 - 1 {
		r.clock.add(r.o.Limits.SessionIdle / 2)
		if a := r.do("GET", "/api/session", ""); a.code != http.StatusOK {
			t.Fatalf("in use: %d", a.code)
		}
	}
	r.clock.add(r.o.Limits.SessionIdle / 2)
	gone("at its end, though in use")
}

func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits = Limits{Sessions: 3, SessionsPerUser: 2} })
	begin := func(name string) (string, error) {
		id, _, err := r.sessions.begin(person{Username: name}, carried{}, time.Time{})
		r.clock.add(time.Second)
		return id, err
	}
	first, _ := begin("jane")
	second, _ := begin("jane")
	r.sessions.find(first)
	third, _ := begin("jane")
	if r.sessions.find(first) == nil || r.sessions.find(second) != nil || r.sessions.find(third) == nil {
		t.Error("the session that was used least recently is not the one that went")
	}
	if _, err := begin("mary"); err != nil {
		t.Error(err)
	}
	if _, err := begin("joe"); err == nil {
		t.Error("there are more sessions than may be")
	}
	r.clock.add(r.o.Limits.SessionIdle)
	if _, err := begin("joe"); err != nil {
		t.Errorf("sessions that are over still count: %v", err)
	}
}

// TestForeignRequests: a page of another origin, another site or another name has nothing passed
// on, with a session or without.
func TestForeignRequests(t *testing.T) {
	r := newRig(t, nil)
	page := r.enterLocal()
	n := r.cluster.count()
	port := r.http.URL[strings.LastIndex(r.http.URL, ":"):]
	csrf := page[3]
	review := "/api/k8s/apis/analysis.nephele.io/v1alpha1/flowreviews"
	for _, c := range []struct {
		what, method, path string
		header             []string
		want               int
	}{
		{"a name that was led here", "GET", "/api/session", []string{"Host", "evil.example" + port}, http.StatusMisdirectedRequest},
		{"the page under such a name", "GET", "/", []string{"Host", "evil.example" + port}, http.StatusMisdirectedRequest},
		{"another port", "GET", "/api/session", []string{"Host", "127.0.0.1:1"}, http.StatusMisdirectedRequest},
		{"another origin", "POST", review, []string{"Origin", "https://evil.example", csrfHeader, csrf}, http.StatusForbidden},
		{"another port of this machine", "POST", review, []string{"Origin", "http://127.0.0.1:1", csrfHeader, csrf}, http.StatusForbidden},
		{"no origin", "POST", review, []string{csrfHeader, csrf}, http.StatusForbidden},
		{"null", "POST", review, []string{"Origin", "null", csrfHeader, csrf}, http.StatusForbidden},
		{"two origins", "POST", review, []string{"Origin", r.http.URL, "Origin", "https://evil.example", csrfHeader, csrf}, http.StatusForbidden},
		{"no proof", "POST", review, []string{"Origin", r.http.URL}, http.StatusForbidden},
		{"a wrong proof", "POST", review, []string{"Origin", r.http.URL, csrfHeader, csrf + "x"}, http.StatusForbidden},
		{"logout without proof", "POST", "/api/logout", []string{"Origin", r.http.URL}, http.StatusForbidden},
		{"a form of another site", "POST", "/api/logout", []string{"Origin", r.http.URL, csrfHeader, csrf, "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"a script of another port", "GET", "/api/k8s/api/v1/pods", []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{"a stream for another origin", "GET", "/api/stream?watch=pods", []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{"an upgrade", "GET", "/api/k8s/api/v1/pods", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, http.StatusBadRequest},
		{"a method that nobody has", "TRACE", "/api/session", nil, http.StatusForbidden},
		{"a form on a page", "POST", "/map", []string{"Origin", r.http.URL, csrfHeader, csrf}, http.StatusMethodNotAllowed},
	} {
		if a := r.do(c.method, c.path, "{}", c.header...); a.code != c.want {
			t.Errorf("%s: %d %s, want %d", c.what, a.code, a.body, c.want)
		}
	}
	if asked := r.cluster.since(n); len(asked) > 0 {
		t.Errorf("the cluster was asked: %+v", asked)
	}
	if a := r.do("GET", "/healthz", "", "Host", "10.0.0.7"); a.code != http.StatusOK || a.body != "ok\n" {
		t.Errorf("health: %d %q", a.code, a.body)
	}
	if a := r.do("POST", review, "{}", page...); a.code != http.StatusOK {
		t.Errorf("our own page: %d %s", a.code, a.body)
	}
}

// TestHeaders: every kind of answer has the headers that keep others from using it.
func TestHeaders(t *testing.T) {
	r := newRig(t, nil)
	r.enterLocal()
	for _, path := range []string{"/", "/policies/shop/web", "/assets/app-1234.js", "/assets/none.js", "/api/session", "/api/k8s/api/v1/pods", "/api/k8s/api/v1/secrets", "/open?code=x", "/api/x"} {
		a := r.do("GET", path, "")
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		csp := a.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: the policy %q lets too much through", path, csp)
		}
		if got := a.header.Get("Cache-Control"); strings.HasPrefix(path, "/assets/app") == (got == "no-store") {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
	}
}

func TestPage(t *testing.T) {
	r := newRig(t, nil)
	nonces := map[string]bool{}
	for _, path := range []string{"/", "/map", "/policies/shop/web?x=%2F..", "/..%2f..%2fetc/passwd"} {
		a := r.do("GET", path, "")
		_, rest, _ := strings.Cut(a.body, `content="`)
		nonce, _, _ := strings.Cut(rest, `"`)
		if a.code != http.StatusOK || len(nonce) < 40 || nonces[nonce] || !strings.Contains(a.header.Get("Content-Security-Policy"), "style-src 'self' 'nonce-"+nonce+"'") {
			t.Errorf("%s: %d %q with %q", path, a.code, a.body, a.header.Get("Content-Security-Policy"))
		}
		nonces[nonce] = true
	}
	a := r.do("GET", "/assets/app-1234.js", "", "Accept-Encoding", "identity")
	if a.code != http.StatusOK || a.header.Get("Content-Type") != "text/javascript; charset=utf-8" || len(a.body) != 3000 {
		t.Errorf("a file: %d %v", a.code, a.header)
	}
	if a := r.do("GET", "/assets/app-1234.js", "", "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "gzip" || len(a.body) > 300 {
		t.Errorf("a file, packed: %d bytes, %v", len(a.body), a.header)
	}
	for _, path := range []string{"/assets/", "/assets/x.js", "/assets/../index.html"} {
		if a := r.do("GET", path, ""); a.code != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.code)
		}
	}
	if _, err := New(Options{Mode: Local, Origins: []string{"http://127.0.0.1:1"}, Cluster: &rest.Config{Host: "x"}, Now: time.Now, Random: rand.Reader}); err != nil {
		t.Errorf("the page that is built in: %v", err)
	}
}

// stream reads the events of a stream.
type stream struct {
	t      *testing.T
	body   io.ReadCloser
	events chan event
}

type event struct {
	kind string
	data map[string]any
}

func (r *rig) follow2(query string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	req, _ := http.NewRequestWithContext(ctx, "GET", r.http.URL+"/api/stream?"+query, nil)
	res, err := r.browser.Do(req)
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(res.Body)
		cancel()
		r.t.Fatalf("the stream is %s: %s", res.Status, raw)
	}
	s := &stream{t: r.t, body: res.Body, events: make(chan event, 1000)}
	go func() {
		defer close(s.events)
		var e event
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e = event{kind: value}
			case "data":
				d := json.NewDecoder(bytes.NewReader([]byte(value)))
				if d.Decode(&e.data) != nil {
					e.kind = "broken: " + value
				}
				s.events <- e
			}
		}
	}()
	r.t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	return s
}

// next returns the next event that is no ping.
func (s *stream) next() event {
	s.t.Helper()
	late := time.After(patience)
	for {
		select {
		case e, ok := <-s.events:
			if !ok {
				s.t.Fatal("the stream has ended")
			}
			if e.kind != "ping" {
				return e
			}
		case <-late:
			s.t.Fatal("no event comes")
		}
	}
}

// ended waits for the end of the stream.
func (s *stream) ended() {
	s.t.Helper()
	late := time.After(patience)
	for {
		select {
		case _, ok := <-s.events:
			if !ok {
				return
			}
		case <-late:
			s.t.Fatal("the stream does not end")
		}
	}
}
