package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// trap is a server to which nobody may ever connect, on every address of this machine. It remembers
// who did, and what he said first.
type trap struct {
	port string
	mu   sync.Mutex
	said []string
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	x := &trap{port: port}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				first := make([]byte, 65536)
				n := 0
				// Header and body may come one after the other.
				for wait := 2 * time.Second; n < len(first); wait = 200 * time.Millisecond {
					_ = conn.SetReadDeadline(time.Now().Add(wait))
					more, err := conn.Read(first[n:])
					if n += more; err != nil {
						break
					}
				}
				x.mu.Lock()
				x.said = append(x.said, string(first[:n]))
				x.mu.Unlock()
				_, _ = conn.Write([]byte("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return x
}

// heard is what was said so far.
func (x *trap) heard() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.said...)
}

// untouched fails the test if anybody has connected since it was last asked.
func (x *trap) untouched(t *testing.T, what string) {
	t.Helper()
	x.mu.Lock()
	said := x.said
	x.said = nil
	x.mu.Unlock()
	if len(said) > 0 {
		t.Errorf("%s: THE CONTROLLER HAS CONNECTED %d TIMES. It began with:\n%s", what, len(said), tail(said[0], 1500))
	}
}

// attackerAccount is an account of ns-b with the attacker's own keys.
func (a *arena) attackerAccount(name, endpoint string) *unstructured.Unstructured {
	a.t.Helper()
	o := a.text(attackAccount)
	o.SetName(name)
	set(o, endpoint, "spec", "awsConfig", "endpoint")
	return o
}

// notGranted waits until accounts say that they lack the grant that a word names, or one of
// several, with | between them.
func (a *arena) notGranted(t *testing.T, word string, accounts ...*unstructured.Unstructured) {
	t.Helper()
	err := soon(t, func(ctx context.Context) error {
		var all []error
		for _, o := range accounts {
			if err := a.lacks(ctx, o, word); err != nil {
				all = append(all, fmt.Errorf("account %s: %w", o.GetName(), err))
			}
		}
		return errors.Join(all...)
	})
	if err != nil {
		t.Error(err)
	}
}

// lacks returns nil if an account says that it lacks the grant that a word names.
func (a *arena) lacks(ctx context.Context, account *unstructured.Unstructured, word string) error {
	var cpa cloudv1.CloudProviderAccount
	if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(account), &cpa); err != nil {
		return err
	}
	for _, kind := range []string{cloudv1.ConditionReady, cloudv1.ConditionCredentialsValid} {
		c := meta.FindStatusCondition(cpa.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != cpa.Generation {
			return errors.New("it was not looked at")
		}
		named := slices.ContainsFunc(strings.Split(word, "|"), func(w string) bool { return strings.Contains(c.Message, w) })
		if c.Status != metav1.ConditionFalse || c.Reason != reasonNotGranted || !named {
			return fmt.Errorf("want %s=False, reason %s and a message with %s; it is %s for the reason %s: %s", kind, reasonNotGranted, word, c.Status, c.Reason, c.Message)
		}
	}
	return nil
}

