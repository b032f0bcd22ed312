package azure

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
	"github.com/nephele-io/nephele/internal/cloud/pace"
)

// The buckets that Azure documents: of Resource Manager one per subscription and principal, of the
// network provider one per subscription, of Resource Graph one per principal.
const (
	bucketReads         = "reads"
	bucketWrites        = "writes"
	bucketDeletes       = "deletes"
	bucketNetworkReads  = "network reads"
	bucketNetworkWrites = "network writes and deletes"
	bucketGraph         = "resource graph"
)

// Documented returns the bucket of an action as Azure publishes it: Resource Manager's of a region,
// the network provider's per five minutes, Resource Graph's per five seconds. Calls have no buckets
// of their own: they share these.
func Documented(action string) pace.Rate {
	switch action {
	case bucketReads:
		return pace.Rate{Burst: 250, PerSecond: 25}
	case bucketWrites, bucketDeletes:
		return pace.Rate{Burst: 200, PerSecond: 10}
	case bucketNetworkReads:
		return pace.Rate{Burst: 10_000, PerSecond: 10_000.0 / 300}
	case bucketNetworkWrites:
		return pace.Rate{Burst: 1000, PerSecond: 1000.0 / 300}
	case bucketGraph:
		return pace.Rate{Burst: 15, PerSecond: 3}
	}
	return pace.Rate{}
}

// Call is a call that asks to be let through.
type Call struct {
	// Subscription and Principal are whose buckets it takes from: a principal is a tenant and a
	// client id, or "own" for the identity of the process.
	Subscription, Principal string
	// Action is Azure's name of it.
	Action string
	// Region is where its op works; empty for reads of all regions.
	Region string
}

// Buckets are what a call takes from, of a cloud at an endpoint. The scarcer ones come first.
func (c Call) Buckets(endpoint string) []pace.Key {
	own, all := c.Subscription+" "+c.Principal, c.Subscription
	key := func(owner, bucket string) pace.Key {
		return pace.Key{Endpoint: endpoint, Account: owner, Action: bucket}
	}
	network := strings.HasPrefix(c.Action, "Microsoft.Network/")
	var out []pace.Key
	switch {
	case c.Action == resources.CallGraph:
		return []pace.Key{key(c.Principal, bucketGraph)}
	case strings.HasSuffix(c.Action, "/delete"):
		out = append(out, key(own, bucketDeletes))
	case strings.HasSuffix(c.Action, "/write"):
		out = append(out, key(own, bucketWrites))
	default:
		out = append(out, key(own, bucketReads))
		if network {
			out = append(out, key(all, bucketNetworkReads))
		}
		return out
	}
	if network {
		out = slices.Insert(out, 0, key(all, bucketNetworkWrites))
	}
	return out
}

// principal names the identity of the account, as far as it decides about rates.
func (c Config) principal() string {
	if c.ambient() {
		return "own"
	}
	return strings.ToLower(c.Credential.TenantID + "/" + c.Credential.ClientID)
}

// admission is a policy of the SDK that asks before every attempt of every call to Resource Manager
// whether it may be made.
type admission struct{ a *Account }

// Do implements policy.Policy.
func (p admission) Do(req *policy.Request) (*http.Response, error) {
	if p.a.cfg.Admit == nil {
		return req.Next()
	}
	r := req.Raw()
	call := Call{Subscription: strings.ToLower(p.a.cfg.Credential.SubscriptionID), Principal: p.a.cfg.principal(), Action: nameOfCall(r.Method, strings.ToLower(r.URL.Path))}
	if d, known := opOf(r.Context()); known {
		call.Region = regionName(d.scope.Region)
	}
	done, err := p.a.cfg.Admit(r.Context(), call)
	if err != nil {
		return nil, err
	}
	resp, err := req.Next()
	class, wait := p.a.outcome(call.Action, resp, err)
	done(class, wait)
	return resp, err
}

// outcome is how an attempt ended, for rate limiting. A busy object says nothing about rates,
// although Azure answers with the same status.
func (a *Account) outcome(action string, resp *http.Response, err error) (class cloud.Class, wait time.Duration) {
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = runtime.NewResponseError(resp)
	}
	if err == nil {
		return "", 0
	}
	var e *cloud.Error
	if !errors.As(classify(action, err, a.cfg.Now()), &e) {
		return cloud.Unavailable, 0
	}
	switch {
	case e.Class != cloud.Throttled:
		return e.Class, 0
	case strings.HasPrefix(e.Code, "RetryableError"), e.Code == "OperationNotAllowed":
		return cloud.Conflict, 0
	}
	return e.Class, e.RetryAfter
}
