package agentcmd

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// TestRenewCertificate renews the certificate of a host when two thirds of its life are over, with
// a new key, and leaves the file alone before that and when the server refuses.
func TestRenewCertificate(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(s).Build()
	desk, err := enroll.OpenDesk(t.Context(), enroll.DeskOptions{Client: c, Live: c, Namespace: "kube-system", Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	web, now := credential.Host{Namespace: "vms", Name: "web"}, time.Now()
	node := &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: "1"}}
	for _, o := range []client.Object{node, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "antrea-ca"},
		Data: map[string]string{enroll.AuthorityKey: string(desk.Bundle())}}} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	invitation, _, err := enroll.Invite(t.Context(), c, web, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := credential.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	papers, err := desk.Redeem(t.Context(), credential.Asked{Host: web.String(), Secret: invitation.Secret, Request: string(key.Request)}, netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, err := desk.Identify(r.Context(), r.TLS.PeerCertificates[0])
		var asked credential.Asked
		if err == nil {
			err = json.NewDecoder(r.Body).Decode(&asked)
		}
		if err != nil || r.URL.Path != credential.RenewPath {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		next, err := desk.Renew(r.Context(), id, []byte(asked.Request))
		if err == nil {
			err = json.NewEncoder(w).Encode(next)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	cert, private, err := desk.Serve()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()

	path := filepath.Join(t.TempDir(), "kubeconfig")
	text, err := credential.Kubeconfig(web, &clientcmdapi.Cluster{Server: server.URL, TLSServerName: credential.ServerName, CertificateAuthorityData: []byte(papers.Authority)},
		&clientcmdapi.AuthInfo{ClientCertificateData: []byte(papers.Certificate), ClientKeyData: key.Private})
	if err != nil {
		t.Fatal(err)
	}
	if err := credential.WritePrivate(path, text); err != nil {
		t.Fatal(err)
	}
	r := renewer{path: path}
	if renewed, err := r.renew(t.Context(), now.Add(4*24*time.Hour)); renewed || err != nil {
		t.Errorf("too early: %t %v", renewed, err)
	}
	late := now.Add(5 * 24 * time.Hour)
	if renewed, err := r.renew(t.Context(), late); !renewed || err != nil {
		t.Errorf("in time: %t %v", renewed, err)
	}
	after, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	user := after.AuthInfos["vms-web"]
	if held, ok := credential.ParseCertificate(user.ClientCertificateData); !ok || held.Host != web || string(user.ClientCertificateData) == papers.Certificate || string(user.ClientKeyData) == string(key.Private) {
		t.Errorf("%+v", held)
	}
	if _, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData); err != nil {
		t.Error(err)
	}

	if err := c.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if renewed, err := r.renew(t.Context(), late); renewed || err == nil {
		t.Errorf("of a host that is gone: %t %v", renewed, err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(before) {
		t.Errorf("a refusal changes the file: %v", err)
	}
}