// endpoints: an account cannot make the controller connect to an endpoint that the operator has not
// allowed, however it is written, whatever user sends it there, and whether the account names it at
// once, later, or as an event queue.
func (a *arena) endpoints(t *testing.T, tr *trap, redirects *redirector) {
	a.within(t)
	who, simulator := a.people[mallory], strings.TrimPrefix(a.server.URL(), "http://")
	const flag = "--allowed-endpoints"
	t.Run("written in many ways", func(t *testing.T) {
		a.within(t)
		hostname, err := os.Hostname()
		must(t, err)
		_, simPort, err := net.SplitHostPort(simulator)
		must(t, err)
		var made []*unstructured.Unstructured
		for i, endpoint := range []string{
			"http://127.0.0.1:PORT", "http://localhost:PORT", "http://LOCALHOST:PORT", "http://localhost.:PORT", "http://127.1:PORT", "http://2130706433:PORT",
			"http://0x7f000001:PORT", "http://0177.0.0.1:PORT", "http://0.0.0.0:PORT", "http://[::1]:PORT", "http://[::]:PORT", "http://[::ffff:127.0.0.1]:PORT",
			"http://127.0.0.2:PORT", "http://" + hostname + ":PORT", "https://127.0.0.1:PORT", "HTTP://127.0.0.1:PORT", "http://127.0.0.1:PORT/127.0.0.1:" + simPort,
			"http://" + simulator + "@127.0.0.1:PORT", "http://127.0.0.1:" + simPort + ":PORT", "http://127.0.0.1:PORT?" + simulator, "http://127.0.0.1:PORT#@" + simulator,
			"http://169.254.169.254", "http://[fd00:ec2::254]", "http://169.254.170.2", "http://2852039166",
		} {
			o := a.attackerAccount(fmt.Sprintf("e%d", i), strings.ReplaceAll(endpoint, "PORT", tr.port))
			if err := who.Create(t.Context(), o.DeepCopy()); err != nil {
				t.Logf("%s is refused: %v", endpoint, err)
				continue
			}
			made = append(made, o)
		}
		if len(made) < 10 {
			t.Errorf("only %d endpoints are taken: this tests nothing", len(made))
		}
		a.notGranted(t, flag, made...)
		tr.untouched(t, "endpoints")
		a.unharmed(t)
		a.restore()
	})
	t.Run("named later", func(t *testing.T) {
		a.within(t)
		own := a.objects(attackerObjects)[1]
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"awsConfig": {"endpoint": "http://127.0.0.1:%s"}}}`, tr.port))
		must(t, who.Patch(t.Context(), own.DeepCopy(), patch))
		a.notGranted(t, flag, own)
		tr.untouched(t, "changed endpoint")
		a.unharmed(t)
		a.restore()
	})
	t.Run("an event queue", func(t *testing.T) {
		a.within(t)
		o := a.attackerAccount("queue", a.server.URL())
		set(o, []any{map[string]any{"url": "http://127.0.0.1:" + tr.port + "/222222222222/events"}}, "spec", "awsConfig", "eventQueue")
		must(t, who.Create(t.Context(), o))
		if err := soon(t, func(ctx context.Context) error { return a.saysInB(ctx, flag) }); err != nil {
			t.Error(err)
		}
		tr.untouched(t, "event queue")
		a.unharmed(t)
		a.restore()
	})
	t.Run("a redirect", func(t *testing.T) {
		a.within(t)
		for _, code := range []int{301, 302, 303, 307, 308} {
			redirects.set(code)
			o := a.attackerAccount(fmt.Sprintf("r%d", code), redirects.url)
			asked := redirects.asked()
			must(t, who.Create(t.Context(), o))
			eventuallyNil(t, "the redirect is met", func(ctx context.Context) error {
				var cpa cloudv1.CloudProviderAccount
				if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(o), &cpa); err != nil {
					return err
				}
				if c := meta.FindStatusCondition(cpa.Status.Conditions, cloudv1.ConditionReady); c == nil || c.Status != metav1.ConditionFalse || redirects.asked() == asked {
					return fmt.Errorf("%d requests, %+v", redirects.asked()-asked, c)
				}
				return nil
			})
			tr.untouched(t, fmt.Sprint("redirect ", code))
			must(t, a.c.client.Delete(t.Context(), o))
		}
		a.unharmed(t)
		a.restore()
	})
}

// redirector is an endpoint that sends everybody to the trap.
type redirector struct {
	url  string
	mu   sync.Mutex
	code int
	n    int
}

func newRedirector(t *testing.T, to *trap) *redirector {
	t.Helper()
	r := &redirector{code: 307}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r.url = "http://" + l.Addr().String()
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.n++
		code := r.code
		r.mu.Unlock()
		w.Header().Set("Location", "http://127.0.0.1:"+to.port+"/latest/meta-data/")
		w.WriteHeader(code)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return r
}

func (r *redirector) set(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
}

func (r *redirector) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// roleSecret makes the attacker's Secret one with nothing but a role, so that only the controller
// itself could assume it.
func (a *arena) roleSecret(t *testing.T, namespace, name, extra string) {
	t.Helper()
	a.ensure(a.text(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {namespace: %s, name: %s}, stringData: {credentials: '{"roleArn": "arn:aws:iam::%s:role/nephele"%s}'}}`,
		namespace, name, ownerCloud, extra)))
}

