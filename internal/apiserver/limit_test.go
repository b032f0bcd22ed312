package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// limited starts a server with an open store, an access and limits.
func limited(t *testing.T, access apiserver.Access, l limits.Limits) *world {
	t.Helper()
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), access: &access, limits: l}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	return w
}

// TestConnectionsAreCounted: an address that has as many connections as one may have gets no more,
// and gets one again for each that ends, whether anything was ever sent over it or not.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]limits.Limits{"of an address": {ConnectionsPerAddress: 8}, "of all": {Connections: 8}} {
		w := limited(t, tokenAccess(), l)
		w.hangUp()
		var silent []net.Conn
		open := func() (net.Conn, bool) {
			c, err := net.Dial("tcp", w.address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			// Nothing comes before the client has said something, but an end does.
			if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			_, err = c.Read(make([]byte, 1))
			var slow net.Error
			return c, errors.As(err, &slow) && slow.Timeout()
		}
		eventually(t, name+": room", func() error {
			for len(silent) < 8 {
				c, ok := open()
				if !ok {
					return errors.New("connections of before still count")
				}
				silent = append(silent, c)
			}
			return nil
		})
		for range 3 {
			if _, ok := open(); ok {
				t.Errorf("%s: a ninth connection lives", name)
			}
		}
		for _, c := range silent {
			_ = c.Close()
		}
		eventually(t, name+": room again", func() error {
			return w.client(t, "agent", "").Get().AbsPath("/livez").Do(t.Context()).Error()
		})
	}
}

// slowAccess recognizes callers only when it is let to. It counts how many wait.
func slowAccess(waiting *atomic.Int32, let <-chan struct{}) apiserver.Access {
	a := tokenAccess()
	quick := a.Authenticator
	a.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if r.Header.Get("Authorization") == "Bearer slow" {
			waiting.Add(1)
			defer waiting.Add(-1)
			select {
			case <-let:
			case <-r.Context().Done():
			}
		}
		return quick.AuthenticateRequest(r)
	})
	return a
}

// TestRequestsAreCounted: while many requests of one address wait to be recognized, watches among
// them, further ones are sent away at once. A watch that has begun does not count.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	var waiting atomic.Int32
	let := make(chan struct{})
	w := limited(t, slowAccess(&waiting, let).WithEnforcer("secret"), limits.Limits{RequestsPerAddress: 10})
	c := w.client(t, "agent", "")
	for i := range 20 { // more than may wait
		stream, err := c.Get().Resource("addressgroups").Param("watch", "true").Param("fieldSelector", fmt.Sprintf("nodeName=n%d", i)).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			r := w.client(t, "slow", "").Get().Resource("addressgroups")
			if i%2 == 0 {
				r = r.Param("watch", "true")
			}
			if err := r.Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
				t.Errorf("after waiting: %v", err)
			}
		})
	}
	eventually(t, "ten wait", func() error {
		if n := waiting.Load(); n != 10 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, path := range []string{"/apis/controlplane.antrea.io/v1beta2/addressgroups", "/apis/controlplane.antrea.io/v1beta2/addressgroups?watch=1", "/mutate/annp", "/readyz"} {
		code, text := w.post(ctx, stranger(t), path, nil)
		if code != http.StatusTooManyRequests || !strings.Contains(text, "10 requests of") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if err := w.client(t, "secret", "").Get().Resource("addressgroups").Do(t.Context()).Error(); err != nil {
		t.Errorf("an enforcer of the process: %v", err)
	}
	close(let)
	all.Wait()
	eventually(t, "there is room again", func() error { return c.Get().AbsPath("/livez").Do(t.Context()).Error() })
}

func TestLargeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for size, want := range map[int]int{1 << 10: http.StatusOK, 100 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.address+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer agent")
		request.Header.Set("X-Long", strings.Repeat("x", size))
		response, err := stranger(t).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != want {
			t.Errorf("%d bytes: %s", size, response.Status)
		}
	}
}

// TestStrangersCostNoQuestions: kube-apiserver is not asked about the rights of a caller without
// credentials, and such a caller sees one word of health.
func TestStrangersCostNoQuestions(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	access, err := apiserver.Closed()
	if err != nil {
		t.Fatal(err)
	}
	health := access.Authorizer
	access.Authorizer = authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if decision, _, _ := health.Authorize(ctx, a); decision == authorizer.DecisionAllow {
			return decision, "", nil
		}
		asked.Add(1)
		return authorizer.DecisionNoOpinion, "", nil
	})
	w := limited(t, access, limits.Limits{})
	c := stranger(t)
	for _, path := range []string{"/", "/metrics", "/version", "/readyz/policies-computed", "/readyz/callers-recognized", "/livez/ping", "/healthz/ping", "/endpoint?pod=a", "/debug/pprof/",
		"/openapi/v2", "/apis", "/apis/controlplane.antrea.io/v1beta2/networkpolicies", "/apis/stats.antrea.io/v1alpha1/networkpolicystats"} {
		for _, verb := range []string{http.MethodGet, http.MethodPost} {
			request, err := http.NewRequestWithContext(t.Context(), verb, "https://"+w.address+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if response.Body.Close(); response.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s: %s", verb, path, response.Status)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d questions about somebody anonymous", n)
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		response, err := c.Get("https://" + w.address + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil || response.StatusCode != http.StatusOK || string(text) != "ok" {
			t.Errorf("%s: %s %s (%v)", path, response.Status, text, err)
		}
	}
}

// callersAccess takes the bearer token for the name of the user, with the Pod after a slash, and
// lets everybody do everything.
func callersAccess() apiserver.Access {
	a := tokenAccess()
	a.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		name, pod, _ := strings.Cut(name, "/")
		u := &user.DefaultInfo{Name: name}
		if pod != "" {
			u.Extra = map[string][]string{"authentication.kubernetes.io/pod-uid": {pod}}
		}
		return &authenticator.Response{User: u}, ok, nil
	})
	a.Authorizer = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	return a
}

