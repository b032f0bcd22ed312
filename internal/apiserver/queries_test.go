package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	systemv1beta1 "github.com/nephele-io/nephele/api/system/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// answers knows one Group, one ClusterGroup with a hundred Pods, the Pod n/p and a rule between n/p
// and n/q.
type answers struct {
	ready bool
}

type unknownPod struct{ types.NamespacedName }

func (u unknownPod) Error() string                    { return "there is no Pod " + u.String() }
func (u unknownPod) UnknownPod() types.NamespacedName { return u.NamespacedName }

func (a *answers) check() error {
	if !a.ready {
		return watchstore.ErrNotReady
	}
	return nil
}

func (a *answers) GroupMembers(_ context.Context, name types.NamespacedName, page v1beta2.PaginationGetOptions, seen func(namespace string) bool) (*v1beta2.GroupMembers, error) {
	if err := a.check(); err != nil || name.Name != "g" || (name.Namespace != "" && name.Namespace != "n") {
		return nil, err
	}
	out := &v1beta2.GroupMembers{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, TotalMembers: 100, TotalPages: 1 + page.Limit, CurrentPage: page.Page}
	out.EffectiveMembers = []v1beta2.GroupMember{pod(1, "").(*watchstore.GivenMember).GroupMember}
	out.EffectiveIPBlocks = []v1beta2.IPNet{{IP: v1beta2.IPAddress(netip.MustParseAddr("::ffff:10.0.0.0").AsSlice()), PrefixLength: 24}}
	return out, nil
}

func (a *answers) GroupsOf(_ context.Context, name types.NamespacedName) ([]v1beta2.GroupReference, bool, error) {
	if name.String() != "n/p" {
		return nil, false, a.check()
	}
	return []v1beta2.GroupReference{{Name: "g", UID: "1"}, {Namespace: "n", Name: "g", UID: "2"}}, true, a.check()
}

func (a *answers) GroupsOfAddress(_ context.Context, at netip.Addr) ([]v1beta2.GroupReference, error) {
	return []v1beta2.GroupReference{{Name: at.String(), UID: "1"}}, a.check()
}

func (a *answers) Endpoint(_ context.Context, name types.NamespacedName) (*v1beta2.Endpoint, error) {
	if err := a.check(); err != nil || name.Name != "p" {
		return nil, err
	}
	ref := v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: name.Namespace, Name: "x", UID: "u"}
	return &v1beta2.Endpoint{Namespace: name.Namespace, Name: name.Name, AppliedPolicies: []v1beta2.NetworkPolicyReference{ref},
		IngressSrcRules: []v1beta2.EndpointRule{{PolicyRef: ref, Direction: v1beta2.DirectionIn, RuleIndex: 2}}}, nil
}

func (a *answers) EvaluatePods(_ context.Context, source, destination types.NamespacedName) (*v1beta2.NetworkPolicyEvaluationResponse, error) {
	drop := v1beta2.RuleActionDrop
	switch {
	case source.Name == "unknown":
		return nil, unknownPod{source}
	case source.Name == destination.Name:
		return nil, a.check()
	}
	return &v1beta2.NetworkPolicyEvaluationResponse{RuleIndex: 3, Rule: v1beta2.RuleRef{Direction: v1beta2.DirectionOut, Name: "r", Action: &drop}}, a.check()
}

func (a *answers) Computed(context.Context) (policies, addressGroups, appliedToGroups int, err error) {
	return 3, 2, 1, a.check()
}

// newFullWorld serves everything.
func newFullWorld(t *testing.T) (*world, *answers) {
	t.Helper()
	a := &answers{ready: true}
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), queries: a, reviews: &oracle{}, traffic: &trafficBook{}, book: stats.New(clock.RealClock{})}
	w.bundle = func(context.Context, io.Writer, time.Time) error { return nil }
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	return w, a
}

