package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// grants is an authorizer with state: everybody may use the API, and act for the enforcers that
// were granted to him.
type grants struct {
	mu sync.Mutex
	// enforce lists by user "NAMESPACE|NAME", with "*" for every name.
	enforce map[string][]string
	broken  bool
}

func (g *grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.GetVerb() != apiserver.VerbEnforce {
		return authorizer.DecisionAllow, "", nil
	}
	if g.broken {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("the cluster does not answer")
	}
	if a.GetResource() != apiserver.ResourceEnforcers || a.GetAPIGroup() != v1beta2.GroupName || !a.IsResourceRequest() {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("unexpected question %+v", a)
	}
	list := g.enforce[a.GetUser().GetName()]
	if slices.Contains(list, a.GetNamespace()+"|"+a.GetName()) || slices.Contains(list, a.GetNamespace()+"|*") || slices.Contains(list, "|*") {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// people are the users of the matrix, by token, with the keys that they may act for; "" stands for
// all.
var people = map[string]struct {
	info user.DefaultInfo
	keys []string
}{
	"admin": {user.DefaultInfo{Name: "admin"}, []string{"", "n1", "n2", "ns/vm1", "ns/vm2", "ns2/vm1", "cloud/ns/vm1"}},
	"bound": {user.DefaultInfo{Name: "system:serviceaccount:kube-system:antrea-agent", Extra: map[string][]string{
		"authentication.kubernetes.io/node-name": {"n1"}}}, []string{"n1"}},
	"two":       {user.DefaultInfo{Name: "two", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1", "n2"}}}, nil},
	"kubelet":   {user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}, []string{"n1"}},
	"impostor":  {user.DefaultInfo{Name: "system:node:n1"}, nil},
	"vm":        {user.DefaultInfo{Name: "vm"}, []string{"ns/vm1"}},
	"role":      {user.DefaultInfo{Name: "system:serviceaccount:ns:vm-agent"}, []string{"ns/vm1", "ns/vm2"}},
	"role1":     {user.DefaultInfo{Name: "role1"}, []string{"ns2/vm1"}},
	"cloud":     {user.DefaultInfo{Name: "cloud"}, []string{"cloud/ns/vm1"}},
	"reader":    {user.DefaultInfo{Name: "reader"}, nil},
	"emptyname": {user.DefaultInfo{Name: "emptyname", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {""}}}, nil},
}

func granted() *grants {
	return &grants{enforce: map[string][]string{
		"admin": {"|*"}, "vm": {"|ns/vm1"}, "system:serviceaccount:ns:vm-agent": {"ns|*"}, "role1": {"ns2|vm1"}, "cloud": {"|cloud/ns/vm1"},
	}}
}

func newGuardedWorld(t *testing.T, access apiserver.EnforcerAccess, g *grants) *world {
	t.Helper()
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), enforcers: access, book: stats.New(clock.RealClock{}), reviews: &oracle{}, traffic: &trafficBook{}}
	w.metrics = apiserver.NewMetrics(w.store)
	w.access = &apiserver.Access{Authorizer: g, Authenticator: authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if p, ok := people[token]; ok {
			return &authenticator.Response{User: &p.info}, true, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: token}}, token != "", nil
	})}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	w.fill()
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("all", 1, keys[1:]...)}})
	return w
}

var keys = []string{"", "n1", "n2", "ns/vm1", "ns/vm2", "ns2/vm1", "cloud/ns/vm1"}

