package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/printed"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
	"github.com/nephele-io/nephele/internal/platform/unicodetext"
)

// Description is what files tell of subscriptions: answers of Resource Graph, lists of Resource
// Manager, and what the az command line prints of single kinds. Its subscriptions are read as a
// real one's answers are, but nothing is called, so that what it leaves out is an error. It is
// immutable but for Add, and safe for concurrent use after that.
type Description struct {
	rows    map[string]resources.Row // by id in lower case
	sources map[string]string        // the documents that tell them
	// totals are the answers that come in several documents, by how much they say that there is.
	totals map[int64]*parts
	// tags are the service tags, by name; nil if no document tells any.
	tags map[string][]netip.Prefix
}

// parts is an answer of Resource Graph that comes in several documents.
type parts struct {
	source string
	ids    map[string]bool
}

// graphDocument is a document: of Resource Graph, as it is served and as "az graph query" prints
// it, or of Resource Manager.
type graphDocument struct {
	Data      json.RawMessage `json:"data"`
	Total     *int64          `json:"totalRecords"`
	TotalAz   *int64          `json:"total_records"`
	Truncated string          `json:"resultTruncated"`
	Value     json.RawMessage `json:"value"`
	NextLink  string          `json:"nextLink"`
	// Cloud and Values are what a list of service tags has.
	Cloud  string          `json:"cloud"`
	Values json.RawMessage `json:"values"`
}

// ReadDescription reads a file, or all .json files of a folder and below. They must be whole.
func ReadDescription(name string) (*Description, error) {
	d := &Description{}
	err := filepath.WalkDir(name, func(path string, at fs.DirEntry, err error) error {
		if err != nil || at.IsDir() || path != name && !strings.HasSuffix(path, ".json") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, err := unicodetext.Decode(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return d.Add(path, text)
	})
	if err == nil {
		err = d.Check()
	}
	return d, err
}

// Add takes a document. source says where it is from, and appears in errors only.
func (d *Description) Add(source string, document []byte) error {
	if d.rows == nil {
		d.rows, d.sources, d.totals = map[string]resources.Row{}, map[string]string{}, map[int64]*parts{}
	}
	list := json.RawMessage(bytes.TrimSpace(document))
	total := int64(-1)
	if bytes.HasPrefix(list, []byte("{")) {
		var a graphDocument
		if err := json.Unmarshal(list, &a); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		switch {
		case a.Cloud != "" && a.Values != nil:
			return d.addTags(source, a.Values)
		case a.NextLink != "":
			return fmt.Errorf("%s: it goes on at its nextLink, so it is not whole", source)
		case a.Data != nil:
			list = a.Data
			if a.Total = cmpOr(a.Total, a.TotalAz); a.Total != nil {
				total = *a.Total
			} else if strings.EqualFold(a.Truncated, "true") {
				return fmt.Errorf("%s: the answer is cut off, and does not say how much there is", source)
			}
		case a.Value != nil:
			list = a.Value
		default:
			return fmt.Errorf("%s: it is no answer of Resource Graph ({\"data\": [...]}) and no list of Resource Manager ({\"value\": [...]})", source)
		}
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return fmt.Errorf("%s: it is not a list of resources: %w", source, err)
	}
	rows := make([]resources.Row, len(raw))
	for i := range raw {
		text, err := printed.Whole(raw[i])
		if err == nil {
			err = json.Unmarshal(text, &rows[i])
		}
		if err != nil {
			return fmt.Errorf("%s: it is not a list of resources: %w", source, err)
		}
	}
	return d.add(source, total, rows)
}

// addTags takes an answer about service tags, as "az network list-service-tags" prints it.
func (d *Description) addTags(source string, values json.RawMessage) error {
	var tags []*printedTag
	if err := json.Unmarshal(values, &tags); err != nil {
		return fmt.Errorf("%s: it is not a list of service tags: %w", source, err)
	}
	if d.tags == nil {
		d.tags = map[string][]netip.Prefix{}
	}
	for _, t := range tags {
		name, blocks, err := blocksOf(t.information())
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		d.tags[name] = blocks
	}
	return nil
}

// printedTag is a service tag as the az command line prints it, which may leave out the member
// "properties" and put its members in its place.
type printedTag struct {
	Name       string      `json:"name"`
	Properties *printedTag `json:"properties"`
	Prefixes   []*string   `json:"addressPrefixes"`
}

func (t *printedTag) information() *armnetwork.ServiceTagInformation {
	if t == nil {
		return nil
	}
	prefixes := t.Prefixes
	if t.Properties != nil {
		prefixes = t.Properties.Prefixes
	}
	return &armnetwork.ServiceTagInformation{Name: &t.Name, Properties: &armnetwork.ServiceTagInformationPropertiesFormat{AddressPrefixes: prefixes}}
}

func cmpOr(a, b *int64) *int64 {
	if a != nil {
		return a
	}
	return b
}

func (d *Description) add(source string, total int64, rows []resources.Row) error {
	if int64(len(rows)) < total && d.totals[total] == nil {
		d.totals[total] = &parts{source, map[string]bool{}}
	}
	for _, r := range rows {
		key := strings.ToLower(r.ID)
		if int64(len(rows)) < total {
			d.totals[total].ids[key] = true
		}
		at, ok := resources.ParsePlace(r.ID)
		if !ok || !slices.Contains(resources.Kinds(), at.Kind) && !resources.IsService(at.Kind) {
			continue // of a kind that no snapshot is made of
		}
		if !bytes.HasPrefix(bytes.TrimSpace(r.Properties), []byte("{")) || r.Location == "" {
			return fmt.Errorf(
				"%s: %s has no properties or no location: want whole resources, as Resource Graph, Resource Manager or \"az ... list -o json\" tell them",
				source,
				cloud.Words(r.ID),
			)
		}
		r.Type = at.Kind
		if old, twice := d.rows[key]; twice && !alike(old, r) {
			return fmt.Errorf("%s: %s is in %s, too, and not alike: leave one of the two out", source, cloud.Words(r.ID), d.sources[key])
		}
		d.rows[key], d.sources[key] = r, source
		if bound := DefaultBounds().Objects; len(d.rows) > bound {
			return fmt.Errorf("%s: there are more than %d resources", source, bound)
		}
	}
	return nil
}

func alike(a, b resources.Row) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(one, other)
}

