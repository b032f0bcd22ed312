package console

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

const policies = "/api/k8s/apis/crd.antrea.io/v1beta1/namespaces/shop/networkpolicies"

// TestWhatIsPassedOn tries every way around the list of what the console passes on.
func TestWhatIsPassedOn(t *testing.T) {
	const (
		bad     = http.StatusBadRequest
		no      = http.StatusForbidden
		not     = http.StatusMethodNotAllowed
		fine    = http.StatusOK
		k8s     = "/api/k8s"
		clouds  = k8s + "/apis/crd.cloud.antrea.io/v1alpha1/namespaces/shop/"
		vm      = clouds + "virtualmachines/web"
		dry     = "?dryRun=All"
		reviews = k8s + "/apis/analysis.nephele.io/v1alpha1/"
	)
	for _, edit := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Edit = edit })
		page := r.enterLocal()
		// real is what a change in earnest answers.
		real := no
		if edit {
			real = fine
		}
		for _, c := range []struct {
			method, path string
			want         int
		}{
			{"GET", k8s + "/version", fine},
			{"GET", k8s + "/apis/crd.antrea.io/v1beta1", fine},
			{"GET", k8s + "/api/v1", fine},
			{"GET", k8s + "/api/v1/pods?limit=5&continue=x", fine},
			{"GET", k8s + "/api/v1/namespaces/shop", fine},
			{"GET", k8s + "/api/v1/namespaces/shop/pods/web-1.a", fine},
			{"GET", policies, fine},
			{"GET", policies + "/web", fine},
			{"GET", k8s + "/apis/nephele.io/v1alpha1/policyrevisions", fine},
			{"GET", k8s + "/api/v1/namespaces/kube-system/configmaps/nephele-history-keys", fine},
			{"GET", k8s + "/api/v1/namespaces/kube-system/configmaps/nephele-hub", fine},
			{"PUT", k8s + "/api/v1/namespaces/kube-system/configmaps/nephele-hub" + dry, not},
			{"GET", k8s + "/apis/controlplane.antrea.io/v1beta2/namespaces/shop/groupmembers/web?page=1&limit=5", fine},
			{"GET", vm, fine},
			{"GET", clouds + "cloudnativeservices", fine},
			{"GET", clouds + "networkinterfaces/eni-1", fine},
			{"PUT", clouds + "cloudnativeservices/orders", not},
			{"DELETE", clouds + "networkinterfaces/eni-1", not},
			{"POST", reviews + "flowreviews", fine},
			{"POST", reviews + "planreviews", fine},
			{"POST", k8s + "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", fine},
			{"POST", policies + dry, fine},
			{"PUT", policies + "/web" + dry, fine},
			{"POST", policies, real},
			{"PUT", policies + "/web", real},
			{"DELETE", policies + "/web", real},
			{"POST", k8s + "/apis/crd.antrea.io/v1beta1/tiers", real},

			{"GET", k8s + "/api/v1/secrets", no},
			{"GET", k8s + "/api/v1/namespaces/shop/secrets/keys", no},
			{"GET", k8s + "/api/v1/namespaces/shop/configmaps", no},
			{"GET", k8s + "/api/v1/namespaces/kube-system/configmaps", no},
			{"GET", k8s + "/api/v1/namespaces/kube-system/configmaps/antrea-ca", no},
			{"GET", k8s + "/api/v1/namespaces/shop/configmaps/nephele-history-keys", no},
			{"PUT", k8s + "/api/v1/namespaces/kube-system/configmaps/nephele-history-keys" + dry, not},
			{"GET", k8s + "/api/v1/namespaces/shop/serviceaccounts", no},
			{"GET", k8s + "/apis/apps/v1/deployments", no},
			{"GET", k8s + "/apis/apps/v1", no},
			{"GET", k8s + "/apis/rbac.authorization.k8s.io/v1/clusterroles", no},
			{"GET", k8s + "/api/v1/watch/pods", no}, // the path of former watches
			{"GET", k8s + "/api/v1/watch/namespaces/shop/pods", bad},
			{"GET", k8s + "/api/v1/namespaces/shop/pods/web/log", bad},
			{"GET", k8s + "/api/v1/namespaces/shop/pods/web/exec", bad},
			{"GET", k8s + "/api/v1/namespaces/shop/pods/web/proxy/x", bad},
			{"GET", k8s + "/api/v1/namespaces/shop/services/web/proxy", bad},
			{"GET", k8s + "/api/v1/nodes/n/proxy/metrics", bad},
			{"POST", k8s + "/api/v1/namespaces/shop/serviceaccounts/default/token", bad},
			{"GET", k8s + "/api/v1/pods?watch=true", bad},
			{"GET", k8s + "/api/v1/pods?limit=1&limit=2", bad},
			{"GET", k8s + "/api/v1/pods?as=admin", bad},
			{"GET", k8s + "/apis", bad},
			{"GET", k8s + "/metrics", bad},
			{"GET", k8s + "/logs/x", bad},
			{"GET", k8s + "/openapi/v2", bad},
			{"GET", k8s + "//api/v1/secrets", bad},
			{"GET", k8s + "/api/v1/pods/", bad},
			{"GET", k8s + "/api/v1/../v1/secrets", bad},
			{"GET", k8s + "/api/v1/pods/..%2fsecrets", bad},
			{"GET", k8s + "/api/v1/pods/%2e%2e/secrets", bad},
			{"GET", k8s + "/api/v1/p%6fds", bad},
			{"GET", k8s + "/api/v1/pods%00", bad},
			{"GET", k8s + "/api/v1/pods;x=y", bad},
			{"GET", k8s + "/apis/crd.antrea.io/..", bad},
			{"GET", k8s + "/apis/crd.antrea.io/latest/tiers", bad},
			{"GET", reviews + "flowreviews", not},
			{"POST", reviews + "flowreviews/x", not},
			{"PUT", reviews + "flowreviews/x", not},
			{"POST", k8s + "/api/v1/namespaces", not},
			{"DELETE", k8s + "/api/v1/namespaces/shop", not},
			{"DELETE", k8s + "/api/v1/namespaces/shop/pods/web" + dry, not},
			{"DELETE", policies, not}, // all at once
			{"DELETE", policies + dry, not},
			{"PUT", policies + dry, not},
			{"POST", policies + "?dryRun=", bad},
			{"POST", policies + "?dryRun=None", bad},
			{"POST", policies + "?dryRun=All&dryRun=", bad},
			{"POST", policies + "?dryrun=All", bad},
			{"PUT", policies + "/web/status", bad},
			{"POST", k8s + "/apis/crd.cloud.antrea.io/v1alpha1/namespaces/shop/cloudprovideraccounts" + dry, not},
			{"PUT", vm + dry, not},
			{"DELETE", vm, not},
			{"POST", k8s + "/apis/authorization.k8s.io/v1/subjectaccessreviews", no},
			{"OPTIONS", policies, not},
			{"HEAD", policies, not},
		} {
			n := r.cluster.count()
			body := "{}"
			if c.method == "GET" || c.method == "DELETE" || c.method == "HEAD" {
				body = ""
			}
			a := r.do(c.method, c.path, body, page...)
			asked := r.cluster.since(n)
			if a.code != c.want || (len(asked) == 1) != (c.want == fine) {
				t.Errorf("edit %v: %s %s: %d %s, want %d; passed on: %+v", edit, c.method, c.path, a.code, a.body, c.want, asked)
			}
			if c.want == fine && len(asked) == 1 && (asked[0].method != c.method || asked[0].path != strings.Split(strings.TrimPrefix(c.path, k8s), "?")[0]) {
				t.Errorf("%s %s became %s %s", c.method, c.path, asked[0].method, asked[0].path)
			}
			if a.code >= 400 && c.method != "HEAD" && !strings.Contains(a.body, `"kind":"Status"`) {
				t.Errorf("%s %s: the answer is no Status: %s", c.method, c.path, a.body)
			}
		}
	}
}

