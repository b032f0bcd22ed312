package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// as returns a client of the shared server with other credentials than the administrator's.
func as(t *testing.T, change func(*rest.Config)) *kubernetes.Clientset {
	t.Helper()
	config := rest.AnonymousClientConfig(server(t).RestConfig())
	change(config)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// certified returns credentials from a certificate for user, signed by the authority called signer.
func certified(t *testing.T, signer, user string) func(*rest.Config) {
	t.Helper()
	a, err := server(t).creds.store.Authority(signer)
	if err != nil {
		t.Fatal(err)
	}
	store, err := certs.Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Certificate(user, a, certs.Profile{CommonName: user, Client: true}); err != nil {
		t.Fatal(err)
	}
	return func(c *rest.Config) {
		c.CertFile, c.KeyFile = store.CertFile(user), store.KeyFile(user)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	strangers := map[string]func(*rest.Config){
		"anonymous":                     func(*rest.Config) {},
		"made-up token":                 func(c *rest.Config) { c.BearerToken = "token" },
		"certificate for another trust": certified(t, frontProxyAuthority, "system:admin"),
	}
	for name, credentials := range strangers {
		client := as(t, credentials)
		for _, path := range []string{"/api", "/apis", "/healthz", "/readyz", "/version", "/metrics", "/openapi/v2", "/api/v1/secrets"} {
			err := client.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).Error()
			if !apierrors.IsUnauthorized(err) {
				t.Errorf("%s: GET %s: error %v, want Unauthorized", name, path, err)
			}
		}
	}
}

// TestRenewedCertificatesAreTakenUp renews, in a running control plane, what its parts show each
// other.
func TestRenewedCertificatesAreTakenUp(t *testing.T) {
	cp := server(t)
	before := clientset(t)
	for _, name := range []string{apiServerCert, adminCert, frontProxyCert, etcdServerCert, etcdClientCert} {
		if err := os.Remove(cp.creds.store.CertFile(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cp.creds.ensure(); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cp.creds.store.CertFile(apiServerCert), cp.creds.store.KeyFile(apiServerCert))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "new serving certificate", func(ctx context.Context) error {
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(ctx, "tcp", cp.creds.address.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		if shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]; !bytes.Equal(shown.Raw, pair.Certificate[0]) {
			return fmt.Errorf("the server still shows the one with serial number %x", shown.SerialNumber)
		}
		return nil
	})
	for name, client := range map[string]*kubernetes.Clientset{"made before": before, "made after": clientset(t)} {
		if _, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("client %s: %v", name, err)
		}
	}
}

func TestEtcdAsksForACertificate(t *testing.T) {
	cp := server(t)
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(cp.creds.store.CertFile(etcdAuthority))
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(ca)
	for _, l := range cp.etcd.Clients {
		addr := l.Addr().String()
		if host, _, err := net.SplitHostPort(addr); err != nil || host != "127.0.0.1" {
			t.Errorf("etcd listens on %s (error %v)", addr, err)
		}
		// Whether it is gRPC or not, a connection begins with the settings of HTTP/2.
		served := func(name string) error {
			config := &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}
			if name != "" {
				pair, err := tls.LoadX509KeyPair(cp.creds.store.CertFile(name), cp.creds.store.KeyFile(name))
				if err != nil {
					t.Fatal(err)
				}
				config.Certificates = []tls.Certificate{pair}
			}
			dialer := &tls.Dialer{Config: config}
			conn, err := dialer.DialContext(t.Context(), "tcp", addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
				return err
			}
			_, err = io.ReadFull(conn, make([]byte, 9))
			return err
		}
		if err := served(""); err == nil {
			t.Errorf("etcd serves a client without a certificate at %s", addr)
		}
		if err := served(adminCert); err == nil {
			t.Errorf("etcd serves a client of the API server at %s", addr)
		}
		if err := served(etcdClientCert); err != nil {
			t.Errorf("the API server's own certificate at %s: %v", addr, err)
		}
	}
}

