package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

const manifests = "../../config"

// overlay is config/ with the rights to Secrets of some namespaces only.
const overlay = manifests + "/overlays/secrets-per-namespace"

// built is what "kubectl apply -k" applies.
func built(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, r := range all.Resources() {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(r.MustYaml()), &o.Object); err != nil {
			t.Fatalf("%s: %v", r.CurId(), err)
		}
		out = append(out, o)
	}
	return out
}

// TestManifestGivesNoMoreThanNamed: no rule of ours gives everything of something.
func TestManifestGivesNoMoreThanNamed(t *testing.T) {
	t.Parallel()
	for _, o := range built(t, manifests) {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			for _, part := range slices.Concat(r.APIGroups, r.Resources, r.Verbs) {
				if part == "*" {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), r)
				}
			}
		}
	}
}

// TestManifestInExistingCluster runs the controller with the arguments of the Deployment and the
// rights of its ServiceAccount, and has it do some of everything: once as it is, when
// kube-apiserver, which has no cluster network here, does not reach its Service; and once without
// webhooks, which that one would have to reach.
func TestManifestInExistingCluster(t *testing.T) {
	t.Parallel()
	x := newExisting(t, manifests)
	p := x.start()
	x.registered(p)
	x.served(p)
	x.scraped(p)
	p = x.replaced(p)
	p.end()
	state, _, err := estate.HybridCloud()
	x.must(err)
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	x.must(err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	p = x.start("--without-webhooks", "--history-versions=1")
	eventually(t, "the webhooks are removed", func(ctx context.Context) (bool, string) {
		m, err1 := x.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "crdmutator.antrea.io", metav1.GetOptions{})
		v, err2 := x.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "crdvalidator.antrea.io", metav1.GetOptions{})
		return err1 == nil && err2 == nil && len(m.Webhooks)+len(v.Webhooks) == 0, fmt.Sprint(err1, err2)
	})
	x.told(p)
	x.enforced(server)
	x.remembered()
	p.end()
	x.recorded()
	// Without accounts it works without the rights that are for accounts.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nephele-controller"}}
	edit(t, x.admin, role, func() {
		role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, "crd.cloud.antrea.io") || slices.Contains(r.Resources, "secrets")
		})
	})
	p = x.start("--without-webhooks", "--no-clouds")
	x.ready(p)
	p.end()
	// Equal events about one and the same version of an object become a series, which is a patch;
	// too rare to bring about. What an agent is told of the cloud needs an agent (TestAgented).
	// There is no native service here and no service tag of Azure, no interface is selected, and no
	// cluster-wide policy has a history. Nothing is traced or captured here (TestNodeAgent), and by
	// the right to delete these the admission policies for agents know the controller.
	rare := []string{"patch events.events.k8s.io", "breakglass virtualmachines.crd.cloud.antrea.io", "patch antreaagentinfos.crd.antrea.io", "record clusterpolicyrevisions.nephele.io"}
	for _, verb := range []string{"create", "patch", "delete"} {
		rare = append(rare, verb+" groups.crd.antrea.io")
	}
	for _, kind := range []string{"traceflows", "packetcaptures"} {
		rare = append(rare, "update "+kind+"/status.crd.antrea.io", "delete "+kind+".crd.antrea.io")
	}
	// There is no Egress.
	rare = append(rare, "update egresses.crd.antrea.io", "update egresses/status.crd.antrea.io", "update externalippools/status.crd.antrea.io", "list leases.coordination.k8s.io")
	for _, kind := range []string{"cloudnativeservices", "networkinterfaces"} {
		for _, verb := range []string{"create", "patch", "delete", "breakglass"} {
			rare = append(rare, verb+" "+kind+".crd.cloud.antrea.io")
		}
		rare = append(rare, "update "+kind+"/status.crd.cloud.antrea.io")
	}
	for _, u := range x.recorder.unused(t, x.objects) {
		if !slices.Contains(rare, u) {
			t.Errorf("the manifest gives a right that nobody uses: %s", u)
		}
	}
}