// Check returns what is missing of answers that come in parts.
func (d *Description) Check() error {
	if len(d.rows) == 0 {
		return errors.New("there is no resource of Azure in it: want the answer of Resource Graph for a subscription")
	}
	for total, part := range d.totals {
		if int64(len(part.ids)) < total {
			return fmt.Errorf(
				"%s: %d of %d resources are told: want all parts of the answer (az graph query --first 1000, and --skip-token for the next ones)",
				part.source,
				len(part.ids),
				total,
			)
		}
	}
	return nil
}

// Subscriptions are the ids of the subscriptions, sorted.
func (d *Description) Subscriptions() []string {
	out := map[string]bool{}
	for key := range d.rows {
		out[resources.SubscriptionOf(key)] = true
	}
	return slices.Sorted(maps.Keys(out))
}

// Account returns a subscription as a provider that can only be observed. The quotas are the quotas
// of the account, nil for Azure's own.
func (d *Description) Account(subscription string, quotas *v1alpha1.AzureQuotas, now func() time.Time) cloud.Provider {
	return &described{Description: d, subscription: strings.ToLower(subscription), room: resources.RoomOf(quotas), now: now}
}

type described struct {
	*Description
	subscription string
	room         resources.Room
	now          func() time.Time
	// services are the kinds of those that snapshots show.
	services []resources.ServiceKind
	// shownTags says that they show service tags.
	shownTags bool
}

// Show implements cloud.ServiceShower.
func (d *described) Show(kinds []cloud.ServiceKind) cloud.Provider {
	out := *d
	out.services, out.shownTags = resources.Among(kinds), slices.Contains(kinds, cloud.ServiceTag)
	return &out
}

// Apply implements cloud.Provider. Nothing is changed.
func (d *described) Apply(_ context.Context, _ cloud.Scope, op cloud.Op) (string, error) {
	return "", refuse(op, "a description cannot be changed")
}

// Limits implements cloud.Provider: they are the cloud's defaults.
func (d *described) Limits(context.Context, cloud.Scope) (cloud.Limits, error) {
	return resources.Limits(d.room), nil
}

// Observe implements cloud.Provider.
func (d *described) Observe(_ context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	fail := func(format string, args ...any) (*cloud.Snapshot, error) {
		return nil, &cloud.Error{Class: cloud.Terminal, Call: resources.CallGraph, Err: fmt.Errorf(format, args...)}
	}
	region := regionName(s.Region)
	if err := checkRegion(region); err != nil {
		return nil, err
	}
	w := resources.NewRegion(d.subscription, d.room)
	regions := map[string]bool{}
	take := func(key string) error {
		r := d.rows[key]
		if err := w.Add(&r); err != nil {
			return fmt.Errorf("%s: %s: %w", d.sources[key], cloud.Words(r.ID), err)
		}
		return nil
	}
	var services []resources.Row
	for _, key := range slices.Sorted(maps.Keys(d.rows)) {
		if resources.SubscriptionOf(key) != d.subscription {
			continue
		}
		if r := d.rows[key]; resources.IsService(r.Type) {
			if regionName(r.Location) == region {
				services = append(services, r)
			}
			continue
		}
		regions[regionName(d.rows[key].Location)] = true
		if regionName(d.rows[key].Location) != region {
			continue
		}
		if err := take(key); err != nil {
			return fail("%w", err)
		}
	}
	if !regions[region] {
		return fail("there is nothing of the region %s; there is of %s", region, strings.Join(slices.Sorted(maps.Keys(regions)), ", "))
	}
	for again := true; again; {
		again = false
		var missing []string
		for _, id := range slices.Concat(w.Missing(), w.Undescribed()) {
			switch _, told := d.rows[id]; {
			case told:
				if err := take(id); err != nil {
					return fail("%w", err)
				}
				again = true
			case !w.OnlyRemembered(id):
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 && !again {
			return fail("%d resources that others name are not told, the first is %s: want the whole subscription", len(missing), cloud.Words(missing[0]))
		}
	}
	w.Join(services)
	snap := w.Snapshot()
	w.AddServices(snap, d.services, services, nil)
	if d.shownTags {
		snap.ServiceTags = d.tags
		if d.tags == nil {
			snap.ServiceFaults = append(snap.ServiceFaults, cloud.ServiceFault{
				API: "service tags", Right: callServiceTags, Kinds: []cloud.ServiceKind{cloud.ServiceTag},
				Err: &cloud.Error{Class: cloud.Unavailable, Call: callServiceTags, Err: errors.New("no file has what az network list-service-tags prints")},
			})
		}
	}
	snap.Scope, snap.OwnerID, snap.ObservedAt = s, d.subscription, d.now()
	return snap, nil
}
