package azure

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

// Auditor keeps the record of changes. Its methods are called by any number of goroutines.
type Auditor interface {
	// Begin is called when an attempt of a call that changes something is about to be sent, and the
	// function that it returns when it is over, before anybody acts on the answer. Both keep what
	// they are given before they return.
	Begin(cloud.Call) (end func(cloud.Outcome))
}

// recorder is a policy of the SDK that records every attempt of a call that changes something. An
// operation that the cloud has accepted and that fails later is recorded as accepted: how it ended
// shows in what is observed next.
type recorder struct{ a *Account }

// Do implements policy.Policy.
func (p recorder) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	d, known := opOf(r.Context())
	if !known || r.Method != http.MethodPut && r.Method != http.MethodPatch && r.Method != http.MethodDelete {
		return req.Next()
	}
	cause := cloud.CauseOf(r.Context())
	if cause.Sent != nil {
		cause.Sent()
	}
	if p.a.cfg.Audit == nil {
		return req.Next()
	}
	call := callOf(r, d.op, cause)
	call.Scope, call.OwnerID = d.scope, strings.ToLower(p.a.cfg.Credential.SubscriptionID)
	end := p.a.cfg.Audit.Begin(call)
	resp, err := req.Next()
	var o cloud.Outcome
	if resp != nil {
		o.RequestID = cmp.Or(resp.Header.Get("x-ms-request-id"), resp.Header.Get("x-ms-correlation-request-id"))
	}
	failed := err
	if err == nil && resp.StatusCode >= 300 {
		failed = runtime.NewResponseError(resp)
	}
	if failed != nil && !errors.As(classify(call.Name, failed, p.a.cfg.Now()), &o.Err) {
		o.Err = &cloud.Error{Class: cloud.Unavailable, Call: call.Name, Err: failed}
	}
	if o.Err == nil && d.op.Kind == cloud.OpCreateGroup && call.Name == callNSG {
		o.Created = strings.ToLower(r.URL.Path)
	}
	end(o)
	return resp, err
}

// callOf says what a call changes.
func callOf(r *http.Request, op cloud.Op, cause cloud.Cause) cloud.Call {
	path := strings.ToLower(r.URL.Path)
	c := cloud.Call{Name: nameOfCall(r.Method, path), Policies: cause.Policies, Reason: cmp.Or(op.Reason, "as planned"), Objects: []string{path}}
	switch op.Kind {
	case cloud.OpCreateGroup:
		c.Objects, c.After.Name = []string{op.Group.NetworkID + "/" + op.Group.Name}, op.Group.Name
		c.After.Tags = map[string]map[string]string{c.Objects[0]: op.Group.Tags}
	case cloud.OpDeleteGroup:
		c.Before.Name = op.Group.Name
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpSetRules:
		c.Before.Rules, c.After.Rules = texts(op.Removed()), texts(op.Added())
	case cloud.OpReplaceRules:
		c.Before.Rules, c.After.Rules = texts(op.Replaced), texts(op.Rules)
	case cloud.OpSetInterfaceGroups:
		c.Before.Groups, c.After.Groups = cause.Groups, slices.Sorted(slices.Values(op.GroupIDs))
	case cloud.OpTag, cloud.OpUntag:
		object, _, _ := strings.Cut(path, "/providers/microsoft.resources/tags/")
		c.Objects = []string{object}
		c.Before.Tags = maps.Clone(cause.Tags)
		maps.DeleteFunc(c.Before.Tags, func(id string, _ map[string]string) bool { return id != object })
		if op.Kind == cloud.OpTag {
			c.After.Tags = map[string]map[string]string{object: op.Tags}
		}
	}
	return c
}

func texts(rules []cloud.Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.Key().String())
	}
	return out
}

// nameOfCall is Azure's name of the operation.
func nameOfCall(method, path string) string {
	verb := "write"
	switch method {
	case http.MethodDelete:
		verb = "delete"
	case http.MethodGet, http.MethodHead:
		verb = "read"
	}
	switch {
	case strings.HasSuffix(path, "/providers/microsoft.resourcegraph/resources"):
		return resources.CallGraph
	case strings.Contains(path, "/providers/microsoft.network/locations/"):
		return "Microsoft.Network/locations/operations/" + verb
	case strings.Contains(path, "/providers/microsoft.resources/tags/"):
		return callTags
	case strings.Contains(path, resources.NSGPart):
		return "Microsoft.Network/networkSecurityGroups/" + verb
	case strings.Contains(path, resources.ASGPart):
		return "Microsoft.Network/applicationSecurityGroups/" + verb
	case strings.Contains(path, "/providers/microsoft.network/networkinterfaces/"):
		return "Microsoft.Network/networkInterfaces/" + verb
	case strings.Contains(path, "/providers/"+resources.TypeRouteTable+"/"):
		if strings.Contains(path, "/routes/") {
			return "Microsoft.Network/routeTables/routes/" + verb
		}
		return "Microsoft.Network/routeTables/" + verb
	}
	return strings.ToLower(method)
}