// registered waits until the controller has told kube-apiserver about itself, and sees to it that
// it keeps doing so.
func (x *existing) registered(p *pod) {
	api := schemaOf("apiregistration.k8s.io", "v1", "APIService", "v1beta2.controlplane.antrea.io")
	there := func(ctx context.Context) (bool, string) {
		m, err1 := x.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "crdmutator.antrea.io", metav1.GetOptions{})
		v, err2 := x.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "crdvalidator.antrea.io", metav1.GetOptions{})
		ca, err3 := x.kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "antrea-ca", metav1.GetOptions{})
		err4 := x.admin.Get(ctx, client.ObjectKeyFromObject(api), api)
		_, err5 := x.kube.CoordinationV1().Leases("kube-system").Get(ctx, "nephele-controller", metav1.GetOptions{})
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return false, err.Error()
		}
		// The manifest has all objects; what is new is the bundle.
		bundle, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle")
		return strings.Contains(ca.Data["ca.crt"], "BEGIN CERTIFICATE") && bundle != "" && len(m.Webhooks[0].ClientConfig.CABundle) > 0 &&
			len(v.Webhooks[0].ClientConfig.CABundle) > 0, "no bundle"
	}
	eventually(x.t, "everything is registered", there)
	// What somebody has changed is put back: the rights to change, not only to make.
	edit(x.t, x.admin, api, func() {
		unstructured.RemoveNestedField(api.Object, "spec", "caBundle")
		x.must(unstructured.SetNestedField(api.Object, true, "spec", "insecureSkipTLSVerify"))
	})
	ca, err := x.kube.CoreV1().ConfigMaps("kube-system").Get(x.t.Context(), "antrea-ca", metav1.GetOptions{})
	x.must(err)
	ca.Data["ca.crt"] = ""
	_, err = x.kube.CoreV1().ConfigMaps("kube-system").Update(x.t.Context(), ca, metav1.UpdateOptions{})
	x.must(err)
	for _, path := range []string{"mutatingwebhookconfigurations/crdmutator.antrea.io", "validatingwebhookconfigurations/crdvalidator.antrea.io"} {
		x.must(x.kube.AdmissionregistrationV1().RESTClient().Patch("application/merge-patch+json").AbsPath("/apis/admissionregistration.k8s.io/v1/" + path).
			Body([]byte(`{"webhooks": []}`)).Do(x.t.Context()).Error())
	}
	eventually(x.t, "what was changed is put back", func(ctx context.Context) (bool, string) {
		ca, err1 := x.kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "antrea-ca", metav1.GetOptions{})
		err2 := x.admin.Get(ctx, client.ObjectKeyFromObject(api), api)
		m, err3 := x.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "crdmutator.antrea.io", metav1.GetOptions{})
		v, err4 := x.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "crdvalidator.antrea.io", metav1.GetOptions{})
		bundle, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle")
		return err1 == nil && err2 == nil && err3 == nil && err4 == nil && ca.Data["ca.crt"] != "" && bundle != "" && len(m.Webhooks) > 0 && len(v.Webhooks) > 0,
			fmt.Sprint(err1, err2, err3, err4)
	})
}

