package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resourcegraph/armresourcegraph"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

// pageRows is how many resources are asked for at a time; Resource Graph gives no more.
const pageRows = 1000

// query asks for all resources of these types.
func query(region string, types ...string) string { return queryOf("Resources", region, types...) }

func queryOf(table, region string, types ...string) string {
	return table + " | where type in~ ('" + strings.Join(types, "', '") + "') and location =~ '" + region +
		"' | project id, name, type, location, tags, sku, properties | order by id asc"
}

// checkRegion refuses what is not the name of a region: anything but its letters and digits would
// be another query.
func checkRegion(region string) error {
	if region == "" || strings.ContainsFunc(region, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return &cloud.Error{Class: cloud.Terminal, Call: resources.CallGraph, Err: fmt.Errorf("%w: %q is not the name of a region, as in westeurope", cloud.ErrRegionUnknown, region)}
	}
	return nil
}

// Observe reads one region: the whole snapshot, or an error. It never returns part of the truth.
func (a *Account) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	return a.observe(ctx, s, nil)
}

// observe reads one region, and its services of these kinds.
func (a *Account) observe(ctx context.Context, s cloud.Scope, services []resources.ServiceKind) (*cloud.Snapshot, error) {
	region := strings.ToLower(strings.ReplaceAll(s.Region, " ", ""))
	if err := checkRegion(region); err != nil {
		return nil, err
	}
	rows, err := a.rows(ctx, query(region, resources.Kinds()...))
	if err != nil {
		return nil, err
	}
	w := resources.NewRegion(a.cfg.Credential.SubscriptionID, resources.RoomOf(a.cfg.Quotas))
	w.Former = a.cfg.Former
	for i := range rows {
		if err := w.Add(&rows[i]); err != nil {
			return nil, &cloud.Error{Class: cloud.Unavailable, Call: resources.CallGraph, Err: fmt.Errorf("%s: %w", cloud.Words(rows[i].ID), err)}
		}
	}
	if err := a.readSets(ctx, w, region); err != nil {
		return nil, err
	}
	if err := a.complete(ctx, w); err != nil {
		return nil, err
	}
	told, err := a.readServices(ctx, region, services)
	if err != nil {
		return nil, err
	}
	w.Join(told)
	a.spellings.learn(w)
	snap := w.Snapshot()
	w.AddServices(snap, services, told, a.lastTold.keep(w, region, services, told))
	snap.Scope, snap.OwnerID, snap.ObservedAt = s, strings.ToLower(a.cfg.Credential.SubscriptionID), a.cfg.Now()
	return snap, nil
}

// rows reads all pages of a query. A page begins after a position in the order of ids; an id that
// comes twice is taken once.
func (a *Account) rows(ctx context.Context, text string) ([]resources.Row, error) {
	var out []resources.Row
	seen := map[string]bool{}
	var token *string
	for page := 1; ; page++ {
		if page > a.cfg.Bounds.Pages {
			return nil, bounded(&cloud.BoundError{What: "the answer has", Bound: int64(a.cfg.Bounds.Pages), Unit: "pages", Flag: "--max-pages"})
		}
		answer, err := a.graph.Resources(ctx, armresourcegraph.QueryRequest{
			Query: to.Ptr(text), Subscriptions: []*string{to.Ptr(a.cfg.Credential.SubscriptionID)},
			Options: &armresourcegraph.QueryRequestOptions{ResultFormat: to.Ptr(armresourcegraph.ResultFormatObjectArray), Top: to.Ptr(int32(pageRows)), SkipToken: token},
		}, nil)
		if err != nil {
			return nil, classify(resources.CallGraph, err, a.cfg.Now())
		}
		if answer.ResultTruncated != nil && *answer.ResultTruncated == armresourcegraph.ResultTruncatedTrue && answer.SkipToken == nil {
			return nil, &cloud.Error{Class: cloud.Unavailable, Call: resources.CallGraph, Err: errors.New("the answer of Resource Graph is cut off, and does not say how to go on")}
		}
		raw, err := json.Marshal(answer.Data)
		if err != nil {
			return nil, &cloud.Error{Class: cloud.Unavailable, Call: resources.CallGraph, Err: err}
		}
		var part []resources.Row
		if err := json.Unmarshal(raw, &part); err != nil {
			return nil, &cloud.Error{Class: cloud.Unavailable, Call: resources.CallGraph, Err: fmt.Errorf("the answer is not a list of resources: %w", err)}
		}
		for _, r := range part {
			if key := strings.ToLower(r.ID); !seen[key] {
				seen[key] = true
				out = append(out, r)
			}
		}
		if len(out) > a.cfg.Bounds.Objects {
			return nil, bounded(&cloud.BoundError{What: "the account has", Bound: int64(a.cfg.Bounds.Objects), Unit: "objects", Flag: "--max-objects"})
		}
		if answer.SkipToken == nil || *answer.SkipToken == "" {
			return out, nil
		}
		if token != nil && *token == *answer.SkipToken {
			return nil, &cloud.Error{
				Class: cloud.Unavailable,
				Call:  resources.CallGraph,
				Err:   errors.New("the answer of Resource Graph goes round in circles: a page names itself as the next one"),
			}
		}
		token = answer.SkipToken
	}
}

