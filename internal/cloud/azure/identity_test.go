package azure_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/sim/arm"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// keyPair is a key with its certificate, which is its own authority.
func keyPair(t *testing.T) (key *rsa.PrivateKey, certificate, private string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", secret)
}

// foreignToken is what another issuer says of a workload.
func foreignToken(t *testing.T, key *rsa.PrivateKey, subject string, now time.Time) string {
	t.Helper()
	part := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	text := part(map[string]any{"alg": "RS256", "typ": "JWT"}) + "." + part(map[string]any{
		"iss": "https://issuer.example", "sub": subject, "aud": "api://AzureADTokenExchange", "nbf": now.Add(-time.Minute).Unix(), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// TestKindsOfCredentials reads the account with each kind of credential that a Secret can hold, by
// the login of a configured cloud over TLS; one that is not the application's is refused as such.
func TestKindsOfCredentials(t *testing.T) {
	t.Parallel()
	key, certificate, private := keyPair(t)
	stranger, otherCertificate, otherPrivate := keyPair(t)
	l := newLab(t, nil)
	l.now = time.Now() // the login looks at the times of tokens, and the SDK writes them
	const subject = "system:serviceaccount:nephele:controller"
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Certificates = []string{certificate}
		p.Federated = []simazure.Federation{{Issuer: "https://issuer.example", Subject: subject, Key: certificate}}
		c.SetPrincipal(p)
	})
	for name, c := range map[string]struct {
		change func(*azure.Config)
		class  cloud.Class
	}{
		"client secret":       {func(*azure.Config) {}, ""},
		"certificate":         {func(c *azure.Config) { c.Credential.ClientCertificate = certificate + private }, ""},
		"federated token":     {func(c *azure.Config) { c.Credential.SessionToken = foreignToken(t, key, subject, l.now) }, ""},
		"another certificate": {func(c *azure.Config) { c.Credential.ClientCertificate = otherCertificate + otherPrivate }, cloud.Auth},
		"another issuer":      {func(c *azure.Config) { c.Credential.SessionToken = foreignToken(t, stranger, subject, l.now) }, cloud.Auth},
		"another workload": {func(c *azure.Config) {
			c.Credential.SessionToken = foreignToken(t, key, "system:serviceaccount:x:y", l.now)
		}, cloud.Auth},
		"a token that is over": {func(c *azure.Config) {
			c.Credential.SessionToken = foreignToken(t, key, subject, l.now.Add(-3*time.Hour))
		}, cloud.Auth},
		"not a token":           {func(c *azure.Config) { c.Credential.SessionToken = "x.y.z" }, cloud.Auth},
		"an application of old": {func(c *azure.Config) { c.Credential.ClientID = tenantID }, cloud.Auth},
	} {
		a := l.account(func(cfg *azure.Config) {
			c.change(cfg)
			if name != "client secret" && name != "an application of old" {
				cfg.Credential.ClientKey = ""
			}
		})
		s, err := a.Observe(t.Context(), inRegion)
		switch {
		case c.class == "" && (err != nil || len(s.VMs) != 2):
			t.Errorf("%s: %v", name, err)
		case c.class != "" && cloud.ClassOf(err) != c.class:
			t.Errorf("%s: %v, want %s", name, err, c.class)
		case err != nil && (strings.Contains(err.Error(), private[40:80]) || strings.Contains(err.Error(), secret)):
			t.Errorf("%s: the error tells the secret", name)
		}
	}
}

// TestSubscriptionsAndRegions: two accounts of two subscriptions, and one of two regions, see each
// its own.
func TestSubscriptionsAndRegions(t *testing.T) {
	t.Parallel()
	const second = "bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	l := newLab(t, func(b *build.Builder) {
		for _, x := range [][2]string{{second, region}, {subscription, "northeurope"}} {
			o := build.New(tenantID, x[0], x[1])
			network := o.Network("far", "vnet-"+x[1], []string{"10.8.0.0/16"}, []string{"all", "10.8.1.0/24"})
			o.Machine("far", "far-"+x[1], network+"/subnets/all", "10.8.1.4", "")
			b.State.Groups = append(b.State.Groups, o.State.Groups...)
			b.State.Resources = append(b.State.Resources, o.State.Resources...)
			if x[0] != subscription {
				b.State.Subscriptions = append(b.State.Subscriptions, o.State.Subscriptions...)
			}
		}
	})
	names := func(s *cloud.Snapshot) (out []string) {
		for _, v := range s.VMs {
			out = append(out, v.Name)
		}
		slices.Sort(out)
		return out
	}
	first := l.account()
	other := l.account(func(c *azure.Config) { c.Credential.SubscriptionID, c.Account = second, "shop/other" })
	for _, x := range []struct {
		account *azure.Account
		region  string
		want    []string
		owner   string
	}{
		{first, region, []string{"db-1", "web-1"}, subscription}, {first, "northeurope", []string{"far-northeurope"}, subscription},
		{other, region, []string{"far-westeurope"}, second}, {other, "northeurope", nil, second},
	} {
		s, err := x.account.Observe(t.Context(), cloud.Scope{Account: "shop/azure", Region: x.region})
		if err != nil || !slices.Equal(names(s), x.want) || s.OwnerID != x.owner {
			t.Errorf("%s in %s: %v, %v", x.owner, x.region, err, s)
		}
	}
	if err := first.Tag(t.Context(), []string{"/subscriptions/" + second + "/resourceGroups/far/providers/Microsoft.Network/virtualNetworks/vnet-westeurope"},
		map[string]string{cloud.TagClaim: "c"}); cloud.ClassOf(err) != cloud.Terminal {
		t.Errorf("a resource of the other subscription: %v", err)
	}
}

