package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// hotel is a server with the hosts vms/web and vms/db, and the Node n1.
type hotel struct {
	*world
	t        *testing.T
	cluster  client.Client
	informer *controllertest.FakeInformer
}

// GetInformer implements infos.Informers.
func (h *hotel) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return h.informer, nil
}

func newHotel(t *testing.T) *hotel {
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), rbacv1.AddToScheme(s), v1alpha1.AddToScheme(s), v1beta1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	h := &hotel{t: t, informer: &controllertest.FakeInformer{}}
	h.cluster = fake.NewClientBuilder().WithScheme(s).Build()
	desk, err := enroll.OpenDesk(t.Context(), enroll.DeskOptions{Client: h.cluster, Live: h.cluster, Namespace: "kube-system", Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	if err := desk.Follow(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	node := func(namespace, name string) *v1alpha1.ExternalNode {
		return &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	}
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "antrea-ca"}, Data: map[string]string{enroll.AuthorityKey: string(desk.Bundle())}},
		node("vms", "web"), node("vms", "db"), node("vms", "n1"), node("a", "twin"), node("b", "twin"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid1"}},
		&v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"ours": "1"}, Annotations: map[string]string{cloudv1.AnnotationCloudLetsIn: "a/b ingress"}}},
		&v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "db"}}, &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "twin"}, NodeRef: v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "a", Name: "twin"}},
	} {
		if err := h.cluster.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), book: stats.New(clock.RealClock{}), reviews: &oracle{}, traffic: &trafficBook{}}
	// What others may do for any key is nothing to a host.
	w.enforcers, w.hosts = apiserver.AnyKey, &apiserver.Hosts{Desk: desk, Client: h.cluster, Reader: h.cluster}
	h.world = w
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("u1", 1, "vms/web", "vms/db")}})
	return h
}

// enroll lets a host enroll over the network.
func (h *hotel) enroll(namespace, name string) (credential.Papers, credential.Key) {
	h.t.Helper()
	i, _, err := enroll.Invite(h.t.Context(), h.cluster, credential.Host{Namespace: namespace, Name: name}, time.Hour, time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := credential.NewKey()
	if err != nil {
		h.t.Fatal(err)
	}
	papers, err := credential.Join(h.t.Context(), "https://"+h.address, i, nil, key)
	if err != nil {
		h.t.Fatal(err)
	}
	return papers, key
}

// as returns how a host reaches the server.
func (h *hotel) as(papers credential.Papers, key credential.Key, gv schema.GroupVersion) *rest.Config {
	s := runtime.NewScheme()
	if err := errors.Join(v1beta2.AddToScheme(s), v1beta1.AddToScheme(s)); err != nil {
		h.t.Fatal(err)
	}
	return &rest.Config{Host: "https://" + h.address, APIPath: "/apis", QPS: -1, Dial: h.dial,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(papers.Authority), ServerName: credential.ServerName, CertData: []byte(papers.Certificate), KeyData: key.Private},
		ContentConfig:   rest.ContentConfig{GroupVersion: &gv, NegotiatedSerializer: serializer.NewCodecFactory(s).WithoutConversion(), ContentType: runtime.ContentTypeJSON}}
}