func schemaOf(group, version, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(group + "/" + version)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// served asks the controller as an agent with the rights of config/agents does, and as
// kube-apiserver asks its webhooks.
func (x *existing) served(p *pod) {
	ctx := x.t.Context()
	x.must(x.admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}}))
	x.must(x.admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-agent"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "agent"}},
	}))
	x.must(x.admin.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "vm-1"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"enforcers"}, ResourceNames: []string{"vm-1"}, Verbs: []string{"enforce"}},
		},
	}))
	x.must(x.admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "vm-1"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vm-1"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "agent"}},
	}))
	token := x.token("default", "agent")
	eventually(x.t, "an agent is served its own part", func(ctx context.Context) (bool, string) {
		code, answer, err := p.ask(ctx, http.MethodGet, computedPath+"addressgroups?fieldSelector=nodeName%3Dvm-1", token, nil)
		return code == http.StatusOK, fmt.Sprint(code, string(answer), err)
	})
	if code, answer, err := p.ask(ctx, http.MethodGet, computedPath+"addressgroups?fieldSelector=nodeName%3Dvm-2", token, nil); code != http.StatusForbidden {
		x.t.Errorf("the part of somebody else: %d %s %v", code, answer, err)
	}
	x.enrolled(p)
	review := fromText(x.t, `
apiVersion: admission.k8s.io/v1
kind: AdmissionReview
request:
  uid: "1"
  kind: {group: crd.antrea.io, version: v1beta1, kind: NetworkPolicy}
  resource: {group: crd.antrea.io, version: v1beta1, resource: networkpolicies}
  operation: CREATE
  name: p
  namespace: default
  object:
    apiVersion: crd.antrea.io/v1beta1
    kind: NetworkPolicy
    metadata: {namespace: default, name: p}
    spec: {tier: missing, priority: 1, appliedTo: [{podSelector: {}}]}`)
	// It looks into the API itself before it refuses for a tier that is not there.
	code, answer, err := p.ask(ctx, http.MethodPost, "/validate/annp", "", review.Object)
	if err != nil || code != http.StatusOK || !strings.Contains(string(answer), "missing") || !strings.Contains(string(answer), `"allowed":false`) {
		x.t.Errorf("webhook: %d %s %v", code, answer, err)
	}
}

// enrolled lets a host enroll by a token, which then tells about itself.
func (x *existing) enrolled(p *pod) {
	ctx, host := x.t.Context(), credential.Host{Namespace: "default", Name: "enrolled"}
	x.must(x.admin.Create(ctx, &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name},
		Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.9.0.1"}}}}}))
	key, err := credential.NewKey()
	x.must(err)
	var papers credential.Papers
	eventually(x.t, "a host enrolls", func(ctx context.Context) (bool, string) {
		i, _, err := enroll.Invite(ctx, x.admin, host, time.Hour, time.Now())
		if err == nil {
			papers, err = credential.Join(ctx, "https://"+p.api, i, nil, key)
		}
		return err == nil, fmt.Sprint(err)
	})
	gv := v1beta1.GroupVersion()
	scheme := runtime.NewScheme()
	x.must(v1beta1.AddToScheme(scheme))
	c, err := rest.RESTClientFor(&rest.Config{Host: "https://" + p.api, APIPath: "/apis",
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(papers.Authority), ServerName: credential.ServerName, CertData: []byte(papers.Certificate), KeyData: key.Private},
		ContentConfig:   rest.ContentConfig{GroupVersion: &gv, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(), ContentType: runtime.ContentTypeJSON}})
	x.must(err)
	eventually(x.t, "it tells about itself", func(ctx context.Context) (bool, string) {
		info := &v1beta1.AntreaAgentInfo{}
		err := c.Get().Resource("antreaagentinfos").Name(host.Name).Do(ctx).Into(info)
		if err == nil {
			info.Version = "v1"
			err = c.Put().Resource("antreaagentinfos").Name(host.Name).Body(info).Do(ctx).Error()
		}
		return err == nil, fmt.Sprint(err)
	})
	x.must(x.admin.Delete(ctx, &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}))
}

// scraped asks for the metrics as a stranger, as somebody who may not read them, and as somebody
// who may.
func (x *existing) scraped(p *pod) {
	ctx := x.t.Context()
	x.must(x.admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scraper"}}))
	x.must(x.admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "scraper"}},
	}))
	ca, err := x.kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "antrea-ca", metav1.GetOptions{})
	x.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca.Data["ca.crt"]))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "antrea.kube-system.svc"}}
	defer transport.CloseIdleConnections()
	for token, want := range map[string]int{"": http.StatusUnauthorized, "made-up": http.StatusInternalServerError, x.token("default", "agent"): http.StatusForbidden, x.token("default", "scraper"): http.StatusOK} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.metrics+"/metrics", nil)
		x.must(err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := transport.RoundTrip(request)
		x.must(err)
		text, err := io.ReadAll(response.Body)
		x.must(errors.Join(err, response.Body.Close()))
		if response.StatusCode != want || strings.Contains(string(text), "nephele_api_ready") != (want == http.StatusOK) {
			x.t.Errorf("metrics: %s with %d bytes, want %d", response.Status, len(text), want)
		}
	}
	if response, err := http.Get("http://" + p.metrics + "/metrics"); err == nil {
		if response.Body.Close(); response.StatusCode == http.StatusOK {
			x.t.Error("metrics are served without TLS")
		}
	}
}

