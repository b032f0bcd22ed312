package arm_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

var scope = policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}}

func token(t *testing.T, c azcore.TokenCredential) error {
	t.Helper()
	_, err := c.GetToken(t.Context(), scope)
	return err
}

// TestClientSecret: the right secret, a wrong one, and everything else that can be wrong.
func TestClientSecret(t *testing.T) {
	l := newLab(t, options{})
	if err := token(t, l.credentialOf(l.client, secret)); err != nil {
		t.Error(err)
	}
	l.change(func(c *azure.Cloud) {
		c.SetPrincipal(azure.Principal{Tenant: tenantID, ClientID: build.GUIDOf("off"), ObjectID: build.GUIDOf("off"), Secrets: []string{"s"}, Disabled: true})
	})
	for want, c := range map[string]azcore.TokenCredential{
		"AADSTS7000215": l.credentialOf(l.client, "wrong"),
		"AADSTS700016":  l.credentialOf(tenantID, secret),
		"AADSTS7000112": l.credentialOf(build.GUIDOf("off"), "s"),
	} {
		if err := token(t, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	c, err := azidentity.NewClientSecretCredential(
		subscription,
		l.client,
		secret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: l.options(), DisableInstanceDiscovery: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := token(t, c); err == nil {
		t.Error("a tenant that is not there gives tokens")
	}
}

// TestTokens: a token is refused when it has ended, when it was made for something else, when it
// was changed, and when its principal has gone.
func TestTokens(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{})
	groups := l.usual().network.NewSecurityGroupsClient()
	get := func() error { _, err := groups.Get(ctx, "shop", "nsg-web", nil); return err }
	if err := get(); err != nil {
		t.Fatal(err)
	}
	l.clock.advance(2 * time.Hour)
	expectCode(t, get(), 401, "ExpiredAuthenticationToken")
	l.clock.advance(-2 * time.Hour)
	for _, c := range []struct {
		cred azcore.TokenCredential
		code string
	}{
		{fixed("Bearer.x.y"), "InvalidAuthenticationToken"},
		{scoped{l.credentialOf(l.client, secret), "https://vault.azure.net/.default"}, "InvalidAuthenticationTokenAudience"},
	} {
		_, err := l.clients(c.cred).network.NewSecurityGroupsClient().Get(ctx, "shop", "nsg-web", nil)
		expectCode(t, err, 401, c.code)
	}
	l.change(func(c *azure.Cloud) {
		p := c.Principals()[0]
		p.Disabled = true
		c.SetPrincipal(p)
	})
	expectCode(t, get(), 401, "InvalidAuthenticationToken")
}

type fixed string

func (f fixed) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(f), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

type scoped struct {
	azcore.TokenCredential
	scope string
}

func (s scoped) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	o.Scopes = []string{s.scope}
	return s.TokenCredential.GetToken(ctx, o)
}

func newKey(t *testing.T) (*rsa.PrivateKey, *x509.Certificate, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotAfter: time.Now().Add(time.Hour)},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestCertificate: the client proves itself with a certificate that the application has, and with
// none other.
func TestCertificate(t *testing.T) {
	l := newLab(t, options{})
	key, cert, text := newKey(t)
	credential := func() azcore.TokenCredential {
		c, err := azidentity.NewClientCertificateCredential(tenantID, l.client, []*x509.Certificate{cert}, key,
			&azidentity.ClientCertificateCredentialOptions{ClientOptions: l.options(), DisableInstanceDiscovery: true})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := token(t, credential()); err == nil || !strings.Contains(err.Error(), "AADSTS700027") {
		t.Errorf("an unknown certificate: %v", err)
	}
	l.change(func(c *azure.Cloud) {
		p := c.Principals()[0]
		p.Certificates = []string{text}
		c.SetPrincipal(p)
	})
	if err := token(t, credential()); err != nil {
		t.Error(err)
	}
}

func foreign(t *testing.T, key *rsa.PrivateKey, subject, audience string, expires time.Time) string {
	t.Helper()
	part := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	head := part(
		map[string]any{"alg": "RS256", "typ": "JWT"},
	) + "." + part(
		map[string]any{"iss": "https://issuer.example", "sub": subject, "aud": []string{audience}, "exp": expires.Unix()},
	)
	sum := sha256.Sum256([]byte(head))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return head + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// TestFederatedToken: the token of another issuer stands for the application, if all of it is
// right.
func TestFederatedToken(t *testing.T) {
	l := newLab(t, options{})
	key, _, text := newKey(t)
	stranger, _, _ := newKey(t)
	l.change(func(c *azure.Cloud) {
		p := c.Principals()[0]
		p.Federated = []azure.Federation{{Issuer: "https://issuer.example", Subject: "system:serviceaccount:nephele:controller", Key: text}}
		c.SetPrincipal(p)
	})
	const subject, audience = "system:serviceaccount:nephele:controller", "api://AzureADTokenExchange"
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct{ assertion, want string }{
		"good":           {foreign(t, key, subject, audience, later), ""},
		"other subject":  {foreign(t, key, "system:serviceaccount:evil:controller", audience, later), "AADSTS700213"},
		"other audience": {foreign(t, key, subject, "api://else", later), "AADSTS700213"},
		"other key":      {foreign(t, stranger, subject, audience, later), "AADSTS50013"},
		"ended":          {foreign(t, key, subject, audience, time.Now().Add(-time.Hour)), "AADSTS700024"},
		"no token":       {"x", "AADSTS50027"},
	} {
		cred, err := azidentity.NewClientAssertionCredential(tenantID, l.client, func(context.Context) (string, error) { return c.assertion, nil },
			&azidentity.ClientAssertionCredentialOptions{ClientOptions: l.options(), DisableInstanceDiscovery: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := token(t, cred); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// onMachine sends what is for the metadata service to another host.
type onMachine string

func (o onMachine) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "169.254.169.254" {
		return nil, errors.New("this is for " + r.URL.Host)
	}
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = string(o), string(o)
	return http.DefaultTransport.RoundTrip(r)
}

// TestManagedIdentity: the metadata service gives tokens of the identities of the machine, without
// TLS.
func TestManagedIdentity(t *testing.T) {
	var handler *arm.Handler
	l := newLab(t, options{config: func(c *arm.Config) { handler = arm.NewHandler(*c) }})
	plain := httptest.NewServer(handler)
	defer plain.Close()
	o := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}, Transport: onMachine(strings.TrimPrefix(plain.URL, "http://"))}
	l.change(func(c *azure.Cloud) {
		c.SetPrincipal(
			azure.Principal{
				Tenant:   tenantID,
				ClientID: build.GUIDOf("mi"),
				ObjectID: build.GUIDOf("mi"),
				Managed:  shop + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/mi",
				System:   true,
			},
		)
	})
	for _, id := range []azidentity.ManagedIDKind{nil, azidentity.ClientID(build.GUIDOf("mi"))} {
		cred, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ID: id, ClientOptions: o})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.clients(cred).network.NewSecurityGroupsClient().Get(t.Context(), "shop", "nsg-web", nil); err != nil {
			t.Errorf("%v: %v", id, err)
		}
	}
	cred, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ID: azidentity.ClientID(build.GUIDOf("else")), ClientOptions: o})
	if err != nil {
		t.Fatal(err)
	}
	if err := token(t, cred); err == nil {
		t.Error("an identity that is not there gives tokens")
	}
}