// acts are the requests of an enforcer with a key.
func acts(c *rest.RESTClient, key string) map[string]*rest.Request {
	out := map[string]*rest.Request{}
	for _, resource := range []string{"networkpolicies", "addressgroups", "appliedtogroups", "egressgroups", "supportbundlecollections"} {
		out["list "+resource] = c.Get().Resource(resource)
		out["watch "+resource] = c.Get().Resource(resource).Param("watch", "true").Param("timeoutSeconds", "1")
		if key != "" {
			out["list "+resource].Param("fieldSelector", "nodeName="+key)
			out["watch "+resource].Param("fieldSelector", "nodeName="+key)
		}
	}
	if key == "" {
		for _, resource := range []string{"networkpolicies", "addressgroups", "appliedtogroups"} {
			out["get "+resource] = c.Get().Resource(resource).Name(map[string]string{"networkpolicies": "u1", "addressgroups": "ag", "appliedtogroups": "atg"}[resource])
		}
		return out
	}
	out["status"] = c.Post().Resource("networkpolicies").Name("all").SubResource("status").Body(&v1beta2.NetworkPolicyStatus{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, Nodes: []v1beta2.NetworkPolicyNodeStatus{{NodeName: key}}})
	out["traffic"] = postTraffic(c, key, "")
	out["stats"] = c.Post().Resource("nodestatssummaries").Body(&v1beta2.NodeStatsSummary{ObjectMeta: metav1.ObjectMeta{Name: key}})
	return out
}

// TestEnforcersActForThemselves is the matrix: everybody, every key, every request.
func TestEnforcersActForThemselves(t *testing.T) {
	t.Parallel()
	for _, setting := range []apiserver.EnforcerAccess{"", apiserver.AnyKey} {
		w := newGuardedWorld(t, setting, granted())
		for token, who := range people {
			if setting == apiserver.AnyKey && token != "reader" {
				continue // the user with the least rights shows enough
			}
			c := w.client(t, token, runtime.ContentTypeJSON)
			for _, key := range keys {
				may := setting == apiserver.AnyKey || slices.Contains(who.keys, key)
				for name, request := range acts(c, key) {
					if name == "stats" && token == "role" && !strings.Contains(key, "/") {
						continue // a bare name of its namespace, see TestBareNamesInStatistics
					}
					err := ask(t, request)
					switch {
					case may && err != nil:
						t.Errorf("%q: %s may not %s for %q: %v", setting, token, name, key, err)
					case !may && !apierrors.IsForbidden(err):
						t.Errorf("%q: %s may %s for %q: %v", setting, token, name, key, err)
					case !may && !strings.Contains(err.Error(), `verb "enforce" on resource "enforcers" of API group "controlplane.antrea.io"`):
						t.Errorf("the answer does not say what would let %s %s: %v", token, name, err)
					}
				}
			}
		}
	}
}

// ask sends a request; of a watch it waits for the answer, not for its end.
func ask(t *testing.T, r *rest.Request) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.URL().Query().Get("watch") == "" {
		return r.Do(ctx).Error()
	}
	body, err := r.Stream(ctx)
	if err == nil {
		body.Close()
	}
	return err
}

// A report is that of one enforcer, about a policy that it was given.
func TestReportForOthers(t *testing.T) {
	t.Parallel()
	w := newGuardedWorld(t, apiserver.OwnKey, granted())
	c := w.client(t, "bound", runtime.ContentTypeProtobuf)
	post := func(policy string, nodes ...string) error {
		s := &v1beta2.NetworkPolicyStatus{ObjectMeta: metav1.ObjectMeta{Name: policy}}
		for _, n := range nodes {
			s.Nodes = append(s.Nodes, v1beta2.NetworkPolicyNodeStatus{NodeName: n, Message: strings.Repeat("é", 3000)})
		}
		return c.Post().Resource("networkpolicies").Name(policy).SubResource("status").Body(s).Do(t.Context()).Error()
	}
	if err := post("all", "n1", "n2"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "2 entries") {
		t.Errorf("two at once: %v", err)
	}
	if err := post("all", "n2"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `enforcer "n2"`) {
		t.Errorf("another one's: %v", err)
	}
	for _, policy := range []string{"u1", "none"} {
		if err := post(policy, "n1"); !apierrors.IsNotFound(err) {
			t.Errorf("about policy %s, which it was not given: %v", policy, err)
		}
	}
	if err := post("all", "n1"); err != nil {
		t.Error(err)
	}
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{gone("all")}})
	if err := post("all", "n1"); !apierrors.IsNotFound(err) {
		t.Errorf("about a policy that is gone: %v", err)
	}
	got := w.reports.all()
	if len(got) != 1 || len(got[0].Nodes) != 1 {
		t.Fatalf("reported %+v", got)
	}
	if m := got[0].Nodes[0].Message; len(m) > 1<<10 || len(m) < 1000 || !utf8.ValidString(m) || !strings.HasSuffix(m, "...") {
		t.Errorf("a long message became %q", m)
	}
}

