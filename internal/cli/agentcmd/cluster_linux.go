package agentcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
)

// cluster is the cluster of a Node as its agent follows it. The clientset of client-go would do,
// but knows every kind that there is, and the agent would hold all of them in memory.
type cluster struct{ core, discovery, coordination, antrea, antreaAlpha, analysis *rest.RESTClient }

// ofNode returns the cluster of the Node.
func (f *agentFlags) ofNode() (*cluster, error) {
	cfg, err := f.cluster.Config()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster of the Node: %w", err)
	}
	c, err := newCluster(cfg)
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster of the Node: %w", err)
	}
	return c, nil
}

func newCluster(given *rest.Config) (*cluster, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.SchemeBuilder{corev1.AddToScheme, discoveryv1.AddToScheme, coordinationv1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, analysis.AddToScheme}
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg := rest.CopyConfig(given)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client := func(path string, of schema.GroupVersion) (*rest.RESTClient, error) {
		c := rest.CopyConfig(cfg)
		c.APIPath, c.GroupVersion = path, &of
		return rest.RESTClientFor(c)
	}
	core, err1 := client("/api", corev1.SchemeGroupVersion)
	discovery, err2 := client("/apis", discoveryv1.SchemeGroupVersion)
	antrea, err3 := client("/apis", v1beta1.GroupVersion())
	antreaAlpha, err4 := client("/apis", v1alpha1.GroupVersion())
	coordination, err5 := client("/apis", coordinationv1.SchemeGroupVersion)
	computed, err6 := client("/apis", analysis.GroupVersion())
	return &cluster{core, discovery, coordination, antrea, antreaAlpha, computed}, errors.Join(err1, err2, err3, err4, err5, err6)
}

// Follow implements agent.Cluster.
func (c *cluster) Follow(of schema.GroupVersionResource, namespace string, only func(*metav1.ListOptions)) cache.ListerWatcher {
	client := c.core
	switch of.GroupVersion() {
	case discoveryv1.SchemeGroupVersion:
		client = c.discovery
	case coordinationv1.SchemeGroupVersion:
		client = c.coordination
	case v1beta1.GroupVersion():
		client = c.antrea
	case v1alpha1.GroupVersion():
		client = c.antreaAlpha
	}
	return cache.NewFilteredListWatchFromClient(client, of.Resource, namespace, only)
}

// publish tells in the object of a Node by what it encrypts.
func (c *cluster) publish(ctx context.Context, node string, t nodenetwork.Published) error {
	value := func(text string) any {
		if text == "" { // it is taken back
			return nil
		}
		return text
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		cloudv1alpha1.AnnotationWireGuardKey: value(t.Key), cloudv1alpha1.AnnotationIPsecIdentity: value(t.Identity),
	}}})
	if err != nil {
		return err
	}
	err = c.core.Patch(types.MergePatchType).Resource("nodes").Name(node).Body(patch).MaxRetries(0).Do(ctx).Error()
	if t == (nodenetwork.Published{}) && apierrors.IsForbidden(err) { // where nothing is encrypted, agents need not have the right
		return nil
	}
	return err
}

// certify has the controller sign a request for a certificate of a Node.
func (c *cluster) certify(ctx context.Context, node, request string) (certificate, authorities string, err error) {
	asked := analysis.NodeCertificate{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: analysis.NodeCertificateSpec{Request: request}}
	asked.SetGroupVersionKind(analysis.GroupVersion().WithKind("NodeCertificate"))
	var given analysis.NodeCertificate
	if err := c.analysis.Post().Resource("nodecertificates").Body(&asked).MaxRetries(0).Do(ctx).Into(&given); err != nil {
		return "", "", err
	}
	return given.Status.Certificate, given.Status.Authorities, nil
}

// behindService returns where the API server of the Node's cluster really is. An agent in a Pod
// reaches it by its Service, and rules see what that is translated to.
func (f *agentFlags) behindService() ([]string, error) {
	c, err := f.ofNode()
	if err != nil {
		return nil, err
	}
	var slice discoveryv1.EndpointSlice
	ctx, cancel := context.WithTimeout(context.Background(), endpointsLimit)
	defer cancel()
	err = c.discovery.Get().Namespace(metav1.NamespaceDefault).Resource("endpointslices").Name("kubernetes").MaxRetries(0).Do(ctx).Into(&slice)
	if err != nil {
		return nil, fmt.Errorf("where the API server is: %w", err)
	}
	var out []string
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			for _, p := range slice.Ports {
				if p.Port != nil {
					out = append(out, "https://"+net.JoinHostPort(a, strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return out, nil
}
