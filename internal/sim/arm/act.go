package arm

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

// read runs f on the state.
func (h *Handler) read(f func(c *azure.Cloud)) {
	h.cfg.World.ReadAzure(func(c *azure.Cloud, _ time.Time) { f(c) })
}

// change runs f on the state as a mutation of the world.
func (h *Handler) change(req *request, f func(c *azure.Cloud, w azure.Write) error) error {
	return h.cfg.World.ChangeAzure(strings.ToLower(req.id.Subscription), "", req.call.Action, func(c *azure.Cloud, now time.Time) ([]string, error) {
		err := f(c, azure.Write{By: &req.by, Now: now, IfMatch: req.Header.Get("If-Match"), IfNoneMatch: req.Header.Get("If-None-Match"), Fails: req.late})
		return []string{req.id.String()}, err
	})
}

func (h *Handler) get(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var doc map[string]any
		if doc, err = c.Get(&req.by, req.id); err != nil {
			return
		}
		if strings.EqualFold(req.URL.Query().Get("$expand"), "instanceView") {
			view, viewErr := c.InstanceView(&req.by, req.id)
			if viewErr != nil {
				err = viewErr
				return
			}
			doc["properties"].(map[string]any)["instanceView"] = view
		}
		out = withEtag(ok(doc), doc)
	})
	return out, err
}

func withEtag(a answer, doc map[string]any) answer {
	if etag, has := doc["etag"].(string); has {
		a.set("ETag", etag)
	}
	return a
}

func (a *answer) set(name, value string) {
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set(name, value)
}

func (h *Handler) put(req *request) (answer, error) {
	var body map[string]any
	if err := req.decode(&body); err != nil {
		return answer{}, err
	}
	var result azure.Result
	if err := h.change(req, func(c *azure.Cloud, w azure.Write) (err error) {
		result, err = c.Put(w, req.id, body)
		return err
	}); err != nil {
		return answer{}, err
	}
	out := ok(result.Document)
	if result.Created {
		out.status = http.StatusCreated
	}
	h.operationHeaders(&out, req, result, false)
	return withEtag(out, result.Document), nil
}

func (h *Handler) patch(req *request) (answer, error) {
	var body map[string]any
	if err := req.decode(&body); err != nil {
		return answer{}, err
	}
	var result azure.Result
	if err := h.change(req, func(c *azure.Cloud, w azure.Write) (err error) {
		result, err = c.Patch(w, req.id, body)
		return err
	}); err != nil {
		return answer{}, err
	}
	return withEtag(ok(result.Document), result.Document), nil
}

func (h *Handler) delete(req *request) (answer, error) {
	var result azure.Result
	if err := h.change(req, func(c *azure.Cloud, w azure.Write) (err error) {
		result, err = c.Delete(w, req.id)
		return err
	}); err != nil {
		return answer{}, err
	}
	out := answer{status: http.StatusOK}
	switch {
	case result.Absent:
		out.status = http.StatusNoContent
	case result.Operation != nil:
		out.status = http.StatusAccepted
		h.operationHeaders(&out, req, result, true)
	}
	return out, nil
}

func (h *Handler) power(req *request, verb string) (answer, error) {
	var result azure.Result
	if err := h.change(req, func(c *azure.Cloud, w azure.Write) (err error) {
		result, err = c.Power(w, req.id, verb)
		return err
	}); err != nil {
		return answer{}, err
	}
	out := answer{status: http.StatusOK}
	if result.Operation != nil {
		out.status = http.StatusAccepted
		h.operationHeaders(&out, req, result, true)
	}
	return out, nil
}

// operationHeaders tell the client where to look at the operation that goes on.
func (h *Handler) operationHeaders(out *answer, req *request, result azure.Result, location bool) {
	if result.Operation == nil {
		return
	}
	base := fmt.Sprintf("https://%s/subscriptions/%s/providers/%s/locations/%s/", req.Host, req.id.Subscription, provider(req.id), result.Location)
	version := "?api-version=" + url.QueryEscape(req.URL.Query().Get("api-version"))
	out.set("Azure-AsyncOperation", base+"operations/"+result.Operation.ID+version)
	out.set("Azure-AsyncNotification", "Enabled")
	out.set("Retry-After", h.pollAfter())
	if location {
		out.set("Location", base+"operationResults/"+result.Operation.ID+version)
	}
}

