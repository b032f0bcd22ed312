package arm

import (
	"net/http"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// route finds out what a request is. Paths match in any case. With an error, the route says as much
// as is known, for the journal.
func (h *Handler) route(r *http.Request) (route, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	lower := strings.Split(strings.ToLower(strings.Trim(r.URL.Path, "/")), "/")
	open := func(name string, run action) (route, error) {
		return route{service: serviceLogin, name: name, run: run, open: true}, nil
	}
	switch {
	case lower[0] == "metadata" && strings.HasPrefix(strings.Join(lower, "/"), "metadata/identity/oauth2/token"):
		return route{service: serviceIdentity, name: "identity/token", run: h.login.identityToken, open: true}, nil
	case lower[0] == "metadata" && len(lower) == 2 && lower[1] == "endpoints":
		return open("login/endpoints", h.login.endpoints)
	case len(lower) == 3 && lower[0] == "common" && lower[1] == "discovery":
		return open("login/instance", h.login.instance)
	case len(lower) == 3 && lower[0] == federation && lower[2] == "openid-configuration":
		return open("login/openid-configuration", h.login.openIDOfFederation)
	case len(lower) == 3 && lower[0] == federation && lower[1] == "oauth2" && lower[2] == "token":
		return open("login/token", func(req *request) (answer, error) { return h.login.token(req, federation) })
	case len(lower) == 4 && lower[1] == "v2.0" && lower[3] == "openid-configuration":
		return open("login/openid-configuration", func(req *request) (answer, error) { return h.login.openID(req, parts[0]) })
	case len(lower) == 4 && lower[1] == "oauth2" && lower[2] == "v2.0" && lower[3] == "token":
		return open("login/token", func(req *request) (answer, error) { return h.login.token(req, parts[0]) })
	case lower[0] == "subscriptions" || lower[0] == "tenants" || lower[0] == "providers":
		return h.routeARM(r, parts, lower)
	}
	return route{service: serviceARM, name: "unknown", kind: kindRead, open: true}, document.Refuse(http.StatusNotFound, "NotFound", "There is nothing at %s.", r.URL.Path)
}

// unsupported is the refusal of a method that a place does not have.
func unsupported(r *http.Request) error {
	return document.Refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The method %s is not supported for %s.", r.Method, r.URL.Path)
}

func (h *Handler) routeARM(r *http.Request, parts, lower []string) (route, error) {
	out := route{service: serviceARM, kind: kindOf(r.Method), name: "unknown"}
	is := func(method, name string, run action) (route, error) {
		out.name, out.run = name, run
		if r.Method != method {
			return out, unsupported(r)
		}
		return out, nil
	}
	switch {
	case lower[0] == "tenants":
		return is(http.MethodGet, "Microsoft.Resources/tenants/read", h.tenants)
	case lower[0] == "providers":
		if len(lower) == 3 && lower[1] == "microsoft.resourcegraph" && lower[2] == "resources" {
			out.service, out.kind = serviceGraph, kindGraph
			return is(http.MethodPost, "Microsoft.ResourceGraph/resources/read", h.graph)
		}
		return out, document.Refuse(http.StatusNotFound, "InvalidResourceNamespace", "The resource namespace '%s' is invalid.", strings.Join(parts[1:], "/"))
	case len(lower) == 1:
		return is(http.MethodGet, "Microsoft.Resources/subscriptions/read", h.subscriptions)
	}
	out.id.Subscription = parts[1]
	if len(lower) == 2 {
		return is(http.MethodGet, "Microsoft.Resources/subscriptions/read", h.subscription)
	}
	// What hangs on another scope comes last in a path.
	if n := len(lower) - 4; n >= 2 && lower[n] == "providers" && lower[n+1] == "microsoft.resources" && lower[n+2] == "tags" && lower[n+3] == "default" {
		return h.routeTags(r, out, "/"+strings.Join(parts[:n], "/"))
	}
	if n := len(lower) - 3; n >= 2 && lower[n] == "providers" && lower[n+1] == "microsoft.authorization" && lower[n+2] == "permissions" {
		scope := "/" + strings.Join(parts[:n], "/")
		return is(http.MethodGet, "Microsoft.Authorization/permissions/read", func(req *request) (answer, error) { return h.permissions(req, scope) })
	}
	if n := len(lower) - 4; n >= 2 && lower[n] == "providers" && lower[n+1] == "microsoft.authorization" && lower[n+2] == "locks" {
		return h.routeLock(r, out, "/"+strings.Join(parts[:n], "/"), parts[n+3])
	}
	switch lower[2] {
	case "locations":
		return is(http.MethodGet, "Microsoft.Resources/subscriptions/locations/read", h.locations)
	case "resources":
		if len(lower) == 3 {
			return is(http.MethodGet, "Microsoft.Resources/subscriptions/resources/read", h.resources)
		}
	case "resourcegroups":
		switch {
		case len(lower) == 5 && lower[4] == "resources":
			out.id.Group = parts[3]
			return is(http.MethodGet, "Microsoft.Resources/subscriptions/resourceGroups/resources/read", h.resources)
		case len(lower) == 3:
			return is(http.MethodGet, "Microsoft.Resources/subscriptions/resourceGroups/read", h.groups)
		case len(lower) == 4:
			out.id.Group = parts[3]
			return h.routeGroup(r, out)
		}
		return h.routeResource(r, out, parts, lower, 4)
	case "providers":
		return h.routeProvider(r, out, parts, lower)
	}
	return out, document.Refuse(http.StatusNotFound, "NotFound", "There is nothing at %s.", r.URL.Path)
}

// routeProvider is for what is below a subscription and a provider: registrations, operations, and
// lists of a whole subscription.
func (h *Handler) routeProvider(r *http.Request, out route, parts, lower []string) (route, error) {
	switch {
	case len(lower) == 4:
		out.name, out.run = "Microsoft.Resources/subscriptions/providers/read", func(req *request) (answer, error) { return h.provider(req, parts[3], false) }
		return out, only(r, http.MethodGet)
	case len(lower) == 5 && lower[4] == "register":
		out.name, out.run = parts[3]+"/register/action", func(req *request) (answer, error) { return h.provider(req, parts[3], true) }
		return out, only(r, http.MethodPost)
	case len(lower) == 7 && lower[3] == "microsoft.network" && lower[4] == "locations" && lower[6] == "servicetags":
		out.name, out.run = "Microsoft.Network/locations/serviceTags/read", func(req *request) (answer, error) { return h.serviceTags(req, lower[5]) }
		return out, only(r, http.MethodGet)
	case len(lower) == 8 && lower[4] == "locations" && (lower[6] == "operations" || lower[6] == "operationresults"):
		out.name, out.kind = parts[3]+"/locations/"+lower[6]+"/read", kindRead
		out.run = func(req *request) (answer, error) { return h.operation(req, lower[7], lower[6] == "operationresults") }
		return out, only(r, http.MethodGet)
	}
	return h.routeResource(r, out, parts, lower, 2)
}

func only(r *http.Request, methods ...string) error {
	for _, m := range methods {
		if r.Method == m {
			return nil
		}
	}
	return unsupported(r)
}

// routeResource is for resources, their parts, their lists and their actions. at is where
// "providers" stands in the path.
func (h *Handler) routeResource(r *http.Request, out route, parts, lower []string, at int) (route, error) {
	if at == 4 {
		out.id.Group = parts[3]
	}
	if len(lower) < at+3 || lower[at] != "providers" {
		return out, document.Refuse(http.StatusNotFound, "NotFound", "There is nothing at %s.", r.URL.Path)
	}
	rest := parts[at+1:] // provider, type, name, type, name, ...
	if len(rest)%2 == 1 {
		id, ok := document.ParseID("/" + strings.Join(parts, "/"))
		if !ok {
			return out, document.Refuse(http.StatusBadRequest, "InvalidResourceId", "The resource id %s cannot be read.", r.URL.Path)
		}
		out.id = id
		return h.routeOne(r, out, id)
	}
	// A list, or an action on a resource.
	last := rest[len(rest)-1]
	scope := out.id
	if len(rest) > 2 {
		scope, _ = document.ParseID("/" + strings.Join(parts[:len(parts)-1], "/")) // the words of the path alternate
	}
	out.id = scope
	kind := rest[0]
	for i := 1; i < len(rest); i += 2 {
		kind += "/" + rest[i]
	}
	if len(rest) > 2 {
		switch strings.ToLower(last) {
		case "instanceview":
			out.name = "Microsoft.Compute/virtualMachines/instanceView/read"
			out.run = func(req *request) (answer, error) { return h.instanceView(req) }
			return out, only(r, http.MethodGet)
		case "defaultsecurityrules":
			out.name = "Microsoft.Network/networkSecurityGroups/defaultSecurityRules/read"
			out.run = func(req *request) (answer, error) { return h.defaultRules(req) }
			return out, only(r, http.MethodGet)
		case "effectivenetworksecuritygroups":
			out.name = "Microsoft.Network/networkInterfaces/effectiveNetworkSecurityGroups/action"
			out.kind = kindRead
			out.run = func(req *request) (answer, error) { return h.effectiveGroups(req) }
			return out, only(r, http.MethodPost)
		case "start", "poweroff", "deallocate", "restart":
			out.name = spelling(scope.Type()) + "/" + last + "/action"
			out.run = func(req *request) (answer, error) { return h.power(req, last) }
			return out, only(r, http.MethodPost)
		}
	}
	// The interfaces of a scale set and of its instances are listed by the set.
	if strings.EqualFold(kind, "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces") {
		kind = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/networkInterfaces"
	}
	out.name = spelling(kind) + "/read"
	out.run = func(req *request) (answer, error) { return h.list(req, kind) }
	return out, only(r, http.MethodGet)
}

func (h *Handler) routeOne(r *http.Request, out route, id document.ID) (route, error) {
	kind := spelling(id.Type())
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		out.name, out.run = kind+"/read", h.get
	case http.MethodPut:
		out.name, out.run = kind+"/write", h.put
	case http.MethodPatch:
		out.name, out.run = kind+"/write", h.patch
	case http.MethodDelete:
		out.name, out.run = kind+"/delete", h.delete
	default:
		return out, unsupported(r)
	}
	return out, nil
}