// identity: the identity of the controller's own process is lent to nobody but accounts of the
// Namespaces that the operator names, and is never shown to an endpoint that an account names.
func (a *arena) identity(t *testing.T) {
	a.within(t)
	who := a.people[mallory]
	// One is as good as the other: an endpoint is refused with this identity in every Namespace.
	const flag = "--ambient-identity-namespaces|endpoint"
	told := 0
	byController := func() (n int) {
		for _, c := range a.server.Journal().Calls(0) {
			if c.Account == controllerCloud {
				n++
			}
		}
		n, told = n-told, n
		return n
	}
	byController()
	t.Run("as a deputy", func(t *testing.T) {
		a.within(t)
		// The role of the owner trusts the controller's account, as roles for a controller do.
		a.roleSecret(t, attackerNS, "role", "")
		o := a.attackerAccount("deputy", a.server.URL())
		set(o, "role", "spec", "awsConfig", "secretRef", "name")
		must(t, who.Create(t.Context(), o))
		must(t, client.IgnoreAlreadyExists(who.Create(t.Context(), a.text(strings.ReplaceAll(attackSelector, "accountName: attack", "accountName: deputy")))))
		a.notGranted(t, flag, o)
		if n := byController(); n > 0 {
			t.Errorf("THE CONTROLLER'S IDENTITY HAS MADE %d CALLS FOR THE ATTACKER", n)
		}
		a.unharmed(t)
		if vms := a.leaked(); len(vms) > 0 {
			t.Errorf("THE OWNER'S VMS ARE IMPORTED: %v", vms)
		}
		a.restore()
	})
	t.Run("her Secret changes later", func(t *testing.T) {
		a.within(t)
		own := a.objects(attackerObjects)
		text := fmt.Sprintf(`{"stringData": {"credentials": "{\"roleArn\": \"arn:aws:iam::%s:role/nephele\"}"}}`, ownerCloud)
		must(t, who.Patch(t.Context(), own[0].DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))))
		a.notGranted(t, flag, own[1])
		if n := byController(); n > 0 {
			t.Errorf("THE CONTROLLER'S IDENTITY HAS MADE %d CALLS FOR THE ATTACKER", n)
		}
		a.unharmed(t)
		a.restore()
	})
	t.Run("with the grant, but with an endpoint", func(t *testing.T) {
		a.within(t)
		a.create(a.text("{apiVersion: v1, kind: Namespace, metadata: {name: ns-ops}}"))
		a.roleSecret(t, "ns-ops", "role", "")
		o := a.attackerAccount("deputy", a.server.URL())
		o.SetNamespace("ns-ops")
		set(o, map[string]any{"namespace": "ns-ops", "name": "role", "key": "credentials"}, "spec", "awsConfig", "secretRef")
		a.create(o)
		a.notGranted(t, "endpoint", o)
		if n := byController(); n > 0 {
			t.Errorf("THE CONTROLLER'S IDENTITY HAS MADE %d CALLS TO AN ENDPOINT OF AN ACCOUNT", n)
		}
		must(t, a.c.client.Delete(t.Context(), o))
	})
}