func (h *hotel) client(cfg *rest.Config) *rest.RESTClient {
	h.t.Helper()
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (h *hotel) edit(namespace, name string, change func(*v1alpha1.ExternalNode)) *v1alpha1.ExternalNode {
	h.t.Helper()
	n := &v1alpha1.ExternalNode{}
	if err := h.cluster.Get(h.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, n); err != nil {
		h.t.Fatal(err)
	}
	change(n)
	if err := h.cluster.Update(h.t.Context(), n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// TestHostsSeeAndReportTheirOwn: with its certificate a host watches what is computed for its own
// key, reports for that, and may do nothing else.
func TestHostsSeeAndReportTheirOwn(t *testing.T) {
	h := newHotel(t)
	papers, key := h.enroll("vms", "web")
	c := h.client(h.as(papers, key, v1beta2.GroupVersion()))
	list := func(key string) error {
		r := c.Get().Resource("networkpolicies")
		if key != "" {
			r = r.Param("fieldSelector", "nodeName="+key)
		}
		var got v1beta2.NetworkPolicyList
		err := r.Do(t.Context()).Into(&got)
		if err == nil && len(got.Items) != 1 {
			t.Errorf("%q: %d policies", key, len(got.Items))
		}
		return err
	}
	if err := list("vms/web"); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"vms/db", "web", "", "vms/web/x", "cloud/vms/web"} {
		if err := list(other); !apierrors.IsForbidden(err) {
			t.Errorf("what is computed for %q: %v", other, err)
		}
	}
	report := func(keys ...string) error {
		s := &v1beta2.NetworkPolicyStatus{ObjectMeta: metav1.ObjectMeta{Name: "u1"}}
		for _, k := range keys {
			s.Nodes = append(s.Nodes, v1beta2.NetworkPolicyNodeStatus{NodeName: k, Generation: 1})
		}
		return c.Post().Resource("networkpolicies").Name("u1").SubResource("status").Body(s).Do(t.Context()).Error()
	}
	if err := report("vms/web"); err != nil || len(h.reports.all()) != 1 {
		t.Errorf("its report: %v", err)
	}
	if err := report("vms/web", "vms/db"); !apierrors.IsBadRequest(err) {
		t.Errorf("a report of two: %v", err)
	}
	for _, keys := range [][]string{{"vms/db"}, {"n1"}} {
		if err := report(keys...); !apierrors.IsForbidden(err) {
			t.Errorf("a report for %v: %v", keys, err)
		}
	}
	count := func(key string) error {
		return c.Post().Resource("nodestatssummaries").Body(&v1beta2.NodeStatsSummary{ObjectMeta: metav1.ObjectMeta{Name: key}}).Do(t.Context()).Error()
	}
	if err := count("vms/web"); err != nil {
		t.Errorf("its counts: %v", err)
	}
	for _, key := range []string{"vms/db", "db", "n1", "web"} {
		if err := count(key); !apierrors.IsForbidden(err) {
			t.Errorf("counts of %s: %v", key, err)
		}
	}
	if err := postTraffic(c, "vms/web", "").Do(t.Context()).Error(); err != nil || len(h.traffic.(*trafficBook).taken) != 1 {
		t.Errorf("its traffic: %v", err)
	}
	for _, key := range []string{"vms/db", "web", "n1"} {
		if err := postTraffic(c, key, "").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
			t.Errorf("traffic of %s: %v", key, err)
		}
	}
	for what, r := range map[string]*rest.Request{
		"what others see":  c.Post().AbsPath("/apis/analysis.nephele.io/v1alpha1/flowqueries").Body([]byte(`{}`)),
		"a policy by name": c.Get().Resource("networkpolicies").Name("u1"),
		"questions":        c.Get().AbsPath("/endpoint"),
		"metrics":          c.Get().AbsPath("/metrics"),
		"egress groups":    c.Get().Resource("egressgroups").Param("fieldSelector", "nodeName=vms/web"),
		"all infos":        c.Get().AbsPath("/apis/crd.antrea.io/v1beta1/antreaagentinfos"),
		"another's info":   c.Get().AbsPath(credential.InfosPath + "db"),
		"a path in it":     c.Get().AbsPath(credential.InfosPath + "web/status"),
		"a deletion":       c.Delete().AbsPath(credential.InfosPath + "web"),
		"as somebody else": c.Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=vms/db").SetHeader("Impersonate-User", "agent"),
	} {
		if err := r.Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A name is no certificate: nor does it open what only hosts are let into.
	named := h.world.client(t, "nephele:host:vms/web", "")
	if err := named.Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=vms/web").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("by its name: %v", err)
	}
	agent := h.world.client(t, "agent", "")
	for _, r := range []*rest.Request{agent.Post().AbsPath(credential.RenewPath).Body([]byte("{}")), agent.Get().AbsPath(credential.InfosPath + "web")} {
		if err := r.Do(t.Context()).Error(); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			t.Errorf("a caller that is no host: %v", err)
		}
	}
}