// refusals returns how often the server has counted a refusal, by resource.
func (w *world) refusals(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(w.metrics); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "nephele_api_refused_total" {
				out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// An agent of an ExternalNode names itself without namespace in statistics; it is taken for the one
// of its own namespace.
func TestBareNamesInStatistics(t *testing.T) {
	t.Parallel()
	w := newGuardedWorld(t, apiserver.OwnKey, granted())
	post := func(token, name string) error {
		return w.client(t, token, runtime.ContentTypeJSON).Post().Resource("nodestatssummaries").Body(&v1beta2.NodeStatsSummary{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Multicast: []v1beta2.MulticastGroupInfo{{Group: "225.0.0." + token[:1], Pods: nil}},
		}).Do(t.Context()).Error()
	}
	if err := post("role", "vm1"); err != nil {
		t.Error(err)
	}
	if err := post("vm", "vm1"); !apierrors.IsForbidden(err) {
		t.Errorf("without a service account: %v", err)
	}
	if err := post("role", ""); !apierrors.IsBadRequest(err) {
		t.Errorf("without a name: %v", err)
	}
	if got := w.refusals(t); len(got) != 1 || got["nodestatssummaries"] != 1 {
		t.Errorf("refused %v", got)
	}
}

func TestLatencyOfOthers(t *testing.T) {
	t.Parallel()
	w := newGuardedWorld(t, apiserver.OwnKey, granted())
	c := w.statsClient(t, "bound", runtime.ContentTypeJSON)
	s := &statsv1alpha1.NodeLatencyStats{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	if err := c.Post().Resource("nodelatencystats").Body(s).Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("create: %v", err)
	}
	if err := c.Delete().Resource("nodelatencystats").Name("n2").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("delete: %v", err)
	}
	s.Name = "n1"
	if err := c.Post().Resource("nodelatencystats").Body(s).Do(t.Context()).Error(); err != nil {
		t.Errorf("create: %v", err)
	}
	if err := c.Delete().Resource("nodelatencystats").Name("n1").Do(t.Context()).Error(); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// What cannot be found out is not allowed, and a right that is taken away is gone.
func TestGrantsThatChange(t *testing.T) {
	t.Parallel()
	g := granted()
	w := newGuardedWorld(t, apiserver.OwnKey, g)
	list := func() error {
		return w.client(t, "vm", runtime.ContentTypeJSON).Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=ns/vm1").MaxRetries(0).Do(t.Context()).Error()
	}
	if err := list(); err != nil {
		t.Error(err)
	}
	g.mu.Lock()
	g.broken = true
	g.mu.Unlock()
	if err := list(); !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
	g.mu.Lock()
	g.broken, g.enforce["vm"] = false, nil
	g.mu.Unlock()
	if err := list(); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

func TestEnforcerAccessIsAFlag(t *testing.T) {
	for in, want := range map[string]apiserver.EnforcerAccess{"": apiserver.OwnKey, "own-key": apiserver.OwnKey, "any": apiserver.AnyKey} {
		var got apiserver.EnforcerAccess
		if err := got.Set(in); err != nil || got != want || got.String() != string(want) {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	got := apiserver.AnyKey
	if err := got.Set("all"); err == nil || got != apiserver.AnyKey {
		t.Errorf("nonsense is taken: %q %v", got, err)
	}
}

// statsClient is a client of stats.antrea.io.
func (w *world) statsClient(t testing.TB, token, contentType string) *rest.RESTClient {
	t.Helper()
	cfg := w.config(token, contentType)
	gv := statsv1alpha1.GroupVersion()
	cfg.GroupVersion = &gv
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// table reads a resource as kubectl does.
func table(t *testing.T, r *rest.Request) metav1.Table {
	t.Helper()
	raw, err := r.SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out metav1.Table
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