func TestQueriesOnTheWire(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	for name, contentType := range encodings {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c := w.client(t, "agent", contentType)
			var association v1beta2.GroupAssociation
			if err := c.Get().Namespace("n").Resource("groupassociations").Name("p").Do(ctx).Into(&association); err != nil {
				t.Fatal(err)
			}
			if association.Namespace != "n" || association.Name != "p" || len(association.AssociatedGroups) != 2 || association.AssociatedGroups[1].UID != "2" {
				t.Errorf("got %+v", association)
			}
			enforcing, err := enforcer.NewClient(enforcer.ClientOptions{Config: func() (*rest.Config, error) { return w.config("agent", contentType), nil }, JSON: contentType == runtime.ContentTypeJSON})
			if err != nil {
				t.Fatal(err)
			}
			for pod, want := range map[string]bool{"p": true, "x": false} {
				if known, err := enforcing.KnowsPod(ctx, "n", pod); err != nil || known != want {
					t.Errorf("Pod n/%s known: %t, %v", pod, known, err)
				}
			}
			var byAddress v1beta2.IPGroupAssociation
			if err := c.Get().Resource("ipgroupassociations").Name("2001:db8::1").Do(ctx).Into(&byAddress); err != nil {
				t.Fatal(err)
			}
			if byAddress.Name != "2001:db8::1" || byAddress.AssociatedGroups[0].Name != "2001:db8::1" {
				t.Errorf("got %+v", byAddress)
			}
			var group v1beta2.GroupMembers
			if err := c.Get().Namespace("n").Resource("groupmembers").Name("g").Param("page", "2").Param("limit", "7").Do(ctx).Into(&group); err != nil {
				t.Fatal(err)
			}
			if group.Namespace != "n" || group.CurrentPage != 2 || group.TotalPages != 8 || group.TotalMembers != 100 || len(group.EffectiveMembers[0].IPs[0]) != 16 {
				t.Errorf("got %+v", group)
			}
			var cluster v1beta2.ClusterGroupMembers
			if err := c.Get().Resource("clustergroupmembers").Name("g").Do(ctx).Into(&cluster); err != nil {
				t.Fatal(err)
			}
			if cluster.Name != "g" || cluster.TotalPages != 1 || cluster.CurrentPage != 0 || cluster.EffectiveIPBlocks[0].PrefixLength != 24 {
				t.Errorf("got %+v", cluster)
			}
			evaluation := v1beta2.NetworkPolicyEvaluation{Request: &v1beta2.NetworkPolicyEvaluationRequest{
				Source: v1beta2.Entity{Pod: &v1beta2.PodReference{Namespace: "n", Name: "p"}}, Destination: v1beta2.Entity{Pod: &v1beta2.PodReference{Namespace: "n", Name: "q"}}}}
			var answer v1beta2.NetworkPolicyEvaluation
			if err := c.Post().Resource("networkpolicyevaluation").Body(&evaluation).Do(ctx).Into(&answer); err != nil {
				t.Fatal(err)
			}
			if answer.Response == nil || answer.Response.RuleIndex != 3 || *answer.Response.Rule.Action != v1beta2.RuleActionDrop || answer.Request.Source.Pod.Name != "p" {
				t.Errorf("got %+v", answer)
			}
			evaluation.Request.Destination = evaluation.Request.Source
			answer = v1beta2.NetworkPolicyEvaluation{}
			if err := c.Post().Resource("networkpolicyevaluation").Body(&evaluation).Do(ctx).Into(&answer); err != nil || answer.Response != nil {
				t.Errorf("no rule: %+v %v", answer, err)
			}
		})
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	t.Parallel()
	w, a := newFullWorld(t)
	c := w.client(t, "agent", runtime.ContentTypeJSON)
	evaluate := func(body string) *rest.Request {
		return c.Post().
			Resource("networkpolicyevaluation").
			SetHeader("Content-Type", runtime.ContentTypeJSON).
			Body([]byte(`{"kind":"NetworkPolicyEvaluation","apiVersion":"controlplane.antrea.io/v1beta2"` + body + `}`))
	}
	page := func(k, v string) *rest.Request {
		return c.Get().Namespace("n").Resource("groupmembers").Name("g").Param(k, v)
	}
	for name, tt := range map[string]struct {
		request *rest.Request
		code    int32
		says    string
	}{
		"no such Pod":          {c.Get().Namespace("n").Resource("groupassociations").Name("x"), 404, "n/x"},
		"no address":           {c.Get().Resource("ipgroupassociations").Name("10.0.0.300"), 400, `"10.0.0.300" is no IP address`},
		"a CIDR":               {c.Get().AbsPath("/apis/controlplane.antrea.io/v1beta2/ipgroupassociations/10.0.0.0%2F8"), 400, "no IP address"},
		"an address and zone":  {c.Get().AbsPath("/apis/controlplane.antrea.io/v1beta2/ipgroupassociations/fe80::1%25eth0"), 400, "no IP address"},
		"no such Group":        {c.Get().Namespace("m").Resource("groupmembers").Name("g"), 404, `groups.crd.antrea.io "m/g" not found`},
		"no such ClusterGroup": {c.Get().Resource("clustergroupmembers").Name("x"), 404, `clustergroups.crd.antrea.io "x" not found`},
		"page of words":        {page("page", "one"), 400, `page "one" is no number`},
		"page too large":       {page("page", "99999999999999999999"), 400, "is no number"},
		"negative page":        {page("page", "-1"), 400, "page -1"},
		"negative limit":       {page("limit", "-5"), 400, "limit -5"},
		"no request":           {evaluate(``), 400, "request is missing"},
		"no source":            {evaluate(`,"request":{"destination":{"pod":{"name":"p","namespace":"n"}}}`), 400, "request.source.pod is missing"},
		"no namespace":         {evaluate(`,"request":{"source":{"pod":{"name":"p"}}}`), 400, `request.source.pod: namespace ""`},
		"no destination":       {evaluate(`,"request":{"source":{"pod":{"name":"p","namespace":"n"}}}`), 400, "request.destination.pod is missing"},
		"unknown source":       {evaluate(`,"request":{"source":{"pod":{"name":"unknown","namespace":"n"}},"destination":{"pod":{"name":"p","namespace":"n"}}}`), 404, "n/unknown"},
		"wrong type":           {evaluate(`,"request":7`), 400, "request"},
		"oversize":             {evaluate(`,"metadata":{"name":"` + strings.Repeat("x", 4<<20) + `"}`), 413, "too large"},
		"list":                 {c.Get().Resource("clustergroupmembers"), 404, ""},
		"delete":               {c.Delete().Resource("ipgroupassociations").Name("10.0.0.1"), 405, ""},
		"unknown resource":     {c.Get().Resource("nothings"), 404, ""},
	} {
		err := tt.request.MaxRetries(0).Do(t.Context()).Error()
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Code != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %d that says %q", name, err, tt.code, tt.says)
		}
	}
	a.ready = false
	for _, r := range []*rest.Request{page("page", "1"), c.Get().Namespace("n").Resource("groupassociations").Name("p"), c.Get().Resource("ipgroupassociations").Name("10.0.0.1")} {
		if err := r.MaxRetries(0).Do(t.Context()).Error(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("before anything is computed: %v", err)
		}
	}
}