// elsewhere sends what is for one host to another one, and nothing to anybody else.
type elsewhere struct {
	host string
	to   *url.URL
	by   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != e.host {
		return nil, errors.New("this is for " + r.URL.Host)
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = e.to.Scheme, e.to.Host, e.to.Host
	return e.by.RoundTrip(r)
}

// Do implements policy.Transporter.
func (e elsewhere) Do(r *http.Request) (*http.Response, error) { return e.RoundTrip(r) }

// TestManagedIdentity reads an account with the identity of the machine, by the metadata service:
// that of the machine itself, or the one that the account's Secret names. One that the machine
// does not have is refused as such, and its token goes to Azure alone.
func TestManagedIdentity(t *testing.T) {
	l := newLab(t, nil)
	l.now = time.Now()
	metadata := httptest.NewServer(arm.NewHandler(arm.Config{World: l.world, Clock: func() time.Time { return l.now }, Faults: l.faults, Journal: l.journal}))
	defer metadata.Close()
	l.change(func(c *simazure.Cloud) {
		c.SetPrincipal(simazure.Principal{
			Tenant: tenantID, ClientID: build.GUIDOf("mi"), ObjectID: build.GUIDOf("mi"), System: true,
			Managed: "/subscriptions/" + subscription + "/resourceGroups/shop/providers/Microsoft.ManagedIdentity/userAssignedIdentities/mi",
		})
	})
	to := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	own := azure.LoadAmbient(elsewhere{"169.254.169.254", to(metadata.URL), http.DefaultTransport})
	for client, class := range map[string]cloud.Class{"": "", build.GUIDOf("mi"): "", build.GUIDOf("else"): cloud.Auth} {
		a := l.account(func(c *azure.Config) {
			c.Credential.ClientKey, c.Credential.ClientID, c.Credential.TenantID = "", client, ""
			c.Cloud, c.Ambient = nil, own
			c.Transport = elsewhere{"management.azure.com", to(l.server.URL), l.server.Client().Transport}
		})
		s, err := a.Observe(t.Context(), inRegion)
		switch {
		case class == "" && (err != nil || len(s.VMs) != 2):
			t.Errorf("%q: %v", client, err)
		case class != "" && cloud.ClassOf(err) != class:
			t.Errorf("%q: %v, want %s", client, err, class)
		}
	}
}