func (h *Handler) routeGroup(r *http.Request, out route) (route, error) {
	const kind = "Microsoft.Resources/subscriptions/resourceGroups"
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		out.name, out.run = kind+"/read", h.group
	case http.MethodPut:
		out.name, out.run = kind+"/write", h.putGroup
	case http.MethodDelete:
		out.name, out.run = kind+"/delete", h.deleteGroup
	default:
		return out, unsupported(r)
	}
	return out, nil
}

func (h *Handler) routeTags(r *http.Request, out route, scope string) (route, error) {
	id, ok := document.ParseID(scope)
	if !ok {
		return out, document.Refuse(http.StatusBadRequest, "InvalidResourceId", "The resource id %s cannot be read.", scope)
	}
	out.id = id
	switch r.Method {
	case http.MethodGet:
		out.name, out.run = "Microsoft.Resources/tags/read", h.tags
	case http.MethodPatch, http.MethodPut:
		out.name, out.run = "Microsoft.Resources/tags/write", h.updateTags
	default:
		return out, unsupported(r)
	}
	return out, nil
}

func (h *Handler) routeLock(r *http.Request, out route, scope, name string) (route, error) {
	id, ok := document.ParseID(scope)
	if !ok {
		return out, document.Refuse(http.StatusBadRequest, "InvalidResourceId", "The resource id %s cannot be read.", scope)
	}
	out.id = id
	switch r.Method {
	case http.MethodPut:
		out.name = "Microsoft.Authorization/locks/write"
	case http.MethodDelete:
		out.name = "Microsoft.Authorization/locks/delete"
	default:
		return out, unsupported(r)
	}
	out.run = func(req *request) (answer, error) { return h.lock(req, name) }
	return out, nil
}

// spelling is the usual spelling of a type, or how it was written if it is not known.
func spelling(kind string) string {
	if s, ok := azure.Spelling(kind); ok {
		return s
	}
	return kind
}