func TestEndpointPath(t *testing.T) {
	t.Parallel()
	w, a := newFullWorld(t)
	client, err := rest.HTTPClientFor(w.config("agent", ""))
	if err != nil {
		t.Fatal(err)
	}
	get := func(query string) (int, string) {
		t.Helper()
		answer, err := client.Get("https://" + w.address + "/endpoint" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, strings.TrimSpace(string(body))
	}
	const want = `{"endpoints":[{"namespace":"default","name":"p","policies":[{"type":"AntreaNetworkPolicy","namespace":"default","name":"x","uid":"u"}],` +
		`"ingresssrcrules":[{"policyref":{"type":"AntreaNetworkPolicy","namespace":"default","name":"x","uid":"u"},"direction":"In","ruleindex":2}]}]}`
	if code, body := get("?pod=p"); code != http.StatusOK || body != want {
		t.Errorf("got %d %s", code, body)
	}
	for query, code := range map[string]int{"": 400, "?namespace=n": 400, "?pod=x&namespace=n": 404, "?pod=P%2Fq": 400} {
		if got, body := get(query); got != code || body == "" {
			t.Errorf("%s: %d %s, want %d", query, got, body, code)
		}
	}
	a.ready = false
	if code, _ := get("?pod=p"); code != http.StatusServiceUnavailable {
		t.Errorf("not ready: %d", code)
	}
	if err := w.client(t, "stranger", "").Get().AbsPath("/endpoint").Param("pod", "p").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger: %v", err)
	}
	if got, err := w.client(t, "agent", "").Get().AbsPath("/featuregates").DoRaw(t.Context()); err != nil || strings.TrimSpace(string(got)) != "[]" {
		t.Errorf("feature gates: %v: %s", err, got)
	}
	if err := w.client(t, "stranger", "").Get().AbsPath("/featuregates").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("feature gates for a stranger: %v", err)
	}
	if err := w.client(t, "agent", "").Post().AbsPath("/endpoint").Param("pod", "p").Do(t.Context()).Error(); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("post: %v", err)
	}
}

