package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// Queries answers questions about what is computed. Errors are watchstore.ErrNotReady before
// anything is.
type Queries interface {
	// GroupMembers returns a page of a Group, or without namespace of a ClusterGroup; nil if there
	// is none. Members that may not be seen are none for the caller: a Group may select in all
	// Namespaces. Nodes are in the Namespace "".
	GroupMembers(ctx context.Context, name types.NamespacedName, page v1beta2.PaginationGetOptions, seen func(namespace string) bool) (*v1beta2.GroupMembers, error)
	// GroupsOf returns the groups of a Pod, or if there is none of the name, of an ExternalEntity;
	// false if there is neither.
	GroupsOf(ctx context.Context, name types.NamespacedName) ([]v1beta2.GroupReference, bool, error)
	// GroupsOfAddress returns the groups that an address is in.
	GroupsOfAddress(ctx context.Context, a netip.Addr) ([]v1beta2.GroupReference, error)
	// Endpoint returns what concerns a Pod; nil if there is none.
	Endpoint(ctx context.Context, name types.NamespacedName) (*v1beta2.Endpoint, error)
	// EvaluatePods returns the rule that decides between two Pods; nil if none does. An error that
	// is an UnknownPod names one that does not exist.
	EvaluatePods(ctx context.Context, source, destination types.NamespacedName) (*v1beta2.NetworkPolicyEvaluationResponse, error)
	// Computed returns how much is computed.
	Computed(ctx context.Context) (policies, addressGroups, appliedToGroups int, err error)
}

// UnknownPod is an error about a Pod that does not exist.
type UnknownPod interface {
	error
	UnknownPod() types.NamespacedName
}

func controlplane(resource string) schema.GroupResource {
	return schema.GroupResource{Group: v1beta2.GroupName, Resource: resource}
}

// getter is a resource of which one object at a time is read.
type getter struct {
	storage.Resource
	get func(ctx context.Context, name types.NamespacedName) (runtime.Object, error)
}

var _ rest.Getter = (*getter)(nil)

// Get implements rest.Getter.
func (g *getter) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	object, err := g.get(ctx, types.NamespacedName{Namespace: request.NamespaceValue(ctx), Name: name})
	if err != nil {
		return nil, queryError(err)
	}
	return object, nil
}

// queryError converts an error of Queries; errors of the API stay what they are.
func queryError(err error) error {
	var status apierrors.APIStatus
	var unknown UnknownPod
	switch {
	case errors.As(err, &status):
		return err
	case errors.As(err, &unknown):
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, unknown.UnknownPod().String())
	}
	return unavailable(err)
}

// eyes ask what a caller may see: a caller that may ask for the groups of a Namespace sees their
// members in that Namespace and no others, whatever a group there selects.
type eyes struct{ access authorizer.Authorizer }

// seen reports for Namespaces whether the caller may get that resource there; Nodes and
// ClusterGroups are in the Namespace "", which takes the right to get the resource everywhere.
// failed returns what could not be asked.
func (e eyes) seen(ctx context.Context, resource, own string) (seen func(namespace string) bool, failed func() error) {
	caller, known := request.UserFrom(ctx)
	if !known {
		return func(string) bool { return false }, func() error { return errors.New("the request names no caller") }
	}
	var errs error
	answers := map[string]bool{own: true} // which was asked before
	may := func(namespace string) bool {
		allowed, asked := answers[namespace]
		if asked || len(answers) >= mostAsked {
			return allowed
		}
		decision, _, err := e.access.Authorize(ctx, authorizer.AttributesRecord{User: caller, Verb: "get", ResourceRequest: true,
			APIGroup: v1beta2.GroupName, APIVersion: v1beta2.GroupVersion().Version, Resource: resource, Namespace: namespace})
		if answers[namespace] = decision == authorizer.DecisionAllow; !answers[namespace] && err != nil && errs == nil {
			errs = fmt.Errorf("ask what %q may do: %w", caller.GetName(), err)
		}
		return answers[namespace]
	}
	return func(namespace string) bool { return may("") || may(namespace) }, func() error { return errs }
}

func newGroupAssociations(q Queries, e eyes) rest.Storage {
	r := storage.New(controlplane("groupassociations"), "groupassociation", true, func() runtime.Object { return &v1beta2.GroupAssociation{} })
	return &getter{r, func(ctx context.Context, name types.NamespacedName) (runtime.Object, error) {
		groups, known, err := q.GroupsOf(ctx, name)
		if err == nil && !known {
			err = apierrors.NewNotFound(schema.GroupResource{Resource: "pods or externalentities"}, name.String())
		}
		if err == nil && len(groups) > 0 { // what others call it is theirs
			seen, failed := e.seen(ctx, "groupassociations", name.Namespace)
			groups = slices.DeleteFunc(groups, func(g v1beta2.GroupReference) bool { return !seen(g.Namespace) })
			err = failed()
		}
		return &v1beta2.GroupAssociation{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, AssociatedGroups: groups}, err
	}}
}

func newIPGroupAssociations(q Queries) rest.Storage {
	r := storage.New(controlplane("ipgroupassociations"), "ipgroupassociation", false, func() runtime.Object { return &v1beta2.IPGroupAssociation{} })
	return &getter{r, func(ctx context.Context, name types.NamespacedName) (runtime.Object, error) {
		a, err := netip.ParseAddr(name.Name)
		if err != nil || a.Zone() != "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the name %q is no IP address, for example 10.0.0.1 or 2001:db8::1", name.Name))
		}
		groups, err := q.GroupsOfAddress(ctx, a)
		return &v1beta2.IPGroupAssociation{ObjectMeta: metav1.ObjectMeta{Name: name.Name}, AssociatedGroups: groups}, err
	}}
}

