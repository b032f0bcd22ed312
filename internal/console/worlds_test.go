package console

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/kinds"
)

// counting is randomness that is the same in every world.
type counting struct {
	mu sync.Mutex
	n  int
}

func (c *counting) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b {
		c.n++
		b[i] = sha256.New().Sum([]byte{byte(c.n), byte(c.n >> 8)})[2]
	}
	return len(b), nil
}

// world is a cluster in which jane sees the same as ever, whatever else there is.
type world struct {
	t      *testing.T
	r      *rig
	hidden bool
	// changes counts what jane may not see.
	changes int
	mu      sync.Mutex
}

// answer is what the API server says: to jane of her Namespace, to mary of everything.
func (w *world) answer(out http.ResponseWriter, q *http.Request) {
	w.mu.Lock()
	w.changes++
	version := 1000
	if w.hidden {
		version += w.changes
	}
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	jane := q.Header.Get("Authorization") == "Bearer mine"
	switch query := q.URL.Query(); {
	case strings.HasSuffix(q.URL.Path, "/nodes") && jane:
		status(out, http.StatusForbidden, "jane may not")
	case query.Get("watch") == "true":
		for range 3 { // bookmarks tell the version that everything has
			fmt.Fprintf(out, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", version)
		}
		if !jane {
			_, _ = io.WriteString(out, `{"type":"ADDED","object":{"metadata":{"name":"secret","resourceVersion":"9"}}}`+"\n")
		}
		_ = http.NewResponseController(out).Flush()
		<-q.Context().Done()
	case query.Get("limit") != "":
		items := `{"metadata":{"name":"own","namespace":"shop","resourceVersion":"7"}}`
		if !jane {
			items += `,{"metadata":{"name":"secret","namespace":"bank","resourceVersion":"8"}}`
		}
		fmt.Fprintf(out, `{"kind":"XList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, items)
	case jane:
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(out, `{"kind":"Answer","of":%q,"method":%q,"body":%q}`, q.URL.String(), q.Method, body)
	default:
		_, _ = io.WriteString(out, `{"kind":"Secret"}`)
	}
}

// TestTwoConsolesAreOne: of two worlds that differ only in what jane may not see every endpoint
// tells her the same bytes: in one of them mary is logged in who sees everything, with all streams
// open, and the cluster changes all the time.
func TestTwoConsolesAreOne(t *testing.T) {
	one, two := (&world{t: t}).tells(), (&world{t: t, hidden: true}).tells()
	if len(one) < 150 || len(one) != len(two) {
		t.Errorf("%d and %d answers", len(one), len(two))
	}
	for i := range min(len(one), len(two)) {
		if one[i] != two[i] {
			t.Errorf("%s\n%s", one[i], two[i])
		}
		if strings.Contains(two[i], "secret") && !strings.Contains(one[i], "secret") {
			t.Errorf("told %s", two[i])
		}
	}
}

// tells returns what jane is told by every endpoint.
func (w *world) tells() (told []string) {
	t := w.t
	random, now := &counting{}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w.r = newRig(t, func(o *Options) {
		o.Mode, o.Tokens, o.Cluster.BearerToken, o.Edit = Cluster, true, "", true
		o.Random, o.Now = random, func() time.Time { return now }
	})
	r := w.r
	who := r.cluster.answers["POST /apis/authentication.k8s.io/v1/selfsubjectreviews"]
	r.cluster.Config.Handler = http.HandlerFunc(func(out http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/selfsubjectreviews") {
			out.Header().Set("Content-Type", "application/json")
			who(out, q)
			return
		}
		w.answer(out, q)
	})
	var topics []string
	for _, k := range kinds.Of(kinds.Shown) {
		name := k.Resource
		if k.Topic != "" {
			name = k.Topic
		}
		topics = append(topics, name)
	}
	topics = append(topics, "events")
	if w.hidden {
		w.mary(topics)
		random.n = 0
	}
	say := func(what string, a reply) {
		header := a.header.Clone()
		header.Del("Date")
		for name, values := range header {
			for i := range values { // both worlds have a server of their own
				header[name][i] = strings.ReplaceAll(values[i], r.http.URL, "")
			}
		}
		keys, _ := json.Marshal(header)
		told = append(told, fmt.Sprintf("%s: %d %s %s", what, a.code, keys, strings.ReplaceAll(a.body, r.http.URL, "")))
	}
	ask := func(method, path, body string, header ...string) {
		say(method+" "+path, r.do(method, path, body, header...))
	}
	for range 2 { // a stranger, and then jane
		for _, path := range []string{"/healthz", "/", "/map", "/assets/app-1234.js", "/assets/none.js", "/open?code=x", "/api", "/api/session", "/api/nothing", "/api/oidc/start", callbackPath + "?code=x&state=y",
			"/api/login", "/api/stream?watch=none", "/api/k8s/version", "/api/k8s/api/v1/secrets", "/api/k8s/api/v1/namespaces/kube-system/configmaps/nephele-hub", "/api/k8s/apis/analysis.nephele.io/v1alpha1/localpods"} {
			ask("GET", path, "")
		}
		for _, token := range []string{"theirs", "nobody", "mine"} {
			ask("POST", "/api/login", `{"token":"`+token+`"}`, "Origin", r.http.URL, "Content-Type", "application/json")
		}
	}
	page := r.page()
	for _, k := range kinds.Of(kinds.Shown) {
		base := "/api/k8s/apis/" + k.Group + "/" + k.Version + "/"
		if k.Group == "" {
			base = "/api/k8s/api/" + k.Version + "/"
		}
		ask("GET", base+k.Resource, "")
		ask("GET", base+k.Resource+"/own", "")
		ask("GET", base+"namespaces/bank/"+k.Resource+"?fieldSelector=a%3Db&resourceVersion=0", "")
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			ask(method, base+"namespaces/bank/"+k.Resource+"/secret?dryRun=All", `{"metadata":{"annotations":{"nephele.io/break-glass":"x"}}}`, page...)
		}
	}
	for _, resource := range []string{"flowreviews", "reachreviews", "effectiverules", "planreviews", "flowqueries"} {
		ask("POST", "/api/k8s/apis/analysis.nephele.io/v1alpha1/"+resource, `{"spec":{}}`, page...)
	}
	for _, resource := range []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"} {
		ask("POST", "/api/k8s/apis/authorization.k8s.io/v1/"+resource, `{"spec":{}}`, page...)
	}
	told = append(told, r.streamed(r.browser, topics, len(topics)))
	ask("POST", "/api/logout", "", page...)
	ask("GET", "/api/session", "")
	return told
}

// mary logs in, in a browser of her own, and keeps every stream open.
func (w *world) mary(topics []string) {
	r := w.r
	jane := *r.browser
	r.browser.Jar, _ = cookiejar.New(nil)
	if a := r.do("POST", "/api/login", `{"token":"hers"}`, "Origin", r.http.URL, "Content-Type", "application/json"); a.code != http.StatusOK {
		w.t.Fatalf("mary: %d %s", a.code, a.body)
	}
	all := r.streamed(r.browser, topics, len(topics))
	if !strings.Contains(all, "secret") {
		w.t.Fatalf("mary does not see everything: %s", all)
	}
	open := &http.Client{Transport: r.browser.Transport, Jar: r.browser.Jar}
	res, err := open.Get(r.http.URL + "/api/stream?" + url.Values{"watch": topics}.Encode())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = res.Body.Close() })
	r.browser.Jar, r.proof = jane.Jar, ""
	r.browser.Jar, _ = cookiejar.New(nil)
}

// streamed is what a stream begins with, event by event, sorted: topics come in any order.
func (r *rig) streamed(as *http.Client, topics []string, most int) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.http.URL+"/api/stream?"+url.Values{"watch": topics}.Encode(), http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := as.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var events []string
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for len(events) < most && lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is && data != "{}" {
			events = append(events, data)
		}
	}
	if len(events) < most {
		r.t.Fatalf("%d of %d events (%v): %s", len(events), most, lines.Err(), events)
	}
	slices.Sort(events)
	return fmt.Sprintf("%d %s", res.StatusCode, strings.Join(events, "\n"))
}
