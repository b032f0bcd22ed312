package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nephele-io/nephele/internal/kinds"
)

// access is what the console passes on for a resource.
type access uint8

const (
	// reads are get and list.
	reads access = 1 << iota
	// writes are create, update, patch and delete of one object: as a dry run always, in earnest
	// only where edits are allowed.
	writes
	// asks is create of an object that is answered and not stored.
	asks
	// breaksGlass is a patch of the one annotation that releases VMs in an emergency.
	breaksGlass
)

// allowed returns what is passed on for a resource; 0 for all that is not listed, Secrets among it.
func allowed(r schema.GroupResource) access {
	if k, known := kinds.FindResource(r.Group, r.Resource); known {
		return accessOf(k)
	}
	switch r.Group {
	case "":
		if r.Resource == "events" {
			return reads
		}
	case "controlplane.antrea.io":
		switch r.Resource {
		case "networkpolicies", "addressgroups", "appliedtogroups", "groupassociations", "ipgroupassociations", "groupmembers", "clustergroupmembers":
			return reads
		}
	case "stats.antrea.io":
		switch r.Resource {
		case "networkpolicystats", "antreanetworkpolicystats", "antreaclusternetworkpolicystats":
			return reads
		}
	case "analysis.nephele.io":
		switch r.Resource {
		case "flowreviews", "reachreviews", "effectiverules", "planreviews", "flowqueries":
			return asks
		}
	case "authorization.k8s.io":
		switch r.Resource {
		case "selfsubjectaccessreviews", "selfsubjectrulesreviews":
			return asks
		}
	}
	return 0
}

// accessOf is what is passed on for a stored kind.
func accessOf(k kinds.Kind) (out access) {
	for use, what := range map[kinds.Use]access{kinds.Shown: reads, kinds.Edited: writes, kinds.BreaksGlass: breaksGlass} {
		if k.Is(use) {
			out |= what
		}
	}
	return out
}

// target is what a path of the Kubernetes API leads to. Without a resource it describes a version
// of a group, or with nothing at all the server.
type target struct {
	group, version, namespace, resource, name string
}

var (
	// segment is one part of a path: no escapes, so that nobody behind us reads another path in it.
	segment = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)
	release = regexp.MustCompile(`^v[0-9]{1,3}((alpha|beta)[0-9]{1,3})?$`)
)

// parseTarget reads a path as it was sent, without its first slash.
func parseTarget(escaped string) (target, error) {
	parts := strings.Split(escaped, "/")
	for _, p := range parts {
		if !segment.MatchString(p) {
			return target{}, fmt.Errorf("%q is not part of a path of the Kubernetes API", p)
		}
	}
	var t target
	switch {
	case escaped == "version":
		return t, nil
	case parts[0] == "api" && len(parts) >= 2:
		t.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) >= 3:
		t.group, t.version, parts = parts[1], parts[2], parts[3:]
	default:
		return target{}, fmt.Errorf("%q is no path of an API group", escaped)
	}
	if !release.MatchString(t.version) {
		return target{}, fmt.Errorf("%q is not the version of an API", t.version)
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 2 {
		return target{}, fmt.Errorf("the console does not pass on subresources such as %q", parts[2])
	}
	if len(parts) > 0 {
		t.resource = parts[0]
	}
	if len(parts) > 1 {
		t.name = parts[1]
	}
	return t, nil
}

// String is the resource as people write it.
func (t target) String() string {
	return schema.GroupResource{Group: t.group, Resource: t.resource}.String()
}

var (
	// provenBy leads to the public keys by which the page tells whether the controller has written
	// a revision of the history, and hubTold to which processes of a hub answer. No other ConfigMap
	// is passed on.
	provenBy = target{version: "v1", namespace: "kube-system", resource: "configmaps", name: "nephele-history-keys"}
	hubTold  = target{version: "v1", namespace: "kube-system", resource: "configmaps", name: "nephele-hub"}
)

// refusal is why something is not passed on, with the status code that says so.
type refusal struct {
	code int
	text string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// plainQuery are the parameters that are passed on.
func plainQuery(name string) bool {
	switch name {
	case "limit", "continue", "page", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch",
		"dryRun", "fieldManager", "fieldValidation", "force", "propagationPolicy", "gracePeriodSeconds":
		return true
	}
	return false
}

// permit says whether a request is passed on. The query is the one that is sent on.
func permit(method string, t target, q url.Values, edit bool) *refusal {
	for name, values := range q {
		if !plainQuery(name) {
			return refuse(http.StatusBadRequest, "the console does not pass on the parameter %q", name)
		}
		if len(values) != 1 {
			return refuse(http.StatusBadRequest, "the parameter %q is given %d times", name, len(values))
		}
	}
	if q.Has("dryRun") && q.Get("dryRun") != "All" {
		return refuse(http.StatusBadRequest, "dryRun: want All")
	}
	what := allowed(schema.GroupResource{Group: t.group, Resource: t.resource})
	if t == provenBy || t == hubTold {
		what = reads
	}
	if t.resource == "" {
		what = reads
		if t.group != "" && !slices.Contains(groups(), t.group) {
			what = 0
		}
	}
	if what == 0 {
		return refuse(http.StatusForbidden, "the console does not pass on requests for %s", t)
	}
	named := t.name != ""
	switch method {
	case http.MethodGet:
		if what&reads != 0 {
			return nil
		}
	case http.MethodPost:
		if what&asks != 0 && !named {
			return nil
		}
		if what&writes != 0 && !named {
			return change(q, edit)
		}
	case http.MethodPut, http.MethodDelete:
		if what&writes != 0 && named {
			return change(q, edit)
		}
	case http.MethodPatch:
		if what&(writes|breaksGlass) != 0 && named {
			return change(q, edit)
		}
	}
	return refuse(http.StatusMethodNotAllowed, "the console does not pass on %s for %s", method, t)
}

// change permits a change: dry runs always.
func change(q url.Values, edit bool) *refusal {
	if edit || q.Get("dryRun") == "All" {
		return nil
	}
	return refuse(http.StatusForbidden, "this console only reads: it was started without --allow-edit")
}

// groups are the groups that may be described.
func groups() []string {
	return []string{"crd.cloud.antrea.io", "crd.antrea.io", "networking.k8s.io", "policy.networking.k8s.io", "controlplane.antrea.io",
		"stats.antrea.io", "nephele.io", "analysis.nephele.io"}
}
