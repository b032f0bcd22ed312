package apiserver_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// cluster stands for kube-apiserver: it has the ConfigMap that says how callers are recognized,
// knows the token "good" of the user tokenuser, and lets tokenuser, certuser and proxyuser read
// policies.
type cluster struct {
	dir    *certs.Store
	config corev1.ConfigMap
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := certs.Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{dir: dir}
	bundle := map[string]string{}
	for name, profile := range map[string]certs.Profile{
		"client-ca":      {CommonName: "certuser", Organizations: []string{"group"}, Client: true},
		"front-proxy-ca": {CommonName: "front-proxy", Client: true},
		"foreign-ca":     {CommonName: "certuser", Client: true},
	} {
		a, err := dir.Authority(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Certificate("of-"+name, a, profile); err != nil {
			t.Fatal(err)
		}
		bundle[name] = string(a.CertPEM())
	}
	c.config = corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication", ResourceVersion: "1"},
		Data: map[string]string{
			"client-ca-file": bundle["client-ca"], "requestheader-client-ca-file": bundle["front-proxy-ca"],
			"requestheader-allowed-names": `["front-proxy"]`, "requestheader-username-headers": `["X-Remote-User"]`,
			"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
			"requestheader-uid-headers": `["X-Remote-Uid"]`,
		},
	}
	return c
}

// client starts the cluster and returns a client of it.
func (c *cluster) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, &c.config)
	})
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps", func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "":
			answer(w, http.StatusUnprocessableEntity, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		case q.Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			answer(w, http.StatusOK, &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.ConfigMap{c.config}})
		}
	})
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, req *http.Request) {
		var r authenticationv1.TokenReview
		if err := json.NewDecoder(req.Body).Decode(&r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if user := map[string]string{"good": "tokenuser", "agent": "agent"}[r.Spec.Token]; user != "" {
			r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: user}}
		}
		answer(w, http.StatusCreated, &r)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, req *http.Request) {
		var r authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		known := map[string]bool{"tokenuser": true, "certuser": true, "proxyuser": true}
		x := r.Spec.ResourceAttributes
		r.Status.Allowed = known[r.Spec.User] && x != nil && x.Group == "controlplane.antrea.io" &&
			(x.Resource == "networkpolicies" && x.Verb == "list" || x.Resource == "enforcers" && x.Verb == "enforce" && x.Name == "")
		answer(w, http.StatusCreated, &r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	// A client that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(object)
}

func TestDelegatedAccess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	access, err := apiserver.Delegated(t.Context(), c.client(t))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), access: &access}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	call := func(cert, token, remoteUser, path string) error {
		cfg := w.config(token, "")
		if cert != "" {
			cfg.CertFile, cfg.KeyFile = c.dir.CertFile("of-"+cert), c.dir.KeyFile("of-"+cert)
		}
		client, err := rest.RESTClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := client.Get().AbsPath(path)
		if remoteUser != "" {
			r = r.SetHeader("X-Remote-User", remoteUser)
		}
		if remoteUser == "aggregator" {
			r = r.SetHeader("X-Remote-Group", "system:masters")
		}
		return r.Do(context.Background()).Error()
	}
	eventually(t, "ready", func() error { return call("", "", "", "/readyz") })
	const policies, groups = "/apis/controlplane.antrea.io/v1beta2/networkpolicies", "/apis/controlplane.antrea.io/v1beta2/addressgroups"
	for name, tt := range map[string]struct {
		cert, token, remoteUser, path string
		want                          func(error) bool
	}{
		"token":                           {"", "good", "", policies, nil},
		"token, other resource":           {"", "good", "", groups, apierrors.IsForbidden},
		"bad token":                       {"", "bad", "", policies, apierrors.IsUnauthorized},
		"client certificate":              {"client-ca", "", "", policies, nil},
		"foreign certificate":             {"foreign-ca", "", "", policies, apierrors.IsUnauthorized},
		"forwarded":                       {"front-proxy-ca", "", "proxyuser", policies, nil},
		"forwarded stranger":              {"front-proxy-ca", "", "stranger", policies, apierrors.IsForbidden},
		"forwarded, may do everything":    {"front-proxy-ca", "", "aggregator", groups, nil},
		"the same without the proxy":      {"", "", "aggregator", groups, apierrors.IsForbidden},
		"the same, other certificates":    {"client-ca", "", "aggregator", groups, apierrors.IsForbidden},
		"headers without the proxy":       {"", "", "proxyuser", policies, apierrors.IsForbidden},
		"headers with other certificates": {"client-ca", "", "stranger", policies, nil},
		"anonymous":                       {"", "", "", policies, apierrors.IsForbidden},
		"anonymous, health":               {"", "", "", "/readyz", nil},
		"anonymous, metrics":              {"", "", "", "/metrics", apierrors.IsForbidden},
	} {
		err := call(tt.cert, tt.token, tt.remoteUser, tt.path)
		if (tt.want == nil && err != nil) || (tt.want != nil && !tt.want(err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A certificate that is near its end is replaced while the server runs, and signed by the same
// authority.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	clk := newClock(time.Now().Add(-300 * 24 * time.Hour))
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), clock: clk}
	w.start(t, "127.0.0.1:0")
	expiry := func() time.Time {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", w.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].NotAfter
	}
	first := expiry()
	eventually(t, "a new certificate is served", func() error {
		// Not beyond the present: the client's clock, by which the new one must be valid, stands
		// still meanwhile.
		if step := 5 * 24 * time.Hour; clk.Now().Add(step).Before(time.Now()) {
			clk.Step(step)
		}
		if now := expiry(); !now.After(first) {
			return os.ErrNotExist
		}
		return nil
	})
	if until := first.Sub(clk.Now()); until < 0 {
		t.Errorf("renewed %v after the end", -until)
	}
	if err := w.client(t, "agent", "").Get().AbsPath("/livez").Do(t.Context()).Error(); err != nil {
		t.Errorf("with the former bundle: %v", err)
	}
}