// replaced starts a second replica, which is ready and serves nobody as long as the first has the
// lock, and ends the first.
func (x *existing) replaced(first *pod) *pod {
	second := x.start()
	probe := func(p *pod, path string, want int) {
		eventually(x.t, path, func(ctx context.Context) (bool, string) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.health+path, nil)
			x.must(err)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, err.Error()
			}
			return response.StatusCode == want, fmt.Sprint(response.Status, response.Body.Close())
		})
	}
	probe(second, "/healthz", http.StatusOK)
	probe(second, "/readyz", http.StatusOK)
	probe(first, "/readyz", http.StatusOK)
	short, cancel := context.WithTimeout(x.t.Context(), time.Second)
	defer cancel()
	if code, answer, err := second.ask(short, http.MethodGet, "/readyz", "", nil); err == nil {
		x.t.Errorf("a replica without the lock answers %d %s", code, answer)
	}
	first.end()
	x.ready(second)
	return second
}

// ready waits until a replica serves.
func (x *existing) ready(p *pod) {
	eventually(x.t, "the controller is ready", func(ctx context.Context) (bool, string) {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		code, answer, err := p.ask(short, http.MethodGet, "/readyz", "", nil)
		return code == http.StatusOK, fmt.Sprint(code, string(answer), err)
	})
}

// told waits until what the controller keeps in the API is there.
func (x *existing) told(p *pod) {
	ctx := x.t.Context()
	x.must(x.admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	external := &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vm-1"}}
	external.Spec.Interfaces = []v1alpha1.NetworkInterface{{IPs: []string{"10.0.0.1"}}}
	x.must(x.admin.Create(ctx, external))
	eventually(x.t, "the tiers, the entity of the ExternalNode and the infos are there", func(ctx context.Context) (bool, string) {
		var tiers v1beta1.TierList
		var agents v1beta1.AntreaAgentInfoList
		var me v1beta1.AntreaControllerInfo
		err1, err2 := x.admin.List(ctx, &tiers), x.admin.List(ctx, &agents)
		err3 := x.admin.Get(ctx, client.ObjectKey{Name: "antrea-controller"}, &me)
		err4 := x.admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "vm-1"}, schemaOf("crd.antrea.io", "v1alpha2", "ExternalEntity", ""))
		return len(tiers.Items) == 6 && len(agents.Items) == 2 && me.PodRef.Name == "nephele-1" && me.NodeRef.Name == "n1" && err4 == nil,
			fmt.Sprint(len(tiers.Items), len(agents.Items), me.PodRef, err1, err2, err3, err4)
	})
	// An agent may fill in what was made for it, also with what we do not know.
	cfg, err := clientcmd.BuildConfigFromFlags("", x.login("default", "agent"))
	x.must(err)
	agent, info := newClient(x.t, cfg), schemaOf("crd.antrea.io", "v1beta1", "AntreaAgentInfo", "vm-1")
	edit(x.t, agent, info, func() { info.Object["version"], info.Object["later"] = "v2", map[string]any{"than": "ours"} })
	if later, _, _ := unstructured.NestedString(info.Object, "later", "than"); later != "ours" {
		x.t.Errorf("what an agent of a later version tells is lost: %v", info.Object)
	}
	// A tier that was changed is put back, the entity of an ExternalNode follows it and goes with
	// it.
	x.must(
		x.admin.Patch(ctx, &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "baseline"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"priority": 77}}`))),
	)
	x.must(x.admin.Patch(ctx, external, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"a": "b"}}}`))))
	eventually(x.t, "tier and entity are as they should be", func(ctx context.Context) (bool, string) {
		var tier v1beta1.Tier
		entity := schemaOf("crd.antrea.io", "v1alpha2", "ExternalEntity", "")
		err1 := x.admin.Get(ctx, client.ObjectKey{Name: "baseline"}, &tier)
		err2 := x.admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "vm-1"}, entity)
		return tier.Spec.Priority == 253 && entity.GetLabels()["a"] == "b", fmt.Sprint(tier.Spec, entity.GetLabels(), err1, err2)
	})
	x.must(x.admin.Delete(ctx, external))
	x.must(x.admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	group := fromText(x.t, `{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {namespace: default, name: g}, spec: {podSelector: {}}}`)
	cluster := fromText(x.t, `{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: g}, spec: {podSelector: {}}}`)
	policy := fromText(
		x.t,
		`{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: {priority: 1, appliedTo: [{group: g}], ingress: [{action: Drop}]}}`,
	)
	objects := []*unstructured.Unstructured{group, cluster, policy, fromText(x.t, `
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: p}
spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`), fromText(x.t, `
apiVersion: policy.networking.k8s.io/v1alpha1
kind: BaselineAdminNetworkPolicy
metadata: {name: default}
spec: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`), fromText(x.t, `
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: p}
spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`)}
	for _, o := range objects {
		x.must(x.admin.Create(ctx, o))
	}
	eventually(x.t, "everything has a status, and what is gone leaves nothing behind", func(ctx context.Context) (bool, string) {
		var agents v1beta1.AntreaAgentInfoList
		err := x.admin.List(ctx, &agents)
		entity := x.admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "vm-1"}, schemaOf("crd.antrea.io", "v1alpha2", "ExternalEntity", ""))
		for _, o := range objects {
			x.must(x.admin.Get(ctx, client.ObjectKeyFromObject(o), o))
			if conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); len(conditions) == 0 {
				return false, fmt.Sprintf("%s has no status", o.GetKind())
			}
		}
		return len(agents.Items) == 0 && apierrors.IsNotFound(entity), fmt.Sprint(err, len(agents.Items), entity)
	})
}

