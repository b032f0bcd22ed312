package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/roster"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// podInformers have one informer of Pods, which a test plays.
type podInformers struct {
	ctrlcache.Informer
	handler cache.ResourceEventHandler
}

func (i *podInformers) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return i, nil
}

func (i *podInformers) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = h
	return i, nil
}

func (i *podInformers) HasSynced() bool                     { return i.handler != nil }
func (i *podInformers) HasSyncedChecker() cache.DoneChecker { return nil }

// nodeAccess takes a token USER@NODE for a user whose token is bound to a Node. Everybody may use
// the API, and act for no enforcer but its own.
func nodeAccess() *apiserver.Access {
	return &apiserver.Access{
		Authenticator: authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			name, node, _ := strings.Cut(token, "@")
			u := &user.DefaultInfo{Name: name}
			if node != "" {
				u.Extra = map[string][]string{"authentication.kubernetes.io/node-name": strings.Split(node, ",")}
			}
			if strings.HasPrefix(name, "system:node:") {
				u.Groups = []string{user.NodesGroup}
			}
			return &authenticator.Response{User: u}, ok, nil
		}),
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() == apiserver.VerbEnforce {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		}),
	}
}

// secretive is a Pod with much that no agent needs.
func secretive(node, name, address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", ResourceVersion: "7", Labels: map[string]string{"secret": "secret"},
			Annotations: map[string]string{"secret": "secret", "kubernetes.io/egress-bandwidth": "1M"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "secret"}},
			OwnerReferences: []metav1.OwnerReference{{Name: "secret"}}},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "secret", Volumes: []corev1.Volume{{Name: "secret"}}, Containers: []corev1.Container{{
			Name: "secret", Image: "secret", Command: []string{"secret"}, Args: []string{"secret"}, Env: []corev1.EnvVar{{Name: "SECRET", Value: "secret"}},
			Ports: []corev1.ContainerPort{{Name: "secret", HostPort: 80, ContainerPort: 8080, Protocol: corev1.ProtocolTCP}, {Name: "secret", ContainerPort: 9090}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Message: "secret", PodIP: address, PodIPs: []corev1.PodIP{{IP: address}, {IP: "fd00::1"}}},
	}
}

