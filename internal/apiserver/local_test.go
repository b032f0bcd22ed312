package apiserver_test

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// The enforcers of a server's process watch and report for every key, and do nothing else; nobody
// else gets in by their name.
func TestEnforcersOfTheProcess(t *testing.T) {
	t.Parallel()
	closed, err := apiserver.Closed()
	if err != nil {
		t.Fatal(err)
	}
	namesake := closed
	namesake.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: apiserver.EnforcerUser}}, true, nil
	})
	for name, access := range map[string]apiserver.Access{"closed": closed, "with a namesake": namesake} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := access.WithEnforcer("secret")
			w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), access: &access}
			w.start(t, "127.0.0.1:0")
			w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("u", 1, "cloud/ns/any")}})
			report := func(c *rest.RESTClient) error {
				return c.Post().Resource("networkpolicies").Name("u").SubResource("status").Body(&v1beta2.NetworkPolicyStatus{
					ObjectMeta: metav1.ObjectMeta{Name: "u"}, Nodes: []v1beta2.NetworkPolicyNodeStatus{{NodeName: "cloud/ns/any"}},
				}).Do(t.Context()).Error()
			}
			list := func(c *rest.RESTClient) error {
				return c.Get().Resource("addressgroups").Param("fieldSelector", "nodeName=cloud/ns/any").Do(t.Context()).Error()
			}
			own := w.client(t, "secret", "")
			if err := list(own); err != nil {
				t.Error(err)
			}
			if err := report(own); err != nil || len(w.reports.all()) != 1 {
				t.Errorf("%v, %d reports", err, len(w.reports.all()))
			}
			for _, path := range []string{"/metrics", "/apis/" + v1beta2.GroupVersion().String(), "/version"} {
				if _, err := own.Get().AbsPath(path).DoRaw(t.Context()); !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v, want it forbidden", path, err)
				}
			}
			other := w.client(t, "agent", "")
			if err := list(other); !apierrors.IsForbidden(err) {
				t.Errorf("another one lists: %v, want it forbidden", err)
			}
			if err := report(other); !apierrors.IsForbidden(err) {
				t.Errorf("another one reports: %v, want it forbidden", err)
			}
		})
	}
}