func TestRBACDecidesForCertificates(t *testing.T) {
	ns := newNamespace(t, "rbac")
	jane := as(t, certified(t, clusterAuthority, "jane"))
	list := func() error {
		_, err := jane.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Fatalf("without a role: error %v, want Forbidden", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	if _, err := clientset(t).RbacV1().RoleBindings(ns).Create(t.Context(), binding, create); err != nil {
		t.Fatal(err)
	}
	eventually(t, "with a role", func(context.Context) error { return list() })
	if _, err := jane.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("secrets, which the role leaves out: error %v, want Forbidden", err)
	}
}

func TestServiceAccounts(t *testing.T) {
	ns := newNamespace(t, "accounts")
	admin := clientset(t).CoreV1()
	eventually(t, "default service account", func(ctx context.Context) error {
		_, err := admin.ServiceAccounts(ns).Get(ctx, "default", get)
		return err
	})
	eventually(t, "root certificate", func(ctx context.Context) error {
		cm, err := admin.ConfigMaps(ns).Get(ctx, "kube-root-ca.crt", get)
		if err == nil && !strings.Contains(cm.Data["ca.crt"], "BEGIN CERTIFICATE") {
			return errors.New("no certificate in it")
		}
		return err
	})
	request, err := admin.ServiceAccounts(ns).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, create)
	if err != nil {
		t.Fatal(err)
	}
	checkAccount(t, ns, "requested token", request.Status.Token)

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "lasting", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	if _, err := admin.Secrets(ns).Create(t.Context(), secret, create); err != nil {
		t.Fatal(err)
	}
	var token string
	eventually(t, "token secret", func(ctx context.Context) error {
		s, err := admin.Secrets(ns).Get(ctx, "lasting", get)
		if err != nil {
			return err
		}
		token = string(s.Data[corev1.ServiceAccountTokenKey])
		if token == "" {
			return errors.New("no token in it")
		}
		return nil
	})
	checkAccount(t, ns, "token in a secret", token)
}

// checkAccount expects token to be the default account of namespace ns, and that to have no rights.
func checkAccount(t *testing.T, ns, what, token string) {
	t.Helper()
	client := as(t, func(c *rest.Config) { c.BearerToken = token })
	var review *authenticationv1.SelfSubjectReview
	// The server may see the secret a moment later than we do.
	eventually(t, what, func(ctx context.Context) (err error) {
		review, err = client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, create)
		return err
	})
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:"+ns+":default"; got != want {
		t.Errorf("%s: user %q, want %q", what, got, want)
	}
	if _, err := client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("%s: error %v, want Forbidden", what, err)
	}
}

// TestAggregatedServerLearnsTheCaller registers a server of its own and checks what an aggregated
// API server needs: that the call arrives, that it comes with the front proxy's certificate, and
// who is behind it.
func TestAggregatedServerLearnsTheCaller(t *testing.T) {
	cp := server(t)
	admin := clientset(t)
	published, err := admin.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", get)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(published.Data["client-ca-file"], "BEGIN CERTIFICATE") {
		t.Error("the certificate authority of clients is not published")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(published.Data["requestheader-client-ca-file"])) {
		t.Fatal("the certificate authority of the front proxy is not published")
	}
	var allowed []string
	if err := json.Unmarshal([]byte(published.Data["requestheader-allowed-names"]), &allowed); err != nil {
		t.Fatal(err)
	}

	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		fmt.Fprintf(w, "%v %s %s %s", len(allowed) == 1 && allowed[0] == name, r.URL.Path,
			r.Header.Get("X-Remote-User"), r.Header.Get("X-Remote-Group"))
	}))
	backend.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
	// The aggregator's probes break connections off, which is nothing to report.
	backend.Config.ErrorLog = log.New(io.Discard, "", 0)
	backend.StartTLS()
	defer backend.Close()
	port := int32(backend.Listener.Addr().(*net.TCPAddr).Port)

	ns := newNamespace(t, "aggregated")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "backend"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := admin.CoreV1().Services(ns).Create(t.Context(), service, create); err != nil {
		t.Fatal(err)
	}
	registry, err := aggregator.NewForConfig(cp.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	api := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.aggregated.nephele.example"},
		Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: ns, Name: "backend", Port: &port},
			Group:   "aggregated.nephele.example", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 100,
			InsecureSkipTLSVerify: true,
		},
	}
	if _, err := registry.ApiregistrationV1().APIServices().Create(t.Context(), api, create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registry.ApiregistrationV1().APIServices().Delete(context.Background(), api.Name, del); err != nil {
			t.Error(err)
		}
	})
	const path = "/apis/aggregated.nephele.example/v1/things"
	eventually(t, "call through the aggregator", func(ctx context.Context) error {
		got, err := admin.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return err
		}
		if want := "true " + path + " nephele-admin nephele:administrators"; string(got) != want {
			return fmt.Errorf("the backend saw %q, want %q", got, want)
		}
		return nil
	})
}