func provider(id document.ID) string {
	if strings.EqualFold(id.Provider, "Microsoft.Compute") {
		return "Microsoft.Compute"
	}
	return "Microsoft.Network"
}

func (h *Handler) pollAfter() string { return strconv.Itoa(int(h.cfg.PollAfter / time.Second)) }

func (h *Handler) operation(req *request, id string, results bool) (out answer, err error) {
	var o azure.Operation
	h.read(func(c *azure.Cloud) { o, err = c.Operation(&req.by, req.id.Subscription, id) })
	switch {
	case err != nil:
		return out, err
	case o.Status == document.InProgress && results:
		out = answer{status: http.StatusAccepted}
		out.set("Retry-After", h.pollAfter())
		out.set("Location", "https://"+req.Host+req.URL.RequestURI())
		return out, nil
	case o.Status == document.InProgress:
		out = ok(map[string]any{"status": o.Status})
		out.set("Retry-After", h.pollAfter())
		return out, nil
	case o.Status == document.Failed && results:
		return out, o.Fails
	case o.Status == document.Failed:
		return ok(map[string]any{"status": o.Status, "error": map[string]any{"code": o.Fails.Code, "message": o.Fails.Message, "details": []any{}}}), nil
	case results:
		return answer{status: http.StatusNoContent}, nil
	}
	return ok(map[string]any{"status": o.Status}), nil
}

func (h *Handler) list(req *request, kind string) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var all []map[string]any
		if all, err = c.List(&req.by, req.id, kind); err != nil {
			return
		}
		if strings.EqualFold(req.URL.Query().Get("statusOnly"), "true") {
			for _, doc := range all {
				id, _ := document.ParseID(doc["id"].(string))
				if view, viewErr := c.InstanceView(&req.by, id); viewErr == nil {
					doc["properties"].(map[string]any)["instanceView"] = view
				}
			}
		}
		out, err = h.page(req, all)
	})
	return out, err
}

// typeFilter is the one filter of the list of resources that is understood.
var typeFilter = regexp.MustCompile(`(?i)^\s*resourceType\s+eq\s+'([^']*)'\s*$`)

// resources lists the resources of a subscription or a resource group, of whatever type.
func (h *Handler) resources(req *request) (out answer, err error) {
	kind := ""
	if filter := req.URL.Query().Get("$filter"); filter != "" {
		m := typeFilter.FindStringSubmatch(filter)
		if m == nil {
			return answer{}, document.Refuse(http.StatusBadRequest, "InvalidFilterInQueryString", "The filter '%s' is not supported here: resourceType eq '...' is.", filter)
		}
		kind = m[1]
	}
	h.read(func(c *azure.Cloud) {
		var all []map[string]any
		if all, err = c.Resources(&req.by, req.id, kind); err == nil {
			out, err = h.page(req, all)
		}
	})
	return out, err
}

// page answers a part of a list, which is in the order of ids: a token says after which id to go
// on.
func (h *Handler) page(req *request, all []map[string]any) (answer, error) {
	from := 0
	if token := req.URL.Query().Get("$skiptoken"); token != "" {
		after, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			return answer{}, document.Refuse(http.StatusBadRequest, "InvalidSkipToken", "The skip token '%s' is invalid.", token)
		}
		for from < len(all) && strings.ToLower(all[from]["id"].(string)) <= string(after) {
			from++
		}
	}
	end := min(len(all), from+h.cfg.PageSize)
	body := map[string]any{"value": all[from:end]}
	if end < len(all) {
		q := req.URL.Query()
		q.Set("$skiptoken", base64.RawURLEncoding.EncodeToString([]byte(strings.ToLower(all[end-1]["id"].(string)))))
		body["nextLink"] = "https://" + req.Host + req.URL.EscapedPath() + "?" + q.Encode()
	}
	return ok(body), nil
}

func (h *Handler) defaultRules(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var all []map[string]any
		if all, err = c.DefaultRules(&req.by, req.id); err == nil {
			out, err = h.page(req, all)
		}
	})
	return out, err
}

func (h *Handler) instanceView(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var view map[string]any
		view, err = c.InstanceView(&req.by, req.id)
		out = ok(view)
	})
	return out, err
}

