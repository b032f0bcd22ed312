package manifest

import (
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/expect"
)

// Object is an object of a kind that matters here.
type Object interface {
	metav1.Object
	runtime.Object
}

// Document is one object and where it was read.
type Document struct {
	Position
	Object Object
	// Group and Kind of the object.
	Group, Kind string
	// Refusal is why the API server would not take the object; nil if it would.
	Refusal *Refusal

	node   *yamlv3.Node
	offset int
}

// Name returns "Kind namespace/name", or "Kind name" for an object without namespace.
func (d *Document) Name() string { return title(d.Kind, d.Object.GetNamespace(), d.Object.GetName()) }

// At returns where a field stands, or the nearest one above it.
func (d *Document) At(field string) Position {
	p := d.Position
	if n := node(d.node, field); n != nil && n.Line > 0 {
		p.Line = n.Line + d.offset
	}
	return p
}

func title(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// Refusal says that the API server would not take an object.
type Refusal struct {
	// Position is zero for an object that was not read from a file.
	Position
	Kind, Namespace, Name string
	// Code is the status code: 422 for a breach of the schema, 400 for one of the rules that
	// webhooks check.
	Code int
	// Text names the fields, the values and what was expected.
	Text string
}

// Refuse returns a refusal of the object because of a field.
func (d *Document) Refuse(code int, field, text string) Refusal {
	return Refusal{Position: d.At(field), Kind: d.Kind, Namespace: d.Object.GetNamespace(), Name: d.Object.GetName(), Code: code, Text: text}
}

// String returns the refusal as one line.
func (r Refusal) String() string {
	text := title(r.Kind, r.Namespace, r.Name) + ": " + r.Text
	if r.File == "" {
		return text
	}
	return r.Position.String() + ": " + text
}

// Set is what Load found.
type Set struct {
	// Documents in the order in which they were read.
	Documents []*Document
	// Notes say what was left out or supposed, for people.
	Notes []string
}

// InputError is bad input: every message names the file and the line.
type InputError struct {
	Messages []string
}

// Error implements error.
func (e *InputError) Error() string { return strings.Join(e.Messages, "\n") }

// kinds are those that matter here.
func kinds() map[schema.GroupVersionKind]func() Object {
	admin, upstream := schema.GroupVersion(upstreamv1alpha1.GroupVersion), schema.GroupVersion(upstreamv1alpha2.GroupVersion)
	core, antrea, cloud := corev1.SchemeGroupVersion, v1beta1.GroupVersion(), cloudv1alpha1.GroupVersion()
	return map[schema.GroupVersionKind]func() Object{
		core.WithKind("Namespace"):                                func() Object { return &corev1.Namespace{} },
		core.WithKind("Pod"):                                      func() Object { return &corev1.Pod{} },
		core.WithKind("Node"):                                     func() Object { return &corev1.Node{} },
		core.WithKind("Service"):                                  func() Object { return &corev1.Service{} },
		core.WithKind("Secret"):                                   func() Object { return &corev1.Secret{} },
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):  func() Object { return &discoveryv1.EndpointSlice{} },
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"): func() Object { return &networkingv1.NetworkPolicy{} },
		antrea.WithKind("NetworkPolicy"):                          func() Object { return &v1beta1.NetworkPolicy{} },
		antrea.WithKind("ClusterNetworkPolicy"):                   func() Object { return &v1beta1.ClusterNetworkPolicy{} },
		antrea.WithKind("Tier"):                                   func() Object { return &v1beta1.Tier{} },
		antrea.WithKind("Group"):                                  func() Object { return &v1beta1.Group{} },
		antrea.WithKind("ClusterGroup"):                           func() Object { return &v1beta1.ClusterGroup{} },
		v1alpha1.GroupVersion().WithKind("ExternalNode"):          func() Object { return &v1alpha1.ExternalNode{} },
		v1alpha2.GroupVersion().WithKind("ExternalEntity"):        func() Object { return &v1alpha2.ExternalEntity{} },
		admin.WithKind("AdminNetworkPolicy"):                      func() Object { return &upstreamv1alpha1.AdminNetworkPolicy{} },
		admin.WithKind("BaselineAdminNetworkPolicy"):              func() Object { return &upstreamv1alpha1.BaselineAdminNetworkPolicy{} },
		upstream.WithKind("ClusterNetworkPolicy"):                 func() Object { return &upstreamv1alpha2.ClusterNetworkPolicy{} },
		cloud.WithKind("CloudProviderAccount"):                    func() Object { return &cloudv1alpha1.CloudProviderAccount{} },
		cloud.WithKind("CloudEntitySelector"):                     func() Object { return &cloudv1alpha1.CloudEntitySelector{} },
		cloud.WithKind("VirtualMachine"):                          func() Object { return &cloudv1alpha1.VirtualMachine{} },
		expect.GroupVersion().WithKind(expect.Kind):               func() Object { return &expect.PolicyTest{} },
		cloud.WithKind("Vpc"):                                     func() Object { return &cloudv1alpha1.Vpc{} },
	}
}

// clusterScoped tells the kinds that have no namespace.
func clusterScoped(kind string) bool {
	switch kind {
	case "Namespace", "Node", "ClusterNetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "Tier", "ClusterGroup", expect.Kind:
		return true
	}
	return false
}
