package e2e

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// recorder stands before an API server, and notes the calls that pass through it.
type recorder struct {
	server *httptest.Server
	mu     sync.Mutex
	done   map[right]bool
}

// right is what a rule gives: one verb on one resource, or on one object of it if name is not
// empty.
type right struct{ verb, group, resource, name string }

// String names the right as a rule does.
func (r right) String() string {
	s := fmt.Sprintf("%s %s.%s", r.verb, r.resource, r.group)
	if r.name != "" {
		s += " " + r.name
	}
	return s
}

// newRecorder starts one that ends with the test.
func newRecorder(t *testing.T, api *rest.Config) *recorder {
	t.Helper()
	target, err := url.Parse(api.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(api))
	if err != nil {
		t.Fatal(err)
	}
	info := &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis", "api"), GrouplessAPIPrefixes: sets.NewString("api")}
	r := &recorder{done: map[right]bool{}}
	r.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
		Transport: transport, FlushInterval: -1,
		ModifyResponse: func(response *http.Response) error {
			asked, err := info.NewRequestInfo(response.Request)
			if err == nil && asked.IsResourceRequest && response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnauthorized {
				resource := asked.Resource
				if asked.Subresource != "" {
					resource += "/" + asked.Subresource
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				if asked.Verb == "watch" && response.Request.URL.Query().Get("sendInitialEvents") == "true" {
					// With an API server that does not know this yet, a list is what it would be.
					r.done[right{"list", asked.APIGroup, resource, ""}] = true
				}
				r.done[right{asked.Verb, asked.APIGroup, resource, asked.Name}] = true
				r.done[right{asked.Verb, asked.APIGroup, resource, ""}] = true
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	r.server.EnableHTTP2 = true
	r.server.StartTLS()
	t.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

// ca is the authority by which the recorder is known.
func (r *recorder) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
}

// unused are the rights that the roles bound to the controller give and that nobody has used who
// came this way.
func (r *recorder) unused(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := map[string]bool{}
	for _, rule := range rulesOfController(t, objects) {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					used := slices.ContainsFunc(names, func(name string) bool { return r.done[right{verb, group, resource, name}] })
					if !used {
						missing[right{verb, group, resource, strings.Join(names, ",")}.String()] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// rulesOfController are the rules of the roles that are bound to the ServiceAccount
// nephele-controller and come with the manifest.
func rulesOfController(t *testing.T, objects []*unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	into := func(o *unstructured.Unstructured, v any) {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, v); err != nil {
			t.Fatal(err)
		}
	}
	bound := map[string]bool{}
	for _, o := range objects {
		if kind := o.GetKind(); kind == "ClusterRoleBinding" || kind == "RoleBinding" {
			var b rbacv1.RoleBinding
			into(o, &b)
			for _, s := range b.Subjects {
				if s.Kind == "ServiceAccount" && s.Name == "nephele-controller" {
					bound[b.RoleRef.Kind+" "+b.RoleRef.Name] = true
				}
			}
		}
	}
	var out []rbacv1.PolicyRule
	for _, o := range objects {
		if kind := o.GetKind(); (kind == "ClusterRole" || kind == "Role") && bound[kind+" "+o.GetName()] {
			var role rbacv1.ClusterRole
			into(o, &role)
			out = append(out, role.Rules...)
		}
	}
	if len(out) < 10 {
		t.Fatalf("the manifest gives the controller %d rules only", len(out))
	}
	return out
}
