package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	shopPolicies  = "/api/k8s/apis/crd.antrea.io/v1beta1/namespaces/shop/networkpolicies"
	otherPolicies = "/api/k8s/apis/crd.antrea.io/v1beta1/namespaces/default/networkpolicies"
)

// browser is a page of a console.
type browser struct {
	t      *testing.T
	at     string
	client *http.Client
	csrf   string
}

func newBrowser(t *testing.T, at string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the console has made its certificate itself
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: t, at: at, client: &http.Client{Transport: transport, Jar: jar, Timeout: time.Minute}}
}

// ask returns the answer to a request of our page.
func (b *browser) ask(method, path, body string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.at+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Origin", b.at)
	req.Header.Set("X-Nephele-Csrf", b.csrf)
	req.Header.Set("Content-Type", "application/json")
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	// A login tells the page its proof: in the address that it leads to, or in its answer.
	if proof, ok := strings.CutPrefix(res.Request.URL.Fragment, "session="); ok {
		b.csrf = proof
	}
	var told struct{ CSRF string }
	if path == "/api/login" && json.Unmarshal(raw, &told) == nil && told.CSRF != "" {
		b.csrf = told.CSRF
	}
	return res.StatusCode, string(raw)
}

// want asks, and wants an answer with this code and this text.
func (b *browser) want(code int, text, method, path, body string) {
	b.t.Helper()
	if got, answer := b.ask(method, path, body); got != code || !strings.Contains(answer, text) {
		b.t.Errorf("%s %s: %d %s, want %d and %q", method, path, got, answer, code, text)
	}
}

// begin reads the session.
func (b *browser) begin(user string) {
	b.t.Helper()
	code, answer := b.ask("GET", "/api/session", "")
	var s struct {
		User struct {
			Username string `json:"username"`
		} `json:"user"`
	}
	if err := json.Unmarshal([]byte(answer), &s); err != nil || code != http.StatusOK || s.User.Username != user {
		b.t.Fatalf("session: %d %s, want %s", code, answer, user)
	}
}

// first returns the kind of the first event on a topic, and its data.
func (b *browser) first(query string) (kind, data string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", b.at+"/api/stream?csrf="+b.csrf+"&"+query, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if k, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = k
		}
		if d, ok := strings.CutPrefix(lines.Text(), "data: "); ok && kind != "ping" {
			return kind, d
		}
	}
	b.t.Fatalf("%s: the stream has ended: %v", query, lines.Err())
	return "", ""
}

func policyOf(name string) string {
	return fmt.Sprintf(`{"apiVersion":"crd.antrea.io/v1beta1","kind":"NetworkPolicy","metadata":{"name":%q},
		"spec":{"priority":5,"tier":"application","appliedTo":[{"podSelector":{}}],"ingress":[{"action":"Drop","from":[{"ipBlock":{"cidr":"203.0.113.0/24"}}]}]}}`, name)
}

// consoleFor starts "nephele console" for all who may log in, beside a cluster. It is given the
// administrator's kubeconfig, which no caller may profit from.
func consoleFor(t *testing.T, c *cluster, args ...string) string {
	t.Helper()
	at := freeAddress(t)
	out := &safeBuffer{}
	cmd := exec.Command(binary, append([]string{"console", "--kubeconfig", filepath.Join(c.dir, "kubeconfig"), "--url", "https://" + at, "--listen", at}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		spent(t.Name(), cmd.ProcessState, true)
		ended <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the console ended: %v\n%s", err, out)
			}
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Errorf("the console does not end:\n%s", out)
		}
	})
	eventually(t, "the console answers", func(context.Context) (bool, string) {
		return strings.Contains(out.String(), "The console answers"), out.String()
	})
	return "https://" + at
}

