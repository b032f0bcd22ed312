package credential

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Lifetime is how long a token lasts that an agent asks for. The API server may say less.
const Lifetime = 7 * 24 * time.Hour

// Claims are what a token of a ServiceAccount says of itself. They are not verified, because the
// holder of a token may read it.
type Claims struct {
	Namespace, Account string
	Issued, Expires    time.Time
}

// ParseToken reads a token of a ServiceAccount. It is false for anything else.
func ParseToken(token string) (Claims, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Claims{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}, false
	}
	var c struct {
		Subject string `json:"sub"`
		Issued  int64  `json:"iat"`
		Expires int64  `json:"exp"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Expires <= c.Issued {
		return Claims{}, false
	}
	account, ok := strings.CutPrefix(c.Subject, "system:serviceaccount:")
	namespace, name, ok2 := strings.Cut(account, ":")
	if !ok || !ok2 {
		return Claims{}, false
	}
	return Claims{namespace, name, time.Unix(c.Issued, 0), time.Unix(c.Expires, 0)}, true
}

// Due reports whether a token of an enrolled host is to be renewed: after a third of its life, or
// at once if it is the first, short one.
func (c Claims) Due(now time.Time) bool {
	life := c.Expires.Sub(c.Issued)
	return strings.HasPrefix(c.Account, accountPrefix) && (life < 24*time.Hour && now.Sub(c.Issued) > life/10 || now.Sub(c.Issued) > life/3)
}

// Where what enrolled hosts may know about servers is published.
const (
	PublishedNamespace, PublishedConfigMap = "kube-system", "antrea-ca"
	// ClusterAuthoritiesKey is the entry with the authorities by which the API server is known.
	ClusterAuthoritiesKey = "cluster.crt"
)

// ClusterAuthorities are the certificates by which the API server is known to its cluster, in PEM;
// empty if they are not published.
func ClusterAuthorities(ctx context.Context, to *rest.Config) ([]byte, error) {
	c, err := coreClient(to)
	if err != nil {
		return nil, err
	}
	raw, err := c.Get().Namespace(PublishedNamespace).Resource("configmaps").Name(PublishedConfigMap).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("by what the API server is known: %w", err)
	}
	var published struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(raw, &published); err != nil {
		return nil, fmt.Errorf("by what the API server is known: %w", err)
	}
	return []byte(published.Data[ClusterAuthoritiesKey]), nil
}

// Succeeds reports whether published authorities are those that take the place of the known ones:
// they have one of them in common. A client that verifies a server by authorities of another kind
// keeps these.
func Succeeds(published, known []byte) bool {
	now, before := certificatesIn(published), certificatesIn(known)
	for text := range before {
		if now[text] {
			return true
		}
	}
	return false
}

// certificatesIn are the certificates of a text in PEM.
func certificatesIn(text []byte) map[string]bool {
	out := map[string]bool{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			out[string(cert.Raw)] = true
		}
	}
	return out
}

// coreClient is a client of the core of the API.
func coreClient(to *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := authenticationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg := rest.CopyConfig(to)
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/api", &schema.GroupVersion{Version: "v1"}, serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(cfg)
}

// RenewToken returns a new token of the host that has this one.
func RenewToken(ctx context.Context, to *rest.Config, claims Claims) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("token of %s/%s: %w", claims.Namespace, claims.Account, err)
	}
	c, err := coreClient(to)
	if err != nil {
		return fail(err)
	}
	seconds := int64(Lifetime / time.Second)
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.Post().Namespace(claims.Namespace).Resource("serviceaccounts").Name(claims.Account).SubResource("token").Body(r).Do(ctx).Into(r); err != nil {
		return fail(err)
	}
	return r.Status.Token, nil
}
