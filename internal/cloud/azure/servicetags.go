package azure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/nephele-io/nephele/internal/cloud"
)

const callServiceTags = "Microsoft.Network/locations/serviceTags/read"

// tagsFor is how long a list of service tags is good for. The answer has some megabytes. Azure
// changes it about once a week, and uses no new address before a week has passed
// (https://learn.microsoft.com/azure/virtual-network/service-tags-overview).
const tagsFor = time.Hour

// serviceTags are the service tags as they were last read. All regions tell the same: a region only
// says where to ask.
type serviceTags struct {
	mu sync.Mutex
	at time.Time
	// tags is replaced as a whole, and never written to: snapshots share it.
	tags map[string][]netip.Prefix
}

// get returns the service tags, which it reads again once they are too old. With an error they are
// those that were last read; nil if none ever were.
func (t *serviceTags) get(ctx context.Context, a *Account, region string) (map[string][]netip.Prefix, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := a.cfg.Now()
	if age := now.Sub(t.at); t.tags != nil && age >= 0 && age < tagsFor {
		return t.tags, nil
	}
	tags, err := a.readServiceTags(ctx, region)
	if err != nil {
		return t.tags, err
	}
	t.tags, t.at = tags, now
	return tags, nil
}

// readServiceTags reads all service tags: whole lists, or an error.
func (a *Account) readServiceTags(ctx context.Context, region string) (map[string][]netip.Prefix, error) {
	answer, err := a.network.tags.List(ctx, region, nil)
	if err != nil {
		return nil, classify(callServiceTags, err, a.cfg.Now())
	}
	fail := func(err error) (map[string][]netip.Prefix, error) {
		return nil, &cloud.Error{Class: cloud.Unavailable, Call: callServiceTags, Err: err}
	}
	if answer.NextLink != nil && *answer.NextLink != "" {
		return fail(errors.New("the answer goes on elsewhere, which Azure does not document"))
	}
	out, total := map[string][]netip.Prefix{}, 0
	for _, v := range answer.Values {
		name, blocks, err := blocksOf(v)
		if err != nil {
			return fail(err)
		}
		if total += len(blocks) + 1; total > a.cfg.Bounds.Objects {
			return nil, bounded(&cloud.BoundError{What: "the service tags have", Bound: int64(a.cfg.Bounds.Objects), Unit: "addresses", Flag: "--max-objects"})
		}
		out[name] = blocks
	}
	return out, nil
}

// blocksOf are the name and the addresses of a service tag, sorted, each once.
func blocksOf(v *armnetwork.ServiceTagInformation) (string, []netip.Prefix, error) {
	if v == nil || v.Name == nil || *v.Name == "" {
		return "", nil, errors.New("a service tag has no name")
	}
	if v.Properties == nil {
		return *v.Name, nil, nil
	}
	var out []netip.Prefix
	for _, text := range v.Properties.AddressPrefixes {
		if text == nil {
			continue
		}
		p, err := netip.ParsePrefix(*text)
		if err != nil {
			return "", nil, fmt.Errorf("service tag %s: %q is no block of addresses", cloud.Words(*v.Name), cloud.Words(*text))
		}
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return *v.Name, slices.Compact(out), nil
}