func bounded(b *cloud.BoundError) error {
	return &cloud.Error{Class: cloud.Terminal, Call: resources.CallGraph, Err: b}
}

// complete reads directly what the answer names and does not tell: Resource Graph leaves out what
// the role may not read, and what it has not heard of yet. What is not there is let go; what may
// not be read is an error.
func (a *Account) complete(ctx context.Context, w *resources.Region) error {
	tried := map[string]bool{}
	for {
		missing := w.Missing()
		missing = slices.DeleteFunc(missing, func(id string) bool { return tried[strings.ToLower(id)] })
		if len(missing) == 0 {
			return nil
		}
		for _, id := range missing {
			tried[strings.ToLower(id)] = true
			err := a.readInto(ctx, w, id)
			if err != nil && cloud.ClassOf(err) == cloud.Auth && w.OnlyRemembered(id) {
				continue // a bad tag must not keep us from reading the region
			}
			if err != nil {
				return err
			}
		}
		if len(tried) > a.cfg.Bounds.Objects {
			return bounded(&cloud.BoundError{What: "the account has", Bound: int64(a.cfg.Bounds.Objects), Unit: "objects", Flag: "--max-objects"})
		}
	}
}

func (a *Account) place(id string) (resources.Place, error) {
	at, ok := resources.ParsePlace(id)
	if !ok || !a.owns(id) {
		return resources.Place{}, &cloud.Error{Class: cloud.Terminal, Call: resources.CallGraph, Err: fmt.Errorf("%s is not the id of a resource of the subscription", cloud.Words(id))}
	}
	return at, nil
}

// readInto reads one resource directly.
func (a *Account) readInto(ctx context.Context, w *resources.Region, id string) error {
	at, err := a.place(id)
	if err != nil {
		return err
	}
	var value any
	switch at.Kind {
	case resources.TypeVNet:
		var out armnetwork.VirtualNetworksClientGetResponse
		out, err = a.network.networks.Get(ctx, at.Group, at.Name, nil)
		value = out.VirtualNetwork
	case resources.TypeNIC:
		var out armnetwork.InterfacesClientGetResponse
		out, err = a.network.interfaces.Get(ctx, at.Group, at.Name, nil)
		value = out.Interface
	case resources.TypeNSG:
		var out armnetwork.SecurityGroupsClientGetResponse
		out, err = a.network.nsgs.Get(ctx, at.Group, at.Name, nil)
		value = out.SecurityGroup
	case resources.TypeASG:
		var out armnetwork.ApplicationSecurityGroupsClientGetResponse
		out, err = a.network.asgs.Get(ctx, at.Group, at.Name, nil)
		value = out.ApplicationSecurityGroup
	default:
		return nil
	}
	if err != nil {
		err = classify(at.Kind+"/read", err, a.cfg.Now())
		if cloud.ClassOf(err) == cloud.NotFound {
			w.Absent[strings.ToLower(id)] = true
			return nil
		}
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return &cloud.Error{Class: cloud.Unavailable, Call: at.Kind + "/read", Err: err}
	}
	var r resources.Row
	if err := json.Unmarshal(raw, &r); err != nil {
		return &cloud.Error{Class: cloud.Unavailable, Call: at.Kind + "/read", Err: err}
	}
	r.Type = at.Kind
	if err := w.Add(&r); err != nil {
		return &cloud.Error{Class: cloud.Unavailable, Call: at.Kind + "/read", Err: err}
	}
	return nil
}
