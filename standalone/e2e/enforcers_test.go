package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/tier"
)

// enforcers is a cluster with two agents: one in a Pod on Node n1, one on a VM, ExternalNode vm1 in
// namespace vms.
type enforcers struct {
	*cluster
	config *rest.Config
	kube   *kubernetes.Clientset
	// pod and vm are the tokens of the agents.
	pod, vm string
}

func newEnforcers(t *testing.T) *enforcers {
	t.Helper()
	e := &enforcers{cluster: pooledCluster(t)}
	var err error
	if e.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(e.dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	if e.kube, err = kubernetes.NewForConfig(e.config); err != nil {
		t.Fatal(err)
	}
	no := false
	object := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	subjects := []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "antrea-agent"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "vms", Name: "vm-agent"},
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: object("", "vms")},
		&corev1.Node{ObjectMeta: object("", "n1")},
		&corev1.ServiceAccount{ObjectMeta: object("kube-system", "antrea-agent")},
		&corev1.ServiceAccount{ObjectMeta: object("vms", "vm-agent")},
		&corev1.Pod{ObjectMeta: object("kube-system", "antrea-agent-1"), Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "antrea-agent", AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "none"}}}},
		&rbacv1.ClusterRole{ObjectMeta: object("", "policy-agent"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"networkpolicies", "addressgroups", "appliedtogroups"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"networkpolicies/status", "nodestatssummaries"}, Verbs: []string{"create"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: object("", "policy-agent"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "policy-agent"}, Subjects: subjects},
		&rbacv1.Role{ObjectMeta: object("vms", "vm1"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"enforcers"}, ResourceNames: []string{"vm1"}, Verbs: []string{"enforce"}}}},
		&rbacv1.RoleBinding{ObjectMeta: object("vms", "vm1"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "vm1"}, Subjects: subjects[1:]},
		&v1alpha1.ExternalNode{ObjectMeta: object("vms", "vm1"), Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.0.0.1"}}}}},
		&v1beta1.NetworkPolicy{ObjectMeta: object("vms", "deny"), Spec: v1beta1.NetworkPolicySpec{
			Priority: 1, AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{}}}, Ingress: []v1beta1.Rule{{Action: v1beta1.RuleActionDrop, Name: "all"}}}},
	} {
		if err := e.client.Create(t.Context(), o); err != nil {
			t.Fatalf("%T %s: %v", o, o.GetName(), err)
		}
	}
	e.pod = e.token(t, "kube-system", "antrea-agent", &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "antrea-agent-1"})
	e.vm = e.token(t, "vms", "vm-agent", nil)
	return e
}

func (e *enforcers) token(t *testing.T, namespace, name string, bound *authenticationv1.BoundObjectReference) string {
	t.Helper()
	hour := int64(3600)
	r, err := e.kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour, BoundObjectRef: bound}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// ways are how an agent reaches the API: through kube-apiserver, and directly.
