package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	unionauthn "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// EnforcerUser is the name of the enforcers that run in the process of the server. They enforce for
// any key, and need no account of the cluster. The name alone gives no right.
const EnforcerUser = "system:nephele:enforcer"

// Closed returns an Access that admits no caller, except to health. It is for a server that only
// serves its own process; see WithEnforcer.
func Closed() (Access, error) {
	health, err := path.NewAuthorizer(healthPaths)
	if err != nil {
		return Access{}, fmt.Errorf("set up access: %w", err)
	}
	nobody := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}, true, nil
	})
	return Access{Authenticator: nobody, Authorizer: health}, nil
}

// WithEnforcer returns an Access that takes the bearer of the token for EnforcerUser as well. He
// may read and watch all computed objects and report on policies, and nothing else. The token must
// be a secret that never leaves the process.
func (a Access) WithEnforcer(token string) Access {
	// The uid distinguishes the enforcer from a user of the cluster that has the same name.
	self := &user.DefaultInfo{Name: EnforcerUser, UID: rand.Text(), Groups: []string{user.AllAuthenticated}}
	bearer := authenticatorfactory.NewFromTokens(map[string]*user.DefaultInfo{token: self}, nil)
	a.Authenticator = unionauthn.New(bearer, a.Authenticator)
	header := []byte("Bearer " + token)
	a.OwnRequest = func(r *http.Request) bool {
		return subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), header) == 1
	}
	a.Own = func(u user.Info) bool { return u.GetName() == self.Name && u.GetUID() == self.UID }
	a.Authorizer = union.New(authorizer.AuthorizerFunc(func(_ context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
		if u := r.GetUser(); u == nil || !a.Own(u) {
			return authorizer.DecisionNoOpinion, "", nil
		}
		if enforces(r) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionDeny, "enforcers of this process watch computed objects and report on policies", nil
	}), a.Authorizer)
	return a
}

// enforces reports whether a request is one that enforcers make.
func enforces(r authorizer.Attributes) bool {
	if !r.IsResourceRequest() || r.GetAPIGroup() != v1beta2.GroupName {
		return false
	}
	switch r.GetVerb() {
	case "get", "list", "watch":
		return r.GetSubresource() == ""
	case VerbEnforce:
		return r.GetResource() == ResourceEnforcers
	case "create":
		return r.GetResource() == string(watchstore.NetworkPolicies) && r.GetSubresource() == "status"
	}
	return false
}

// EnforcerConfig returns how the bearer of the token reaches the server on this machine. It is to
// be asked anew for every connection, because the authority in it changes. The certificate must be
// valid for name.
func (s *Server) EnforcerConfig(token, name string) *rest.Config {
	address := *s.Listener.Addr().(*net.TCPAddr)
	switch {
	case address.IP.IsUnspecified() && address.IP.To4() != nil:
		address.IP = net.IPv4(127, 0, 0, 1)
	case address.IP.IsUnspecified():
		address.IP = net.IPv6loopback
	}
	return &rest.Config{
		Host: "https://" + address.String(), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.Certificate.CABundle(), ServerName: name},
	}
}