// TestDryDeletion: the API server prefers options in the body, so a body can undo a dry run.
func TestDryDeletion(t *testing.T) {
	for _, edit := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Edit = edit })
		page := r.enterLocal()
		n := r.cluster.count()
		if a := r.do("DELETE", policies+"/web?dryRun=All", `{"kind":"DeleteOptions","apiVersion":"v1"}`, page...); a.code != http.StatusBadRequest || r.cluster.count() > n {
			t.Errorf("edit %v: with a body: %d %s", edit, a.code, a.body)
		}
		if a := r.do("DELETE", policies+"/web?dryRun=All", "", page...); a.code != http.StatusOK {
			t.Errorf("edit %v: without a body: %d %s", edit, a.code, a.body)
		}
	}
}

// TestBreakGlassAndNothingElse: of what is imported and of selectors one annotation is changed.
func TestBreakGlassAndNothingElse(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Edit = true })
	page := r.enterLocal()
	page[5] = "application/merge-patch+json"
	for _, what := range []string{"virtualmachines/web", "cloudnativeservices/orders", "networkinterfaces/eni-1", "cloudentityselectors/all"} {
		path := "/api/k8s/apis/crd.cloud.antrea.io/v1alpha1/namespaces/shop/" + what
		for _, good := range []string{
			`{"metadata":{"annotations":{"nephele.io/break-glass":"the shop is down"}}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":null},"resourceVersion":"7"}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"x","nephele.io/break-glass-until":"2026-01-02T15:04:05Z"}}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":null,"nephele.io/break-glass-until":null}}}`,
		} {
			n := r.cluster.count()
			if a := r.do("PATCH", path, good, page...); a.code != http.StatusOK || r.cluster.since(n)[0].body != good {
				t.Errorf("%s %s: %d %s", what, good, a.code, a.body)
			}
		}
		n := r.cluster.count()
		for _, other := range []string{
			``, `{}`, `[]`, `null`,
			`{"spec":{"mode":"released"}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"x"}},"spec":{"mode":"released"}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"x","nephele.io/account":"a"}}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"x","nephele.io/break-glass-until":"","nephele.io/account":"a"}}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass-until":"2026-01-02T15:04:05Z"}}}`,
			`{"metadata":{"annotations":{"nephele.io/account":"a"}}}`,
			`{"metadata":{"annotations":null}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"x"},"labels":{"a":"b"}}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"x"},"finalizers":[]}}`,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"x"}}} {"spec":{}}`,
		} {
			if a := r.do("PATCH", path, other, page...); a.code != http.StatusForbidden {
				t.Errorf("%s %s: %d", what, other, a.code)
			}
		}
		json := append([]string(nil), page...)
		json[5] = "application/json-patch+json"
		if a := r.do("PATCH", path, `[{"op":"replace","path":"/spec","value":{}}]`, json...); a.code != http.StatusUnsupportedMediaType {
			t.Errorf("%s, another kind of patch: %d", what, a.code)
		}
		if r.cluster.count() > n {
			t.Errorf("passed on: %+v", r.cluster.since(n))
		}
		// Names that are read without regard to case could be read otherwise behind us.
		n = r.cluster.count()
		r.do("PATCH", path, `{"Metadata":{"annotations":{"nephele.io/break-glass":"x"}},"metadata":{"annotations":{"nephele.io/break-glass":"y"}}}`, page...)
		for _, s := range r.cluster.since(n) {
			if strings.Contains(s.body, "Metadata") || strings.Count(s.body, "metadata") != 1 {
				t.Errorf("passed on as it came: %s", s.body)
			}
		}
	}
	read := newRig(t, nil)
	page = read.enterLocal()
	page[5] = "application/merge-patch+json"
	if a := read.do("PATCH", "/api/k8s/apis/crd.cloud.antrea.io/v1alpha1/namespaces/shop/virtualmachines/web",
		`{"metadata":{"annotations":{"nephele.io/break-glass":"x"}}}`, page...); a.code != http.StatusForbidden {
		t.Errorf("without edits: %d", a.code)
	}
}

// TestNothingOfTheBrowserGoesOn: the caller is the user of the session, whatever headers say.
func TestNothingOfTheBrowserGoesOn(t *testing.T) {
	for _, mode := range []Mode{Local, Cluster} {
		r := newRig(t, func(o *Options) {
			o.Mode, o.Tokens = mode, true
			if mode == Cluster {
				// Credentials of the console itself, which no caller may ever use.
				o.Cluster.BearerToken, o.Cluster.Username, o.Cluster.Password = "consoles own", "root", "secret"
			}
		})
		var page []string
		if mode == Local {
			page = r.enterLocal()
		} else {
			page = r.enterToken("mine")
		}
		n := r.cluster.count()
		a := r.do("POST", "/api/k8s/apis/analysis.nephele.io/v1alpha1/flowreviews", `{"spec":{}}`, append(page,
			"Authorization", "Bearer hers", "Impersonate-User", "admin", "Impersonate-Group", "system:masters", "Impersonate-Uid", "0",
			"Impersonate-Extra-Scopes", "all", "X-Remote-User", "admin", "X-Remote-Group", "system:masters", "X-Forwarded-For", "10.0.0.1", "Forwarded", "for=10.0.0.1",
			"Te", "trailers", "Proxy-Authorization", "x", "Connection", "X-Secret", "X-Secret", "1", "Referer", "http://x", "X-Http-Method-Override", "DELETE",
			"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")...)
		if a.code != http.StatusOK {
			t.Fatalf("%s: %d %s", mode, a.code, a.body)
		}
		got := r.cluster.since(n)[0]
		for name, values := range got.header {
			switch name {
			case "Accept", "Content-Type", "Content-Length", "User-Agent", "Accept-Encoding":
			case "Authorization":
				if len(values) != 1 || values[0] != "Bearer mine" {
					t.Errorf("%s: Authorization %q", mode, values)
				}
			default:
				t.Errorf("%s: header %s %q went on", mode, name, values)
			}
		}
		if got.header.Get("Authorization") == "" || got.header.Get("Accept") != "application/json;as=Table;v=v1;g=meta.k8s.io,application/json" || got.body != `{"spec":{}}` {
			t.Errorf("%s: went on: %+v", mode, got)
		}
	}
}

// TestAnswers: what the cluster sends is JSON or not passed on, and its headers stay behind.
func TestAnswers(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Limits.AnswerBytes, o.Limits.BodyBytes, o.Limits.RequestTime = 10_000, 1000, 300*time.Millisecond
	})
	page := r.enterLocal()
	const pods = "/api/v1/pods"
	say := func(answer http.HandlerFunc) reply {
		t.Helper()
		r.cluster.on("GET "+pods, answer)
		return r.do("GET", "/api/k8s"+pods, "")
	}
	a := say(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for _, name := range []string{"Set-Cookie", "Access-Control-Allow-Origin", "Content-Security-Policy", "Location", "X-Other"} {
			h.Set(name, "evil=*")
		}
		h.Set("Warning", `299 - "spec.x is old"`)
		status(w, http.StatusConflict, "again")
	})
	if a.code != http.StatusConflict || a.header.Get("Warning") == "" || !strings.Contains(a.body, "again") {
		t.Errorf("an error of the cluster: %d %v %s", a.code, a.header, a.body)
	}
	for name, values := range a.header {
		if strings.Contains(strings.Join(values, ""), "evil") {
			t.Errorf("header %s %q came back", name, values)
		}
	}
	for what, answer := range map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<script>alert(1)</script>")
		},
		"no kind": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Del("Content-Type")
			_, _ = io.WriteString(w, "{}")
		},
		"a redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://evil.example")
			w.WriteHeader(http.StatusFound)
		},
	} {
		if a := say(answer); a.code != http.StatusBadGateway || a.header.Get("Location") != "" || strings.Contains(a.body, "script") {
			t.Errorf("%s: %d %s", what, a.code, a.body)
		}
	}
	if a := say(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 10_000)) }); a.code != http.StatusOK {
		t.Errorf("as long as may be: %d %s", a.code, a.body)
	}
	if a := say(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 10_001)) }); a.code != -1 {
		t.Errorf("too long, and taken for the whole: %d, %d bytes", a.code, len(a.body))
	}
	if a := say(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }); a.code != http.StatusGatewayTimeout {
		t.Errorf("no answer: %d %s", a.code, a.body)
	}
	n := r.cluster.count()
	if a := r.do("POST", policies+"?dryRun=All", strings.Repeat("x", 1001), page...); a.code != http.StatusRequestEntityTooLarge || r.cluster.count() > n {
		t.Errorf("a body that is too long: %d %s", a.code, a.body)
	}
	page[5] = "text/plain"
	if a := r.do("POST", policies+"?dryRun=All", "{}", page...); a.code != http.StatusUnsupportedMediaType || r.cluster.count() > n {
		t.Errorf("a body of another kind, as forms send it: %d %s", a.code, a.body)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.RequestsPerSession = 2 })
	r.enterLocal()
	release, come := make(chan struct{}), make(chan struct{})
	r.cluster.on("GET /api/v1/pods", func(w http.ResponseWriter, _ *http.Request) {
		come <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "{}")
	})
	done := make(chan reply)
	for range 2 {
		go func() { done <- r.do("GET", "/api/k8s/api/v1/pods", "") }()
		<-come
	}
	if a := r.do("GET", "/api/k8s/api/v1/nodes", ""); a.code != http.StatusTooManyRequests {
		t.Errorf("one more: %d", a.code)
	}
	close(release)
	for range 2 {
		if a := <-done; a.code != http.StatusOK {
			t.Errorf("within the bound: %d %s", a.code, a.body)
		}
	}
	if a := r.do("GET", "/api/k8s/api/v1/nodes", ""); a.code != http.StatusOK {
		t.Errorf("when they are over: %d", a.code)
	}
}

// TestPathOfTheCluster: an API server need not be at the root of its host.
func TestPathOfTheCluster(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Cluster = &rest.Config{Host: o.Cluster.Host + "/clusters/c-1", BearerToken: "mine"}
	})
	r.cluster.on("POST /clusters/c-1/apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":{"userInfo":{"username":"jane"}}}`)
	})
	r.enterLocal()
	n := r.cluster.count()
	r.do("GET", "/api/k8s/api/v1/pods?labelSelector="+url.QueryEscape("a=b,c"), "")
	if got := r.cluster.since(n)[0]; got.path != "/clusters/c-1/api/v1/pods" || got.query.Get("labelSelector") != "a=b,c" {
		t.Errorf("asked for %+v", got)
	}
}
