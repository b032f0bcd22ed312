package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

// Instances of a scale set in Flexible orchestration are virtual machines like others. Instances in
// Uniform orchestration are parts of the set: they are in another table of Resource Graph, only
// Resource Manager lists their interfaces, and the model of the set configures them all. So they
// appear as VMs and as peers, but cannot be guarded one by one.

const callSetInterfaces = "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read"

// readSets reads the instances of sets in Uniform orchestration, and their interfaces. It calls
// nothing where there are no such sets. Interfaces that the role does not let see are left out.
func (a *Account) readSets(ctx context.Context, w *resources.Region, region string) error {
	asked := false
	for _, set := range slices.Sorted(maps.Keys(w.Sets)) {
		if !w.Sets[set] {
			continue
		}
		if !asked {
			asked = true
			rows, err := a.rows(ctx, queryOf("ComputeResources", region, resources.TypeInstance))
			if err != nil {
				return err
			}
			for i := range rows {
				if err := w.Add(&rows[i]); err != nil {
					return &cloud.Error{Class: cloud.Unavailable, Call: resources.CallGraph, Err: fmt.Errorf("%s: %w", cloud.Words(rows[i].ID), err)}
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

func (a *Account) readSetInterfaces(ctx context.Context, w *resources.Region, set string) error {
	at, err := a.place(set)
	if err != nil {
		return err
	}
	pages := a.network.interfaces.NewListVirtualMachineScaleSetNetworkInterfacesPager(at.Group, at.Name, nil)
	for page := 1; pages.More(); page++ {
		if page > a.cfg.Bounds.Pages {
			return bounded(&cloud.BoundError{What: "the answer has", Bound: int64(a.cfg.Bounds.Pages), Unit: "pages", Flag: "--max-pages"})
		}
		answer, err := pages.NextPage(ctx)
		if err != nil {
			return classify(callSetInterfaces, err, a.cfg.Now())
		}
		for _, n := range answer.Value {
			var r resources.Row
			raw, err := json.Marshal(n)
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			r.Type = resources.TypeNIC
			if err == nil && resources.OfSet(strings.ToLower(r.ID)) {
				err = w.Add(&r)
			}
			if err != nil {
				return &cloud.Error{Class: cloud.Unavailable, Call: callSetInterfaces, Err: err}
			}
		}
		if len(w.NICs) > a.cfg.Bounds.Objects {
			return bounded(&cloud.BoundError{What: "the account has", Bound: int64(a.cfg.Bounds.Objects), Unit: "objects", Flag: "--max-objects"})
		}
	}
	return nil
}
