package apiserver

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	unionauthn "k8s.io/apiserver/pkg/authentication/request/union"
	x509authn "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

// askerUser begins the names of callers that ask the webhooks with a certificate. The name alone
// gives no right.
const askerUser = "system:nephele:webhook-client:"

// WithWebhookClients returns an Access that opens the webhooks to holders of a client certificate
// only that an authority in the file, in PEM, has signed; and with names, only to the ones among
// them that have one of the names as common name. The file is read again when it changes. The
// certificates mean nothing at other paths.
func (a Access) WithWebhookClients(file string, names []string) (Access, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("webhook-client-ca", file)
	if err != nil {
		return Access{}, fmt.Errorf("read the authority of the clients of the webhooks: %w", err)
	}
	uid, paths := rand.Text(), webhook.Paths()
	holder := x509authn.NewDynamic(ca.VerifyOptions, x509authn.UserConversionFunc(func(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
		name := chain[0].Subject.CommonName
		if len(names) > 0 && !slices.Contains(names, name) {
			return nil, false, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: askerUser + name, UID: uid}}, true, nil
	}))
	a.Authenticator = unionauthn.New(authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if !slices.Contains(paths, r.URL.Path) {
			return nil, false, nil
		}
		return holder.AuthenticateRequest(r)
	}), a.Authenticator)
	a.AsksWebhooks = func(u user.Info) bool { return u.GetUID() == uid }
	if a.ClientCA == nil {
		a.ClientCA = ca
	} else {
		a.ClientCA = dynamiccertificates.NewUnionCAContentProvider(a.ClientCA, ca)
	}
	return a, nil
}
