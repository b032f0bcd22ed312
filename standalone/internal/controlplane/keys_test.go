package controlplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/internal/platform/certs"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// rotateAll makes another key the current one of every list, and returns what the former ones are.
func rotateAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	keys, err := OpenKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	former := map[string]string{}
	for name, next := range map[string]func(keyring.Ring, keyring.Key, time.Time) (keyring.Ring, error){
		ClusterAuthority: certs.NextAuthorities, FrontProxyAuthority: certs.NextAuthorities, EtcdAuthority: certs.NextAuthorities, WebhookAuthority: certs.NextAuthorities,
		ServiceAccountKey: certs.NextSigning,
		SecretsKeys:       func(r keyring.Ring, made keyring.Key, _ time.Time) (keyring.Ring, error) { return r.Rotated(made) },
	} {
		err := keys.Change(name, func(r keyring.Ring) (keyring.Ring, error) {
			former[name] = r[0].ID
			made, err := KindOf(name).Make(rand.Reader, time.Now())
			if err != nil {
				return nil, err
			}
			return next(r, made, time.Now())
		})
		if err != nil {
			t.Fatal(name, err)
		}
		ring, err := keys.Read(name)
		if err != nil || len(ring) != 2 || ring[1].ID != former[name] || time.Since(ring[0].Since) > time.Hour {
			t.Fatal(name, ring, err)
		}
	}
	return former
}

// TestKeysRotate: with other keys everywhere, copies of the kubeconfig and tokens from before go on
// working, and every Secret is encrypted by the new key, after which the former one is gone.
func TestKeysRotate(t *testing.T) {
	dir := t.TempDir()
	cp, client, stop := begin(t, dir)
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), someSecret("kept"), create); err != nil {
		t.Fatal(err)
	}
	week := int64(7 * 24 * 3600)
	var token string
	eventually(t, "a token", func(ctx context.Context) error {
		r, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &week}}, create)
		if err == nil {
			token = r.Status.Token
		}
		return err
	})
	keys, err := OpenKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Change(ClusterAuthority, func(r keyring.Ring) (keyring.Ring, error) { return r, nil }); err == nil || !strings.Contains(err.Error(), "stop that process") {
		t.Errorf("keys were changed below a process that runs: %v", err)
	}
	copied, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	former := rotateAll(t, dir)
	cp, client, stop = begin(t, dir)
	readable(t, client, "kept")
	copied.Host = cp.URL()
	for what, config := range map[string]*rest.Config{
		"a copy of the former kubeconfig": copied,
		"a token from before":             {Host: cp.URL(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: copied.CAData}},
	} {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		who, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, create)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		t.Logf("%s is that of %s", what, who.Status.UserInfo.Username)
	}
	now, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil || bytes.Equal(now.CertData, copied.CertData) || strings.Count(string(now.CAData), "BEGIN") != 2 {
		t.Errorf("the kubeconfig is that of before: %v", err)
	}
	for key, raw := range stored(t, cp) {
		if !bytes.HasPrefix(raw, []byte("k8s:enc:secretbox:v1:2")) { // with the time in its name
			t.Errorf("%s holds %.60q", key, raw)
		}
	}
	ring, err := keys.Read(SecretsKeys)
	if err != nil || len(ring) != 1 || ring[0].ID == former[SecretsKeys] {
		t.Errorf("the former key of Secrets is still there: %v %v", ring, err)
	}
	// What belief in the former keys ends, ends with the next start.
	stop()
	for _, name := range []string{ClusterAuthority, ServiceAccountKey} {
		if err := keys.Change(name, func(r keyring.Ring) (keyring.Ring, error) { return r.Without(former[name]) }); err != nil {
			t.Fatal(err)
		}
	}
	// In a process of its own: clients of this one would go on showing the certificates that they
	// have read.
	last := startChild(t, dir)
	last.awaitReady(t)
	readable(t, childClient(t, dir), "kept")
	now, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for what, config := range map[string]*rest.Config{
		"a copy of the former kubeconfig": {Host: now.Host, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: copied.CertData, KeyData: copied.KeyData}},
		"a token from before":             {Host: now.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	} {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := OpenKeys(filepath.Join(t.TempDir(), "no")); err == nil || !strings.Contains(err.Error(), "there are no keys of nephele up") {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "pki", "service-account.pub")); err != nil || strings.Count(string(text), "BEGIN") != 1 {
		t.Errorf("%s, %v", text, err)
	}
}