// What is always empty is a list without items, and a watch with one bookmark and silence.
func TestEmptyResources(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	for encoding, contentType := range encodings {
		for _, resource := range []string{"egressgroups", "supportbundlecollections"} {
			t.Run(resource+" in "+encoding, func(t *testing.T) {
				t.Parallel()
				checkEmpty(t, w.client(t, "agent", contentType), resource)
			})
		}
	}
	c := w.client(t, "agent", runtime.ContentTypeProtobuf)
	status := &v1beta2.SupportBundleCollectionStatus{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Nodes: []v1beta2.SupportBundleCollectionNodeStatus{{NodeName: "n1"}}}
	post := func(name string) error {
		return c.Post().Resource("supportbundlecollections").Name(name).SubResource("status").Body(status).Do(t.Context()).Error()
	}
	if err := post("b"); err != nil {
		t.Error(err)
	}
	if err := post("c"); !apierrors.IsBadRequest(err) {
		t.Errorf("names that differ: %v", err)
	}
	status.Nodes[0].NodeName = ""
	if err := post("b"); !apierrors.IsBadRequest(err) {
		t.Errorf("nobody's: %v", err)
	}
}

func checkEmpty(t *testing.T, c *rest.RESTClient, resource string) {
	t.Helper()
	object, err := c.Get().Resource(resource).Param("fieldSelector", "nodeName=n1").Do(t.Context()).Get()
	if err != nil {
		t.Fatal(err)
	}
	list, ok := object.(metav1.ListMetaAccessor)
	if !ok || list.GetListMeta().GetResourceVersion() == "" {
		t.Errorf("%s: %+v", resource, object)
	}
	if err := c.Get().Resource(resource).Name("x").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
		t.Errorf("%s: %v", resource, err)
	}
	if err := c.Get().Resource(resource).Param("fieldSelector", "spec.x=1").Do(t.Context()).Error(); !apierrors.IsBadRequest(err) {
		t.Errorf("%s: %v", resource, err)
	}
	events := silentWatch(t, c, resource)
	if len(events) != 1 || events[0].Type != watch.Bookmark {
		t.Errorf("%s: got %+v", resource, events)
	}
}

// silentWatch watches for a second, which the server ends, and returns the events.
func silentWatch(t *testing.T, c *rest.RESTClient, resource string) []watch.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := c.Get().Resource(resource).Param("watch", "true").Param("fieldSelector", "nodeName=n1").Param("timeoutSeconds", "1").Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var out []watch.Event
	for event := range w.ResultChan() {
		out = append(out, event)
	}
	return out
}

