package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// clash is a name of an object that several VMs of an account would have: where ids are paths
// (Azure), the name has their sum only, and who may make VMs can choose one. The VM that has the
// object keeps it. The others are not imported, and that is told.
type clash struct {
	// has is the id of the VM that has the object, others are those of the VMs that do not, sorted.
	has    string
	others []string
}

// mostOthers bounds the VMs that a message names.
const mostOthers = 3

func (c clash) message(key types.NamespacedName) string {
	named := strings.Join(c.others[:min(len(c.others), mostOthers)], ", ")
	if more := len(c.others) - mostOthers; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf(
		"VirtualMachine %s stands for %s. It would stand for %s, too, which is not imported: no policy is enforced there. A virtual machine with another name has an object of its own",
		key,
		c.has,
		named,
	)
}

// holderOf is the id of the VM that an object stands for already; empty if there is none.
func (v view) holderOf(key types.NamespacedName) string {
	if v.holder == nil {
		return ""
	}
	return v.holder(key)
}

// meansVM reports whether an object that exists is about the VM: it may be that of another one with
// the same name.
func (v view) meansVM(key types.NamespacedName, id string) bool {
	holder := v.holderOf(key)
	return holder == "" || holder == id
}

// prevails decides which of two VMs has the object that is there for one of them, and reports
// whether it is the one with this id. The object is removed then.
func (d *desired) prevails(v view, key types.NamespacedName, id string) bool {
	first := d.vms[key].Status.CloudId
	switch {
	case first == id: // the same one, shown twice
		return false
	case v.holderOf(key) != id:
		d.lose(key, first, id)
		return false
	}
	d.drop(key)
	d.lose(key, id, first)
	return true
}

// lose notes that a VM does not have the object that another one has.
func (d *desired) lose(key types.NamespacedName, has, other string) {
	c := d.clashes[key]
	c.has = has
	if at, found := slices.BinarySearch(c.others, other); !found {
		c.others = slices.Insert(c.others, at, other)
	}
	d.clashes[key] = c
}

// drop removes the objects of a VM.
func (d *desired) drop(key types.NamespacedName) {
	entity := types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.EntityNamePrefix + key.Name}
	delete(d.vms, key)
	delete(d.entities, entity)
	delete(d.nodes, entity)
	delete(d.refs, entity)
}

// yield leaves their objects to VMs that nothing shows at present and whose objects are kept.
func (d *desired) yield(there map[types.NamespacedName]*v1alpha1.VirtualMachine, keep func(region, namespace string) bool) {
	for key, held := range there {
		vm := d.vms[key]
		if vm == nil || held.Status.CloudId == "" || held.Status.CloudId == vm.Status.CloudId || !keep(held.Status.Region, key.Namespace) {
			continue
		}
		d.drop(key)
		d.lose(key, held.Status.CloudId, vm.Status.CloudId)
	}
}

// contested reports whether VMs that have changed have names that others have, too. Then they
// cannot be looked at by themselves.
func (s *syncer) contested(v view, last *basis, changed map[string]bool) bool {
	if len(last.clashes) > 0 {
		return true
	}
	named := map[string]string{}
	for id := range changed {
		name := machine{vm: &cloud.VM{ID: id}}.objectName()
		if named[name] != "" {
			return true
		}
		named[name] = id
	}
	for key, vm := range s.vms {
		if id := named[key.Name]; id != "" && vm.Status.CloudId != "" && vm.Status.CloudId != id {
			return true
		}
	}
	return false
}

// holder is view.holder from the objects that were read.
func (s *syncer) holder(key types.NamespacedName) string {
	if vm := s.vms[key]; vm != nil {
		return vm.Status.CloudId
	}
	return ""
}

// untold are all objects that should be there and are not as they should, with what is to be said
// about them.
func untold(taken map[types.NamespacedName]string, clashes map[types.NamespacedName]clash) map[types.NamespacedName]string {
	if len(clashes) == 0 {
		return taken
	}
	out := make(map[types.NamespacedName]string, len(taken)+len(clashes))
	for key, c := range clashes {
		out[key] = c.message(key)
	}
	maps.Copy(out, taken)
	return out
}