// webIdentity runs the process as EKS does, with a token in a file. An account makes it show the
// token to the trap, or not.
func (a *arena) webIdentity(t *testing.T, tr *trap) {
	a.within(t)
	const token = "THE-TOKEN-OF-THE-CONTROLLER"
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(token), 0o600))
	proxy := newTrap(t)
	before := maps.Clone(a.c.env)
	maps.Copy(a.c.env, map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_WEB_IDENTITY_TOKEN_FILE": file,
		"AWS_ROLE_ARN": "arn:aws:iam::" + controllerCloud + ":role/controller", "HTTPS_PROXY": "http://127.0.0.1:" + proxy.port})
	t.Cleanup(func() { a.c.env = before }) // for the process that the next part starts
	a.restart()
	a.roleSecret(t, attackerNS, "role", "")
	who := a.people[mallory]
	for name, endpoint := range map[string]string{"shown": "http://127.0.0.1:" + tr.port, "elsewhere": ""} {
		o := a.attackerAccount(name, endpoint)
		set(o, "role", "spec", "awsConfig", "secretRef", "name")
		if endpoint == "" {
			unstructured.RemoveNestedField(o.Object, "spec", "awsConfig", "endpoint")
		}
		must(t, who.Create(t.Context(), o))
		a.notGranted(t, "--ambient-identity-namespaces|endpoint", o)
	}
	for _, said := range tr.heard() {
		if strings.Contains(said, token) {
			t.Errorf("THE TRAP GOT THE TOKEN:\n%s", said)
		}
	}
	tr.untouched(t, "ambient identity")
	proxy.untouched(t, "ambient identity without a grant")
	// With the grant, and without an endpoint, the token goes to the cloud's own STS and nowhere
	// else; here, as far as the proxy.
	a.roleSecret(t, "ns-ops", "role", "")
	o := a.attackerAccount("granted", "")
	unstructured.RemoveNestedField(o.Object, "spec", "awsConfig", "endpoint")
	o.SetNamespace("ns-ops")
	set(o, map[string]any{"namespace": "ns-ops", "name": "role", "key": "credentials"}, "spec", "awsConfig", "secretRef")
	a.create(o)
	eventuallyNil(t, "with the grant STS is asked", func(context.Context) error {
		for _, said := range proxy.heard() {
			if strings.HasPrefix(said, "CONNECT sts.") && strings.Contains(said, ".amazonaws.com:443") {
				return nil
			}
		}
		return fmt.Errorf("the proxy heard %q", proxy.heard())
	})
	var cpa cloudv1.CloudProviderAccount
	must(t, a.c.client.Get(t.Context(), client.ObjectKeyFromObject(o), &cpa))
	if c := meta.FindStatusCondition(cpa.Status.Conditions, cloudv1.ConditionReady); c != nil && c.Reason == reasonNotGranted {
		t.Errorf("refused with the grant: %+v", c)
	}
	// A tenant that chooses the external id could use another one's.
	a.roleSecret(t, "ns-ops", "chosen", `, "externalId": "nephele-chosen"`)
	o = a.attackerAccount("chosen", "")
	unstructured.RemoveNestedField(o.Object, "spec", "awsConfig", "endpoint")
	o.SetNamespace("ns-ops")
	set(o, map[string]any{"namespace": "ns-ops", "name": "chosen", "key": "credentials"}, "spec", "awsConfig", "secretRef")
	a.create(o)
	eventuallyNil(t, "an external id of one's own is refused", func(ctx context.Context) error {
		var cpa cloudv1.CloudProviderAccount
		if err := a.c.client.Get(ctx, client.ObjectKeyFromObject(o), &cpa); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(
			cpa.Status.Conditions,
			cloudv1.ConditionReady,
		); c == nil || c.Status != metav1.ConditionFalse ||
			!strings.Contains(c.Message, "externalId") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	a.unharmed(t)
	for _, name := range []string{"granted", "chosen"} {
		must(t, a.c.client.Delete(t.Context(), &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-ops", Name: name}}))
	}
	a.restore()
}
