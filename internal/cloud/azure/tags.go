package azure

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// tagsClient changes single tags of any resource. PATCH of a resource replaces all of them, and
// would undo what others do at the same time.
type tagsClient struct{ inner *arm.Client }

const tagsVersion = "2021-04-01"

func newTagsClient(credential azcore.TokenCredential, o *arm.ClientOptions) (*tagsClient, error) {
	c, err := arm.NewClient("nephele", "v1.0.0", credential, o)
	return &tagsClient{c}, err
}

func (c *tagsClient) update(ctx context.Context, id, operation string, tags map[string]string) error {
	r, err := runtime.NewRequest(ctx, http.MethodPatch, runtime.JoinPaths(c.inner.Endpoint(), id, "/providers/Microsoft.Resources/tags/default"))
	if err != nil {
		return err
	}
	r.Raw().URL.RawQuery = "api-version=" + tagsVersion
	if err := runtime.MarshalAsJSON(r, map[string]any{"operation": operation, "properties": map[string]any{"tags": tags}}); err != nil {
		return err
	}
	resp, err := c.inner.Pipeline().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		return runtime.NewResponseError(resp)
	}
	return nil
}

// The operations of the Tags API that are used.
const (
	mergeTags  = "Merge"
	deleteTags = "Delete"
)

const callTags = "Microsoft.Resources/tags/write"

// Tag sets tags on objects and leaves other tags alone. It may fail having tagged some of them.
func (a *Account) Tag(ctx context.Context, ids []string, tags map[string]string) error {
	return a.updateTags(ctx, ids, mergeTags, tags)
}

// Untag removes tags of these names from objects.
func (a *Account) Untag(ctx context.Context, ids []string, names []string) error {
	tags := map[string]string{}
	for _, n := range names {
		tags[n] = ""
	}
	return a.updateTags(ctx, ids, deleteTags, tags)
}

func (a *Account) updateTags(ctx context.Context, ids []string, operation string, tags map[string]string) error {
	if len(tags) == 0 {
		return nil
	}
	for _, id := range ids {
		if !a.owns(id) {
			return &cloud.Error{Class: cloud.Terminal, Call: callTags, Err: errors.New(id + " is not of the account's subscription")}
		}
	}
	// Every object takes a call of its own. The calls of one op run in parallel, so that the rate
	// of the cloud decides how long they take, and not the delay of answers.
	errs := make([]error, len(ids))
	slots := make(chan struct{}, tagsAtOnce)
	var wg sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			written := make(map[string]string, len(tags))
			own := a.spellings.spelled(id, tags)
			for _, name := range slices.Sorted(maps.Keys(own)) {
				written[resources.TagName(name)] = own[name]
			}
			err := recovered.Call(func() error { return a.tags.update(ctx, id, operation, written) })
			errs[i] = classify(callTags, err, a.cfg.Now())
		})
	}
	wg.Wait()
	var missing error
	for _, err := range errs {
		switch {
		case err == nil:
		case cloud.ClassOf(err) != cloud.NotFound:
			return err
		case operation != deleteTags:
			missing = err // the others are tagged none the less
		}
	}
	return missing
}

// tagsAtOnce bounds the calls of one op that are on their way.
const tagsAtOnce = 8

// owns reports whether an id is of the subscription. Ids come back from the cloud; what is written
// to must be ours to write.
func (a *Account) owns(id string) bool {
	return strings.HasPrefix(strings.ToLower(id), "/subscriptions/"+strings.ToLower(a.cfg.Credential.SubscriptionID)+"/")
}
