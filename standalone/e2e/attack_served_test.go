package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memory is the memory of a process, as its system tells it.
type memory struct {
	t   *testing.T
	pid int
}

// reset makes the peak begin anew.
func (m memory) reset() {
	m.t.Helper()
	must(m.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.pid), []byte("5"), 0o600))
}

// read returns a line of the process's status in bytes: VmRSS is what it takes now, VmHWM the most
// since reset.
func (m memory) read(name string) int64 {
	m.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.pid))
	must(m.t, err)
	for _, line := range strings.Split(string(raw), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name+":" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			must(m.t, err)
			return n << 10
		}
	}
	m.t.Fatalf("no %s in %s", name, raw)
	return 0
}

// grown fails the test if the process took much more at any time since reset than it did before.
func (m memory) grown(t *testing.T, before, atMost int64) {
	t.Helper()
	grown := m.read("VmHWM") - before
	t.Logf("the process grew by %d MB, from %d MB", grown>>20, before>>20)
	if grown > atMost {
		t.Errorf("THE PROCESS GREW BY %d MB, from %d MB", grown>>20, before>>20)
	}
}

// servedAPI: a tenant learns nothing that is computed for others through the served API, and does
// not speak for them; and nobody, not even without any name, can keep the controller busy or make
// it large with the webhooks.
func (a *arena) servedAPI(t *testing.T, metrics string) {
	a.within(t)
	direct := a.direct(t)
	t.Run("computed for others", func(t *testing.T) { a.computedForOthers(t, direct) })
	t.Run("without a name", func(t *testing.T) { a.nameless(t, direct) })
	t.Run("metrics", func(t *testing.T) {
		for _, scheme := range []string{"http", "https"} {
			code, answer, err := get(t, scheme+"://127.0.0.1:"+metrics+"/metrics", "")
			if err == nil && code == http.StatusOK || strings.Contains(answer, "nephele_") {
				t.Errorf("ANYBODY MAY READ THE METRICS BY %s: %d\n%s", scheme, code, tail(answer, 300))
			}
		}
	})
	t.Run("many slow reviews", func(t *testing.T) { a.slowReviews(t, direct) })
	t.Run("many large reviews", func(t *testing.T) { a.manyReviews(t, direct) })
	a.unharmed(t)
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	must(t, err)
	return port
}

// direct is the address of the port that kube-apiserver forwards to.
func (a *arena) direct(t *testing.T) string {
	t.Helper()
	s := testScheme(t)
	must(t, apiregistrationv1.AddToScheme(s))
	registry, err := client.New(a.admin, client.Options{Scheme: s})
	must(t, err)
	var service apiregistrationv1.APIService
	must(t, registry.Get(t.Context(), client.ObjectKey{Name: "v1beta2.controlplane.antrea.io"}, &service))
	return fmt.Sprintf("127.0.0.1:%d", *service.Spec.Service.Port)
}

// anyone is an HTTP client that trusts every server and shows nothing of its own.
func anyone() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
}

func get(t *testing.T, url, token string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := anyone().Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, string(raw), err
}

