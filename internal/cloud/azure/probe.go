package azure

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/nephele-io/nephele/internal/cloud"
)

var _ cloud.Prober = (*Account)(nil)

const (
	callPermissions    = "Microsoft.Authorization/permissions/read"
	permissionsVersion = "2022-04-01"
	// probedGroups bounds the resource groups that are asked about.
	probedGroups = 20
)

// permission is what one role gives its holder at a scope.
type permission struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions"`
}

// Probe implements cloud.Prober. Azure has no calls on trial; it tells what the caller may do at a
// scope. Config.Rights are held against that, at each resource group with networks or interfaces;
// without a snapshot, at the subscription.
func (a *Account) Probe(ctx context.Context, _ cloud.Scope, on *cloud.Snapshot) (cloud.Probed, error) {
	var out cloud.Probed
	scopes := probedScopes(on)
	for i, scope := range scopes {
		if i == probedGroups {
			out.Trials = append(out.Trials, cloud.Trial{Action: "rights", Untried: cloud.Counted(len(scopes)-i, "further resource group") + " were not asked about"})
			break
		}
		path, name := scope, "resource group "+scope[strings.LastIndexByte(scope, '/')+1:]
		if path == "" {
			path, name = "/subscriptions/"+a.cfg.Credential.SubscriptionID, "the subscription"
		}
		given, date, err := a.permissions(ctx, path)
		if at := a.cfg.Now(); !date.IsZero() && out.CloudTime.IsZero() {
			out.CloudTime, out.LocalTime = date, at
		}
		if err = classify(callPermissions, err, a.cfg.Now()); err != nil {
			var refused *cloud.Error
			if !errors.As(err, &refused) || !refused.Denied {
				return out, err
			}
			out.Trials = append(out.Trials, cloud.Trial{Action: callPermissions, On: name, Denied: true})
			out.Trials = append(out.Trials, cloud.Trial{Action: "the other rights", On: name, Untried: "Azure does not tell which there are without it"})
			continue
		}
		for _, right := range a.cfg.Rights {
			out.Trials = append(out.Trials, cloud.Trial{Action: right, On: name, Denied: !permits(given, right)})
		}
	}
	return out, nil
}

// probedScopes are the ids of the resource groups of a snapshot, sorted; one empty for the
// subscription.
func probedScopes(on *cloud.Snapshot) []string {
	groups := map[string]bool{}
	if on != nil {
		for i := range on.Networks {
			groups[groupOf(on.Networks[i].ID)] = true
		}
		for i := range on.Interfaces {
			if on.Interfaces[i].VMID != "" {
				groups[groupOf(on.Interfaces[i].ID)] = true
			}
		}
	}
	delete(groups, "")
	if len(groups) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(groups))
}

// groupOf is the id of the resource group of a resource.
func groupOf(id string) string {
	scope, _, ok := strings.Cut(id, "/providers/")
	if !ok {
		return ""
	}
	return scope
}

// permissions asks what the caller may do at a scope, and what time the cloud has.
func (a *Account) permissions(ctx context.Context, scope string) (given []permission, date time.Time, err error) {
	next := scope + "/providers/Microsoft.Authorization/permissions?api-version=" + permissionsVersion
	r, err := runtime.NewRequest(ctx, http.MethodGet, strings.TrimSuffix(a.tags.inner.Endpoint(), "/")+next)
	if err != nil {
		return nil, date, err
	}
	resp, err := a.tags.inner.Pipeline().Do(r)
	if err != nil {
		return nil, date, err
	}
	defer resp.Body.Close()
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		date = at
	}
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		return nil, date, runtime.NewResponseError(resp)
	}
	var answer struct {
		Value []permission `json:"value"`
	}
	err = runtime.UnmarshalAsJSON(resp, &answer)
	return answer.Value, date, err
}

// permits reports whether one of the roles gives a right.
func permits(given []permission, right string) bool {
	return slices.ContainsFunc(given, func(p permission) bool {
		match := func(pattern string) bool { return like(strings.ToLower(pattern), strings.ToLower(right)) }
		return slices.ContainsFunc(p.Actions, match) && !slices.ContainsFunc(p.NotActions, match)
	})
}

// like matches * with any text.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == text
	}
	text, found := strings.CutPrefix(text, parts[0])
	if !found {
		return false
	}
	for _, part := range parts[1:last] {
		// The earliest place leaves most for the parts that follow.
		if _, text, found = strings.Cut(text, part); !found {
			return false
		}
	}
	return strings.HasSuffix(text, parts[last])
}