// effectiveGroups answers at once, which the service may: clients follow an operation only when
// they are informed of one.
func (h *Handler) effectiveGroups(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var groups []azure.EffectiveGroup
		groups, err = c.Verdicts().EffectiveGroups(&req.by, req.id)
		out = ok(map[string]any{"value": append([]azure.EffectiveGroup{}, groups...)})
	})
	return out, err
}

func values(all []any) answer { return ok(map[string]any{"value": all}) }

func (h *Handler) tenants(req *request) (out answer, err error) {
	all := []any{}
	h.read(func(c *azure.Cloud) {
		for _, t := range c.Tenants() {
			if strings.EqualFold(t.ID, req.by.Tenant) {
				all = append(all, map[string]any{"id": "/tenants/" + t.ID, "tenantId": t.ID, "defaultDomain": t.Domain, "tenantType": "AAD"})
			}
		}
	})
	return values(all), nil
}

func subscriptionDocument(s azure.Subscription) map[string]any {
	state := s.State
	if state == "" {
		state = "Enabled"
	}
	return map[string]any{
		"id": "/subscriptions/" + s.ID, "subscriptionId": s.ID, "tenantId": s.Tenant, "displayName": s.Name, "state": state, "authorizationSource": "RoleBased",
		"subscriptionPolicies": map[string]any{"locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01", "spendingLimit": "Off"},
	}
}

func (h *Handler) subscriptions(req *request) (answer, error) {
	all := []any{}
	h.read(func(c *azure.Cloud) {
		for _, s := range c.Subscriptions(&req.by) {
			all = append(all, subscriptionDocument(s))
		}
	})
	return values(all), nil
}

func (h *Handler) subscription(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var s azure.Subscription
		s, err = c.Subscription(&req.by, req.id.Subscription)
		out = ok(subscriptionDocument(s))
	})
	return out, err
}

func (h *Handler) locations(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var s azure.Subscription
		if s, err = c.Subscription(&req.by, req.id.Subscription); err != nil {
			return
		}
		all := []any{}
		for _, l := range azure.Locations() {
			all = append(all, map[string]any{
				"id": "/subscriptions/" + s.ID + "/locations/" + l, "name": l, "type": "Region", "displayName": l, "regionalDisplayName": l,
				"metadata": map[string]any{"regionType": "Physical"},
			})
		}
		out = values(all)
	})
	return out, err
}

// serviceTags are the tags of the whole cloud: a location only says where they are asked for.
func (h *Handler) serviceTags(req *request, location string) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var tags map[string][]netip.Prefix
		if tags, err = c.ServiceTags(&req.by, req.id.Subscription, location); err != nil {
			return
		}
		all := []any{}
		for _, name := range slices.Sorted(maps.Keys(tags)) {
			service, region, _ := strings.Cut(name, ".")
			all = append(all, map[string]any{
				"name": name, "id": name,
				"properties": map[string]any{"changeNumber": "1", "region": strings.ToLower(region), "systemService": service, "addressPrefixes": tags[name]},
			})
		}
		out = ok(map[string]any{
			"name": "Public", "id": "/subscriptions/" + req.id.Subscription + "/providers/Microsoft.Network/serviceTags/Public", "type": "Microsoft.Network/serviceTags",
			"changeNumber": "1", "cloud": "Public", "values": all,
		})
	})
	return out, err
}

// permissions tells what the caller may do at a scope: what each of its roles gives.
func (h *Handler) permissions(req *request, scope string) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		if _, err = c.Subscription(&req.by, req.id.Subscription); err != nil {
			return
		}
		if err = req.by.Authorize("Microsoft.Authorization/permissions/read", scope); err != nil {
			return
		}
		all := []any{}
		for _, r := range req.by.RolesAt(scope) {
			all = append(all, map[string]any{"actions": orEmpty(r.Actions), "notActions": orEmpty(r.NotActions), "dataActions": []any{}, "notDataActions": []any{}})
		}
		out = values(all)
	})
	return out, err
}

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

func groupDocument(g azure.ResourceGroup) map[string]any {
	doc := map[string]any{
		"id": g.ID().String(), "name": g.Name, "type": "Microsoft.Resources/resourceGroups", "location": g.Location,
		"properties": map[string]any{"provisioningState": document.Succeeded},
	}
	if g.Tags != nil {
		doc["tags"] = g.Tags
	}
	return doc
}

