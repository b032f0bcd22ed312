package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Instances of a scale set in Flexible orchestration are virtual machines like others. Those in
// Uniform orchestration are parts of the set: another table of Resource Graph tells them, their
// interfaces are reported by Resource Manager only, and all are as the model of the set says. So
// they are shown, as VMs and as peers of others, and cannot be guarded one by one.

const (
	callSetInterfaces = "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read"
	setPart           = "/providers/" + typeSet + "/"
)

// ofSet reports whether an id in lower case is of a part of a scale set.
func ofSet(id string) bool { return strings.Contains(id, setPart) }

// readSets reads the instances of sets in Uniform orchestration, and their interfaces. It calls
// nothing where there are no such sets. Interfaces that the role does not let see are left out.
func (a *Account) readSets(ctx context.Context, w *world, region string) error {
	asked := false
	for _, set := range slices.Sorted(maps.Keys(w.sets)) {
		if !w.sets[set] {
			continue
		}
		if !asked {
			asked = true
			rows, err := a.rows(ctx, queryOf("ComputeResources", region, typeInstance))
			if err != nil {
				return err
			}
			for i := range rows {
				if err := w.add(&rows[i]); err != nil {
					return &cloud.Error{Class: cloud.Unavailable, Call: callGraph, Err: fmt.Errorf("%s: %w", cloud.Words(rows[i].ID), err)}
				}
			}
		}
		if err := a.readSetInterfaces(ctx, w, set); err != nil {
			switch cloud.ClassOf(err) {
			case cloud.NotFound, cloud.Auth:
			default:
				return err
			}
		}
	}
	return nil
}

func (a *Account) readSetInterfaces(ctx context.Context, w *world, set string) error {
	at, err := a.place(set)
	if err != nil {
		return err
	}
	pages := a.network.interfaces.NewListVirtualMachineScaleSetNetworkInterfacesPager(at.group, at.name, nil)
	for page := 1; pages.More(); page++ {
		if page > a.cfg.Bounds.Pages {
			return bounded(&cloud.BoundError{What: "the answer has", Bound: int64(a.cfg.Bounds.Pages), Unit: "pages", Flag: "--max-pages"})
		}
		answer, err := pages.NextPage(ctx)
		if err != nil {
			return classify(callSetInterfaces, err, a.cfg.Now())
		}
		for _, n := range answer.Value {
			var r row
			raw, err := json.Marshal(n)
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			r.Type = typeNIC
			if err == nil && ofSet(strings.ToLower(r.ID)) {
				err = w.add(&r)
			}
			if err != nil {
				return &cloud.Error{Class: cloud.Unavailable, Call: callSetInterfaces, Err: err}
			}
		}
		if len(w.nics) > a.cfg.Bounds.Objects {
			return bounded(&cloud.BoundError{What: "the account has", Bound: int64(a.cfg.Bounds.Objects), Unit: "objects", Flag: "--max-objects"})
		}
	}
	return nil
}