// computedForOthers asks with the token of a ServiceAccount that has all that mallory has, through
// kube-apiserver and directly.
func (a *arena) computedForOthers(t *testing.T, direct string) {
	a.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNS, Name: mallory}})
	for _, role := range append([]string{"edit"}, personas...) {
		if role != "edit" {
			role = "nephele-" + role
		}
		a.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNS, Name: "account-" + role},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: attackerNS, Name: mallory}}})
	}
	kube, err := kubernetes.NewForConfig(a.admin)
	must(t, err)
	e := &enforcers{cluster: a.c, config: a.admin, kube: kube}
	token := e.token(t, attackerNS, mallory, nil)
	everybody := a.text("{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {namespace: ns-b, name: everybody}, spec: {namespaceSelector: {}, externalEntitySelector: {}}}")
	must(t, a.people[mallory].Create(t.Context(), everybody))
	keys := []string{"", "cloud/ns-a/real", "cloud/ns-b/own", "cloud/ns-a/", "ns-a/real", "cloud/ns-b/../ns-a/real", "cloud%2Fns-a%2Freal"}
	for way, c := range e.ways(t, token) {
		eventuallyNil(t, way+": the server answers", func(ctx context.Context) error {
			if err := c.Get().Resource("networkpolicies").Do(ctx).Error(); !apierrors.IsForbidden(err) {
				return fmt.Errorf("%w, want a refusal", errOr(err))
			}
			return nil
		})
		for _, key := range keys {
			for _, resource := range computedResources {
				for _, watch := range []string{"", "true"} {
					r := c.Get().Resource(resource).Param("watch", watch)
					if key != "" {
						r = r.Param("fieldSelector", "nodeName="+key)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					if err := r.Do(ctx).Error(); !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
						t.Errorf("%s: %s for %q (watch %q): %v, want a refusal", way, resource, key, watch, err)
					}
					cancel()
				}
			}
			body := fmt.Sprintf(
				`{"kind":"NetworkPolicyStatus","apiVersion":"controlplane.antrea.io/v1beta2","metadata":{"name":"u"},"nodes":[{"nodeName":%q,"generation":1,"realizationFailure":true}]}`,
				key,
			)
			post := c.Post().Resource("networkpolicies").Name("u").SubResource("status").SetHeader("Content-Type", "application/json").Body([]byte(body))
			if err := post.Do(t.Context()).Error(); err == nil {
				t.Errorf("%s: a status for %q is taken", way, key)
			}
			stats := fmt.Sprintf(`{"kind":"NodeStatsSummary","apiVersion":"controlplane.antrea.io/v1beta2","metadata":{"name":%q}}`, key)
			if err := c.Post().Resource("nodestatssummaries").SetHeader("Content-Type", "application/json").Body([]byte(stats)).Do(t.Context()).Error(); err == nil {
				t.Errorf("%s: counters for %q are taken", way, key)
			}
		}
		raw, err := c.Get().Resource("groupassociations").Namespace(ownerNS).Name("x").DoRaw(t.Context())
		if err == nil {
			t.Errorf("%s: the groups of a Pod of the owner: %s", way, raw)
		}
		// A Group of one's own may select in all Namespaces; its members are listed in one's own.
		eventuallyNil(t, way+": the members of a Group that selects everything", func(ctx context.Context) error {
			raw, err := c.Get().Resource("groupmembers").Namespace(attackerNS).Name("everybody").DoRaw(ctx)
			if err == nil && strings.Contains(string(raw), ownerNS) {
				t.Errorf("%s: MEMBERS OF THE OWNER ARE TOLD: %s", way, tail(string(raw), 500))
				return nil
			}
			if !strings.Contains(string(raw), a.entity("mine")) {
				return fmt.Errorf("%w: %s", errOr(err), raw)
			}
			return nil
		})
	}
	must(t, a.people[mallory].Delete(t.Context(), everybody))
	for _, path := range []string{"/metrics", "/debug/pprof/", "/endpoint", "/apis/stats.antrea.io/v1alpha1/namespaces/ns-a/antreanetworkpolicystats", "/logs", "/configz"} {
		if code, answer, err := get(t, "https://"+direct+path, token); err == nil && code == http.StatusOK {
			t.Errorf("%s is answered: %s", path, tail(answer, 300))
		}
	}
}

func errOr(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// nameless asks without any credentials.
func (a *arena) nameless(t *testing.T, direct string) {
	for _, path := range []string{"/apis/controlplane.antrea.io/v1beta2/networkpolicies", "/apis/controlplane.antrea.io/v1beta2/networkpolicies?fieldSelector=nodeName%3Dcloud%2Fns-a%2Freal",
		"/apis/controlplane.antrea.io/v1beta2/addressgroups?watch=true", "/apis/stats.antrea.io/v1alpha1/namespaces/ns-a/antreanetworkpolicystats", "/metrics", "/debug/pprof/", "/endpoint", "/logs"} {
		for _, token := range []string{"", "made-up"} {
			code, answer, err := get(t, "https://"+direct+path, token)
			if err != nil || code != http.StatusUnauthorized && code != http.StatusForbidden && code != http.StatusNotFound {
				t.Errorf("%s with token %q: %d %v\n%s", path, token, code, err, tail(answer, 300))
			}
		}
	}
	// Headers with which kube-apiserver introduces callers mean nothing without its certificate.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+direct+"/apis/controlplane.antrea.io/v1beta2/networkpolicies", nil)
	must(t, err)
	r.Header.Set("X-Remote-User", "nephele-admin")
	r.Header.Set("X-Remote-Group", "system:masters")
	answer, err := anyone().Do(r)
	must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		t.Errorf("a user who says he is the administrator is answered: %d", answer.StatusCode)
	}
}