func TestEverythingIsDiscovered(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	d, err := discovery.NewDiscoveryClientForConfig(w.config("agent", ""))
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range lists {
		group, _, _ := strings.Cut(l.GroupVersion, ".")
		for _, r := range l.APIResources {
			scope := "cluster"
			if r.Namespaced {
				scope = "namespaced"
			}
			got[group+" "+r.Name] = fmt.Sprintf("%s %s %s", r.Kind, scope, strings.Join(r.Verbs, ","))
		}
	}
	for name, want := range map[string]string{
		"controlplane networkpolicies":                 "NetworkPolicy cluster get,list,watch",
		"controlplane networkpolicies/status":          "NetworkPolicyStatus cluster create",
		"controlplane addressgroups":                   "AddressGroup cluster get,list,watch",
		"controlplane appliedtogroups":                 "AppliedToGroup cluster get,list,watch",
		"controlplane egressgroups":                    "EgressGroup cluster get,list,watch",
		"controlplane supportbundlecollections":        "SupportBundleCollection cluster get,list,watch",
		"controlplane supportbundlecollections/status": "SupportBundleCollectionStatus cluster create",
		"controlplane nodestatssummaries":              "NodeStatsSummary cluster create",
		"controlplane groupassociations":               "GroupAssociation namespaced get",
		"controlplane ipgroupassociations":             "IPGroupAssociation cluster get",
		"controlplane groupmembers":                    "GroupMembers namespaced get",
		"controlplane clustergroupmembers":             "ClusterGroupMembers cluster get",
		"controlplane networkpolicyevaluation":         "NetworkPolicyEvaluation cluster create",
		"stats networkpolicystats":                     "NetworkPolicyStats namespaced get,list",
		"stats antreanetworkpolicystats":               "AntreaNetworkPolicyStats namespaced get,list",
		"stats antreaclusternetworkpolicystats":        "AntreaClusterNetworkPolicyStats cluster get,list",
		"stats multicastgroups":                        "MulticastGroup cluster get,list",
		"stats nodelatencystats":                       "NodeLatencyStats cluster create,delete,get,list",
		"system controllerinfos":                       "AntreaControllerInfo cluster get,list",
		"system supportbundles":                        "SupportBundle cluster create,delete,get",
		"system supportbundles/download":               "SupportBundle cluster get",
		"analysis flowreviews":                         "FlowReview cluster create",
		"analysis reachreviews":                        "ReachReview cluster create",
		"analysis effectiverules":                      "EffectiveRules cluster create",
		"analysis planreviews":                         "PlanReview cluster create",
		"analysis flowqueries":                         "FlowQuery cluster create",
		"analysis trafficreports":                      "TrafficReport cluster create",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more than expected: %v", got)
	}
	for path, kinds := range map[string][]string{
		"/openapi/v3/apis/controlplane.antrea.io/v1beta2": {"v1beta2.ClusterGroupMembers\"", "v1beta2.NodeStatsSummary\"", "v1beta2.SupportBundleCollection\"", "\"limit\""},
		"/openapi/v3/apis/stats.antrea.io/v1alpha1":       {"v1alpha1.AntreaNetworkPolicyStats\"", "v1alpha1.NodeLatencyStats\"", "lastMeasuredRTTNanoseconds"},
		"/openapi/v3/apis/system.antrea.io/v1beta1":       {"v1beta1.AntreaControllerInfo\"", "connectedAgentNum"},
		"/openapi/v3/apis/analysis.nephele.io/v1alpha1":   {"v1alpha1.FlowReview\"", "v1alpha1.Decision\"", "asOf"},
		"/openapi/v2": {"v1alpha1.MulticastGroup\"", "v1beta2.GroupAssociation\""},
	} {
		raw, err := w.client(t, "agent", "").Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			if !strings.Contains(string(raw), kind) {
				t.Errorf("%s lacks %s", path, kind)
			}
		}
		if !json.Valid(raw) || strings.Contains(string(raw), "__internal") {
			t.Errorf("%s is damaged, or names the internal version", path)
		}
		// kubectl looks references up as they are written.
		if strings.Contains(string(raw), "~1nephele") {
			t.Errorf("%s has references with escaped slashes", path)
		}
	}
}