// members serves the members of groups, a page at a time.
type members struct {
	storage.Resource
	queries Queries
	eyes
}

var _ rest.GetterWithOptions = (*members)(nil)

func newGroupMembers(q Queries, e eyes) rest.Storage {
	return &members{storage.New(controlplane("groupmembers"), "groupmembers", true, func() runtime.Object { return &v1beta2.GroupMembers{} }), q, e}
}

func newClusterGroupMembers(q Queries, e eyes) rest.Storage {
	return &members{storage.New(controlplane("clustergroupmembers"), "clustergroupmembers", false, func() runtime.Object { return &v1beta2.ClusterGroupMembers{} }), q, e}
}

// NewGetOptions implements rest.GetterWithOptions.
func (m *members) NewGetOptions() (options runtime.Object, subpath bool, key string) {
	return &v1beta2.PaginationGetOptions{}, false, ""
}

// Get implements rest.GetterWithOptions.
func (m *members) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	page, ok := options.(*v1beta2.PaginationGetOptions)
	switch {
	case !ok || page == nil:
		page = &v1beta2.PaginationGetOptions{}
	case page.Limit < 0:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("limit %d: want 0 for everything, or the number of members in a page", page.Limit))
	case page.Page < 0:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("page %d: want 1 for the first page, and so on", page.Page))
	}
	key := types.NamespacedName{Namespace: request.NamespaceValue(ctx), Name: name}
	// A caller that may ask about ClusterGroups may ask about all Namespaces.
	seen, failed := func(string) bool { return true }, func() error { return nil }
	if m.Namespaced {
		seen, failed = m.seen(ctx, "groupmembers", key.Namespace)
	}
	found, err := m.queries.GroupMembers(ctx, key, *page, seen)
	if err == nil {
		err = failed()
	}
	switch {
	case err != nil:
		return nil, queryError(err)
	case found == nil && m.Namespaced:
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "crd.antrea.io", Resource: "groups"}, key.String())
	case found == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "crd.antrea.io", Resource: "clustergroups"}, name)
	case m.Namespaced:
		return found, nil
	}
	return (*v1beta2.ClusterGroupMembers)(found), nil
}

// evaluations serves networkpolicyevaluation.
type evaluations struct {
	storage.Resource
	queries Queries
}

var _ rest.Creater = (*evaluations)(nil)

func newEvaluations(q Queries) rest.Storage {
	return &evaluations{storage.New(controlplane("networkpolicyevaluation"), "networkpolicyevaluation", false,
		func() runtime.Object { return &v1beta2.NetworkPolicyEvaluation{} }), q}
}

// Create implements rest.Creater: it answers, and keeps nothing.
func (e *evaluations) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	question, ok := object.(*v1beta2.NetworkPolicyEvaluation)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a NetworkPolicyEvaluation", object))
	}
	if question.Request == nil {
		return nil, apierrors.NewBadRequest("request is missing, want a source and a destination")
	}
	source, err := podName("request.source", question.Request.Source)
	if err != nil {
		return nil, err
	}
	destination, err := podName("request.destination", question.Request.Destination)
	if err != nil {
		return nil, err
	}
	answer, err := e.queries.EvaluatePods(ctx, source, destination)
	if err != nil {
		return nil, queryError(err)
	}
	out := question.DeepCopy()
	out.Response = answer
	return out, nil
}

func podName(field string, e v1beta2.Entity) (types.NamespacedName, error) {
	switch {
	case e.Pod == nil:
		return types.NamespacedName{}, apierrors.NewBadRequest(field + ".pod is missing, want namespace and name of a Pod")
	case e.Pod.Name == "" || e.Pod.Namespace == "":
		return types.NamespacedName{}, apierrors.NewBadRequest(fmt.Sprintf("%s.pod: namespace %q and name %q must be given", field, e.Pod.Namespace, e.Pod.Name))
	}
	return types.NamespacedName{Namespace: e.Pod.Namespace, Name: e.Pod.Name}, nil
}

// featureGatesPath is where antctl asks for feature gates.
const featureGatesPath = "/featuregates"

// serveFeatureGates answers GET /featuregates: there are none, which antctl prints as a table
// without rows.
func serveFeatureGates(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	// An error here means that the client has gone.
	_, _ = w.Write([]byte("[]\n"))
}

// endpointPath is where antctl asks which policies concern a Pod.
const endpointPath = "/endpoint"

// serveEndpoint answers GET /endpoint?pod=NAME&namespace=NAMESPACE.
func serveEndpoint(q Queries) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
			return
		}
		name := types.NamespacedName{Namespace: r.URL.Query().Get("namespace"), Name: r.URL.Query().Get("pod")}
		if name.Namespace == "" {
			name.Namespace = metav1.NamespaceDefault
		}
		if name.Name == "" {
			http.Error(w, "the parameter pod is missing: want /endpoint?pod=NAME&namespace=NAMESPACE", http.StatusBadRequest)
			return
		}
		if wrong := validation.IsDNS1123Subdomain(name.Name); len(wrong) > 0 {
			http.Error(w, fmt.Sprintf("pod %q: %s", name.Name, wrong[0]), http.StatusBadRequest)
			return
		}
		found, err := q.Endpoint(r.Context(), name)
		switch {
		case errors.Is(err, watchstore.ErrNotReady):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case found == nil:
			http.Error(w, fmt.Sprintf("there is no Pod %s", name), http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", runtime.ContentTypeJSON)
			// An error here means that the client has gone.
			_ = json.NewEncoder(w).Encode(v1beta2.EndpointQueryResponse{Endpoints: []v1beta2.Endpoint{*found}})
		}
	}
}
