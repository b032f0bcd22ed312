package apiserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

var encodings = map[string]string{"JSON": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf}

func TestGetAndList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	for name, contentType := range encodings {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			c := w.client(t, "agent", contentType)
			var policy v1beta2.NetworkPolicy
			if err := c.Get().Resource("networkpolicies").Name("u1").Do(ctx).Into(&policy); err != nil {
				t.Fatal(err)
			}
			if policy.SourceRef == nil || policy.SourceRef.Name != "policy-u1" || policy.Rules[0].From.AddressGroups[0] != "ag" {
				t.Errorf("got %+v", policy)
			}
			var groups v1beta2.AppliedToGroupList
			if err := c.Get().Resource("appliedtogroups").Param("fieldSelector", "nodeName=b").Do(ctx).Into(&groups); err != nil {
				t.Fatal(err)
			}
			if len(groups.Items) != 1 || len(groups.Items[0].GroupMembers) != 1 || groups.Items[0].GroupMembers[0].Pod.Name != "p2" || groups.ResourceVersion == "" {
				t.Errorf("got %+v", groups)
			}
			var addresses v1beta2.AddressGroupList
			if err := c.Get().Resource("addressgroups").Param("fieldSelector", "metadata.name=ag,nodeName=a").Do(ctx).Into(&addresses); err != nil {
				t.Fatal(err)
			}
			if len(addresses.Items) != 1 || len(addresses.Items[0].GroupMembers[0].IPs[0]) != 16 {
				t.Errorf("got %+v", addresses)
			}
			err := c.Get().Resource("addressgroups").Name("none").Do(ctx).Error()
			if !apierrors.IsNotFound(err) {
				t.Errorf("of a group that is not there: %v", err)
			}
		})
	}
}

func TestSelections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	for name, tt := range map[string]struct {
		params map[string]string
		want   int
		refuse string
	}{
		"everything":        {nil, 1, ""},
		"own key":           {map[string]string{"fieldSelector": "nodeName=a"}, 1, ""},
		"other key":         {map[string]string{"fieldSelector": "nodeName=c"}, 0, ""},
		"other name":        {map[string]string{"fieldSelector": "metadata.name=u2"}, 0, ""},
		"labels":            {map[string]string{"labelSelector": "a=b"}, 0, ""},
		"no labels":         {map[string]string{"labelSelector": "!a"}, 1, ""},
		"unknown field":     {map[string]string{"fieldSelector": "spec.tier=x"}, 0, "spec.tier"},
		"namespace":         {map[string]string{"fieldSelector": "metadata.namespace=x"}, 0, "metadata.namespace"},
		"not equal":         {map[string]string{"fieldSelector": "nodeName!=a"}, 0, "only = is allowed"},
		"empty key":         {map[string]string{"fieldSelector": "nodeName="}, 0, "is empty"},
		"two keys":          {map[string]string{"fieldSelector": "nodeName=a,nodeName=b"}, 0, "cannot be both"},
		"page":              {map[string]string{"continue": "x"}, 0, "nothing to continue"},
		"selector damaged":  {map[string]string{"fieldSelector": "nodeName"}, 0, "invalid"},
		"labels damaged":    {map[string]string{"labelSelector": "a in"}, 0, "parse"},
		"watch from a word": {map[string]string{"watch": "true", "resourceVersion": "x"}, 0, "not a number"},
		"watch a field":     {map[string]string{"watch": "true", "fieldSelector": "spec.x=y"}, 0, "spec.x"},
	} {
		r := w.client(t, "agent", runtime.ContentTypeJSON).Get().Resource("networkpolicies")
		for k, v := range tt.params {
			r = r.Param(k, v)
		}
		var got v1beta2.NetworkPolicyList
		err := r.Do(context.Background()).Into(&got)
		switch {
		case tt.refuse != "" && (!apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), tt.refuse)):
			t.Errorf("%s: got %v, want 400 that says %q", name, err, tt.refuse)
		case tt.refuse == "" && (err != nil || len(got.Items) != tt.want):
			t.Errorf("%s: got %d, %v, want %d", name, len(got.Items), err, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	raw, err := w.client(t, "agent", "").Get().Resource("networkpolicies").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	if table.Kind != "Table" || len(table.ColumnDefinitions) != 2 || len(table.Rows) != 1 || table.Rows[0].Cells[0] != "u1" {
		t.Errorf("got %s", raw)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	post := func(contentType, name string, s *v1beta2.NetworkPolicyStatus) *rest.Request {
		return w.client(t, "agent", contentType).Post().Resource("networkpolicies").Name(name).SubResource("status").Body(s)
	}
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("u1", 3, "ns/vm")}})
	status := &v1beta2.NetworkPolicyStatus{
		ObjectMeta: metav1.ObjectMeta{Name: "u1"},
		Nodes:      []v1beta2.NetworkPolicyNodeStatus{{NodeName: "ns/vm", Generation: 3, RealizationFailure: true, Message: "quota"}},
	}
	for _, contentType := range encodings {
		var answer metav1.Status
		raw, err := post(contentType, "u1", status).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &answer); err != nil || answer.Status != metav1.StatusSuccess || answer.Kind != "Status" {
			t.Errorf("answered %s (%v)", raw, err)
		}
	}
	if err := post(runtime.ContentTypeJSON, "u1", status).Param("dryRun", "All").Do(ctx).Error(); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if err := post(runtime.ContentTypeJSON, "u2", status).Do(ctx).Error(); !apierrors.IsBadRequest(err) {
		t.Errorf("names that differ: %v", err)
	}
	nobody := status.DeepCopy()
	nobody.Nodes[0].NodeName = ""
	if err := post(runtime.ContentTypeJSON, "u1", nobody).Do(ctx).Error(); !apierrors.IsBadRequest(err) {
		t.Errorf("nobody's status: %v", err)
	}
	for _, body := range []string{"", "{", `{"kind":"NetworkPolicyStatus","apiVersion":"controlplane.antrea.io/v1beta2","nodes":7}`, `{"kind":"Pod","apiVersion":"v1"}`, "k8s\x00\x0a\xff"} {
		err := w.client(t, "agent", runtime.ContentTypeJSON).Post().Resource("networkpolicies").Name("u1").SubResource("status").
			SetHeader("Content-Type", runtime.ContentTypeJSON).Body([]byte(body)).Do(ctx).Error()
		if err == nil || apierrors.IsInternalError(err) && body != "" {
			t.Errorf("body %q: %v", body, err)
		}
	}
	got := w.reports.all()
	if len(got) != 2 || got[0].Name != "u1" || got[0].Nodes[0] != status.Nodes[0] || got[1].Nodes[0] != status.Nodes[0] {
		t.Errorf("reported %+v", got)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	if err := w.client(t, "stranger", "").Get().Resource("networkpolicies").Do(ctx).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger: %v", err)
	}
	if err := w.client(t, "", "").Get().Resource("networkpolicies").Do(ctx).Error(); !apierrors.IsUnauthorized(err) {
		t.Errorf("nobody: %v", err)
	}
	if err := w.client(t, "agent", "").Delete().Resource("networkpolicies").Name("u1").Do(ctx).Error(); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("delete: %v", err)
	}
	foreign := newWorld(t)
	cfg := w.config("agent", "")
	cfg.CAData = foreign.ca
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get().AbsPath("/livez").Do(ctx).Error(); err == nil {
		t.Error("a certificate of another authority was taken")
	}
}

func TestDiscoveryAndOpenAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, err := discovery.NewDiscoveryClientForConfig(w.config("agent", ""))
	if err != nil {
		t.Fatal(err)
	}
	resources, err := d.ServerResourcesForGroupVersion(v1beta2.GroupVersion().String())
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string]string{}
	for _, r := range resources.APIResources {
		verbs[r.Name] = r.Kind + " " + strings.Join(r.Verbs, " ")
		if r.Namespaced {
			t.Errorf("%s is namespaced", r.Name)
		}
	}
	for name, want := range map[string]string{
		"networkpolicies": "NetworkPolicy get list watch", "networkpolicies/status": "NetworkPolicyStatus create",
		"addressgroups": "AddressGroup get list watch", "appliedtogroups": "AppliedToGroup get list watch",
	} {
		if verbs[name] != want {
			t.Errorf("%s: %q, want %q", name, verbs[name], want)
		}
	}
	raw, err := w.client(t, "agent", "").Get().AbsPath("/openapi/v3/apis/controlplane.antrea.io/v1beta2").DoRaw(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"v1beta2.GroupMember\"", "v1beta2.NetworkPolicyRule\"", "x-kubernetes-group-version-kind", "tierPriority"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the description lacks %s", want)
		}
	}
	if strings.Contains(string(raw), "__internal") {
		t.Error("the description names the internal version")
	}
	if _, err := d.OpenAPISchema(); err != nil {
		t.Errorf("OpenAPI v2: %v", err)
	}
}

// Before the first computation nothing is served that could be taken for "no policies".
func TestNotReady(t *testing.T) {
	t.Parallel()
	w := serve(t, watchstore.New(watchstore.Options{}), "127.0.0.1:0")
	ctx := context.Background()
	c := w.client(t, "agent", "")
	for _, r := range []*rest.Request{c.Get().Resource("networkpolicies"), c.Get().Resource("networkpolicies").Name("u1")} {
		if err := r.MaxRetries(0).Do(ctx).Error(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("got %v", err)
		}
	}
	if err := c.Get().AbsPath("/readyz").Do(ctx).Error(); err == nil {
		t.Error("ready")
	}
	w.store.Publish(watchstore.Changes{})
	if err := c.Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		t.Error(err)
	}
}