func (h *Handler) groups(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var all []azure.ResourceGroup
		if all, err = c.ResourceGroups(&req.by, req.id.Subscription); err != nil {
			return
		}
		docs := make([]map[string]any, 0, len(all))
		for _, g := range all {
			docs = append(docs, groupDocument(g))
		}
		out, err = h.page(req, docs)
	})
	return out, err
}

func (h *Handler) group(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var g azure.ResourceGroup
		g, err = c.ResourceGroup(&req.by, req.id)
		out = ok(groupDocument(g))
		if req.Method == http.MethodHead {
			out = answer{status: http.StatusNoContent}
		}
	})
	return out, err
}

func (h *Handler) putGroup(req *request) (answer, error) {
	var body struct {
		Location string            `json:"location"`
		Tags     map[string]string `json:"tags"`
	}
	if err := req.decode(&body); err != nil {
		return answer{}, err
	}
	var out answer
	err := h.change(req, func(c *azure.Cloud, w azure.Write) error {
		g, created, err := c.PutGroup(w, req.id, body.Location, body.Tags)
		out = ok(groupDocument(g))
		if created {
			out.status = http.StatusCreated
		}
		return err
	})
	return out, err
}

func (h *Handler) deleteGroup(req *request) (answer, error) {
	return answer{status: http.StatusOK}, h.change(req, func(c *azure.Cloud, w azure.Write) error { return c.DeleteGroup(w, req.id) })
}

func tagsDocument(id document.ID, tags map[string]string) answer {
	if tags == nil {
		tags = map[string]string{}
	}
	return ok(map[string]any{
		"id": id.String() + "/providers/Microsoft.Resources/tags/default", "name": "default", "type": "Microsoft.Resources/tags",
		"properties": map[string]any{"tags": tags},
	})
}

func (h *Handler) tags(req *request) (out answer, err error) {
	h.read(func(c *azure.Cloud) {
		var tags map[string]string
		tags, err = c.Tags(&req.by, req.id)
		out = tagsDocument(req.id, tags)
	})
	return out, err
}

func (h *Handler) updateTags(req *request) (answer, error) {
	var body struct {
		Operation  string `json:"operation"`
		Properties struct {
			Tags map[string]string `json:"tags"`
		} `json:"properties"`
	}
	if err := req.decode(&body); err != nil {
		return answer{}, err
	}
	operation := azure.TagsReplace
	if req.Method == http.MethodPatch {
		operation = ""
		for _, known := range []string{azure.TagsMerge, azure.TagsReplace, azure.TagsDelete} {
			if strings.EqualFold(body.Operation, known) {
				operation = known
			}
		}
	}
	if operation == "" {
		return answer{}, document.Refuse(http.StatusBadRequest, "InvalidTagsOperation", "The operation '%s' is not one of Merge, Replace, Delete.", body.Operation)
	}
	var out answer
	err := h.change(req, func(c *azure.Cloud, w azure.Write) error {
		tags, err := c.UpdateTags(w, req.id, operation, body.Properties.Tags)
		out = tagsDocument(req.id, tags)
		return err
	})
	return out, err
}

func (h *Handler) lock(req *request, name string) (answer, error) {
	var body struct {
		Properties struct {
			Level string `json:"level"`
		} `json:"properties"`
	}
	if req.Method == http.MethodPut {
		if err := req.decode(&body); err != nil {
			return answer{}, err
		}
	}
	l := azure.Lock{Scope: req.id.String(), Name: name, Level: body.Properties.Level}
	err := h.change(req, func(c *azure.Cloud, w azure.Write) error { return c.SetLock(w, l) })
	return ok(map[string]any{
		"id": l.Scope + "/providers/Microsoft.Authorization/locks/" + name, "name": name, "type": "Microsoft.Authorization/locks",
		"properties": map[string]any{"level": l.Level},
	}), err
}

func (h *Handler) provider(req *request, namespace string, register bool) (answer, error) {
	registered := false
	var err error
	if register {
		err = h.change(req, func(c *azure.Cloud, w azure.Write) error { return c.Register(w, req.id.Subscription, namespace) })
		registered = true
	} else {
		h.read(func(c *azure.Cloud) { registered, err = c.Registered(&req.by, req.id.Subscription, namespace) })
	}
	state := "NotRegistered"
	if registered {
		state = "Registered"
	}
	return ok(map[string]any{
		"id": "/subscriptions/" + req.id.Subscription + "/providers/" + namespace, "namespace": namespace, "registrationState": state, "resourceTypes": []any{},
	}), err
}