// TestHostsTellAboutThemselves: a host fills in its own info; what the controller has written there
// stays, and of others it cannot speak.
func TestHostsTellAboutThemselves(t *testing.T) {
	h := newHotel(t)
	info := func(namespace, name string) (*rest.RESTClient, *v1beta1.AntreaAgentInfo, error) {
		papers, key := h.enroll(namespace, name)
		c, got := h.client(h.as(papers, key, v1beta1.GroupVersion())), &v1beta1.AntreaAgentInfo{}
		return c, got, c.Get().Resource("antreaagentinfos").Name(name).Do(t.Context()).Into(got)
	}
	c, got, err := info("vms", "web")
	if err != nil || got.Annotations[cloudv1.AnnotationCloudLetsIn] == "" {
		t.Fatalf("%+v %v", got, err)
	}
	put := func(o *v1beta1.AntreaAgentInfo) error {
		return c.Put().Resource("antreaagentinfos").Name("web").Body(o).Do(t.Context()).Error()
	}
	said := got.DeepCopy()
	said.Version, said.NodeRef = "v2", v1beta1.ObjectReference{Kind: "Node", Name: "n1"}
	said.Labels = map[string]string{cloudv1.LabelAllowIsolates: "true", "theirs": "2"}
	said.Annotations = map[string]string{cloudv1.AnnotationIsolates: "egress", cloudv1.AnnotationCloudLetsIn: "", cloudv1.AnnotationHostFailsafe: "[]", cloudv1.AnnotationForeignFilters: "ufw", "more": "x"}
	said.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n1"}}
	said.Finalizers = []string{"x/y"}
	if err := put(said); err != nil {
		t.Fatal(err)
	}
	var stored v1beta1.AntreaAgentInfo
	if err := h.cluster.Get(t.Context(), client.ObjectKey{Name: "web"}, &stored); err != nil {
		t.Fatal(err)
	}
	if stored.Version != "v2" || stored.NodeRef != (v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "vms", Name: "web"}) {
		t.Errorf("%+v", stored)
	}
	if l := stored.Labels; len(l) != 2 || l["ours"] != "1" || l[cloudv1.LabelAllowIsolates] != "true" || len(stored.OwnerReferences)+len(stored.Finalizers) != 0 {
		t.Errorf("%+v", stored.ObjectMeta)
	}
	if a := stored.Annotations; len(a) != 4 || a[cloudv1.AnnotationHostFailsafe] != "[]" || a[cloudv1.AnnotationForeignFilters] != "ufw" || a[cloudv1.AnnotationCloudLetsIn] != "a/b ingress" || a[cloudv1.AnnotationIsolates] != "egress" {
		t.Errorf("%+v", a)
	}
	if err := put(said); !apierrors.IsConflict(err) {
		t.Errorf("as it was read before somebody else's change: %v", err)
	}
	unread := stored.DeepCopy()
	unread.ResourceVersion = ""
	if err := put(unread); !apierrors.IsBadRequest(err) {
		t.Errorf("without having read it: %v", err)
	}
	other := stored.DeepCopy()
	other.Name = "db"
	if err := put(other); !apierrors.IsBadRequest(err) {
		t.Errorf("another's object: %v", err)
	}
	large := stored.DeepCopy()
	large.Version = strings.Repeat("x", 100<<10)
	if err := put(large); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("a large one: %v", err)
	}
	other = stored.DeepCopy()
	other.ResourceVersion = ""
	raw, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Replace(string(raw), `"metadata":{`, `"METADATA":{"resourceVersion":"`+stored.ResourceVersion+`",`, 1)
	if err := c.Put().Resource("antreaagentinfos").Name("web").Body([]byte(named)).Do(t.Context()).Error(); !apierrors.IsBadRequest(err) {
		t.Errorf("names in another case, which were not weighed: %v", err)
	}
	// The first host of the name keeps it; others have infos of their own, when the controller has
	// made them.
	for namespace, name := range map[string]string{"vms": "n1", "b": "twin"} {
		if _, got, err := info(namespace, name); !apierrors.IsNotFound(err) {
			t.Errorf("%s/%s gets that of another: %+v %v", namespace, name, got, err)
		}
		own := namespace + "." + name
		if err := h.cluster.Create(t.Context(), &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: own}}); err != nil {
			t.Fatal(err)
		}
		c, got, err := info(namespace, name)
		if err != nil || got.Name != own {
			t.Fatalf("%s/%s gets %+v %v", namespace, name, got, err)
		}
		got.Version = "v3"
		if err := c.Put().Resource("antreaagentinfos").Name(own).Body(got).Do(t.Context()).Error(); err != nil {
			t.Error(err)
		}
		if err := c.Get().Resource("antreaagentinfos").Name("a.twin").Do(t.Context()).Error(); err == nil {
			t.Errorf("%s/%s gets the info of a/twin", namespace, name)
		}
		if err := h.cluster.Get(t.Context(), client.ObjectKey{Name: own}, &stored); err != nil || stored.Version != "v3" || stored.NodeRef.Namespace != namespace {
			t.Errorf("%+v %v", stored, err)
		}
	}
	if _, got, err := info("a", "twin"); err != nil || got.Name != "twin" || got.Version != "" {
		t.Errorf("its own, though there is another host of the name: %+v %v", got, err)
	}
}