func localPods(t *testing.T, enforcers apiserver.EnforcerAccess) (*world, *podInformers) {
	t.Helper()
	w, in := serve(t, watchstore.New(watchstore.Options{}), "127.0.0.1:0"), &podInformers{}
	w.store.Publish(watchstore.Changes{})
	w.pods, w.access, w.enforcers = roster.New(time.Now()), nodeAccess(), enforcers
	if err := w.pods.Follow(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	in.handler.OnAdd(secretive("w1", "one", "10.0.0.1"), true)
	in.handler.OnAdd(secretive("w2", "two", "10.0.0.2"), true)
	w.restart(t)
	return w, in
}

func (w *world) podClient(t *testing.T, token string) *enforcer.Client {
	t.Helper()
	c, err := enforcer.NewClient(enforcer.ClientOptions{Config: func() (*rest.Config, error) { return w.config(token, ""), nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLocalPods: the agent of a Node gets the Pods of its Node, what it needs of them and nothing
// else; no other identity gets them.
func TestLocalPods(t *testing.T) {
	t.Parallel()
	w, in := localPods(t, "")
	own := w.podClient(t, "agent@w1")
	list, err := own.LocalPods(t.Context(), "w1")
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "one" {
		t.Fatalf("its own: %+v, %v", list, err)
	}
	raw, err := json.Marshal(list.Items[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata":{"name":"one","namespace":"n","uid":"u","resourceVersion":%q},"podVersion":"7","addresses":["10.0.0.1","fd00::1"],` +
		`"hostPorts":[{"protocol":"TCP","port":80,"containerPort":8080}],"egressBandwidth":"1M"}`
	if got := string(raw); got != fmt.Sprintf(want, list.Items[0].ResourceVersion) || strings.Contains(got, "secret") {
		t.Errorf("got %s", got)
	}
	if list, err := w.podClient(t, "system:node:w1").LocalPods(t.Context(), "w1"); err != nil || len(list.Items) != 1 {
		t.Errorf("the kubelet: %+v, %v", list, err)
	}
	for _, token := range []string{"agent@w1", "agent@w2,w1", "agent@w2,", "agent@W2", "agent", "system:node:w1", "system:node:w2@w1", "system:serviceaccount:kube-system:nephele-node-agent"} {
		if token == "system:node:w2@w1" {
			continue // that is the kubelet of w2
		}
		c := w.podClient(t, token)
		if list, err := c.LocalPods(t.Context(), "w2"); !apierrors.IsForbidden(err) {
			t.Errorf("%s lists another Node: %+v, %v", token, list, err)
		}
		if _, err := c.WatchLocalPods(t.Context(), "w2", "", nil); !apierrors.IsForbidden(err) {
			t.Errorf("%s watches another Node: %v", token, err)
		}
	}
	direct := w.client(t, "agent@w1", runtime.ContentTypeJSON)
	for path, why := range map[string]string{
		"localpods":                                                     "want the name of a Node",
		"localpods?fieldSelector=nodeName=":                             "is empty",
		"localpods?fieldSelector=nodeName=w1,nodeName=w2":               "cannot be both",
		"localpods?fieldSelector=nodeName!=w1":                          "only = is allowed",
		"localpods?fieldSelector=metadata.name=two":                     "not a field to select by",
		"localpods?fieldSelector=nodeName=n/w1":                         "want the name of a Node",
		"localpods?fieldSelector=nodeName=w1&labelSelector=a=b":         "no labels",
		"namespaces/n/localpods?fieldSelector=nodeName=w1":              "without one",
		"localpods?fieldSelector=nodeName=w1&continue=x":                "nothing to continue",
		"localpods?watch=1&fieldSelector=nodeName=w1&resourceVersion=x": "not a number",
	} {
		path, query, _ := strings.Cut(path, "?")
		r := direct.Get().AbsPath("/apis/analysis.nephele.io/v1alpha1/" + path)
		for part := range strings.SplitSeq(query, "&") {
			if name, value, ok := strings.Cut(part, "="); ok {
				r = r.Param(name, value)
			}
		}
		if err := r.Do(t.Context()).Error(); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s?%s: %v, want 400 that says %q", path, query, err, why)
		}
	}
	if err := direct.Get().AbsPath("/apis/analysis.nephele.io/v1alpha1/namespaces/n/localpods/two").Do(t.Context()).Error(); !apierrors.IsMethodNotSupported(err) && !apierrors.IsNotFound(err) {
		t.Errorf("one alone: %v", err)
	}
	if _, err := own.WatchLocalPods(t.Context(), "w1", "1", nil); !apierrors.IsResourceExpired(err) {
		t.Errorf("from an old position: %v", err)
	}

	watching, err := own.WatchLocalPods(t.Context(), "w1", list.ResourceVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.handler.OnUpdate(secretive("w2", "two", "10.0.0.2"), secretive("w2", "two", "10.0.0.3"))
	in.handler.OnAdd(secretive("w1", "three", "10.0.0.4"), false)
	in.handler.OnDelete(secretive("w1", "one", "10.0.0.1"))
	var got []string
	for range 2 {
		select {
		case e := <-watching.ResultChan():
			p, ok := e.Object.(*analysis.LocalPod)
			if !ok {
				t.Fatalf("got %+v", e)
			}
			got = append(got, string(e.Type)+" "+p.Name)
			list.ResourceVersion = p.ResourceVersion
		case <-time.After(patience):
			t.Fatal("nothing comes")
		}
	}
	if !slices.Equal(got, []string{"ADDED three", "DELETED one"}) {
		t.Errorf("got %v", got)
	}
	watching.Stop()
	// It goes on where it was, if the controller is the same.
	in.handler.OnAdd(secretive("w1", "four", "10.0.0.5"), false)
	if watching, err = own.WatchLocalPods(t.Context(), "w1", list.ResourceVersion, nil); err != nil {
		t.Fatal(err)
	}
	if e := <-watching.ResultChan(); e.Type != watch.Added || e.Object.(*analysis.LocalPod).Name != "four" {
		t.Errorf("resumed with %+v", e)
	}
	watching.Stop()
}

// TestLocalPodsAreCounted: watches of a Node's Pods are bounded as all others.
func TestLocalPodsAreCounted(t *testing.T) {
	t.Parallel()
	w, _ := localPods(t, "")
	c := w.podClient(t, "agent@w1")
	for i := range limits.DefaultWatchesPerKey + 1 {
		_, err := c.WatchLocalPods(t.Context(), "w1", "", nil)
		if full := i == limits.DefaultWatchesPerKey; full != apierrors.IsTooManyRequests(err) || !full && err != nil {
			t.Fatalf("watch %d: %v", i, err)
		}
	}
}

// TestNoLocalPods: before Pods are known no agent gets an empty list.
func TestNoLocalPods(t *testing.T) {
	t.Parallel()
	w := serve(t, watchstore.New(watchstore.Options{}), "127.0.0.1:0")
	w.pods, w.access = roster.New(time.Now()), nodeAccess()
	w.restart(t)
	c := w.podClient(t, "agent@w1")
	if list, err := c.LocalPods(t.Context(), "w1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("listed %+v, %v", list, err)
	}
	if _, err := c.WatchLocalPods(t.Context(), "w1", "", nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("watched: %v", err)
	}
}
