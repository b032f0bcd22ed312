package apiserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// TestNodeCertificates: an agent gets a certificate of its own Node and of no other one, with the
// uid of the Node, that is for IPsec alone; nobody else gets one, whatever he may.
func TestNodeCertificates(t *testing.T) {
	h := newHotel(t)
	h.access = nodeAccess()
	h.restart(t)
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"other.u.nodes.nephele.io"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
	ask := func(token, node, request string) (analysis.NodeCertificate, error) {
		s := runtime.NewScheme()
		if err := analysis.AddToScheme(s); err != nil {
			t.Fatal(err)
		}
		cfg, gv := h.config(token, ""), analysis.GroupVersion()
		cfg.GroupVersion, cfg.NegotiatedSerializer = &gv, serializer.NewCodecFactory(s).WithoutConversion()
		c, err := rest.RESTClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		asked := &analysis.NodeCertificate{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: analysis.NodeCertificateSpec{Request: request}}
		asked.SetGroupVersionKind(gv.WithKind("NodeCertificate"))
		var out analysis.NodeCertificate
		return out, c.Post().Resource("nodecertificates").Body(asked).MaxRetries(0).Do(t.Context()).Into(&out)
	}
	for _, token := range []string{"agent@n2", "agent@n1,n2", "admin", "system:node:n2"} {
		if _, err := ask(token, "n1", request); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", token, err)
		}
	}
	if _, err := ask("agent@n9", "n9", request); !apierrors.IsNotFound(err) {
		t.Errorf("a Node that is not there: %v", err)
	}
	for _, text := range []string{"", "x", strings.Replace(request, "REQUEST", "", 2)} {
		if _, err := ask("agent@n1", "n1", text); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.request") {
			t.Errorf("%q: %v", text, err)
		}
	}
	given, err := ask("agent@n1", "n1", request)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(given.Status.Certificate))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(given.Status.Authorities))
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("the certificate of a Node is one of a host, too")
	}
	if len(cert.DNSNames) != 1 || cert.DNSNames[0] != "n1.uid1.nodes.nephele.io" || len(cert.URIs) > 0 || cert.IsCA || !key.PublicKey.Equal(cert.PublicKey) {
		t.Errorf("%v %v %v", cert.DNSNames, cert.URIs, cert.IsCA)
	}
	// It opens no door of hosts.
	if _, _, err := h.hosts.Desk.Identify(t.Context(), cert); err == nil {
		t.Error("a Node is let in as a host")
	}
}
