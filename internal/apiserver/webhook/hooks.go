package webhook

import (
	"context"
	"net/http"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/kinds"
)

// Hook is one webhook: what is asked about, and where.
type Hook struct {
	// Name is the name in the webhook configuration.
	Name string
	// Path is where it is served.
	Path string
	// Mutating hooks are asked before the schema is looked at, and may change the object.
	Mutating bool
	// Group, Version and Resource are what it is asked about; Scope is that of the resource.
	Group, Version, Resource string
	Scope                    admissionregistrationv1.ScopeType
	Operations               []admissionregistrationv1.OperationType
	// Witness hooks refuse nothing, and nothing waits for their answer: they only report the
	// author.
	Witness bool

	decide func(context.Context, *states, *question) answer
}

// Hooks returns all webhooks. They have the names and paths that they have with an Antrea
// Controller. Two mutating ones are ours: the hook of ClusterGroups replaces Antrea's conversion of
// v1alpha2, the hook of Groups changes nothing.
func Hooks() []Hook {
	changes := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	hook := func(name, path, resource string, scope admissionregistrationv1.ScopeType, decide func(context.Context, *states, *question) answer) Hook {
		gv := v1beta1.GroupVersion()
		return Hook{
			Name: name + ".antrea.io", Path: path, Mutating: strings.HasPrefix(path, "/mutate/"), Group: gv.Group, Version: gv.Version, Resource: resource,
			Scope: scope, Operations: changes, decide: decide,
		}
	}
	const cluster, namespaced = admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope
	hooks := []Hook{
		hook("acnpmutator", "/mutate/acnp", "clusternetworkpolicies", cluster, completePolicy(clusterPolicy)),
		hook("annpmutator", "/mutate/annp", "networkpolicies", namespaced, completePolicy(namespacedPolicy)),
		hook("clustergroupmutator", "/mutate/clustergroup", "clustergroups", cluster, completeClusterGroup),
		hook("groupmutator", "/mutate/group", "groups", namespaced, previewGroup(namespacedGroup)),
		hook("tiervalidator", "/validate/tier", "tiers", cluster, validateTier),
		hook("acnpvalidator", "/validate/acnp", "clusternetworkpolicies", cluster, validatePolicy(clusterPolicy)),
		hook("annpvalidator", "/validate/annp", "networkpolicies", namespaced, validatePolicy(namespacedPolicy)),
		hook("clustergroupvalidator", "/validate/clustergroup", "clustergroups", cluster, validateGroup(clusterGroup)),
		hook("groupvalidator", "/validate/group", "groups", namespaced, validateGroup(namespacedGroup)),
	}
	for i := range hooks {
		if hooks[i].Path == "/validate/tier" {
			hooks[i].Operations = append(changes[:2:2], admissionregistrationv1.Delete)
		}
	}
	upstream := func(name, path, resource, version string, empty func() (runtime.Object, func() any)) Hook {
		return Hook{
			Name: name + ".antrea.io", Path: path, Group: v1alpha2.GroupName, Version: version, Resource: resource,
			Scope: cluster, Operations: changes, decide: validateUpstream(empty),
		}
	}
	return append(hooks,
		upstream("cnpvalidator", "/validate/cnp", "clusternetworkpolicies", "v1alpha2", upstreamPolicy),
		upstream("anpvalidator", "/validate/anp", "adminnetworkpolicies", "v1alpha1", adminPolicy),
		upstream("banpvalidator", "/validate/banp", "baselineadminnetworkpolicies", "v1alpha1", baselinePolicy),
	)
}

// WitnessHooks are asked, besides Hooks, of what is deleted, and of changes that no other hook is
// asked about, so that the history knows the author. They are for a server that is certain to be
// asked by kube-apiserver alone.
func WitnessHooks() []Hook {
	var out []Hook
	for _, k := range kinds.All() {
		if k.Revised == "" {
			continue
		}
		h := Hook{
			Name: k.Revised + ".witness.nephele.io", Path: "/witness/" + k.Revised, Group: k.Group, Version: k.Version, Resource: k.Resource,
			Scope: admissionregistrationv1.ClusterScope, Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}, Witness: true,
			decide: func(context.Context, *states, *question) answer { return answer{} },
		}
		if k.Namespaced {
			h.Scope = admissionregistrationv1.NamespacedScope
		}
		if !k.Is(kinds.Admitted) {
			h.Operations = append(h.Operations, admissionregistrationv1.Create, admissionregistrationv1.Update)
		}
		out = append(out, h)
	}
	return out
}

// Paths returns the paths of all webhooks.
func Paths() []string {
	var out []string
	for _, h := range append(Hooks(), WitnessHooks()...) {
		out = append(out, h.Path)
	}
	return out
}

// Handlers returns what serves each path. Cached is asked first; Live, which reads from the API
// itself, before a refusal that depends on other objects.
//
// All together take a bounded amount of memory, for any number of callers: a question that is too
// large is refused with 413, one too many with 429 and the wish to ask again.
func Handlers(cached, live State) map[string]http.Handler { return Witnessed(cached, live, nil) }

// Witnessed returns Handlers that tell a witness of what they let pass; nil if there is none.
func Witnessed(cached, live State, witness Witness) map[string]http.Handler {
	out, l := map[string]http.Handler{}, newLimits()
	for _, h := range append(Hooks(), WitnessHooks()...) {
		out[h.Path] = &handler{h, &states{cached, limited{live, l}}, l, witness}
	}
	return out
}