func (e *enforcers) ways(t *testing.T, token string) map[string]*rest.RESTClient {
	t.Helper()
	s := runtime.NewScheme()
	if err := apiregistrationv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	registry, err := client.New(e.config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	var service apiregistrationv1.APIService
	if err := registry.Get(t.Context(), client.ObjectKey{Name: "v1beta2.controlplane.antrea.io"}, &service); err != nil {
		t.Fatal(err)
	}
	out := map[string]*rest.RESTClient{}
	for name, cfg := range map[string]*rest.Config{
		"forwarded": {Host: e.config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: e.config.CAData, CAFile: e.config.CAFile}},
		"direct": {Host: fmt.Sprintf("https://127.0.0.1:%d", *service.Spec.Service.Port),
			TLSClientConfig: rest.TLSClientConfig{CAData: service.Spec.CABundle, ServerName: "antrea.kube-system.svc"}},
	} {
		cfg.BearerToken, cfg.APIPath, cfg.QPS, cfg.Burst = token, "/apis", 200, 400
		cfg.GroupVersion = &schema.GroupVersion{Group: "controlplane.antrea.io", Version: "v1beta2"}
		cfg.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
		if out[name], err = rest.RESTClientFor(cfg); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestEnforcersHaveTheirOwnKey: an agent in a Pod acts for its Node by its token alone, one on a VM
// by a Role; neither acts for anybody else, and what they count is added up. All of that with the
// cluster's own authentication and RBAC.
func TestEnforcersHaveTheirOwnKey(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestEnforcersActForThemselves and TestStatisticsOfManyEnforcers (apiserver); TestEnroll and TestNodeAgent show both ways in by real RBAC")
	e := newEnforcers(t)
	for who, agent := range map[string]struct{ token, key string }{"pod": {e.pod, "n1"}, "vm": {e.vm, "vms/vm1"}} {
		for way, c := range e.ways(t, agent.token) {
			eventually(t, who+" "+way+" may read its own", func(ctx context.Context) (bool, string) {
				err := c.Get().Resource("networkpolicies").Param("fieldSelector", "nodeName="+agent.key).Do(ctx).Error()
				return err == nil, fmt.Sprint(err)
			})
			for _, key := range []string{"", "n2", "vms/vm2", "vm1"} {
				r := c.Get().Resource("addressgroups")
				if key != "" {
					r = r.Param("fieldSelector", "nodeName="+key)
				}
				if err := r.Do(t.Context()).Error(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `verb "enforce" on resource "enforcers"`) {
					t.Errorf("%s %s reads for %q: %v", who, way, key, err)
				}
			}
			status := fmt.Sprintf(`{"kind":"NetworkPolicyStatus","apiVersion":"controlplane.antrea.io/v1beta2","metadata":{"name":"u"},"nodes":[{"nodeName":%q}]}`, agent.key)
			post := func(body string) error {
				return c.Post().Resource("networkpolicies").Name("u").SubResource("status").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
			}
			if err := post(status); !apierrors.IsNotFound(err) { // it may, and was not given the policy
				t.Errorf("%s %s reports: %v", who, way, err)
			}
			if err := post(strings.Replace(status, agent.key, "other", 1)); !apierrors.IsForbidden(err) {
				t.Errorf("%s %s reports for others: %v", who, way, err)
			}
		}
	}
	e.countsAreAddedUp(t)
}

// countsAreAddedUp has the VM's agent report twice, with a rule that there is and one that there is
// not, and the Pod's, which the policy does not concern, as well.
func (e *enforcers) countsAreAddedUp(t *testing.T) {
	t.Helper()
	var deny v1beta1.NetworkPolicy
	if err := e.client.Get(t.Context(), client.ObjectKey{Namespace: "vms", Name: "deny"}, &deny); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy concerns the VM", func(ctx context.Context) (bool, string) {
		raw, err := e.ways(t, e.vm)["direct"].Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=vms/vm1").SetHeader("Accept", "application/json").DoRaw(ctx)
		return err == nil && strings.Contains(string(raw), string(deny.UID)), fmt.Sprint(string(raw), err)
	})
	for name, token := range map[string]string{"vm1": e.vm, "n1": e.pod} {
		summary := fmt.Sprintf(`{"kind":"NodeStatsSummary","apiVersion":"controlplane.antrea.io/v1beta2","metadata":{"name":%q},`+
			`"antreaNetworkPolicies":[{"networkPolicy":{"uid":%q},"ruleTrafficStats":[{"name":"all","trafficStats":{"packets":1,"bytes":64,"sessions":1}},`+
			`{"name":"made up","trafficStats":{"packets":1,"bytes":64}}]}]}`, name, deny.UID)
		for _, c := range e.ways(t, token) {
			if err := c.Post().Resource("nodestatssummaries").SetHeader("Content-Type", "application/json").Body([]byte(summary)).Do(t.Context()).Error(); err != nil {
				t.Error(err)
			}
		}
	}
	raw, err := e.kube.Discovery().
		RESTClient().
		Get().
		AbsPath("/apis/stats.antrea.io/v1alpha1/namespaces/vms/antreanetworkpolicystats/deny").
		SetHeader("Accept", "application/json").
		DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		TrafficStats     struct{ Packets, Bytes, Sessions int64 }
		RuleTrafficStats []struct{ Name string }
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.TrafficStats.Packets != 4 || got.TrafficStats.Bytes != 256 || got.TrafficStats.Sessions != 2 || len(got.RuleTrafficStats) != 1 {
		t.Errorf("got %s", raw)
	}
}