// TestConsole: the link of "up" leads to a session as its administrator; in a console for all, each
// sees and does what the cluster lets him, and nobody what the console could.
func TestConsole(t *testing.T) {
	t.Parallel()
	c := pooledCluster(t)
	link := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/open\?code=\S+`).FindStringSubmatch(c.process.output.String())
	if link == nil {
		t.Fatalf("there is no link in\n%s", c.process.output)
	}
	own := newBrowser(t, link[1])
	own.want(http.StatusUnauthorized, `"login"`, "GET", "/api/session", "")
	own.want(http.StatusOK, "<html", "GET", strings.TrimPrefix(link[0], link[1])+"&to=/map", "")
	own.begin("nephele-admin")
	own.want(http.StatusForbidden, "", "GET", strings.TrimPrefix(link[0], link[1]), "") // a second time
	own.want(http.StatusOK, `"TierList"`, "GET", "/api/k8s/apis/crd.antrea.io/v1beta1/tiers", "")
	own.want(http.StatusForbidden, "does not pass on", "GET", "/api/k8s/api/v1/secrets", "") // though the administrator may
	own.want(http.StatusCreated, `"dry"`, "POST", otherPolicies+"?dryRun=All", policyOf("dry"))
	own.want(http.StatusForbidden, "--allow-edit", "POST", otherPolicies, policyOf("real"))
	own.want(http.StatusNotFound, "", "GET", otherPolicies+"/dry", "")
	eventually(t, "the tiers that the controller makes when it starts", func(context.Context) (bool, string) {
		kind, data := own.first("watch=tiers")
		return kind == "snapshot" && strings.Contains(data, `"name":"application"`), kind + " " + data
	})

	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	tokens := map[string]string{}
	for _, name := range []string{"auditor", "author", "stranger"} {
		must(c.client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
		r, err := kube.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name, tokenRequest(), metav1.CreateOptions{})
		must(err)
		tokens[name] = r.Status.Token
	}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	is := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}}
	}
	must(c.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "auditor"}, RoleRef: role("nephele-auditor"), Subjects: is("auditor")}))
	for _, r := range []string{"nephele-policy-author", "view"} {
		must(c.client.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: r}, RoleRef: role(r), Subjects: is("author")}))
	}
	at := consoleFor(t, c, "--allow-edit")
	people := map[string]*browser{}
	for name, token := range tokens {
		b := newBrowser(t, at)
		b.want(http.StatusUnauthorized, `"token":true`, "GET", "/api/session", "")
		b.want(http.StatusUnauthorized, "", "POST", "/api/login", `{"token":"`+token+`x"}`)
		b.want(http.StatusOK, `"csrf"`, "POST", "/api/login", `{"token":"`+token+`"}`)
		b.begin("system:serviceaccount:default:" + name)
		people[name] = b
	}
	// Roles are aggregated by a controller, which takes its time.
	eventually(t, "the roles are there", func(context.Context) (bool, string) {
		a, text := people["author"].ask("POST", shopPolicies+"?dryRun=All", policyOf("web"))
		b, more := people["auditor"].ask("GET", shopPolicies, "")
		return a == http.StatusCreated && b == http.StatusOK, text + more
	})
	people["author"].want(http.StatusCreated, `"web"`, "POST", shopPolicies, policyOf("web"))
	people["author"].want(http.StatusForbidden, "author", "POST", otherPolicies, policyOf("web"))
	people["author"].want(http.StatusForbidden, "author", "GET", "/api/k8s/api/v1/nodes", "")
	people["auditor"].want(http.StatusOK, `"web"`, "GET", shopPolicies+"/web", "")
	people["auditor"].want(http.StatusForbidden, "auditor", "DELETE", shopPolicies+"/web", "")
	people["auditor"].want(http.StatusForbidden, "auditor", "POST", shopPolicies+"?dryRun=All", policyOf("more"))
	people["stranger"].want(http.StatusForbidden, "stranger", "GET", shopPolicies, "")
	for _, s := range []struct{ who, query, kind, text string }{
		{"author", "watch=annp&namespace=shop", "snapshot", `"name":"web"`},
		{"author", "watch=annp", "refused", "author"},
		{"auditor", "watch=annp", "snapshot", `"name":"web"`},
		{"stranger", "watch=annp&namespace=shop", "refused", "stranger"},
	} {
		if kind, data := people[s.who].first(s.query); kind != s.kind || !strings.Contains(data, s.text) {
			t.Errorf("%s sees of %s: %s %s", s.who, s.query, kind, data)
		}
	}
	people["author"].want(http.StatusOK, "", "DELETE", shopPolicies+"/web", "")
}