// enforced applies the quick start to a simulated account, waits until it is enforced, and takes it
// back.
func (x *existing) enforced(server *sim.Server) {
	raw, err := os.ReadFile(manifests + "/samples/quickstart.yaml")
	x.must(err)
	x.enforces(strings.Replace(string(raw), "http://127.0.0.1:8555", server.URL(), 1), x.disturbed)
}

// disturbed changes by hand what the controller has written, and takes back what it needs, until
// all of it is right again.
func (x *existing) disturbed() {
	ctx := x.t.Context()
	const namespace = "quickstart"
	merge := func(o *unstructured.Unstructured, patch string) {
		x.t.Helper()
		x.must(x.admin.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	object := func(gv, kind, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(gv)
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	// first is the first object of a kind, once there is one.
	first := func(gv, kind string) (found *unstructured.Unstructured) {
		x.t.Helper()
		eventually(x.t, "there is a "+kind, func(ctx context.Context) (bool, string) {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(gv)
			list.SetKind(kind)
			err := x.admin.List(ctx, list, client.InNamespace(namespace))
			if len(list.Items) == 0 {
				return false, fmt.Sprint(err)
			}
			found = &list.Items[0]
			return true, ""
		})
		return found
	}
	const cloud, entities, nodes = "crd.cloud.antrea.io/v1alpha1", "crd.antrea.io/v1alpha2", "crd.antrea.io/v1alpha1"
	relabelled := func(gv, kind string) {
		x.t.Helper()
		o := first(gv, kind)
		// One by which the controller does not look for it.
		label := slices.Sorted(maps.Keys(o.GetLabels()))[0]
		merge(o, fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, label))
		eventually(x.t, kind+" has its label "+label+" again", func(ctx context.Context) (bool, string) {
			err := x.admin.Get(ctx, client.ObjectKeyFromObject(o), o)
			return err == nil && o.GetLabels()[label] != "", fmt.Sprint(o.GetLabels(), err)
		})
	}
	relabelled(cloud, "VirtualMachine")
	relabelled(cloud, "Vpc")
	relabelled(entities, "ExternalEntity")
	selector, account := object(cloud, "CloudEntitySelector", "arista-demo"), object(cloud, "CloudProviderAccount", "simulated")
	merge(selector, `{"spec": {"mode": "plan"}}`)
	x.condition(selector, "Planned", "True")
	merge(selector, `{"spec": {"mode": null, "vmSelector": [{"vpcMatch": {"matchID": "vpc-b390fad5"}, "agented": true}]}}`)
	relabelled(nodes, "ExternalNode")
	merge(selector, `{"spec": {"vmSelector": [{"vpcMatch": {"matchID": "vpc-b390fad5"}}]}}`)
	first(entities, "ExternalEntity")
	merge(account, `{"spec": {"failsafe": [{"direction": "Ingress", "protocol": "TCP", "port": 22, "cidrs": ["192.0.2.0/24"]}]}}`)
	x.condition(account, "Failsafe", "True")
	// The second time the same goes wrong it is a series of events.
	secret := object("v1", "Secret", "simulated-account")
	x.must(x.admin.Get(ctx, client.ObjectKeyFromObject(secret), secret))
	right, _, _ := unstructured.NestedString(secret.Object, "data", "credentials")
	for range 2 {
		merge(secret, `{"data": {"credentials": "e30="}}`)
		x.condition(account, "CredentialsValid", "False")
		merge(secret, fmt.Sprintf(`{"data": {"credentials": %q}}`, right))
		x.condition(account, "CredentialsValid", "True")
	}
}

// condition waits for a condition of an object.
func (x *existing) condition(o *unstructured.Unstructured, kind, status string) {
	x.t.Helper()
	eventually(x.t, fmt.Sprintf("%s of %s is %s", kind, o.GetKind(), status), func(ctx context.Context) (bool, string) {
		x.must(x.admin.Get(ctx, client.ObjectKeyFromObject(o), o))
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == kind && c["status"] == status {
				return true, ""
			}
		}
		return false, fmt.Sprint(conditions)
	})
}

// enforces does that with a quick start of which something was changed, and something else
// meanwhile.
func (x *existing) enforces(text string, meanwhile ...func()) {
	var objects []*unstructured.Unstructured
	for _, doc := range strings.Split(text, "\n---\n") {
		o := fromText(x.t, doc)
		x.must(x.admin.Create(x.t.Context(), o))
		objects = append(objects, o)
	}
	realized := func() {
		eventually(x.t, "the policy is realized on three VMs", func(ctx context.Context) (bool, string) {
			var p v1beta1.NetworkPolicy
			var vms cloudv1.VirtualMachineList
			err1 := x.admin.Get(ctx, client.ObjectKey{Namespace: "quickstart", Name: "switches"}, &p)
			err2 := x.admin.List(ctx, &vms, client.InNamespace("quickstart"))
			n := 0
			for _, vm := range vms.Items {
				if len(vm.Status.Policies) == 1 && vm.Status.Policies[0].Phase == cloudv1.PolicyPhaseRealized {
					n++
				}
			}
			return n == 3 && p.Status.Phase == v1beta1.NetworkPolicyRealized, fmt.Sprint(n, p.Status, err1, err2)
		})
	}
	realized()
	for _, f := range meanwhile {
		f()
		realized()
	}
	x.keyed()
	x.changesTold("quickstart")
	for _, o := range slices.Backward(objects[1:]) {
		x.must(x.admin.Delete(x.t.Context(), o))
		// The account needs its keys until everything is given back.
		eventually(x.t, "it is gone", func(ctx context.Context) (bool, string) {
			err := x.admin.Get(ctx, client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), fmt.Sprint(o.GetKind(), err)
		})
	}
	eventually(x.t, "nothing is left", func(ctx context.Context) (bool, string) {
		var vms cloudv1.VirtualMachineList
		var vpcs cloudv1.VpcList
		err1, err2 := x.admin.List(ctx, &vms), x.admin.List(ctx, &vpcs)
		return len(vms.Items)+len(vpcs.Items) == 0, fmt.Sprint(len(vms.Items), len(vpcs.Items), err1, err2)
	})
}