// TestHostsAreSentAway: a watch of a host ends with its certificate, and none begins after it.
func TestHostsAreSentAway(t *testing.T) {
	for what, end := range map[string]func(h *hotel){
		"deleted": func(h *hotel) {
			n := h.edit("vms", "web", func(*v1alpha1.ExternalNode) {})
			if err := h.cluster.Delete(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			h.informer.Delete(n)
		},
		"revoked": func(h *hotel) {
			if err := enroll.Revoke(t.Context(), h.cluster, credential.Host{Namespace: "vms", Name: "web"}); err != nil {
				t.Fatal(err)
			}
			n := h.edit("vms", "web", func(*v1alpha1.ExternalNode) {})
			h.informer.Update(n, n)
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHotel(t)
			papers, key := h.enroll("vms", "web")
			c := h.client(h.as(papers, key, v1beta2.GroupVersion()))
			watch, err := c.Get().Resource("networkpolicies").Param("watch", "true").Param("fieldSelector", "nodeName=vms/web").Watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			<-watch.ResultChan()
			end(h)
			ended := time.After(patience)
			for open := true; open; {
				select {
				case _, open = <-watch.ResultChan():
				case <-ended:
					t.Fatal("the watch goes on")
				}
			}
			if err := c.Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=vms/web").Do(t.Context()).Error(); !apierrors.IsUnauthorized(err) {
				t.Errorf("afterwards: %v", err)
			}
			next, err := credential.NewKey()
			if err != nil {
				t.Fatal(err)
			}
			hc, err := rest.HTTPClientFor(h.as(papers, key, v1beta2.GroupVersion()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := credential.Renewal(t.Context(), hc, "https://"+h.address, next); err == nil {
				t.Error("its certificate is renewed")
			}
		})
	}
}

// TestHostsEnrollOverTheNetwork: what stands between a host and the server learns no token and
// makes no host believe it; what is no request is refused.
func TestHostsEnrollOverTheNetwork(t *testing.T) {
	h := newHotel(t)
	papers, key := h.enroll("vms", "web")
	hc, err := rest.HTTPClientFor(h.as(papers, key, v1beta2.GroupVersion()))
	if err != nil {
		t.Fatal(err)
	}
	next, err := credential.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := credential.Renewal(t.Context(), hc, "https://"+h.address, next)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.client(h.as(renewed, next, v1beta2.GroupVersion())).Get().Resource("networkpolicies").Param("fieldSelector", "nodeName=vms/web").Do(t.Context()).Error(); err != nil {
		t.Errorf("with the next certificate: %v", err)
	}

	// Another server that has a certificate for the name.
	asked := make(chan struct{}, 1)
	other, err := enroll.OpenDesk(t.Context(), enroll.DeskOptions{Client: fake.NewClientBuilder().WithScheme(h.cluster.Scheme()).Build(), Live: h.cluster, Namespace: "kube-system", Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	cert, private, err := other.Serve()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		t.Fatal(err)
	}
	// It also shows the real authority, which anybody can.
	real, err := tls.X509KeyPair(cert, private)
	if err != nil {
		t.Fatal(err)
	}
	shown, _ := pem.Decode(h.hosts.Desk.Bundle())
	real.Certificate = append(real.Certificate, shown.Bytes)
	for what, show := range map[string]tls.Certificate{"another authority": pair, "the real authority beside it": real} {
		l := tls.NewListener(listen(t, "127.0.0.1:0"), &tls.Config{Certificates: []tls.Certificate{show}, MinVersion: tls.VersionTLS12})
		go func() {
			_ = http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
		}()
		i, _, err := enroll.Invite(t.Context(), h.cluster, credential.Host{Namespace: "vms", Name: "db"}, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		_, err = credential.Join(t.Context(), "https://"+l.Addr().String(), i, nil, next)
		_ = l.Close()
		if err == nil || !strings.Contains(err.Error(), "not the server that the token is from") || len(asked) > 0 {
			t.Errorf("%s: %v, asked %d times", what, err, len(asked))
		}
	}
	for what, body := range map[string]string{"nothing": "", "no JSON": "x", "no host": `{"host":"web"}`} {
		raw := h.world.client(t, "", "").Post().AbsPath(credential.JoinPath).Body([]byte(body)).Do(t.Context()).Error()
		if !apierrors.IsBadRequest(raw) {
			t.Errorf("%s: %v", what, raw)
		}
	}
	much := `{"host":"` + strings.Repeat("x", 1<<20) + `"}`
	if err := h.world.client(t, "", "").Post().AbsPath(credential.JoinPath).Body([]byte(much)).Do(t.Context()).Error(); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("much: %v", err)
	}
	if _, err := credential.Join(t.Context(), "http://"+h.address, credential.Invitation{}, nil, next); err == nil {
		t.Error("without TLS")
	}
	var said bytes.Buffer
	if err := json.NewEncoder(&said).Encode(papers); err != nil || strings.Contains(said.String(), "PRIVATE KEY") {
		t.Errorf("the answer holds a key: %v", err)
	}
}