// TestWatchesAreCounted: of one kind and one key there are as many watches as are needed, and of
// one client. One more is refused in words; the place of one that ends is free.
func TestWatchesAreCounted(t *testing.T) {
	t.Parallel()
	w := limited(t, callersAccess(), limits.Limits{WatchesPerKey: 3, WatchesPerClient: 7})
	begin := func(who, resource, key string) (watch.Interface, error) {
		r := w.client(t, who, "").Get().Resource(resource).Param("watch", "true").MaxRetries(0)
		if key != "" {
			r = r.Param("fieldSelector", "nodeName="+key)
		}
		return r.Watch(t.Context())
	}
	var open []watch.Interface
	must := func(n int, who, resource, key string) {
		t.Helper()
		for range n {
			x, err := begin(who, resource, key)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(x.Stop)
			open = append(open, x)
		}
	}
	mustNot := func(who, resource, key, text string) {
		t.Helper()
		x, err := begin(who, resource, key)
		if err == nil {
			x.Stop()
		}
		if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s, %s of %s: %v, want 429 with %q", who, resource, key, err, text)
		}
	}
	must(3, "a/1", "addressgroups", "n1")
	mustNot("a/1", "addressgroups", "n1", `enforcer "n1" has 3 watches of addressgroups`)
	mustNot("b/1", "addressgroups", "n1", `enforcer "n1" has 3 watches of addressgroups`)
	must(3, "a/1", "egressgroups", "n1")
	mustNot("a/1", "egressgroups", "n1", `enforcer "n1" has 3 watches of egressgroups`)
	must(1, "a/1", "networkpolicies", "n2")
	mustNot("a/1", "networkpolicies", "n3", `"a" has 7 watches`)
	mustNot("a/1", "networkpolicies", "", `"a" has 7 watches`)
	// Another Pod of the same ServiceAccount is another client. All of them may watch everything.
	must(7, "a/2", "addressgroups", "")
	mustNot("a/2", "addressgroups", "", `"a" has 7 watches`)
	open[0].Stop()
	open[3].Stop()
	for _, resource := range []string{"addressgroups", "egressgroups"} {
		eventually(t, "a place of "+resource, func() error {
			x, err := begin("b/1", resource, "n1")
			if err == nil {
				t.Cleanup(x.Stop)
			}
			return err
		})
	}
	// Enforcers of the process itself watch for every account.
	own := limited(t, callersAccess().WithEnforcer("secret"), limits.Limits{WatchesPerKey: 3, WatchesPerClient: 2})
	client, err := rest.RESTClientFor(own.config("secret", ""))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		x, err := client.Get().Resource("addressgroups").Param("watch", "true").Param("fieldSelector", fmt.Sprintf("nodeName=cloud/n/%d", i)).Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Stop)
	}
}