// Every resource can be shown as a table.
func TestTables(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	w.fill()
	w.book.Begin(stats.Policy{Kind: v1beta2.K8sNetworkPolicy, Namespace: "n", Name: "k", UID: "1"})
	w.book.Begin(stats.Policy{Kind: v1beta2.AntreaNetworkPolicy, Namespace: "n", Name: "a", UID: "2"})
	w.book.Begin(stats.Policy{Kind: v1beta2.AntreaClusterNetworkPolicy, Name: "c", UID: "3"})
	counters := v1beta2.TrafficStats{Packets: 2, Bytes: 300, Sessions: 1}
	summary := &v1beta2.NodeStatsSummary{
		NetworkPolicies: []v1beta2.NetworkPolicyStats{{NetworkPolicy: v1beta2.NetworkPolicyReference{UID: "1"}, TrafficStats: counters}},
		Multicast: []v1beta2.MulticastGroupInfo{
			{Group: "225.1.1.1", Pods: []v1beta2.PodReference{{Namespace: "n", Name: "a"}, {Namespace: "n", Name: "b"}, {Namespace: "n", Name: "c"}, {Namespace: "n", Name: "d"}}},
		},
	}
	w.book.Add("n1", summary, anyPolicy{})
	c, s := w.client(t, "agent", ""), w.statsClient(t, "agent", "")
	traffic := "Name Sessions Packets Bytes Created At"
	for name, tt := range map[string]struct {
		request *rest.Request
		columns string
		cells   string
	}{
		"policies":      {c.Get().Resource("networkpolicies"), "Name Created At", "u1"},
		"one policy":    {c.Get().Resource("networkpolicies").Name("u1"), "Name Created At", "u1"},
		"groups":        {c.Get().Resource("addressgroups"), "Name Created At", "ag"},
		"no Egresses":   {c.Get().Resource("egressgroups"), "Name Created At", ""},
		"no bundles":    {c.Get().Resource("supportbundlecollections"), "Name Created At", ""},
		"members":       {c.Get().Resource("clustergroupmembers").Name("g"), "Name Created At", "g"},
		"associations":  {c.Get().Namespace("n").Resource("groupassociations").Name("p"), "Name Created At", "p"},
		"Kubernetes":    {s.Get().Resource("networkpolicystats"), traffic, "k 1 2 300"},
		"one of them":   {s.Get().Namespace("n").Resource("networkpolicystats").Name("k"), traffic, "k 1 2 300"},
		"Antrea":        {s.Get().Namespace("n").Resource("antreanetworkpolicystats"), traffic, "a 0 0 0"},
		"cluster-wide":  {s.Get().Resource("antreaclusternetworkpolicystats"), traffic, "c 0 0 0"},
		"multicast":     {s.Get().Resource("multicastgroups"), "Group Pods", "225.1.1.1 n/a,n/b,n/c + 1 more..."},
		"no latencies":  {s.Get().Resource("nodelatencystats"), "Node Name Num Latency Entries Avg Latency Max Latency", ""},
		"no namespaces": {s.Get().Namespace("x").Resource("networkpolicystats"), traffic, ""},
	} {
		got := table(t, tt.request)
		var columns []string
		for _, d := range got.ColumnDefinitions {
			columns = append(columns, d.Name)
		}
		cells := ""
		for _, r := range got.Rows {
			cells += strings.Trim(fmt.Sprint(r.Cells), "[]")
		}
		if strings.Join(columns, " ") != tt.columns || !strings.HasPrefix(cells, tt.cells) || tt.cells == "" && cells != "" {
			t.Errorf("%s: %v %q, want %q %q", name, columns, cells, tt.columns, tt.cells)
		}
	}
}

func TestControllerInfo(t *testing.T) {
	t.Parallel()
	w, a := newFullWorld(t)
	body, err := w.client(t, "agent", "").Get().Resource("appliedtogroups").Param("watch", "true").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	get := func(path string) (info systemv1beta1.AntreaControllerInfo) {
		t.Helper()
		raw, err := w.client(t, "agent", "").Get().AbsPath("/apis/system.antrea.io/v1beta1/controllerinfos"+path).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &info); err != nil {
			t.Fatal(err)
		}
		return info
	}
	info := get("/antrea-controller")
	if info.Kind != "AntreaControllerInfo" || info.Name != "antrea-controller" || info.ConnectedAgentNum != 1 || info.APIPort == 0 || info.Version != "v1" ||
		info.NetworkPolicyControllerInfo != (systemv1beta1.NetworkPolicyControllerInfo{NetworkPolicyNum: 3, AddressGroupNum: 2, AppliedToGroupNum: 1}) ||
		info.ControllerConditions[0].Status != metav1.ConditionTrue {
		t.Errorf("got %+v", info)
	}
	a.ready = false
	if c := get("/antrea-controller").ControllerConditions[0]; c.Status != metav1.ConditionFalse || c.Reason != "Starting" {
		t.Errorf("got %+v", c)
	}
	if list := get(""); list.Kind != "AntreaControllerInfoList" {
		t.Errorf("got %+v", list)
	}
	if err := w.client(t, "agent", "").Get().AbsPath("/apis/system.antrea.io/v1beta1/controllerinfos/other").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// A client of another server's age is told so, with the time that a retry makes sense after.
func TestIdleWatchResumes(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	c := w.client(t, "agent", runtime.ContentTypeJSON)
	for position, expired := range map[string]bool{"1": false, "7": true} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		body, err := c.Get().Resource("egressgroups").Param("watch", "true").Param("resourceVersion", position).Param("timeoutSeconds", "1").Stream(ctx)
		if err == nil {
			body.Close()
		}
		cancel()
		if apierrors.IsResourceExpired(err) != expired {
			t.Errorf("position %s: %v", position, err)
		}
	}
}