// largeReview is an AdmissionReview of some size with a policy of many rules.
func largeReview(size int) []byte {
	rule := `{"action":"Drop","from":[{"ipBlock":{"cidr":"10.0.0.0/8"}},{"externalEntitySelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b","c"]}]}}]}`
	n := size / (len(rule) + 1)
	return fmt.Appendf(
		nil,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"crd.antrea.io","version":"v1beta1","kind":"NetworkPolicy"},`+
			`"resource":{"group":"crd.antrea.io","version":"v1beta1","resource":"networkpolicies"},"operation":"CREATE","name":"p","namespace":"default","object":{"apiVersion":"crd.antrea.io/v1beta1",`+
			`"kind":"NetworkPolicy","metadata":{"namespace":"default","name":"p"},"spec":{"priority":1,"appliedTo":[{"podSelector":{}}],"ingress":[%s]}}}}`,
		strings.TrimSuffix(strings.Repeat(rule+",", n), ","),
	)
}

// policyWhile creates policies as the administrator until stop, and returns the longest time that
// one took.
func (a *arena) policyWhile(t *testing.T, stop <-chan struct{}) <-chan time.Duration {
	out := make(chan time.Duration, 1)
	go func() {
		longest := time.Duration(0)
		defer func() { out <- longest }()
		for n := 0; ; n++ {
			begin := time.Now()
			p := a.text(
				fmt.Sprintf(
					"{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: while-%d}, spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {no: body}}}], ingress: [{action: Drop}]}}",
					n,
				),
			)
			if err := client.NewDryRunClient(a.c.client).Create(t.Context(), p); err != nil {
				t.Errorf("A POLICY CANNOT BE CREATED MEANWHILE, after %s: %v", time.Since(begin).Round(time.Millisecond), err)
			}
			longest = max(longest, time.Since(begin))
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return out
}

// patience is how long a policy may take while somebody attacks: kube-apiserver waits for a webhook
// for five seconds.
const patience = 5 * time.Second

// manyReviews sends 40 reviews of 4 MB at the same time.
func (a *arena) manyReviews(t *testing.T, direct string) {
	m := memory{t, a.c.process.cmd.Process.Pid}
	m.reset()
	before := m.read("VmRSS")
	stop := make(chan struct{})
	longest := a.policyWhile(t, stop)
	review := largeReview(4_000_000)
	var wg sync.WaitGroup
	var answered atomic.Int32
	begin := time.Now()
	for range 40 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+direct+"/validate/annp", bytes.NewReader(review))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			answer, err := anyone().Do(r)
			if err != nil {
				return // cut off, which is as good
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	wg.Wait()
	close(stop)
	t.Logf("%d of 40 are answered after %s", answered.Load(), time.Since(begin).Round(time.Millisecond))
	if d := <-longest; d > patience {
		t.Errorf("A POLICY TOOK %s MEANWHILE", d)
	}
	m.grown(t, before, 300<<20)
}

// slowReviews begins 500 reviews and goes on with none of them.
func (a *arena) slowReviews(t *testing.T, direct string) {
	m := memory{t, a.c.process.cmd.Process.Pid}
	m.reset()
	before := m.read("VmRSS")
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range 500 {
		c, err := tls.Dial("tcp", direct, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			break // it takes no more of them, which is as good
		}
		conns = append(conns, c)
		_, _ = fmt.Fprintf(c, "POST /validate/annp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n{")
	}
	stop := make(chan struct{})
	longest := a.policyWhile(t, stop)
	time.AfterFunc(2*time.Second, func() { close(stop) })
	if d := <-longest; d > patience {
		t.Errorf("A POLICY TOOK %s MEANWHILE", d)
	}
	m.grown(t, before, 300<<20)
}
